"""``SimulationOptions`` and ``SimulationExecutionOptions`` of k-wave-python's older functions as keywords."""

from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.acoustics.arguments import is_whole, require
from wavefabric.acoustics.grid import auto_pml_size
from wavefabric.acoustics.kwave.drop_in import name_once
from wavefabric.acoustics.kwave.values import each_axis, plain
from wavefabric.acoustics.sensor import record_names, recorded_quantities
from wavefabric.lifecycle.checkpoint.when import Checkpoints
from wavefabric.system.progress_bar import terminal_bar

#: Options of which only these values can be computed; the first is k-wave-python's default.
_ONLY = {
    "use_fd": (None,),
    "use_finite_difference": (False,),
    "data_cast": ("off", "single", "double"),
    "cart_interp": ("linear", "nearest"),
    "cartesian_interp": ("linear", "nearest"),
}
#: Options that have no effect: values that are not worth a word, and why.
_WITHOUT_EFFECT = {
    "stream_to_disk": ((False,), "what is recorded goes to the output file during the run"),
    "create_log": ((False,), "no log is written"),
    "multi_axial_PML_ratio": ((0.1,), "elastic media alone have it"),
    "hdf_compression_level": ((0,), "input files are not compressed"),
    "thread_binding": ((), "threads are not bound to cores"),
    "system_call": ((), "no program is started"),
    "_binary_path": ((), "no k-Wave program is started"),
    "_binary_dir": ((), "no k-Wave program is started"),
    "_binary_name": (("kspaceFirstOrder-OMP", "kspaceFirstOrder-CUDA"), "no k-Wave program is started"),
    "kwave_function_name": (("kspaceFirstOrder3D",), "the function called counts"),
    "auto_chunking": ((True,), "input files are read at once"),
}
_FLAGS = ("pml_inside", "smooth_p0", "smooth_c0", "smooth_rho0", "scale_source_terms", "use_sg", "use_kspace")
_MOST_SEARCHED = 1000
_PML_ALPHA = 2.0
#: k-wave-python makes them of these, which it records as well.
_INTENSITY, _MADE_OF = {"I", "I_avg"}, {"p", "u_non_staggered"}


class ChosenSize(int):
    """A PML size that a run has chosen and noted in the options, where scripts read it; not an option."""


def check_options(simulation: Any, execution: Any) -> None:
    """Refuse options that cannot be computed, and name those without effect once."""
    for name, allowed in _ONLY.items():
        value = plain(getattr(simulation, name, allowed[0]))
        right = value is None or isinstance(value, str | bool)
        words = ", ".join(map(repr, allowed))
        require(right and value in allowed, f"simulation_options.{name}", value, words)
    for name in (*_FLAGS, "pml_auto", "data_recast", "save_to_disk_exit"):
        value = getattr(simulation, name, False)
        require(isinstance(value, bool), f"simulation_options.{name}", value, "True or False")
    for options in (simulation, execution):
        for name, (usual, why) in _WITHOUT_EFFECT.items():
            value = plain(getattr(options, name, None))
            if value is not None and value not in usual:
                name_once(name.lstrip("_"), why)


def is_axisymmetric(simulation: Any, function: bool, dimensions: int) -> bool:
    """Whether the grid is axisymmetric: by the function, or by the options' simulation type."""
    kind = getattr(simulation, "simulation_type", None)
    kind = getattr(kind, "name", "FLUID" if kind is None else kind)
    allowed = ("FLUID", "AXISYMMETRIC") if dimensions == 2 else ("FLUID",)
    require(kind in allowed, "simulation_options.simulation_type", kind, " or ".join(allowed))
    axisymmetric = function or kind == "AXISYMMETRIC"
    symmetry = getattr(simulation, "radial_symmetry", "WSWA")
    right = not axisymmetric or symmetry in ("WSWA", "WSWA-FFT")
    require(right, "simulation_options.radial_symmetry", symmetry, "'WSWA' or 'WSWA-FFT'")
    return axisymmetric


def object_options(simulation: Any, shape: tuple[int, ...], axisymmetric: bool) -> dict[str, Any]:
    """Keywords of `from_kwave`; sources have their rows in the order of Fortran."""
    flags = {name: getattr(simulation, name) for name in _FLAGS if hasattr(simulation, name)}
    sizes = _pml_sizes(simulation, shape, 10 if len(shape) == 3 else 20, axisymmetric)
    pml = {"pml_size": sizes, "pml_alpha": _pml_alphas(simulation, len(shape))}
    return {**flags, **pml, "signal_order": "F", "axisymmetric": axisymmetric}


def python_options(simulation: Any, execution: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    """Keywords of `kspaceFirstOrder`, for ``backend="python"``."""
    right = not getattr(simulation, "save_to_disk_exit", False)
    require(right, "simulation_options.save_to_disk_exit", True, "False with backend='python' and in 1-D")
    options = {name: getattr(simulation, name) for name in _FLAGS if hasattr(simulation, name)}
    options["pml_size"] = _pml_sizes(simulation, shape, 20, False)
    options["pml_alpha"] = _pml_alphas(simulation, len(shape))
    single = getattr(simulation, "data_cast", "off") == "single"
    return options | {
        "dtype": "single" if single else None,
        "device": "gpu" if execution.is_gpu_simulation else "cpu",
        "device_num": execution.device_num,
        "num_threads": execution.num_threads if execution.num_threads_explicit else None,
        "checkpoint": _checkpoints(execution),
        "quiet": not execution.show_sim_log,
    }


def _pml_sizes(simulation: Any, shape: tuple[int, ...], default: int, axisymmetric: bool) -> tuple[Any, ...]:
    """Points of the PML along each axis: chosen, ``pml_size``, or each axis its own."""
    key, size = "simulation_options.pml_size", plain(getattr(simulation, "pml_size", None))
    each = [getattr(simulation, f"pml_{axis}_size", None) for axis in "xyz"[: len(shape)]]
    each = [None if isinstance(one, ChosenSize) else plain(one) for one in each]
    unset = size is None and each == [None] * len(shape)
    # k-wave-python chooses for axisymmetric grids; as it does, as if the radius had a PML at both ends.
    if getattr(simulation, "pml_auto", False) or (axisymmetric and unset):
        low, high = _search_range(simulation)
        return tuple(auto_pml_size(n, range(low, high + 1)) for n in shape)
    if size is None:
        return tuple(default if one is None else one for one in each)
    sizes = each_axis(size, len(shape), key)
    right = not isinstance(size, list | tuple) or len(size) in (1, len(shape))
    require(right, key, size, f"one number, or one an axis ({len(shape)})")
    for axis, one, other in zip("xyz", each, sizes, strict=False):
        allowed = f"None, or {other} as pml_size says"
        require(one is None or one == other, f"simulation_options.pml_{axis}_size", one, allowed)
    return sizes


def _search_range(simulation: Any) -> tuple[int, int]:
    given = plain(getattr(simulation, "pml_search_range", [10, 40]))
    right = isinstance(given, list | tuple) and len(given) == 2 and all(map(is_whole, given))
    right = right and 0 <= given[0] <= given[1] <= _MOST_SEARCHED
    allowed = f"two whole numbers, the lower first, from 0 to {_MOST_SEARCHED}"
    require(right, "simulation_options.pml_search_range", given, allowed)
    return given[0], given[1]


def _pml_alphas(simulation: Any, dimensions: int) -> tuple[Any, ...]:
    """Absorption of the PML along each axis.

    k-wave-python copies ``pml_alpha`` to each axis when options are made. If ``pml_alpha`` is set later, the
    three copies are still alike: it counts then, unless it has its default, so that the axes were set.
    """
    whole = plain(getattr(simulation, "pml_alpha", _PML_ALPHA))
    alphas = each_axis(whole, dimensions, "simulation_options.pml_alpha")
    each = [plain(getattr(simulation, f"pml_{axis}_alpha", None)) for axis in "xyz"]
    if whole != _PML_ALPHA and each == each[:1] * 3:
        return alphas
    return tuple(alpha if one in (None, whole) else one for one, alpha in zip(each, alphas, strict=False))


def _checkpoints(execution: Any) -> Checkpoints | None:
    seconds, steps = execution.checkpoint_interval, execution.checkpoint_timesteps
    if execution.checkpoint_file is None:
        for name, value in (("checkpoint_interval", seconds), ("checkpoint_timesteps", steps)):
            if value is not None:
                name_once(name, "there is no checkpoint_file")
        return None
    interval = Checkpoints.interval if seconds is None else float(seconds)
    return Checkpoints(Path(execution.checkpoint_file), interval, steps)


def file_options(sensor: Any, execution: Any, device: str | None) -> dict[str, Any]:
    """Keywords of `run_kwave_file` for a sensor and execution options."""
    on_gpu = execution.is_gpu_simulation if device is None else device == "gpu"
    number = execution.device_num
    options: dict[str, Any] = {
        "device": "cpu" if not on_gpu else "cuda" if number is None else f"cuda:{number}",
        "precision": "single",
        "checkpoint": _checkpoints(execution),
    }
    if execution.num_threads_explicit and not on_gpu:
        options["threads"] = execution.num_threads
    if execution.show_sim_log or execution.verbose_level:
        options["progress"] = terminal_bar()
    record = plain(getattr(sensor, "record", None))
    recorded = set(recorded_quantities("p" if record is None else record, "sensor.record"))
    names = {name for name, quantity in record_names().items() if quantity in recorded}
    options["record"] = sorted(names | (_MADE_OF if names & _INTENSITY else set()))
    return options


def note_choices(kgrid: Any, timed: Any, simulation: Any, sizes: tuple[int, ...]) -> None:
    """Put what was left to k-wave-python where it puts it, and scripts read it: time and PML."""
    if timed is not kgrid:
        kgrid.Nt, kgrid.dt = timed.Nt, timed.dt
    for axis, size in zip("xyz", sizes, strict=False):
        name = f"pml_{axis}_size"
        if isinstance(getattr(simulation, name, None), ChosenSize | None):
            setattr(simulation, name, ChosenSize(size))


def recast(results: dict[str, Any], simulation: Any) -> dict[str, Any]:
    """Results in double precision, if ``data_recast`` asks for it."""
    if not getattr(simulation, "data_recast", False):
        return results
    floats = {name: array for name, array in results.items() if np.asarray(array).dtype.kind == "f"}
    return {**results, **{name: np.asarray(array, float) for name, array in floats.items()}}
