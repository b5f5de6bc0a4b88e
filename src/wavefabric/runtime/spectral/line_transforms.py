"""Prepare plans and factors with which CPU kernels transform lines of a grid (``kernels/cpu/lines.h``)."""

from collections.abc import Sequence

import numpy as np

from wavefabric.runtime.kernels.cpu_launch import address
from wavefabric.runtime.kernels.series_plan import SeriesPlan

#: Bytes of the widest SIMD vectors: rows of spectra are padded to a multiple.
_WIDEST = 64


def pitch(nx: int, dtype) -> int:
    """Return the padded length of a spectrum row of Nx//2 + 1 numbers: a multiple of the SIMD width."""
    step = _WIDEST // (2 * np.dtype(dtype).itemsize)
    return -(-(nx // 2 + 1) // step) * step


class LineTransforms:
    """Holds plans and factors for transforms of real fields (Nz, Ny, Nx) along each axis, by CPU kernels.

    Kernels receive them as ``words``. ``up`` and ``down`` are spectral factors along x (at least Nx//2 + 1),
    y and z, for derivatives at points half a grid step up or down. Spectra are (Nz, Ny, `pitch`). Nothing is
    scaled.
    """

    def __init__(self, shape: tuple[int, int, int], dtype, up: Sequence, down: Sequence):
        kind = np.result_type(dtype, np.complex64)
        plans = {n: SeriesPlan(n, dtype) for n in shape}
        #: Kept alive, since kernels get only the addresses.
        self._arrays = [plans, *([np.ascontiguousarray(f, kind) for f in each] for each in (up, down))]
        words = []
        for axis, n in enumerate(shape[::-1]):
            words += [address(plans[n].words), *(address(each[axis]) for each in self._arrays[1:])]
        self.words = np.array([*words, pitch(shape[2], dtype), *shape], np.int64)
