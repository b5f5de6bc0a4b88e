"""Reads k-Wave's input files, format 1.0 to 1.2, as a `Problem`, and writes a `Problem` in format 1.2.

Source: k-Wave manual 1.1, appendix B, and the behaviour of the C++ programs 1.3 and 1.4. A source flag is
the number of time steps of its signal; indices in the file count from 1, x fastest.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.acoustics.check.rules import PYTHON_NAMES, check, check_recording
from wavefabric.acoustics.kwave import format as datasets
from wavefabric.acoustics.kwave.format import ABSORPTION, AXES, DATASETS, MODES, Reader, dataset_key
from wavefabric.acoustics.problem import (
    Cuboids,
    Elements,
    Interpolation,
    PointSource,
    PressureSource,
    Problem,
    Recording,
    TransducerSource,
    VelocitySource,
)
from wavefabric.base.errors import InputError, ensure
from wavefabric.base.files.output import check_output, replacing
from wavefabric.base.results.hdf5_output import OutputFile
from wavefabric.base.system.machine import host_memory
from wavefabric.runtime.device.base import Device

#: Largest count or index accepted from a file: products of larger ones could overflow 64 bits.
_MAX_POINTS = 1 << 50
#: A file and a run that need fewer bytes are not compared with the free memory.
_SMALL = 1 << 28


@dataclass(frozen=True)
class KWaveInput:
    """Holds the contents of a k-Wave input file."""

    path: Path
    problem: Problem  # arrays are float32
    sensor: np.ndarray | Cuboids | None  # recorded points; an array holds flat grid indices, 0-based
    attributes: dict[str, str]  # the file's header
    copied_scalars: dict[str, int | float]  # scalars that k-Wave copies into its output
    version: tuple[int, int]  # version of the format: (1, 0) to (1, 2)


def read_input(path: str | Path, device: Device | None = None) -> KWaveInput:
    """Read and check a k-Wave input file.

    `InputError`: the file is no k-Wave input file, or is damaged; a dataset is missing, lies in another file,
    or has a wrong type, shape or value (the message names it); the grid is nonuniform; a source is not
    supported; or memory is too small for all arrays and, if ``device`` is a CPU, a run on it.
    """
    with _Contents(path) as file:
        file.read_header()
        _check_memory(file, device)
        problem, sensor = file.problem(), file.sensor()
    names = dataset_names(file.path)
    check(problem, names, first_index=1)
    if sensor is not None:
        name = "sensor_mask_corners" if isinstance(sensor, Cuboids) else "sensor_mask_index"
        names["recording.where"] = dataset_key(file.path, name)
        check_recording(problem, Recording(("p_raw",), sensor), names, first_index=1)
    return KWaveInput(file.path, problem, sensor, file.header, file.copied_scalars, file.version)


def _check_memory(file: "_Contents", device: Device | None) -> None:
    """Raise `InputError` if datasets and run do not fit into memory; read only the datasets' shapes."""
    from wavefabric.acoustics.choose_stages import needed_bytes

    file.outline = True
    problem = file.problem()
    file.sensor()
    file.outline = False
    read = sum(file.sizes.values())
    run = 0
    if device is not None and device.name == "cpu":
        run = needed_bytes(problem, Recording(("p_final",)), np.float32, device)
    if read + run <= _SMALL or read + run <= (free := host_memory()[0]):
        return
    grid = " x ".join(map(str, problem.shape[: problem.dimensions]))
    most = max(file.sizes, key=lambda name: file.sizes[name])
    parts = [f"its datasets take {read / 2**30:.1f} GiB ('{most}': {file.sizes[most] / 2**30:.1f} GiB)"]
    parts += [f"a run of {grid} points {run / 2**30:.1f} GiB"] if run else []
    actual = f"{' and '.join(parts)} of memory"
    raise InputError(f"{file.path}: {actual}; allowed: the {free / 2**30:.1f} GiB that are free")


def dataset_names(path: str | Path) -> dict[str, str]:
    """Return a dictionary from each number of a `Problem` to its dataset in a file, as errors name it."""
    names = {key: dataset_key(path, name) for name, key in DATASETS.items()}
    return names | {"transducer.index": names["velocity_source.index"]}


class _Contents(Reader):
    """Reads header, problem and sensor of a file, and keeps the scalars that the output also stores."""

    def __init__(self, path: str | Path):
        super().__init__(path)
        self.header, self.version = {}, (1, 2)
        self.copied_scalars: dict[str, int | float] = {}

    def read_header(self) -> None:
        """Read the header; `InputError` if the file is no k-Wave input file."""
        self.header = self.attributes()
        if self.header.get("format") == "wavefabric result":
            raise InputError(f"{self.path}: is a result of wavefabric; allowed: a k-Wave input file")
        expected = {
            "file_type": (("input",), "'input' (a k-Wave input file)"),
            "major_version": (("1",), "1"),
            "minor_version": (("0", "1", "2"), "0 or 1 or 2"),
        }
        for name, (values, allowed) in expected.items():
            if self.header.get(name) not in values:
                actual = f"'{self.header[name]}'" if name in self.header else "is missing"
                raise InputError(f"{self.path}: attribute '{name}': {actual}; allowed: {allowed}")
        self.version = (1, int(self.header["minor_version"]))

    def _scalar(self, name: str, highest: int = _MAX_POINTS) -> Any:
        value = self.scalar(name)
        if isinstance(value, int) and value > highest:
            raise self.fault(name, str(value), f"0 to {highest}")
        self.copied_scalars[name] = value
        return value

    def problem(self) -> Problem:
        """Return the grid, the medium and the sources as a `Problem`."""
        scalar = self._scalar
        shape = self._shape()
        axes = AXES[:2] if shape[2] == 1 else AXES
        fill = 3 - len(axes)
        # In the order of k-Wave's files, as the output stores scalars in the order of reading.
        grid: dict[str, Any] = {"shape": shape, "steps": scalar("Nt"), "dt": scalar("dt")}
        grid["spacing"] = (*(scalar(f"d{a}") for a in axes), *[1.0] * fill)
        grid["reference_speed"] = scalar("c_ref")
        grid["pml_size"] = (*(scalar(f"pml_{a}_size") for a in axes), *[0] * fill)
        grid["pml_alpha"] = (*(scalar(f"pml_{a}_alpha") for a in axes), *[0.0] * fill)
        signals = (*(f"u{a}" for a in axes), "transducer", "p")
        *velocity, transducer, pressure = (scalar(f"{name}_source_flag") for name in signals)
        p0 = scalar("p0_source_flag", 1)
        if scalar("nonuniform_grid_flag"):
            raise self.fault("nonuniform_grid_flag", "the grid is nonuniform", "0, a uniform grid")
        absorbing, nonlinear = scalar("absorbing_flag", 2), scalar("nonlinear_flag", 1)
        if self.version < (1, 2) and "axisymmetric_flag" not in self:
            self.copied_scalars["axisymmetric_flag"] = 0
        else:
            scalar("axisymmetric_flag", 1)
        grid["axisymmetric"] = bool(self.copied_scalars["axisymmetric_flag"])
        with self.reading("/"):  # other sources, such as stress sources, are not supported
            flags = {name for name in map(str, self.file) if name.endswith("_source_flag")}
        for name in sorted(flags - {f"{name}_source_flag" for name in (*signals, "p0")}):
            if value := self.scalar(name):
                raise self.fault(name, str(value), "0: a source of this kind is not simulated")
        medium = self._medium(axes, shape[::-1], absorbing, nonlinear)
        sources: dict[str, Any] = {}
        if any(velocity) or transducer:
            index = self._points("u_source_index")
            if any(velocity):
                pushes, mode = self._signals("u", signals, velocity, index)
                sources["velocity_source"] = VelocitySource(index, pushes, mode)
            if transducer:
                signal = self.array("transducer_source_input", (1, 1, "steps"))[0, 0]
                delay = self._points("delay_mask")
                sources["transducer"] = TransducerSource(index, delay, signal, transducer)
        if p0:
            sources["initial_pressure"] = self.array("p0_source_input", shape[::-1])
        if pressure:
            index = self._points("p_source_index")
            (signal,), mode = self._signals("p", ["p"], [pressure], index)
            sources["pressure_source"] = PressureSource(index, signal, mode)
        return Problem(**grid, **medium, **sources)

    def _shape(self) -> tuple[int, int, int]:
        shape = tuple(self._scalar(f"N{a}") for a in AXES)
        for axis, size, lowest in zip(AXES, shape, (2, 2, 1), strict=True):
            if size < lowest:
                raise self.fault(f"N{axis}", str(size), f"a whole number from {lowest}")
        if math.prod(shape) > _MAX_POINTS:
            points = " x ".join(map(str, shape))
            raise self.fault("Nx", f"{points} grid points", f"up to {_MAX_POINTS}")
        return shape  # type: ignore[return-value]

    def _medium(self, axes: str, grid: tuple[int, ...], absorbing: int, nonlinear: int) -> dict[str, Any]:
        """Return a dictionary from name to value of the medium's parameters; ``grid`` is (Nz, Ny, Nx)."""
        field = partial(self._field, grid)
        density, staggered = field("rho0"), tuple(field(f"rho0_sg{axis}") for axis in axes)
        for axis, value in zip(axes, staggered, strict=True):
            if isinstance(value, float) != isinstance(density, float):
                kinds = ["one number" if isinstance(v, float) else "an array" for v in (value, density)]
                raise self.fault(f"rho0_sg{axis}", f"is {kinds[0]}, rho0 is {kinds[1]}", "both alike")
        return {
            "density": density,
            "density_staggered": staggered,
            "absorption": ABSORPTION[absorbing],
            "alpha_coeff": field("alpha_coeff") if absorbing else 0.0,
            "alpha_power": self.scalar("alpha_power") if absorbing else 0.0,
            "sound_speed": field("c0"),
            "nonlinearity": field("BonA") if nonlinear else None,
        }

    def _field(self, grid: tuple[int, ...], name: str) -> float | np.ndarray:
        array = self.array(name, (1, 1, 1), grid)
        return float(array[0, 0, 0]) if array.shape == (1, 1, 1) else array

    def _index(self, name: str, *shape: int | str) -> np.ndarray:
        """Read indices counted from 1; return them counted from 0, without the first axis, of length 1."""
        index = self.array(name, shape)[0]
        if self.outline:  # zeros, perhaps too many to compute a maximum
            return np.broadcast_to(np.zeros((), np.int64), index.shape)
        if index.max() > np.uint64(_MAX_POINTS):
            raise self.fault(name, f"{index.max()}", f"1 to {_MAX_POINTS}")
        return index.astype(np.int64) - 1

    def _points(self, name: str) -> np.ndarray:
        return self._index(name, 1, 1, "points")[0]

    def _signals(self, kind: str, names: Iterable[str], flags: list[int], index: np.ndarray) -> Any:
        """Return a source's signals and its mode.

        ``flags`` has for each signal its number of time steps, to which it is cut; with 0 the signal is None.
        """
        many, mode = self._scalar(f"{kind}_source_many", 1), MODES[self._scalar(f"{kind}_source_mode", 2)]
        signals: list[np.ndarray | None] = []
        for name, count in zip(names, flags, strict=False):
            signals.append(None)
            if count:
                dataset = f"{name}_source_input"
                signal = self.array(dataset, (1, "steps", index.size if many else 1))[0]
                steps = f"has {len(signal)} time steps"
                if len(signal) < count:
                    raise self.fault(dataset, steps, f"{count} or more, as its source flag says")
                signals[-1] = signal[:count]
        return tuple(signals), mode

    def sensor(self) -> np.ndarray | Cuboids | None:
        """Return the recorded points or cuboids, or None without a sensor."""
        old = self.version < (1, 1)
        parts = ("index",) if old else ("type", "index", "corners")
        if not any(f"sensor_mask_{part}" in self for part in parts):
            return None
        kind = 0 if old else self.scalar("sensor_mask_type")
        if kind == 0:
            return self._points("sensor_mask_index")
        if kind != 1:
            raise self.fault("sensor_mask_type", str(kind), "0 (index) or 1 (corners)")
        corners = self._index("sensor_mask_corners", 1, "cuboids", 6)
        return None if self.outline else Cuboids(corners[:, :3].copy(), corners[:, 3:].copy())


def write_input(
    path: str | Path,
    problem: Problem,
    sensor: np.ndarray | Cuboids | Interpolation | Elements | None,
    *,
    force: bool = False,
    description: str = "",
) -> Path:
    """Write a problem as an input file that k-Wave reads; numbers become float32.

    ``sensor`` is an array of recorded points, as flat grid indices (int64), cuboids, or None (k-Wave itself
    runs no such file). ``force`` replaces an existing file; ``description`` is stored in the file.

    `InputError`: the file cannot be written, or a number is out of range, also once it is float32. The format
    cannot express 1-D grids, points between grid points, absorption without dispersion, steps without k-space
    correction or staggered grid, or a transducer and a velocity source at different points.
    """
    path = check_output(path, force, "path")
    check(problem)
    if isinstance(sensor, Interpolation | Elements):
        raise InputError("sensor.mask: is between points of the grid; allowed: grid points or cuboids")
    if sensor is not None:
        check_recording(problem, Recording(("p_raw",), sensor))
    if problem.absorption == "power_law" and not problem.dispersion:
        raise InputError("medium.dispersion: False; allowed: True, k-Wave's files have no such switch")
    for name in ("k_space", "staggered"):
        ensure(getattr(problem, name), name, "False", "True, k-Wave's files have no such switch")
    ensure(problem.dimensions > 1, "grid.shape", "has one dimension", "2 or 3, as k-Wave's files have")
    contents = _contents(problem)
    contents |= {} if sensor is None else datasets.sensor_datasets(sensor)
    with replacing(path, "path") as partial, OutputFile(partial, libver=("earliest", "v110")) as file:
        datasets.put_header(file, "input", description, "%Y-%m-%d %H:%M:%S")
        for name, value in contents.items():
            datasets.put(file, name, value if datasets.kind_of(name) == "long" else _single(name, value))
            file.check()
    return path


def _contents(problem: Problem) -> dict[str, Any]:
    """Return a dictionary from name to value of the datasets and flags that describe a problem."""
    axes, missing = AXES[: problem.dimensions], AXES[problem.dimensions :]
    # Only k-Wave's MATLAB code reads ``elastic_flag``.
    contents: dict[str, Any] = dict.fromkeys(("nonuniform_grid_flag", "elastic_flag"), 0)
    for name, key in DATASETS.items():
        value: Any = problem
        for part in key.split("."):
            if part in missing and name != "Nz":
                value = None
            elif value is not None:
                value = value[AXES.index(part)] if part in AXES else getattr(value, part)
        if value is not None:
            contents[name] = value
    contents["absorbing_flag"] = ABSORPTION.index(problem.absorption)
    if problem.absorption == "none":
        del contents["alpha_coeff"], contents["alpha_power"]
    contents |= {
        "nonlinear_flag": int("BonA" in contents),
        "p0_source_flag": int("p0_source_input" in contents),
    }
    densities = {name: value for name, value in contents.items() if name.startswith("rho0")}
    if any(map(np.ndim, densities.values())):  # in the format all densities are numbers, or all are arrays
        contents |= {name: np.broadcast_to(rho, problem.array_shape) for name, rho in densities.items()}
    contents |= _signals("p", ["p"], problem.pressure_source)
    contents |= _signals("u", [f"u{axis}" for axis in axes], problem.velocity_source)
    velocity, transducer = problem.velocity_source, problem.transducer
    if transducer is None:
        return contents | {"transducer_source_flag": 0}
    same = not velocity or np.array_equal(velocity.index, transducer.index)
    allowed = "the same points, k-Wave's files hold one list for both"
    ensure(same, "source.transducer.mask", "other points than those of the velocity source", allowed)
    flat = {"u_source_index": transducer.index + 1, "delay_mask": transducer.delay + 1}
    flat["transducer_source_input"] = transducer.signal
    return contents | {name: values[None, None] for name, values in flat.items()}


def _signals(kind: str, names: Sequence[str], source: PointSource | None) -> dict[str, Any]:
    """Return a dictionary from dataset to value: a source's flags and, if there is a source, its data."""
    if source is None:
        return {f"{name}_source_flag": 0 for name in names}
    signals = dict(zip(names, source.signals, strict=True))
    contents: dict[str, Any] = {
        f"{name}_source_flag": 0 if s is None else len(s) for name, s in signals.items()
    }
    # One switch serves all axes.
    many = any(signal is not None and signal.shape[1] > 1 for signal in source.signals)
    contents |= {f"{kind}_source_mode": MODES.index(source.mode), f"{kind}_source_many": int(many)}
    contents[f"{kind}_source_index"] = source.index[None, None] + 1
    for name, signal in signals.items():
        if signal is not None:
            shape = len(signal), source.index.size if many else 1
            contents[f"{name}_source_input"] = np.broadcast_to(signal, shape)[None]  # type: ignore[arg-type]
    return contents


def _single(name: str, value: Any) -> np.ndarray:
    """Return ``value`` as float32; `InputError` if float32 cannot represent it."""
    with np.errstate(over="ignore", under="ignore"):
        single = np.asarray(value, np.float32)
    # A Δt that underflows to 0 is as wrong as one that overflows.
    vanished = not single.ndim and single == 0 and value != 0
    if vanished or not (np.isfinite(single.min()) and np.isfinite(single.max())):
        actual = "has values beyond float32" if single.ndim else f"{value:g}"
        raise InputError(f"{PYTHON_NAMES[DATASETS[name]]}: {actual}; allowed: what float32 can hold")
    return single
