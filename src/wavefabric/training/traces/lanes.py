"""Calls beside one another: those that run at the same time get lanes of their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def lanes(begin: np.ndarray, end: np.ndarray) -> list[int]:
    """For each interval the first lane in which no other runs at the same time; they may touch.

    Parameters
    ----------
    begin, end : ndarray
        s, shape (intervals,).
    """
    found = [0] * len(begin)
    free_from: list[float] = []
    for number in np.lexsort((end, begin)).tolist():
        lane = next((k for k, until in enumerate(free_from) if until <= begin[number]), len(free_from))
        free_from[lane : lane + 1] = [float(end[number])]
        found[number] = lane
    return found


def ranges(numbers: Sequence[int]) -> str:
    """Numbers of GPUs in few words: ``0-7``, ``0-12 by 4``, ``0,3,4``.

    Examples
    --------
    >>> ranges([0, 1, 2, 3]), ranges([0, 4, 8]), ranges([5]), ranges([0, 3, 4])
    ('0-3', '0-8 by 4', '5', '0,3,4')
    """
    if len(numbers) > 2:
        step = numbers[1] - numbers[0]
        if step > 0 and list(numbers) == list(range(numbers[0], numbers[-1] + 1, step)):
            return f"{numbers[0]}-{numbers[-1]}" + (f" by {step}" if step > 1 else "")
    return ",".join(map(str, numbers))
