"""The transpose of the recorder: derivatives with respect to what was recorded enter the adjoint fields."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.parallel.restrict import restrict_array
from wavefabric.acoustics.problem import Cuboids, Elements, Interpolation, Recording
from wavefabric.acoustics.recording.quantities import quantity_of
from wavefabric.acoustics.recording.tones import sum_names, weights
from wavefabric.acoustics.solver.coefficients import Fields
from wavefabric.acoustics.solver.stages import Stages

#: Bytes of a block of rows of all series on the device, at most.
_BLOCK_BYTES = 16 << 20


class Injection:
    """Adds what an objective's derivatives say to the adjoint fields, of a rank.

    ``derivatives`` are those of `objective.evaluate`, of the whole grid and all points.
    """

    def __init__(self, stages: Stages, kernels: Any, recording: Recording, derivatives: Mapping[str, Any]):
        c = stages.coefficients
        self._c, self._kernels, self._recording = c, kernels, recording
        index, bounds, columns, by = _transposed(recording, c.subdomain)
        self._columns, columns = np.unique(columns, return_inverse=True)
        arrays = (index, bounds, columns.astype(np.int64), by)
        self._points = tuple(map(c.device.asarray, arrays))
        field = {name: (q := quantity_of(name)) is not None and q.kind == "field" for name in derivatives}
        self._fields = {
            name: c.device.asarray(restrict_array(derivatives[name], c.subdomain), c.dtype)
            for name in derivatives
            if field[name] or _is_field_sum(recording, name)
        }
        self._rows = {
            name: np.ascontiguousarray(array[..., self._columns].astype(c.dtype))
            for name, array in derivatives.items()
            if name not in self._fields
        }
        self._sums = [entry for entry in sum_names(recording) if entry[0] in derivatives]
        row = max(1, self._columns.size * c.dtype.itemsize)
        self._block_rows = max(1, min(c.problem.steps, _BLOCK_BYTES // row))
        self._blocks: dict[str, Any] = {}
        self._first = c.problem.steps
        self._by_step = self._tone_weights()

    def add(self, fields: Fields, step: int) -> None:
        """Add what was recorded after a time step; steps come from the last to the first."""
        if step == self._c.problem.steps - 1:
            for name, array in self._fields.items():
                if name.endswith("_final"):
                    target = self._target(fields, name)
                    target += array
        if step < self._recording.start:
            return
        if self._points[0].size:
            if step < self._first or not self._blocks:
                self._load(step)
            for name, block in self._blocks.items():
                target = self._target(fields, name)
                self._kernels.add_readings(target, *self._points, block, step - self._first)
        for name, signal in self._by_step.items():
            self._kernels_of_sources().add_pattern(fields.p, self._fields[name], signal, self._clock(step))

    def _target(self, fields: Fields, name: str) -> Any:
        return fields.p if name[0] == "p" else fields.u["xyz".index(name[1])]

    def _kernels_of_sources(self) -> Any:
        return self._c.kernels

    def _clock(self, step: int) -> Any:
        self._step[...] = step
        return self._step

    def _load(self, last: int) -> None:
        """A block of rows that ends with that of a step, on the device; those of tones are part of p's."""
        self._first = first = max(self._recording.start, last + 1 - self._block_rows)
        start = self._recording.start
        rows = {
            name: array[first - start : last + 1 - start]
            for name, array in self._rows.items()
            if array.ndim > 1
        }
        tones = [(array, self._by[name]) for name, array in self._rows.items() if array.ndim == 1]
        if tones:
            steps = slice(first - start, last + 1 - start)
            more = np.sum([np.outer(factor[steps], array) for array, factor in tones], axis=0)
            rows["p"] = (more + rows["p"] if "p" in rows else more).astype(self._c.dtype)
        self._blocks = {
            name: self._c.device.asarray(np.ascontiguousarray(array)) for name, array in rows.items()
        }

    def _tone_weights(self) -> dict[str, Any]:
        """What each step counts in the running sums: on the host, and on the device for sums of fields."""
        c, recording = self._c, self._recording
        self._step = c.device.zeros(1, np.int64)
        self._by: dict[str, np.ndarray] = {}
        on_device = {}
        for name, _, number in self._sums:
            every = [
                weights(c.problem, recording, number, step)["sin" in name.split("_")]
                for step in range(recording.start, c.problem.steps)
            ]
            self._by[name] = np.array(every)
            if name in self._fields:
                signal = np.zeros((c.problem.steps, 1), c.dtype)
                signal[recording.start :, 0] = every
                on_device[name] = c.device.asarray(signal)
        return on_device


def _is_field_sum(recording: Recording, name: str) -> bool:
    return any(name == each and quantity.kind == "field" for each, quantity, _ in sum_names(recording))


def _transposed(recording: Recording, subdomain: Subdomain) -> tuple[np.ndarray, ...]:
    """Grid points of a rank that are read: each once, and from ``bounds`` on the samples and weights."""
    where = recording.where
    if isinstance(where, Interpolation):
        points, weights_ = where.corners.ravel(), where.weights.ravel()
        samples = np.repeat(np.arange(len(where.corners)), where.corners.shape[1])
    elif isinstance(where, Elements):
        points, weights_ = where.points, where.weights
        samples = np.repeat(np.arange(where.bounds.size - 1), np.diff(where.bounds))
    else:
        points = where.indices(subdomain.shape) if isinstance(where, Cuboids) else where
        points = np.asarray([] if points is None else points, np.int64)
        samples, weights_ = np.arange(points.size), np.ones(points.size)
    mask, local = subdomain.local_index(points)
    order = np.argsort(local, kind="stable")
    index, counts = np.unique(local, return_counts=True)
    bounds = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return index, bounds, samples[mask][order].astype(np.int64), weights_[mask][order].astype(np.float64)
