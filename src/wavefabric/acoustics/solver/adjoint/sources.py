"""Applies the transpose of the sources: reads derivatives with respect to signals at the source points."""

from typing import Any

import numpy as np

from wavefabric.acoustics.solver.coefficients import Coefficients, Fields
from wavefabric.acoustics.solver.source_terms import PointTerm, SourceTerm
from wavefabric.acoustics.solver.stages import Stages

#: Names of the sources: pressure, velocity along each axis, transducer.
SOURCES = ("p", "ux", "uy", "uz", "transducer")
#: Largest size, in bytes, of a block of recorded values on the device.
_BLOCK_BYTES = 16 << 20


class _Readings:
    """Records an adjoint field at the points of a source in each time step.

    ``values``, on the host, has the shape (steps, points). If all points share one signal it has the shape
    (steps, 1), with the sum over the points.
    """

    def __init__(self, c: Coefficients, term: PointTerm, steps: int, clock: Any):
        device, index, size = c.device, term.index, term.index.size
        columns = 1 if term.common else size
        self._size, self._to_host = size, device.to_host
        self.values = np.zeros((steps, columns), c.dtype)
        rows = max(1, _BLOCK_BYTES // max(1, columns * c.dtype.itemsize))
        #: Row ``step % len(block)`` has the values of ``step``.
        self._block = device.zeros((min(steps, rows), columns), c.dtype)
        self._row, self._store, self._clock = device.zeros(columns, c.dtype), c.kernels.store_row, clock
        self._first: int | None = None
        # The sum over all points is sampled like a sensor element with weights of 1.
        self._sample = c.kernels.sample_elements if term.common else c.kernels.sample
        self._points = index.reshape(-1, 1), device.asarray(np.zeros((0, 1))), False
        if term.common:
            bounds, ones = np.array([0, size], np.int64), np.ones(size)
            self._points = device.asarray(bounds), index, device.asarray(ones)

    def read(self, field: Any) -> None:
        """Store ``field`` at the source points for the time step in ``clock``; only launches kernels."""
        if self._size:
            self._sample(self._row, field, *self._points)
            self._store(self._block, self._row, self._clock, 0, len(self._block))

    def count_read(self, step: int) -> None:
        """Count ``step``, from the last to the first, as read; copy a complete block of steps to the host."""
        if self._first is None:
            self._first = step
        self._last = step
        if step % len(self._block) == 0:
            self.flush()

    def flush(self) -> None:
        """Copy all values read so far from the device to ``values``."""
        if self._first is not None:
            steps, block = np.arange(self._last, self._first + 1), np.asarray(self._to_host(self._block))
            self.values[steps] = block[steps % len(block)]
            self._first = None


class AdjointSources:
    """Applies the transpose of `SourceTerms`: derivatives with respect to signals are read at source points.

    ``wrt`` names the sources, of `SOURCES`, for whose signals derivatives are computed. ``scaled`` names
    sources, but not the transducer, whose signals s are scaled by the sound speed at their points. For these
    the sum of s̄ s over time is computed at each point, where s̄ is the derivative with respect to s.
    """

    def __init__(self, stages: Stages, kernels: Any, wrt: frozenset[str], scaled: frozenset[str]):
        self._stages, self._c, self._kernels = stages, stages.coefficients, kernels
        c, sources = self._c, stages.sources
        each = dict(zip(SOURCES, (sources.pressure, *sources.velocity), strict=False))
        each |= {"transducer": sources.transducer}
        self._terms: dict[str, Any] = {name: term for name, term in each.items() if term is not None}
        terms = self._terms
        self.readings: dict[str, _Readings] = {}
        #: Sum over time of s̄ s at each point of a source, by name.
        self.products: dict[str, Any] = {}
        self._weights: dict[str, list[tuple[Any, Any]]] = {}
        for name, term in terms.items():
            if name in wrt:
                steps = min(term.steps, c.problem.steps)
                self.readings[name] = _Readings(c, term, steps, stages.fields.clock)
            if name in scaled:
                self.products[name] = c.device.zeros(term.index.size, c.dtype)
                # The source is a sum of signals (steps, points or 1), each times weights of its points.
                signals, weights = [term.signal], np.ones((1, 1))
                if term.weights is not None:
                    columns = (np.ascontiguousarray(one[:, None]) for one in term.host_signal.T)
                    signals, weights = [*map(c.device.asarray, columns)], np.atleast_2d(term.weights.T)
                by = (c.device.asarray(np.ascontiguousarray(one, c.dtype)) for one in weights)
                self._weights[name] = list(zip(signals, by, strict=True))
        self._zero = c.device.zeros((1, 1), c.dtype)
        self._first_row, self._clock = c.device.zeros(1, np.int64), stages.fields.clock
        corrected = any(term.corrected for term in terms.values())
        self._read = (wrt | scaled) & terms.keys()
        self._field: Any = c.device.empty(c.shape, c.dtype) if "p" in terms or corrected else None
        self._kappa = c.source_kappa() if corrected and self._read else None
        self._negative: dict[str, Any] = {}  # created on first use

    def acts_on_velocity(self, step: int) -> bool:
        """Return whether sources read or replace adjoint velocities in ``step``."""
        active = self._active(step).items()
        return any(name in self._read or term.replace for name, term in active if name != "p")

    def _active(self, step: int) -> dict[str, Any]:
        return {name: term for name, term in self._terms.items() if step < term.steps}

    def remove(self, fields: Fields, step: int) -> None:
        """Subtract from the forward ``fields`` after ``step`` what sources added to them in this step."""
        for name, source in self._active(step).items():
            if source.replace:
                continue
            if name not in self._negative:
                self._negative[name] = source.negative()
            term = self._negative[name]
            term.refresh(self._clock)
            if name == "p":
                term.apply_to_density(fields)
            else:
                axis = 0 if name == "transducer" else "xyz".index(name[1])
                term.apply(fields.u[axis], self._clock)

    def pressure(self, fields: Fields, step: int) -> None:
        """Read the adjoint density ρ̄ at the pressure source; zero it where the source replaces ρ."""
        term = self._active(step).get("p")
        if term is None:
            return
        parts = self._c.dimensions
        if "p" in self._read:
            self._kernels.density_sum(self._field, fields.rho, fields.split_layers, parts)
            self._take("p", term, self._field, None)
        if term.replace:
            points = term.index, self._zero, self._first_row, True, parts
            self._c.kernels.set_density_points(fields.rho, fields.split_layers, *points)

    def velocity(self, fields: Fields, step: int) -> None:
        """Read the adjoint velocity ū at its sources; zero it where a source replaces u."""
        active = self._active(step)
        if "transducer" in active and "transducer" in self.readings:
            self.readings["transducer"].read(fields.u[0])
        for axis, component in enumerate(fields.u):
            name = SOURCES[1 + axis]
            term = active.get(name)
            if term is None:
                continue
            if name in self._read:
                self._take(name, term, component, axis)
            if term.replace:
                self._c.kernels.set_points(component, term.index, self._zero, self._first_row, True)

    def _take(self, name: str, term: SourceTerm, field: Any, axis: int | None) -> None:
        if term.corrected:
            self._stages.apply_operator(field, self._kappa, axis, adjoint=True, out=self._field)
            field = self._field
        if name in self.readings:
            self.readings[name].read(field)
        if name in self.products:
            target = self.products[name], field, term.index
            for signal, weights in self._weights[name]:
                self._kernels.accumulate_products(*target, signal, self._clock, weights)

    def count_read(self, step: int) -> None:
        """Mark ``step`` as read for all sources that are on; steps go from the last to the first."""
        for name, reading in self.readings.items():
            if step < self._terms[name].steps:
                reading.count_read(step)

    def host_arrays(self) -> dict[str, np.ndarray]:
        """Return a dictionary from name, such as ``signal/p``, to the values read in all steps.

        They are (steps, points), or (steps, 1) if all points of the source share one signal.
        """
        for reading in self.readings.values():
            reading.flush()
        return {f"signal/{name}": reading.values for name, reading in self.readings.items()}
