"""Assign ranks to GPUs so that a value is smallest: by trying all assignments if few, else by descent.

An assignment is an array with the GPU number of each rank, all different.
"""

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np


def all_assignments(ranks: int, gpus: int, most: int) -> np.ndarray | None:
    """Return all assignments in lexicographic order, (assignments, ranks); None if more than ``most``."""
    if math.perm(gpus, ranks) > most:
        return None
    return np.array(list(itertools.permutations(range(gpus), ranks)), int)


def least_first(values: np.ndarray) -> np.ndarray:
    """Return the row numbers of ``values`` in ascending lexicographic order, shape (rows,); a stable sort."""
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
    """Change an assignment as long as that lowers its value; return it, its value and the number evaluated.

    ``changed(assignment, *change)`` returns a new assignment for each of ``changes``, an endless iterable.
    The search ends after ``idle`` consecutive changes without a lower value, or after ``most`` evaluations.
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
