"""Provides `heat`, which simulates the temperature and thermal dose of tissue heated by ultrasound."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.acoustics.check.rules import MOST_STEPS
from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.heating.dose import dose_rate
from wavefabric.acoustics.heating.pennes import FIELDS, PennesStep
from wavefabric.acoustics.heating.tissue import ThermalMedium
from wavefabric.acoustics.problem import Recording
from wavefabric.acoustics.recording.delivery import RankParts, broadcast
from wavefabric.acoustics.recording.sampling import Sampler
from wavefabric.acoustics.result import axes_of
from wavefabric.acoustics.run import identity
from wavefabric.acoustics.run_settings import RunSettings
from wavefabric.acoustics.sensor import Sensor
from wavefabric.base.arguments import pairs, positive, real, typed
from wavefabric.base.errors import FieldLost, ensure, require
from wavefabric.base.results.file import Data, ResultWriter
from wavefabric.base.results.provenance import provenance
from wavefabric.base.system.deferred_interrupt import DeferredInterrupt
from wavefabric.base.system.progress import Progress
from wavefabric.runtime.device.user_arrays import real_array
from wavefabric.runtime.exchange.control import check_agreement
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import RunCheckpoint
from wavefabric.runtime.lifecycle.collective_checks import Status, check_memory, combine, locked_by_first_rank

#: Largest number of steps between two exchanges of the ranks' status, and default longest step, s.
_CHECK_STEPS, _LONGEST = 20, 0.1
_TEXTS = {
    "temperature": ("degC", "at the end"),
    "temperature_max": ("degC", "highest over time"),
    "dose": ("min", "thermal dose, CEM43"),
    "series": ("degC", "at the sensor, (points, times)"),
}


class Heated(dict[str, Any]):
    """Holds results of `heat`: final ``temperature`` and ``temperature_max``, °C; ``dose``, CEM43 minutes.

    These arrays have the grid's shape. With a sensor there is also ``series``, (points, times), °C, at
    ``time``, s, from time 0, before heating.
    """

    def __init__(
        self, arrays: dict[str, np.ndarray], grid: Grid, seconds: np.ndarray, device: str, writes: bool
    ):
        super().__init__(arrays)
        self.grid, self.time, self._device, self._writes = grid, seconds, device, writes

    def __repr__(self) -> str:
        return f"Heated({', '.join(self)})"

    def save(self, path: str | Path, force: bool = False) -> Path:
        """Write an HDF5 result file, on rank 0; `InputError` if it exists (without ``force``)."""
        if not self._writes:
            return Path(path)
        axes, series = axes_of(self.grid), ("point", "time")
        fields = {
            name: Data(array, *_TEXTS[name], series if name == "series" else tuple(axes))
            for name, array in self.items()
        }
        spacing = Data(np.array(self.grid.spacing), "m", "distance of points along x, y(, z)", ("axis",))
        seconds = Data(self.time, "s", "of each temperature of a series", ("time",))
        contents = {**axes, "time": seconds, "heating": fields, "grid": {"spacing": spacing}}
        return ResultWriter(path, force).write(contents, attributes=provenance(device=self._device))


@typed
def heat(
    grid: Grid,
    medium: ThermalMedium,
    power: Any,
    schedule: Sequence[tuple[float, float]],
    *,
    dt: float | str | None = None,
    temperature: Any = None,
    sensor: Sensor | None = None,
    **options: Any,
) -> Heated:
    """Simulate temperature and thermal dose of heated tissue, in double precision, on a periodic grid.

    A script that calls this runs unchanged under ``mpiexec -n K``: its ranks share the grid, and have
    the same result. `InputError`: an argument is wrong; `FieldLost`: the temperature is not finite.

    Parameters
    ----------
    grid : Grid
        Cartesian; its PML is ignored.
    medium : ThermalMedium
        Thermal properties of the tissue.
    power : array_like, grid's shape, or float
        Q, W/m³ (`absorbed_power`).
    schedule : sequence of (float, float)
        Phases: duration, s, and factor of the power; ``[(10, 1), (20, 0)]`` heats for 10 s and cools for 20.
    dt : float or str, optional
        Largest time step, s. Default: Δ²/(π² D), Δ the smallest spacing and D the largest diffusivity, but at
        most 0.1 s.
    temperature : array_like or float, optional
        Initial temperature, °C. Default: the blood temperature.
    sensor : Sensor, optional
        Points where the temperature of every time step is recorded; its ``record`` is ignored.

    Other Parameters
    ----------------
    device, threads, progress, checkpoint, comm : optional
        As in `RunSettings`.
    """
    ensure(not grid.axisymmetric, "grid", "is axisymmetric", "a Cartesian grid for temperatures")
    unpadded = replace(grid, pml_size=0, pml_inside=True)
    entries = pairs(schedule, "schedule", "pairs of s and a factor")
    phases = [(positive(each[0], "s", "schedule"), real(each[1], "schedule")) for each in entries]
    require(all(factor >= 0 for _, factor in phases), "schedule", schedule, "factors from 0")
    if dt is None:
        diffusivity = float(np.max(np.asarray(medium.conductivity) / medium.heat_capacity))
        step = min(_LONGEST, min(grid.spacing) ** 2 / (math.pi**2 * diffusivity))
    else:
        step = positive(dt, "s", "dt")
    blood = medium.blood_temperature
    fields = {"power": power, "temperature": blood if temperature is None else temperature}
    fields = {name: _field(value, grid, name) for name, value in fields.items()}
    for name in ("density", "specific_heat", "conductivity", "perfusion_rate"):
        _field(getattr(medium, name), grid, f"thermal.{name}")
    where = None if sensor is None else replace(sensor, record=("p",), start=0, frequencies=()).on(unpadded)
    settings = RunSettings(**options).with_ranks(unpadded.total_shape)
    return _Run(unpadded, medium, fields, phases, step, where, settings)()


def _field(value: Any, grid: Grid, key: str) -> Any:
    values = real_array(value, key)
    right = values.shape in ((), grid.shape)
    require(right, key, values.shape, f"a number, or the grid's shape, {grid.shape}")
    require(np.isfinite(values).all(), key, "has values that are not finite", "finite numbers")
    return values.astype(float)


@dataclass
class _Run:
    grid: Grid
    medium: ThermalMedium
    fields: dict[str, np.ndarray]
    phases: list[tuple[float, float]]
    step: float
    recording: Recording | None
    settings: RunSettings

    def __call__(self) -> Heated:
        comm, points = self.settings.ranks, math.prod(self.grid.shape)
        self._counts = [math.ceil(seconds / self.step * (1 - 1e-12)) for seconds, _ in self.phases]
        self._steps = sum(self._counts)
        allowed = f"up to {MOST_STEPS} time steps of {self.step:.3g} s in all"
        require(self._steps <= MOST_STEPS, "schedule", f"{self._steps:.3g} time steps", allowed)
        inputs = self.grid, self.medium, tuple(self.fields.values()), self.recording
        digest = identity(*inputs, tuple(self.phases), self.step)
        check_agreement(comm.control, {"heat": digest})
        samples = 0 if self.recording is None else self.recording.samples
        need = 8 * (FIELDS * points // comm.size + samples * (self._steps + 1))
        check_memory(comm, comm.device, need, "this run", "use a smaller grid or fewer recorded points")
        policy = self.settings.checkpoints
        self._checkpoint = None if policy is None else RunCheckpoint(comm, policy, digest)
        with locked_by_first_rank(comm, policy and policy.path, "checkpoint"):
            saved = self._checkpoint and self._checkpoint.find()
            self._prepare()
            if self._checkpoint is not None and saved is not None:
                _, saved = self._checkpoint.restore(self._arrays)
            self._take_steps(int(saved["step"]) if saved else 0)
            result = self._finish()
            if self._checkpoint is not None:
                self._checkpoint.remove()
        return result

    def _prepare(self) -> None:
        self._pennes = PennesStep(self.grid, self.medium, self.fields["power"], self.settings.ranks)
        theta = self._pennes.theta
        theta[...] = self._pennes.put(self.fields["temperature"] - self.medium.blood_temperature)
        self._sampler, series = None, self.settings.ranks.device.zeros((1, 1), np.float64)
        if self.recording is not None:
            self._sampler = Sampler(self._pennes.stages, self.recording)
            shape = self._steps + 1, self._sampler.samples
            series = self.settings.ranks.device.zeros(shape, np.float64)
            self._sampler.read(series, 0, theta)
        #: Arrays that a checkpoint stores.
        self._arrays = {"theta": theta, "highest": theta.copy(), "dose": 0 * theta, "series": series}

    def _take_steps(self, done: int) -> None:
        progress = Progress() if self.settings.progress is None else self.settings.progress
        interrupt, xp = DeferredInterrupt(), self.settings.ranks.device.xp
        theta, highest, dose, series = self._arrays.values()
        blood = self.medium.blood_temperature
        progress.start(self._steps, f"time steps of the temperature on {self.settings.ranks.device.name}")
        rate = dose_rate(theta + blood, xp)
        try:
            with interrupt:
                for number, (length, factor) in islice(enumerate(self._schedule()), done, None):
                    self._pennes.set_step(length)
                    self._pennes.take(factor)
                    xp.maximum(highest, theta, out=highest)
                    after = dose_rate(theta + blood, xp)
                    dose += (length / 120) * (rate + after)
                    rate = after
                    if self._sampler is not None:
                        self._sampler.read(series, number + 1, theta)
                    if self.settings.ranks.size == 1 or number % _CHECK_STEPS == 0:
                        self._save_if_due(interrupt, number + 1)
                    progress.update(number + 1)
        finally:
            progress.finish()

    def _schedule(self) -> Iterator[tuple[float, float]]:
        """Yield the length, s, and the power factor of each step."""
        for (seconds, factor), count in zip(self.phases, self._counts, strict=True):
            for _ in range(count):
                yield seconds / count, factor

    def _save_if_due(self, interrupt: DeferredInterrupt, done: int) -> None:
        """Save a checkpoint if it is due on rank 0 or any rank was interrupted; if interrupted, stop."""
        due = self._checkpoint is not None and self._checkpoint.due()
        status = combine(self.settings.ranks, Status(interrupt.requested, due))
        if self._checkpoint is not None and (status.save_due or status.interrupted):
            self.settings.ranks.device.synchronize()
            self._checkpoint.save(self._arrays, {"step": done}, last=status.interrupted)
        if status.interrupted:
            interrupt.requested = True
            interrupt.stop()

    def _finish(self) -> Heated:
        comm, stages = self.settings.ranks, self._pennes.stages
        blood = self.medium.blood_temperature
        owned = stages.coefficients.subdomain.owned
        blocks = RankParts.of_blocks(comm, stages.layout.partition.subdomains)
        arrays = {}
        for name, field in zip(_TEXTS, [*self._arrays.values()][:3], strict=False):
            whole = blocks.gather(np.array(comm.device.to_host(field))[owned])
            if whole is not None:
                arrays[name] = whole + blood * (name != "dose")
        if comm.control.bcast(not all(np.isfinite(array).all() for array in arrays.values())):
            raise FieldLost("the temperature is not finite: the time step is too long for so uneven tissue")
        if self._sampler is not None:
            series: Any = np.array(comm.device.to_host(self._arrays["series"]))
            if self._sampler.columns is not None:
                series = self._sampler.columns.gather(series)
            if series is not None:
                arrays["series"] = series + blood
        views = broadcast(comm, arrays)
        for name, array in views.items():
            views[name] = array.T if name == "series" else self.grid.from_memory(array)
        seconds = np.cumsum([0.0, *(length for length, _ in self._schedule())])
        return Heated(views, self.grid, seconds, comm.device.name, comm.rank == 0)
