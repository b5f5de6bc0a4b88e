"""Divide and conquer on a grid of ranks: squares of four, then pairs of squares, …."""

from __future__ import annotations

import numpy as np

from wavefabric.collectives.builders.recursive import recursive_exchange
from wavefabric.collectives.schedule import Schedule


def squares(ranks: int, elements: int, pieces: int = 1, grid: tuple[int, int] = (2, 2)) -> Schedule:
    """All-reduce by whole arrays: among the four ranks of each square, then between two squares, ….

    Parameters
    ----------
    ranks : int
        A power of two from 4.
    elements : int
    pieces : int
        Chunks of the array, all of which move together.
    grid : (rows, columns)
        Powers of two from 2; rank r is tile (r // columns, r % columns).

    Returns
    -------
    Schedule
        Of log₂ N − 1 rounds of communication: fewest for four circuits a square, but each rank sends the
        whole array every time. Arrivals go to ``scratch`` and are added in an order that all members of a
        group share: every rank ends with the same bits.

    Notes
    -----
    The divide-and-conquer schedule of LUMORPH: pairs are taken along rows and columns in turn, so that
    partners stay near.
    """
    _, columns = grid
    steps = [columns.bit_length() - 1, ranks.bit_length() - columns.bit_length()]
    axes = [[1 << b for b in range(steps[0])], [columns << b for b in range(steps[1])]]
    weights = []
    while axes[0] or axes[1]:
        weights += [axis.pop(0) for axis in axes if axis]
    place = np.arange(ranks)
    order = sum(((place >> b & 1) * w for b, w in enumerate(weights)), np.zeros_like(place))
    groups = (4, *(2 for _ in weights[2:]))
    return recursive_exchange(ranks, elements, pieces, name="squares all-reduce", groups=groups, order=order)
