"""The stages of a 3-D time step on a GPU, fused with their transforms axis by axis (`axis_passes_cuda`).

Between steps the spectrum of p along x is kept. Sources act inside the passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wavefabric.acoustics.materials.find import AT_POINTS
from wavefabric.acoustics.materials.indexed import Indexed
from wavefabric.acoustics.solver import axis_passes_cuda, operators
from wavefabric.acoustics.solver.axis_passes_cuda import medium_forms, members, rows_of_points, structure
from wavefabric.acoustics.solver.coefficients import Coefficients, Fields
from wavefabric.acoustics.solver.source_terms import SourceTerm, TransducerTerm
from wavefabric.acoustics.solver.stages import Stages
from wavefabric.acoustics.solver.subdomain import Subdomain


class FusedCudaStages(Stages):
    """Same stages, same answers to round-off as `Stages`, half the passes over memory."""

    _scratch_fields = 0
    _stores_kappa = False
    by_index = True
    #: Axes that are transformed on the arrays of `Coefficients.shape`.
    _local_axes = "XYZ"
    #: The factor of all k_y to the points of the pressure, where a rank's spectrum has some k_y alone.
    _unstagger_y: Any = None
    #: Where absorption transforms fields that ranks exchange: ρ₀∇·u, ρ or None, and flags of the rows sent.
    _exchanged: tuple | None = None

    def __init__(self, coefficients: Coefficients, fields: Fields, comm=None, decomposition=None):
        c, f = coefficients, fields
        self._axes = self._local_passes(c, f)
        self._up, self._down = (derivatives(c, sign) for sign in (1, -1))
        self._squares = [c.device.asarray(k2, c.dtype) for k2 in scaled_squares(c)]
        if "Z" in self._local_axes:
            self._z = self._axes
        super().__init__(c, f, comm, decomposition)
        self._structures: dict[tuple, tuple] = {}
        words = [word for parameter in _at_points(c).values() for word in members(parameter)[:2]]
        indexed = [parameter for parameter in _at_points(c).values() if isinstance(parameter, Indexed)]
        table = (indexed[0].index, indexed[0].table) if indexed else (None, None)
        self._state = structure(
            c.device, *f.shell.words, f.rho, f.p, *words, *table, *(self._exchanged or (None,) * 3)
        )
        #: Points of sources by rows, on the device, by the source.
        self._points: dict[int, tuple] = {}

    @classmethod
    def supports(cls, decomposition, dtype) -> bool:
        """In three dimensions, with transforms of sizes made of 2, 3, 5 and 7, Nx even."""
        bases = {subdomain.basis for subdomain in decomposition.subdomains}
        return decomposition.shape[2] > 1 and all(axis_passes_cuda.usable(*basis, dtype) for basis in bases)

    @classmethod
    def pitch(cls, subdomain, dtype) -> int:
        return axis_passes_cuda.pitch(subdomain.basis[0], dtype)

    @staticmethod
    def _passes(
        coefficients: Coefficients, fields: Fields, shape, axes: str, firsts: Sequence[int] = (), scatter=None
    ) -> axis_passes_cuda.AxisPasses:
        """Kernels for arrays of a shape, along some axes; ``firsts`` and ``scatter`` as of `AxisPasses`."""
        c = coefficients
        largest = sum(float(k2.max()) for k2 in scaled_squares(c))
        series = axis_passes_cuda.sinc_series(largest, c.dtype)
        medium = c.nonlinear, c.problem.absorption
        forms = medium_forms(_at_points(c), c.staggered)
        compiled = axes, series, fields.shell.runs, forms, c.disperses, firsts
        definitions = axis_passes_cuda.prelude(shape, c.dtype, *medium, *compiled)
        return axis_passes_cuda.AxisPasses(c.device, shape, c.dtype, axes, definitions, scatter)

    def _local_passes(self, coefficients: Coefficients, fields: Fields) -> axis_passes_cuda.AxisPasses:
        """Those on the arrays of `Coefficients.shape`."""
        return self._passes(coefficients, fields, coefficients.shape, self._local_axes)

    # --- The stages ------------------------------------------------------------------------------------

    def velocity(self, active: tuple[bool, ...]) -> None:
        c, f = self.coefficients, self.fields
        self.sources.refresh(f.clock, active)  # now, while one spectrum is free
        self._gradient_spectra()
        components, _ = self._structures_for(active)
        self._axes.run("x_velocity", components, c.dt, f.clock, True, layers=3)
        self._start_exchange(f.u, self._by_axis())
        self.transforms += 6

    def density(self, active: tuple[bool, ...]) -> None:
        c, f = self.coefficients, self.fields

        def divergence(s, numbers) -> None:
            kernel = "z_divergence", *s, *self._squares, *self._down, numbers[0]
            self._z.run(*kernel, layers=len(numbers))

        self._through_z(range(3), divergence)
        _, source = self._structures_for(active)
        self._axes.run("x_density", *self._spectra, self._state, source, c.dt, f.clock)
        if c.lossy and not c.stokes:
            count = 1 + c.disperses
            exchanged = self._exchanged or (None, None)
            self._start_exchange(list(exchanged[:count]), self._spectra[:count])
        else:
            self._start_exchange([f.p], self._spectra[:1])
        self.transforms += 4 + c.disperses

    def pressure(self) -> None:
        c = self.coefficients
        s0, s1, _ = self._spectra
        if not c.lossy or c.stokes:
            return  # `density` made it
        nablas = c.nabla1, c.nabla2
        self._through_z(range(1 + c.disperses), lambda s, numbers: self._z.z_scale(s, nablas, numbers))
        self._axes.run("x_pressure", s0, s1, self._state, c.disperses, c.eta_factor)
        self._start_exchange([self.fields.p], [s0])
        self.transforms += 2 + c.disperses

    def _update_velocity(self, pml, dt, active: tuple[bool, ...]) -> None:
        self._gradient_spectra()
        components = self._components(pml, self.sources.active_velocity(active), None)
        self._axes.run("x_velocity", components, dt, self.fields.clock, False, layers=3)

    def _speed_grid(self):
        speed = self.coefficients.speed
        if not isinstance(speed, Indexed):
            return speed
        # A spectrum is free when p is set, and larger than a grid.
        reals = self._spectra[-1].reshape(-1).view(self.coefficients.dtype)
        grid = reals[: math.prod(speed.shape)].reshape(speed.shape)
        speed.fill(grid)
        return grid

    def transform_pressure(self) -> None:
        """Spectrum along x of a p that was set from outside."""
        self._axes.x_forward([self.fields.p], self._spectra[:1])

    def prepare_sources(self, active: tuple[bool, ...]) -> None:
        self._structures_for(active)

    def apply_operator(self, field, operator) -> None:
        """field ← F⁻¹{operator F{field}}; the last spectrum is free when sources ask for this."""
        self.fill_overlaps([field])
        self._axes.x_forward([field], self._spectra[-1:])
        self._through_z([2], lambda s, numbers: self._z.z_scale(s, [operator] * 3, numbers))
        self._axes.run("x_backward", self._spectra[-1], field)
        self.transforms += 2

    def translate(self, component, axis: int, factor, out) -> None:
        """out ← F⁻¹{factor F{component}} along one axis."""
        spectrum, n = self._spectra[-1], self.coefficients.subdomain.basis
        kernels, real = self.coefficients.kernels, self.coefficients.dtype.type
        self.fill_overlaps([component])
        self._axes.x_forward([component], [spectrum])
        scale = real(1 / (n[0] if axis == 0 else n[0] * n[axis]))
        if axis == 0:
            kernels.translate_spectrum(spectrum, factor, 0, scale)
        elif axis == 1:
            factor = factor if self._unstagger_y is None else self._unstagger_y
            self._axes.y_transform([spectrum], False)
            kernels.translate_spectrum(spectrum, factor, 1, scale)
            self._axes.y_transform([spectrum], True)
        else:
            self._through_z([2], lambda s, _: self._z.run("z_translate", s[2], factor, scale), False)
        self._axes.run("x_backward", spectrum, out)
        self.transforms += 2

    # --- Along y and z; ranks exchange overlaps before y, or transpose between y and z --------------------

    def _start_exchange(self, fields: list, spectra: list) -> None:
        """Fields and their spectra along x are complete; they are next needed by `_forward_y`."""

    def _forward_y(self, spectra: list) -> None:
        """Transform spectra along y."""
        self._axes.y_transform(spectra, False)

    def _through_z(self, numbers: Sequence[int], along_z: Callable, along_y: bool = True) -> None:
        """Spectra of these numbers along y, ``along_z(spectra, numbers)``, and back along y."""
        some = [self._spectra[number] for number in numbers]
        if along_y:
            self._forward_y(some)
        along_z(self._spectra, numbers)
        if along_y:
            self._axes.y_transform(some, True)

    def _gradient_spectra(self) -> None:
        s0, s1, s2 = self._spectra
        self._forward_y([s0])
        self._z.run("z_gradient", s0, s1, *self._squares, self._up[2])
        self._axes.run("y_gradient", s0, s1, s2, *self._up[:2], layers=2)

    # --- Structures that kernels read --------------------------------------------------------------------

    def _by_axis(self) -> list:
        """Spectra of the x, y and z components."""
        s0, s1, s2 = self._spectra
        return [s2, s0, s1]

    def _structures_for(self, active: tuple[bool, ...]) -> tuple:
        """Structures for a set of active sources: the velocity's components, and the density's source."""
        if active not in self._structures:
            velocity = self.sources.active_velocity(active)
            transducer = self.sources.transducer if active[-1] else None
            pressure = self.sources.pressure if active[0] else None
            self._structures[active] = (
                self._components(self.coefficients.pml_staggered, velocity, transducer),
                structure(self.coefficients.device, *self._source(pressure)),
            )
        return self._structures[active]

    def _components(self, pml, sources: list[SourceTerm | None], transducer: TransducerTerm | None):
        c, words = self.coefficients, []
        delayed = [transducer, None, None]
        parts = zip(self._by_axis(), self.fields.u, pml, c.staggered, sources, delayed, strict=True)
        for spectrum, u, vector, density, source, late in parts:
            words += [spectrum, u, vector, *members(density), *self._source(source), *self._source(late)]
        return structure(c.device, *words)

    def _source(self, source: SourceTerm | TransducerTerm | None) -> tuple:
        """Members of the structure ``Source`` of ``row_passes.cu``."""
        if source is None:
            return (None,) * 5 + (0, 0, 0)
        if isinstance(source, TransducerTerm):
            points = self._rows_of(source, source.host_delay)
            return None, source.signal, *points, source.signal.size, 1, 0
        if source.form != "points":
            return source.field, source.amplitude, None, None, None, 1, 0, 0
        columns = np.arange(source.host_index.size)
        return (
            None,
            source.signal,
            *self._rows_of(source, columns),
            source.signal.shape[1],
            0,
            int(source.replace),
        )

    def _rows_of(self, source: SourceTerm | TransducerTerm, values: np.ndarray) -> tuple:
        """Points of a source by rows, with a value each, on the device."""
        c = self.coefficients
        if id(source) not in self._points:
            first, x, order = rows_of_points(source.host_index, c.shape)
            arrays = first, x, values[order].astype(np.int64)
            self._points[id(source)] = tuple(map(c.device.asarray, arrays))
        return self._points[id(source)]


def _at_points(coefficients: Coefficients) -> dict[str, Any]:
    """Parameters of the medium at the points of the pressure, by name."""
    return {name: getattr(coefficients, name) for name in AT_POINTS}


def derivatives(coefficients: Coefficients, sign: int, subdomain: Subdomain | None = None) -> list:
    """i k e^{±i k Δ/2} of each axis on the device, with the 1/N of the transforms, which κ here lacks."""
    c = coefficients
    factors = operators.derivatives(c.problem, sign, subdomain or c.subdomain)
    return [c.device.asarray(factor / c.subdomain.basis_points, c.complex) for factor in factors]


def scaled_squares(coefficients: Coefficients) -> list[np.ndarray]:
    """(c_ref Δt/2)² k² along x (half), y and z: κ is sinc of the root of their sum."""
    problem = coefficients.problem
    return [k2 * (problem.reference_speed * problem.dt / 2) ** 2 for k2 in coefficients.squares]
