"""Predicts the time per step of ultrasound on each rank, exchanges included, for every decomposition.

The solver's own stages give the order of kernels and exchanges (`modelled_stages`); the schedules are as in
`wavefabric.acoustics.parallel`.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from wavefabric.acoustics.decomposition.decompose import Partition, halo_messages
from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.fused.fused_layout import FusedLayout
from wavefabric.acoustics.parallel.fused_layouts import FusedGlobalLayout
from wavefabric.collectives import Schedule, point_to_point
from wavefabric.fabric.planner.exchange_times import ExchangeTimes
from wavefabric.fabric.planner.modelled_stages import (
    ModelledKernels,
    advance,
    kernel_runs,
    without_fields,
)
from wavefabric.fabric.planner.step import SolverStep
from wavefabric.fabric.planner.timeline import StepTimeline
from wavefabric.runtime.spectral.axis_fft import row_points, transformed_points
from wavefabric.runtime.spectral.distributed import Box, boxes

#: Fraction of the rate of stores in other GPUs' memory that a transpose reaches: 310 of 368 GB/s, measured
#: on two H200s.
_SCATTERED = 0.84
#: Shortest time of any kernel, s; time per step of recording at a sensor, s, from runs of 128³ points.
_LEAST_KERNEL, _SENSOR = 3e-6, 35e-6
#: Number of whole-array transforms of a lossless step in three dimensions, and in two.
_TRANSFORMS, _FLAT_TRANSFORMS = 10, 7


def exchanges(partition: Partition) -> list[np.ndarray]:
    """Return the messages that ranks of a decomposed grid exchange most often, one array per exchange.

    With local Fourier bases one exchange fills all overlaps of a field; with a global basis the exchanges are
    the one or two transposes of a transform. Rows are source, destination and points, shape (messages, 3).
    """
    if partition.options.kind == "local":
        messages = [(m.src, m.dst, m.points) for m in halo_messages(partition) if m.src != m.dst]
        return [np.array(messages, np.int64).reshape(-1, 3)]
    _, *layouts = boxes(partition.shape, partition.grid)
    return [_transpose(a, b) for a, b in pairwise(layouts) if a != b] or [np.zeros((0, 3), np.int64)]


def _transpose(before: list[Box], after: list[Box]) -> np.ndarray:
    """Return the messages of a transpose: rank r has box ``before[r]`` of a field, and then ``after[r]``."""
    a, b = np.array(before), np.array(after)  # shape (ranks, axes, 2): first point, last point + 1
    points = np.ones((len(a), len(b)), np.int64)
    for axis in range(3):
        common = np.minimum.outer(a[:, axis, 1], b[:, axis, 1])
        common -= np.maximum.outer(a[:, axis, 0], b[:, axis, 0])
        points *= np.maximum(common, 0, out=common)
    np.fill_diagonal(points, 0)
    src, dst = np.nonzero(points)
    return np.stack([src, dst, points[src, dst]], axis=1)


def busiest_exchange(partition: Partition) -> Schedule:
    """Return all `exchanges` of a decomposed grid as the messages of one schedule."""
    messages = np.concatenate(exchanges(partition)).tolist()
    return point_to_point("regions", partition.ranks, map(tuple, messages))


@dataclass(frozen=True)
class StepMedium:
    """Holds the properties of a medium that determine the time per step."""

    #: Storage form, as in device files: homogeneous, heterogeneous (arrays) or tissues (an index).
    form: str
    #: Number of fractional Laplacians: 0 if lossless or Stokes, 1 if absorbing, 2 if dispersive too.
    laplacians: int = 0


@dataclass(frozen=True)
class UltrasoundStep(SolverStep):
    """Predicts the time of a step of a decomposed grid, ``stages`` fused or plain, on the busiest rank."""

    partition: Partition
    medium: StepMedium
    stages: str
    #: Number of statistics recorded for all points, and whether there is a sensor.
    recorded: tuple[int, bool] = (0, False)

    @cached_property
    def _busiest(self) -> Subdomain:
        return max(self.partition.subdomains, key=lambda part: math.prod(part.size))

    @property
    def size(self) -> tuple[int, int, int]:
        """Return the points of the busiest rank's block along x, y and z, overlaps included."""
        return self._busiest.size

    @cached_property
    def points(self) -> int:
        return math.prod(self.size)

    def add_to(self, t: StepTimeline) -> None:
        if self.exchange is None:
            t.work(self._whole_step())
        elif self.stages == "fused":
            self._fused(t)
        else:
            (self._plain_local if self.partition.options.kind == "local" else self._plain_global)(t)
        fields, sensor = self.recorded
        t.work(fields * self.rates.copy(3 * self.points * self.item))
        t.work(_SENSOR if sensor and self.rates.name != "cpu" else 0.0)

    # --- Kernels and schedules -------------------------------------------------------------------------

    def kernel(self, name: str, count: float = 1) -> float:
        """Return the time in s of ``count`` runs of a kernel over the points of the busiest rank.

        Transforms computed as a convolution were not timed; their time is assumed to grow with their points.
        """
        plain = name == "x_density" and not self.medium.laplacians
        form = "homogeneous" if plain else self.medium.form
        n, along_x = self._axes["xyz".index(name[0])], name[0] == "x"
        count *= row_points(n) / (n / 2) if along_x else transformed_points(n) / n
        return count * self.points * self.rates.kernel(name, self.precision, form, self._axes, self.points)

    @cached_property
    def _axes(self) -> tuple[int, int, int]:
        """Return transform lengths along x, y, z: a block's for local bases or one rank, else the grid's.

        Columns of a 2-D grid are transformed like columns along z.
        """
        if self.partition.options.kind == "local" or self.partition.ranks == 1:
            x, y, z = self.size
            return (x, y, z) if z > 1 else (x, 1, y)
        return self.partition.shape

    @cached_property
    def schedule(self) -> Schedule:
        """Return all `exchanges` as one schedule."""
        return busiest_exchange(self.partition)

    @cached_property
    def sent(self) -> float:
        """Return the number of elements that the busiest rank sends in one exchange by `schedule`."""
        src, _, points = np.concatenate(exchanges(self.partition)).T
        return float(np.bincount(src, points).max(initial=0))

    def by(self, exchange: ExchangeTimes | None) -> "UltrasoundStep":
        """Return the same step with another ``exchange``; the schedule is computed only once."""
        step = replace(self, exchange=exchange)
        if self.partition.ranks > 1:
            vars(step).update(schedule=self.schedule, sent=self.sent)
        return step

    def _pack(self, fields: float) -> float:
        """Return the time in s to pack or unpack ``fields``; own parts of spectra are copied too."""
        moved = self.sent * fields * self.item
        if self.partition.options.kind == "local":
            return self.rates.pack(moved, "points" if self.partition.grid[0] > 1 else "planes")
        return self.rates.pack(moved, "spectrum") / (1 - 1 / self.partition.ranks)

    def send(self, t: StepTimeline, name: str, fields: float) -> None:
        t.work(self._pack(fields), "pack")
        self._start(t, name, fields)

    def receive(self, t: StepTimeline, name: str, fields: float) -> None:
        assert self.exchange is not None
        t.finish(name, self.exchange.own.overhead)
        t.work(self._pack(fields), "pack")

    def _start(self, t: StepTimeline, name: str, fields: float) -> None:
        assert self.exchange is not None
        moved = self.exchange.passes * 2 * self.sent * fields * self.item
        t.exchange(name, fields, self.rates.copy(moved))

    def exchange_seconds(self, size: float) -> float:
        assert self.exchange is not None
        return self.exchange.seconds(self.schedule, round(size * self.item))

    # --- One rank --------------------------------------------------------------------------------------

    def _whole_step(self) -> float:
        flat = self.size[2] == 1
        if self.stages == "fused" and self.rates.name != "cpu":
            counts = kernel_runs(self.medium.laplacians, flat)
            return sum(self.kernel(name, count) for name, count in counts.items())
        shape = (round(self.points ** (1 / 3)),) * 3
        each = self.rates.step(self.precision, self.medium.form, self.stages, shape)
        least = 0.0 if self.rates.name == "cpu" else _LEAST_KERNEL * 4 * self._lossless_transforms
        return max(least, each * self.points * (0.7 if flat else 1.0))

    @property
    def _lossless_transforms(self) -> int:
        """Return the number of whole-array transforms per lossless step; each takes four kernels."""
        return _TRANSFORMS if self.size[2] > 1 else _FLAT_TRANSFORMS

    # --- Blocks with overlaps --------------------------------------------------------------------------

    def _fused(self, t: StepTimeline) -> None:
        one_sided = self.exchange is not None and self.exchange.one_sided
        local = self.partition.options.kind == "local"
        kind = _LocalLayout if local else _OneSidedLayout if one_sided else _GlobalLayout
        advance(kind(self, t), self.medium.laplacians)

    def forward_y(self, t: StepTimeline, fields: int) -> None:
        """Add the y transforms to ``t``: planes without overlaps before the overlaps arrive, others after.

        Received overlaps are first transformed along x again.
        """
        part, (x, y, _) = self._busiest, self.partition.grid
        early = part.owned_size[2] / part.size[2] if x == y == 1 else 0.0
        again = 1.0 if x > 1 else 1 - math.prod(part.owned_size[1:]) / math.prod(part.size[1:])
        t.work(self.kernel("y_transform", fields * early))
        self.receive(t, "overlaps", fields)
        t.work(self.kernel("x_forward", fields * again))
        t.work(self.kernel("y_transform", fields * (1 - early)))

    def _plain_local(self, t: StepTimeline) -> None:
        groups = [1, 3 if self.size[2] > 1 else 2, *[1] * self.medium.laplacians]
        for fields in groups:
            self.send(t, "halo", fields)
            self.receive(t, "halo", fields)
            t.work(self._whole_step() / len(groups), launches=4 * self._lossless_transforms // len(groups))

    # --- One Fourier basis -----------------------------------------------------------------------------

    def _plain_global(self, t: StepTimeline) -> None:
        assert self.exchange is not None
        count = self._lossless_transforms + 2 * self.medium.laplacians
        for _ in range(count):
            t.work(self._whole_step() / count, launches=4)
            t.work(2 * self._pack(2), "pack")
            self._start(t, "transpose", 2)
            t.finish("transpose", self.exchange.own.overhead)

    @property
    def wire(self) -> float:
        """Return the seconds in which kernels store one spectrum in the memory of the other ranks."""
        assert self.exchange is not None
        return self.exchange.wire(self.schedule, 2 * self.item) / _SCATTERED


class _LocalLayout(FusedLayout):
    """Puts the kernels of a step with a Fourier basis per block, and its exchanges, on a timeline."""

    def __init__(self, step: UltrasoundStep, timeline: StepTimeline):
        without_fields(self, lambda name, count: timeline.work(step.kernel(name, count)))
        self._step, self._timeline = step, timeline

    def start_exchange(self, fields: list, spectra: list) -> None:
        self._step.send(self._timeline, "overlaps", len(spectra))

    def forward_y(self, spectra: list) -> None:
        self._step.forward_y(self._timeline, len(spectra))


class _GlobalLayout(FusedGlobalLayout):
    """Puts the kernels of a step with one Fourier basis on slabs, and its transposes, on a timeline."""

    def __init__(self, step: UltrasoundStep, timeline: StepTimeline):
        without_fields(self, lambda name, count: timeline.work(step.kernel(name, count)))
        self._columns, self._step, self._timeline = self.spectra, step, timeline

    def _send_planes(self, number: int, along_y: bool) -> None:
        self.plane_kernels.y_transform([self.spectra[number]], False)
        self._step.send(self._timeline, f"planes {number}", 2)

    def _send_columns(self, number: int) -> None:
        self._step.send(self._timeline, f"columns {number}", 2)

    def _receive(self, number: int, planes: bool) -> None:
        self._step.receive(self._timeline, f"{'columns' if planes else 'planes'} {number}", 2)


class _OneSidedLayout(_GlobalLayout):
    """Times kernels that store their results in other GPUs' memory: stores may take longer than computing."""

    def __init__(self, step: UltrasoundStep, timeline: StepTimeline):
        super().__init__(step, timeline)
        #: Whether kernels have stored planes (True) or columns (False) that no rank has waited for yet.
        self._stored = {True: False, False: False}
        self.column_kernels: Any = ModelledKernels(self._along_z)

    def _along_z(self, name: str, count: float) -> None:
        spectra = 2 if name == "z_gradient" else count
        self._timeline.beside(spectra * self._step.wire, self._step.kernel(name, count))
        self._stored[True] = True

    def _send_planes(self, number: int, along_y: bool) -> None:
        self._timeline.beside(self._step.wire, self._step.kernel("y_transform"))
        self._stored[False] = True

    def _send_columns(self, number: int) -> None:
        """Do nothing, because the kernel along z has already sent the columns."""

    def _receive(self, number: int, planes: bool) -> None:
        assert self._step.exchange is not None
        if self._stored[planes]:
            self._timeline.beside(self._step.exchange.kernels.signal)
        self._stored[planes] = False
