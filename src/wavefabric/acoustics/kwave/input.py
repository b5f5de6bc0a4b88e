"""k-Wave's input files, format 1.0 to 1.2, as a `Problem`.

Source: k-Wave manual 1.1, appendix B, and what the C++ programs 1.3 and 1.4 take. A source flag is the
number of time steps of its signal; indices in the file count from 1, x fastest.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wavefabric.acoustics.check.rules import check, check_recording
from wavefabric.acoustics.kwave.format import ABSORPTION, AXES, MAX_POINTS, MODES, Reader, dataset_word
from wavefabric.acoustics.kwave.write_input import write_input
from wavefabric.acoustics.problem import (
    Cuboids,
    PressureSource,
    Problem,
    Recording,
    TransducerSource,
    VelocitySource,
)
from wavefabric.device.base import Device
from wavefabric.errors import InputError
from wavefabric.system.machine import host_memory

__all__ = ["KWaveInput", "dataset_names", "read_input", "write_input"]

Sensor = np.ndarray | Cuboids | None


@dataclass(frozen=True)
class KWaveInput:
    """What an input file holds.

    Parameters
    ----------
    path : Path
        The file.
    problem : Problem
        Arrays are float32, indices int64 and 0-based.
    sensor : ndarray of int64 (points,), Cuboids or None
        Where to record.
    attributes : dict of str to str
        The file's header.
    echo : dict of str to int or float
        Scalars that k-Wave copies into its output.
    version : tuple of int
        Of the file's format: (1, 0) to (1, 2).
    """

    path: Path
    problem: Problem
    sensor: Sensor
    attributes: dict[str, str]
    echo: dict[str, int | float]
    version: tuple[int, int]


def read_input(path: str | Path, device: Device | None = None) -> KWaveInput:
    """Read and check an input file.

    Parameters
    ----------
    path : str or Path
        The file.
    device : Device, optional
        That will run it alone: if it is a CPU, its memory must hold the run as well.

    Raises
    ------
    InputError
        If it is no k-Wave input file, or is damaged; if a dataset is missing, lies in another file, or has a
        wrong type, shape or value (the line names it); if the grid is nonuniform or axisymmetric; if all
        arrays together, written or not, do not fit into memory.
    """
    with Reader(path) as file:
        attributes, version = _header(file)
        _check_memory(file, version, device)
        scalars = _Scalars(file)
        problem = _problem(file, scalars, version)
        sensor = _sensor(file, problem, version)
    names = dataset_names(file.path)
    check(problem, names, first_index=1)
    if sensor is not None:
        check_recording(problem, Recording(("p_raw",), sensor), _sensor_names(file, sensor), first_index=1)
    return KWaveInput(file.path, problem, sensor, attributes, scalars.echo, version)


#: Less than this is not looked at.
_BIG = 1 << 28


def _check_memory(file: Reader, version: tuple[int, int], device: Device | None) -> None:
    """Refuse what does not fit, by the shapes of the datasets and before any is read."""
    from wavefabric.acoustics.build import needed_bytes

    file.outline = True
    problem = _problem(file, _Scalars(file), version)
    _sensor(file, problem, version)
    file.outline = False
    read = sum(file.sizes.values())
    run = 0
    if device is not None and device.name == "cpu":
        run = needed_bytes(problem, Recording(("p_final",)), np.float32, device)
    if read + run <= _BIG or read + run <= (free := host_memory()[0]):
        return
    grid = " x ".join(map(str, problem.shape[: problem.dimensions]))
    most = max(file.sizes, key=lambda name: file.sizes[name])
    parts = [f"its datasets take {read / 2**30:.1f} GiB ('{most}': {file.sizes[most] / 2**30:.1f} GiB)"]
    parts += [f"a run of {grid} points {run / 2**30:.1f} GiB"] if run else []
    given = f"{' and '.join(parts)} of memory"
    raise InputError(f"{file.path}: {given}; allowed: the {free / 2**30:.1f} GiB that are free")


def dataset_names(path: str | Path) -> dict[str, str]:
    """What errors of `check` call each number: its dataset in a file."""
    words = {
        **{f"shape.{a}": f"N{a}" for a in AXES},
        **{f"spacing.{a}": f"d{a}" for a in AXES},
        **{f"pml_size.{a}": f"pml_{a}_size" for a in AXES},
        **{f"pml_alpha.{a}": f"pml_{a}_alpha" for a in AXES},
        **{f"density_staggered.{a}": f"rho0_sg{a}" for a in AXES},
        **{f"velocity_source.signals.{a}": f"u{a}_source_input" for a in AXES},
        "dt": "dt",
        "steps": "Nt",
        "reference_speed": "c_ref",
        "sound_speed": "c0",
        "density": "rho0",
        "nonlinearity": "BonA",
        "absorption": "absorbing_flag",
        "alpha_coeff": "alpha_coeff",
        "alpha_power": "alpha_power",
        "initial_pressure": "p0_source_input",
        "pressure_source.index": "p_source_index",
        "pressure_source.signal": "p_source_input",
        "pressure_source.mode": "p_source_mode",
        "velocity_source.index": "u_source_index",
        "velocity_source.mode": "u_source_mode",
        "transducer.index": "u_source_index",
        "transducer.delay": "delay_mask",
        "transducer.signal": "transducer_source_input",
        "transducer.steps": "transducer_source_flag",
    }
    return {key: dataset_word(path, name) for key, name in words.items()}


def _sensor_names(file: Reader, sensor: Sensor) -> dict[str, str]:
    name = "sensor_mask_corners" if isinstance(sensor, Cuboids) else "sensor_mask_index"
    return {"recording.where": file.word(name)}


def _header(file: Reader) -> tuple[dict[str, str], tuple[int, int]]:
    attributes = file.attributes()

    def fault(name: str, given: str, allowed: str) -> InputError:
        return InputError(f"{file.path}: attribute '{name}': {given}; allowed: {allowed}")

    if attributes.get("format") == "wavefabric result":
        raise InputError(f"{file.path}: is a result of wavefabric; allowed: a k-Wave input file")
    kind = attributes.get("file_type")
    if kind is None:
        raise fault("file_type", "is missing", "'input' (a k-Wave input file)")
    if kind != "input":
        raise fault("file_type", f"'{kind}'", "'input' (a k-Wave input file)")
    for name, allowed in (("major_version", ("1",)), ("minor_version", ("0", "1", "2"))):
        if name not in attributes:
            raise fault(name, "is missing", " or ".join(allowed))
        if attributes[name] not in allowed:
            raise fault(name, f"'{attributes[name]}'", " or ".join(allowed))
    return attributes, (1, int(attributes["minor_version"]))


class _Scalars:
    """Reads scalars and keeps them for the output."""

    def __init__(self, file: Reader):
        self.file = file
        self.echo: dict[str, int | float] = {}

    def count(self, name: str, highest: int = MAX_POINTS) -> int:
        value = self.file.scalar(name, "long")
        if value > highest:
            raise self.file.fault(name, str(value), f"0 to {highest}")
        self.echo[name] = value
        return value

    def number(self, name: str) -> float:
        value = self.file.scalar(name, "float")
        self.echo[name] = value
        return value


def _problem(file: Reader, scalars: _Scalars, version: tuple[int, int]) -> Problem:
    shape = tuple(scalars.count(f"N{a}") for a in AXES)
    for axis, size in zip(AXES, shape, strict=True):
        if size < (1 if axis == "z" else 2):
            raise file.fault(f"N{axis}", str(size), f"a whole number from {1 if axis == 'z' else 2}")
    if shape[0] * shape[1] * shape[2] > MAX_POINTS:
        raise file.fault("Nx", f"{shape[0]} x {shape[1]} x {shape[2]} grid points", f"up to {MAX_POINTS}")
    axes = AXES[:2] if shape[2] == 1 else AXES
    steps, dt = scalars.count("Nt"), scalars.number("dt")
    spacing = [scalars.number(f"d{a}") for a in axes]
    reference_speed = scalars.number("c_ref")
    pml_size = [scalars.count(f"pml_{a}_size") for a in axes]
    pml_alpha = [scalars.number(f"pml_{a}_alpha") for a in axes]
    flags = {f"u{a}": scalars.count(f"u{a}_source_flag") for a in axes}
    flags["transducer"] = scalars.count("transducer_source_flag")
    flags["p"] = scalars.count("p_source_flag")
    p0 = scalars.count("p0_source_flag", 1)
    if scalars.count("nonuniform_grid_flag"):
        raise file.fault("nonuniform_grid_flag", "the grid is nonuniform", "0, a uniform grid")
    absorbing = scalars.count("absorbing_flag", 2)
    nonlinear = scalars.count("nonlinear_flag", 1)
    if version >= (1, 2) or "axisymmetric_flag" in file:
        if scalars.count("axisymmetric_flag"):
            raise file.fault("axisymmetric_flag", "the grid is axisymmetric", "0, a Cartesian grid")
    else:
        scalars.echo["axisymmetric_flag"] = 0

    grid = shape[::-1]
    density, *staggered = _densities(file, axes, grid)
    alpha_coeff = _field(file, "alpha_coeff", grid) if absorbing else 0.0
    alpha_power = file.scalar("alpha_power", "float") if absorbing else 0.0
    sound_speed = _field(file, "c0", grid)
    nonlinearity = _field(file, "BonA", grid) if nonlinear else None
    velocity, transducer = _velocity(file, scalars, flags, axes)
    fill = [1.0] * (3 - len(axes))
    return Problem(
        shape=shape,  # type: ignore[arg-type]
        spacing=(*spacing, *fill),  # type: ignore[arg-type]
        dt=dt,
        steps=steps,
        reference_speed=reference_speed,
        pml_size=(*pml_size, *[0] * len(fill)),  # type: ignore[arg-type]
        pml_alpha=(*pml_alpha, *[0.0] * len(fill)),  # type: ignore[arg-type]
        sound_speed=sound_speed,
        density=density,
        density_staggered=tuple(staggered),
        nonlinearity=nonlinearity,
        absorption=ABSORPTION[absorbing],  # type: ignore[arg-type]
        alpha_coeff=alpha_coeff,
        alpha_power=alpha_power,
        initial_pressure=file.array("p0_source_input", "float", grid) if p0 else None,
        pressure_source=_pressure(file, scalars, flags["p"]),
        velocity_source=velocity,
        transducer=transducer,
    )


def _field(file: Reader, name: str, grid: tuple[int, ...]) -> float | np.ndarray:
    array = file.array(name, "float", (1, 1, 1), grid)
    return float(array[0, 0, 0]) if array.shape == (1, 1, 1) else array


def _densities(file: Reader, axes: str, grid: tuple[int, ...]) -> list[float | np.ndarray]:
    first = _field(file, "rho0", grid)
    found = [first]
    for axis in axes:
        name = f"rho0_sg{axis}"
        value = _field(file, name, grid)
        if isinstance(value, float) != isinstance(first, float):
            shapes = ["one number" if isinstance(v, float) else "an array" for v in (value, first)]
            raise file.fault(name, f"is {shapes[0]}, rho0 is {shapes[1]}", "both alike")
        found.append(value)
    return found


def _index(file: Reader, name: str) -> np.ndarray:
    """Indices or delays of a file, 0-based. What does not fit into int64 becomes -1 and is refused later."""
    given = file.array(name, "long", (1, 1, "points")).reshape(-1)
    if file.outline:  # zeros, perhaps more than can be looked at
        return np.broadcast_to(np.zeros((), np.int64), given.shape)
    if given.max() > np.uint64(2**62):
        raise file.fault(name, f"{given.max()}", f"1 to {MAX_POINTS}")
    return given.astype(np.int64) - 1


def _source_settings(file: Reader, scalars: _Scalars, letter: str) -> tuple[bool, str]:
    many = scalars.count(f"{letter}_source_many", 1)
    return bool(many), MODES[scalars.count(f"{letter}_source_mode", 2)]


def _signal(file: Reader, name: str, flag: int, columns: int) -> np.ndarray:
    signal = file.array(name, "float", (1, "steps", columns))[0]
    if len(signal) < flag:
        raise file.fault(name, f"has {len(signal)} time steps", f"{flag} or more, as its source flag says")
    return signal[:flag]


def _pressure(file: Reader, scalars: _Scalars, flag: int) -> PressureSource | None:
    if not flag:
        return None
    many, mode = _source_settings(file, scalars, "p")
    index = _index(file, "p_source_index")
    signal = _signal(file, "p_source_input", flag, index.size if many else 1)
    return PressureSource(index, signal, mode)  # type: ignore[arg-type]


def _velocity(
    file: Reader, scalars: _Scalars, flags: dict[str, int], axes: str
) -> tuple[VelocitySource | None, TransducerSource | None]:
    on = any(flags[f"u{a}"] for a in axes)
    steps = flags["transducer"]
    if not on and not steps:
        return None, None
    index = _index(file, "u_source_index")
    velocity = transducer = None
    if on:
        many, mode = _source_settings(file, scalars, "u")
        columns = index.size if many else 1
        signals = [
            _signal(file, f"u{a}_source_input", flags[f"u{a}"], columns) if flags[f"u{a}"] else None
            for a in axes
        ]
        velocity = VelocitySource(index, tuple(signals), mode)  # type: ignore[arg-type]
    if steps:
        delay = _index(file, "delay_mask")
        signal = file.array("transducer_source_input", "float", (1, 1, "steps")).reshape(-1)
        transducer = TransducerSource(index, delay, signal, steps)
    return velocity, transducer


def _sensor(file: Reader, problem: Problem, version: tuple[int, int]) -> Sensor:
    if version < (1, 1):
        return _index(file, "sensor_mask_index") if "sensor_mask_index" in file else None
    if not any(f"sensor_mask_{part}" in file for part in ("type", "index", "corners")):
        return None
    kind = file.scalar("sensor_mask_type", "long")
    if kind == 0:
        return _index(file, "sensor_mask_index")
    if kind != 1:
        raise file.fault("sensor_mask_type", str(kind), "0 (index) or 1 (corners)")
    corners = file.array("sensor_mask_corners", "long", (1, "cuboids", 6))[0]
    if file.outline:
        return None
    if corners.max() > np.uint64(MAX_POINTS):
        raise file.fault("sensor_mask_corners", f"{corners.max()}", f"up to {max(problem.shape)}")
    corners = corners.astype(np.int64) - 1
    return Cuboids(np.ascontiguousarray(corners[:, :3]), np.ascontiguousarray(corners[:, 3:]))
