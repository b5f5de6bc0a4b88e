"""Divide shared links among pairs of ranks so that spanning trees from all roots fill the tightest cut.

Trees that reach all ranks from all roots exist if and only if the links out of every set of ranks carry the
trees of the roots in this set (Edmonds 1973, Edge-disjoint branchings). So the shortest time of any trees
over fixed routes is a linear program with a constraint for each set; maximum flows find the sets that matter.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import inf, isinf
from typing import Any

import numpy as np
from scipy.sparse import csr_array, eye_array, hstack, vstack
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from wavefabric.collectives.synthesis.deadline import OutOfTime, check, now
from wavefabric.collectives.synthesis.problem import Links

#: Largest number of trees per root for an exact division of the links, and the number otherwise.
_MOST_EXACT, _OTHERWISE = 128, 8
#: Relative round-off of the linear program, and of loads that count as whole numbers.
_ROUND_OFF, _WHOLE = 1e-9, 1e-5
#: Sum of the loads in the units of a maximum flow, which counts in 32 bits; relative round-off of a flow.
_FLOW, _MISSING = 1 << 24, 1e-5
#: Seconds for the search for whole loads, and its relative distance from the best.
_SECONDS, _GAP = 5.0, 1e-3


@dataclass(frozen=True)
class Division:
    """Says how many spanning trees each pair of ranks carries, so that shared links are used fully.

    ``carried``: trees from rank a to rank b, shape (ranks, ranks). Each root has ``trees`` trees per unit of
    its weight. A root sends one chunk per unit of weight, divided among its trees, and links carry the chunks
    of all roots in ``rounds`` rounds; no trees over these links, however many, take fewer than ``least``.
    """

    carried: np.ndarray
    trees: int
    rounds: Fraction
    least: float


def divide(links: Links, weights: np.ndarray, until: float = inf) -> Division | None:
    """Divide links among pairs of ranks, for spanning trees from each root that take the shortest time.

    ``weights``: chunks that each rank sends as a root, whole numbers. Roots get the fewest trees, up to 128
    per unit of weight, that reach the shortest time, else 8. None if links do not connect the ranks.
    `OutOfTime` after ``until``, a time of `deadline.now`, or if no whole numbers of trees were found.
    """
    program = _Program(links, weights, until)
    best = program.fastest()
    if best is None:
        return None
    loads, seconds = best
    trees = next((k for k in range(1, _MOST_EXACT + 1) if _is_whole(k * loads)), _OTHERWISE)
    carried = program.whole(program.even(seconds), trees)
    if carried is None:
        raise OutOfTime
    table = np.zeros((links.ranks, links.ranks), np.int32)
    table[program.pairs[:, 0], program.pairs[:, 1]] = carried
    return Division(table, trees, program.rounds(carried) / trees, seconds / program.unit)


def _is_whole(loads: np.ndarray) -> bool:
    return bool(np.abs(loads - np.rint(loads)).max() < _WHOLE)


class _Program:
    """The linear program for the loads of pairs of ranks: every set of ranks must send out enough chunks.

    A load is the number of chunks that a pair carries while every root sends as many chunks as its weight.
    Sets of ranks are added when a solution violates their constraints. A resource is a pair, or a group of
    pairs, with a capacity. Unit of time: what the largest capacity, ``unit`` chunks per round, takes for a
    chunk.
    """

    def __init__(self, links: Links, weights: np.ndarray, until: float):
        self._ranks, self._weights, self._until = links.ranks, weights.astype(float), until
        self.pairs = np.array(links.usable, np.int64).reshape(-1, 2)
        uses, self._capacities = links.resources()
        self.unit = max(self._capacities, default=1)
        self._limits = np.array(self._capacities, float) / self.unit
        over = [(row, i) for i, pair in enumerate(links.usable) for row in uses[pair]]
        rows, columns = np.array(over, np.int64).reshape(-1, 2).T
        shape = len(self._capacities), len(links.usable)
        self._use = csr_array((np.ones(len(over)), (rows, columns)), shape=shape)
        self._sets: dict[bytes, np.ndarray] = {}
        for rank in range(links.ranks):
            single = np.arange(links.ranks) == rank
            self._add(single)
            self._add(~single)

    def rounds(self, carried: np.ndarray) -> Fraction:
        """Return the rounds that links need if pair i of ranks carries ``carried[i]`` chunks."""
        used = np.rint(self._use @ carried).astype(np.int64).tolist()
        return max(Fraction(chunks, most) for chunks, most in zip(used, self._capacities, strict=True))

    def fastest(self) -> tuple[np.ndarray, float] | None:
        """Return loads of pairs with the shortest time, and the time; None if links do not join the ranks."""
        return self._minimise(1.0)

    def even(self, time: float) -> np.ndarray:
        """Return loads of pairs that take ``time``, with the smallest largest load: trees stay shallow."""
        result = self._minimise(1.0, time)
        if result is None:  # only by round-off
            raise OutOfTime
        return result[0]

    def whole(self, loads: np.ndarray, trees: int) -> np.ndarray | None:
        """Return how many trees each pair carries, whole numbers near ``trees`` × ``loads``; else None."""
        low, high = np.floor(trees * loads + _WHOLE), np.ceil(trees * loads - _WHOLE)
        for slack in (0, 1, 3):
            near = np.maximum(low - slack, 0), high + slack
            if (result := self._minimise(float(trees), near=near)) is not None:
                return result[0]
        return None

    def _minimise(
        self, amount: float, time: float | None = None, near: tuple[np.ndarray, np.ndarray] | None = None
    ) -> tuple[np.ndarray, float] | None:
        """Find loads of pairs with the shortest time; given ``time``, those with the smallest largest load.

        Return the loads and the minimum; None if there is no solution, or none in whole numbers within
        `_SECONDS`. Roots send ``amount`` × weight. ``near``: lower and upper limits of the loads, which are
        then whole numbers.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp  # a quarter of a second, for this alone

        count, resources = len(self.pairs), len(self._limits)
        goal = np.r_[np.full(count, _ROUND_OFF if time is None else 1e-7), 1.0]
        low, high = near or (np.zeros(count), np.full(count, inf))
        bounds = Bounds(np.r_[low, 0.0], np.r_[high, inf])
        options: dict[str, Any] = {} if near is None else {"time_limit": _SECONDS, "mip_rel_gap": _GAP}
        if time is None:
            links, most = hstack([self._use, -self._limits[:, None]]), np.zeros(resources)
        else:
            used = hstack([self._use, csr_array((resources, 1))])
            links = vstack([used, hstack([eye_array(count), -np.ones((count, 1))])])
            most = np.r_[self._limits * time * (1 + _ROUND_OFF), np.zeros(count)]
        while True:
            check(self._until)
            if not isinf(self._until):
                options["time_limit"] = min(self._until - now() + 0.01, options.get("time_limit", inf))
            sets = np.array(list(self._sets.values()))
            leaves = csr_array((sets[:, self.pairs[:, 0]] & ~sets[:, self.pairs[:, 1]]).astype(float))
            rows = vstack([links, hstack([-leaves, csr_array((len(sets), 1))])])
            limits: Any = np.r_[most, -amount * (sets @ self._weights)]
            result = milp(
                goal,
                constraints=LinearConstraint(rows, ub=limits),
                bounds=bounds,
                integrality=None if near is None else np.r_[np.ones(count), 0],
                options=options,
            )
            if result.x is None:
                if result.status == 1 and near is None:
                    raise OutOfTime
                return None
            loads = result.x[:-1] if near is None else np.rint(result.x[:-1])
            scale = _FLOW / self._weights.sum() if near is None else 1.0
            if not self._add_violated(loads, amount, scale, 0.0 if near else _MISSING):
                return loads, float(result.x[-1])

    def _add(self, ranks: np.ndarray) -> bool:
        """Require links out of a set of ranks to carry its chunks; False if this is known or always true."""
        key = ranks.tobytes()
        if key in self._sets or ranks.all() or not self._weights[ranks].any():
            return False
        self._sets[key] = ranks
        return True

    def _add_violated(self, loads: np.ndarray, amount: float, scale: float, missing: float) -> bool:
        """Add the constraints of sets of ranks out of which ``loads`` carry too little.

        Return whether any is new. Such sets are minimum cuts of flows from all roots to a rank. Flows are
        computed in whole numbers, loads × ``scale``; they may lack the fraction ``missing``.
        """
        n, table = self._ranks, np.zeros((self._ranks + 1, self._ranks + 1), np.int32)
        table[self.pairs[:, 0], self.pairs[:, 1]] = np.floor(loads * scale + 1e-3)
        table[n, :n] = np.floor(self._weights * amount * scale + 1e-3)
        graph, supply, added = csr_array(table), int(table[n].sum()), False
        for rank in range(n):
            check(self._until)
            flow = maximum_flow(graph, n, rank)
            if flow.flow_value < supply * (1 - missing):
                residual = graph - flow.flow
                residual.data = np.maximum(residual.data, 0)
                residual.eliminate_zeros()
                reached = np.zeros(n + 1, bool)
                reached[breadth_first_order(residual, n, return_predecessors=False)] = True
                added |= self._add(reached[:n])
        return added
