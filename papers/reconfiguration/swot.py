"""SWOT (arXiv:2510.19322): its mixed-integer program, and its cases as problems of ours.

Program and cases are those that its authors publish with their code (github.com/ZER0-Nu1L/overlap4ocs:
docs/math_model.md, config/): k optical switches, each with one link of every GPU. A step needs one
permutation, and its message may be divided over the switches that hold it. MB, ms and GB/s, as there.
"""

from __future__ import annotations

from math import log2
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from wavefabric.fabric.photonic.reconfiguration.search import CircuitProblem, RoundDemand, Topology

BANDWIDTH, LATENCY = 25.0, 0.02


def steps(algorithm: str, ranks: int) -> tuple[list[float], list[int]]:
    """Fractions of the array that each step sends, and the number of the permutation that it needs."""
    if algorithm == "pairwise":
        return [1 / (ranks - 1)] * (ranks - 1), list(range(ranks - 1))
    levels = list(range(round(log2(ranks))))
    if algorithm == "bruck":
        return [1.0] * len(levels), levels
    there = levels if algorithm == "reduce-scatter" else [*levels, *levels[::-1]]
    return [0.5 ** (i + 1) for i in there], there


def problem(
    algorithm: str, ranks: int, switches: int, array: float, set_up: float, bandwidth: float = BANDWIDTH
) -> CircuitProblem:
    """The same for ours: ``halving`` (an all-reduce), ``reduce-scatter``, ``bruck`` or ``pairwise``."""
    fractions, kinds = steps(algorithm, ranks)
    rank, topologies = np.arange(ranks), []
    for kind in range(max(kinds) + 1):
        shift = kind + 1 if algorithm == "pairwise" else 1 << kind
        to = rank ^ shift if algorithm in ("halving", "reduce-scatter") else (rank + shift) % ranks
        links = tuple((kind, r) for r in range(ranks))
        ends = np.stack([rank, to], axis=1)
        topologies.append(Topology(f"step {kind}", ranks, ends, np.full(ranks, bandwidth), links))
    demands = tuple(
        RoundDemand(topologies[kind].ends, np.ones(ranks), array * fraction)
        for fraction, kind in zip(fractions, kinds, strict=True)
    )
    return CircuitProblem(tuple(topologies), demands, bandwidth * switches, set_up, LATENCY, switches)


def program(
    algorithm: str, ranks: int, switches: int, array: float, set_up: float, seconds: float
) -> tuple[float, float]:
    """Its optimum by HiGHS within so many s, and what is proved of it: ms.

    Its constraint (7) compares a step with the one before alone. So a switch that was not used in the step
    before counts as set for the same permutation, and one that still holds an older permutation does not.
    """
    fractions, kinds = steps(algorithm, ranks)
    size = len(fractions) * switches
    names = ("data", "used", "set", "start", "end", "set_start", "set_end", "free")
    total = len(names) * size + len(fractions)
    large = 2 * sum(array * f / BANDWIDTH + set_up + LATENCY for f in fractions)
    rows: Any = []
    low: Any = []

    def at_least(bound: float, *terms: tuple[float, int]) -> None:
        row = np.zeros(total)
        for coefficient, number in terms:
            row[number] += coefficient
        rows.append(row)
        low.append(bound)

    def column(name: str, i: int, j: int) -> int:
        return names.index(name) * size + i * switches + j

    for i, fraction in enumerate(fractions):
        done = len(names) * size + i
        for sign in (1, -1):
            at_least(sign * array * fraction, *[(sign, column("data", i, j)) for j in range(switches)])
        for j in range(switches):
            data, used, set_, start, end, set_start, set_end, free = (column(n, i, j) for n in names)
            for sign in (1, -1):
                at_least(0, (sign, end), (-sign, start), (-sign / BANDWIDTH, data), (-sign * LATENCY, used))
                at_least(0, (sign, set_end), (-sign, set_start), (-sign * set_up, set_))
            at_least(0, (2 * array, used), (-1, data))
            at_least(0, (1, start), (-1, set_end))
            at_least(-float(i > 0 and kinds[i - 1] == kinds[i]), (1, set_), (-1, used))
            at_least(0, (1, used), (-1, set_))
            at_least(0, (1, set_start), (-1, free))
            at_least(-large, (1, done), (-1, end), (-large, used))
            if i:
                before = {n: column(n, i - 1, j) for n in names}
                at_least(0, (1, free), (-1, before["free"]))
                at_least(-large, (1, free), (-1, before["end"]), (-large, before["used"]))
                at_least(-large, (1, free), (-1, before["set_end"]), (-large, before["set"]))
                at_least(0, (1, start), (-1, done - 1))
        if i:
            at_least(0, (1, done), (-1, done - 1))
    most: Any = np.full(total, np.inf)
    whole, cost = np.zeros(total), np.zeros(total)
    whole[size : 3 * size] = most[size : 3 * size] = 1
    cost[-1] = 1
    limits, options = LinearConstraint(np.array(rows), low), {"time_limit": seconds}
    result = milp(cost, constraints=limits, integrality=whole, bounds=Bounds(0, most), options=options)
    return (np.inf if result.x is None else float(result.fun)), float(result.mip_dual_bound)
