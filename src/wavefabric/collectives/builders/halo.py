"""Neighbours on a grid of ranks: the messages of a halo exchange."""

from __future__ import annotations

import numpy as np

from wavefabric.collectives.builders.messages import point_to_point
from wavefabric.collectives.schedule import Schedule


def near_square(ranks: int) -> tuple[int, int]:
    """Rows and columns, rows ≤ columns, of the grid of two axes that is nearest to a square."""
    rows = next(r for r in range(int(ranks**0.5) + 1, 0, -1) if ranks % r == 0 and r * r <= ranks)
    return rows, ranks // rows


def halo(ranks: int, elements: int, grid: tuple[int, ...], periodic: bool) -> Schedule:
    """Every rank sends a message to each neighbour along every axis of the grid, in one round.

    Parameters
    ----------
    ranks : int
    elements : int
        Of each message.
    grid : tuple of int
        Ranks along each axis, the last fastest.
    periodic : bool
        Whether the last along an axis is a neighbour of the first (torus), or has none (mesh).

    Returns
    -------
    Schedule
        Conditions as of `wavefabric.collectives.point_to_point`; messages of a rank go in the order of
        axes, down before up. Two ranks that are all of a periodic axis are neighbours twice. Nothing goes
        along an axis of one rank.
    """
    number = np.arange(ranks).reshape(grid)
    messages = []
    for axis, extent in enumerate(grid):
        for ahead in (-1, 1):
            if extent == 1:
                continue
            peer = np.roll(number, -ahead, axis)
            inside = np.ones(grid, bool)
            if not periodic:
                np.moveaxis(inside, axis, 0)[-1 if ahead > 0 else 0] = False
            messages.append(np.stack([number[inside], peer[inside]], axis=1))
    pairs = np.concatenate(messages) if messages else np.zeros((0, 2), int)
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")].tolist()
    name = f"{'torus' if periodic else 'mesh'} halo, {'x'.join(map(str, grid))}"
    return point_to_point(name, ranks, [(src, dst, elements) for src, dst in pairs])
