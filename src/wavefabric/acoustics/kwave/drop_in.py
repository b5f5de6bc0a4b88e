"""Provides k-wave-python's simulation function on this solver: a script changes only one import.

Its objects are accepted unchanged: only their attributes are read, and k-wave-python is not imported.
"""

import os
import sys
import warnings
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

import numpy as np

from wavefabric.acoustics.check.rules import check_recording
from wavefabric.acoustics.grid import auto_pml_size
from wavefabric.acoustics.kwave.input import write_input
from wavefabric.acoustics.kwave.objects import from_kwave, simulate_kwave
from wavefabric.acoustics.kwave.values import (
    PROBLEM_NAMES,
    ObjectOptions,
    each_axis,
    fortran_positions,
    grid_shape,
    kwave_names,
)
from wavefabric.acoustics.problem import Problem, Recording
from wavefabric.acoustics.recording.quantities import vector_of
from wavefabric.acoustics.run_checks import warn_of
from wavefabric.base.arguments import is_whole
from wavefabric.base.errors import InputError, choice, require
from wavefabric.base.system.compilation_clock import CLOCK
from wavefabric.base.system.machine import usable_threads
from wavefabric.base.system.progress import terminal_bar

#: PML sizes from which ``pml_size="auto"`` selects.
_AUTO = range(10, 41)
#: Names of each precision.
_SINGLE, _DOUBLE = ("float32", "single"), ("float64", "double", "off", "float")
_named: set[str] = set()
#: Module of k-wave-python that a script with a `kWaveArray` has imported.
_ARRAYS = "kwave.utils.kwave_array"


def name_once(option: str, why: str) -> None:
    """Warn that ``option`` has no effect, and ``why``, but only the first time that the option is set."""
    if option not in _named:
        _named.add(option)
        warnings.warn(f"{option}: has no effect here: {why}", stacklevel=4)


def kspaceFirstOrder(
    kgrid: Any, medium: Any, source: Any, sensor: Any = None, **options: Any
) -> dict[str, Any]:
    """Simulate k-wave-python's objects, with the defaults, shapes and orders of its ``kspaceFirstOrder``.

    Parameters
    ----------
    kgrid, medium, source, sensor
        As in `from_kwave`, with the same errors. ``sensor`` may also be a transducer: the points of its
        active elements are recorded.

    Other Parameters
    ----------------
    pml_size, pml_inside : optional
        Points of the PML: 20 by default, ``"auto"`` for the number from 10 to 40 with the fastest transforms.
        Whether it is inside the grid: by default False, the PML is added around the grid.
    device, device_num, dtype, num_threads, quiet : optional
        ``device`` is ``"cpu"`` or ``"gpu"``, ``device_num`` the number of the GPU, ``dtype`` float64 or
        float32. ``num_threads`` are CPU threads, by default as many as suit the grid. ``quiet=True`` shows no
        progress on a terminal.
    save_only, data_path : optional
        Write k-Wave's input file into the directory ``data_path`` and return its name and that of the output,
        ``input_file`` and ``output_file``.
    backend, binary_path, debug : optional
        Accepted without effect: this solver replaces each backend.
    pml_alpha, use_sg, use_kspace, signal_order, smooth_p0 : optional
        As in `from_kwave`; k-wave-python has no ``signal_order``.
    smooth_c0, smooth_rho0, scale_source_terms : optional
        As in `from_kwave`; k-wave-python has these in its older functions only.
    output, force, checkpoint, check_stability, progress, comm, decomposition : optional
        As in `simulate`; k-wave-python has no such options.

    Returns
    -------
    dict
        By default ``p`` and ``p_final``. Series have the shape (points, Nt), points in C order;
        whole-domain quantities exclude the PML, wherever it is.
    """
    settings = KSpaceOptions(grid_shape(kgrid), **options)
    if "signal_order" not in settings.objects:
        warn_of_array_rows(source)
    if settings.save_only:  # write only the input file, with the warnings of a run
        folder = Path(settings.data_path)
        with kwave_names():
            problem, recording = from_kwave(kgrid, medium, source, sensor, **settings.objects)
            path = save_input(folder / "kwave_input.h5", problem, recording)
            warn_of(problem, PROBLEM_NAMES)
        files = {"input_file": str(path), "output_file": str(folder / "kwave_output.h5")}
        objects = settings.objects
        return files if objects["pml_inside"] else {**files, "pml_size": objects["pml_size"]}
    with CLOCK.announcing("progress" in settings.run):
        results = simulate_kwave(kgrid, medium, source, sensor, **settings.objects, **settings.run)
    layers = zip(results.grid.pml_size, results.grid.pml_alpha, strict=True)
    # A PML without absorption is not removed.
    inside = tuple(slice(n, -n) if n and alpha else slice(None) for n, alpha in layers)
    if settings.objects["pml_inside"]:
        whole = [name for name in results if vector_of(name).endswith(("_final", "_all"))]
        return {**results, **{name: results[name][inside] for name in whole}}
    return dict(results)


def warn_of_array_rows(source: Any) -> None:
    """Warn once if rows of ``source.p`` may come from a `kWaveArray`, in the other order of points."""
    signal, mask = getattr(source, "p", None), getattr(source, "p_mask", None)
    if _ARRAYS not in sys.modules or signal is None or mask is None or "signal_order" in _named:
        return
    rows, points = np.atleast_2d(signal), np.asarray(mask) != 0
    one_each = rows.ndim == 2 and len(rows) == np.count_nonzero(points) > 1
    if one_each and (np.diff(fortran_positions(points)) < 0).any() and (rows != rows[0]).any():
        _named.add("signal_order")
        text = "source.p: its rows are taken in C order; those of kWaveArray.get_distributed_source_signal"
        warnings.warn(
            f"{text} are in Fortran order: give signal_order='F', or call it with order='C'", stacklevel=3
        )


class KSpaceOptions:
    """Checks the keywords of `kspaceFirstOrder` on a grid of ``shape``, and translates them.

    ``objects`` are keywords of `from_kwave`, ``run`` keywords of `ResultSettings`.
    """

    _passed_on = ("output", "force", "checkpoint", "check_stability", "progress", "comm", "decomposition")

    def __init__(self, shape: tuple[int, ...], **options: Any):
        take = options.pop
        objects: dict[str, Any] = {"pml_size": 20, "pml_inside": False}
        read = {each.name for each in fields(ObjectOptions)} - {"axisymmetric"}
        objects |= {name: take(name) for name in read if name in options}
        size = objects["pml_size"]
        if isinstance(size, str) and size.lower() == "auto":
            size = tuple(auto_pml_size(n, _AUTO) for n in shape)
        objects["pml_size"] = each_axis(size, len(shape), "pml_size")
        self.objects = objects
        self.run = {key: take(key) for key in self._passed_on if key in options}
        choice("backend", take("backend", "python"), ("python", "cpp"))
        device, gpu = take("device", "cpu"), take("device_num", None)
        choice("device", device, ("cpu", "gpu"))
        require(gpu is None or (is_whole(gpu) and gpu >= 0), "device_num", gpu, "a whole number from 0")
        self.run["device"] = "cpu" if device == "cpu" else "cuda" if gpu is None else f"cuda:{gpu}"
        self.run["precision"] = precision(take("dtype", None))
        threads = self.run["threads"] = take("num_threads", None)
        most = usable_threads() if device == "cpu" else 2**31
        right = threads is None or (is_whole(threads) and 0 < threads <= most)
        require(right, "num_threads", threads, f"a whole number from 1 to {most}")
        flags = {name: take(name, False) for name in ("save_only", "quiet", "debug")}
        for name, value in flags.items():
            require(isinstance(value, bool), name, value, "True or False")
        self.save_only, folder = flags["save_only"], take("data_path", None)
        right = isinstance(folder, str | os.PathLike) or (folder is None and not self.save_only)
        require(right, "data_path", folder, "a directory" + ", needed with save_only" * self.save_only)
        self.data_path: Any = folder
        if "progress" not in self.run and not flags["quiet"]:
            self.run["progress"] = terminal_bar()
        if take("binary_path", None) is not None:
            name_once("binary_path", "no k-Wave program is started")
        if options:
            allowed = "the keywords of k-wave-python's kspaceFirstOrder, and " + ", ".join(self._passed_on)
            raise InputError(f"{next(iter(options))}: is unknown; allowed: {allowed}")


def precision(dtype: Any) -> Literal["single", "double"]:
    """Return the precision for k-wave-python's ``dtype`` or ``data_cast``."""
    name = "double" if dtype is None else dtype
    if not isinstance(name, str):
        with suppress(TypeError):
            name = np.dtype(dtype).name
    allowed = "float64 or float32"
    require(isinstance(name, str) and name in _SINGLE + _DOUBLE, "dtype", dtype, allowed)
    return "single" if name in _SINGLE else "double"


def save_input(path: str | Path, problem: Problem, recording: Recording) -> Path:
    """Write k-Wave's input file; replace an existing file."""
    check_recording(problem, recording, PROBLEM_NAMES, first_index=1)
    return write_input(path, problem, recording.where, force=True)
