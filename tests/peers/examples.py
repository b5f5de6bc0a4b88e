"""Runs k-wave-python's published examples with one import changed, and compares every simulation in them.

Each call of a simulation function is answered by this solver, and simulated once more by k-wave-python's own
NumPy solver in double precision. The examples lie in k-wave-python's repository, not in its package.
"""

import contextlib
import copy
import importlib.util
import re
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import numpy as np

import wavefabric.kwave as ours
from wavefabric.acoustics.kwave import older

_IMPORT = re.compile(r"^from kwave\.kspaceFirstOrder\w* import ", re.M)
NAMES = tuple(name for name in ours.__all__)


class LongEnough(Exception):
    """The first simulation of an example was compared over as many steps as were wanted."""


@dataclass
class Comparison:
    """Largest difference of each array, over the largest pressure or velocity recorded, call by call."""

    steps: int | None  # of a simulation; None: all, and the example goes on to its end
    precision: str = "double"
    differences: list[dict[str, float]] = field(default_factory=list)
    lines_changed: int = 0

    @property
    def largest(self) -> float:
        return max((value for call in self.differences for value in call.values()), default=np.inf)


def installed() -> bool:
    """Whether k-wave-python is there; the folder tests/acoustics/kwave has its name too, and no source."""
    spec = importlib.util.find_spec("kwave")
    return spec is not None and spec.origin is not None


def prepare_peer() -> None:
    """Import k-wave-python without its downloading k-Wave's programs, which are not needed."""

    def nothing(url: str, path: str, *_: object) -> tuple[str, None]:
        Path(path).touch()
        return path, None

    import matplotlib

    matplotlib.use("Agg")
    with mock.patch("urllib.request.urlretrieve", nothing):
        import kwave  # noqa: F401


def run_example(path: Path, steps: int | None = None, precision: str = "double") -> Comparison:
    """Run one script, in its own folder, with its import of the simulation function changed."""
    prepare_peer()
    comparison = Comparison(steps, precision)
    text, comparison.lines_changed = _IMPORT.subn("from wavefabric.kwave import ", path.read_text())
    script = {"__name__": "__main__", "__file__": str(path)}
    spies = {name: _spy(name, getattr(ours, name), comparison) for name in NAMES}
    # Images are looked for in the repository.
    root = next(folder for folder in path.resolve().parents if (folder / "kwave").is_dir())
    here = sys.path[:]
    sys.path.insert(0, str(path.parent))
    try:
        on_cpu = mock.patch.object(older, "keywords", _on_cpu(older.keywords))
        with mock.patch.multiple(ours, **spies), on_cpu, contextlib.chdir(root), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with mock.patch("matplotlib.pyplot.show"):
                exec(compile(text, str(path), "exec"), script)
    except LongEnough:
        pass
    finally:
        sys.path[:] = here
        import matplotlib.pyplot as plt

        plt.close("all")
    return comparison


def _spy(name: str, function, comparison: Comparison):
    """The function, compared with the NumPy solver each time that it is called."""

    def call(*arguments, **options):
        if name == "kspaceFirstOrder":
            return _today(function, comparison, arguments, options)
        keys = "kgrid", "source", "sensor", "medium", "simulation_options", "execution_options"
        inputs = dict(zip(keys, arguments, strict=False)) | options
        return _older(function, comparison, inputs)

    return call


def _on_cpu(file_options):
    return lambda *arguments: {**file_options(*arguments), "device": "cpu"}


def _shortened(kgrid, medium, steps: int | None):
    kgrid = copy.deepcopy(kgrid)
    if isinstance(kgrid.Nt, str):  # "auto", which the older functions take
        kgrid.makeTime(medium.sound_speed)
    if steps is not None:
        kgrid.setTime(min(int(kgrid.Nt), steps), kgrid.dt)
    return kgrid


def _today(function, comparison: Comparison, arguments: tuple, options: dict):
    from kwave.kspaceFirstOrder import kspaceFirstOrder as numpy_solver

    kgrid, *others = arguments
    kgrid = _shortened(kgrid, others[0], comparison.steps)
    dtype = np.float32 if comparison.precision == "single" else options.get("dtype")
    theirs = numpy_solver(
        *copy.deepcopy((kgrid, *others)),
        **{**options, "backend": "python", "device": "cpu", "quiet": True, "dtype": np.float64},
    )
    result = function(kgrid, *others, **{**options, "dtype": dtype, "quiet": True})
    _compare(result, theirs, comparison)
    return result


def _older(function, comparison: Comparison, inputs: dict):
    from kwave.compat import options_to_kwargs
    from kwave.kspaceFirstOrder import kspaceFirstOrder as numpy_solver

    inputs["kgrid"] = _shortened(inputs["kgrid"], inputs["medium"], comparison.steps)
    sensor = inputs["sensor"]
    if comparison.steps is not None and getattr(sensor, "record_start_index", None):
        sensor.record_start_index = min(sensor.record_start_index, comparison.steps // 2)
    execution = inputs["execution_options"]
    execution.is_gpu_simulation, execution.show_sim_log = False, False
    copies = copy.deepcopy({key: inputs[key] for key in ("kgrid", "medium", "source", "sensor")})
    options = options_to_kwargs(copy.deepcopy(inputs["simulation_options"]))
    for unused in ("data_path", "save_only"):
        options.pop(unused, None)
    options.setdefault("pml_size", 10 if copies["kgrid"].dim == 3 else 20)
    if np.ndim(options["pml_alpha"]):
        options["pml_alpha"] = tuple(options["pml_alpha"][: copies["kgrid"].dim])
    if options["smooth_p0"] and getattr(copies["source"], "p0", None) is not None:
        # The older functions smooth before they add the PML.
        from kwave.utils.filters import smooth

        copies["source"].p0, options["smooth_p0"] = smooth(copies["source"].p0.astype(float), True), False
    axisymmetric = inputs["simulation_options"].simulation_type.is_axisymmetric()
    execution.delete_data = execution.delete_data and not axisymmetric
    result = function(**inputs)
    if axisymmetric:
        _compare(
            result, _mirrored(Path(inputs["simulation_options"].input_filename), copies["sensor"]), comparison
        )
        return result
    copies["source"] = _as_source(copies["source"], copies["medium"])
    copies["sensor"], order = _as_sensor(copies["sensor"], copies["kgrid"])
    # Which forbids a PML outside that is wider than the grid.
    with mock.patch("kwave.solvers.validation.validate_pml"):
        theirs = numpy_solver(**copies, **options, quiet=True)
    _compare(result, {key: _as_file(value, order) for key, value in theirs.items()}, comparison)
    return result


def _mirrored(path: Path, sensor) -> dict:
    """The pressure of an axisymmetric input file, which the NumPy solver does not take.

    By Fourier transforms of the field mirrored to four times its radius, as k-Wave's "WSWA-FFT".
    """
    from plain_solver import PlainSolver

    from wavefabric.acoustics.kwave.input import read_input

    inputs = read_input(path)
    solver, rows = PlainSolver(inputs.problem), []
    for number in range(inputs.problem.steps):
        solver.step()
        if number + 1 >= (getattr(sensor, "record_start_index", None) or 1):
            rows.append(solver.p.reshape(-1)[inputs.sensor])
    return {"p": np.array(rows).squeeze()}


def _as_source(source, medium):
    """A transducer as a velocity source, which the NumPy solver has; rows of signals in the order of C."""
    from kwave.ksource import kSource

    if not hasattr(source, "active_elements_mask"):
        for signal, at in (("p", "p_mask"), ("ux", "u_mask"), ("uy", "u_mask"), ("uz", "u_mask")):
            values = getattr(source, signal, None)
            if values is not None and np.ndim(values) == 2 and len(values) > 1:
                setattr(
                    source, signal, values[np.argsort(_fortran_order(np.asarray(getattr(source, at)) != 0))]
                )
        return source

    mask, signal = np.asarray(source.active_elements_mask) != 0, np.ravel(source.input_signal)
    delay = np.asarray(source.delay_mask()).astype(int)
    steps = signal.size - delay.max()
    made = kSource()
    made.u_mask, made.u_mode = mask, "additive-no-correction"
    made.ux = signal[delay[mask][:, None] + np.arange(steps)]
    # One signal serves all points, scaled by their mean sound speed; that of a velocity source by each one's.
    speed = np.broadcast_to(np.asarray(medium.sound_speed, float), mask.shape)[mask]
    made.ux = made.ux * (speed.mean() / speed)[:, None]
    return made


def _as_sensor(sensor, kgrid):
    """A sensor with a binary mask, as k-Wave's programs have it, and `_fortran_order` of it."""
    from kwave.ksensor import kSensor
    from kwave.utils.conversion import cart2grid

    mask = getattr(sensor, "active_elements_mask", None)
    mask = np.asarray(sensor.mask) if mask is None else np.asarray(mask)
    if mask.shape != tuple(kgrid.N):
        mask, *_ = cart2grid(kgrid, mask)
    mask = np.asarray(mask).reshape(tuple(kgrid.N)).astype(bool)
    made = kSensor(mask, record=getattr(sensor, "record", None) or ["p"])
    made.record_start_index = getattr(sensor, "record_start_index", 1)
    return made, _fortran_order(mask)


def _fortran_order(mask: np.ndarray) -> np.ndarray:
    """Points of a mask in the order of Fortran: the place of each in the order of C."""
    rows = np.zeros(mask.shape, int)
    rows[mask] = np.arange(mask.sum())
    return rows.T[mask.T]


def _as_file(array: np.ndarray, order: np.ndarray) -> np.ndarray:
    """(points, …) in the order of C as (…, points) in Fortran's; a field with its axes reversed."""
    return array[order].T.squeeze() if len(array) == len(order) else array.T


def _compare(result: dict, theirs: dict, comparison: Comparison) -> None:
    # A field that has left the grid is round-off: it is measured by what was there before.
    scales = {
        kind: max((np.abs(a).max() for n, a in theirs.items() if n[0] == kind), default=0) for kind in "pu"
    }
    call = {}
    for name, right in theirs.items():
        assert name in result, f"{name} is missing of {sorted(result)}"
        assert result[name].shape == right.shape, (name, result[name].shape, right.shape)
        call[name] = float(np.abs(result[name] - right).max() / (scales[name[0]] or 1.0))
    comparison.differences.append(call)
    if comparison.steps is not None:
        raise LongEnough
