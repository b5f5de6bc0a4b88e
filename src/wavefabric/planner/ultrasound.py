"""What a time step of ultrasound does on each rank, with its exchanges, for every decomposition.

The order of kernels and exchanges is that of `wavefabric.acoustics.fused.fused_cuda` with the layouts of
`wavefabric.acoustics.parallel`; schedules are those that these bind.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from wavefabric.acoustics.decomposition.decompose import Partition, halo_messages
from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.fused.axis_kernels_cuda import transformed_points
from wavefabric.collectives import Schedule
from wavefabric.collectives.structure import transfer_elements
from wavefabric.exchange.halos_transposes import message_schedule
from wavefabric.planner.exchange_times import ExchangeTimes, host_launch
from wavefabric.planner.rates import SolverRates, kernel_runs
from wavefabric.planner.timeline import StepTimeline, StepTimes, steady_step
from wavefabric.spectral.distributed import boxes, transpose_messages

#: Of the rate of stores in other GPUs' memory, what those of a transpose reach: 310 of 368 GB/s, by the times
#: of two H200s.
_SCATTERED = 0.84
#: s that no kernel takes less than; s of recording at a sensor, by the times of 128³ points.
_LEAST_KERNEL, _SENSOR = 3e-6, 35e-6
#: Whole-array transforms of a lossless step in three dimensions, and in two.
_TRANSFORMS, _FLAT_TRANSFORMS = 10, 7


def busiest_exchange(partition: Partition) -> Schedule:
    """What ranks that share a grid exchange most often.

    Local: one filling of all overlaps of a field. Global: the transposes of one transform.
    """
    if partition.options.kind == "local":
        return message_schedule(partition.ranks, halo_messages(partition))
    _, *layouts = boxes(partition.shape, partition.grid)
    messages = [m for a, b in pairwise(layouts) if a != b for m in transpose_messages(a, b)]
    return message_schedule(partition.ranks, messages)


@dataclass(frozen=True)
class StepMedium:
    """What of a medium sets the time of a step."""

    #: Of the device file: homogeneous, heterogeneous (arrays) or tissues (an index).
    form: str
    #: Fractional Laplacians: 0 lossless or Stokes, 1 absorbing, 2 dispersive too.
    laplacians: int = 0


@dataclass(frozen=True)
class UltrasoundStep:
    """A step on a decomposition of a grid, by ``stages`` (fused or plain); times of the busiest rank."""

    partition: Partition
    medium: StepMedium
    precision: str
    stages: str
    rates: SolverRates
    exchange: ExchangeTimes | None = None
    #: Whole fields of statistics that are recorded, and whether there is a sensor.
    recorded: tuple[int, bool] = (0, False)
    #: Of `schedule`, by real fields that travel together.
    _seconds: dict[float, float] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def item(self) -> int:
        """Bytes of a real number."""
        return 4 if self.precision == "single" else 8

    @cached_property
    def _busiest(self) -> Subdomain:
        return max(self.partition.subdomains, key=lambda part: math.prod(part.size))

    @property
    def size(self) -> tuple[int, int, int]:
        """Points of the busiest rank's block along x, y and z, overlaps included."""
        return self._busiest.size

    @cached_property
    def points(self) -> int:
        return math.prod(self.size)

    def times(self) -> StepTimes:
        """Where the time of a step goes."""
        local, plain = self.partition.options.kind == "local", self.stages == "plain"
        if local:
            program = self._plain_local if plain else self._fused_local
        else:
            program = self._plain_global if plain else self._fused_global

        def step(t: StepTimeline) -> None:
            program(t) if self.exchange else t.work(self._whole_step())
            fields, sensor = self.recorded
            t.work(fields * self.rates.copy(3 * self.points * self.item))
            t.work(_SENSOR if sensor and self.rates.name != "cpu" else 0.0)

        return steady_step(step, host_launch(self.exchange, self.rates))

    # --- Kernels and schedules -------------------------------------------------------------------------

    def kernel(self, name: str, count: float = 1) -> float:
        """s of ``count`` runs of a kernel over this rank's points.

        A convolution is assumed to take as much longer as it has more points: none were timed.
        """
        plain = name == "x_density" and not self.medium.laplacians
        form = "homogeneous" if plain else self.medium.form
        n = self._axes["xyz".index(name[0])] // (2 if name[0] == "x" else 1)
        count *= transformed_points(n) / n
        return count * self.points * self.rates.kernel(name, self.precision, form, self._axes, self.points)

    @cached_property
    def _axes(self) -> tuple[int, int, int]:
        """Lengths of the transforms: of slabs those of the whole grid, of as many points as a rank has.

        Columns of a plane are transformed as those along z.
        """
        if self.partition.options.kind == "local" or self.partition.ranks == 1:
            x, y, z = self.size
            return (x, y, z) if z > 1 else (x, 1, y)
        return self.partition.shape

    @cached_property
    def schedule(self) -> Schedule:
        """What moves most often."""
        return busiest_exchange(self.partition)

    @cached_property
    def _sent(self) -> float:
        """Elements that the busiest rank sends in `schedule`."""
        sent = np.bincount(self.schedule.transfers["src"], transfer_elements(self.schedule))
        return float(sent.max(initial=0))

    def by(self, exchange: ExchangeTimes | None) -> "UltrasoundStep":
        """The same step with another exchange; what moves is worked out once."""
        step = replace(self, exchange=exchange)
        if self.partition.ranks > 1:
            vars(step).update(schedule=self.schedule, _sent=self._sent)
        return step

    def _pack(self, fields: float) -> float:
        """s to pack, or unpack, what travels; of a spectrum what stays on the rank is copied too."""
        moved = self._sent * fields * self.item
        if self.partition.options.kind == "local":
            return self.rates.pack(moved, "points" if self.partition.grid[0] > 1 else "planes")
        return self.rates.pack(moved, "spectrum") / (1 - 1 / self.partition.ranks)

    def _send(self, t: StepTimeline, name: str, fields: float) -> None:
        t.work(self._pack(fields), "pack")
        self._start(t, name, fields)

    def _receive(self, t: StepTimeline, name: str, fields: float) -> None:
        assert self.exchange is not None
        t.finish(name, self.exchange.own.overhead)
        t.work(self._pack(fields), "pack")

    def _start(self, t: StepTimeline, name: str, fields: float) -> None:
        assert self.exchange is not None
        if fields not in self._seconds:
            self._seconds[fields] = self.exchange.seconds(self.schedule, round(fields * self.item))
        moved = self.exchange.passes * 2 * self._sent * fields * self.item
        t.start(name, self._seconds[fields], self.rates.copy(moved))

    @property
    def bytes_sent(self) -> float:
        """B that the busiest rank sends in a step."""
        local = self.partition.options.kind == "local"
        # Overlaps of so many fields are filled, of one velocity less in a plane.
        count = 4 + self.medium.laplacians - (self.size[2] == 1) if local else 2 * self._transposes
        return self._sent * self.item * count

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
        """Transforms of whole arrays in a step, each in four kernels."""
        return _TRANSFORMS if self.size[2] > 1 else _FLAT_TRANSFORMS

    # --- Blocks with overlaps --------------------------------------------------------------------------

    def _fused_local(self, t: StepTimeline) -> None:
        n = self.medium.laplacians
        self._forward_y(t, "p", 1)
        for name in ("z_gradient", "y_gradient", "x_velocity"):
            t.work(self.kernel(name))
        self._send(t, "u", 3)
        self._forward_y(t, "u", 3)
        t.work(self.kernel("z_divergence", 3))
        t.work(self.kernel("y_transform", 3))
        t.work(self.kernel("x_density"))
        if n:
            self._send(t, "absorption", n)
            self._forward_y(t, "absorption", n)
            t.work(self.kernel("z_scale", n))
            t.work(self.kernel("y_transform", n))
            t.work(self.kernel("x_pressure"))
        self._send(t, "p", 1)

    def _forward_y(self, t: StepTimeline, name: str, fields: int) -> None:
        """Along y, planes that need no overlap first; rows of overlaps along x again when they have come."""
        part, (x, y, _) = self._busiest, self.partition.grid
        early = part.owned_size[2] / part.size[2] if x == y == 1 else 0.0
        again = 1.0 if x > 1 else 1 - math.prod(part.owned_size[1:]) / math.prod(part.size[1:])
        t.work(self.kernel("y_transform", fields * early))
        self._receive(t, name, fields)
        t.work(self.kernel("x_forward", fields * again))
        t.work(self.kernel("y_transform", fields * (1 - early)))

    def _plain_local(self, t: StepTimeline) -> None:
        groups = [1, 3 if self.size[2] > 1 else 2, *[1] * self.medium.laplacians]
        for fields in groups:
            self._send(t, "halo", fields)
            self._receive(t, "halo", fields)
            t.work(self._whole_step() / len(groups), launches=4 * self._lossless_transforms // len(groups))

    # --- One Fourier basis -----------------------------------------------------------------------------

    @property
    def _transposes(self) -> int:
        """Of spectra in a step, each there and back counted as two."""
        if self.stages == "fused":
            return 9 + 2 * self.medium.laplacians
        return self._lossless_transforms + 2 * self.medium.laplacians

    def _fused_global(self, t: StepTimeline) -> None:
        through = self._through_z_stored if self.exchange and self.exchange.one_sided else self._through_z
        through(t, 1, 2, "z_gradient")
        t.work(self.kernel("y_gradient"))
        t.work(self.kernel("x_velocity"))
        through(t, 3, 3, "z_divergence")
        t.work(self.kernel("y_transform", 3))
        t.work(self.kernel("x_density"))
        if n := self.medium.laplacians:
            through(t, n, n, "z_scale")
            t.work(self.kernel("y_transform", n))
            t.work(self.kernel("x_pressure"))

    def _through_z(self, t: StepTimeline, forth: int, back: int, along_z: str) -> None:
        """Spectra to columns, a kernel along z each, and back; under work on those before and after."""
        for number in range(forth):
            t.work(self.kernel("y_transform"))
            self._send(t, f"forth {number}", 2)
        for number in range(forth):
            self._receive(t, f"forth {number}", 2)
            t.work(self.kernel(along_z))
            for more in [number] if forth == back else range(back):
                self._send(t, f"back {more}", 2)
        for number in range(back):
            self._receive(t, f"back {number}", 2)

    def _through_z_stored(self, t: StepTimeline, forth: int, back: int, along_z: str) -> None:
        """Kernels along y and z store where other ranks hold the values: the links may be slower."""
        assert self.exchange is not None
        wire = self.exchange.wire(self.schedule, 2 * self.item) / _SCATTERED
        signal = self.exchange.kernels.signal
        for _ in range(forth):
            t.beside(wire, self.kernel("y_transform"))
        t.beside(signal)
        for spectra in [1] * forth if forth == back else [back]:
            t.beside(spectra * wire, self.kernel(along_z))
        t.beside(signal)

    def _plain_global(self, t: StepTimeline) -> None:
        assert self.exchange is not None
        count = self._transposes
        for _ in range(count):
            t.work(self._whole_step() / count, launches=4)
            t.work(2 * self._pack(2), "pack")
            self._start(t, "transpose", 2)
            t.finish("transpose", self.exchange.own.overhead)
