"""SWOT (arXiv:2510.19322): its mixed-integer program, and its cases as problems of ours.

The program and the cases are those that its authors publish with their code (github.com/ZER0-Nu1L/overlap4ocs,
docs/math_model.md and config/): k optical switches, each with one link of every GPU; a step needs one
permutation, and its message may be divided over the switches that hold it.
"""

from __future__ import annotations

from math import log2

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from wavefabric.fabric.photonic.reconfiguration.search import Demand, Problem, Topology

#: Messages of each step as fractions of the array, and the number of the permutation that each needs.
Steps = tuple[list[float], list[int]]


def steps(algorithm: str, ranks: int) -> Steps:
    """Halving and doubling, pairwise exchange, or Bruck's all-to-all, as its code divides them."""
    if algorithm == "pairwise":
        return [1 / (ranks - 1)] * (ranks - 1), list(range(ranks - 1))
    levels = round(log2(ranks))
    if algorithm == "bruck":
        return [1.0] * levels, list(range(levels))
    there = list(range(levels))
    return [0.5 ** (i + 1) for i in (*there, *there[::-1])], [*there, *there[::-1]]


def problem(algorithm: str, ranks: int, switches: int, array: float, set_up: float) -> Problem:
    """Ours for the same: 25 GB/s a link, 20 us a transfer; MB, ms, as there."""
    fractions, kinds = steps(algorithm, ranks)
    topologies = []
    for kind in range(max(kinds) + 1):
        to = np.arange(ranks) ^ 1 << kind if algorithm == "halving" else np.arange(ranks) + (
            kind + 1 if algorithm == "pairwise" else 1 << kind
        )
        ends = np.stack([np.arange(ranks), to % ranks], axis=1)
        circuits = tuple((kind, link) for link in range(ranks))
        topologies.append(Topology(f"step {kind}", ranks, ends, np.full(ranks, 25.0), circuits))
    demands = [
        Demand(topologies[kind].ends, np.ones(ranks), array * fraction)
        for fraction, kind in zip(fractions, kinds, strict=True)
    ]
    return Problem(tuple(topologies), tuple(demands), 25.0 * switches, set_up, 0.02, switches)


def program(
    algorithm: str, ranks: int, switches: int, array: float, set_up: float, seconds: float
) -> tuple[float, float]:
    """Its optimum by HiGHS within so many s: time (ms) and what is proved of it."""
    fractions, kinds = steps(algorithm, ranks)
    count, k = len(fractions), switches
    names = ("data", "used", "set", "start", "end", "set_start", "set_end", "free")
    size = count * k
    total = len(names) * size + count
    column = {name: (lambda i, j, n=n: n * size + i * k + j) for n, name in enumerate(names)}
    step_end = [len(names) * size + i for i in range(count)]
    large = 2 * (array / 25 + count * (set_up + 0.02)) * max(1.0, sum(fractions))
    rows, low = [], []

    def at_least(bound: float, **terms: float) -> None:
        raise NotImplementedError

    def add(bound: float, *terms: tuple[float, int]) -> None:
        """The sum of coefficients times columns is at least `bound`."""
        row = np.zeros(total)
        for coefficient, where in terms:
            row[where] += coefficient
        rows.append(row)
        low.append(bound)

    for i, (fraction, kind) in enumerate(zip(fractions, kinds, strict=True)):
        for sign in (1, -1):
            add(sign * array * fraction, *[(sign, column["data"](i, j)) for j in range(k)])
        for j in range(k):
            d, u, r, s, e, rs, re, free = (column[name](i, j) for name in names)
            for sign in (1, -1):
                add(0, (sign, e), (-sign, s), (-sign / 25, d), (-sign * 0.02, u))
                add(0, (sign, re), (-sign, rs), (-sign * set_up, r))
            add(0, (array * 2, u), (-1, d))
            add(0, (1, s), (-1, re))
            add(-(i > 0 and kinds[i - 1] == kind), (1, r), (-1, u))
            add(0, (1, u), (-1, r))
            add(0, (1, rs), (-1, free))
            add(-large, (1, step_end[i]), (-1, e), (-large, u))
            if i:
                before = {name: column[name](i - 1, j) for name in names}
                add(0, (1, free), (-1, before["free"]))
                add(-large, (1, free), (-1, before["end"]), (-large, before["used"]))
                add(-large, (1, free), (-1, before["set_end"]), (-large, before["set"]))
                add(0, (1, s), (-1, step_end[i - 1]))
        if i:
            add(0, (1, step_end[i]), (-1, step_end[i - 1]))
    whole = np.zeros(total)
    whole[size : 3 * size] = 1
    top = np.full(total, np.inf)
    top[size : 3 * size] = 1
    cost = np.zeros(total)
    cost[step_end[-1]] = 1
    result = milp(
        cost,
        constraints=LinearConstraint(np.array(rows), np.array(low)),
        integrality=whole,
        bounds=Bounds(0, top),
        options={"time_limit": seconds, "mip_rel_gap": 1e-6},
    )
    return (float(result.fun) if result.x is not None else np.inf), float(result.mip_dual_bound)
