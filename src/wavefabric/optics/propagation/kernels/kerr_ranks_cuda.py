"""Launches of ``kerr_ranks.cu``: the names and argument order of ``kerr_ranks.py``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wavefabric.optics.propagation.kernels.kerr_cuda import FORMULAS, PACKAGE, type_options

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


def _over(what: str, name: str) -> Callable[..., None]:
    """The kernel of that name over the ``groups`` or ``rows`` of a layout, its last argument, and a chunk."""

    def launch(self, *arguments) -> None:
        *given, layout = arguments
        like = next(a for a in given if getattr(a, "dtype", np.dtype(complex)).kind == "f")
        m, of_what = like.shape[1], layout.start if what == "groups" else layout.row_group
        wide = {int: np.int64, float: np.float64}
        given = [wide[type(a)](a) if type(a) in wide else a for a in given]
        sizes = np.int64(layout.n), np.int64(m)
        self._launch(name, like.dtype, m, getattr(layout, what), *given, *sizes, of_what)

    return launch


def _pointwise(name: str) -> Callable[..., None]:
    """The kernel of that name over all groups and samples; its numbers are of the type of the arrays."""

    def launch(self, like, *arguments) -> None:
        numbers = [like.dtype.type(a) if isinstance(a, (int, float)) else a for a in arguments]
        self._launch(name, like.dtype, like.size, 1, like, *numbers, np.int64(like.size))

    return launch


class KerrRankKernels:
    """The kernels of ``kerr_ranks.py`` on one CUDA device."""

    RankKerrLayout = CudaRankKerrLayout
    group_power = _over("groups", "group_power")
    group_sums_middle = _over("groups", "group_sums_middle")
    group_sums_last = _over("groups", "group_sums_last")
    finish_derivative = _over("rows", "finish_derivative")
    finish_rotate = _over("rows", "finish_rotate")
    finish_multiply = _over("rows", "finish_multiply")
    finish_middle = _over("rows", "finish_middle")
    _finish_last = _over("rows", "finish_last")
    stage_power = _pointwise("stage_power")
    stage_multiplier = _pointwise("stage_multiplier")
    _add_power = _pointwise("add_power")

    def __init__(self, device):
        self._device = device
        self._functions: dict = {}

    def _launch(self, name, real, samples, layers, *arguments, shared: int = 0) -> None:
        key = name, np.dtype(real)
        if key not in self._functions:
            module = self._device.module(PACKAGE, "kerr_ranks.cu", type_options(real), (FORMULAS,))
            self._functions[key] = module.get_function(name)
        grid = (-(-samples // _THREADS), layers)
        self._device.launch(self._functions[key], grid, (_THREADS,), arguments, shared)

    def couple(self, out, part, matrix, first):
        if matrix.shape[1]:
            self._couple("couple", out, part, matrix, np.int32(first))
        elif first:
            out[...] = 0

    def couple_middle(self, theta, part, matrix, saa, sbb, sab, h):
        real = theta.dtype.type
        self._couple("couple_power", theta, part, matrix, saa, sbb, sab, real(h), real(0.25), real(1))

    def couple_last(self, theta, part, matrix, sss, scc, ssc, h):
        real = theta.dtype.type
        self._couple("couple_power", theta, part, matrix, sss, scc, ssc, real(h / 6), real(1), real(2))

    def _couple(self, name, out, part, matrix, *arguments):
        (own, others), m = matrix.shape, out.shape[1]
        shared, layers = others * _OUTPUTS * out.itemsize, -(-own // _OUTPUTS)
        sizes = np.int32(own), np.int32(others), np.int64(m)
        self._launch(name, out.dtype, m, layers, out, part, matrix, *arguments, *sizes, shared=shared)

    def power_middle(self, saa, sbb, sab, theta, h):
        self._add_power(saa, sbb, sab, theta, h, 0.25, 1)

    def power_last(self, sss, scc, ssc, theta, h):
        self._add_power(sss, scc, ssc, theta, h / 6, 1, 2)

    def max_rate(self, theta) -> float:
        return float(self._device.xp.abs(theta).max())

    def finish_last(self, A, K, t0, theta, rate, h, layout, error=None):
        self._finish_last(A, K, t0, theta, rate, h, np.uint64(0) if error is None else layout.errors, layout)
        if error is not None:
            blocks = layout.rows * -(-theta.shape[1] // _THREADS)
            error[...] = layout.errors[:blocks].sum()


#: What `Device.kernels` makes on a GPU.
KERNELS = KerrRankKernels
