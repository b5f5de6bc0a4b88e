"""Find schedules with the fewest rounds, and prove by bounds or solvers that none has fewer.

`circuits` and `link_search` model what an optical and an electrical network can carry; the rest serves
both. Imports `schedule`, `conditions`, `sizes` and `verify` of the parent package; no fabric.
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
