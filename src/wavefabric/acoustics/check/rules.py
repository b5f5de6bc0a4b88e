"""Whether the numbers of a problem make sense: one list of rules for files and for the Python API."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, get_args

import numpy as np

from wavefabric.acoustics.problem import (
    QUANTITIES,
    Absorption,
    Cuboids,
    Interpolation,
    PressureSource,
    Problem,
    Recording,
    SourceMode,
    TransducerSource,
    VelocitySource,
)
from wavefabric.errors import InputError

_AXES = "xyz"

#: What the Python API calls each number; its keys are the names that `check` can be given others for.
PYTHON_NAMES: dict[str, str] = {
    **{f"shape.{axis}": "grid.shape" for axis in _AXES},
    **{f"spacing.{axis}": "grid.spacing" for axis in _AXES},
    **{f"pml_size.{axis}": "grid.pml_size" for axis in _AXES},
    **{f"pml_alpha.{axis}": "grid.pml_alpha" for axis in _AXES},
    **{f"density_staggered.{axis}": f"medium.density (staggered in {axis})" for axis in _AXES},
    **{f"velocity_source.signals.{axis}": f"source.u{axis}" for axis in _AXES},
    "dt": "dt",
    "steps": "steps",
    "reference_speed": "medium.reference_speed",
    "sound_speed": "medium.sound_speed",
    "density": "medium.density",
    "nonlinearity": "medium.nonlinearity",
    "absorption": "medium.absorption",
    "alpha_coeff": "medium.alpha_coeff",
    "alpha_power": "medium.alpha_power",
    "initial_pressure": "source.p0",
    "pressure_source.index": "source.p_mask",
    "pressure_source.signal": "source.p",
    "pressure_source.mode": "source.p_mode",
    "velocity_source": "source.u",
    "velocity_source.index": "source.u_mask",
    "velocity_source.mode": "source.u_mode",
    "transducer.index": "source.transducer.mask",
    "transducer.delay": "source.transducer.delay",
    "transducer.signal": "source.transducer.signal",
    "transducer.steps": "source.transducer.steps",
    "recording.quantities": "sensor.record",
    "recording.where": "sensor.mask",
    "recording.start": "sensor.start",
}


def check(problem: Problem, names: Mapping[str, str] | None = None, *, first_index: int = 0) -> None:
    """Check every number of a problem.

    Parameters
    ----------
    problem : Problem
        Time series may be longer than the run.
    names : mapping of str to str, optional
        What errors call each number; keys as in `PYTHON_NAMES`, which serves for those not given.
    first_index : int
        Number of the first grid point in errors: 1 for a caller who counts from 1.

    Raises
    ------
    InputError
        At the first number that is not finite or out of its range, an array of another shape than the
        grid's, a PML that does not fit, a source point given twice or outside the grid, a signal of
        another number of points, or a source mode that does not exist.
    """
    rules = _Rules({**PYTHON_NAMES, **(names or {})}, first_index)
    _grid(problem, rules)
    _medium(problem, rules)
    if problem.initial_pressure is not None:
        rules.field("initial_pressure", problem.initial_pressure, problem, scalar=False)
    if problem.pressure_source is not None:
        _pressure(problem.pressure_source, problem, rules)
    if problem.velocity_source is not None:
        _velocity(problem.velocity_source, problem, rules)
    if problem.transducer is not None:
        _transducer(problem.transducer, problem, rules)


def check_recording(
    problem: Problem, recording: Recording, names: Mapping[str, str] | None = None, *, first_index: int = 0
) -> None:
    """Check what is to be recorded.

    Parameters
    ----------
    problem, recording
        The run.
    names, first_index
        As in `check`; the first step recorded is counted from ``first_index`` too.

    Raises
    ------
    InputError
        If a quantity is not one of `QUANTITIES`, needs a sensor and there is none, or nothing is
        recorded; if the sensor is not inside the grid, or recording starts after the last step.
    """
    rules = _Rules({**PYTHON_NAMES, **(names or {})}, first_index)
    if not recording.quantities:
        raise rules.fault("recording.quantities", "nothing", f"any of {', '.join(QUANTITIES)}")
    for name in recording.quantities:
        if name not in QUANTITIES:
            raise rules.fault("recording.quantities", repr(name), f"any of {', '.join(QUANTITIES)}")
    if not _whole(recording.start) or not 0 <= recording.start < problem.steps:
        shown = recording.start + first_index if _whole(recording.start) else recording.start
        last = problem.steps - 1 + first_index
        raise rules.fault("recording.start", shown, f"{first_index} to {last}, the steps of the run")
    local = [name for name in recording.quantities if not name.endswith(("_all", "_final"))]
    where = recording.where
    if local and where is None:
        raise rules.fault("recording.where", f"is missing, and {local[0]} is recorded there", "a sensor")
    if isinstance(where, Cuboids):
        _cuboids(where, problem, rules)
    elif isinstance(where, Interpolation):
        _interpolation(where, problem, rules)
    elif where is not None:
        rules.index("recording.where", where, problem, unique=False)


def _grid(problem: Problem, rules: _Rules) -> None:
    dims = problem.dimensions
    for axis, size in zip(_AXES, problem.shape, strict=True):
        rules.count(f"shape.{axis}", size, 1 if axis == "z" else 2)
    for i, axis in enumerate(_AXES[:dims]):
        rules.above_zero(f"spacing.{axis}", problem.spacing[i])
    rules.above_zero("dt", problem.dt)
    rules.count("steps", problem.steps, 1)
    rules.above_zero("reference_speed", problem.reference_speed)
    for i, axis in enumerate(_AXES[:dims]):
        key, size, points = f"pml_size.{axis}", problem.pml_size[i], problem.shape[i]
        rules.count(key, size, 0)
        if 2 * size > points:
            given = f"{size} points on both sides of a grid of {points} in {axis}"
            raise rules.fault(key, given, f"0 to {points // 2}")
        if not _finite(problem.pml_alpha[i]) or problem.pml_alpha[i] < 0:
            raise rules.fault(f"pml_alpha.{axis}", problem.pml_alpha[i], "a finite number from 0")


def _medium(problem: Problem, rules: _Rules) -> None:
    rules.field("sound_speed", problem.sound_speed, problem, low=0.0, open_end=True)
    rules.field("density", problem.density, problem, low=0.0, open_end=True)
    for axis, density in zip(_AXES[: problem.dimensions], problem.density_staggered, strict=True):
        rules.field(f"density_staggered.{axis}", density, problem, low=0.0, open_end=True)
    if problem.nonlinearity is not None:
        rules.field("nonlinearity", problem.nonlinearity, problem)
    if problem.absorption not in get_args(Absorption):
        raise rules.fault("absorption", repr(problem.absorption), ", ".join(get_args(Absorption)))
    if problem.absorption != "none":
        rules.field("alpha_coeff", problem.alpha_coeff, problem, low=0.0)
        y = problem.alpha_power
        pole = y == 1 and problem.absorption == "power_law" and problem.dispersion
        if not _finite(y) or pole or not 0 <= y < 3:
            raise rules.fault("alpha_power", problem.alpha_power, "from 0 to below 3, other than 1")


def _pressure(source: PressureSource, problem: Problem, rules: _Rules) -> None:
    points = rules.index("pressure_source.index", source.index, problem)
    rules.mode("pressure_source.mode", source.mode)
    rules.signal("pressure_source.signal", source.signal, points)


def _velocity(source: VelocitySource, problem: Problem, rules: _Rules) -> None:
    points = rules.index("velocity_source.index", source.index, problem)
    rules.mode("velocity_source.mode", source.mode)
    dims = problem.dimensions
    if len(source.signals) != dims or all(signal is None for signal in source.signals):
        raise rules.fault("velocity_source", "no signal", f"one for each of {dims} axes, None for some")
    for axis, signal in zip(_AXES, source.signals, strict=False):
        if signal is not None:
            rules.signal(f"velocity_source.signals.{axis}", signal, points)


def _transducer(source: TransducerSource, problem: Problem, rules: _Rules) -> None:
    points = rules.index("transducer.index", source.index, problem)
    rules.count("transducer.steps", source.steps, 1)
    signal, delay, first = source.signal, source.delay, rules.first_index
    if signal.ndim != 1 or not signal.size:
        raise rules.fault("transducer.signal", f"has the shape {signal.shape}", "(samples,)")
    rules.finite("transducer.signal", signal)
    if delay.dtype.kind not in "iu" or delay.shape != (points,):
        given = f"has the shape {delay.shape} and the type {delay.dtype}"
        raise rules.fault("transducer.delay", given, f"({points},), whole numbers")
    low, high = int(delay.min()), int(delay.max())
    if low < 0 or high >= signal.size:
        allowed = f"{first} to {signal.size - 1 + first}, the samples of the signal"
        raise rules.fault("transducer.delay", (low if low < 0 else high) + first, allowed)


def _cuboids(where: Cuboids, problem: Problem, rules: _Rules) -> None:
    key, base = "recording.where", rules.first_index
    first, last = np.asarray(where.first), np.asarray(where.last)
    if first.ndim != 2 or first.shape[1:] != (3,) or not len(first) or first.shape != last.shape:
        raise rules.fault(key, f"has the shapes {first.shape} and {last.shape}", "(boxes, 3)")
    for number, (low, high) in enumerate(zip(first.tolist(), last.tolist(), strict=True), 1):
        for axis, a, b, size in zip(_AXES, low, high, problem.shape, strict=True):
            if not 0 <= a <= b < size:
                given = f"cuboid {number} spans {a + base} to {b + base} in {axis}"
                raise rules.fault(key, given, f"first ≤ last, both {base} to {size - 1 + base}")


def _interpolation(where: Interpolation, problem: Problem, rules: _Rules) -> None:
    key, corners = "recording.where", where.corners
    if corners.ndim != 2 or corners.shape[1] != 1 << problem.dimensions:
        raise rules.fault(key, f"{corners.shape} corners", f"(points, {1 << problem.dimensions})")
    if where.weights.shape != corners.shape:
        raise rules.fault(key, f"{where.weights.shape} weights", f"{corners.shape}, as many as corners")
    rules.index(key, corners.reshape(-1), problem, unique=False)
    rules.finite(key, where.weights)


class _Rules:
    """The rules that many numbers share, and what each number is called."""

    def __init__(self, names: Mapping[str, str], first_index: int):
        self.names = names
        self.first_index = first_index

    def fault(self, key: str, given: Any, allowed: str) -> InputError:
        return InputError(f"{self.names[key]}: {given}; allowed: {allowed}")

    def count(self, key: str, value: Any, least: int) -> None:
        if not _whole(value) or value < least:
            raise self.fault(key, value, f"a whole number from {least}")

    def above_zero(self, key: str, value: Any) -> None:
        if not _finite(value) or value <= 0:
            raise self.fault(key, value, "a finite number above 0")

    def finite(self, key: str, array: np.ndarray) -> tuple[float, float]:
        """Lowest and highest value."""
        if array.dtype.kind not in "fiu":
            raise self.fault(key, f"is of type {array.dtype}", "real numbers")
        # NaN goes through both; nothing of the array's size is made.
        low, high = float(array.min()), float(array.max())
        if not (math.isfinite(low) and math.isfinite(high)):
            raise self.fault(key, "has values that are not finite", "finite numbers")
        return low, high

    def field(
        self,
        key: str,
        value: Any,
        problem: Problem,
        low: float = -math.inf,
        open_end: bool = False,
        scalar: bool = True,
    ) -> None:
        """One number, or one for each grid point; from ``low``, or above it."""
        grid = problem.array_shape
        if isinstance(value, np.ndarray) and value.ndim:
            if value.shape != grid:
                raise self.fault(key, f"has the shape {value.shape}", f"{grid}, that of the grid")
            least, _ = self.finite(key, value)
        elif not scalar or not _finite(value):
            raise self.fault(key, value, "a finite number" if scalar else f"an array of shape {grid}")
        else:
            least = float(value)
        if least < low or (open_end and least == low):
            # 9 digits tell float32 apart, and say 0.1 rather than 0.10000000149.
            shown = f"{least:.9g}" if isinstance(value, (int, float)) else f"{least:.9g} at a grid point"
            raise self.fault(key, shown, f"{'above' if open_end else 'from'} {low:g}")

    def index(self, key: str, index: np.ndarray, problem: Problem, unique: bool = True) -> int:
        """Flat indices of grid points; how many."""
        if index.ndim != 1 or index.dtype.kind not in "iu":
            raise self.fault(
                key, f"has the shape {index.shape}, type {index.dtype}", "(points,), whole numbers"
            )
        if not index.size:
            raise self.fault(key, "no point", "one grid point or more")
        base, points = self.first_index, problem.points
        low, high = int(index.min()), int(index.max())
        if low < 0 or high >= points:
            given = f"grid point {(low if low < 0 else high) + base}"
            raise self.fault(key, given, f"{base} to {points - 1 + base}")
        if unique:
            ordered = index if np.all(index[1:] > index[:-1]) else np.sort(index)
            twice = ordered[1:][ordered[1:] == ordered[:-1]]
            if twice.size:
                raise self.fault(key, f"grid point {int(twice[0]) + base} twice", "each once")
        return index.size

    def mode(self, key: str, mode: str) -> None:
        if mode not in get_args(SourceMode):
            raise self.fault(key, repr(mode), ", ".join(get_args(SourceMode)))

    def signal(self, key: str, signal: np.ndarray, points: int) -> None:
        if signal.ndim != 2 or not signal.shape[0] or signal.shape[1] not in (1, points):
            allowed = f"(steps, {points})" + (" or (steps, 1)" if points > 1 else "")
            raise self.fault(key, f"has the shape {signal.shape}", allowed)
        self.finite(key, signal)


def _whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _finite(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and math.isfinite(value)
