"""Launches of ``cells.cu``: the names and argument order of ``cells.py``."""

from __future__ import annotations

import numpy as np

_PACKAGE = "wavefabric.optics.propagation.kernels"
_THREADS = 256
#: Outputs that a thread of ``mix_part`` forms at once; as in ``cells.cu``.
_CELLS = 16


class Cells:
    """Rows of the own cells on a CUDA device (see ``cells.Cells``)."""

    def __init__(self, device, start, n: int, dtype):
        start = np.asarray(start, np.int32)
        self.rows, self.cells, self.n = int(start[-1]), start.size - 1, int(n)
        self.start = device.asarray(start)
        self.row_cell = device.asarray(np.repeat(np.arange(self.cells), np.diff(start)).astype(np.int32))
        self.errors = device.empty((self.rows * -(-self.n // _THREADS),), np.float64)


class Kernels:
    """The kernels of ``cells.py`` on one CUDA device."""

    def __init__(self, device):
        self._device = device
        self._functions: dict = {}

    def Cells(self, device, start, n: int, dtype) -> Cells:
        return Cells(device, start, n, dtype)

    def _launch(self, name, real, samples, layers, *arguments, shared: int = 0) -> None:
        key = name, np.dtype(real)
        if key not in self._functions:
            letter = "float" if np.dtype(real).itemsize == 4 else "double"
            options = (f"-DREAL={letter}", f"-DREAL2={letter}2")
            self._functions[key] = self._device.module(_PACKAGE, "kerr_ranks.cu", options).get_function(name)
        grid = (-(-samples // _THREADS), layers)
        self._device.launch(self._functions[key], grid, (_THREADS,), arguments, shared)

    def _sums(self, name, layout, like, *arguments) -> None:
        m = like.shape[1]
        self._launch(name, like.dtype, m, layout.cells, *arguments, *_sizes(layout, m), layout.start)

    def _rows(self, name, layout, like, *arguments) -> None:
        m = like.shape[1]
        self._launch(name, like.dtype, m, layout.rows, *arguments, *_sizes(layout, m), layout.row_cell)

    def cell_power(self, A, t0, p, layout):
        self._sums("cell_power", layout, p, A, np.int64(t0), p)

    def cell_sums_middle(self, A, K, t0, h, saa, sbb, sab, layout):
        numbers = np.int64(t0), np.float64(h)
        self._sums("cell_sums_middle", layout, saa, A, K, *numbers, saa, sbb, sab)

    def cell_sums_last(self, A, K, t0, scc, sss, ssc, layout):
        self._sums("cell_sums_last", layout, scc, A, K, np.int64(t0), scc, sss, ssc)

    def mix_part(self, out, part, matrix, first):
        own, others = matrix.shape
        if not others:
            if first:
                out[...] = 0
            return
        sizes = np.int32(first), np.int32(own), np.int32(others), np.int64(out.shape[1])
        shared = others * _CELLS * out.itemsize
        tiles = -(-own // _CELLS)
        self._launch("mix_part", out.dtype, out.shape[1], tiles, out, part, matrix, *sizes, shared=shared)

    def mix_middle(self, theta, part, matrix, saa, sbb, sab, h):
        self._mix_power(theta, part, matrix, saa, sbb, sab, h, 0.25, 1)

    def mix_last(self, theta, part, matrix, sss, scc, ssc, h):
        self._mix_power(theta, part, matrix, sss, scc, ssc, h / 6, 1, 2)

    def _mix_power(self, theta, part, matrix, saa, sbb, sab, h, square, cross):
        (own, others), m, real = matrix.shape, theta.shape[1], theta.dtype.type
        sizes = np.int32(own), np.int32(others), np.int64(m)
        numbers = real(h), real(square), real(cross)
        shared, tiles = others * _CELLS * theta.itemsize, -(-own // _CELLS)
        arrays = theta, part, matrix, saa, sbb, sab
        self._launch("mix_power", theta.dtype, m, tiles, *arrays, *numbers, *sizes, shared=shared)

    def power_middle(self, saa, sbb, sab, theta, h):
        self._power(saa, sbb, sab, theta, h, 0.25, 1)

    def power_last(self, sss, scc, ssc, theta, h):
        self._power(sss, scc, ssc, theta, h / 6, 1, 2)

    def _power(self, saa, sbb, sab, theta, h, square, cross):
        real, m = saa.dtype.type, saa.size
        numbers = real(h), real(square), real(cross), np.int64(m)
        self._launch("power_of_sum", saa.dtype, m, 1, saa, sbb, sab, theta, *numbers)

    def stage_power(self, q, p, f, mr, mi):
        self._launch("stage_power", q.dtype, q.size, 1, q, p, q.dtype.type(f), mr, mi, np.int64(q.size))

    def stage_multiplier(self, theta, h, f, weight, mr, mi, sr, si):
        numbers = [theta.dtype.type(value) for value in (h, f, weight)]
        m = np.int64(theta.size)
        self._launch("stage_multiplier", theta.dtype, theta.size, 1, theta, *numbers, mr, mi, sr, si, m)

    def rate_max(self, theta) -> float:
        return float(self._device.xp.abs(theta).max())

    def finish_derivative(self, A, K, t0, rate, layout):
        self._rows("finish_derivative", layout, rate, A, K, np.int64(t0), rate)

    def finish_rotate(self, A, t0, rate, h, layout):
        self._rows("finish_rotate", layout, rate, A, np.int64(t0), rate, np.float64(h))

    def finish_multiply(self, A, t0, sr, si, layout):
        self._rows("finish_multiply", layout, sr, A, np.int64(t0), sr, si)

    def finish_middle(self, A, K, t0, theta2, theta3, h, layout):
        numbers = theta2, theta3, np.float64(h)
        self._rows("finish_middle", layout, theta2, A, K, np.int64(t0), *numbers)

    def finish_last(self, A, K, t0, theta, rate, h, layout, error=None):
        errors = np.uint64(0) if error is None else layout.errors
        self._rows("finish_last", layout, theta, A, K, np.int64(t0), theta, rate, np.float64(h), errors)
        if error is not None:
            blocks = layout.rows * -(-theta.shape[1] // _THREADS)
            error[...] = layout.errors[:blocks].sum()


def _sizes(layout, m: int):
    return np.int64(layout.n), np.int64(m)
