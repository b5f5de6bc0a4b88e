"""A model for the solvers: whole numbers that satisfy linear constraints."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

from wavefabric.collectives.synthesis.deadline import Deadline


class Model:
    """Integer variables lower ≤ x ≤ upper, and rows low ≤ Σ coefficient · x ≤ high.

    Variables and rows added after the deadline, of `deadline.now`, raise `OutOfTime`.
    """

    def __init__(self, deadline: float = math.inf):
        self._deadline = Deadline(deadline)
        self.upper: list[int] = []
        self.lower: list[int] = []
        self.columns: list[Sequence[int]] = []
        self.coefficients: list[Sequence[int]] = []
        self.low: list[float] = []
        self.high: list[float] = []
        #: Values to begin with.
        self.hint: dict[int, int] = {}

    def variable(self, upper: int = 1, lower: int = 0) -> int:
        """A new variable's number."""
        self._deadline.check()
        self.upper.append(upper)
        self.lower.append(lower)
        return len(self.upper) - 1

    def row(
        self, columns: Iterable[int], low: float, high: float, coefficients: Iterable[int] | None = None
    ) -> None:
        """A new constraint; coefficients are 1 by default."""
        self._deadline.check()
        self.columns.append(list(columns))
        self.coefficients.append([1] * len(self.columns[-1]) if coefficients is None else list(coefficients))
        self.low.append(low)
        self.high.append(high)

    def equal(self, left: Sequence[int], right: Sequence[int]) -> None:
        """As much on the left as on the right."""
        self.row([*left, *right], 0, 0, [1] * len(left) + [-1] * len(right))

    def limit(self, columns: Sequence[int], high: int) -> None:
        """At most `high` in all, unless that cannot be exceeded."""
        if sum(self.upper[c] for c in columns) > high:
            self.row(columns, -math.inf, high)

    def arrays(self) -> dict[str, np.ndarray]:
        """The whole model as arrays; rows as in compressed sparse rows."""
        counts = [len(c) for c in self.columns]
        return {
            "upper": np.array(self.upper, np.float64),
            "lower": np.array(self.lower, np.float64),
            "indptr": np.concatenate(([0], np.cumsum(counts, dtype=np.int64))),
            "indices": np.fromiter(chain.from_iterable(self.columns), np.int64, sum(counts)),
            "data": np.fromiter(chain.from_iterable(self.coefficients), np.float64, sum(counts)),
            "low": np.array(self.low, np.float64),
            "high": np.array(self.high, np.float64),
        }

    def holds(self, values: Sequence[int]) -> bool:
        """Whether values satisfy everything, in whole numbers."""
        if any(not low <= v <= high for v, low, high in zip(values, self.lower, self.upper, strict=True)):
            return False
        rows = zip(self.columns, self.coefficients, self.low, self.high, strict=True)
        return all(
            low <= sum(k * values[c] for c, k in zip(cs, ks, strict=True)) <= high
            for cs, ks, low, high in rows
        )
