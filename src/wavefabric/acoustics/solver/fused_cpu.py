"""The stages of a 3-D time step on a CPU, fused with their transforms (`plane_passes`), sources included.

Between steps the planes' spectrum of p is kept, so each stage begins where the one before has left the data
in cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wavefabric.acoustics.solver import plane_passes
from wavefabric.acoustics.solver.coefficients import Coefficients, Fields
from wavefabric.acoustics.solver.source_terms import SourceTerm
from wavefabric.acoustics.solver.stages import Stages
from wavefabric.device.fftw_direct import AxisTransforms, available

passes: Any = plane_passes  # compiled functions, whose many arguments come in groups


class FusedCpuStages(Stages):
    """Same stages, same answers to round-off as `Stages`, fewer passes over memory."""

    _scratch_fields = 0  # gradients never leave the cache

    def __init__(self, coefficients: Coefficients, fields: Fields, comm=None, decomposition=None):
        super().__init__(coefficients, fields, comm, decomposition)
        device, dtype = coefficients.device, coefficients.dtype
        nz, ny, nx = coefficients.shape
        half, threads = nx // 2 + 1, device.threads
        self._axes = AxisTransforms(coefficients.shape, dtype)
        self._fft_axes, self._batch = self._axes.addresses(), self._axes.batch
        self._columns = device.zeros((threads, 2, nz, self._axes.slab, half), coefficients.complex)
        self._plane = device.zeros((threads, ny, half), coefficients.complex)
        self._rows = device.zeros((threads, 3 * self._batch, nx), dtype)
        self._row = device.zeros((threads, 2, nx), dtype)
        self._no_field = np.zeros((0, 0, 0), dtype)
        self._no_values = np.zeros(0, dtype)
        self._no_points = np.zeros(nz + 1, np.int64), np.zeros(0, np.int64)
        self._points: dict[int, tuple] = {}

    @classmethod
    def supports(cls, decomposition, dtype) -> bool:
        """In three dimensions, with FFTW at hand."""
        return decomposition.shape[2] > 1 and available(dtype)

    def velocity(self, active: tuple[bool, ...]) -> None:
        c, clock = self.coefficients, self.fields.clock
        self.sources.refresh(clock, active)  # now, while one spectrum is free
        step, sources = int(clock[0]), self.sources.active_velocity(active)
        patterns, amplitudes, points, values = zip(
            *(self._source(source, step) for source in sources), strict=True
        )
        shared = next((i for i, at in enumerate(points) if at is not self._no_points), 0)
        replace = any(source is not None and source.replace for source in sources)
        self._update_velocity(
            c.pml_staggered, c.dt, patterns, amplitudes, points[shared], values, replace,
            *self._delayed(step, active[-1]),
        )  # fmt: skip
        self.transforms += 6

    def _update_velocity(self, pml, dt, *sources) -> None:
        c = self.coefficients
        s0, s1, s2 = self._spectra
        passes.gradient_columns(self._fft_axes, s0, s1, c.kappa, c.up[2], self._columns)
        passes.velocity_planes(
            self._fft_axes, self._batch, s0, s1, s2, *self.fields.u, *c.staggered, *pml, c.up[0], c.up[1], dt,
            *sources, self._plane, self._rows,
        )  # fmt: skip

    def density(self, active: tuple[bool, ...]) -> None:
        c, f = self.coefficients, self.fields
        s0, s1, s2 = self._spectra
        source = self.sources.pressure if active[0] else None
        mode = 0 if not c.lossy else 1 if c.stokes else 2
        passes.divergence_columns(self._fft_axes, s0, s1, s2, c.kappa, c.down[1], c.down[2], self._columns)
        passes.density_planes(
            self._fft_axes, self._batch, s0, s1, s2, *f.rho, f.p, c.density, c.speed, c.ratio, c.tau, *c.pml,
            c.down[0], c.dt, *self._source(source, int(f.clock[0])),
            source is not None and source.replace, c.nonlinear, mode, c.disperses,
            self._rows, self._row,
        )  # fmt: skip
        self.transforms += 4 + c.disperses

    def pressure(self) -> None:
        c, f = self.coefficients, self.fields
        if not c.lossy or c.stokes:
            return  # `density` has done it in the same pass
        s0, s1, _ = self._spectra
        passes.absorption_columns(self._fft_axes, s0, s1, c.nabla1, c.nabla2, c.disperses, self._columns)
        passes.pressure_planes(
            self._fft_axes, self._batch, s0, s1, *f.rho, f.p, c.density, c.speed, c.ratio, c.tau, c.eta,
            c.nonlinear, c.disperses, self._rows, self._row,
        )  # fmt: skip
        self.transforms += 2 + c.disperses

    def _initial_velocity(self) -> None:
        c = self.coefficients
        self.transform_pressure()
        for component in self.fields.u:
            component[...] = 0
        # From rest and without PML, an update by −Δt/2 is u = Δt/(2ρ₀) ∂p₀.
        ones = [np.ones_like(vector) for vector in c.pml_staggered]
        pattern, amplitude, points, values = self._source(None, 0)
        self._update_velocity(
            ones, -c.half_dt, (pattern,) * 3, (amplitude,) * 3, points, (values,) * 3, False, points, values
        )
        self.transform_pressure()

    def transform_pressure(self) -> None:
        """Planes' spectrum of a p that was set from outside, or lost to other use of the spectra."""
        passes.transform_planes(self._fft_axes, self._batch, self.fields.p, self._spectra[0])

    def _source(self, source: SourceTerm | None, step: int) -> tuple:
        """Pattern, amplitude, points and values of one source in this step, or of none."""
        one = self.coefficients.dtype.type(1)
        if source is None:
            return self._no_field, one, self._no_points, self._no_values
        if source.form == "points":
            points, order = self._sorted(source.host_index)
            values = source.host_signal[step]
            return self._no_field, one, points, values[order] if values.size > 1 else values
        amplitude = source.host_signal[step, 0] if source.form == "pattern" else one
        return source.field, amplitude, self._no_points, self._no_values

    def _delayed(self, step: int, on: bool) -> tuple:
        """Points and values of the transducer in this step."""
        source = self.sources.transducer
        if source is None or not on:
            return self._no_points, self._no_values
        points, order = self._sorted(source.host_index)
        sample = source.host_delay[order] + step
        signal, last = source.host_signal, source.host_signal.size - 1
        zero = self.coefficients.dtype.type(0)
        return points, np.where(sample <= last, signal[np.minimum(sample, last)], zero)

    def _sorted(self, index: np.ndarray) -> tuple:
        """Offsets of the planes and indices within them, sorted; and the order that sorts."""
        if id(index) not in self._points:
            nz, ny, nx = self.coefficients.shape
            order = np.argsort(index, kind="stable")
            plane, inside = np.divmod(index[order], ny * nx)
            first = np.searchsorted(plane, np.arange(nz + 1)).astype(np.int64)
            self._points[id(index)] = (first, inside.astype(np.int64)), order
        return self._points[id(index)]
