"""The stages of a 3-D time step on a GPU, fused with their transforms axis by axis (`axes.cu`).

Between steps the spectrum of p along x is kept. Patterns of sources are added inside the passes; sources at
points need a pass between the update and the transform, while they are on.
"""

from __future__ import annotations

from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver import axis_passes_cuda
from wavefabric.acoustics.solver.coefficients import Constants, Fields
from wavefabric.acoustics.solver.source_terms import Injection
from wavefabric.acoustics.solver.stages import Stages


def usable(device, problem: Problem, dtype) -> bool:
    """Whether these stages can serve: a GPU, three dimensions, sizes made of 2, 3, 5 and 7."""
    return (
        device.name != "cpu"
        and problem.dimensions == 3
        and axis_passes_cuda.usable(problem.array_shape, dtype)
    )


def pitch(problem: Problem, dtype) -> int:
    """Padded length of a row of a half spectrum."""
    return axis_passes_cuda.pitch(problem.shape[0], dtype)


class AxisStages(Stages):
    """Same stages, same answers to round-off as `Stages`, half the passes over memory."""

    def __init__(self, constants: Constants, fields: Fields):
        self._axes = self._passes(constants, constants.shape, "XYZ")
        super().__init__(constants, fields)
        self._structures: dict[tuple, tuple] = {}
        c = constants
        self._state = self._axes.pack(
            self._axes.state(
                fields.rho, fields.p, c.pml, c.speed, c.density, c.ratio, c.tau, c.eta, self._stored()
            )
        )

    @staticmethod
    def _passes(constants: Constants, shape, axes: str) -> axis_passes_cuda.Kernels:
        """Kernels for arrays of a shape, along some axes."""
        medium = constants.nonlinear, constants.problem.absorption
        return axis_passes_cuda.Kernels(constants.device, shape, constants.dtype, *medium, axes)

    def _scratch(self, parts: int) -> list:
        return []

    def velocity(self, active: tuple[bool, ...]) -> None:
        c, f = self.constants, self.fields
        for source, on in zip((self.sources.pressure, *self.sources.velocity), active[:-1], strict=True):
            if source is not None and on:
                source.refresh(f.clock)  # now, while one spectrum is free
        self._gradient_spectra()
        components, _, at_points = self._of(active)
        self._axes.x_velocity(components, c.dt, f.clock, not at_points)
        if at_points:
            for axis, (source, on) in enumerate(zip(self.sources.velocity, active[1:-1], strict=True)):
                if source is not None and on and source.form == "points":
                    source.apply(f.u[axis], f.clock)
            if self.sources.delayed is not None and active[-1]:
                self.sources.delayed.apply(f.u[0], f.clock)
            for component, spectrum in zip(f.u, self._by_axis(), strict=True):
                self._axes.x_forward(component, spectrum)
        self.left(f.u, self._by_axis())
        self.transforms += 6

    def _by_axis(self) -> list:
        """Spectra of the x, y and z components."""
        s0, s1, s2 = self._spectra
        return [s2, s0, s1]

    # --- Where ranks part the work: fields leave with their spectra along x, other axes follow ------------

    def left(self, fields: list, spectra: list) -> None:
        """Fields and their spectra along x are complete; they are next needed by `along_y`."""

    def along_y(self, spectra: list) -> None:
        """Transform spectra along y, forward."""
        self._axes.y_transform(spectra, False)

    def _gradient_spectra(self) -> None:
        c = self.constants
        s0, s1, s2 = self._spectra
        self.along_y([s0])
        self._axes.z_gradient(s0, s1, c.kappa, c.up[2])
        self._axes.y_gradient(s0, s1, s2, c.up[0], c.up[1])

    def _divergence_spectra(self) -> None:
        c = self.constants
        self.along_y(self._spectra)
        self._axes.z_divergence(self._spectra, c.kappa, c.down)
        self._axes.y_transform(self._spectra, True)

    def _absorption_spectra(self, both: list) -> None:
        c = self.constants
        self.along_y(both)
        s0, s1, _ = self._spectra
        self._axes.z_scale(s0, s1, c.nabla1, c.nabla2, len(both))
        self._axes.y_transform(both, True)

    def _multiply_spectrum(self, spectrum, operator) -> None:
        """Along y and z there and back, with a real operator in between."""
        self._axes.y_transform([spectrum], False)
        self._axes.z_scale(spectrum, spectrum, operator, operator, 1)
        self._axes.y_transform([spectrum], True)

    def _translate_y(self, spectrum, factor, scale) -> None:
        self._axes.y_transform([spectrum], False)
        self.constants.kernels.translate_spectrum(spectrum, factor, 1, scale)
        self._axes.y_transform([spectrum], True)

    def _translate_z(self, spectrum, factor, scale) -> None:
        self._axes.z_translate(spectrum, factor, scale)

    def _stored(self) -> tuple | None:
        """ρ₀∇·u and Σρ as fields, and the rows where they are wanted as such."""
        return None

    # -----------------------------------------------------------------------------------------------------

    def density(self, active: tuple[bool, ...]) -> None:
        c, f = self.constants, self.fields
        self._divergence_spectra()
        _, source, _ = self._of(active)
        self._at_points = self._points(self.sources.pressure, active[0])
        self._axes.x_density(self._spectra, self._state, source, c.dt, f.clock, self._at_points)
        if self._at_points:
            self.sources.add_pressure(f.rho, f.clock, active)
            if c.disperses:
                self._total_density()
        if c.lossy and not c.stokes:
            both = 1 + c.disperses
            stored = self._stored() or (None, None)
            self.left(list(stored[:both]), self._spectra[:both])
        elif not self._at_points:
            self.left([f.p], self._spectra[:1])
        self.transforms += 4 + c.disperses

    def _total_density(self) -> None:
        """Σρ after sources at points, and its spectrum along x, for the dispersion."""
        f = self.fields
        f.p[...] = f.rho[0]
        for part in f.rho[1:]:
            self.constants.kernels.add_field(f.p, part)
        self._axes.x_forward(f.p, self._spectra[1])

    def pressure(self) -> None:
        c = self.constants
        s0, s1, _ = self._spectra
        if c.lossy and not c.stokes:
            self._absorption_spectra(self._spectra[: 2 if c.disperses else 1])
            self._axes.x_pressure(s0, s1, self._state, 1, c.disperses)
            self.left([self.fields.p], [s0])
            self.transforms += 2 + c.disperses
        elif self._at_points:
            self._axes.x_pressure(s0, s1, self._state, 2 if c.stokes else 0, False)
            self.left([self.fields.p], [s0])

    def initial_pressure(self, p0) -> None:
        c, f = self.constants, self.fields
        f.p[...] = p0
        c.kernels.split_density(*f.rho, f.p, c.speed, c.parts, True)
        self.ready()
        for component in f.u:
            component[...] = 0
        # From rest and without PML, an update by −Δt/2 is u = Δt/(2ρ₀) ∂p₀.
        ones = [vector * 0 + 1 for vector in c.pml_staggered]
        self._gradient_spectra()
        words = self._components(ones, [None] * 3)
        self._axes.x_velocity(self._axes.pack(words), -c.half_dt, f.clock, False)
        c.device.synchronize()  # `ones` must outlive the kernel
        self.ready()

    def ready(self) -> None:
        """Spectrum along x of a p that was set from outside."""
        self._axes.x_forward(self.fields.p, self._spectra[0])

    def prepare(self, active: tuple[bool, ...]) -> None:
        self._of(active)

    def multiply(self, field, operator) -> None:
        """field ← F⁻¹{operator F{field}}; the last spectrum is free when sources ask for this."""
        spectrum = self._spectra[-1]
        self.enter([field])
        self._axes.x_forward(field, spectrum)
        self._multiply_spectrum(spectrum, operator)
        self._axes.x_backward(spectrum, field)
        self.transforms += 2

    def translated(self, component, axis: int, factor, out) -> None:
        """out ← F⁻¹{factor F{component}} along one axis."""
        spectrum, n = self._spectra[-1], self.constants.part.basis
        kernels, real = self.constants.kernels, self.constants.dtype.type
        self.enter([component])
        self._axes.x_forward(component, spectrum)
        if axis == 0:
            kernels.translate_spectrum(spectrum, factor, 0, real(1 / n[0]))
        elif axis == 1:
            self._translate_y(spectrum, factor, real(1 / (n[0] * n[1])))
        else:
            self._translate_z(spectrum, factor, real(1 / (n[0] * n[2])))
        self._axes.x_backward(spectrum, out)
        self.transforms += 2

    # --- Structures --------------------------------------------------------------------------------------

    @staticmethod
    def _points(source: Injection | None, on: bool) -> bool:
        return source is not None and on and source.form == "points"

    def _of(self, active: tuple[bool, ...]):
        """Structures for a set of active sources, and whether velocity sources act at points."""
        if active not in self._structures:
            velocity = [s if on else None for s, on in zip(self.sources.velocity, active[1:-1], strict=True)]
            at_points = any(self._points(s, True) for s in velocity) or active[-1]
            source = self.sources.pressure if active[0] else None
            self._structures[active] = (
                self._axes.pack(self._components(self.constants.pml_staggered, velocity)),
                self._axes.pack(self._axes.source(*self._pattern(source))),
                at_points,
            )
        return self._structures[active]

    def _components(self, pml, sources: list[Injection | None]) -> list[int]:
        c, f = self.constants, self.fields
        words: list[int] = []
        for axis, spectrum in enumerate(self._by_axis()):
            words += self._axes.component(
                spectrum, f.u[axis], pml[axis], c.staggered[axis], *self._pattern(sources[axis])
            )
        return words

    @staticmethod
    def _pattern(source: Injection | None) -> tuple:
        """Field and signal that a pass can add by itself."""
        if source is None or source.form == "points":
            return None, None
        return source.field, source.wave
