"""The stages of a time step, made of whole-array transforms and sweeps: every device, every grid.

The order is k-Wave's (Treeby et al. 2012, doi:10.1121/1.4712021, eq. (7)-(10)).
"""

from __future__ import annotations

from functools import cached_property

from wavefabric.acoustics.solver.coefficients import Constants, Fields
from wavefabric.acoustics.solver.source_terms import Sources


class Stages:
    """Plain stages: the reference for faster ones.

    Parameters
    ----------
    constants : Constants
    fields : Fields

    Attributes
    ----------
    transforms : int
        3-D transforms so far.
    """

    def __init__(self, constants: Constants, fields: Fields):
        self.constants, self.fields = constants, fields
        self.transforms = 0
        parts = 3 if constants.three else 2
        self._spectra = [self._empty_spectrum() for _ in range(parts)]
        self._real = self._scratch(parts)
        self.sources = Sources(constants, self.multiply)

    def _empty_spectrum(self):
        c = self.constants
        return c.device.empty(c.half_shape, c.complex)

    def _scratch(self, parts: int) -> list:
        c = self.constants
        return [c.device.empty(c.shape, c.dtype) for _ in range(parts)]

    @cached_property
    def _fft(self):
        return self.constants.device.real_fft(self.constants.shape, self.constants.dtype)

    # --- The stages ------------------------------------------------------------------------------------

    def velocity(self, active: tuple[bool, ...]) -> None:
        """u ← pml (pml u − Δt/ρ₀ ∂p), and velocity sources."""
        c, f = self.constants, self.fields
        for axis, gradient in enumerate(self._gradient(f.p)):
            c.kernels.update_velocity(
                f.u[axis], gradient, c.staggered[axis], c.pml_staggered[axis], axis, c.dt
            )
        self.sources.add_velocity(f.u, f.clock, active)

    def density(self, active: tuple[bool, ...]) -> None:
        """ρ_ξ ← pml (pml ρ_ξ − Δt ρ ∂u_ξ), and pressure sources."""
        c, f = self.constants, self.fields
        self.enter(f.u)
        for component, spectrum in zip(f.u, self._spectra, strict=True):
            self._forward(component, spectrum)
        c.kernels.divergence_spectra(*f.three(self._spectra), c.kappa, *c.down, c.three)
        for spectrum, real in zip(self._spectra, self._real, strict=True):
            self._backward(spectrum, real)
        c.kernels.update_density(
            *f.three(f.rho), *f.three(self._real), c.density, *c.pml, c.dt, c.nonlinear, c.three
        )
        self.sources.add_pressure(f.rho, f.clock, active)

    def pressure(self) -> None:
        """p by the equation of state, with absorption from the velocity gradients of `density`."""
        c, f = self.constants, self.fields
        loss, shift = self._real[0], self._real[1]
        if c.lossy:
            c.kernels.absorption_terms(shift, loss, *f.three(f.rho), *f.three(self._real), c.density, c.three)
            if not c.stokes:
                self.enter([loss, shift] if c.disperses else [loss])
                self._multiply(loss, c.nabla1)
                if c.disperses:
                    self._multiply(shift, c.nabla2)
        c.kernels.update_pressure(
            f.p, *f.three(f.rho), c.speed, c.density, c.ratio, c.tau, c.eta, loss, shift,
            c.nonlinear, c.lossy, c.disperses, c.three,
        )  # fmt: skip

    def initial_pressure(self, p0) -> None:
        """Replace the first step's result: p = p₀, ρ_ξ = p₀/(D c₀²), u = Δt/(2ρ₀) ∂p₀."""
        c, f = self.constants, self.fields
        f.p[...] = p0
        c.kernels.split_density(*f.three(f.rho), f.p, c.speed, c.parts, c.three)
        for axis, gradient in enumerate(self._gradient(f.p)):
            c.kernels.initial_velocity(f.u[axis], gradient, c.staggered[axis], c.half_dt)

    def ready(self) -> None:
        """The fields were set from outside; nothing is kept between steps here."""

    def prepare(self, active: tuple[bool, ...]) -> None:
        """Before a step with these sources is captured: copy to the device what it will need."""

    def graph(self, work):
        """What repeats the launches of ``work``."""
        return self.constants.device.graph(work)

    def enter(self, fields: list) -> None:
        """Fields are about to be transformed: where a rank holds a block, fill its overlaps."""

    def settle(self) -> None:
        """No exchange stays under way: before the fields are freed, or steps end for good; collective."""

    # --- Transforms ------------------------------------------------------------------------------------

    def multiply(self, field, operator) -> None:
        """field ← F⁻¹{operator F{field}} for a real operator that holds 1/N."""
        self.enter([field])
        self._multiply(field, operator)

    def _multiply(self, field, operator) -> None:
        # The last: the first may hold what a faster form of these stages keeps between steps.
        self._forward(field, self._spectra[-1])
        self.constants.kernels.scale_spectrum(self._spectra[-1], operator)
        self._backward(self._spectra[-1], field)

    def translated(self, component, axis: int, factor, out) -> None:
        """out ← F⁻¹{factor F{component}} along one axis: a velocity at the points of the pressure."""
        c = self.constants
        spectrum = self._spectra[-1]
        self.enter([component])
        self._forward(component, spectrum)
        c.kernels.translate_spectrum(spectrum, factor, axis, c.dtype.type(1 / c.part.points))
        self._backward(spectrum, out)

    def _gradient(self, p):
        c, f = self.constants, self.fields
        self.enter([p])
        self._forward(p, self._spectra[0])
        c.kernels.gradient_spectra(*f.three(self._spectra), c.kappa, *c.up, c.three)
        for spectrum, real in zip(self._spectra, self._real, strict=True):
            self._backward(spectrum, real)
        return self._real

    def _forward(self, real, spectrum) -> None:
        self._fft.forward(real, spectrum)
        self.transforms += 1

    def _backward(self, spectrum, real) -> None:
        self._fft.backward(spectrum, real)
        self.transforms += 1
