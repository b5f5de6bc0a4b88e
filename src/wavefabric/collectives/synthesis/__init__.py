"""Schedules found and proved optimal by solvers, for photonic circuits and for electrical links."""

from wavefabric.collectives.synthesis.circuits.schedule import synthesise
from wavefabric.collectives.synthesis.links.schedule import decide_links, least_steps, synthesise_links
from wavefabric.collectives.synthesis.problem import Circuit, Lights, Links, Synthesis, Undecided

__all__ = [
    "Circuit",
    "Lights",
    "Links",
    "Synthesis",
    "Undecided",
    "decide_links",
    "least_steps",
    "synthesise",
    "synthesise_links",
]
