"""A `Problem` as k-Wave's input file, format 1.2, so that k-Wave can run it too."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np

import wavefabric
from wavefabric.acoustics.check.rules import PYTHON_NAMES, check, check_recording
from wavefabric.acoustics.kwave.format import (
    ABSORPTION,
    AXES,
    DATASETS,
    MODES,
    kind_of,
    put,
    put_attribute,
    sensor_datasets,
)
from wavefabric.acoustics.problem import Cuboids, Interpolation, Problem, Recording
from wavefabric.errors import InputError
from wavefabric.files.output import check_output, replacing


def write_input(
    path: str | Path,
    problem: Problem,
    sensor: np.ndarray | Cuboids | Interpolation | None,
    *,
    force: bool = False,
    description: str = "",
) -> Path:
    """Write a problem as a file that k-Wave reads. Numbers become float32.

    Parameters
    ----------
    path : str or Path
    problem : Problem
    sensor : ndarray of int64 (flat grid indices), Cuboids or None
        Where to record. k-Wave itself will not run a file without one.
    force : bool
        Replace a file that is there.
    description : str
        Kept in the file.

    Raises
    ------
    InputError
        If the file cannot be written, a number is out of its range, also once it is float32, or the
        format has no place for something: points between those of the grid, absorption without
        dispersion, a transducer and a velocity source at different points.
    """
    path = check_output(path, force, "path")
    check(problem)
    if isinstance(sensor, Interpolation):
        raise InputError("sensor.mask: points between those of the grid; allowed: grid points or cuboids")
    if sensor is not None:
        check_recording(problem, Recording(("p_raw",), sensor))
    if problem.absorption == "power_law" and not problem.dispersion:
        raise InputError("medium.dispersion: False; allowed: True, k-Wave's files have no such switch")
    header = {
        "created_by": f"wavefabric {wavefabric.__version__}",
        "creation_date": time.strftime("%Y-%m-%d %H:%M:%S"),
        "file_description": description,
        "file_type": "input",
        "major_version": "1",
        "minor_version": "2",
    }
    contents = _grid(problem) | _medium(problem) | _sources(problem)
    contents |= {} if sensor is None else sensor_datasets(sensor)
    with replacing(path) as partial, h5py.File(partial, "w", libver=("earliest", "v110")) as file:
        for name, text in header.items():
            put_attribute(file, name, text)
        for name, value in contents.items():
            put(file, name, value if kind_of(name) == "long" else _single(name, value))
    return path


def _grid(problem: Problem) -> dict[str, Any]:
    contents: dict[str, Any] = {f"N{axis}": n for axis, n in zip(AXES, problem.shape, strict=True)}
    contents |= {"Nt": problem.steps, "dt": problem.dt, "c_ref": problem.reference_speed}
    for i, axis in enumerate(AXES[: problem.dimensions]):
        contents[f"d{axis}"] = problem.spacing[i]
        contents[f"pml_{axis}_size"] = problem.pml_size[i]
        contents[f"pml_{axis}_alpha"] = problem.pml_alpha[i]
    # The last is read by k-Wave's MATLAB side only.
    return contents | dict.fromkeys(("nonuniform_grid_flag", "axisymmetric_flag", "elastic_flag"), 0)


def _medium(problem: Problem) -> dict[str, Any]:
    names = ("rho0", *(f"rho0_sg{axis}" for axis in AXES[: problem.dimensions]))
    densities = (problem.density, *problem.density_staggered)
    if any(np.ndim(density) for density in densities):
        # The format wants all of them alike.
        densities = tuple(np.broadcast_to(density, problem.array_shape) for density in densities)
    contents = {"c0": problem.sound_speed, **dict(zip(names, densities, strict=True))}
    contents["nonlinear_flag"] = int(problem.nonlinearity is not None)
    if problem.nonlinearity is not None:
        contents["BonA"] = problem.nonlinearity
    contents["absorbing_flag"] = ABSORPTION.index(problem.absorption)
    if problem.absorption != "none":
        contents |= {"alpha_coeff": problem.alpha_coeff, "alpha_power": problem.alpha_power}
    return contents


def _sources(problem: Problem) -> dict[str, Any]:
    contents: dict[str, Any] = {"p0_source_flag": int(problem.initial_pressure is not None)}
    if problem.initial_pressure is not None:
        contents["p0_source_input"] = problem.initial_pressure
    pressure = problem.pressure_source
    contents["p_source_flag"] = len(pressure.signal) if pressure else 0
    if pressure:
        contents["p_source_mode"] = MODES.index(pressure.mode)
        contents["p_source_many"] = int(pressure.signal.shape[1] > 1)
        contents["p_source_index"] = pressure.index[None, None] + 1
        contents["p_source_input"] = pressure.signal[None]
    return contents | _velocity(problem) | _transducer(problem)


def _velocity(problem: Problem) -> dict[str, Any]:
    velocity, contents = problem.velocity_source, {}
    signals = velocity.signals if velocity else (None,) * problem.dimensions
    many = any(signal is not None and signal.shape[1] > 1 for signal in signals)
    for axis, signal in zip(AXES, signals, strict=False):
        contents[f"u{axis}_source_flag"] = 0 if signal is None else len(signal)
        if velocity and signal is not None:
            # One switch serves all axes.
            columns = velocity.index.size if many else 1
            contents[f"u{axis}_source_input"] = np.broadcast_to(signal, (len(signal), columns))[None]
    if velocity:
        contents["u_source_mode"] = MODES.index(velocity.mode)
        contents["u_source_many"] = int(many)
        contents["u_source_index"] = velocity.index[None, None] + 1
    return contents


def _transducer(problem: Problem) -> dict[str, Any]:
    velocity, transducer = problem.velocity_source, problem.transducer
    if transducer is None:
        return {"transducer_source_flag": 0}
    if velocity and not np.array_equal(velocity.index, transducer.index):
        raise InputError(
            "source.transducer.mask: other points than those of the velocity source; "
            "allowed: the same points, k-Wave's files hold one list for both"
        )
    return {
        "transducer_source_flag": transducer.steps,
        "u_source_index": transducer.index[None, None] + 1,
        "delay_mask": transducer.delay[None, None] + 1,
        "transducer_source_input": transducer.signal[None, None],
    }


def _single(name: str, value: Any) -> np.ndarray:
    """Numbers as float32, which must be able to hold them."""
    with np.errstate(over="ignore", under="ignore"):
        single = np.asarray(value, np.float32)
    # A Δt that becomes 0 is as lost as one that becomes infinite.
    vanished = not single.ndim and single == 0 and value != 0
    if vanished or not (np.isfinite(single.min()) and np.isfinite(single.max())):
        actual = "has values beyond float32" if single.ndim else f"{value:g}"
        raise InputError(f"{PYTHON_NAMES[DATASETS[name]]}: {actual}; allowed: what float32 can hold")
    return single
