"""Which GPU each rank takes, so that something is least: all assignments where they are few, else descents.

An assignment is an array with the number of a GPU for each rank, all different.
"""

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np


def all_assignments(ranks: int, gpus: int, most: int) -> np.ndarray | None:
    """Every assignment in order of numbers, shape (assignments, ranks); None if more than ``most``."""
    if math.perm(gpus, ranks) > most:
        return None
    return np.array(list(itertools.permutations(range(gpus), ranks)), int)


def least_first(values: np.ndarray) -> np.ndarray:
    """Numbers of rows, that with the least values first; equal ones stay in their order. Shape (rows,)."""
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
    """Change an assignment while that lowers its value: the assignment, its value, and how many were valued.

    ``changed(assignment, *change)`` is a new one, for each of ``changes``, which go on for ever. The search
    ends after ``idle`` in sequence that lower nothing, or when ``most`` assignments have been valued.
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
