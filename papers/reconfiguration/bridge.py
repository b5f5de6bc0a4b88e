"""Bridge (arXiv:2605.12766): steps of Bruck's algorithm over rings that serve several of them.

Step k sends from u to u + 2^k. Circuits from u to u + 2^a carry it in 2^(k-a) hops, and as many times its
message. Bridge divides the steps into consecutive groups, with the circuits of the first step of each.
"""

from __future__ import annotations

from itertools import combinations
from math import log2

import numpy as np

from wavefabric.fabric.photonic.reconfiguration.search import CircuitProblem, RoundDemand, Topology

#: Messages of each step over the array, for log2(ranks) steps.
MESSAGES = {
    "all-to-all": lambda levels: [0.5] * levels,
    "reduce-scatter": lambda levels: [0.5 ** (k + 1) for k in range(levels)],
    "all-gather": lambda levels: [0.5 ** (levels - k) for k in range(levels)],
}


def problem(collective: str, ranks: int, array: float, hop: float, set_up: float) -> CircuitProblem:
    """With links of 1 B/s; a `hop` in s."""
    levels, rank = round(log2(ranks)), np.arange(ranks)
    topologies = tuple(
        Topology(
            f"+{1 << k}", ranks, np.stack([rank, (rank + (1 << k)) % ranks], 1), np.ones(ranks), (k,) * ranks
        )
        for k in range(levels)
    )
    messages = MESSAGES[collective](levels)
    demands = tuple(
        RoundDemand(topologies[k].ends, np.ones(ranks), array * m) for k, m in enumerate(messages)
    )
    return CircuitProblem(topologies, demands, 1.0, set_up, hop)


def groups(
    collective: str, ranks: int, array: float, hop: float, changes: int
) -> tuple[float, tuple[int, ...]]:
    """The best of Bridge's divisions with so many changes, without set-up: s, and the steps that change."""
    levels, best = round(log2(ranks)), (np.inf, ())
    messages = MESSAGES[collective](levels)
    for cuts in combinations(range(1, levels), changes):
        starts = [max(c for c in (0, *cuts) if c <= k) for k in range(levels)]
        seconds = sum(
            (hop + array * m) * 2.0 ** (k - a) for k, (m, a) in enumerate(zip(messages, starts, strict=True))
        )
        best = min(best, (seconds, cuts))
    return best
