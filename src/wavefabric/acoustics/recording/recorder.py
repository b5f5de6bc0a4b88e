"""What is recorded each step: statistics stay on the device, time series leave it in blocks.

A block of rows is filled on the device and handed to a writer thread, which copies it to the host and gives
it to the sink; two blocks a series alternate, so the next steps run meanwhile. With several ranks each
records the points and the block that it owns, and all hand over at the same steps (`gather`).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from wavefabric.acoustics.problem import Cuboids, Interpolation, Problem, Recording
from wavefabric.acoustics.recording.gather import Blocks, GatheredSink, Lazy
from wavefabric.acoustics.recording.intensity import Intensity
from wavefabric.acoustics.recording.sampling import Sampler
from wavefabric.acoustics.recording.sinks import Layout, Sink
from wavefabric.acoustics.recording.writer import Inline, Writer
from wavefabric.acoustics.solver import operators
from wavefabric.acoustics.solver.stages import Stages
from wavefabric.acoustics.solver.subdomain import Subdomain

#: Bytes of all blocks of time series on the device, at most (one row of each if that is more).
BLOCK_BYTES = 64 << 20
_KINDS = {"max": 0, "min": 1, "rms": 2}
_START = {"max": -math.inf, "min": math.inf, "rms": 0.0}


def layout(problem: Problem, recording: Recording, dtype) -> Layout:
    """Names and sizes of everything a recording will give."""
    axes = "xyz"[: problem.dimensions]
    rows, samples = problem.steps - recording.start, sensor_points(problem, recording)
    series, points, fields = {}, {}, []
    for quantity in recording.quantities:
        for name in _names(quantity, axes):
            if quantity.endswith("_raw"):
                series[name] = (rows, samples)
            elif quantity.endswith(("_all", "_final")):
                fields.append(name)
            else:
                points[name] = samples
    return Layout(series, points, tuple(fields), np.dtype(dtype))


def _names(quantity: str, axes: str) -> list[str]:
    """p_max → p_max; u_raw → ux, uy, uz; u_non_staggered_raw → ux_non_staggered …; I_avg → Ix_avg …"""
    base = quantity.removesuffix("_raw")
    return [base] if base.startswith("p") else [base[0] + axis + base[1:] for axis in axes]


def sensor_points(problem: Problem, recording: Recording) -> int:
    """Samples in one row of a time series."""
    where = recording.where
    if where is None:
        return 0
    if isinstance(where, Cuboids):
        return int(np.prod(where.last - where.first + 1, axis=1).sum())
    return len(where.corners) if isinstance(where, Interpolation) else len(where)


def recorder_bytes(problem: Problem, recording: Recording, subdomain: Subdomain, dtype: np.dtype) -> int:
    """Bytes of a rank's statistics, of a component at the points of the pressure, and of blocks of series."""
    d, size, names = problem.dimensions, math.prod(subdomain.size), recording.quantities
    statistics = sum(d if name.startswith("u") else 1 for name in names if name.endswith("_all"))
    moved = any("non_staggered" in name or name.startswith("I") for name in names)
    samples = sensor_points(problem, recording)
    if not subdomain.is_whole:
        samples = min(samples, size)
    series = sum(d if name[0] in "uI" else 1 for name in names if name.endswith("_raw"))
    block = min(BLOCK_BYTES, 2 * series * samples * dtype.itemsize * problem.steps)
    return dtype.itemsize * (statistics + moved) * size + block + 64 * samples


class _Series:
    """One time series: two blocks of rows on the device."""

    def __init__(self, device, name: str, rows: int, samples: int, dtype):
        self.name = name
        self._device = device
        self._blocks = [device.empty((rows, samples), dtype) for _ in range(2)]
        self._free = [threading.Event(), threading.Event()]
        for event in self._free:
            event.set()
        self._which, self.filled, self.first = 0, 0, 0

    @property
    def block(self):
        """The block being filled."""
        return self._blocks[self._which]

    def hand_over(self, writer: Writer | Inline) -> None:
        """Give the filled rows away and go on with the other block."""
        if self.filled:
            event = self._free[self._which]
            event.clear()
            part = self.block[: self.filled]
            writer.put(self.name, self.first, self._device.export(part), event)
            self.first += self.filled
            self.filled, self._which = 0, 1 - self._which
        while not self._free[self._which].wait(0.2):
            writer.check()


class Recorder:
    """Records a run.

    Parameters
    ----------
    stages : Stages
    recording : Recording
    sink : Sink or None
        None on other ranks than 0.
    problem : Problem, optional
        The whole one; that of ``stages`` by default.
    comm : Communicator, optional
        With several ranks: everything here is then collective.
    parts : list of Part, optional
        Of all ranks.

    Attributes
    ----------
    sink : Sink
        What the run is finished with: the one given, or with several ranks what fills it from all of them.
    layout : Layout
        What this rank records.
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
        whole = layout(self._problem, recording, c.dtype)
        self._sampler = Sampler(stages, recording, self._problem.shape, self._comm)
        self.samples = self._sampler.samples
        if self._comm is None:
            assert sink is not None
            self.layout, self.sink = whole, sink
        else:
            assert parts is not None
            series = {name: (rows, self.samples) for name, (rows, _) in whole.series.items()}
            points = dict.fromkeys(whole.points, self.samples)
            self.layout = Layout(series, points, whole.fields, whole.dtype)
            blocks = Blocks(self._comm, parts)
            self.sink = GatheredSink(self._comm, sink, self._sampler.columns, blocks, whole)
        self._axes = "xyz"[: self._problem.dimensions]
        self._writer: Writer | Inline | None = None
        self._buffers()

    def _buffers(self) -> None:
        device, dtype, names = self._device, self.layout.dtype, self.layout
        fields = self._stages.fields.named()
        self._values = device.empty((1, self.samples), dtype)
        self.statistics: dict[str, Any] = {}
        for name in names.points:
            if not name.startswith("I"):
                kind = name.rsplit("_", 1)[1]
                # Squares are summed in double precision: a long run adds small numbers to large ones.
                self.statistics[name] = device.empty(self.samples, np.float64 if kind == "rms" else dtype)
                self.statistics[name][...] = _START[kind]
        for name in names.fields:
            if name.endswith("_all"):
                self.statistics[name] = device.empty(fields["p"].shape, dtype)
                self.statistics[name][...] = _START[name.split("_")[1]]
        # All ranks hand over at the same steps.
        most = self.samples if self._comm is None else self._comm.control.max(self.samples)
        bytes_a_row = max(1, 2 * len(names.series) * most * dtype.itemsize)
        self._rows = max(1, min(self._problem.steps, BLOCK_BYTES // bytes_a_row))
        self._series = {
            name: _Series(device, name, self._rows, samples, dtype)
            for name, (_, samples) in names.series.items()
        }
        shifted = any("non_staggered" in q or q.startswith("I") for q in self._recording.quantities)
        self._shifted = device.empty(fields["p"].shape, dtype) if shifted else None
        if shifted:
            coefficients = self._stages.coefficients
            factors = operators.unstaggering(self._problem, coefficients.subdomain)
            factors[0] = np.pad(factors[0], (0, coefficients.half_shape[2] - factors[0].size))
            self._factors = [device.asarray(f, coefficients.complex) for f in factors]
        wanted = {q for q in self._recording.quantities if q.startswith("I")}
        self.intensity = Intensity(device, self._axes, self.samples, dtype, wanted) if wanted else None

    # --- A run ------------------------------------------------------------------------------------------

    def begin(self, step: int, run: str = "") -> None:
        """Before time step ``step``: the first, or the one after a checkpoint; ``run`` as in `Layout`."""
        done = max(0, step - self._recording.start)
        self.layout = replace(self.layout, run=run)
        self.sink.begin(self.layout, done)
        for series in self._series.values():
            series.first = done
        if self.intensity is not None:
            for name in self._series:
                if name.startswith("I"):
                    self._series[name].first = self.intensity.rows_done(done)
        self._writer = Inline(self.sink) if self._comm is not None else Writer(self.sink)

    def after(self, step: int) -> None:
        """Record time step ``step``, whose result is in the fields."""
        ahead = self._recording.start - step
        if ahead > 0:
            if self.intensity is not None and ahead <= self.intensity.reach:
                self._intensity(step)
            return
        fields = self._stages.fields.named()
        staggered = [n for n in fields if n == "p" or n.startswith("u")]
        for name in staggered:
            wanted = [n for n in self.statistics if n.startswith(name + "_") and not n.endswith("_all")]
            series = self._series.get(name)
            if wanted or series is not None:
                row = self._sample(fields[name], series)
                for statistic in wanted:
                    self._kernels.accumulate(
                        self.statistics[statistic], _KINDS[statistic.rsplit("_", 1)[1]], row
                    )
            for statistic in self.statistics:
                if statistic.startswith(name + "_") and statistic.endswith("_all"):
                    self._kernels.accumulate(
                        self.statistics[statistic], _KINDS[statistic.split("_")[1]], fields[name]
                    )
        if self._shifted is not None:
            for axis, letter in enumerate(self._axes):
                name = f"u{letter}_non_staggered"
                if name in self._series:
                    self._stages.translate(fields[f"u{letter}"], axis, self._factors[axis], self._shifted)
                    self._sample(self._shifted, self._series[name])
        if self.intensity is not None:
            self._intensity(step)
        for series in self._series.values():
            if series.filled == self._rows:
                assert self._writer is not None
                series.hand_over(self._writer)

    def _sample(self, field, series: _Series | None):
        """Sensor values of a field: into the next row of its series, if it has one. Shape (samples,)."""
        target, row = (self._values, 0) if series is None else (series.block, series.filled)
        self._sampler.read(target, row, field)
        if series is not None:
            series.filled += 1
        return target[row]

    def _intensity(self, step: int) -> None:
        assert self.intensity is not None
        assert self._shifted is not None
        fields = self._stages.fields.named()
        self.intensity.pressure(self._sample(fields["p"], None))
        for axis, letter in enumerate(self._axes):
            self._stages.translate(fields[f"u{letter}"], axis, self._factors[axis], self._shifted)
            self.intensity.velocity(axis, self._sample(self._shifted, None))
        recorded = step - self._recording.start + 1
        self._store_intensity(self.intensity.advance(recorded))

    def _store_intensity(self, rows) -> None:
        """Rows of instantaneous intensity that have become complete: a list of (components, samples)."""
        for row in rows:
            for axis, letter in enumerate(self._axes):
                series = self._series.get(f"I{letter}")
                if series is not None:
                    if series.filled == self._rows:
                        assert self._writer is not None
                        series.hand_over(self._writer)
                    series.block[series.filled] = row[axis]
                    series.filled += 1

    def settle(self) -> None:
        """Everything recorded so far is with the sink, for good: a checkpoint may follow."""
        assert self._writer is not None
        for series in self._series.values():
            series.hand_over(self._writer)
        self._writer.wait()
        self.sink.flush()

    def finish(self) -> Mapping[str, np.ndarray]:
        """The last step is recorded: all statistics and final fields, on the host, by name.

        With several ranks those of this rank's points and of its owned block, made when they are asked for.
        """
        if self.intensity is not None:
            self._store_intensity(self.intensity.flush())
        self.settle()
        rows = self._problem.steps - self._recording.start
        found = {name: partial(self._statistic, name, rows) for name in self.statistics}
        for name in self.layout.fields:
            if name.endswith("_final"):
                found[name] = partial(self._final, name)
        if self.intensity is not None:
            for name, values in self.intensity.averages(rows).items():
                if name in self.layout.points:
                    found[name] = partial(np.asarray, values)
        return {name: make() for name, make in found.items()} if self._comm is None else Lazy(found)

    def _statistic(self, name: str, rows: int) -> np.ndarray:
        array = self.statistics[name]
        host = np.array(self._device.to_host(self._owned(array) if name.endswith("_all") else array))
        if name.endswith("_rms"):
            host = np.sqrt(host / rows)
        return host.astype(self.layout.dtype, copy=False)

    def _final(self, name: str) -> np.ndarray:
        return np.array(self._device.to_host(self._owned(self._stages.fields.named()[name[:-6]])))

    def _owned(self, field):
        return field if self._comm is None else field[self._stages.coefficients.subdomain.owned]

    def close(self) -> None:
        """End the writer thread."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def state(self) -> dict[str, Any]:
        """Device arrays that a checkpoint must hold."""
        extra = self.intensity.state() if self.intensity is not None else {}
        return {f"recorded/{name}": array for name, array in (self.statistics | extra).items()}
