"""Transform rows, axes and real fields on a CPU with kernels of ``kernels/cpu/rows.cpp``."""

from collections.abc import Callable
from typing import Any

import numpy as np

from wavefabric.runtime.kernels.series_plan import RowPlan, SeriesPlan, convolution_kernel
from wavefabric.runtime.kernels.table import kernel_table

TABLE = kernel_table("""
    once transform_rows(plan rows, shape array field, int backward)
    once arrange_factors(plan rows, shape doubles factors, columns array arranged)
    once multiply_spectra(plan rows, shape array field, shape array arranged, int32s kinds, int part)
    once transform_axis(plan series, array field, int outer, int stride, int backward)
    once transform_real_rows(plan series, array field, array spectra, int rows, int backward)
""")
#: Values of ``part`` in `multiply_spectra` (``rows.cpp``): the whole operation, or one of three parts.
_ALL, *_PARTS = range(4)


class CpuRowFFT:
    """Transforms rows of ``n`` complex samples in place; the number of rows is arbitrary."""

    def __init__(self, device: Any, n: int, dtype: Any):
        self._device, self._kernels, kernel = device, device.kernels(TABLE), None
        self._dtype = np.dtype(dtype)
        if (plan := RowPlan(n, dtype)).inner != n:
            points = RowPlan(plan.inner, dtype)
            kernel = self._arranged(points, convolution_kernel(n, plan.inner)[None])
            plan = RowPlan(n, dtype, kernel)
        self._plan = plan

    def forward(self, field: np.ndarray) -> None:
        """Transform the rows of ``field``, (rows, n) or (n,), in place."""
        self._kernels.transform_rows(self._plan, np.atleast_2d(field), False)

    def backward(self, field: np.ndarray) -> None:
        """Apply the unscaled inverse transform, n times the inverse, to the rows of ``field`` in place."""
        self._kernels.transform_rows(self._plan, np.atleast_2d(field), True)

    def arrange(self, factors: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Copy sets of spectral factors to the memory layout that `multiply` reads, and return the copy.

        ``factors`` is (sets, n), complex128; each row of a field will be multiplied by one of the sets. The
        result is real, (sets, `RowPlan.factors`), in ``out`` if that is not None.
        """
        return self._arranged(self._plan, factors, out)

    def multiply(self, field: np.ndarray, arranged: np.ndarray, kinds: np.ndarray) -> None:
        """Multiply the spectrum of each row of ``field`` by spectral factors, in place and without scaling.

        Each row is transformed, multiplied and transformed back. ``arranged`` is a result of `arrange`;
        ``kinds[i]`` (int32) is the index of the set of factors in it by which row i is multiplied.
        """
        together = len(field) < self._device.threads and self._plan.inner == self._plan.points
        for part in _PARTS if together else (_ALL,):
            self._kernels.multiply_spectra(self._plan, field, arranged, kinds, part)

    def _arranged(self, plan: RowPlan, factors: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        real = np.finfo(self._dtype).dtype
        arranged = self._device.zeros((len(factors), plan.factors), real) if out is None else out
        self._kernels.arrange_factors(plan, factors.view(np.float64).reshape(len(factors), -1), arranged)
        return arranged


class CpuAxisFFT:
    """Transforms complex arrays of ``shape`` (Nz, Ny, Nx) in place along axis 0 or 1."""

    def __init__(self, device: Any, shape: tuple[int, int, int], dtype: Any, axis: int):
        self._run: Callable[..., None] = device.kernels(TABLE).transform_axis
        self._plan = SeriesPlan(int(shape[axis]), dtype)
        nz, ny, nx = map(int, shape)
        self._outer, self._stride = (1, ny * nx) if axis == 0 else (nz, nx)

    def forward(self, field: np.ndarray) -> None:
        """Transform ``field`` along the axis, in place."""
        self._run(self._plan, field, self._outer, self._stride, False)

    def backward(self, field: np.ndarray) -> None:
        """Apply the unscaled inverse transform, the inverse times the axis length, to ``field`` in place."""
        self._run(self._plan, field, self._outer, self._stride, True)


class CpuRealFFT:
    """Transforms real fields of ``shape`` (Nz, Ny, Nx) to spectra along x, y and z, in this order, and back.

    Of y and z only those axes are transformed that are in ``axes`` and have more than one point.
    """

    def __init__(self, device: Any, shape: tuple[int, int, int], dtype: Any, axes: tuple[int, ...]):
        nz, ny, nx = map(int, shape)
        half, self._rows = (nz, ny, nx // 2 + 1), nz * ny
        self._run: Callable[..., None] = device.kernels(TABLE).transform_real_rows
        self._plan = SeriesPlan(nx, dtype)
        self._axis_transforms = [
            CpuAxisFFT(device, half, dtype, axis) for axis in (1, 0) if axis in axes and shape[axis] > 1
        ]

    def forward(self, field: np.ndarray, spectrum: np.ndarray) -> None:
        """Write the transform of ``field`` to ``spectrum`` (Nz, Ny, Nx//2 + 1)."""
        self._run(self._plan, field, spectrum, self._rows, False)
        for transform in self._axis_transforms:
            transform.forward(spectrum)

    def backward(self, spectrum: np.ndarray, field: np.ndarray) -> None:
        """Write the unscaled inverse transform of ``spectrum`` to ``field``; overwrites ``spectrum``."""
        for transform in reversed(self._axis_transforms):
            transform.backward(spectrum)
        self._run(self._plan, field, spectrum, self._rows, True)
