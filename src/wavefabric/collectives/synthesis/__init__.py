"""Synthesise schedules of fewest rounds, and prove them by bounds, known schedules and solvers.

`circuit_search` and `link_search` model what an optical and an electrical network can carry; the rest serves
both. Imports the schedule, its conditions and its proof; no fabric.
"""

from wavefabric.collectives.synthesis.problem import Circuit, Links, OpticalNetwork, Synthesis, Undecided
from wavefabric.collectives.synthesis.synthesise import (
    decide_links,
    least_steps,
    synthesise,
    synthesise_links,
)

__all__ = [
    "Circuit",
    "Links",
    "OpticalNetwork",
    "Synthesis",
    "Undecided",
    "decide_links",
    "least_steps",
    "synthesise",
    "synthesise_links",
]
