"""The stages of a 3-D time step on a CPU, fused with their transforms (`planes`), sources included.

Between steps the planes' spectrum of p is kept, so each stage begins where the one before has left the data
in cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver import plane_passes as passes
from wavefabric.acoustics.solver.coefficients import Constants, Fields
from wavefabric.acoustics.solver.source_terms import Injection
from wavefabric.acoustics.solver.stages import Stages
from wavefabric.device.fftw_direct import AxisTransforms, available

_NONE = np.zeros(0, np.int64)
planes: Any = passes  # compiled functions, whose many arguments come in groups


def usable(device, problem: Problem, dtype) -> bool:
    """Whether these stages can serve: a CPU, three dimensions, FFTW at hand."""
    return device.name == "cpu" and problem.dimensions == 3 and available(dtype)


class PlaneStages(Stages):
    """Same stages, same answers to round-off as `Stages`, fewer passes over memory."""

    def __init__(self, constants: Constants, fields: Fields):
        super().__init__(constants, fields)
        device, dtype = constants.device, constants.dtype
        nz, ny, nx = constants.shape
        half, threads = nx // 2 + 1, device.threads
        self._axes = AxisTransforms(constants.shape, dtype)
        self._fft_axes, self._batch = self._axes.addresses(), self._axes.batch
        self._columns = device.zeros((threads, 2, nz, self._axes.slab, half), constants.complex)
        self._plane = device.zeros((threads, ny, half), constants.complex)
        self._rows = device.zeros((threads, 3 * self._batch, nx), dtype)
        self._row = device.zeros((threads, 2, nx), dtype)
        self._empty = np.zeros((0, 0, 0), dtype)
        self._no_values = np.zeros(0, dtype)
        self._no_points = (np.zeros(nz + 1, np.int64), _NONE)
        self._points: dict[int, tuple] = {}

    def _scratch(self, parts: int) -> list:
        return []  # gradients never leave the cache

    def velocity(self, active: tuple[bool, ...]) -> None:
        c, f = self.constants, self.fields
        step = int(f.clock[0])
        for source, on in zip((self.sources.pressure, *self.sources.velocity), active[:-1], strict=True):
            if source is not None and on:
                source.refresh(f.clock)  # now, while one spectrum is free
        patterns, amplitudes, values = [], [], []
        points, replace = self._no_points, False
        for source, on in zip(self.sources.velocity, active[1:-1], strict=True):
            pattern, amplitude, at, found = self._term(source if on else None, step)
            patterns.append(pattern)
            amplitudes.append(amplitude)
            values.append(found)
            if at is not None:
                points, replace = at, source.replace  # type: ignore[union-attr]
        delayed_points, delayed = self._delayed(step, active[-1])
        self._update_velocity(
            c.pml_staggered, c.dt, tuple(patterns), tuple(amplitudes), points, tuple(values), replace,
            delayed_points, delayed,
        )  # fmt: skip
        self.transforms += 6

    def _update_velocity(self, pml, dt, *sources) -> None:
        c = self.constants
        s0, s1, s2 = self._spectra
        planes.gradient_columns(self._fft_axes, s0, s1, c.kappa, c.up[2], self._columns)
        planes.velocity_planes(
            self._fft_axes, self._batch, s0, s1, s2, *self.fields.u, *c.staggered, *pml, c.up[0], c.up[1], dt,
            *sources, self._plane, self._rows,
        )  # fmt: skip

    def density(self, active: tuple[bool, ...]) -> None:
        c, f = self.constants, self.fields
        s0, s1, s2 = self._spectra
        source = self.sources.pressure if active[0] else None
        pattern, amplitude, at, values = self._term(source, int(f.clock[0]))
        mode = 0 if not c.lossy else 1 if c.stokes else 2
        planes.divergence_columns(self._fft_axes, s0, s1, s2, c.kappa, c.down[1], c.down[2], self._columns)
        planes.density_planes(
            self._fft_axes, self._batch, s0, s1, s2, *f.rho, f.p, c.density, c.speed, c.ratio, c.tau, *c.pml,
            c.down[0], c.dt, pattern, amplitude, at or self._no_points, values,
            source is not None and source.replace, c.nonlinear, mode, c.disperses,
            self._rows, self._row,
        )  # fmt: skip
        self.transforms += 4 + c.disperses

    def pressure(self) -> None:
        c, f = self.constants, self.fields
        if not c.lossy or c.stokes:
            return  # `density` has done it in the same pass
        s0, s1, _ = self._spectra
        planes.absorption_columns(self._fft_axes, s0, s1, c.nabla1, c.nabla2, c.disperses, self._columns)
        planes.pressure_planes(
            self._fft_axes, self._batch, s0, s1, *f.rho, f.p, c.density, c.speed, c.ratio, c.tau, c.eta,
            c.nonlinear, c.disperses, self._rows, self._row,
        )  # fmt: skip
        self.transforms += 2 + c.disperses

    def initial_pressure(self, p0) -> None:
        c, f = self.constants, self.fields
        f.p[...] = p0
        c.kernels.split_density(*f.rho, f.p, c.speed, c.parts, True)
        self.ready()
        for component in f.u:
            component[...] = 0
        # From rest and without PML, an update by −Δt/2 is u = Δt/(2ρ₀) ∂p₀.
        ones = [np.ones_like(vector) for vector in c.pml_staggered]
        nothing = (self._empty,) * 3, (c.dtype.type(1),) * 3, self._no_points, (self._no_values,) * 3, False
        self._update_velocity(ones, -c.half_dt, *nothing, self._no_points, self._no_values)
        self.ready()

    def ready(self) -> None:
        """Planes' spectrum of a p that was set from outside, or lost to other use of the spectra."""
        planes.transform_planes(self._fft_axes, self._batch, self.fields.p, self._spectra[0])

    def _term(self, source: Injection | None, step: int):
        """Pattern, amplitude, points and values of one source in this step."""
        one = self.constants.dtype.type(1)
        if source is None:
            return self._empty, one, None, self._no_values
        if source.form == "points":
            points, order = self._sorted(source.host_index)
            values = source.host_signal[step]
            return self._empty, one, points, values[order] if values.size > 1 else values
        if source.form == "pattern":
            return source.field, source.host_signal[step, 0], None, self._no_values
        return source.field, one, None, self._no_values

    def _delayed(self, step: int, on: bool):
        source = self.sources.delayed
        if source is None or not on:
            return self._no_points, self._no_values
        points, order = self._sorted(source.host_index)
        sample = source.host_delay[order] + step
        values = np.where(
            sample < source.host_signal.size,
            source.host_signal[np.minimum(sample, source.host_signal.size - 1)],
            self.constants.dtype.type(0),
        )
        return points, values

    def _sorted(self, index: np.ndarray):
        """Offsets of the planes and indices within them, sorted; and the order that sorts."""
        if id(index) not in self._points:
            nz, ny, nx = self.constants.shape
            order = np.argsort(index, kind="stable")
            plane, inside = np.divmod(index[order], ny * nx)
            first = np.searchsorted(plane, np.arange(nz + 1)).astype(np.int64)
            self._points[id(index)] = (first, inside.astype(np.int64)), order
        return self._points[id(index)]
