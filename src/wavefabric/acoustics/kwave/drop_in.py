"""k-wave-python's simulation functions, run by this solver: a script changes one import.

`kspaceFirstOrder` takes k-wave-python's objects as they are. The older functions do as they do with k-Wave's
C++ programs: k-wave-python writes the input file, `run_kwave_file` takes the place of the program, and what
it wrote is returned as k-wave-python reads it. All names of k-wave-python are read as attributes; the package
itself is imported by the older functions alone.
"""

import importlib
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import h5py
import numpy as np

from wavefabric.acoustics.arguments import check_choice, is_whole, require
from wavefabric.acoustics.grid import auto_pml_size
from wavefabric.acoustics.kwave.input import write_input
from wavefabric.acoustics.kwave.objects import from_kwave, simulate_kwave
from wavefabric.acoustics.kwave.run_input import run_kwave_file
from wavefabric.acoustics.recording.quantities import vector_of
from wavefabric.acoustics.sensor import record_names
from wavefabric.errors import InputError
from wavefabric.lifecycle.checkpoint.when import Checkpoints
from wavefabric.system.progress_bar import terminal_bar

#: Thicknesses that ``pml_size="auto"`` chooses from.
_AUTO = range(10, 41)
#: Words for a precision.
_SINGLE, _DOUBLE = ("float32", "single"), ("float64", "double", "off", "float")
#: Not recorded by k-Wave's programs: k-wave-python makes them of p and u.
_INTENSITY = {"I", "I_avg"}
_named: set[str] = set()


def _name_once(option: str, why: str) -> None:
    """Warn of an option that has no effect, the first time that it is given."""
    if option not in _named:
        _named.add(option)
        warnings.warn(f"{option}: has no effect here: {why}", stacklevel=4)


def kspaceFirstOrder(
    kgrid: Any, medium: Any, source: Any, sensor: Any = None, **options: Any
) -> dict[str, Any]:
    """Simulate k-wave-python's objects: its function of this name, with its defaults, shapes and orders.

    Parameters
    ----------
    kgrid : kWaveGrid
        1-D, 2-D or 3-D, with ``dt`` and ``Nt`` set.
    medium, source, sensor
        As in `from_kwave`. A transducer may also be the sensor: its active elements' points are recorded.

    Other Parameters
    ----------------
    pml_size : int, sequence of int or "auto"
        Points of the PML on each side (20). ``"auto"``: from 10 to 40, whatever gives the fastest transforms.
    pml_alpha : float or sequence of float
        Absorption in the PML, Np per grid point (2).
    pml_inside : bool
        False (default): the PML is put around the grid.
    use_sg, use_kspace, smooth_p0 : bool
        Staggered grid, k-space correction, smoothing of the initial pressure in 2-D and 3-D (True).
    device : str
        ``"cpu"`` (default) or ``"gpu"``; ``device_num`` is the GPU's number.
    dtype : dtype-like
        float64 (default) or float32.
    num_threads : int, optional
        CPU threads; by default as many as suit the grid.
    quiet : bool
        False (default): progress is shown on a terminal.
    save_only, data_path : optional
        Write k-Wave's input file into the directory ``data_path`` and return its name and that of the output,
        ``input_file`` and ``output_file``.
    backend, binary_path, debug : optional
        Accepted; this solver takes the place of each backend.
    output, force, checkpoint, check_stability, progress, comm, decomposition : optional
        As in `simulate`; k-wave-python has nothing like it.

    Returns
    -------
    dict
        By default ``p`` and ``p_final``. Series have the shape (points, Nt), points in the order of C;
        whole-domain quantities lack the PML, wherever it is.

    Raises
    ------
    InputError
        As `from_kwave`; or an option is wrong.
    """
    how = _Options(**options)
    if how.save_only:
        return _saved(kgrid, medium, source, sensor, how)
    results = dict(simulate_kwave(kgrid, medium, source, sensor, **how.objects(kgrid), **how.run()))
    if how.pml_inside:
        inside = how.without_pml(kgrid)
        for name, array in results.items():
            if vector_of(name).endswith(("_final", "_all")):
                results[name] = array[inside]
    return results


class _Options:
    """The keywords of `kspaceFirstOrder`."""

    _passed_on = ("output", "force", "checkpoint", "check_stability", "progress", "comm", "decomposition")

    def __init__(
        self,
        *,
        pml_size: Any = 20,
        pml_alpha: Any = 2.0,
        pml_inside: bool = False,
        use_sg: bool = True,
        use_kspace: bool = True,
        smooth_p0: bool = True,
        **others: Any,
    ):
        self.pml_inside, self._pml_size = pml_inside, pml_size
        self._objects: dict[str, Any] = {
            "pml_alpha": pml_alpha,
            "pml_inside": pml_inside,
            "smooth_p0": smooth_p0,
            "use_sg": use_sg,
            "use_kspace": use_kspace,
        }
        self._run = {key: others.pop(key) for key in self._passed_on if key in others}
        take = others.pop
        check_choice(take("backend", "python"), ("python", "cpp"), "backend")
        device, number = take("device", "cpu"), take("device_num", None)
        check_choice(device, ("cpu", "gpu"), "device")
        right = number is None or (is_whole(number) and number >= 0)
        require(right, "device_num", number, "a whole number from 0")
        self._run["device"] = "cpu" if device == "cpu" else "cuda" if number is None else f"cuda:{number}"
        self._run["precision"] = precision(take("dtype", None))
        if (threads := take("num_threads", None)) is not None:
            self._run["threads"] = threads
        self.save_only, self.data_path = take("save_only", False), take("data_path", None)
        quiet = take("quiet", False)
        if "progress" not in self._run and not quiet:
            self._run["progress"] = terminal_bar()
        if take("binary_path", None) is not None:
            _name_once("binary_path", "no k-Wave program is started")
        take("debug", False)
        if others:
            allowed = "the keywords of k-wave-python's kspaceFirstOrder, and " + ", ".join(self._passed_on)
            raise InputError(f"{next(iter(others))}: is unknown; allowed: {allowed}")

    def objects(self, kgrid: Any) -> dict[str, Any]:
        """How the objects are read."""
        size, shape = self._pml_size, np.ravel(kgrid.N).astype(int)
        if isinstance(size, str) and size.lower() == "auto":
            size = tuple(auto_pml_size(int(n), _AUTO) for n in shape)
        size = np.ravel(size).tolist()
        # As k-wave-python: the last goes on.
        return {**self._objects, "pml_size": tuple(size + [size[-1]] * (len(shape) - len(size)))}

    def without_pml(self, kgrid: Any) -> tuple[slice, ...]:
        """The grid without a PML inside it; one that absorbs nothing is none."""
        sizes = self.objects(kgrid)["pml_size"]
        alphas = np.broadcast_to(self._objects["pml_alpha"], len(sizes))
        return tuple(
            slice(n, -n) if n and alpha else slice(None) for n, alpha in zip(sizes, alphas, strict=True)
        )

    def run(self) -> dict[str, Any]:
        """How the run goes."""
        return self._run


def precision(dtype: Any) -> Literal["single", "double"]:
    """The precision that k-wave-python's ``dtype`` or ``data_cast`` stands for."""
    name = "double" if dtype is None else dtype
    if not isinstance(name, str):
        with suppress(TypeError):
            name = np.dtype(dtype).name
    allowed = "float64 or float32"
    require(isinstance(name, str) and name in _SINGLE + _DOUBLE, "dtype", dtype, allowed)
    return "single" if name in _SINGLE else "double"


def _saved(kgrid: Any, medium: Any, source: Any, sensor: Any, how: _Options) -> dict[str, Any]:
    """Write the input file alone."""
    if how.data_path is None:
        raise InputError("data_path: is missing with save_only=True; allowed: a directory")
    problem, recording = from_kwave(kgrid, medium, source, sensor, **how.objects(kgrid))
    folder = Path(how.data_path)
    path = write_input(folder / "kwave_input.h5", problem, recording.where, force=True)
    files = {"input_file": str(path), "output_file": str(folder / "kwave_output.h5")}
    return files if how.pml_inside else {**files, "pml_size": how.objects(kgrid)["pml_size"]}


class _Older(NamedTuple):
    """An older function of k-wave-python: where it is, and in how many dimensions it simulates."""

    module: str
    name: str
    dimensions: int


def _older(function: _Older, arguments: tuple[Any, ...], device: str | None = None) -> dict[str, Any]:
    """Run one of them; ``arguments`` are kgrid, source, sensor, medium, simulation and execution options."""
    kgrid, source, sensor, medium, simulation, execution = arguments
    if execution.is_python_backend:
        return _as_python_backend(*arguments)
    module = importlib.import_module(function.module)
    # k-wave-python notes in these options what it has chosen, and scripts read it there.
    wanted = simulation.save_to_disk, simulation.save_to_disk_exit
    simulation.save_to_disk = simulation.save_to_disk_exit = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # that the function is an older one
            getattr(module, function.name)(
                kgrid=kgrid,
                source=source,
                sensor=sensor,
                medium=medium,
                simulation_options=simulation,
                execution_options=execution,
            )
    finally:
        simulation.save_to_disk, simulation.save_to_disk_exit = wanted
    if simulation.save_to_disk_exit:
        return {}
    paths = Path(simulation.input_filename), Path(simulation.output_filename)
    try:
        run_kwave_file(*paths, force=True, **_file_options(sensor, execution, device))
        return _read_output(paths[1], crop=not simulation.pml_inside)
    finally:
        if execution.delete_data:
            for path in paths:
                path.unlink(missing_ok=True)


def _file_options(sensor: Any, execution: Any, device: str | None) -> dict[str, Any]:
    """Keywords of `run_kwave_file` for a sensor and execution options."""
    if execution.thread_binding is not None:
        _name_once("thread_binding", "threads are not bound to cores")
    if execution.system_call:
        _name_once("system_call", "no program is started")
    on_gpu = execution.is_gpu_simulation if device is None else device == "gpu"
    number = execution.device_num
    options: dict[str, Any] = {
        "device": "cpu" if not on_gpu else "cuda" if number is None else f"cuda:{number}",
        "start": int(getattr(sensor, "record_start_index", None) or 1),
        "precision": "single",
    }
    if execution.num_threads_explicit and not on_gpu:
        options["threads"] = execution.num_threads
    if execution.show_sim_log or execution.verbose_level:
        options["progress"] = terminal_bar()
    if execution.checkpoint_file is not None:
        seconds, steps = execution.checkpoint_interval, execution.checkpoint_timesteps
        interval = Checkpoints.interval if seconds is None else float(seconds)
        options["checkpoint"] = Checkpoints(Path(execution.checkpoint_file), interval, steps)
    record = getattr(sensor, "record", None)
    names = {"p"} if record is None else set(np.ravel(record).tolist())
    if names & _INTENSITY:
        names |= {"p", "u_non_staggered"}
    options["record"] = sorted(names & (record_names().keys() - _INTENSITY)) or ["p"]
    return options


def _read_output(path: Path, crop: bool) -> dict[str, Any]:
    """All datasets of k-Wave's output, axes of one point left out, as k-wave-python returns them.

    ``crop`` leaves the PML out of whole-domain quantities.
    """
    with h5py.File(path) as file:
        data = {name: item[()].squeeze() for name, item in file.items() if isinstance(item, h5py.Dataset)}
    if crop:
        lower = {axis: int(data.get(f"pml_{axis}_size", 0)) for axis in "xyz"}
        upper = {axis: int(data[f"N{axis}"]) - lower[axis] for axis in "xyz"}
        lower["y"] *= not data["axisymmetric_flag"]
        for name, array in data.items():
            if vector_of(name).endswith(("_all", "_final")):
                axes = "zyx"[-array.ndim :]
                data[name] = array[tuple(slice(lower[axis], upper[axis]) for axis in axes)]
    return data


def _as_python_backend(
    kgrid: Any, source: Any, sensor: Any, medium: Any, simulation: Any, execution: Any
) -> dict[str, Any]:
    """The older functions with ``backend="python"``: the PML lies inside, 20 points wide by default."""
    size = 20 if simulation.pml_size is None else np.ravel(simulation.pml_size).tolist()
    return kspaceFirstOrder(
        kgrid,
        medium,
        source,
        sensor,
        pml_size=size,
        pml_alpha=simulation.pml_alpha,
        pml_inside=True,
        use_sg=simulation.use_sg,
        use_kspace=simulation.use_kspace,
        smooth_p0=simulation.smooth_p0,
        device="gpu" if execution.is_gpu_simulation else "cpu",
        num_threads=execution.num_threads if execution.num_threads_explicit else None,
        quiet=not execution.show_sim_log,
    )


def _function(older: _Older, name: str, device: str | None = None) -> Callable[..., dict[str, Any]]:
    def run(
        kgrid: Any,
        source: Any,
        sensor: Any,
        medium: Any,
        simulation_options: Any,
        execution_options: Any,
    ) -> dict[str, Any]:
        arguments = kgrid, source, sensor, medium, simulation_options, execution_options
        return _older(older, arguments, device)

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"""k-wave-python's ``{name}``: {older.dimensions}-D; the same arguments and results.

    k-wave-python writes k-Wave's input file, as for a C++ program; every one of its ``SimulationOptions``
    that shapes the file counts. The run is in single precision. Of its ``SimulationExecutionOptions`` count
    ``is_gpu_simulation``, ``device_num``, ``num_threads``, ``show_sim_log``, ``verbose_level``,
    ``delete_data`` and ``checkpoint_…``; what has no effect is said once. With ``backend="python"`` it is
    `kspaceFirstOrder`, with the PML inside.

    Returns
    -------
    dict
        All datasets of k-Wave's output file, axes reversed: ``p`` (Nt, points), points in the order of
        Fortran; ``p_final`` (Ny, Nx) or (Nz, Ny, Nx).
    """
    return run


def kspaceFirstOrder1D(
    kgrid: Any, source: Any, sensor: Any, medium: Any, simulation_options: Any, execution_options: Any
) -> dict[str, Any]:
    """k-Wave's ``kspaceFirstOrder1D``, with arguments in the order of the older functions.

    k-wave-python has none; results are those of `kspaceFirstOrder` with the PML inside.
    """
    return _as_python_backend(kgrid, source, sensor, medium, simulation_options, execution_options)


_2D = _Older("kwave.kspaceFirstOrder2D", "kspaceFirstOrder2D", 2)
_3D = _Older("kwave.kspaceFirstOrder3D", "kspaceFirstOrder3D", 3)
_AS = _Older("kwave.kspaceFirstOrderAS", "kspaceFirstOrderAS", 2)
kspaceFirstOrder2D = _function(_2D, "kspaceFirstOrder2D")
kspaceFirstOrder2DC = _function(_2D, "kspaceFirstOrder2DC", "cpu")
kspaceFirstOrder2DG = _function(_2D, "kspaceFirstOrder2DG", "gpu")
kspace_first_order_2d_gpu = _function(_2D, "kspace_first_order_2d_gpu", "gpu")
kspaceFirstOrder3D = _function(_3D, "kspaceFirstOrder3D")
kspaceFirstOrder3DC = _function(_3D, "kspaceFirstOrder3DC", "cpu")
kspaceFirstOrder3DG = _function(_3D, "kspaceFirstOrder3DG", "gpu")
kspaceFirstOrderAS = _function(_AS, "kspaceFirstOrderAS")
kspaceFirstOrderASC = _function(_AS, "kspaceFirstOrderASC", "cpu")
