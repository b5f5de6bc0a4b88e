"""Converts ``SimulationOptions`` and ``SimulationExecutionOptions`` of k-wave-python to keywords."""

import math
import os
from pathlib import Path
from typing import Any

from wavefabric.acoustics.grid import auto_pml_size
from wavefabric.acoustics.kwave.drop_in import name_once
from wavefabric.acoustics.kwave.values import ObjectOptions, each_axis, plain
from wavefabric.acoustics.recording.quantities import record_names, recorded_quantities
from wavefabric.base.arguments import is_whole
from wavefabric.base.errors import require
from wavefabric.base.system.progress import terminal_bar
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import Checkpoints

#: Options of which only these values are supported; the first is the value of a missing option.
_ONLY = {
    "use_fd": (None,),
    "use_finite_difference": (False,),
    "data_cast": ("off", "single", "double"),
    "cart_interp": ("linear", "nearest"),
    "cartesian_interp": ("linear", "nearest"),
    **dict.fromkeys(("pml_inside", "pml_auto", "save_to_disk_exit", "delete_data"), (False, True)),
    **dict.fromkeys(("show_sim_log", "is_gpu_simulation"), (False, True, None)),
    "verbose_level": (0, 1, 2),
}
#: Options without effect: the values for which there is no warning, and the reason in the warning.
_WITHOUT_EFFECT = {
    "stream_to_disk": ((False,), "what is recorded goes to the output file during the run"),
    "create_log": ((False,), "no log is written"),
    "data_recast": ((False,), "results have the precision of the run"),
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
_MOST_SEARCHED, _PML_ALPHA = 1000, 2.0


class ChosenSize(int):
    """A PML size that a run selected and stored in the options for scripts to read, not set by a user."""


def is_axisymmetric(simulation: Any, function: bool, dimensions: int) -> bool:
    """Return whether the grid is axisymmetric: by the ``function`` called, or by the simulation type."""
    require(hasattr(simulation, "pml_inside"), "simulation_options", simulation, "a SimulationOptions")
    kind = getattr(simulation, "simulation_type", None)
    kind = getattr(kind, "name", "FLUID" if kind is None else kind)
    allowed = ("FLUID", "AXISYMMETRIC") if dimensions == 2 else ("FLUID",)
    require(kind in allowed, "simulation_options.simulation_type", kind, " or ".join(allowed))
    axisymmetric = function or kind == "AXISYMMETRIC"
    symmetry = getattr(simulation, "radial_symmetry", "WSWA")
    right = not axisymmetric or symmetry in ("WSWA", "WSWA-FFT")
    require(right, "simulation_options.radial_symmetry", symmetry, "'WSWA' or 'WSWA-FFT'")
    return axisymmetric


def keywords(
    simulation: Any, execution: Any, shape: tuple[int, ...], axisymmetric: bool, device: str | None
) -> dict[str, Any]:
    """Convert options to keywords of `kspaceFirstOrder`; warn of unused ones, refuse unsupported ones."""
    mark = "is_python_backend"
    require(hasattr(execution, mark), "execution_options", execution, "a SimulationExecutionOptions")
    for key, options in (("simulation_options", simulation), ("execution_options", execution)):
        for name, allowed in _ONLY.items():
            value = plain(getattr(options, name, allowed[0]))
            right = isinstance(value, str | int | None) and value in allowed
            require(right, f"{key}.{name}", value, ", ".join(map(repr, allowed)))
        for name, (usual, why) in _WITHOUT_EFFECT.items():
            value = plain(getattr(options, name, None))
            if value is not None and value not in usual:
                name_once(name.lstrip("_"), why)
    alone = execution.is_python_backend or len(shape) == 1
    right = not (alone and not axisymmetric and simulation.save_to_disk_exit)
    require(right, "simulation_options.save_to_disk_exit", True, "False with backend='python' and in 1-D")
    on_gpu = execution.is_gpu_simulation if device is None else device == "gpu"
    usual_size = 10 if len(shape) == 3 and not alone else 20
    read = ObjectOptions.__dataclass_fields__
    converted = {
        **{name: getattr(simulation, name) for name in read if hasattr(simulation, name)},
        "pml_size": _pml_sizes(simulation, shape, usual_size, axisymmetric),
        "pml_alpha": _pml_alphas(simulation, len(shape)),
        "dtype": "single" if getattr(simulation, "data_cast", "off") == "single" else None,
        "device": "gpu" if on_gpu else "cpu",
        "device_num": execution.device_num,
        "num_threads": execution.num_threads if execution.num_threads_explicit and not on_gpu else None,
        "checkpoint": _checkpoints(execution),
        "quiet": True,
    }
    shows_progress = execution.show_sim_log or execution.verbose_level
    return converted | ({"progress": terminal_bar()} if shows_progress else {})


def recorded(sensor: Any) -> list[str]:
    """Return the names of the quantities to record; intensities also need the pressure and the velocity."""
    names = plain(getattr(sensor, "record", None))
    quantities = recorded_quantities("p" if names is None else names, "sensor.record")
    record = {name for name, quantity in record_names().items() if quantity in quantities}
    return sorted(record | ({"p", "u_non_staggered"} if record & {"I", "I_avg"} else set()))


def _pml_sizes(simulation: Any, shape: tuple[int, ...], usual: int, axisymmetric: bool) -> tuple[Any, ...]:
    """Return the PML size along each axis, in points; ``usual`` is the size where no option sets one."""
    key, size = "simulation_options.pml_size", plain(getattr(simulation, "pml_size", None))
    each = [getattr(simulation, f"pml_{axis}_size", None) for axis in "xyz"[: len(shape)]]
    each = [None if isinstance(one, ChosenSize) else plain(one) for one in each]
    # As k-wave-python, select sizes for axisymmetric grids as if the radius had a PML at both ends.
    if getattr(simulation, "pml_auto", False) or (axisymmetric and size is None and not any(each)):
        ends = plain(getattr(simulation, "pml_search_range", [10, 40]))
        right = isinstance(ends, list | tuple) and len(ends) == 2 and all(map(is_whole, ends))
        right = right and 0 <= ends[0] <= ends[1] <= _MOST_SEARCHED
        allowed = f"two whole numbers, the lower first, from 0 to {_MOST_SEARCHED}"
        require(right, "simulation_options.pml_search_range", ends, allowed)
        return tuple(auto_pml_size(n, range(ends[0], ends[1] + 1)) for n in shape)
    if size is None:
        return tuple(usual if one is None else one for one in each)
    sizes = each_axis(size, len(shape), key)
    right = not isinstance(size, list | tuple) or len(size) in (1, len(shape))
    require(right, key, size, f"one number, or one an axis ({len(shape)})")
    for axis, one, other in zip("xyz", each, sizes, strict=False):
        allowed = f"None, or {other} as pml_size says"
        require(one in (None, other), f"simulation_options.pml_{axis}_size", one, allowed)
    return sizes


def _pml_alphas(simulation: Any, dimensions: int) -> tuple[Any, ...]:
    """Return the absorption of the PML along each axis.

    k-wave-python copies ``pml_alpha`` to each axis when options are created. If the three copies are equal
    and ``pml_alpha`` is not the default, ``pml_alpha`` was set later and counts; else the axes' values do.
    """
    common = plain(getattr(simulation, "pml_alpha", _PML_ALPHA))
    alphas = each_axis(common, dimensions, "simulation_options.pml_alpha")
    each = [plain(getattr(simulation, f"pml_{axis}_alpha", None)) for axis in "xyz"]
    if common != _PML_ALPHA and each == each[:1] * 3:
        return alphas
    return tuple(alpha if one in (None, common) else one for one, alpha in zip(each, alphas, strict=False))


def _checkpoints(execution: Any) -> Checkpoints | None:
    seconds, steps = execution.checkpoint_interval, execution.checkpoint_timesteps
    if execution.checkpoint_file is None:
        for name, value in (("checkpoint_interval", seconds), ("checkpoint_timesteps", steps)):
            if value is not None:
                name_once(name, "there is no checkpoint_file")
        return None
    require_files(execution, "execution_options", "checkpoint_file")
    right = seconds is None or (isinstance(seconds, int | float) and 0 <= seconds < math.inf)
    require(right, "execution_options.checkpoint_interval", seconds, "seconds, from 0")
    right = steps is None or (is_whole(steps) and steps > 0)
    require(right, "execution_options.checkpoint_timesteps", steps, "a whole number from 1")
    interval = Checkpoints.interval if seconds is None else float(seconds)
    return Checkpoints(Path(execution.checkpoint_file), interval, steps)


def require_files(options: Any, key: str, *names: str) -> None:
    """Raise `InputError` if an option is not the name of a file."""
    for name in names:
        value = getattr(options, name)
        require(isinstance(value, str | os.PathLike) and value, f"{key}.{name}", value, "the name of a file")
