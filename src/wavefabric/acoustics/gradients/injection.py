"""Applies the transpose of the recorder: adds an objective's derivatives to the adjoint fields."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.parallel.restrict import restrict_array
from wavefabric.acoustics.problem import Recording
from wavefabric.acoustics.recording.quantities import quantity_of
from wavefabric.acoustics.recording.sampling import rows_of
from wavefabric.acoustics.recording.tones import sum_names, weights
from wavefabric.acoustics.solver.coefficients import Fields
from wavefabric.acoustics.solver.stages import Stages

#: Largest size, in bytes, of a block of rows of all series on the device.
_BLOCK_BYTES = 16 << 20


def injected_fields(recording: Recording, dimensions: int) -> int:
    """Return the largest number of grid-sized arrays that an `Injection` stores on a device."""
    finals = sum(dimensions if name[0] == "u" else 1 for name in recording.quantities if "final" in name)
    return finals + 2 * len(recording.frequencies) * ("p_amp_all" in recording.tones)


class Injection:
    """Adds an objective's derivatives to the adjoint fields of a rank.

    ``derivatives`` are the result of `objective.as_recorded`, for the whole grid and all points.
    """

    def __init__(self, stages: Stages, kernels: Any, recording: Recording, derivatives: Mapping[str, Any]):
        c = stages.coefficients
        self._coefficients, self._kernels, self._start = c, kernels, recording.start
        index, bounds, columns, by = _transposed(recording, c.subdomain)
        read, columns = np.unique(columns, return_inverse=True)
        self._points = tuple(map(c.device.asarray, (index, bounds, columns.astype(np.int64), by)))
        row = max(1, read.size * c.dtype.itemsize)
        self._block_rows = max(1, min(c.problem.steps, _BLOCK_BYTES // row))
        self._first, self._clock = c.problem.steps, stages.fields.clock
        #: For each series the rows of some steps on the device; a step has row ``step % rows``.
        self._blocks: dict[str, Any] = {}
        self._finals: dict[str, Any] = {}  # fields after the last step
        self._series: dict[str, np.ndarray] = {}  # (rows, columns)
        #: For amplitudes: weights of the steps, and derivatives, at the sensor (on the host) or of fields.
        self._tones: list[tuple[np.ndarray, np.ndarray]] = []
        self._field_tones: list[tuple[Any, Any]] = []
        sums = {name: (quantity, number) for name, quantity, number in sum_names(recording)}
        for name, array in derivatives.items():
            quantity, number = sums.get(name, (quantity_of(name), None))
            is_field = quantity is not None and quantity.kind == "field"
            if is_field:
                array = c.device.asarray(restrict_array(array, c.subdomain), c.dtype)
            else:
                array = np.ascontiguousarray(array[..., read].astype(c.dtype))
            if number is None:
                (self._finals if is_field else self._series)[name] = array
                continue
            part, steps = "sin" in name.split("_"), range(recording.start, c.problem.steps)
            by_step = np.zeros((c.problem.steps, 1))
            by_step[recording.start :, 0] = [weights(c.problem, recording, number, n)[part] for n in steps]
            if is_field:
                self._field_tones.append((c.device.asarray(by_step.astype(c.dtype)), array))
            else:
                self._tones.append((by_step, array))

    def begin(self, fields: Fields, step: int) -> None:
        """Load the derivatives that `add` needs at ``step``; the steps must be in descending order.

        At the last step of the simulation, also add the derivatives for the final fields.
        """
        if step == self._coefficients.problem.steps - 1:
            for name, array in self._finals.items():
                target = _target(fields, name)
                target += array
        if self._start <= step < self._first and self._points[0].size:
            self._load(step)

    def add(self, fields: Fields, step: int) -> None:
        """Add the derivatives for data recorded in ``step``; kernels read the step from the clock."""
        if step < self._start:
            return
        for name, block in self._blocks.items():
            self._kernels.add_readings(_target(fields, name), *self._points, block, self._clock)
        for by_step, array in self._field_tones:
            self._coefficients.kernels.add_pattern(fields.p, array, by_step, self._clock)

    def _load(self, last: int) -> None:
        """Copy derivatives up to step ``last`` to the device, those for amplitudes added to those for p."""
        count = self._block_rows
        self._first = first = max(self._start, last // count * count)
        span = slice(first - self._start, last + 1 - self._start)
        rows: dict[str, Any] = {name: array[span] for name, array in self._series.items()}
        if self._tones:
            more = sum(by_step[first : last + 1] * array for by_step, array in self._tones)
            rows["p"] = (more + rows.get("p", 0)).astype(self._coefficients.dtype)
        device = self._coefficients.device
        for name, array in rows.items():
            if name not in self._blocks:
                self._blocks[name] = device.empty((count, array.shape[1]), array.dtype)
            block = self._blocks[name][first % count : last % count + 1]
            device.copy(block, np.ascontiguousarray(array))


def _target(fields: Fields, name: str) -> Any:
    return fields.p if name[0] == "p" else fields.u["xyz".index(name[1])]


def _transposed(recording: Recording, subdomain: Subdomain) -> tuple[np.ndarray, ...]:
    """Return (index, bounds, samples, weights): for each grid point, the samples to which it contributes.

    The grid point index[i] contributes to samples[j] with weights[j], for j in bounds[i]:bounds[i + 1].
    """
    rows = rows_of(recording.where, subdomain.shape)
    samples = np.repeat(np.arange(rows.bounds.size - 1), np.diff(rows.bounds))
    mask, local = subdomain.local_index(rows.points)
    order = np.argsort(local, kind="stable")
    index, counts = np.unique(local, return_counts=True)
    bounds = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return index, bounds, samples[mask][order].astype(np.int64), rows.weights[mask][order].astype(np.float64)
