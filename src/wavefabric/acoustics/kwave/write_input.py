"""A `Problem` as k-Wave's input file, format 1.2, so that k-Wave can run it too."""

from __future__ import annotations

import time
from pathlib import Path

import h5py
import numpy as np

import wavefabric
from wavefabric.acoustics.check.rules import PYTHON_NAMES, check, check_recording
from wavefabric.acoustics.kwave.format import (
    ABSORPTION,
    AXES,
    MODES,
    corners_from_one,
    put_array,
    put_attribute,
    put_indices,
    put_scalar,
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
    with replacing(path) as partial, h5py.File(partial, "w", libver=("earliest", "v110")) as file:
        for name, text in header.items():
            put_attribute(file, name, text)
        _put_grid(file, problem)
        _put_medium(file, problem)
        _put_sources(file, problem)
        if sensor is not None:
            put_scalar(file, "sensor_mask_type", int(isinstance(sensor, Cuboids)))
        if isinstance(sensor, Cuboids):
            put_array(file, "sensor_mask_corners", corners_from_one(sensor))
        elif sensor is not None:
            put_indices(file, "sensor_mask_index", sensor)
    return path


def _put_grid(file: h5py.File, problem: Problem) -> None:
    for i, axis in enumerate(AXES):
        put_scalar(file, f"N{axis}", int(problem.shape[i]))
    put_scalar(file, "Nt", int(problem.steps))
    _put_number(file, "dt", "dt", problem.dt)
    _put_number(file, "c_ref", "reference_speed", problem.reference_speed)
    for i, axis in enumerate(AXES[: problem.dimensions]):
        _put_number(file, f"d{axis}", f"spacing.{axis}", problem.spacing[i])
        put_scalar(file, f"pml_{axis}_size", int(problem.pml_size[i]))
        _put_number(file, f"pml_{axis}_alpha", f"pml_alpha.{axis}", problem.pml_alpha[i])
    # The last is read by k-Wave's MATLAB side only.
    for name in ("nonuniform_grid_flag", "axisymmetric_flag", "elastic_flag"):
        put_scalar(file, name, 0)


def _put_medium(file: h5py.File, problem: Problem) -> None:
    _put_field(file, "c0", "sound_speed", problem.sound_speed)
    densities = (problem.density, *problem.density_staggered)
    if any(_is_array(density) for density in densities):
        # The format wants all of them alike.
        densities = tuple(np.broadcast_to(density, problem.array_shape) for density in densities)
    names = ("rho0", *(f"rho0_sg{axis}" for axis in AXES[: problem.dimensions]))
    for name, density in zip(names, densities, strict=True):
        _put_field(file, name, "density", density)
    put_scalar(file, "nonlinear_flag", int(problem.nonlinearity is not None))
    if problem.nonlinearity is not None:
        _put_field(file, "BonA", "nonlinearity", problem.nonlinearity)
    put_scalar(file, "absorbing_flag", ABSORPTION.index(problem.absorption))
    if problem.absorption != "none":
        _put_field(file, "alpha_coeff", "alpha_coeff", problem.alpha_coeff)
        _put_number(file, "alpha_power", "alpha_power", problem.alpha_power)


def _put_sources(file: h5py.File, problem: Problem) -> None:
    put_scalar(file, "p0_source_flag", int(problem.initial_pressure is not None))
    if problem.initial_pressure is not None:
        _put_field(file, "p0_source_input", "initial_pressure", problem.initial_pressure)
    pressure = problem.pressure_source
    put_scalar(file, "p_source_flag", len(pressure.signal) if pressure else 0)
    if pressure:
        put_scalar(file, "p_source_mode", MODES.index(pressure.mode))
        put_scalar(file, "p_source_many", int(pressure.signal.shape[1] > 1))
        put_indices(file, "p_source_index", pressure.index)
        _put_array(file, "p_source_input", "pressure_source.signal", pressure.signal[None])
    _put_velocity(file, problem)
    _put_transducer(file, problem)


def _put_velocity(file: h5py.File, problem: Problem) -> None:
    velocity = problem.velocity_source
    signals = velocity.signals if velocity else (None,) * problem.dimensions
    many = any(signal is not None and signal.shape[1] > 1 for signal in signals)
    for axis, signal in zip(AXES, signals, strict=False):
        put_scalar(file, f"u{axis}_source_flag", 0 if signal is None else len(signal))
        if velocity and signal is not None:
            # One switch serves all axes.
            wide = np.broadcast_to(signal, (len(signal), velocity.index.size if many else 1))
            _put_array(file, f"u{axis}_source_input", f"velocity_source.signals.{axis}", wide[None])
    if velocity:
        put_scalar(file, "u_source_mode", MODES.index(velocity.mode))
        put_scalar(file, "u_source_many", int(many))
        put_indices(file, "u_source_index", velocity.index)


def _put_transducer(file: h5py.File, problem: Problem) -> None:
    velocity, transducer = problem.velocity_source, problem.transducer
    put_scalar(file, "transducer_source_flag", int(transducer.steps) if transducer else 0)
    if transducer is None:
        return
    if velocity is None:
        put_indices(file, "u_source_index", transducer.index)
    elif not np.array_equal(velocity.index, transducer.index):
        raise InputError(
            "source.transducer.mask: other points than those of the velocity source; "
            "allowed: the same points, k-Wave's files hold one list for both"
        )
    put_indices(file, "delay_mask", transducer.delay)
    _put_array(file, "transducer_source_input", "transducer.signal", transducer.signal[None, None])


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.ndim > 0


def _put_number(file: h5py.File, name: str, key: str, value: float) -> None:
    with np.errstate(over="ignore", under="ignore"):
        single = np.float32(value)
    # A Δt that becomes 0 is as lost as one that becomes infinite.
    if not np.isfinite(single) or (single == 0 and value != 0):
        raise InputError(f"{PYTHON_NAMES[key]}: {value:g}; allowed: what float32 can hold")
    put_scalar(file, name, float(single))


def _put_field(file: h5py.File, name: str, key: str, value: float | np.ndarray) -> None:
    if _is_array(value):
        _put_array(file, name, key, value)  # type: ignore[arg-type]
    else:
        _put_number(file, name, key, value)  # type: ignore[arg-type]


def _put_array(file: h5py.File, name: str, key: str, array: np.ndarray) -> None:
    with np.errstate(over="ignore"):
        single = np.asarray(array, np.float32)
    if not (np.isfinite(single.min()) and np.isfinite(single.max())):
        raise InputError(f"{PYTHON_NAMES[key]}: has values beyond float32; allowed: up to 3.4e38")
    put_array(file, name, single)
