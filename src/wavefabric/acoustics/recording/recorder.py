"""Records quantities in each step: statistics stay on the device, time series leave it in blocks.

The rows of a series are in two blocks on the device, used alternately: one block is passed on while the next
time steps fill the other. With several ranks each rank records the points and the part of the grid that it
owns, and all ranks pass blocks on at the same steps (`delivery`).
"""

import math
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import numpy as np

from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.problem import Problem, Recording
from wavefabric.acoustics.recording.delivery import Delivery, RankParts
from wavefabric.acoustics.recording.quantities import QUANTITIES, Statistic, components, quantity_of
from wavefabric.acoustics.recording.sampling import Intensity, Sampler
from wavefabric.acoustics.recording.sinks import RecordingLayout, Sink
from wavefabric.acoustics.recording.tones import sum_names, weights
from wavefabric.acoustics.solver.formulas import unstaggering
from wavefabric.acoustics.solver.stages import Stages

#: Largest size, in bytes, of all blocks of time series on the device, which have at least one row each.
BLOCK_BYTES = 64 << 20


def layout_of(problem: Problem, recording: Recording, dtype) -> RecordingLayout:
    """Return the names and sizes of all arrays that a recording yields."""
    of_kind: dict[str, list[str]] = {"series": [], "points": [], "field": []}
    for name in recording.quantities:
        of_kind[QUANTITIES[name].kind] += components(name, "xyz"[: problem.dimensions])
    for name, quantity, _ in sum_names(recording):
        of_kind[quantity.kind].append(name)
    return RecordingLayout(
        dict.fromkeys(of_kind["series"], (problem.steps - recording.start, recording.samples)),
        dict.fromkeys(of_kind["points"], recording.samples),
        tuple(of_kind["field"]),
        np.dtype(dtype),
    )


def recorded_bytes(problem: Problem, recording: Recording, dtype) -> int:
    """Return the size, in bytes, of all arrays that a run records."""
    layout = layout_of(problem, recording, dtype)
    rows = sum(map(math.prod, layout.series.values())) + sum(layout.points.values())
    return (rows + len(layout.fields) * problem.points) * layout.dtype.itemsize


def recorder_bytes(problem: Problem, recording: Recording, subdomain: Subdomain, dtype: np.dtype) -> int:
    """Return the device memory, in bytes, that a rank needs to record: statistics, velocity, time series."""
    size, layout = math.prod(subdomain.size), layout_of(problem, recording, dtype)
    statistics = [quantity.statistic for name in layout.fields if (quantity := quantity_of(name))]
    fields = sum(8 if kept.double else dtype.itemsize for kept in statistics if kept)
    fields += dtype.itemsize * sum(quantity.kind == "field" for _, quantity, _ in sum_names(recording))
    shifted = any("non_staggered" in name or name.startswith("I") for name in recording.quantities)
    samples = recording.samples if subdomain.is_whole else min(recording.samples, size)
    block = min(BLOCK_BYTES, 2 * len(layout.series) * samples * dtype.itemsize * problem.steps)
    return (fields + dtype.itemsize * shifted) * size + block + 64 * samples


class _Series:
    """Stores one time series on the device in two blocks of rows, which are filled alternately."""

    def __init__(self, device, name: str, rows: int, samples: int, dtype, on_device: bool = False):
        self.name, self._rows = name, rows
        self._device = device
        #: Whether blocks are delivered on the device, in the order of its work, and not in host memory.
        self._on_device = on_device
        #: Row ``number`` of the series is ``ring[number % len(ring)]``.
        self.ring = device.empty((2 * rows, samples), dtype)
        self._writes: tuple[list[Future], list[Future]] = ([], [])
        # Number of rows recorded, and number of rows passed to the delivery.
        self._done, self._written = 0, 0

    def begin(self, done: int) -> None:
        """Continue after ``done`` rows, which were recorded before a checkpoint."""
        self._done = self._written = done

    @property
    def free_rows(self) -> int:
        """Number of rows that the current block still has space for."""
        return self._rows - self._done % self._rows

    def put(self, row: Any) -> None:
        """Record a row of values."""
        self.ring[self._done % len(self.ring)] = row

    def add(self, delivery: Delivery, rows: int) -> None:
        """Count ``rows`` more rows as recorded, at most `free_rows`; pass a full block to ``delivery``."""
        self._done += rows
        if rows and self._done % self._rows == 0:
            self.hand_over(delivery)
            for write in self._writes[self._done // self._rows % 2]:
                write.result()  # the next rows overwrite this block
            self._writes[self._done // self._rows % 2].clear()

    def hand_over(self, delivery: Delivery) -> None:
        """Pass the rows that were recorded since the last hand-over to ``delivery``, which writes them."""
        if self._done > self._written:
            first, count = self._written % len(self.ring), self._done - self._written
            part = self.ring[first : first + count]
            export = (lambda: part) if self._on_device else self._device.export(part)
            write = delivery.put_rows(self.name, self._written, export)
            if write is not None:
                self._writes[self._written // self._rows % 2].append(write)
            self._written = self._done


class Recorder:
    """Records a run; all ranks make the same calls, but only rank 0 has a ``sink``, which gets the data."""

    def __init__(self, stages: Stages, recording: Recording, sink: Sink | None):
        c = stages.coefficients
        self._stages, self._device, self._kernels = stages, c.device, c.kernels
        self._recording, self._rows = recording, c.problem.steps - recording.start
        self._comm = stages.layout.comm
        self._sampler = Sampler(stages, recording)
        self.samples = self._sampler.samples
        self._layout = layout_of(c.problem, recording, c.dtype)
        blocks = None
        if self._comm is not None:
            blocks = RankParts.of_blocks(self._comm, stages.layout.partition.subdomains)
        self.delivery = Delivery(sink, self._layout, self._comm, self._sampler.columns, blocks)
        self._axes = "xyz"[: c.problem.dimensions]
        device, dtype, shape = c.device, self._layout.dtype, stages.fields.p.shape
        self._values = device.empty((1, self.samples), dtype)
        self._statistic_kinds: dict[str, Statistic] = {}
        self.statistics: dict[str, Any] = {}
        for name in (*self._layout.points, *self._layout.fields):
            quantity = quantity_of(name)
            if quantity is not None and quantity.statistic is not None:
                statistic = self._statistic_kinds[name] = quantity.statistic
                size = shape if quantity.kind == "field" else self.samples
                self.statistics[name] = device.empty(size, np.float64 if statistic.double else dtype)
                self.statistics[name][...] = statistic.start
        self._tones = sum_names(self._recording)
        for name, quantity, _ in self._tones:
            self.statistics[name] = device.zeros(shape if quantity.kind == "field" else self.samples, dtype)
        steps = range(recording.start, c.problem.steps)
        #: Weights of each step's pressure in the sums of each frequency.
        self._weights = [
            device.asarray(np.array([weights(c.problem, recording, number, step) for step in steps]))
            for number in range(len(recording.frequencies) if self._tones else 0)
        ]
        # All ranks have blocks of equally many rows, so that they pass them on at the same steps.
        most = self.samples if self._comm is None else self._comm.control.max(self.samples)
        bytes_per_row = max(1, 2 * len(self._layout.series) * most * dtype.itemsize)
        rows = max(1, min(c.problem.steps, BLOCK_BYTES // bytes_per_row))
        #: Whether recorded arrays are delivered on the device.
        self._on_device = sink is not None and sink.on_device
        size = rows, self.samples, dtype, self._on_device
        self._series = {name: _Series(device, name, *size) for name in self._layout.series}
        self._staggered = self._staggered_quantities()
        # Factors that move velocities to the pressure's points, if these are recorded.
        self._shifted, self.intensity = None, None
        intensity = any(q.startswith("I") for q in recording.quantities)
        if intensity or "u_non_staggered_raw" in recording.quantities:
            self._shifted = device.empty(shape, dtype)
            factors = unstaggering(c.problem, c.subdomain)
            factors[0] = np.pad(factors[0], (0, c.half_shape[2] - factors[0].size))
            self._factors = [device.asarray(f, c.complex) for f in factors]
        if intensity:
            self.intensity = Intensity(device, self._axes, self.samples, dtype)

    def begin(self, step: int, run: str = "") -> None:
        """Start before time step ``step``: 0, or the first after a checkpoint. ``run`` identifies the run."""
        done = max(0, step - self._recording.start)
        self.delivery.begin(run, done)
        products = 0 if self.intensity is None else self.intensity.resume(done)
        for series in self._series.values():
            series.begin(products if series.name.startswith("I") else done)

    def kernels(self, step: int) -> Callable[[], None] | None:
        """Return a function that records time step ``step`` from the fields; None if nothing is recorded.

        The function is the same for all steps from the first recorded one on. If `kernels_alone` is true, it
        only launches kernels, which read the number of the step from the clock and do not change it.
        """
        return self._record_step if step >= self._recording.start else None

    @property
    def kernels_alone(self) -> bool:
        """Whether recording a step only needs kernels of this rank: no other ranks, no work of the host."""
        statistics = all(kept.kernels_alone for kept in self._statistic_kinds.values())
        return statistics and not self._sampler.shared and self.intensity is None

    def free_steps(self, step: int) -> int:
        """Return how many steps from ``step`` on need no work of the host in between; at least 1."""
        if self.intensity is not None:
            return 1
        if step < self._recording.start:
            return self._recording.start - step
        return min((series.free_rows for series in self._series.values()), default=self._rows)

    def after(self, step: int, steps: int = 1) -> None:
        """Do the host's part of recording ``steps`` time steps, the first of them ``step``.

        Called when their kernels have run: passes full blocks of time series to the sink. If the intensity is
        recorded, samples the pressure and velocities that it is computed from.
        """
        steps_ahead = self._recording.start - step
        if self.intensity is not None and steps_ahead <= self.intensity.reach:
            self.intensity.pressure(self._sample(self._stages.fields.p))
            for axis in range(len(self._axes)):
                self.intensity.velocity(axis, self._sample(self._shift(axis)))
            self._store_intensity(self.intensity.advance(1 - steps_ahead))
        for name, series in self._series.items() if steps_ahead <= 0 else ():
            if not name.startswith("I"):
                series.add(self.delivery, steps)

    def _record_step(self) -> None:
        self._record_staggered()
        self._record_tones()
        for axis, letter in enumerate(self._axes):  # velocities at the pressure's points
            if (shifted := self._series.get(f"u{letter}_non_staggered")) is not None:
                self._sample(self._shift(axis), shifted)

    def _staggered_quantities(self) -> list[tuple[Any, _Series | None, bool, list]]:
        """Return what to record of the pressure and of each velocity component, at their own grid points.

        Each entry is (field, series, sampled, statistics). ``series`` is the time series to store, or None.
        ``sampled`` says whether values at the sensor are needed. ``statistics`` is a list of pairs: the name
        of a statistic, and whether it is taken of the values at the sensor or, if not, of the whole field.
        """
        result, fields = [], self._stages.fields.named()
        for field in ("p", *("u" + axis for axis in self._axes)):
            names = [name for name in self._statistic_kinds if name.startswith(field + "_")]
            statistics = [(name, name in self._layout.points) for name in names]
            series = self._series.get(field)
            sampled = series is not None or any(at_points for _, at_points in statistics)
            if sampled or statistics:
                result.append((fields[field], series, sampled, statistics))
        return result

    def _record_staggered(self) -> None:
        """Record pressure and velocities at their staggered points, as the solver stores them."""
        for field, series, sampled, statistics in self._staggered:
            values = self._sample(field, series) if sampled else None
            for name, at_points in statistics:
                now = values if at_points else field
                self._statistic_kinds[name].update(self._kernels, self.statistics[name], now)

    def _record_tones(self) -> None:
        """Add the pressure, times a cosine and a sine of time, to the running sums of each frequency."""
        if not self._tones:
            return
        fields, values, start = self._stages.fields, None, self._recording.start
        if any(quantity.kind == "points" for _, quantity, _ in self._tones):
            values = self._sample(fields.p)
        for (cosines, quantity, number), (sines, *_) in zip(*[iter(self._tones)] * 2, strict=True):
            now, sums = fields.p if quantity.kind == "field" else values, self.statistics
            by = self._weights[number], fields.clock, start
            self._kernels.accumulate_tone(sums[cosines], sums[sines], now, *by)

    def _shift(self, axis: int):
        """Return the velocity along ``axis`` at the pressure's points; the next call overwrites the array."""
        self._stages.translate(self._stages.fields.u[axis], axis, self._factors[axis], self._shifted)
        return self._shifted

    def _sample(self, field, series: _Series | None = None):
        """Return the values of a field at the sensor; store them as the next row of ``series``, if given."""
        self._sampler.read(self._values, 0, field)
        if series is not None:
            start, ring, clock = self._recording.start, series.ring, self._stages.fields.clock
            self._kernels.store_row(ring, self._values[0], clock, start, len(ring))
        return self._values[0]

    def _store_intensity(self, rows: list) -> None:
        """Store completed rows of instantaneous intensity, each (components, samples), in their series."""
        for row in rows:
            for axis, letter in enumerate(self._axes):
                if (series := self._series.get(f"I{letter}")) is not None:
                    series.put(row[axis])
                    series.add(self.delivery, 1)

    def flush(self) -> None:
        """Pass all rows recorded so far to the sink and flush it, as a checkpoint requires."""
        for series in self._series.values():
            series.hand_over(self.delivery)
        self.delivery.flush()

    def finish(self) -> dict[str, Callable[[], np.ndarray]]:
        """Finish after the last step; return a dictionary from name to a function that computes an array."""
        if self.intensity is not None:
            self._store_intensity(self.intensity.flush())
        self.flush()
        arrays: dict[str, Callable[[], np.ndarray]]
        arrays = {name: partial(self._statistic, name) for name in self.statistics}
        for name in self._layout.fields:
            if name not in self.statistics:
                field = self._stages.fields.named()[name.removesuffix("_final")]
                arrays[name] = partial(self._delivered, name, field)
        if self.intensity is not None:
            for name, values in self.intensity.averages(self._rows).items():
                if name in self._layout.points:
                    arrays[name] = partial(self._device.asarray if self._on_device else np.asarray, values)
        return arrays

    def _statistic(self, name: str) -> np.ndarray:
        host = self._delivered(name, self.statistics[name])
        if name in self._statistic_kinds:
            host = self._statistic_kinds[name].finish(host, self._rows)
        return host.astype(self._layout.dtype, copy=False)

    def _delivered(self, name: str, array) -> np.ndarray:
        """Return a copy of values at this rank's sensor points, or of its own block of a field.

        It is on the host, or on the device if the sink takes arrays there.
        """
        if name in self._layout.fields:
            array = array[self._stages.coefficients.subdomain.owned]
        return array.copy() if self._on_device else np.array(self._device.to_host(array))

    def state(self) -> dict[str, Any]:
        """Return a dictionary from name to device array of all that a checkpoint stores."""
        extra = self.intensity.state() if self.intensity is not None else {}
        return {f"recorded/{name}": array for name, array in (self.statistics | extra).items()}
