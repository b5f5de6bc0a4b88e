"""Processes grid arrays before the first time step, on all threads, in blocks that fit into the caches."""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from wavefabric.system.machine import usable_threads

#: Points of a part: some arrays of them fit into the second-level cache.
PART = 1 << 14
#: Points for which a thread is worth starting.
_THREAD = 1 << 17
#: Planes and rows of a part that is copied in another order: a line of the cache holds so many points.
_PLANES, _ROWS = 16, 4

Shape = tuple[int, int, int]
#: Of an array (Nz, Ny, Nx): planes and rows.
Part = tuple[slice, slice]


def parts(shape: Shape, points: int = PART) -> list[Part]:
    """Split a grid into blocks of whole planes or rows: at most ``points`` points, at least one row."""
    nz, ny, nx = shape
    rows = max(1, points // max(nx, 1))
    if rows < ny:
        return [(slice(z, z + 1), slice(y, min(y + rows, ny))) for z in range(nz) for y in range(0, ny, rows)]
    planes = max(1, rows // max(ny, 1))
    return [(slice(z, min(z + planes, nz)), slice(0, ny)) for z in range(0, nz, planes)]


def threads_for(points: int) -> int:
    """Return the number of threads that pay for ``points`` points."""
    return max(1, min(usable_threads(), points // _THREAD))


def over_parts(shape: Shape, work: Callable[[Part], Any], pieces: Sequence[Part] | None = None) -> list[Any]:
    """Call ``work`` on each part, on several threads; return the results in the order of the parts.

    Parts are `parts` of the shape by default, or ``pieces``.
    """
    pieces = parts(shape) if pieces is None else pieces
    threads = threads_for(math.prod(shape))
    if threads == 1:
        return list(map(work, pieces))
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, pieces))


def copy_in_order(target: np.ndarray, source: np.ndarray) -> None:
    """Copy ``source`` into ``target``; they may differ in memory order, such as Fortran and C order."""
    nz, ny, _ = source.shape
    pieces = [
        (slice(z, z + _PLANES), slice(y, y + _ROWS))
        for z in range(0, nz, _PLANES)
        for y in range(0, ny, _ROWS)
    ]
    over_parts(source.shape, lambda part: np.copyto(target[part], source[part]), pieces)


def largest(field: np.ndarray) -> float:
    """Return the largest magnitude of a field (Nz, Ny, Nx)."""
    return max(over_parts(field.shape, lambda part: float(max(field[part].max(), -field[part].min()))))
