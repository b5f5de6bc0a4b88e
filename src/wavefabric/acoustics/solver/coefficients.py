"""Holds device arrays of the time step: the fields, and the coefficients of medium, operators and PML."""

import math
from functools import cached_property
from typing import Any

import numpy as np

from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.materials.find import STAGGERED, Materials, find_materials, medium_values
from wavefabric.acoustics.materials.indexed import Indexed, indexed_parameters
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver import formulas, kernels
from wavefabric.acoustics.solver.split_density import make_split_layers, split_points
from wavefabric.runtime.spectral import symmetric


class Coefficients:
    """Holds the medium and operators of a rank's subdomain, in one precision on one device.

    The medium: ``speed`` c₀, ``density`` ρ₀, ``staggered`` (ρ₀ at the points of each velocity component),
    ``ratio`` B/A and ``tau`` τ (absorption). Each is a full grid, or one row (1, 1, Nx) for all points. With
    ``by_index``, parameters of a medium of few materials are `Indexed` where this saves memory. Dispersion
    needs no array: η = ``eta_factor`` τ c₀.

    Operators on half spectra, of shape ``half_shape`` with rows padded to ``pitch``: ``kappa`` is
    sinc(c_ref |k| Δt/2)/N, ``nabla1`` |k|^(y−2)/N and ``nabla2`` |k|^(y−1)/N. N is the number of points of
    the Fourier basis, on an axisymmetric grid twice that. ``up`` and ``down`` are the derivatives
    i k e^{±i k Δ/2} along x (half), y and z.
    """

    def __init__(
        self,
        device,
        problem: Problem,
        dtype,
        pitch: int | None = None,
        subdomain: Subdomain | None = None,
        by_index: bool = False,
    ):
        self.device, self.problem = device, problem
        self.subdomain = subdomain = subdomain or Subdomain.whole(problem.shape, problem.stacked)
        self.dtype = real = np.dtype(dtype)
        self.complex = np.result_type(real, np.complex64)
        self.axes = problem.dimensions
        self.nonlinear = problem.nonlinearity is not None
        self.stokes = problem.absorption == "stokes"
        self.lossy = problem.absorption != "none"
        self.disperses = formulas.disperses(problem)
        self.kernels = device.kernels(kernels.TABLE)
        self.kernels.load(real)
        nz, ny, half = subdomain.spectral_shape
        self.shape, self.half_shape = problem.array_shape, (nz, ny, pitch or half)
        self._set_medium(find_materials(problem, real) if by_index else Materials())
        self._set_operators()
        self.pml, self.pml_staggered = (
            [device.asarray(f, real) for f in formulas.pml_factors(problem, staggered, subdomain)]
            for staggered in (False, True)
        )
        both = (self._in_order(formulas.derivatives(problem, sign, subdomain)) for sign in (1, -1))
        self.up, self.down = ([device.asarray(d, self.complex) for d in each] for each in both)
        for vectors in (self.pml, self.pml_staggered, self.up, self.down):
            vectors += [vectors[-1][:1]] * (3 - len(vectors))  # missing axes: never read
        self.dt, self.half_dt = real.type(problem.dt), real.type(problem.dt / 2)
        self.dimensions = real.type(problem.dimensions)

    @staticmethod
    def nbytes(
        problem: Problem, subdomain: Subdomain, dtype: np.dtype, device, materials: Materials | None = None
    ) -> int:
        """Return the bytes of a rank's arrays, except ``kappa``.

        On a CPU float32 input of a whole grid is not copied, and not counted. ``materials`` are those of the
        whole grid, if parameters may be stored by index.
        """
        shared = dtype.itemsize == 4 and device.name == "cpu" and subdomain.is_whole
        materials = materials or Materials()
        medium = medium_values(problem)
        arrays = [name for name in medium if not (shared or name == "alpha" or _uniform(medium[name]))]
        if problem.absorption != "none" and not _uniform_absorption(problem):
            arrays.append("tau")
        fields = sum(name not in materials for name in arrays)
        spectra = (1 + formulas.disperses(problem)) * (problem.absorption == "power_law")  # nabla1, nabla2
        size, half = math.prod(subdomain.size), math.prod(subdomain.spectral_shape)
        indexed = materials.nbytes(size, dtype.itemsize)
        return indexed + dtype.itemsize * (fields * size + spectra * half)

    def parameter(self, value):
        """Return a medium parameter on the device: a number as one row (1, 1, Nx), a grid as a full grid."""
        if _uniform(value):
            return self.device.asarray(np.full((1, 1, self.shape[2]), value or 0.0, self.dtype))
        return self.device.asarray(value, self.dtype)

    def _set_medium(self, materials: Materials) -> None:
        problem = self.problem
        by_index = indexed_parameters(self.device, problem, materials, self.dtype, self.fill_tau)
        values = medium_values(problem)

        def parameter(name: str) -> Any:
            return by_index[name] if name in by_index else self.parameter(values[name])

        self.speed, self.density, self.ratio = map(parameter, ("speed", "density", "ratio"))
        self.staggered = [parameter(name) for name in STAGGERED[: problem.dimensions]]
        self.eta_factor = self.dtype.type(formulas.eta_factor(problem))
        self.tau = by_index.get("tau")
        if self.tau is None:
            self.tau = self.parameter(0.0)
            if self.lossy:
                shape = (1, 1, self.shape[2]) if _uniform_absorption(problem) else self.shape
                self.tau = self.device.empty(shape, self.dtype)
                speed = self.parameter(problem.sound_speed) if "speed" in by_index else self.speed
                self.fill_tau(self.tau, speed, self.parameter(problem.alpha_coeff))

    def fill_tau(self, tau, speed, alpha) -> None:
        """Compute ``tau``, τ, from sound speed and α₀; all are rows or all are grids on the device."""
        factor, _ = formulas.absorption_factors(self.problem)
        self.kernels.fill_absorption(tau, speed, alpha, factor, float(self.problem.alpha_power) - 1)

    def part(self, parameter, block: tuple[slice, ...]):
        """Return the block ``block``, slices (z, y, x), of a medium parameter: an array or an `Indexed`."""
        if isinstance(parameter, Indexed):
            return parameter.part(block)
        return self.device.xp.broadcast_to(parameter, self.shape)[block]

    def _set_operators(self) -> None:
        problem, subdomain = self.problem, self.subdomain
        #: Scale of a forward and an inverse transform together: 1/N, or 1/(2N) on an axisymmetric grid.
        self.scale = (0.5 if problem.axisymmetric else 1.0) / subdomain.basis_points
        squares = enumerate(formulas.squares(problem, subdomain.basis))
        kx2, ky2, kz2 = self._in_order([subdomain.spectrum(k2, axis) for axis, k2 in squares])
        kx2 = np.pad(kx2, (0, self.half_shape[2] - kx2.size))
        #: k² along x (half), y and z, on the host, in double precision.
        self.squares = [np.asarray(k2, np.float64) for k2 in (kx2, ky2, kz2)]
        self._squares = [self.device.asarray(k2) for k2 in self.squares]
        self.nabla1 = self.nabla2 = None
        if self.lossy and not self.stokes:
            self.nabla1 = self._operator(formulas.POWER, problem.alpha_power - 2)
        self.nabla2 = self.nabla1
        if self.disperses:
            self.nabla2 = self._operator(formulas.POWER, problem.alpha_power - 1)

    def _in_order(self, vectors: list[np.ndarray]) -> list[np.ndarray]:
        """Return ``vectors`` along x, y, z; a radial one is sorted like its transform's coefficients."""
        if self.problem.axisymmetric:
            vectors[1] = vectors[1][symmetric.order(self.device, self.subdomain.basis[1])]
        return vectors

    @cached_property
    def kappa(self):
        """Return sinc(c_ref |k| Δt/2)/N, computed on first use: some stages compute κ per step instead."""
        return self._operator(formulas.SINC, formulas.kappa_scale(self.problem))

    def source_kappa(self):
        """Return cos(c_ref |k| Δt/2)/N for additive sources (Cox & Treeby 2018, doi:10.1121/1.5019468)."""
        return self._operator(formulas.COS, formulas.kappa_scale(self.problem))

    def _operator(self, kind: int, parameter: float):
        """Return a new real operator on half spectra, a function of |k| times the transforms' 1/N.

        ``kind`` is SINC, COS or POWER of `formulas`, ``parameter`` its factor or exponent.
        """
        out = self.device.empty(self.half_shape, self.dtype)
        self.kernels.fill_operator(out, *self._squares, kind, float(parameter), self.scale)
        return out


def _uniform(value) -> bool:
    return value is None or np.ndim(value) == 0


def _uniform_absorption(problem: Problem) -> bool:
    return _uniform(problem.alpha_coeff) and _uniform(problem.sound_speed)


class Fields:
    """Holds pressure p, velocity u and density rho, each (Nz, Ny, Nx), and the number of the time step.

    ``split_layers`` holds the split parts of the density in the PML (`SplitLayers`); ``clock`` is the number
    of the time step, which kernels read.
    """

    def __init__(self, coefficients: Coefficients):
        device, shape, dtype = coefficients.device, coefficients.shape, coefficients.dtype
        self.dimensions = coefficients.problem.dimensions
        self.p = device.zeros(shape, dtype)
        self.u = [device.zeros(shape, dtype) for _ in range(self.dimensions)]
        self.rho = device.zeros(shape, dtype)
        self.split_layers = make_split_layers(
            device, coefficients.problem, coefficients.subdomain, dtype, coefficients.pml[:3]
        )
        self.clock = device.zeros(1, np.int64)

    @staticmethod
    def nbytes(problem: Problem, subdomain: Subdomain, dtype: np.dtype) -> int:
        """Return the bytes of p, u, rho and the split parts of rho on a rank."""
        full = (2 + problem.dimensions) * math.prod(subdomain.size)
        return dtype.itemsize * (full + split_points(problem, subdomain))

    def named(self) -> dict:
        """Return a dictionary from name to array: p, ux, …, rho, and rhox, … for non-empty split parts."""
        named = {"p": self.p}
        named |= {f"u{axis}": field for axis, field in zip("xyz", self.u, strict=False)}
        named["rho"] = self.rho
        parts = zip("xyz", self.split_layers.parts, strict=True)
        return named | {f"rho{axis}": part for axis, part in parts if part.size}

    def three(self, components: list) -> list:
        """Return three arrays for kernels: ``components``, the last of them repeated for missing axes."""
        return [*components, *[components[-1]] * (3 - len(components))]
