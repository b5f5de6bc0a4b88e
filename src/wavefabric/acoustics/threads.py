"""How many CPU threads a run takes unless it is told."""

from __future__ import annotations

import math

from wavefabric.system.machine import usable_threads

#: Grid points for each thread. In 3-D a step has few parallel regions, and two threads gain from some 24³
#: points on where nothing else runs; in 2-D it has many short ones (FFTW's and Numba's in turn), and two
#: threads were slower than one up to 1024². On a busy machine a thread that waits for another costs far more
#: than it can gain on a small grid.
POINTS_2D, POINTS_3D = 1 << 20, 1 << 16


def default_threads(shape: tuple[int, int, int]) -> int:
    """One CPU thread for each `POINTS_2D` or `POINTS_3D` points of (Nx, Ny, Nz), at most all usable ones."""
    points_each = POINTS_2D if shape[2] == 1 else POINTS_3D
    return max(1, min(usable_threads(), math.prod(shape) // points_each))
