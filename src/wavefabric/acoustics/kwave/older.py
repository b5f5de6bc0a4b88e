"""Provides k-wave-python's older functions, ``kspaceFirstOrder3D`` and similar ones, on this solver.

Objects are read as by `kspaceFirstOrder`, including data that k-wave-python does not write into k-Wave's
input file. Otherwise the run follows k-Wave's C++ programs: an input file is written and run in single
precision, and the contents of the output file are returned as k-wave-python reads them.
"""

import copy
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.kwave.drop_in import KSpaceOptions, kspaceFirstOrder, name_once, save_input
from wavefabric.acoustics.kwave.input import read_input
from wavefabric.acoustics.kwave.objects import from_kwave
from wavefabric.acoustics.kwave.older_options import (
    ChosenSize,
    is_axisymmetric,
    keywords,
    recorded,
    require_files,
)
from wavefabric.acoustics.kwave.run_input import KWaveFileSettings, run_input
from wavefabric.acoustics.kwave.values import (
    PROBLEM_NAMES,
    grid_shape,
    grid_values,
    kwave_names,
    plain,
    real_array,
)
from wavefabric.acoustics.recording.quantities import vector_of
from wavefabric.acoustics.run_checks import warn_of
from wavefabric.acoustics.source import Source
from wavefabric.base.errors import InputError, require
from wavefabric.base.system.compilation_clock import CLOCK

#: Names in messages of `run_input`; no option runs an unstable step.
_NAMES = {**PROBLEM_NAMES, "check_stability=False": "", "where": ""}
#: Points farther than this from grid points, in spacings, count as between them.
_BETWEEN = 1e-3


def _function(
    name: str, dimensions: int, device: str | None = None, axisymmetric: bool = False
) -> Callable[..., dict[str, Any]]:
    """Return k-wave-python's older function ``name``; it runs only on ``device``, if this is not None."""

    def run(
        kgrid: Any, source: Any, sensor: Any, medium: Any, simulation_options: Any, execution_options: Any
    ) -> dict[str, Any]:
        shape, simulation, execution = grid_shape(kgrid), simulation_options, execution_options
        require(len(shape) == dimensions, "kgrid.N", list(shape), f"{dimensions} numbers with {name}")
        kind = is_axisymmetric(simulation, axisymmetric, dimensions)
        timed = _timed(kgrid, medium, source)
        objects = timed, medium, source, sensor
        options = keywords(simulation, execution, shape, kind, device)
        if dimensions == 1 or (execution.is_python_backend and not kind):
            results = kspaceFirstOrder(*objects, **options)
        else:
            results = _run_as_program(objects, simulation, execution, KSpaceOptions(shape, **options), kind)
        if timed is not kgrid:  # k-wave-python stores the time step it computed, and scripts read it
            kgrid.Nt, kgrid.dt = timed.Nt, timed.dt
        for axis, size in zip("xyz", options["pml_size"], strict=False):
            if isinstance(getattr(simulation, f"pml_{axis}_size", None), ChosenSize | None):
                setattr(simulation, f"pml_{axis}_size", ChosenSize(size))
        return results

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"""k-wave-python's ``{name}``: {dimensions}-D; the same arguments and results.

    The run is in single precision, except with ``backend="python"`` and in 1-D: then results are those of
    `kspaceFirstOrder`. Options without effect are named once. The objects stay as they are; only time and PML
    sizes that were left open are put where k-wave-python puts them, in ``kgrid`` and ``SimulationOptions``.
    `InputError`: an object or option is wrong, or has no counterpart here.

    Returns
    -------
    dict
        All datasets of k-Wave's output file, axes reversed: ``p`` (Nt, points), points in the order of
        Fortran; ``p_final`` (Ny, Nx) or (Nz, Ny, Nx). Of cuboids an array of arrays, (Nt, z, y, x) each.
    """
    return run


def _run_as_program(
    objects: tuple[Any, ...], simulation: Any, execution: Any, options: KSpaceOptions, axisymmetric: bool
) -> dict[str, Any]:
    """Write k-Wave's input file, run it like k-Wave's program, and return the contents of the output."""
    kgrid, medium, source, sensor = objects
    start_time = time.perf_counter()
    read = {**options.objects, "signal_order": "F", "axisymmetric": axisymmetric}
    run: dict[str, Any] = {**options.run, "precision": "single", "record": recorded(sensor)}
    require_files(simulation, "simulation_options", "input_filename", "output_filename")
    keeps_files = simulation.save_to_disk_exit or not execution.delete_data
    if axisymmetric and plain(getattr(medium, "alpha_power", None)) not in (None, 2):
        name_once("medium.alpha_power", "absorption on an axisymmetric grid is that of the power 2")
    with kwave_names():
        if read.get("smooth_p0", True):
            source = _with_smooth_p0(source, grid_shape(kgrid), axisymmetric)
        read["smooth_p0"] = False
        listening = _at_grid_points(sensor, kgrid, simulation, axisymmetric)
        problem, recording = from_kwave(kgrid, medium, source, listening, **read)
        switches = {name: getattr(problem, name) for name in ("dispersion", "k_space", "staggered")}
        # A file that is kept must be complete; a temporary one omits switches that the format lacks.
        written = problem if keeps_files else replace(problem, **dict.fromkeys(switches, True))
        path = save_input(simulation.input_filename, written, recording)
        if simulation.save_to_disk_exit:
            warn_of(problem, PROBLEM_NAMES)
            return {}
        try:
            contents, output = read_input(path), Path(simulation.output_filename)
            contents = replace(contents, problem=replace(contents.problem, **switches))
            settings = KWaveFileSettings(force=True, names=_NAMES, start=recording.start + 1, **run)
            with CLOCK.announcing("progress" in run):
                run_input(contents, output, settings, start_time)
            results = _read_output(output, crop=not simulation.pml_inside)
            if execution.delete_data:
                output.unlink(missing_ok=True)
            return results
        finally:
            if execution.delete_data:
                path.unlink(missing_ok=True)


def _timed(kgrid: Any, medium: Any, source: Any) -> Any:
    """Return the kWaveGrid with time step and number of steps set, by ``makeTime`` if they are missing.

    As in k-wave-python, ``makeTime`` is used for an initial pressure only; signals need a known time step.
    """
    signals = ("p", "ux", "uy", "uz", "stored_input_signal")
    driven = any(getattr(source, name, None) is not None for name in signals)
    unset = isinstance(getattr(kgrid, "dt", None), str) or isinstance(getattr(kgrid, "Nt", None), str)
    if not unset or driven or not hasattr(kgrid, "makeTime"):
        return kgrid
    timed = copy.copy(kgrid)
    timed.makeTime(real_array(getattr(medium, "sound_speed", None), "medium.sound_speed"))
    return timed


def _with_smooth_p0(source: Any, shape: tuple[int, ...], axisymmetric: bool) -> Any:
    """Return a copy of the source with the initial pressure smoothed on the grid without a PML outside."""
    grid = Grid(shape, 1.0, pml_size=0, axisymmetric=axisymmetric)
    p0 = grid_values(getattr(source, "p0", None), grid, "source.p0", allows_number=False)
    if p0 is None:
        return source
    source = copy.copy(source)
    source.p0 = grid.from_memory(Source(p0=p0).on(grid, 1.0, 1.0)["initial_pressure"])
    return source


def _at_grid_points(sensor: Any, kgrid: Any, simulation: Any, axisymmetric: bool) -> Any:
    """Return a copy of the sensor with Cartesian points moved to grid points, and without ``record``.

    The grid points are the nearest ones, each once, in Fortran order, as in k-Wave's programs.
    """
    if not hasattr(sensor, "record"):
        return sensor
    sensor = copy.copy(sensor)
    sensor.record = None  # the output file has other names for the quantities
    shape, mask = grid_shape(kgrid), getattr(sensor, "mask", None)
    positions = np.zeros(0) if mask is None else real_array(mask, "sensor.mask")
    if positions.shape == shape or positions.ndim != 2 or positions.shape[0] != len(shape):
        return sensor
    spacing = real_array(kgrid.spacing, "kgrid.spacing").ravel()
    grid = Grid(shape, spacing.tolist(), pml_size=0, axisymmetric=axisymmetric)
    steps = positions / spacing[:, None] + np.array(grid.origin)[:, None]
    nearest = np.round(steps)
    inside = ((nearest.T >= 0) & (np.array(shape) > nearest.T)).all(axis=1)
    if not inside.all():
        first = positions[:, np.argmin(inside)].tolist()
        ends = [x[[0, -1]].tolist() for x in grid.coordinates]
        raise InputError(f"sensor.mask: the point {first} m; allowed: {ends} m along each axis")
    interpolation = {getattr(simulation, name, "linear") for name in ("cart_interp", "cartesian_interp")}
    if "nearest" not in interpolation and np.abs(steps - nearest).max() > _BETWEEN:
        why = "as by k-Wave's programs the nearest grid points record; kspaceFirstOrder interpolates"
        name_once("cartesian_interp='linear'", why)
    sensor.mask = np.zeros(shape, bool)
    sensor.mask[tuple(nearest.astype(int))] = True
    return sensor


def _read_output(path: Path, crop: bool) -> dict[str, Any]:
    """Read all datasets of k-Wave's output file, without axes of length 1, as k-wave-python returns them.

    A dataset of cuboids becomes an array of arrays, one per cuboid. ``crop`` removes the PML from the
    quantities of the whole domain.
    """
    output: dict[str, Any] = {}
    with h5py.File(path) as file:
        for name, item in file.items():
            if isinstance(item, h5py.Dataset):
                output[name] = item[()].squeeze()
                continue
            output[name] = np.empty(len(item), object)
            for i in range(len(item)):
                output[name][i] = item[str(i + 1)][()].squeeze()
    if crop:
        lower = {axis: int(output.get(f"pml_{axis}_size", 0)) for axis in "xyz"}
        upper = {axis: int(output[f"N{axis}"]) - lower[axis] for axis in "xyz"}
        lower["y"] *= not output["axisymmetric_flag"]
        for name, array in output.items():
            if vector_of(name).endswith(("_all", "_final")):
                axes = "zyx"[-array.ndim :]
                output[name] = array[tuple(slice(lower[axis], upper[axis]) for axis in axes)]
    return output


kspaceFirstOrder1D = _function("kspaceFirstOrder1D", 1)
kspaceFirstOrder2D = _function("kspaceFirstOrder2D", 2)
kspaceFirstOrder2DC = _function("kspaceFirstOrder2DC", 2, "cpu")
kspaceFirstOrder2DG = _function("kspaceFirstOrder2DG", 2, "gpu")
kspace_first_order_2d_gpu = _function("kspace_first_order_2d_gpu", 2, "gpu")
kspaceFirstOrder3D = _function("kspaceFirstOrder3D", 3)
kspaceFirstOrder3DC = _function("kspaceFirstOrder3DC", 3, "cpu")
kspaceFirstOrder3DG = _function("kspaceFirstOrder3DG", 3, "gpu")
kspaceFirstOrderAS = _function("kspaceFirstOrderAS", 2, axisymmetric=True)
kspaceFirstOrderASC = _function("kspaceFirstOrderASC", 2, "cpu", axisymmetric=True)
