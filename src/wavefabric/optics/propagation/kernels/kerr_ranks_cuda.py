"""Launches of ``kerr_ranks.cu``: the names and argument order of ``kerr_ranks.py``."""

from __future__ import annotations

import numpy as np

from wavefabric.optics.propagation.kernels.kerr_cuda import PACKAGE, type_options

_THREADS = 256
#: Outputs that a thread of ``couple`` forms at once; as in ``kerr_ranks.cu``.
_OUTPUTS = 16


class CudaRankKerrLayout:
    """Rows of the own phase groups on a CUDA device."""

    def __init__(self, device, start, n: int, dtype):
        start = np.asarray(start, np.int32)
        self.rows, self.groups, self.n = int(start[-1]), start.size - 1, int(n)
        self.start = device.asarray(start)
        self.row_group = device.asarray(np.repeat(np.arange(self.groups), np.diff(start)).astype(np.int32))
        self.errors = device.empty((self.rows * -(-self.n // _THREADS),), np.float64)


class KerrRankKernels:
    """The kernels of ``kerr_ranks.py`` on one CUDA device."""

    RankKerrLayout = CudaRankKerrLayout

    def __init__(self, device):
        self._device = device
        self._functions: dict = {}

    def _launch(self, name, real, samples, layers, *arguments, shared: int = 0) -> None:
        key = name, np.dtype(real)
        if key not in self._functions:
            module = self._device.module(PACKAGE, "kerr_ranks.cu", type_options(real))
            self._functions[key] = module.get_function(name)
        grid = (-(-samples // _THREADS), layers)
        self._device.launch(self._functions[key], grid, (_THREADS,), arguments, shared)

    def _sums(self, name, layout, like, *arguments) -> None:
        m = like.shape[1]
        sizes = np.int64(layout.n), np.int64(m)
        self._launch(name, like.dtype, m, layout.groups, *arguments, *sizes, layout.start)

    def _rows(self, name, layout, like, *arguments) -> None:
        m = like.shape[1]
        sizes = np.int64(layout.n), np.int64(m)
        self._launch(name, like.dtype, m, layout.rows, *arguments, *sizes, layout.row_group)

    def group_power(self, A, t0, p, layout):
        self._sums("group_power", layout, p, A, np.int64(t0), p)

    def group_sums_middle(self, A, K, t0, h, saa, sbb, sab, layout):
        numbers = np.int64(t0), np.float64(h)
        self._sums("group_sums_middle", layout, saa, A, K, *numbers, saa, sbb, sab)

    def group_sums_last(self, A, K, t0, scc, sss, ssc, layout):
        self._sums("group_sums_last", layout, scc, A, K, np.int64(t0), scc, sss, ssc)

    def couple(self, out, part, matrix, first):
        own, others = matrix.shape
        if not others:
            if first:
                out[...] = 0
            return
        numbers = np.int32(first), np.int32(own), np.int32(others), np.int64(out.shape[1])
        shared, layers = others * _OUTPUTS * out.itemsize, -(-own // _OUTPUTS)
        arguments = out, part, matrix, *numbers
        self._launch("couple", out.dtype, out.shape[1], layers, *arguments, shared=shared)

    def couple_middle(self, theta, part, matrix, saa, sbb, sab, h):
        self._couple_power(theta, part, matrix, saa, sbb, sab, h, 0.25, 1)

    def couple_last(self, theta, part, matrix, sss, scc, ssc, h):
        self._couple_power(theta, part, matrix, sss, scc, ssc, h / 6, 1, 2)

    def _couple_power(self, theta, part, matrix, saa, sbb, sab, h, square, cross):
        (own, others), m, real = matrix.shape, theta.shape[1], theta.dtype.type
        numbers = real(h), real(square), real(cross), np.int32(own), np.int32(others), np.int64(m)
        shared, layers = others * _OUTPUTS * theta.itemsize, -(-own // _OUTPUTS)
        arguments = theta, part, matrix, saa, sbb, sab, *numbers
        self._launch("couple_power", theta.dtype, m, layers, *arguments, shared=shared)

    def power_middle(self, saa, sbb, sab, theta, h):
        self._add_power(saa, sbb, sab, theta, h, 0.25, 1)

    def power_last(self, sss, scc, ssc, theta, h):
        self._add_power(sss, scc, ssc, theta, h / 6, 1, 2)

    def _add_power(self, saa, sbb, sab, theta, h, square, cross):
        real, m = saa.dtype.type, saa.size
        numbers = real(h), real(square), real(cross), np.int64(m)
        self._launch("add_power", saa.dtype, m, 1, saa, sbb, sab, theta, *numbers)

    def stage_power(self, q, p, f, mr, mi):
        self._launch("stage_power", q.dtype, q.size, 1, q, p, q.dtype.type(f), mr, mi, np.int64(q.size))

    def stage_multiplier(self, theta, h, f, weight, mr, mi, sr, si):
        numbers, m = [theta.dtype.type(value) for value in (h, f, weight)], theta.size
        self._launch("stage_multiplier", theta.dtype, m, 1, theta, *numbers, mr, mi, sr, si, np.int64(m))

    def max_rate(self, theta) -> float:
        return float(self._device.xp.abs(theta).max())

    def finish_derivative(self, A, K, t0, rate, layout):
        self._rows("finish_derivative", layout, rate, A, K, np.int64(t0), rate)

    def finish_rotate(self, A, t0, rate, h, layout):
        self._rows("finish_rotate", layout, rate, A, np.int64(t0), rate, np.float64(h))

    def finish_multiply(self, A, t0, sr, si, layout):
        self._rows("finish_multiply", layout, sr, A, np.int64(t0), sr, si)

    def finish_middle(self, A, K, t0, theta2, theta3, h, layout):
        self._rows("finish_middle", layout, theta2, A, K, np.int64(t0), theta2, theta3, np.float64(h))

    def finish_last(self, A, K, t0, theta, rate, h, layout, error=None):
        errors = np.uint64(0) if error is None else layout.errors
        self._rows("finish_last", layout, theta, A, K, np.int64(t0), theta, rate, np.float64(h), errors)
        if error is not None:
            blocks = layout.rows * -(-theta.shape[1] // _THREADS)
            error[...] = layout.errors[:blocks].sum()


#: What `Device.kernels` makes on a GPU.
KERNELS = KerrRankKernels
