"""The stages of a time step, made of whole-array transforms and sweeps: every device, every grid.

The order is k-Wave's (Treeby et al. 2012, doi:10.1121/1.4712021, eq. (7)-(10)).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.coefficients import Coefficients, Fields
from wavefabric.acoustics.solver.source_terms import SourceTerms
from wavefabric.acoustics.solver.subdomain import Subdomain

if TYPE_CHECKING:
    from wavefabric.acoustics.parallel.decomposition import Decomposition
    from wavefabric.exchange import Communicator


class Stages:
    """Plain stages: the reference for faster ones, and the base of those over ranks, which are collective."""

    #: Fields between a transform and the next sweep, for each dimension; fused stages have none.
    _scratch_fields = 1
    #: Whether a medium of few materials is held as an index into a table of them.
    by_index = False
    #: Whether κ is an array, not computed in each step.
    _stores_kappa = True

    def __init__(
        self,
        coefficients: Coefficients,
        fields: Fields,
        comm: Communicator | None = None,
        decomposition: Decomposition | None = None,
    ):
        self.coefficients, self.fields = coefficients, fields
        self._comm, self._decomposition = comm, decomposition
        self.transforms = 0  # 3-D transforms so far
        c, d = coefficients, coefficients.problem.dimensions
        self._spectra = self._new_spectra(d)
        self._real = [c.device.empty(c.shape, c.dtype) for _ in range(d * self._scratch_fields)]
        if self._stores_kappa:
            _ = c.kappa  # before any step is captured
        self.sources = SourceTerms(coefficients, self.apply_operator)

    @classmethod
    def supports(cls, decomposition: Decomposition, dtype) -> bool:
        """Whether these stages can serve such a grid, on the devices that they are for."""
        return True

    @classmethod
    def pitch(cls, subdomain: Subdomain, dtype) -> int | None:
        """Padded length of a row of a half spectrum; None without padding."""
        return None

    @classmethod
    def nbytes(cls, problem: Problem, dtype, device, decomposition: Decomposition, rank: int) -> int:
        """Bytes of spectra, κ, scratch fields and exchanges on a rank."""
        d, subdomain = problem.dimensions, decomposition.subdomains[rank]
        scratch = cls._scratch_fields * (
            d if device.name == "cpu" else d + 2
        )  # cuFFT has work areas of its own
        reals = 2 * d + cls._stores_kappa
        fields, spectra = scratch * math.prod(subdomain.size), reals * math.prod(subdomain.spectral_shape)
        return dtype.itemsize * (fields + spectra)

    def _new_spectra(self, count: int) -> list:
        c = self.coefficients
        return [c.device.empty(self._spectrum_shape(), c.complex) for _ in range(count)]

    def _spectrum_shape(self) -> tuple[int, ...]:
        return self.coefficients.half_shape

    @cached_property
    def _fft(self):
        return self.coefficients.device.real_fft(self.coefficients.shape, self.coefficients.dtype)

    # --- The stages ------------------------------------------------------------------------------------

    def velocity(self, active: tuple[bool, ...]) -> None:
        """u ← pml (pml u − Δt/ρ₀ ∂p), and velocity sources."""
        self._update_velocity(self.coefficients.pml_staggered, self.coefficients.dt, active)

    def _update_velocity(self, pml, dt, active: tuple[bool, ...]) -> None:
        c, f = self.coefficients, self.fields
        self.fill_overlaps([f.p])
        self._forward(f.p, self._spectra[0])
        c.kernels.gradient_spectra(*f.three(self._spectra), c.kappa, *c.up, c.three)
        for axis, (spectrum, gradient) in enumerate(zip(self._spectra, self._real, strict=True)):
            self._backward(spectrum, gradient)
            c.kernels.update_velocity(f.u[axis], gradient, c.staggered[axis], pml[axis], axis, dt)
        self.sources.add_velocity(f.u, f.clock, active)

    def density(self, active: tuple[bool, ...]) -> None:
        """ρ_ξ ← pml (pml ρ_ξ − Δt ρ ∂u_ξ), and pressure sources."""
        c, f = self.coefficients, self.fields
        self.fill_overlaps(f.u)
        for component, spectrum in zip(f.u, self._spectra, strict=True):
            self._forward(component, spectrum)
        c.kernels.divergence_spectra(*f.three(self._spectra), c.kappa, *c.down, c.three)
        for spectrum, real in zip(self._spectra, self._real, strict=True):
            self._backward(spectrum, real)
        c.kernels.update_density(f.rho, f.shell, *f.three(self._real), c.density, c.dt, c.nonlinear, c.three)
        self.sources.add_pressure(f, active)

    def pressure(self) -> None:
        """p by the equation of state, with absorption from the velocity gradients of `density`."""
        c, f = self.coefficients, self.fields
        loss, shift = self._real[0], self._real[1]
        if c.lossy:
            c.kernels.absorption_terms(shift, loss, f.rho, *f.three(self._real), c.density, c.three)
            if not c.stokes:
                self.fill_overlaps([loss, shift] if c.disperses else [loss])
                self._multiply(loss, c.nabla1)
                if c.disperses:
                    self._multiply(shift, c.nabla2)
        c.kernels.update_pressure(
            f.p, f.rho, c.speed, c.density, c.ratio, c.tau, c.eta_factor, loss, shift,
            c.nonlinear, c.lossy, c.disperses,
        )  # fmt: skip

    def initial_pressure(self, p0) -> None:
        """Replace the first step's result: p = p₀, ρ_ξ = p₀/(D c₀²), u = Δt/(2ρ₀) ∂p₀."""
        c, f = self.coefficients, self.fields
        for plane, values in zip(f.p, p0, strict=True):  # not all at once: a device's memory may be full
            plane[...] = c.device.asarray(values, c.dtype)
        c.kernels.split_density(f.rho, f.shell, f.p, self._speed_grid(), c.dimensions)
        self.transform_pressure()
        # From rest and without PML an update by −Δt/2 is u = Δt/(2ρ₀) ∂p₀: u is 0 half a step later.
        for component in f.u:
            component[...] = 0
        ones = [vector * 0 + 1 for vector in c.pml_staggered]
        self._update_velocity(ones, -c.half_dt, (False,) * (2 + len(f.u)))
        c.device.synchronize()  # `ones` must outlive the kernels
        self.transform_pressure()

    def _speed_grid(self):
        """The sound speed as a full grid or one row."""
        return self.coefficients.speed

    def tick(self) -> None:
        """Count a time step."""
        self.coefficients.kernels.tick(self.fields.clock)

    # --- What other forms of the stages do besides ------------------------------------------------------

    def transform_pressure(self) -> None:
        """Make anew what is kept of the spectrum of p between steps, after p was set from outside."""

    def prepare_sources(self, active: tuple[bool, ...]) -> None:
        """Copy to the device what a step with these sources needs, before it is captured."""

    #: What an exchange that is under way between steps brings; None if there is none.
    pending: Any = None

    @property
    def over_ranks(self) -> bool:
        """Whether other ranks have a part of the step."""
        return self._comm is not None

    @property
    def captured(self) -> bool:
        """Whether steps are captured as graphs: over ranks only if kernels themselves wait for others."""
        return self._comm is None or self._comm.stores

    def fill_overlaps(self, fields: list) -> None:
        """Bring overlaps from the neighbours, where there are any, before fields are transformed."""

    def finish_exchanges(self) -> None:
        """End exchanges under way, before the fields are freed or steps end for good; collective."""

    # --- Transforms ------------------------------------------------------------------------------------

    def apply_operator(self, field, operator) -> None:
        """field ← F⁻¹{operator F{field}} for a real operator that holds 1/N."""
        self.fill_overlaps([field])
        self._multiply(field, operator)

    def _multiply(self, field, operator) -> None:
        # The last: the first may hold what a faster form of these stages keeps between steps.
        self._forward(field, self._spectra[-1])
        self.coefficients.kernels.scale_spectrum(self._spectra[-1], operator)
        self._backward(self._spectra[-1], field)

    def translate(self, component, axis: int, factor, out) -> None:
        """out ← F⁻¹{factor F{component}} along one axis: a velocity at the points of the pressure."""
        c, spectrum = self.coefficients, self._free_spectrum()
        self.fill_overlaps([component])
        self._forward(component, spectrum)
        c.kernels.translate_spectrum(spectrum, factor, axis, c.dtype.type(1 / c.subdomain.basis_points))
        self._backward(spectrum, out)

    def _free_spectrum(self):
        """Room for a spectrum that no stage needs, as whole-array transforms write it."""
        return self._spectra[-1]

    def _forward(self, real, spectrum) -> None:
        self._fft.forward(real, spectrum)
        self.transforms += 1

    def _backward(self, spectrum, real) -> None:
        self._fft.backward(spectrum, real)
        self.transforms += 1
