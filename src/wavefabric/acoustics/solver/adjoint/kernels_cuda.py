"""Launches of ``kernels.cu``: the names and argument order of ``kernels.py``."""

from functools import partialmethod

import numpy as np

from wavefabric.acoustics.solver.kernels_cuda import BEFORE, AcousticKernels


class AdjointKernels(AcousticKernels):
    """The kernels of the adjoint time step on one CUDA device; the precision follows from the arrays."""

    _PACKAGE, _BEFORE = __package__, (*BEFORE, "wavefabric.acoustics.solver.adjoint/density.cu")

    _per_point = AcousticKernels._per_point
    adjoint_losses = partialmethod(_per_point, "adjoint_losses", "p|ppmmpi")
    adjoint_pressure = partialmethod(_per_point, "adjoint_pressure", "p|spppmmmmppiiii")
    adjoint_density = partialmethod(_per_point, "adjoint_density", "p|spppmgplplpiiii")
    adjoint_velocity = partialmethod(_per_point, "adjoint_velocity", "p|pmpgppipi")
    density_sum = partialmethod(_per_point, "density_sum", "p|psp")
    _medium = partialmethod(_per_point, "medium_gradients", "p|ggggppmmmmmpppiiii")
    forward_rate = partialmethod(_per_point, "forward_rate", "p|spmgplplpi")
    alpha_gradient = partialmethod(_per_point, "alpha_gradient", "p|pmmp")

    def medium_gradients(self, gradients, p_bar, *arguments) -> None:
        self._medium(p_bar, *gradients, *arguments)

    def add_readings(self, field, index, bounds, columns, weights, values, row) -> None:
        arguments = bounds, columns, weights, values[row]
        self._items("add_readings", field.dtype, index.size, field, index, np.int64(index.size), *arguments)

    def accumulate_products(self, sums, field, index, signal, first, weights) -> None:
        rows, columns = map(np.int64, signal.shape)
        more = first, np.int32(first.size > 1), weights, np.int32(weights.size > 1)
        arguments = index, np.int64(index.size), signal, rows, columns, *more
        self._items("accumulate_products", field.dtype, index.size, sums, field, *arguments)


#: What `Device.kernels` makes on a GPU.
KERNELS = AdjointKernels
