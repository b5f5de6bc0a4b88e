"""k-Wave's input files, format 1.0 to 1.2, as a `Problem`.

Source: k-Wave manual 1.1, appendix B, and what the C++ programs 1.3 and 1.4 take. A source flag is the
number of time steps of its signal; indices in the file count from 1, x fastest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.acoustics.check.rules import check, check_recording
from wavefabric.acoustics.kwave.format import ABSORPTION, AXES, MAX_POINTS, MODES, Reader, dataset_key
from wavefabric.acoustics.kwave.write_input import write_input
from wavefabric.acoustics.problem import (
    Cuboids,
    PressureSource,
    Problem,
    Recording,
    SourceMode,
    TransducerSource,
    VelocitySource,
)
from wavefabric.device.base import Device
from wavefabric.errors import InputError
from wavefabric.system.machine import host_memory

__all__ = ["KWaveInput", "dataset_names", "read_input", "write_input"]

#: A file and a run that take less are not compared with the memory that is free.
_SMALL = 1 << 28


@dataclass(frozen=True)
class KWaveInput:
    """What an input file holds."""

    path: Path
    problem: Problem  # arrays are float32
    sensor: np.ndarray | Cuboids | None  # where to record; an array holds flat grid indices, 0-based
    attributes: dict[str, str]  # the file's header
    copied_scalars: dict[str, int | float]  # which k-Wave copies into its output
    version: tuple[int, int]  # of the file's format: (1, 0) to (1, 2)


def read_input(path: str | Path, device: Device | None = None) -> KWaveInput:
    """Read and check an input file.

    Parameters
    ----------
    path : str or Path
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
        contents = _Contents(file, version)
        problem = contents.problem()
        sensor = contents.sensor(problem)
    check(problem, dataset_names(file.path), first_index=1)
    if sensor is not None:
        name = "sensor_mask_corners" if isinstance(sensor, Cuboids) else "sensor_mask_index"
        names = {"recording.where": dataset_key(file.path, name)}
        check_recording(problem, Recording(("p_raw",), sensor), names, first_index=1)
    return KWaveInput(file.path, problem, sensor, attributes, contents.copied_scalars, version)


def _check_memory(file: Reader, version: tuple[int, int], device: Device | None) -> None:
    """Refuse what does not fit, by the shapes of the datasets and before any is read."""
    from wavefabric.acoustics.choose_stages import needed_bytes

    file.outline = True
    contents = _Contents(file, version)
    problem = contents.problem()
    contents.sensor(problem)
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
    given = f"{' and '.join(parts)} of memory"
    raise InputError(f"{file.path}: {given}; allowed: the {free / 2**30:.1f} GiB that are free")


def dataset_names(path: str | Path) -> dict[str, str]:
    """What errors of `check` call each number: its dataset in a file."""
    names = {
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
    return {key: dataset_key(path, name) for key, name in names.items()}


def _header(file: Reader) -> tuple[dict[str, str], tuple[int, int]]:
    """The root's attributes, and the version of the format."""
    attributes = file.attributes()
    if attributes.get("format") == "wavefabric result":
        raise InputError(f"{file.path}: is a result of wavefabric; allowed: a k-Wave input file")
    wanted = {
        "file_type": (("input",), "'input' (a k-Wave input file)"),
        "major_version": (("1",), "1"),
        "minor_version": (("0", "1", "2"), "0 or 1 or 2"),
    }
    for name, (values, allowed) in wanted.items():
        if attributes.get(name) not in values:
            given = f"'{attributes[name]}'" if name in attributes else "is missing"
            raise InputError(f"{file.path}: attribute '{name}': {given}; allowed: {allowed}")
    return attributes, (1, int(attributes["minor_version"]))


class _Contents:
    """Reads problem and sensor of a file, and keeps the scalars that go into the output too."""

    def __init__(self, file: Reader, version: tuple[int, int]):
        self._file, self._version = file, version
        self.copied_scalars: dict[str, int | float] = {}

    def _count(self, name: str, highest: int = MAX_POINTS) -> int:
        value = self._file.scalar(name, "long")
        if value > highest:
            raise self._file.fault(name, str(value), f"0 to {highest}")
        self.copied_scalars[name] = value
        return value

    def _number(self, name: str) -> float:
        value = self._file.scalar(name, "float")
        self.copied_scalars[name] = value
        return value

    def problem(self) -> Problem:
        """Grid, medium and sources."""
        file = self._file
        shape = self._shape()
        axes = AXES[:2] if shape[2] == 1 else AXES
        fill = 3 - len(axes)
        # In the order of k-Wave's own files, which the output keeps.
        grid: dict[str, Any] = {"shape": shape, "steps": self._count("Nt"), "dt": self._number("dt")}
        grid["spacing"] = (*(self._number(f"d{a}") for a in axes), *[1.0] * fill)
        grid["reference_speed"] = self._number("c_ref")
        grid["pml_size"] = (*(self._count(f"pml_{a}_size") for a in axes), *[0] * fill)
        grid["pml_alpha"] = (*(self._number(f"pml_{a}_alpha") for a in axes), *[0.0] * fill)
        flags = {
            name: self._count(f"{name}_source_flag") for name in (*(f"u{a}" for a in axes), "transducer", "p")
        }
        p0 = self._count("p0_source_flag", 1)
        if self._count("nonuniform_grid_flag"):
            raise file.fault("nonuniform_grid_flag", "the grid is nonuniform", "0, a uniform grid")
        absorbing, nonlinear = self._count("absorbing_flag", 2), self._count("nonlinear_flag", 1)
        self._check_cartesian()
        memory = shape[::-1]
        medium = self._medium(axes, memory, absorbing, nonlinear)
        velocity, transducer = self._velocity(flags, axes)
        return Problem(
            **grid,
            **medium,
            velocity_source=velocity,
            transducer=transducer,
            initial_pressure=file.array("p0_source_input", "float", memory) if p0 else None,
            pressure_source=self._pressure(flags["p"]),
        )

    def _shape(self) -> tuple[int, int, int]:
        shape = tuple(self._count(f"N{a}") for a in AXES)
        for axis, size, lowest in zip(AXES, shape, (2, 2, 1), strict=True):
            if size < lowest:
                raise self._file.fault(f"N{axis}", str(size), f"a whole number from {lowest}")
        if math.prod(shape) > MAX_POINTS:
            points = " x ".join(map(str, shape))
            raise self._file.fault("Nx", f"{points} grid points", f"up to {MAX_POINTS}")
        return shape  # type: ignore[return-value]

    def _check_cartesian(self) -> None:
        if self._version < (1, 2) and "axisymmetric_flag" not in self._file:
            self.copied_scalars["axisymmetric_flag"] = 0
        elif self._count("axisymmetric_flag"):
            raise self._file.fault("axisymmetric_flag", "the grid is axisymmetric", "0, a Cartesian grid")

    def _medium(self, axes: str, grid: tuple[int, ...], absorbing: int, nonlinear: int) -> dict[str, Any]:
        """The medium's part of a `Problem`, by the names of its parameters; ``grid`` is (Nz, Ny, Nx)."""
        density = self._field("rho0", grid)
        staggered = tuple(self._field(f"rho0_sg{axis}", grid) for axis in axes)
        for axis, value in zip(axes, staggered, strict=True):
            if isinstance(value, float) != isinstance(density, float):
                kinds = ["one number" if isinstance(v, float) else "an array" for v in (value, density)]
                raise self._file.fault(f"rho0_sg{axis}", f"is {kinds[0]}, rho0 is {kinds[1]}", "both alike")
        return {
            "density": density,
            "density_staggered": staggered,
            "absorption": ABSORPTION[absorbing],
            "alpha_coeff": self._field("alpha_coeff", grid) if absorbing else 0.0,
            "alpha_power": self._file.scalar("alpha_power", "float") if absorbing else 0.0,
            "sound_speed": self._field("c0", grid),
            "nonlinearity": self._field("BonA", grid) if nonlinear else None,
        }

    def _field(self, name: str, grid: tuple[int, ...]) -> float | np.ndarray:
        array = self._file.array(name, "float", (1, 1, 1), grid)
        return float(array[0, 0, 0]) if array.shape == (1, 1, 1) else array

    def _index(self, name: str) -> np.ndarray:
        """Indices or delays of a file, 0-based."""
        index = self._file.array(name, "long", (1, 1, "points")).reshape(-1)
        if self._file.outline:  # zeros, perhaps more than can be looked at
            return np.broadcast_to(np.zeros((), np.int64), index.shape)
        if index.max() > np.uint64(2**62):
            raise self._file.fault(name, f"{index.max()}", f"1 to {MAX_POINTS}")
        return index.astype(np.int64) - 1

    def _settings(self, letter: str) -> tuple[bool, SourceMode]:
        """Whether a source has a signal for each point, and its mode."""
        many = self._count(f"{letter}_source_many", 1)
        return bool(many), MODES[self._count(f"{letter}_source_mode", 2)]

    def _signal(self, name: str, flag: int, columns: int) -> np.ndarray:
        signal = self._file.array(name, "float", (1, "steps", columns))[0]
        if len(signal) < flag:
            steps = f"has {len(signal)} time steps"
            raise self._file.fault(name, steps, f"{flag} or more, as its source flag says")
        return signal[:flag]

    def _pressure(self, flag: int) -> PressureSource | None:
        if not flag:
            return None
        many, mode = self._settings("p")
        index = self._index("p_source_index")
        return PressureSource(index, self._signal("p_source_input", flag, index.size if many else 1), mode)

    def _velocity(
        self, flags: dict[str, int], axes: str
    ) -> tuple[VelocitySource | None, TransducerSource | None]:
        on, steps = any(flags[f"u{a}"] for a in axes), flags["transducer"]
        if not on and not steps:
            return None, None
        index = self._index("u_source_index")
        velocity = transducer = None
        if on:
            many, mode = self._settings("u")
            columns = index.size if many else 1
            signals = tuple(
                self._signal(f"u{a}_source_input", flags[f"u{a}"], columns) if flags[f"u{a}"] else None
                for a in axes
            )
            velocity = VelocitySource(index, signals, mode)
        if steps:
            delay = self._index("delay_mask")
            signal = self._file.array("transducer_source_input", "float", (1, 1, "steps")).reshape(-1)
            transducer = TransducerSource(index, delay, signal, steps)
        return velocity, transducer

    def sensor(self, problem: Problem) -> np.ndarray | Cuboids | None:
        """Where to record."""
        file, old = self._file, self._version < (1, 1)
        if not any(
            f"sensor_mask_{part}" in file for part in (("index",) if old else ("type", "index", "corners"))
        ):
            return None
        kind = 0 if old else file.scalar("sensor_mask_type", "long")
        if kind == 0:
            return self._index("sensor_mask_index")
        if kind != 1:
            raise file.fault("sensor_mask_type", str(kind), "0 (index) or 1 (corners)")
        corners = file.array("sensor_mask_corners", "long", (1, "cuboids", 6))[0]
        if file.outline:
            return None
        if corners.max() > np.uint64(MAX_POINTS):
            raise file.fault("sensor_mask_corners", f"{corners.max()}", f"up to {max(problem.shape)}")
        corners = corners.astype(np.int64) - 1
        return Cuboids(np.ascontiguousarray(corners[:, :3]), np.ascontiguousarray(corners[:, 3:]))
