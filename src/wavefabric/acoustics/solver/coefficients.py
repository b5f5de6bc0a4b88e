"""What a time step reads and never writes: medium, operators, PML, on one device."""

from __future__ import annotations

import numpy as np

from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver import operators
from wavefabric.acoustics.solver.parts import Part, whole
from wavefabric.spectral.wavenumbers import squared


class Constants:
    """Medium and operators of a problem, in one precision, on one device.

    A uniform parameter is one row ``(1, 1, Nx)``; what a problem does not need is an empty array or a row
    of zeros.

    Parameters
    ----------
    device : Device
    problem : Problem
        Of this rank: of the shape that ``part`` has here (`localise`).
    dtype : dtype
        float32 or float64.
    pitch : int, optional
        Length of the rows of spectra and their operators, if they are padded.
    part : Part, optional
        What this rank holds of the grid and of the spectrum; everything by default.

    Attributes
    ----------
    part : Part
    shape, half_shape : tuple of int
        C-order shapes of this rank's fields and spectra.
    speed, density, ratio, tau, eta : arrays
        c₀, ρ₀, B/A, absorption and dispersion coefficients: (Nz, Ny, Nx) or (1, 1, Nx).
    staggered : list of arrays
        ρ₀ where the velocity components live.
    kappa, nabla1, nabla2 : arrays (Nz, Ny, Nx//2+1)
        sinc(c_ref |k| Δt/2)/N, |k|^(y−2)/N, |k|^(y−1)/N; N points of the Fourier basis.
    up, down : lists of complex vectors
        i k e^{±i k Δ/2} along x (half), y and z.
    pml, pml_staggered : lists of vectors
    dt, half_dt : scalars of ``dtype``
    lossy, disperses, nonlinear, stokes, three : bool
    """

    def __init__(self, device, problem: Problem, dtype, pitch: int | None = None, part: Part | None = None):
        self.device, self.problem = device, problem
        self.part = part = part or whole(problem.shape)
        self.dtype = real = np.dtype(dtype)
        self.complex = np.result_type(real, np.complex64)
        self.three = problem.dimensions == 3
        self.nonlinear = problem.nonlinearity is not None
        self.stokes = problem.absorption == "stokes"
        self.lossy = problem.absorption != "none"
        self.kernels = device.kernels("wavefabric.acoustics.solver.kernels")
        nz, ny, half = part.spectral_shape
        self.shape, self.half_shape = problem.array_shape, (nz, ny, pitch or half)
        self.speed, self.density = self._grid(problem.sound_speed), self._grid(problem.density)
        self.staggered = [self._grid(rho) for rho in problem.density_staggered]
        self.ratio = self._grid(
            problem.nonlinearity or 0.0 if _scalar(problem.nonlinearity) else problem.nonlinearity
        )
        self._absorption()
        self._operators()
        self.pml = [device.asarray(f, real) for f in operators.pml_factors(problem, False, part)]
        self.pml_staggered = [device.asarray(f, real) for f in operators.pml_factors(problem, True, part)]
        self.up, self.down = (
            [device.asarray(d, self.complex) for d in operators.derivatives(problem, sign, part)]
            for sign in (1, -1)
        )
        for vectors in (self.pml, self.pml_staggered, self.up, self.down):
            vectors += [vectors[-1][:1]] * (3 - len(vectors))  # 2-D: z is never read
        self.dt, self.half_dt = real.type(problem.dt), real.type(problem.dt / 2)
        self.parts = real.type(problem.dimensions)

    def _grid(self, value):
        if _scalar(value):
            return self.device.asarray(np.full((1, 1, self.shape[2]), value or 0.0, self.dtype))
        return self.device.asarray(value, self.dtype)

    def _absorption(self) -> None:
        problem, device = self.problem, self.device
        self.disperses = self.lossy and not self.stokes and problem.dispersion
        self.tau = self.eta = self._grid(0.0)
        if not self.lossy:
            return
        a, b = operators.absorption_factors(problem)
        alpha, power = self._grid(problem.alpha_coeff), float(problem.alpha_power)
        uniform = _scalar(problem.alpha_coeff) and _scalar(problem.sound_speed)
        shape = (1, 1, self.shape[2]) if uniform else self.shape
        self.tau = device.empty(shape, self.dtype)
        self.kernels.fill_absorption(self.tau, self.speed, alpha, a, power - 1)
        if self.disperses:
            self.eta = device.empty(shape, self.dtype)
            self.kernels.fill_absorption(self.eta, self.speed, alpha, b, power)

    def _operators(self) -> None:
        problem, part = self.problem, self.part
        kx2, ky2, kz2 = (
            part.spectrum(k2, axis) for axis, k2 in enumerate(squared(part.basis, problem.spacing))
        )
        kx2 = np.pad(kx2, (0, self.half_shape[2] - kx2.size))
        self._squares = [self.device.asarray(k2, np.float64) for k2 in (kx2, ky2, kz2)]
        half = problem.reference_speed * problem.dt / 2
        self.kappa = self.operator(operators.SINC, half)
        self.nabla1 = self.nabla2 = self.kappa
        if self.lossy and not self.stokes:
            self.nabla1 = self.operator(operators.POWER, problem.alpha_power - 2)
        if self.disperses:
            self.nabla2 = self.operator(operators.POWER, problem.alpha_power - 1)

    def source_kappa(self):
        """cos(c_ref |k| Δt/2)/N, the correction of additive sources (Cox & Treeby 2018,
        doi:10.1121/1.5019468)."""
        return self.operator(operators.COS, self.problem.reference_speed * self.problem.dt / 2)

    def operator(self, kind: int, parameter: float):
        """A new operator of |k| with the transforms' 1/N in it, shape (Nz, Ny, Nx//2+1)."""
        out = self.device.empty(self.half_shape, self.dtype)
        self.kernels.fill_operator(out, *self._squares, kind, float(parameter), 1.0 / self.part.points)
        return out


def _scalar(value) -> bool:
    return value is None or np.ndim(value) == 0


class Fields:
    """What a time step changes: pressure p, velocity u and split density rho, each (Nz, Ny, Nx).

    ``clock`` holds the number of the time step, for kernels. In 2-D the third component is that of y,
    and no kernel touches it.
    """

    def __init__(self, constants: Constants):
        device, shape, dtype = constants.device, constants.shape, constants.dtype
        self.dimensions = constants.problem.dimensions
        self.p = device.zeros(shape, dtype)
        self.u = [device.zeros(shape, dtype) for _ in range(self.dimensions)]
        self.rho = [device.zeros(shape, dtype) for _ in range(self.dimensions)]
        self.clock = device.zeros(1, np.int64)

    def named(self) -> dict:
        """Arrays by name: p, ux, …, rhox, …"""
        axes = "xyz"[: self.dimensions]
        return {
            "p": self.p,
            **{f"u{a}": field for a, field in zip(axes, self.u, strict=True)},
            **{f"rho{a}": field for a, field in zip(axes, self.rho, strict=True)},
        }

    def three(self, parts: list) -> list:
        """Components for a kernel that takes three."""
        return parts if self.dimensions == 3 else [*parts, parts[-1]]
