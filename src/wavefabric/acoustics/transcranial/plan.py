"""Simulates a sonication of the head in a CT: field, focus, and heating."""

import json
import math
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import ndimage

from wavefabric.acoustics.heating.heat import Heated, heat
from wavefabric.acoustics.heating.tissue import ThermalMedium, absorbed_power
from wavefabric.acoustics.medium import Medium
from wavefabric.acoustics.result import axes_of
from wavefabric.acoustics.run import identity
from wavefabric.acoustics.run_settings import RunSettings
from wavefabric.acoustics.sensor import Sensor
from wavefabric.acoustics.simulation import prepare
from wavefabric.acoustics.source import ContinuousWave, Source
from wavefabric.acoustics.stability.stable_time_step import stable_step
from wavefabric.acoustics.transcranial.ct import CT, check_hounsfield, resample
from wavefabric.acoustics.transcranial.focus import Focus, focus_of
from wavefabric.acoustics.transcranial.hounsfield import RELATIONS, media_from_hounsfield
from wavefabric.acoustics.transcranial.sonication import WATER, Sonication
from wavefabric.base.arguments import typed
from wavefabric.base.errors import InputError, require
from wavefabric.base.files.output import replacing
from wavefabric.base.results.file import Data, ResultWriter
from wavefabric.base.results.provenance import provenance
from wavefabric.runtime.lifecycle.collective_checks import on_first_rank

#: Periods over which amplitudes are measured, and waiting time after the longest path, in periods.
_PERIODS, _SETTLE = 3, 14
#: Gaps in the skull up to twice this length, m, are closed in the search for the brain.
_GAP = 2e-3
#: Density, kg/m³, specific heat, J/(kg K), conductivity, W/(m K), perfusion, 1/s, of the IT'IS database 4.2
#: (doi:10.13099/VIP21000-04-2); `UNCHECKED` says which values were not compared with its tables.
_THERMAL = {  # of water, soft tissue and bone
    "density": (994.0, 1046.0, 1908.0),
    "specific_heat": (4178.0, 3630.0, 1313.0),
    "conductivity": (0.60, 0.51, 0.32),
    "perfusion_rate": (0.0, 9.7e-3, 3.3e-4),
}
UNCHECKED = (
    "temperature: brain and blood as in the IT'IS database 4.2; specific heat, conductivity and perfusion of "
    "bone and water are not compared with its tables: check them before you rely on it"
)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Holds the result of `plan_sonication`; its arrays of fields have the grid's shape."""

    sonication: Sonication
    hounsfield: np.ndarray  # HU, float32
    medium: Medium
    brain: np.ndarray  # bool: soft tissue around the target, within the skull
    amplitude: np.ndarray  # pressure amplitude, Pa
    phases: np.ndarray  # phase of each element, rad
    gain: float  # pressure at the target over the pressure with the phases for water
    focus: Focus  # in the brain
    skull: Focus  # in the bone, at its highest pressure
    heated: Heated
    device: str = ""

    def figures(self) -> dict[str, tuple[float, str]]:
        """Return a dictionary from measure of the sonication, in words, to (value, unit)."""
        target = [self.sonication.grid.coordinates[i][at] for i, at in enumerate(self.sonication.focus)]
        miss = math.dist(self.focus.position, target)
        hot = np.asarray(self.heated["temperature_max"])
        bone = hot[_bone(self.hounsfield)]
        return {
            "peak pressure in the brain": (self.focus.pressure * 1e-6, "MPa"),
            "peak pressure in bone": (self.skull.pressure * 1e-6, "MPa"),
            "distance of the focus from the target": (miss * 1e3, "mm"),
            "−6 dB width along the beam": (self.focus.widths_6db[0] * 1e3, "mm"),
            "−6 dB width across": (float(np.nanmean(self.focus.widths_6db[1:])) * 1e3, "mm"),
            "−6 dB volume": (self.focus.volume * 1e9, "mm³"),
            "I_SPPA": (self.focus.isppa, "W/cm²"),
            "I_SPTA": (self.focus.ispta, "W/cm²"),
            "mechanical index": (self.focus.mechanical_index, ""),
            "gain of the phase correction at the target": (self.gain, ""),
            "highest temperature in the brain": (float(hot[self.brain].max()), "°C"),
            "highest temperature in bone": (float(bone.max()) if bone.size else math.nan, "°C"),
            "thermal dose in the brain": (float(self.heated["dose"][self.brain].max()), "CEM43 min"),
        }

    def write(self, writer: ResultWriter) -> Path:
        """Write one HDF5 file with fields, phases, measures and settings."""
        grid, frame = self.sonication.grid, self.sonication.frame
        axes = axes_of(grid)
        arrays = {
            "hounsfield": Data(self.hounsfield, "HU", "CT on the grid, [x, y, z]; x along the beam"),
            "sound_speed": Data(self.medium.sound_speed, "m/s", "medium"),
            "density": Data(self.medium.density, "kg/m^3", "medium"),
            "alpha_coeff": Data(self.medium.alpha_coeff, "dB/(MHz^2 cm)", "absorption of the medium"),
            "brain": Data(self.brain.astype(np.uint8), "", "1 in soft tissue around the target"),
            "p_amp": Data(self.amplitude, "Pa", "amplitude of the steady pressure"),
            "temperature_max": Data(self.heated["temperature_max"], "degC", "highest temperature over time"),
            "dose": Data(self.heated["dose"], "min", "thermal dose, CEM43"),
        }
        fields = {
            name: Data(*data[:3], tuple(axes) * (np.ndim(data.value) > 0)) for name, data in arrays.items()
        }
        transducer, settings = self.sonication.transducer, asdict(self.sonication)
        origin, directions = (
            "world coordinates of the grid's origin, point N // 2",
            "directions of the grid's ",
        )
        directions += "x, y, z in the world, one per row"
        contents: dict[str, Any] = {
            **axes,
            "grid": {
                "shape": Data(np.array(grid.shape), "", "points along x, y, z", ("axis",)),
                "spacing": Data(np.array(grid.spacing), "m", "distance of points", ("axis",)),
                "origin": Data(frame.origin, "m", origin, ("world_axis",)),
                "axes": Data(frame.axes, "", directions, ("axis", "world_axis")),
            },
            "fields": fields,
            "elements": {
                "centres": Data(
                    frame.to_world(transducer.centres), "m", "world coordinates", ("element", "world_axis")
                ),
                "phases": Data(self.phases, "rad", "of cos(2πft + phase)", ("element",)),
            },
            "figures": {
                name.replace("/", " over "): Data(value, unit, name)
                for name, (value, unit) in self.figures().items()
            },
            "settings": Data(json.dumps(settings, default=np.ndarray.tolist), "", "the sonication, JSON"),
        }
        return writer.write(contents, attributes=provenance(device=self.device))


@typed
def plan_sonication(
    ct: CT, sonication: Sonication, *, air: str = "water", output: str | Path | None = None, **options: Any
) -> Plan:
    """Simulate a sonication of the head in a CT.

    Computes grid and medium along the beam, the phases of an array by time reversal, the steady field, its
    measures in the brain, temperature and thermal dose. Time reversal: the elements receive a source at the
    target and transmit with conjugated phases, so that their waves meet there (Fink 1992,
    doi:10.1109/58.156174). Air around the head counts as water (``air``, see `media_from_hounsfield`).

    ``output``, ``force`` and the other options are as in `simulate`, except ``check_stability``; the runs use
    the checkpoint one after the other, and the result of each run is stored beside it. Errors are those of
    `simulate`; `InputError` also if the target is not in soft tissue within the CT.
    """
    force = bool(options.pop("force", False))
    settings = RunSettings(**options).with_ranks(sonication.grid.total_shape)
    writer = None
    if output is not None:
        writer = on_first_rank(settings.ranks, lambda: ResultWriter(output, force))
    check_hounsfield(ct.values)
    hounsfield = resample(ct, sonication.grid, sonication.frame)
    brain = _brain(hounsfield, sonication)
    medium = media_from_hounsfield(hounsfield, frequency=sonication.frequency, air=air)
    run = _Steady(sonication, medium, settings)
    phases, gain = _phases(run)
    wave = ContinuousWave(sonication.frequency, sonication.pressure, phases)
    field = run("field", sonication.transducer.source(wave), Sensor(record="p_amp_all", **run.recorded))
    amplitude = np.asarray(field["p_amp_all"][0])
    measured = {"medium": medium, "frequency": sonication.frequency, "duty_cycle": sonication.duty_cycle}
    focus = focus_of(amplitude, sonication.grid, inside=brain, **measured)
    bone = _bone(hounsfield)
    skull = focus_of(amplitude, sonication.grid, inside=bone, **measured) if bone.any() else focus
    power = absorbed_power(medium, amplitude, sonication.frequency) * sonication.duty_cycle
    schedule = [(sonication.on, 1.0), (sonication.off, 0.0)]
    schedule = [each for each in schedule if each[0] > 0]
    kinds = [hounsfield < RELATIONS["porosity"].soft_from, hounsfield < RELATIONS["porosity"].bone_from]
    tissues: dict[str, Any] = {name: np.select(kinds, it[:2], it[2]) for name, it in _THERMAL.items()}
    run.free_memory()
    heated = heat(sonication.grid, ThermalMedium(**tissues), power, schedule, **run.options)
    plan = Plan(
        sonication=sonication,
        hounsfield=hounsfield,
        medium=medium,
        brain=brain,
        amplitude=amplitude,
        phases=np.broadcast_to(phases, sonication.elements).copy(),
        gain=gain,
        focus=focus,
        skull=skull,
        heated=heated,
        device=settings.ranks.device.name,
    )
    if writer is not None:
        on_first_rank(settings.ranks, lambda: plan.write(writer))
    run.remove()
    return plan


class _Steady:
    """Runs continuous waves on one grid until they are steady; stores results beside the checkpoint."""

    def __init__(self, sonication: Sonication, medium: Medium, settings: RunSettings):
        self.sonication, self._medium, self._settings = sonication, medium, settings
        grid, f = sonication.grid, sonication.frequency
        silent = grid.silent_problem(medium, grid.cfl_step(medium, 0.25))
        step, _ = stable_step(silent, settings)
        samples = math.ceil(1 / (f * step))
        self._dt = 1 / (f * samples)
        seconds = math.hypot(*grid.size) / WATER + _SETTLE / f
        self._steps = math.ceil(seconds / self._dt) + _PERIODS * samples
        start = self._steps - _PERIODS * samples
        #: Keywords of a sensor that records amplitudes.
        self.recorded = {"start": start, "frequencies": f}
        self._result_files: list[Path] = []
        steps: dict[str, Any] = {"dt": self._dt, "steps": self._steps}
        self._prepared = prepare(grid, medium, **steps, **self.options)

    @property
    def options(self) -> dict[str, Any]:
        """Return the options of all runs, which use the same checkpoint, if any, one after the other."""
        return vars(self._settings) | {"check_stability": False}  # the time step is known to be stable

    def __call__(self, name: str, source: Source, sensor: Sensor) -> Mapping[str, Any]:
        """Return what run ``name`` records, by quantity: simulated, or read from its stored result."""
        comm, saved, path = self._settings.ranks, self._settings.checkpoints, None
        if saved is not None:
            wave: Any = source.p
            settings = self._settings.precision, self._settings.decomposition, self._dt, self._steps
            digest = identity(self.sonication, self._medium, wave.amplitude, wave.phase, settings)
            path = saved.path.with_name(f"{saved.path.name}.{name}.{digest[:12]}.npz")
            self._result_files.append(path)
            if saved.resume and comm.control.bcast(comm.rank == 0 and path.exists()):
                with np.load(path) if comm.rank == 0 else nullcontext({}) as file:
                    return comm.control.bcast(dict(file))
        result = self._prepared.simulate(source, sensor)
        if path is not None:
            on_first_rank(comm, lambda: _store(path, result))
        return result

    def free_memory(self) -> None:
        """Free the memory of the simulations, after the last run."""
        self._prepared.close()

    def remove(self) -> None:
        """Remove the stored results, when the plan is complete."""
        for path in self._result_files if self._settings.ranks.rank == 0 else ():
            path.unlink(missing_ok=True)


def _store(path: Path, arrays: Mapping[str, Any]) -> None:
    with replacing(path) as unfinished, open(unfinished, "wb") as file:
        np.savez(file, **arrays)


def _phases(run: _Steady) -> tuple[Any, float]:
    """Return the phases of the elements, rad, and the gain in pressure at the target.

    The gain is the pressure with these phases over that with the phases for water alone.
    """
    sonication = run.sonication
    geometric = sonication.geometric_phases
    if sonication.elements == 1:
        return 0.0, 1.0
    if sonication.correction == "none":
        return geometric, 1.0
    mask = np.zeros(sonication.grid.shape, bool)
    mask[sonication.focus] = True
    source = Source(p_mask=mask, p=ContinuousWave(sonication.frequency, sonication.pressure))
    sensor = Sensor.elements(sonication.transducer, record="p_amp", **run.recorded)
    heard = run("time_reversal", source, sensor)
    amplitude, phase = np.asarray(heard["p_amp"][0]), np.asarray(heard["p_phase"][0])
    # By reciprocity the target receives from each element what the element receives from the target.
    uncorrected = abs(np.sum(amplitude * np.exp(1j * (phase + geometric))))
    return -phase, float(amplitude.sum() / uncorrected)


def _bone(hounsfield: np.ndarray) -> np.ndarray:
    return hounsfield >= RELATIONS["porosity"].bone_from


def _brain(hounsfield: np.ndarray, sonication: Sonication) -> np.ndarray:
    """Return a mask of the brain: soft tissue connected with the target once gaps in the skull are closed."""
    relation, focus = RELATIONS["porosity"], sonication.focus
    soft = (hounsfield >= relation.soft_from) & (hounsfield < relation.bone_from)
    allowed = f"soft tissue, {relation.soft_from:g} to {relation.bone_from:g}"
    require(soft[focus], "target", f"at {hounsfield[focus]:.0f} HU", allowed)
    reach = max(1, round(_GAP / sonication.grid.spacing[0]))
    # Erode the soft tissue by ``reach``; then dilate the target's part by as much.
    padded: Any = ndimage.distance_transform_edt(np.pad(soft, 1, mode="edge"))
    labels: Any = ndimage.label(padded[1:-1, 1:-1, 1:-1] > reach)[0]  # type: ignore[index]
    number = labels[focus]
    if number == 0:
        depth = f"less than {_GAP * 1e3:g} mm from bone or the head's surface"
        raise InputError(f"target: {depth}; allowed: deeper in soft tissue")
    outside: Any = ndimage.distance_transform_edt(labels != number)
    return soft & (outside <= reach + 1)
