"""Defines the stages of a time step: a base class, and an implementation for every device and grid.

The order is k-Wave's (Treeby et al. 2012, doi:10.1121/1.4712021, eq. (7)-(10)).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from wavefabric.acoustics.decomposition.subdomain import Subdomain, Triple
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.coefficients import Fields
from wavefabric.acoustics.solver.layout import FieldLayout
from wavefabric.acoustics.solver.source_terms import SourceTerms


class AdjointChange(NamedTuple):
    """Holds the arrays that the stages of an adjoint step read and update (see `AdjointStep`)."""

    fields: Fields  # adjoint fields
    before: Fields  # forward fields before and after the step
    after: Fields
    rate: Any  # the derivative with respect to ∇·u, where the medium absorbs
    # Derivatives with respect to ρ₀ at the points of p and of u; empty arrays if not requested.
    density_bar: Any
    staggered_bar: list
    differs: bool
    #: C structs that kernels read, by the addresses of the densities before and after; reused in all steps.
    structures: dict[tuple[int, int], tuple]


class Stages(ABC):
    """Base class of the stages of a time step, which update the ``fields`` of a ``layout``.

    All ranks of the layout call each stage together. Call `begin` before the first step.
    """

    #: Whether a medium of few materials is stored as an index into a table of them.
    by_index = False
    #: Whether a step only launches kernels of tables, which a CPU then records once and repeats.
    kernels_alone = False
    sources: SourceTerms

    def __init__(self, layout: FieldLayout):
        self.layout, self.coefficients, self.fields = layout, layout.coefficients, layout.fields
        self.transforms = 0  # 3-D transforms so far
        self._spectra = layout.spectra

    def begin(self, problem: Problem) -> None:
        """Start at rest with the sources of ``problem``, whose grid, medium and Δt must be the stages'."""
        c, f = self.coefficients, self.fields
        if problem is not c.problem:
            c.problem, self.transforms, self.layout.pending = problem, 0, None
            for array in (*f.named().values(), f.clock):
                array[...] = 0
        self.sources = SourceTerms(self.coefficients, self.apply_operator)
        self.transform_pressure()

    @classmethod
    def supports(cls, shape: Triple, bases: set[Triple], dtype: np.dtype) -> bool:
        """Return whether these stages support a grid (Nx, Ny, Nz) and the Fourier bases of its ranks."""
        return True

    @classmethod
    def pitch(cls, subdomain: Subdomain, dtype: np.dtype) -> int | None:
        """Return the padded length of a row of a half spectrum; None if rows are not padded."""
        return None

    @classmethod
    def nbytes(cls, problem: Problem, dtype: np.dtype, device: Any, subdomain: Subdomain) -> int:
        """Return the bytes of the spectra, κ and scratch fields of a rank."""
        return dtype.itemsize * 2 * problem.dimensions * math.prod(subdomain.spectral_shape)

    # --- The stages ------------------------------------------------------------------------------------

    def velocity(self, active: tuple[bool, ...]) -> None:
        """Update the velocity, u ← pml (pml u − Δt/ρ₀ ∂p), and apply velocity sources."""
        self._update_velocity(self.coefficients.pml_staggered, self.coefficients.dt, active)

    @abstractmethod
    def _update_velocity(self, pml: list, dt: Any, active: tuple[bool, ...]) -> None:
        """Update the velocity as `velocity` does, but with PML factors ``pml`` and time step ``dt``."""

    @abstractmethod
    def density(self, active: tuple[bool, ...]) -> None:
        """Update the density, ρ_ξ ← pml (pml ρ_ξ − Δt ρ ∂u_ξ), and apply pressure sources."""

    @abstractmethod
    def pressure(self) -> None:
        """Compute p by the equation of state, with absorption from the velocity gradients of `density`."""

    def initial_pressure(self, p0: Any) -> None:
        """Replace the first step's result in D dimensions: p = p₀, ρ_ξ = p₀/(D c₀²), u = Δt/(2ρ₀) ∂p₀."""
        c, f = self.coefficients, self.fields
        if not isinstance(p0, np.ndarray):  # on the device already
            f.p[...] = p0
        else:  # not all at once: a device's memory may be full
            for plane, values in zip(f.p, p0, strict=True):
                plane[...] = c.device.asarray(values, c.dtype)
        c.kernels.split_density(f.rho, f.split_layers, f.p, self._speed_grid(), c.dimensions)
        self.transform_pressure()
        # From rest and without PML an update by −Δt/2 is u = Δt/(2ρ₀) ∂p₀: u is 0 half a step later.
        for component in f.u:
            component[...] = 0
        ones = [c.device.asarray(np.ones(vector.shape, c.dtype)) for vector in c.pml_staggered]
        self._update_velocity(ones, -c.half_dt, (False,) * (2 + len(f.u)))
        c.device.synchronize()  # `ones` must outlive the kernels
        self.transform_pressure()

    def _speed_grid(self) -> Any:
        """Return the sound speed as a full grid, or as one row if it is uniform."""
        return self.coefficients.speed

    def tick(self) -> None:
        """Increment the number of the time step, ``clock``."""
        self.coefficients.kernels.tick(self.fields.clock)

    # --- Transforms ------------------------------------------------------------------------------------

    def transform_pressure(self) -> None:  # noqa: B027 - most stages store nothing
        """Recompute the spectrum of p, if one is stored between steps, after p was set from outside."""

    def prepare_sources(self, active: tuple[bool, ...]) -> None:  # noqa: B027 - or copy nothing
        """Copy data of the ``active`` sources to the device, before a graph of their steps is captured."""

    @abstractmethod
    def apply_operator(
        self, field: Any, operator: Any, axis: int | None = None, adjoint: bool = False, out: Any = None
    ) -> None:
        """Multiply the spectrum of ``field`` by a real ``operator``, which includes the transforms' 1/N.

        The result is written to ``out``, by default ``field``. ``axis`` is the component if ``field`` is a
        velocity. ``adjoint``: apply the transpose, which is another operation if the layout has overlaps.
        """

    # --- For the adjoint step, whose derivatives are the transposes of those above -----------------------

    @abstractmethod
    def adjoint_divergence(self, fields: list) -> None:
        """Replace the field of each axis ξ by −Dᵀ field, where D is the derivative ∂_ξ in `density`.

        −Dᵀ field is F⁻¹{i k_ξ e^{i k_ξ Δ/2} κ F{field}}.
        """

    def adjoint_gradient(self, fields: list, out: Any) -> None:
        """Write the sum of −Gᵀ field over all axes to ``out``, where G is the derivative of p in `velocity`.

        It is F⁻¹{Σ i k e^{−ikΔ/2} κ F{field}}. ``fields``, one for each axis, are overwritten.
        """
        self._summed_divergence(fields, out, True)

    def divergence(self, fields: list, out: Any) -> None:
        """Write ∇·u at the points of the pressure to ``out``; ``fields`` are the components of u."""
        self._summed_divergence(fields, out, False)

    @abstractmethod
    def _summed_divergence(self, fields: list, out: Any, adjoint: bool) -> None:
        """Compute `adjoint_gradient` if ``adjoint``, else `divergence`."""

    @property
    def fused_adjoint_pressure(self) -> Callable[[AdjointChange], None] | None:
        """Return a function of fused kernels for the pressure stage of an adjoint step, or None."""
        return None

    @property
    def fused_adjoint_motion(self) -> Callable[[AdjointChange], None] | None:
        """Return a function of fused kernels for an adjoint step's density and velocity stages, or None."""
        return None

    def translate(self, component: Any, axis: int, factor: Any, out: Any) -> None:
        """Move a velocity component along ``axis`` to the pressure points, and write it to ``out``.

        ``factor`` is the factor e^{−i k Δ/2} of its spectrum along this axis.
        """
        c, spectrum = self.coefficients, self._free_spectrum()
        self.layout.fill_overlaps([component])
        self.layout.fft.forward(component, spectrum)
        c.kernels.translate_spectrum(spectrum, factor, axis, c.dtype.type(c.scale))
        self.layout.fft.backward(spectrum, out)
        self.transforms += 2

    def _free_spectrum(self) -> Any:
        """Return a spectrum that no stage is using, shaped for whole-array transforms."""
        return self._spectra[-1]


class PlainStages(Stages):
    """Takes time steps by whole-array transforms and pointwise kernels; the reference for faster stages."""

    def __init__(self, layout: FieldLayout):
        super().__init__(layout)
        c = self.coefficients
        # Absorption needs two scratch fields.
        self._real = [c.device.empty(c.shape, c.dtype) for _ in range(max(2, len(self._spectra)))]
        _ = c.kappa  # before any step is captured

    @classmethod
    def nbytes(cls, problem: Problem, dtype: np.dtype, device: Any, subdomain: Subdomain) -> int:
        # cuFFT allocates work areas.
        scratch = max(2, problem.dimensions) + (0 if device.name == "cpu" else 2)
        kappa, fields = math.prod(subdomain.spectral_shape), scratch * math.prod(subdomain.size)
        return super().nbytes(problem, dtype, device, subdomain) + dtype.itemsize * (kappa + fields)

    def _update_velocity(self, pml: list, dt: Any, active: tuple[bool, ...]) -> None:
        c, f = self.coefficients, self.fields
        self.layout.fill_overlaps([f.p])
        self._forward(f.p, self._spectra[0])
        c.kernels.gradient_spectra(*f.three(self._spectra), c.kappa, *c.up, c.axes)
        for axis, (spectrum, gradient) in enumerate(zip(self._spectra, self._real, strict=False)):
            self._backward(spectrum, gradient, axis)
            c.kernels.update_velocity(f.u[axis], gradient, c.staggered[axis], pml[axis], axis, dt)
        self.sources.add_velocity(f.u, f.clock, active)

    def density(self, active: tuple[bool, ...]) -> None:
        c, f = self.coefficients, self.fields
        self.layout.fill_overlaps(f.u)
        self._derivatives(f.u, c.down)
        for spectrum, real in zip(self._spectra, self._real, strict=False):
            self._backward(spectrum, real)
        c.kernels.update_density(
            f.rho, f.split_layers, *f.three(self._real), c.density, c.dt, c.nonlinear, c.axes
        )
        self.sources.add_pressure(f, active)

    def pressure(self) -> None:
        c, f = self.coefficients, self.fields
        loss, shift = self._real[0], self._real[1]
        if c.lossy:
            c.kernels.absorption_terms(shift, loss, f.rho, *f.three(self._real), c.density, c.axes)
            if not c.stokes:
                self.layout.fill_overlaps([loss, shift] if c.disperses else [loss])
                self._multiply(loss, c.nabla1, loss)
                if c.disperses:
                    self._multiply(shift, c.nabla2, shift)
        c.kernels.update_pressure(
            f.p, f.rho, c.speed, c.density, c.ratio, c.tau, c.eta_factor, loss, shift,
            c.nonlinear, c.lossy, c.disperses,
        )  # fmt: skip

    # --- Transforms ------------------------------------------------------------------------------------

    def apply_operator(self, field, operator, axis=None, adjoint=False, out=None) -> None:
        out = field if out is None else out
        with self.layout.overlaps([field], [out], adjoint):
            self._multiply(field, operator, out, axis)

    def adjoint_divergence(self, fields) -> None:
        with self.layout.overlaps(fields, fields, True):
            self._derivatives(fields, self.coefficients.up)
            for spectrum, field in zip(self._spectra, fields, strict=True):
                self._backward(spectrum, field)

    def _summed_divergence(self, fields, out, adjoint) -> None:
        with self.layout.overlaps(fields, [out], adjoint):
            self._derivatives(fields, self.coefficients.down)
            for spectrum in self._spectra[1:]:
                self._spectra[0][...] += spectrum
            self._backward(self._spectra[0], out)

    def _derivatives(self, fields, factors) -> None:
        """Compute the spectrum of the derivative of each field along its axis."""
        c = self.coefficients
        for field, spectrum in zip(fields, self._spectra, strict=True):
            self._forward(field, spectrum)
        c.kernels.divergence_spectra(*self.fields.three(self._spectra), c.kappa, *factors, c.axes)

    def _multiply(self, field, operator, out, axis: int | None = None) -> None:
        self._forward(field, self._spectra[-1], axis)
        self.coefficients.kernels.scale_spectrum(self._spectra[-1], operator)
        self._backward(self._spectra[-1], out, axis)

    def _forward(self, real: Any, spectrum: Any, axis: int | None = None) -> None:
        """Transform ``real``, at the pressure's points or, with ``axis``, at those of this velocity."""
        self.layout.fft.forward(real, spectrum)
        self.transforms += 1

    def _backward(self, spectrum: Any, real: Any, axis: int | None = None) -> None:
        self.layout.fft.backward(spectrum, real)
        self.transforms += 1
