"""Harvest (arXiv:2602.09188): its cases as problems of ours.

Its collectives and costs are those that its authors publish with their code (github.com/STyGIANet/Harvest,
synthesis/collectives.py, synthesis/synthesis.py). Every GPU has one port out and one in. A step sends from u
to u + s for all u at once. It costs a start-up, a delay for each hop, and its bytes over the busiest link. A
change costs a set-up; the first circuits are up before. MB, ms and GB/s.
"""

from __future__ import annotations

from itertools import pairwise
from math import log2

import numpy as np

from wavefabric.fabric.photonic.reconfiguration.search import CircuitProblem, RoundDemand, Topology, shortest

#: Of the schedules of its figure 5: ms of start-up and of a hop, and GB/s of a port.
START_UP, HOP, BANDWIDTH = 5e-4, 5e-4, 100.0


def steps(collective: str, ranks: int) -> tuple[list[float], list[int]]:
    """Fractions of the array that each step sends, and how far."""
    if collective == "all-to-all":
        return [1 / ranks] * (ranks - 1), list(range(1, ranks))
    far = [1 << k for k in range(round(log2(ranks)))]
    there = far if collective == "reduce-scatter" else [*far, *far[::-1]]
    return [0.5 / s for s in there], there


def problem(
    collective: str, ranks: int, array: float, set_up: float, hop: float = HOP, bandwidth: float = BANDWIDTH
) -> CircuitProblem:
    """With the circuits u to u + s of every step to choose from; without start-ups, always the same."""
    (fractions, far), rank = steps(collective, ranks), np.arange(ranks)
    topologies = {
        s: Topology(
            f"+{s}", ranks, np.stack([rank, (rank + s) % ranks], 1), np.full(ranks, bandwidth), (s,) * ranks
        )
        for s in dict.fromkeys(far)
    }
    demands = tuple(
        RoundDemand(topologies[s].ends, np.ones(ranks), array * f)
        for f, s in zip(fractions, far, strict=True)
    )
    return CircuitProblem(tuple(topologies.values()), demands, bandwidth, set_up, hop)


def best(case: CircuitProblem, start_up: float = START_UP) -> tuple[float, list[int]]:
    """The least time, first circuits up before, and which circuits carry each step."""
    seconds, rounds, _ = shortest(case)
    return seconds - case.set_up + start_up * len(rounds), [step.topology for step in rounds]


def changes(circuits: list[int]) -> int:
    """How often circuits change."""
    return sum(a != b for a, b in pairwise(circuits))
