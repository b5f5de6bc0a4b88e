"""Assign ranks to GPUs so that a cost is smallest: try all assignments if there are few, else descend.

An assignment is an array of GPU numbers, one per rank, all different.
"""

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np


def all_assignments(ranks: int, gpus: int, most: int) -> np.ndarray | None:
    """Return all assignments of ranks to different GPUs out of ``gpus``: shape (assignments, ranks).

    A row has the GPU of each rank; rows are in lexicographic order. None if there are more than ``most``.
    """
    if math.perm(gpus, ranks) > most:
        return None
    return np.array(list(itertools.permutations(range(gpus), ranks)), int)


def lexicographic_order(values: np.ndarray) -> np.ndarray:
    """Return the indices that sort the rows of ``values`` lexicographically, ascending; a stable sort."""
    # lexsort takes its last key first.
    return np.lexsort(values.T[::-1]) if values.size else np.arange(len(values))


def descend(
    assignment: np.ndarray,
    value_of: Callable[[np.ndarray], Any],
    changed: Callable[..., np.ndarray],
    changes: Iterable[tuple],
    idle: int,
    most: float = math.inf,
) -> tuple[np.ndarray, Any, int]:
    """Minimise the cost of an assignment of ranks to GPUs: try changes one by one, keep those that lower it.

    Return the best assignment, its cost, and the number of evaluations. ``value_of(assignment)`` is the cost,
    ``changed(assignment, *change)`` the assignment after a change; ``changes`` yields changes without end.
    The search ends after ``idle`` consecutive changes without a lower cost, or after ``most`` evaluations.
    """
    value, valued, since = value_of(assignment), 1, 0
    for change in changes:
        if valued >= most or since >= idle:
            break
        trial = changed(assignment, *change)
        now = value_of(trial)
        valued, since = valued + 1, since + 1
        if now < value:
            assignment, value, since = trial, now, 0
    return assignment, value, valued
