"""What is recorded each step: statistics stay on the device, time series leave it in blocks.

A block of rows is filled on the device and handed over while the other block of its series is filled, so the
next steps run meanwhile. With several ranks each records the points and the block that it owns, and all hand
over at the same steps (`delivery`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import numpy as np

from wavefabric.acoustics.problem import Problem, Recording
from wavefabric.acoustics.recording.delivery import Delivery
from wavefabric.acoustics.recording.gather import RankParts
from wavefabric.acoustics.recording.intensity import Intensity
from wavefabric.acoustics.recording.sampling import Sampler
from wavefabric.acoustics.recording.sinks import RecordingLayout, Report, Sink
from wavefabric.acoustics.solver import operators
from wavefabric.acoustics.solver.stages import Stages
from wavefabric.acoustics.solver.subdomain import Subdomain

#: Bytes of all blocks of time series on the device, at most (one row of each if that is more).
BLOCK_BYTES = 64 << 20
#: Number of a statistic for the kernel `accumulate`, and what it starts from.
_STATISTICS = {"max": (0, -math.inf), "min": (1, math.inf), "rms": (2, 0.0)}


def layout_of(problem: Problem, recording: Recording, dtype) -> RecordingLayout:
    """Names and sizes of everything a recording will give."""
    axes = "xyz"[: problem.dimensions]
    rows = problem.steps - recording.start
    series, points, fields = {}, {}, []
    for quantity in recording.quantities:
        for name in _names(quantity, axes):
            if quantity.endswith("_raw"):
                series[name] = (rows, recording.samples)
            elif quantity.endswith(("_all", "_final")):
                fields.append(name)
            else:
                points[name] = recording.samples
    return RecordingLayout(series, points, tuple(fields), np.dtype(dtype))


def _names(quantity: str, axes: str) -> list[str]:
    """p_max → p_max; u_raw → ux, uy, uz; u_non_staggered_raw → ux_non_staggered …; I_avg → Ix_avg …"""
    base = quantity.removesuffix("_raw")
    return [base] if base.startswith("p") else [base[0] + axis + base[1:] for axis in axes]


def recorder_bytes(problem: Problem, recording: Recording, subdomain: Subdomain, dtype: np.dtype) -> int:
    """Bytes of a rank's statistics, of a component at the points of the pressure, and of blocks of series."""
    d, size, names = problem.dimensions, math.prod(subdomain.size), recording.quantities
    statistics = sum(d if name.startswith("u") else 1 for name in names if name.endswith("_all"))
    shifted = any("non_staggered" in name or name.startswith("I") for name in names)
    samples = recording.samples if subdomain.is_whole else min(recording.samples, size)
    series = sum(d if name[0] in "uI" else 1 for name in names if name.endswith("_raw"))
    block = min(BLOCK_BYTES, 2 * series * samples * dtype.itemsize * problem.steps)
    return dtype.itemsize * (statistics + shifted) * size + block + 64 * samples


class _Series:
    """One time series: two blocks of rows on the device, one of which is filled."""

    def __init__(self, device, name: str, rows: int, samples: int, dtype):
        self.name, self.rows = name, rows
        self._device = device
        self._blocks = [device.empty((rows, samples), dtype) for _ in range(2)]
        self._writes: list[Future | None] = [None, None]
        self._current, self.filled, self.first = 0, 0, 0

    @property
    def block(self):
        """The block being filled."""
        return self._blocks[self._current]

    @property
    def full(self) -> bool:
        """Whether there is no room for another row."""
        return self.filled == self.rows

    def hand_over(self, delivery: Delivery) -> None:
        """Give the filled rows away and go on with the other block."""
        if self.filled:
            part = self._device.export(self.block[: self.filled])
            self._writes[self._current] = delivery.put_rows(self.name, self.first, part)
            self.first += self.filled
            self.filled, self._current = 0, 1 - self._current
        write = self._writes[self._current]
        if write is not None:
            write.result()


class Recorder:
    """Records a run into a sink, which is None on other ranks than 0.

    With several ranks everything is collective; ``problem`` is then the whole one (that of ``stages`` is this
    rank's), and ``parts`` are those of all ranks.
    """

    def __init__(
        self,
        stages: Stages,
        recording: Recording,
        sink: Sink | None,
        problem: Problem | None = None,
        comm=None,
        parts: list | None = None,
    ):
        c = stages.coefficients
        self._stages, self._device, self._kernels = stages, c.device, c.kernels
        self._recording, self._problem = recording, problem or c.problem
        self._comm = comm if comm is not None and comm.size > 1 else None
        self._sampler = Sampler(stages, recording, self._problem.shape, self._comm)
        self.samples = self._sampler.samples
        self._layout = layout_of(self._problem, recording, c.dtype)
        blocks = None if self._comm is None else RankParts.of_blocks(self._comm, parts or [])
        self._delivery = Delivery(sink, self._layout, self._comm, self._sampler.columns, blocks)
        self._axes = "xyz"[: self._problem.dimensions]
        self._staggered = ["p", *("u" + axis for axis in self._axes)]
        self._make_statistics()
        self._make_series()
        self._make_shifted()

    def _make_statistics(self) -> None:
        device, dtype = self._device, self._layout.dtype
        shape = self._stages.fields.named()["p"].shape
        self._values = device.empty((1, self.samples), dtype)
        self.statistics: dict[str, Any] = {}
        for name in (*self._layout.points, *self._layout.fields):
            field, kind, *whole = name.split("_")
            if field not in self._staggered or kind not in _STATISTICS:
                continue
            # Squares are summed in double precision: a long run adds small numbers to large ones.
            numbers = np.float64 if kind == "rms" else dtype
            self.statistics[name] = device.empty(shape if whole else self.samples, numbers)
            self.statistics[name][...] = _STATISTICS[kind][1]

    def _make_series(self) -> None:
        # All ranks hand over at the same steps.
        most = self.samples if self._comm is None else self._comm.control.max(self.samples)
        bytes_per_row = max(1, 2 * len(self._layout.series) * most * self._layout.dtype.itemsize)
        rows = max(1, min(self._problem.steps, BLOCK_BYTES // bytes_per_row))
        self._series = {
            name: _Series(self._device, name, rows, self.samples, self._layout.dtype)
            for name in self._layout.series
        }

    def _make_shifted(self) -> None:
        """What brings velocities to the pressure's points, if that is recorded."""
        device, dtype = self._device, self._layout.dtype
        self._shifted, self.intensity = None, None
        intensity = any(q.startswith("I") for q in self._recording.quantities)
        if intensity or "u_non_staggered_raw" in self._recording.quantities:
            coefficients = self._stages.coefficients
            self._shifted = device.empty(self._stages.fields.named()["p"].shape, dtype)
            factors = operators.unstaggering(self._problem, coefficients.subdomain)
            factors[0] = np.pad(factors[0], (0, coefficients.half_shape[2] - factors[0].size))
            self._factors = [device.asarray(f, coefficients.complex) for f in factors]
        if intensity:
            self.intensity = Intensity(device, self._axes, self.samples, dtype)

    # --- A run ------------------------------------------------------------------------------------------

    def begin(self, step: int, run: str = "") -> None:
        """Before time step ``step``: the first, or the one after a checkpoint; ``run`` identifies the run."""
        done = max(0, step - self._recording.start)
        self._delivery.begin(run, done)
        products = 0 if self.intensity is None else self.intensity.resume(done)
        for series in self._series.values():
            series.first = products if series.name.startswith("I") else done

    def after(self, step: int) -> None:
        """Record time step ``step``, whose result is in the fields."""
        ahead = self._recording.start - step
        if ahead <= 0:
            self._record_staggered()
            self._record_shifted()
        if self.intensity is not None and ahead <= self.intensity.reach:
            self._record_intensity(step)
        for series in self._series.values():
            if series.full:
                series.hand_over(self._delivery)

    def _record_staggered(self) -> None:
        """Pressure and velocities as the solver has them."""
        fields = self._stages.fields.named()
        for field in self._staggered:
            mine = [name for name in self.statistics if name.startswith(field + "_")]
            at_points = [name for name in mine if not name.endswith("_all")]
            if at_points or field in self._series:
                values = self._sample(fields[field], self._series.get(field))
                for name in at_points:
                    self._accumulate(name, values)
            for name in mine:
                if name.endswith("_all"):
                    self._accumulate(name, fields[field])

    def _accumulate(self, name: str, values) -> None:
        kind, _ = _STATISTICS[name.split("_")[1]]
        self._kernels.accumulate(self.statistics[name], kind, values)

    def _record_shifted(self) -> None:
        """Velocities at the pressure's points."""
        for axis, letter in enumerate(self._axes):
            series = self._series.get(f"u{letter}_non_staggered")
            if series is not None:
                self._sample(self._shift(axis), series)

    def _shift(self, axis: int):
        """The velocity along an axis at the pressure's points."""
        u = self._stages.fields.named()["u" + self._axes[axis]]
        self._stages.translate(u, axis, self._factors[axis], self._shifted)
        return self._shifted

    def _sample(self, field, series: _Series | None):
        """Sensor values of a field: into the next row of its series, if it has one. Shape (samples,)."""
        target, row = (self._values, 0) if series is None else (series.block, series.filled)
        self._sampler.read(target, row, field)
        if series is not None:
            series.filled += 1
        return target[row]

    def _record_intensity(self, step: int) -> None:
        assert self.intensity is not None
        self.intensity.pressure(self._sample(self._stages.fields.named()["p"], None))
        for axis in range(len(self._axes)):
            self.intensity.velocity(axis, self._sample(self._shift(axis), None))
        self._store_intensity(self.intensity.advance(step - self._recording.start + 1))

    def _store_intensity(self, rows: list) -> None:
        """Rows of instantaneous intensity that have become complete: a list of (components, samples)."""
        for row in rows:
            for axis, letter in enumerate(self._axes):
                series = self._series.get(f"I{letter}")
                if series is not None:
                    if series.full:
                        series.hand_over(self._delivery)
                    series.block[series.filled] = row[axis]
                    series.filled += 1

    def settle(self) -> None:
        """Everything recorded so far is with the sink, for good: a checkpoint may follow."""
        for series in self._series.values():
            series.hand_over(self._delivery)
        self._delivery.flush()

    # --- Its end ----------------------------------------------------------------------------------------

    def finish(self) -> dict[str, Callable[[], np.ndarray]]:
        """The last step is recorded: what makes each statistic and final field of this rank, on the host."""
        if self.intensity is not None:
            self._store_intensity(self.intensity.flush())
        self.settle()
        rows = self._problem.steps - self._recording.start
        arrays = {name: partial(self._statistic, name, rows) for name in self.statistics}
        for name in self._layout.fields:
            if name.endswith("_final"):
                arrays[name] = partial(self._final, name)
        if self.intensity is not None:
            for name, values in self.intensity.averages(rows).items():
                if name in self._layout.points:
                    arrays[name] = partial(np.asarray, values)
        return arrays

    def deliver(self, arrays: dict[str, Callable[[], np.ndarray]], report: Report) -> None:
        """Give what `finish` returned to the sink, gathered from all ranks."""
        self._delivery.finish(arrays, report)

    def _statistic(self, name: str, rows: int) -> np.ndarray:
        array = self.statistics[name]
        host = np.array(self._device.to_host(self._owned(array) if name.endswith("_all") else array))
        if name.endswith("_rms"):
            host = np.sqrt(host / rows)
        return host.astype(self._layout.dtype, copy=False)

    def _final(self, name: str) -> np.ndarray:
        field = self._stages.fields.named()[name.removesuffix("_final")]
        return np.array(self._device.to_host(self._owned(field)))

    def _owned(self, field):
        return field if self._comm is None else field[self._stages.coefficients.subdomain.owned]

    def abandon(self, keep: bool) -> None:
        """The run ends early: end the writing thread; the sink keeps its files if a checkpoint needs them."""
        self._delivery.abandon(keep)

    def close(self) -> None:
        """End the writing thread."""
        self._delivery.close()

    def state(self) -> dict[str, Any]:
        """Device arrays that a checkpoint must hold."""
        extra = self.intensity.state() if self.intensity is not None else {}
        return {f"recorded/{name}": array for name, array in (self.statistics | extra).items()}
