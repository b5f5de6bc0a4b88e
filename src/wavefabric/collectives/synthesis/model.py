"""Formulate the integer linear program for the solvers: who sends which chunk to whom, and when."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise

import numpy as np
from scipy.sparse import csr_array

from wavefabric.collectives.synthesis.deadline import Deadline
from wavefabric.collectives.synthesis.demand import ChunkDemand, Demand, Move, distances, useful
from wavefabric.collectives.synthesis.problem import Edge


class Model:
    """An integer program: variables lower ≤ x ≤ upper, and rows low ≤ Σ coefficient · x ≤ high.

    Adding variables or rows after ``deadline``, a time of `deadline.now`, raises `OutOfTime`.
    """

    def __init__(self, deadline: float = math.inf):
        self._deadline = Deadline(deadline)
        self.upper: list[int] = []
        self.lower: list[int] = []
        #: Columns (numbers of variables), coefficients, low and high of each row.
        self.rows: list[tuple[list[int], list[int], float, float]] = []
        #: Initial values for the solvers, by variable.
        self.hint: dict[int, int] = {}

    def variable(self, upper: int = 1, lower: int = 0) -> int:
        """Add a variable and return its number."""
        self._deadline.check()
        self.upper.append(upper)
        self.lower.append(lower)
        return len(self.upper) - 1

    def row(
        self, columns: Iterable[int], low: float, high: float, coefficients: list[int] | None = None
    ) -> None:
        """Add the constraint low ≤ Σ coefficient · x ≤ high on ``columns``; coefficients default to 1."""
        self._deadline.check()
        columns = list(columns)
        self.rows.append((columns, coefficients or [1] * len(columns), low, high))

    def equal(self, left: Sequence[int], right: Sequence[int]) -> None:
        """Add the constraint that the variables ``left`` and the variables ``right`` have equal sums."""
        self.row([*left, *right], 0, 0, [1] * len(left) + [-1] * len(right))

    def limit(self, columns: Sequence[int], high: int) -> None:
        """Add the constraint Σ x ≤ ``high`` on ``columns``, unless upper limits already ensure it."""
        if sum(self.upper[c] for c in columns) > high:
            self.row(columns, -math.inf, high)

    def arrays(self) -> tuple[csr_array, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the model as arrays: coefficients, low, high of rows; lower, upper of variables."""
        columns, coefficients, *limits = zip(*self.rows, strict=True) if self.rows else ((),) * 4
        at, ks = (np.fromiter(chain.from_iterable(each), np.int64) for each in (columns, coefficients))
        entries = ks.astype(np.float64), at, np.cumsum([0, *map(len, columns)])
        low, high, lower, upper = (np.array(each, np.float64) for each in (*limits, self.lower, self.upper))
        return csr_array(entries, (len(self.rows), len(self.upper))), low, high, lower, upper

    def holds(self, values: np.ndarray) -> bool:
        """Return whether integer ``values`` of all variables satisfy all limits and constraints."""
        rows, low, high, lower, upper = self.arrays()
        sums = rows @ values
        return bool(((lower <= values) & (values <= upper)).all() and ((low <= sums) & (sums <= high)).all())


class SendVariables:
    """Adds variables y to a model, the number of chunks that go from rank s to d in round r, and constraints.

    A rank that needs a chunk gets it exactly once (constraint 3 of docs/synthesis.md) and sends it on only in
    later rounds (2). With ``forward`` ranks that do not need a chunk get it at most once, else never.
    """

    def __init__(self, model: Model, demand: Demand, pairs: Iterable[Edge], rounds: int, *, forward: bool):
        self.model, self.demand, self.rounds, self.forward = model, demand, rounds, forward
        together: dict[tuple[bool, ChunkDemand, int], list[int]] = defaultdict(list)
        for number, chunk in enumerate(demand.chunks):
            if chunk.need:
                straight = chunk.direct and not forward
                together[straight, chunk, 0 if straight else number].append(number)
        #: Demand and chunks of each group: one chunk, or all identical chunks directly between two ranks.
        self.groups = [(key[1], together[key]) for key in sorted(together, key=lambda key: key[0])]
        #: (group, s, d, r) → variable.
        self.y: dict[tuple[int, int, int, int], int] = {}
        #: (s, d, r) → variables.
        self.sent: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        self.pairs = sorted(set(pairs))
        allowed = set(self.pairs)
        self.hops = distances(demand.ranks, self.pairs)
        alike: dict[ChunkDemand, list[dict[tuple[int, int], list[int]]]] = defaultdict(list)
        for number, (chunk, numbers) in enumerate(self.groups):
            if forward or not chunk.direct:
                alike[chunk].append(self._any_route(number, chunk))
            else:
                (s,), (d,) = chunk.have, chunk.need
                columns = [self._variable(number, s, d, r) for r in range(rounds) if (s, d) in allowed]
                model.row(columns, len(numbers), len(numbers))
        for chunk, received in alike.items():
            self._order(min(chunk.need), received)

    def _any_route(self, group: int, chunk: ChunkDemand) -> dict[tuple[int, int], list[int]]:
        """Add the variables and constraints of a chunk that may take several paths.

        Return, by (d, r), the variables that bring the chunk to rank d in round r. ``group``: its number.
        """
        have, need, pairs, hops = chunk.have, chunk.need, self.pairs, self.hops
        if self.forward:
            onward = hops[:, sorted(need)].min(axis=1)
        else:
            # Only ranks that have or need the chunk take part.
            pairs = [(s, d) for s, d in pairs if d in need and (s in need or s in have)]
            hops = distances(self.demand.ranks, pairs)
            onward = np.zeros(self.demand.ranks, int)
        here = hops[sorted(have)].min(axis=0)
        received: dict[tuple[int, int], list[int]] = defaultdict(list)
        sends: list[tuple[int, int, int]] = []
        for s, d in pairs:
            if d in have:
                continue
            # Not before the chunk can be at s, and not too late to reach a rank that needs it.
            for r in range(int(here[s]), self.rounds - int(onward[d])):
                column = self._variable(group, s, d, r)
                received[d, r].append(column)
                if s not in have:
                    sends.append((s, r, column))
        for d in sorted(need | {d for d, _ in received}):
            columns = [c for r in range(self.rounds) for c in received.get((d, r), ())]
            self.model.row(columns, 1 if d in need else -math.inf, 1)
        self._hold(received, sends)
        return received

    def _order(self, rank: int, received: list[dict[tuple[int, int], list[int]]]) -> None:
        """Add constraints that identical chunks reach ``rank``, which needs them, in numerical order.

        They exclude equivalent solutions. ``received``: for each chunk, what `_any_route` returned.
        """
        for pair in pairwise(received):
            for r in range(self.rounds - 1):
                early, late = ([c for t in range(r + 1) for c in one.get((rank, t), ())] for one in pair)
                self.model.row([*early, *late], 0, math.inf, [1] * len(early) + [-1] * len(late))

    def _hold(self, received: dict, sends: list[tuple[int, int, int]]) -> None:
        """Add constraints that a rank without a chunk sends it only after it has received the chunk.

        ``received``: by (d, r), the variables that bring the chunk to rank d in round r. ``sends``: (rank,
        round, variable) of each possible send. held[s, r] tells that s has the chunk when round r begins.
        """
        last: dict[int, int] = {}
        for s, r, _ in sends:
            last[s] = max(r, last.get(s, 0))
        held: dict[tuple[int, int], int] = {}
        for s, until in last.items():
            for r in range(1, until + 1):
                held[s, r] = self.model.variable()
                before = [held[s, r - 1]] if r > 1 else []
                self.model.equal([held[s, r]], [*before, *received.get((s, r - 1), ())])
        for s, r, column in sends:
            self.model.row([column, held[s, r]], -math.inf, 0, [1, -1])

    def _variable(self, group: int, s: int, d: int, r: int) -> int:
        column = self.model.variable(len(self.groups[group][1]))
        self.y[group, s, d, r] = column
        self.sent[s, d, r].append(column)
        return column

    def hint(self, moves: Iterable[Move]) -> None:
        """Set the moves of a known schedule, if they have variables, as the solvers' initial values."""
        group_of = {number: k for k, (_, numbers) in enumerate(self.groups) for number in numbers}
        self.model.hint.update(dict.fromkeys(self.y.values(), 0))
        for r, number, s, d in moves:
            column = self.y.get((group_of[number], s, d, r))
            if column is not None:
                self.model.hint[column] += 1

    def moves(self, values: np.ndarray) -> list[Move]:
        """Return the moves that ``values`` of all variables describe, in order, without useless moves."""
        left = [list(numbers) for _, numbers in self.groups]
        moves: list[Move] = []
        for (k, s, d, r), column in self.y.items():
            for _ in range(int(values[column])):
                number = left[k].pop() if len(self.groups[k][1]) > 1 else left[k][0]
                moves.append((r, number, s, d))
        return useful(self.demand, moves)
