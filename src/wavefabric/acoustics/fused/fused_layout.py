"""Holds the spectra and kernels of a time step that is fused axis by axis on one GPU."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.fused.axis_kernels_cuda import (
    AxisKernels,
    MediumKind,
    medium_forms,
    prelude,
    sinc_series,
)
from wavefabric.acoustics.materials.find import AT_POINTS
from wavefabric.acoustics.solver.coefficients import Coefficients, Fields
from wavefabric.acoustics.solver.formulas import derivatives, kappa_scale
from wavefabric.acoustics.solver.layout import FieldLayout


class FusedLayout(FieldLayout):
    """Holds the whole grid's spectra and kernels on one GPU; base class of the layouts over several ranks.

    ``plane_kernels`` work along x and y, ``column_kernels`` along z. ``up`` and ``down`` are the factors of
    derivatives half a spacing up or down each axis (`scaled_derivatives`), ``squares`` the terms of κ
    (`scaled_squares`); all are on the device.
    """

    #: e^{−i k_y Δ/2} for all k_y, if a rank's spectrum has only some k_y; else None.
    unstagger_y: Any = None
    #: Fields exchanged between ranks for absorption: ρ₀∇·u, ρ or None, and flags of the rows sent; or None.
    exchanged: tuple | None = None
    #: The axis along which columns lie.
    columns_axis = 2

    def _prepare(self) -> None:
        c = self.coefficients
        self.up, self.down = (scaled_derivatives(c, sign) for sign in (1, -1))
        #: ``up`` for columns and ``down`` for planes, which differ if a rank's columns have only some k_y.
        self.up_columns, self.down_planes = list(self.up), list(self.down)
        self.squares = [c.device.asarray(k2, c.dtype) for k2 in scaled_squares(c)]
        self.plane_kernels, self.column_kernels = self._kernels()
        both = self.plane_kernels, self.column_kernels
        for kernels in both if self.comm is not None else ():
            kernels.compile_gathers()
        for kernels in both:  # once all are being compiled
            kernels.load()

    def _kernels(self) -> tuple[AxisKernels, AxisKernels]:
        """Return the kernels of planes and the kernels of columns."""
        kernels = axis_kernels(self.coefficients, self.fields, self.coefficients.shape, "XYZG")
        return kernels, kernels

    def start_exchange(self, fields: list, spectra: list) -> None:
        """Start to exchange ``fields`` whose ``spectra`` along x are complete; does nothing on one GPU."""

    def forward_y(self, spectra: list) -> None:
        """Transform ``spectra`` along y."""
        self.plane_kernels.y_transform(spectra, False)

    def through_z(self, numbers: Sequence[int], along_z: Callable, along_y: bool = True) -> None:
        """Apply the function ``along_z`` to the columns along z of the spectra with the given ``numbers``.

        It is called as ``along_z(spectra, numbers)``, with all spectra. With ``along_y`` the selected ones
        are transformed along y before, and back after.
        """
        spectra = [self.spectra[number] for number in numbers]
        if along_y:
            self.forward_y(spectra)
        along_z(self.spectra, numbers)
        if along_y:
            self.plane_kernels.y_transform(spectra, True)

    def divergence(self, factors: list) -> None:
        """Replace spectra along x of u_x, u_y, u_z by those of ∂x u_x, ∂y u_y, ∂z u_z.

        ``factors`` are those of the derivatives along x, y and z, i k.
        """

        def along_z(s: list, numbers: Sequence[int]) -> None:
            kernel = "z_divergence", *s, *self.squares, *factors, numbers[0]
            self.column_kernels.run(*kernel, layers=len(numbers))

        self.through_z(range(3), along_z)

    def gradient(self) -> None:
        """Replace the spectrum of p along x by the spectra of its gradient."""
        s0, s1, s2 = self.spectra
        self.forward_y([s0])
        self.column_kernels.run("z_gradient", s0, s1, *self.squares, self.up[2])
        self.plane_kernels.run("y_gradient", s0, s1, s2, *self.up[:2], layers=2)

    def gather(self) -> None:
        """Replace spectrum s0 by ∂x s2 + ∂y s0 + ∂z s1: the negative transpose of `gradient`.

        s0, s1 and s2 are the three spectra along x.
        """
        s0, s1, s2 = self.spectra
        self.plane_kernels.run("y_gather", s0, s1, s2, *self.down_planes[:2], layers=2)
        self.column_kernels.run("z_gather", s0, s1, *self.squares, self.down[2])
        self.plane_kernels.y_transform([s0], True)


def axis_kernels(
    coefficients: Coefficients,
    fields: Fields,
    shape: Sequence[int],
    kernels: str,
    firsts: Sequence[int] = (),
    scatter: Any = None,
    planes: int | None = None,
) -> AxisKernels:
    """Return the `AxisKernels` for arrays of ``shape`` (Nz, Ny, Nx); ``firsts`` is as in `prelude`."""
    c = coefficients
    largest = sum(float(k2.max()) for k2 in scaled_squares(c))
    series = sinc_series(largest, c.dtype)
    forms = medium_forms(pressure_point_parameters(c), c.staggered)
    medium = MediumKind(c.nonlinear, c.problem.absorption, forms, c.disperses)
    runs, dimensions = fields.split_layers.runs, c.problem.dimensions

    def definitions(names: Sequence[str]) -> str:
        return prelude(shape, c.dtype, medium, names, series, runs, firsts, dimensions)

    return AxisKernels(c.device, shape, c.dtype, kernels, definitions, scatter, planes)


def pressure_point_parameters(coefficients: Coefficients) -> dict[str, Any]:
    """Return a dictionary from name to value of the medium parameters at the points of the pressure."""
    return {name: getattr(coefficients, name) for name in AT_POINTS}


def scaled_derivatives(coefficients: Coefficients, sign: int, subdomain: Subdomain | None = None) -> list:
    """Return for each axis the spectral factors of a derivative half a spacing up (``sign`` 1) or down (−1).

    These are i k e^{±i k Δ/2} times the 1/N of an inverse transform, on the device.
    """
    c = coefficients
    factors = derivatives(c.problem, sign, subdomain or c.subdomain)
    return [c.device.asarray(factor / c.subdomain.basis_points, c.complex) for factor in factors]


def scaled_squares(coefficients: Coefficients) -> list[np.ndarray]:
    """Return arrays (c_ref Δt/2)² k² for k_x from 0, all k_y and all k_z; κ is sinc(√(sum of the three))."""
    return [k2 * kappa_scale(coefficients.problem) ** 2 for k2 in coefficients.squares]
