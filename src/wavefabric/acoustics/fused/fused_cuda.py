"""Computes 2-D or 3-D time steps on a GPU by kernels that fuse all work of an axis (`axis_kernels_cuda`).

Between steps the spectrum of p along x is stored. Sources act inside the kernels.
"""

import math
from collections.abc import Callable

import numpy as np

from wavefabric.acoustics.decomposition.subdomain import Subdomain, Triple
from wavefabric.acoustics.fused import axis_blocks
from wavefabric.acoustics.fused.axis_kernels_cuda import members, structure
from wavefabric.acoustics.fused.fused_layout import FusedLayout, pressure_point_parameters
from wavefabric.acoustics.materials.indexed import Indexed
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.source_terms import SourceTerm, TransducerTerm
from wavefabric.acoustics.solver.stages import AdjointChange, Stages


class FusedCudaStages(Stages):
    """Computes time steps on a GPU like `PlainStages`, to round-off, in half the passes over memory."""

    by_index = True
    layout: FusedLayout

    def __init__(self, layout: FusedLayout):
        super().__init__(layout)
        c, f = self.coefficients, self.fields
        self._planes, self._columns = layout.plane_kernels, layout.column_kernels
        self._structures: dict[tuple, tuple] = {}
        medium = pressure_point_parameters(c).values()
        words = [word for parameter in medium for word in members(parameter)[:2]]
        indexed = [parameter for parameter in medium if isinstance(parameter, Indexed)]
        table = (indexed[0].index, indexed[0].table) if indexed else (None, None)
        self._state = structure(
            c.device, *f.split_layers.words, f.rho, f.p, *words, *table, *(layout.exchanged or (None,) * 3)
        )
        #: Points of each source, sorted by grid rows, on the device.
        self._points: dict[SourceTerm | TransducerTerm, tuple] = {}

    @classmethod
    def supports(cls, shape: Triple, bases: set[Triple], dtype: np.dtype) -> bool:
        """Return whether the grid is 2-D or 3-D, and its transforms fit in shared memory."""
        return shape[1] > 1 and all(axis_blocks.usable(*basis, dtype) for basis in bases)

    @classmethod
    def pitch(cls, subdomain: Subdomain, dtype: np.dtype) -> int:
        return axis_blocks.pitch(subdomain.basis[0], dtype)

    def begin(self, problem: Problem) -> None:
        self._structures.clear()
        self._points.clear()
        super().begin(problem)

    # --- The stages ------------------------------------------------------------------------------------

    def velocity(self, active: tuple[bool, ...]) -> None:
        c, f = self.coefficients, self.fields
        self.sources.refresh(f.clock, active)  # now, while one spectrum is free
        self.layout.gradient()
        components, _ = self._structures_for(active)
        self._planes.run("x_velocity", components, c.dt, f.clock, True, layers=c.axes)
        self.layout.start_exchange(f.u, self._by_axis())
        self.transforms += 2 * c.axes

    def density(self, active: tuple[bool, ...]) -> None:
        c, f = self.coefficients, self.fields
        self.layout.divergence(self.layout.down)
        _, source = self._structures_for(active)
        self._planes.run("x_density", *f.three(self._spectra), self._state, source, c.dt, f.clock)
        if c.lossy and not c.stokes:
            count = 1 + c.disperses
            exchanged = self.layout.exchanged or (None, None)
            self.layout.start_exchange(list(exchanged[:count]), self._spectra[:count])
        else:
            self.layout.start_exchange([f.p], self._spectra[:1])
        self.transforms += c.axes + 1 + c.disperses

    def pressure(self) -> None:
        c = self.coefficients
        s0, s1 = self._spectra[:2]
        if not c.lossy or c.stokes:
            return  # `density` has computed p
        self._absorption_spectra()
        self._planes.run("x_pressure", s0, s1, self._state, c.disperses, c.eta_factor)
        self.layout.start_exchange([self.fields.p], [s0])
        self.transforms += 2 + c.disperses

    def _update_velocity(self, pml, dt, active: tuple[bool, ...]) -> None:
        self.layout.gradient()
        components, axes = (
            self._components(pml, self.sources.active_velocity(active), None),
            len(self.fields.u),
        )
        self._planes.run("x_velocity", components, dt, self.fields.clock, False, layers=axes)

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
        """Recompute the stored spectrum of p along x, after p was set from outside."""
        self.layout.fill_overlaps([self.fields.p])
        self._planes.x_forward([self.fields.p], self._spectra[:1])

    def prepare_sources(self, active: tuple[bool, ...]) -> None:
        self._structures_for(active)

    def apply_operator(self, field, operator, axis=None, adjoint=False, out=None) -> None:
        """Write F⁻¹{operator F{field}} to ``out``, by default ``field``; the last spectrum is scratch."""
        out = field if out is None else out
        with self.layout.overlaps([field], [out], adjoint):
            self._planes.x_forward([field], self._spectra[-1:])
            operators, last = [operator] * 3, len(self._spectra) - 1
            self.layout.through_z([last], lambda s, numbers: self._columns.z_scale(s, operators, numbers))
            self._planes.run("x_backward", self._spectra[-1], out)
        self.transforms += 2

    def adjoint_divergence(self, fields) -> None:
        with self.layout.overlaps(fields, fields, True):
            self._planes.x_forward(fields, self._by_axis())
            self.layout.divergence(self.layout.up_columns)
            for spectrum, field in zip(self._by_axis(), fields, strict=True):
                self._planes.run("x_backward", spectrum, field)

    def _summed_divergence(self, fields, out, adjoint) -> None:
        with self.layout.overlaps(fields, [out], adjoint):
            self._planes.x_forward(fields, self._by_axis())
            self.layout.gather()
            self._planes.run("x_backward", self._spectra[0], out)
        self.transforms += 1 + len(fields)

    @property
    def fused_adjoint_pressure(self) -> Callable[[AdjointChange], None] | None:
        c = self.coefficients
        fused = self.layout.halo is None and c.lossy and not c.stokes
        return self._adjoint_pressure if fused else None

    @property
    def fused_adjoint_motion(self) -> Callable[[AdjointChange], None] | None:
        # Overlaps, if there are any, are returned to their owners between the transforms.
        return self._adjoint_motion if self.layout.halo is None else None

    def _adjoint_pressure(self, change: AdjointChange) -> None:
        c = self.coefficients
        state, _ = self._adjoint_structures(change)
        s0, s1 = self._spectra[:2]
        self._planes.run("x_adjoint_losses", s0, s1, state, c.eta_factor, c.disperses)
        self._absorption_spectra()
        self._planes.run("x_adjoint_pressure", s0, s1, state, c.disperses)
        self.transforms += 2 + 2 * c.disperses

    def _adjoint_motion(self, change: AdjointChange) -> None:
        state, components = self._adjoint_structures(change)
        c, spectra = self.coefficients, change.fields.three(self._spectra)
        self._planes.run("x_adjoint_density", *spectra, state, c.dt, int(change.differs))
        self.layout.divergence(self.layout.up_columns)
        self._planes.run("x_adjoint_velocity", components, c.dt, layers=c.axes)
        self.layout.gather()
        self._planes.run("x_backward", self._spectra[0], change.fields.p)
        self.transforms += 4 + 2 * c.axes

    def _adjoint_structures(self, change: AdjointChange) -> tuple:
        """Return two C structs that the kernels of an adjoint step read: state and velocity components.

        ``change`` holds the fields before and after the step, and keeps the structs for later steps.
        """
        c, adjoint, before, after = self.coefficients, change.fields, change.before, change.after
        key = c.device.address(before.rho), c.device.address(after.rho)
        if key in change.structures:
            return change.structures[key]
        if not change.structures:
            both = self._planes, self._columns
            for kernels in both:
                kernels.compile_adjoint()
            for kernels in both:
                kernels.load()
        words = [*adjoint.split_layers.words, adjoint.rho, adjoint.p, before.rho, change.rate]
        words += [
            word for parameter in pressure_point_parameters(c).values() for word in members(parameter)[:2]
        ]
        for each in (before, after):
            words += [each.rho, *each.split_layers.parts]
        state = structure(c.device, *words, change.density_bar if change.density_bar.size else None)
        words = []
        parts = zip(
            self._by_axis(), adjoint.u, c.pml_staggered, c.staggered, before.u, after.u, change.staggered_bar,
            strict=False,
        )  # fmt: skip
        for spectrum, u, pml, density, u_before, u_after, density_bar in parts:
            words += [spectrum, u, pml, *members(density)[:2], u_before, u_after]
            words += [density_bar if density_bar.size else None]
        change.structures[key] = state, structure(c.device, *words)
        return change.structures[key]

    def translate(self, component, axis: int, factor, out) -> None:
        """Write F⁻¹{factor F{component}} along ``axis`` to ``out``."""
        spectrum, n = self._spectra[-1], self.coefficients.subdomain.basis
        kernels, real = self.coefficients.kernels, self.coefficients.dtype.type
        self.layout.fill_overlaps([component])
        self._planes.x_forward([component], [spectrum])
        scale = real(1 / (n[0] if axis == 0 else n[0] * n[axis]))
        if axis == 0:
            kernels.translate_spectrum(spectrum, factor, 0, scale)
        elif axis != self.layout.columns_axis:
            factor = factor if self.layout.unstagger_y is None else self.layout.unstagger_y
            self._planes.y_transform([spectrum], False)
            kernels.translate_spectrum(spectrum, factor, 1, scale)
            self._planes.y_transform([spectrum], True)
        else:
            last = len(self._spectra) - 1
            self.layout.through_z(
                [last], lambda s, _: self._columns.run("z_translate", s[last], factor, scale), False
            )
        self._planes.run("x_backward", spectrum, out)
        self.transforms += 2

    def _absorption_spectra(self) -> None:
        """Apply the operators of absorption and dispersion to the terms stored as spectra along x."""
        c = self.coefficients
        nablas, numbers = (c.nabla1, c.nabla2), range(1 + c.disperses)
        self.layout.through_z(numbers, lambda s, some: self._columns.z_scale(s, nablas, some))

    # --- Structures that kernels read --------------------------------------------------------------------

    def _by_axis(self) -> list:
        """Return the spectra of the velocity components along x, y and z."""
        return [self._spectra[-1], *self._spectra[:-1]]

    def _structures_for(self, active: tuple[bool, ...]) -> tuple:
        """Return two C structs, of the velocity components and of the pressure source.

        They contain only the sources that ``active``, one bool per source, marks as acting in a step.
        """
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
        parts = zip(self._by_axis(), self.fields.u, pml, c.staggered, sources, strict=False)
        for axis, (spectrum, u, vector, density, source) in enumerate(parts):
            late = transducer if axis == 0 else None
            words += [spectrum, u, vector, *members(density), *self._source(source), *self._source(late)]
        return structure(c.device, *words)

    def _source(self, source: SourceTerm | TransducerTerm | None) -> tuple:
        """Return the members of the C struct ``Source`` that ``fused_rows.cu`` reads."""
        if source is None:
            return (None,) * 5 + (0, 0, 0)
        if isinstance(source, TransducerTerm):
            points = self._rows_of(source, source.host_delay)
            return None, source.signal, *points, source.signal.size, 1, 0
        if source.form != "points":
            return source.field, source.amplitude, None, None, None, 1, 0, 0
        points = self._rows_of(source, np.arange(source.host_index.size))
        return None, source.signal, *points, source.signal.shape[1], 0, int(source.replace)

    def _rows_of(self, source: SourceTerm | TransducerTerm, values: np.ndarray) -> tuple:
        """Return a source's points on the device, sorted by grid rows, as three arrays.

        The first has for each row of the grid the number of its first point; the others have for each point
        its x index and its element of ``values``.
        """
        if source not in self._points:
            first, x, order = source.rows
            arrays = first.astype(np.int32), x.astype(np.int32), values[order].astype(np.int64)
            self._points[source] = tuple(map(self.coefficients.device.asarray, arrays))
        return self._points[source]
