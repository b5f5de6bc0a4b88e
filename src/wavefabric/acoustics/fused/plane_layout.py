"""Holds the spectra and kernels of a 2-D time step that is fused axis by axis on one GPU."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from wavefabric.acoustics.decomposition.decompose import Partition
from wavefabric.acoustics.fused.axis_kernels_cuda import AxisKernels
from wavefabric.acoustics.fused.fused_layout import FusedLayout, axis_kernels
from wavefabric.acoustics.problem import Problem


class PlaneLayout(FusedLayout):
    """Holds a 2-D grid's spectra and kernels on one GPU; the kernels along z of a 3-D grid work along y.

    Two spectra hold F{u_y} and F{u_x}, or the derivatives along these axes. A step runs one kernel along y,
    one along x, one along y and one along x, and two more with power-law absorption. In a stack of planes,
    each a simulation by itself, these kernels work on all planes at once.
    """

    columns_axis = 1

    def _prepare(self) -> None:
        super()._prepare()
        x2, y2, none = self.squares
        self.squares = [x2, none, y2]
        for factors in (self.up, self.down, self.up_columns, self.down_planes):
            factors.insert(1, factors[0])  # no kernel reads the factors of the missing axis

    def _kernels(self) -> tuple[AxisKernels, AxisKernels]:
        c, f = self.coefficients, self.fields
        planes, ny, nx = c.shape
        rows = axis_kernels(c, f, (1, ny, nx), "X", planes=planes)
        return rows, axis_kernels(c, f, (ny, 1, nx), "ZG", planes=planes)

    def _spectrum_shape(self) -> tuple[int, ...]:
        return self.coefficients.shape[0], *self.coefficients.half_shape[1:]

    @classmethod
    def nbytes(cls, problem: Problem, dtype: np.dtype, decomposition: Partition, rank: int) -> int:
        planes, spectrum = problem.shape[2], math.prod(decomposition.subdomains[rank].spectral_shape)
        return 2 * np.dtype(dtype).itemsize * 2 * spectrum * (planes - 1)  # `FusedCudaStages` counts one

    def forward_y(self, spectra: list) -> None:
        """Do nothing: the kernels that work on columns transform them along y."""

    def through_z(self, numbers: Sequence[int], along_z: Callable, along_y: bool = True) -> None:
        along_z(self.spectra, numbers)

    def divergence(self, factors: list) -> None:
        s0, s1 = self.spectra
        # In a volume these are the spectra 1 and 2, of u_z and u_x.
        self.column_kernels.run("z_divergence", s0, s0, s1, *self.squares, *factors, 1, layers=2)

    def gradient(self) -> None:
        self.column_kernels.run("z_gradient", *self.spectra, *self.squares, self.up[0], self.up[2])

    def gather(self) -> None:
        self.column_kernels.run("z_gather", *self.spectra, *self.squares, self.down[0], self.down[2])
