"""Unitaries applied to rows of a field in place; the reference of ``mixing_kernel.cu``."""

import numpy as np

from wavefabric.device.fma import fma
from wavefabric.system.numba_cache import njit

#: Samples that are mixed at once: what a kernel holds of 30 rows stays in the first-level caches.
TILE = 64
#: Samples that a thread mixes at once.
_CHUNK = 2048


def mix(device, field, matrices, starts) -> None:
    """Rows ``starts[k]`` … of ``field`` ← ``matrices[k]``, (n, n) complex128, times them, in place."""
    n = field.shape[1]

    def chunks(part: slice) -> None:
        for start, u in zip(starts, matrices, strict=True):
            mix_rows(field, u, start, part.start * _CHUNK, min(n, part.stop * _CHUNK))

    device.map_rows(-(-n // _CHUNK), chunks)


@njit(nogil=True)
def mix_rows(field, matrix, start, first, last):
    """``field[start:start+n, first:last]`` ← ``matrix`` (n, n) times it, in place; sums are of doubles."""
    n = matrix.shape[0]
    re, im = np.empty((n, TILE)), np.empty((n, TILE))
    sum_re, sum_im = np.empty(TILE), np.empty(TILE)
    for t in range(first, last, TILE):
        m = min(TILE, last - t)
        for k in range(n):
            for j in range(m):
                re[k, j], im[k, j] = field[start + k, t + j].real, field[start + k, t + j].imag
        for i in range(n):
            sum_re[:] = 0.0
            sum_im[:] = 0.0
            for k in range(n):
                u, v = matrix[i, k].real, matrix[i, k].imag
                for j in range(TILE):
                    sum_re[j] = fma(u, re[k, j], fma(-v, im[k, j], sum_re[j]))
                    sum_im[j] = fma(u, im[k, j], fma(v, re[k, j], sum_im[j]))
            for j in range(m):
                field[start + i, t + j] = complex(sum_re[j], sum_im[j])
