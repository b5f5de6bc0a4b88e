"""The stages of a 3-D time step on a GPU, fused with their transforms axis by axis (`axis_passes.cu`).

Between steps the spectrum of p along x is kept. Patterns of sources are added inside the passes; sources at
points need a pass between the update and the transform, while they are on.
"""

from __future__ import annotations

from wavefabric.acoustics.solver import axis_passes_cuda
from wavefabric.acoustics.solver.coefficients import Coefficients, Fields
from wavefabric.acoustics.solver.source_terms import SourceTerm
from wavefabric.acoustics.solver.stages import Stages


class FusedCudaStages(Stages):
    """Same stages, same answers to round-off as `Stages`, half the passes over memory."""

    _scratch_fields = 0
    #: Axes that are transformed on the arrays of `Coefficients.shape`.
    _local_axes = "XYZ"
    #: Where absorption transforms fields that ranks exchange: ρ₀∇·u, Σρ or None, and flags of the rows sent.
    _exchanged: tuple | None = None

    def __init__(self, coefficients: Coefficients, fields: Fields, comm=None, decomposition=None):
        c, f = coefficients, fields
        self._axes = self._passes(c, c.shape, self._local_axes)
        super().__init__(c, f, comm, decomposition)
        self._structures: dict[tuple, tuple] = {}
        medium = c.speed, c.density, c.ratio, c.tau, c.eta
        self._state = self._axes.pack(self._axes.state(f.rho, f.p, c.pml, medium, self._exchanged))
        self._at_points = False

    @classmethod
    def supports(cls, decomposition, dtype) -> bool:
        """In three dimensions, with transforms of sizes made of 2, 3, 5 and 7."""
        bases = {subdomain.basis for subdomain in decomposition.subdomains}
        return decomposition.shape[2] > 1 and all(axis_passes_cuda.usable(*basis, dtype) for basis in bases)

    @classmethod
    def pitch(cls, subdomain, dtype) -> int:
        return axis_passes_cuda.pitch(subdomain.basis[0], dtype)

    @staticmethod
    def _passes(coefficients: Coefficients, shape, axes: str) -> axis_passes_cuda.AxisPasses:
        """Kernels for arrays of a shape, along some axes."""
        c = coefficients
        return axis_passes_cuda.AxisPasses(c.device, shape, c.dtype, c.nonlinear, c.problem.absorption, axes)

    # --- The stages ------------------------------------------------------------------------------------

    def velocity(self, active: tuple[bool, ...]) -> None:
        c, f = self.coefficients, self.fields
        self.sources.refresh(f.clock, active)  # now, while one spectrum is free
        self._gradient_spectra()
        components, _, at_points = self._structures_for(active)
        self._axes.x_velocity(components, c.dt, f.clock, not at_points)
        if at_points:
            for source, component in zip(self.sources.active_velocity(active), f.u, strict=True):
                if source is not None and source.form == "points":
                    source.apply(component, f.clock)
            if self.sources.transducer is not None and active[-1]:
                self.sources.transducer.apply(f.u[0], f.clock)
            for component, spectrum in zip(f.u, self._by_axis(), strict=True):
                self._axes.x_forward(component, spectrum)
        self._start_exchange(f.u, self._by_axis())
        self.transforms += 6

    def density(self, active: tuple[bool, ...]) -> None:
        c, f = self.coefficients, self.fields
        self._divergence_spectra()
        _, source, _ = self._structures_for(active)
        self._at_points = active[0] and _at_points(self.sources.pressure)
        self._axes.x_density(self._spectra, self._state, source, c.dt, f.clock, self._at_points)
        if self._at_points:
            self.sources.add_pressure(f.rho, f.clock, active)
            if c.disperses:
                self._total_density()
        if c.lossy and not c.stokes:
            count = 1 + c.disperses
            exchanged = self._exchanged or (None, None)
            self._start_exchange(list(exchanged[:count]), self._spectra[:count])
        elif not self._at_points:
            self._start_exchange([f.p], self._spectra[:1])
        self.transforms += 4 + c.disperses

    def _total_density(self) -> None:
        """Σρ after sources at points, and its spectrum along x, for the dispersion."""
        f = self.fields
        f.p[...] = f.rho[0]
        for component in f.rho[1:]:
            self.coefficients.kernels.add_field(f.p, component)
        self._axes.x_forward(f.p, self._spectra[1])

    def pressure(self) -> None:
        c = self.coefficients
        s0, s1, _ = self._spectra
        if c.lossy and not c.stokes:
            self._absorption_spectra(self._spectra[: 2 if c.disperses else 1])
            self._axes.x_pressure(s0, s1, self._state, 1, c.disperses)
            self._start_exchange([self.fields.p], [s0])
            self.transforms += 2 + c.disperses
        elif self._at_points:
            self._axes.x_pressure(s0, s1, self._state, 2 if c.stokes else 0, False)
            self._start_exchange([self.fields.p], [s0])

    def _initial_velocity(self) -> None:
        c, f = self.coefficients, self.fields
        self.transform_pressure()
        for component in f.u:
            component[...] = 0
        # From rest and without PML, an update by −Δt/2 is u = Δt/(2ρ₀) ∂p₀.
        ones = [vector * 0 + 1 for vector in c.pml_staggered]
        self._gradient_spectra()
        self._axes.x_velocity(self._components(ones, [None] * 3), -c.half_dt, f.clock, False)
        c.device.synchronize()  # `ones` must outlive the kernel
        self.transform_pressure()

    def transform_pressure(self) -> None:
        """Spectrum along x of a p that was set from outside."""
        self._axes.x_forward(self.fields.p, self._spectra[0])

    def prepare_sources(self, active: tuple[bool, ...]) -> None:
        self._structures_for(active)

    def apply_operator(self, field, operator) -> None:
        """field ← F⁻¹{operator F{field}}; the last spectrum is free when sources ask for this."""
        spectrum = self._spectra[-1]
        self.fill_overlaps([field])
        self._axes.x_forward(field, spectrum)
        self._axes.y_transform([spectrum], False)
        self._scale_along_z(spectrum, operator)
        self._axes.y_transform([spectrum], True)
        self._axes.x_backward(spectrum, field)
        self.transforms += 2

    def translate(self, component, axis: int, factor, out) -> None:
        """out ← F⁻¹{factor F{component}} along one axis."""
        spectrum, n = self._spectra[-1], self.coefficients.subdomain.basis
        kernels, real = self.coefficients.kernels, self.coefficients.dtype.type
        self.fill_overlaps([component])
        self._axes.x_forward(component, spectrum)
        if axis == 0:
            kernels.translate_spectrum(spectrum, factor, 0, real(1 / n[0]))
        elif axis == 1:
            self._axes.y_transform([spectrum], False)
            kernels.translate_spectrum(spectrum, self._factor_y(factor), 1, real(1 / (n[0] * n[1])))
            self._axes.y_transform([spectrum], True)
        else:
            self._translate_along_z(spectrum, factor, real(1 / (n[0] * n[2])))
        self._axes.x_backward(spectrum, out)
        self.transforms += 2

    # --- Along y and z; ranks exchange overlaps before y, or transpose between y and z --------------------

    def _start_exchange(self, fields: list, spectra: list) -> None:
        """Fields and their spectra along x are complete; they are next needed by `_forward_y`."""

    def _forward_y(self, spectra: list) -> None:
        """Transform spectra along y."""
        self._axes.y_transform(spectra, False)

    def _gradient_spectra(self) -> None:
        c = self.coefficients
        s0, s1, s2 = self._spectra
        self._forward_y([s0])
        self._axes.z_gradient(s0, s1, c.kappa, c.up[2])
        self._axes.y_gradient(s0, s1, s2, c.up[0], c.up[1])

    def _divergence_spectra(self) -> None:
        c = self.coefficients
        self._forward_y(self._spectra)
        self._axes.z_divergence(self._spectra, c.kappa, c.down)
        self._axes.y_transform(self._spectra, True)

    def _absorption_spectra(self, spectra: list) -> None:
        c = self.coefficients
        self._forward_y(spectra)
        s0, s1, _ = self._spectra
        self._axes.z_scale(s0, s1, c.nabla1, c.nabla2, len(spectra))
        self._axes.y_transform(spectra, True)

    def _scale_along_z(self, spectrum, operator) -> None:
        self._axes.z_scale(spectrum, spectrum, operator, operator, 1)

    def _factor_y(self, factor):
        """A factor of the k_y that the spectrum has after its transform along y."""
        return factor

    def _translate_along_z(self, spectrum, factor, scale) -> None:
        self._axes.z_translate(spectrum, factor, scale)

    # --- Structures that kernels read --------------------------------------------------------------------

    def _by_axis(self) -> list:
        """Spectra of the x, y and z components."""
        s0, s1, s2 = self._spectra
        return [s2, s0, s1]

    def _structures_for(self, active: tuple[bool, ...]) -> tuple:
        """Structures for a set of active sources, and whether velocity sources act at points."""
        if active not in self._structures:
            velocity = self.sources.active_velocity(active)
            pressure = self.sources.pressure if active[0] else None
            self._structures[active] = (
                self._components(self.coefficients.pml_staggered, velocity),
                self._axes.pack(self._axes.source(*_pattern(pressure))),
                any(map(_at_points, velocity)) or active[-1],
            )
        return self._structures[active]

    def _components(self, pml, sources: list[SourceTerm | None]):
        parts = zip(self._by_axis(), self.fields.u, pml, self.coefficients.staggered, sources, strict=True)
        return self._axes.pack(
            [word for *arrays, source in parts for word in self._axes.component(*arrays, *_pattern(source))]
        )


def _at_points(source: SourceTerm | None) -> bool:
    return source is not None and source.form == "points"


def _pattern(source: SourceTerm | None) -> tuple:
    """Field and signal that a pass can add by itself."""
    return (None, None) if source is None or _at_points(source) else (source.field, source.amplitude)
