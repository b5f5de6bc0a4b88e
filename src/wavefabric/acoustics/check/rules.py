"""Checks whether the numbers of a problem are valid, by the same rules for files and for the Python API."""

import math
from collections.abc import Mapping
from typing import Any, get_args

import numpy as np

from wavefabric.acoustics.problem import (
    Absorption,
    Cuboids,
    Elements,
    Interpolation,
    PointSource,
    Problem,
    ProductSignal,
    Recording,
    Signal,
    SourceMode,
    TransducerSource,
)
from wavefabric.acoustics.recording.quantities import QUANTITIES, is_local
from wavefabric.acoustics.solver.formulas import disperses, on_axis
from wavefabric.base.arguments import is_whole
from wavefabric.base.errors import ensure

_AXES = "xyz"

#: Largest number of time steps: the energy balance stores a number per step.
MOST_STEPS = 10**8
#: Name of each number in the Python API, for errors; ``names`` of `check` can replace it, by the same key.
PYTHON_NAMES: dict[str, str] = {
    **{f"{key}.{a}": f"grid.{key}" for key in ("shape", "spacing", "pml_size", "pml_alpha") for a in _AXES},
    **{f"density_staggered.{axis}": f"medium.density (staggered in {axis})" for axis in _AXES},
    **{f"velocity_source.signals.{axis}": f"source.u{axis}" for axis in _AXES},
    **{name: f"medium.{name}" for name in ("sound_speed", "density", "nonlinearity", "reference_speed")},
    **{name: f"medium.{name}" for name in ("absorption", "alpha_coeff", "alpha_power")},
    **{f"transducer.{name}": f"source.transducer.{name}" for name in ("delay", "signal", "steps")},
    "transducer.index": "source.transducer.mask",
    "axisymmetric": "grid.axisymmetric",
    "dt": "dt",
    "steps": "steps",
    "initial_pressure": "source.p0",
    "pressure_source.index": "source.p_mask",
    "pressure_source.signal": "source.p",
    "pressure_source.mode": "source.p_mode",
    "velocity_source": "source.u",
    "velocity_source.index": "source.u_mask",
    "velocity_source.mode": "source.u_mode",
    "recording.quantities": "sensor.record",
    "recording.where": "sensor.mask",
    "recording.start": "sensor.start",
}


def check(problem: Problem, names: Mapping[str, str] | None = None, *, first_index: int = 0) -> None:
    """Raise an `InputError` at the first invalid number of a problem.

    ``names`` maps keys of `PYTHON_NAMES`, such as ``"density"``, to the names that errors use instead of
    Python's. ``first_index`` is the number of the first grid point in errors, such as 1 for k-Wave.
    """
    rules = _Rules(problem, names, first_index)
    _grid(problem, rules)
    _medium(problem, rules)
    if problem.initial_pressure is not None:
        rules.field("initial_pressure", problem.initial_pressure, scalar=False)
    if (pressure := problem.pressure_source) is not None:
        _at_points("pressure_source", pressure, {"signal": pressure.signal}, rules)
    if problem.velocity_source is not None:
        dims, signals = problem.dimensions, problem.velocity_source.signals
        right = len(signals) == dims and any(signal is not None for signal in signals)
        rules.require(right, "velocity_source", "no signal", f"one for each of {dims} axes, None for some")
        named = {f"signals.{axis}": signal for axis, signal in zip(_AXES, signals, strict=False)}
        _at_points("velocity_source", problem.velocity_source, named, rules)
    if problem.transducer is not None:
        _transducer(problem.transducer, rules)


def check_recording(
    problem: Problem, recording: Recording, names: Mapping[str, str] | None = None, *, first_index: int = 0
) -> None:
    """Raise an `InputError` for an invalid recording.

    ``names`` is as in `check`; in errors, grid points and time steps are counted from ``first_index``.
    """
    rules = _Rules(problem, names, first_index)
    quantities, where, start = recording.quantities, recording.where, recording.start
    unknown = [repr(name) for name in quantities if name not in QUANTITIES] or ["nothing"]
    known = (quantities or recording.tones) and unknown == ["nothing"]
    rules.require(known, "recording.quantities", unknown[0], f"any of {', '.join(QUANTITIES)}")
    shown = start + first_index if is_whole(start) else start
    allowed = f"{first_index} to {problem.steps - 1 + first_index}, the steps of the run"
    rules.require(is_whole(start) and 0 <= start < problem.steps, "recording.start", shown, allowed)
    local = [name for name in quantities if is_local(name)]
    if local:
        missing = f"is missing, and {local[0]} is recorded there"
        rules.require(where is not None, "recording.where", missing, "a sensor")
    if isinstance(where, Cuboids):
        _cuboids(where, problem, rules)
    elif isinstance(where, Interpolation):
        _interpolation(where, problem, rules)
    elif isinstance(where, Elements):
        rules.index("recording.where", where.points, unique=False)
        rules.finite("recording.where", where.weights)
        products = [name for name in quantities if name.startswith("I")]
        rules.require(not products, "recording.quantities", "".join(products[:1]), "p and u of elements")
    elif where is not None:
        rules.index("recording.where", where, unique=False)


def _grid(problem: Problem, rules: "_Rules") -> None:
    axes = list(zip(_AXES, problem.shape, problem.spacing, problem.pml_size, problem.pml_alpha, strict=True))
    for axis, points, *_ in axes:
        rules.whole_number(f"shape.{axis}", points, 2 if axis in _AXES[: problem.dimensions] else 1)
    axes = axes[: problem.dimensions]
    if problem.axisymmetric:
        dims, absorption = problem.dimensions, problem.absorption
        rules.require(dims == 2, "axisymmetric", f"{dims} dimensions", "2, axis and radius")
        actual = f"{absorption} absorption in an axisymmetric grid"
        rules.require(absorption != "power_law", "absorption", actual, "stokes, that with f²")
    for axis, _, spacing, *_ in axes:
        rules.above_zero(f"spacing.{axis}", spacing)
    rules.above_zero("dt", problem.dt)
    rules.whole_number("steps", problem.steps, 1)
    rules.require(problem.steps <= MOST_STEPS, "steps", problem.steps, f"up to {MOST_STEPS}")
    rules.above_zero("reference_speed", problem.reference_speed)
    for axis, points, _, size, alpha in axes:
        rules.whole_number(f"pml_size.{axis}", size, 0)
        one_side = on_axis(problem, _AXES.index(axis))
        sides, most = ("one side", points) if one_side else ("both sides", points // 2)
        actual = f"{size} points on {sides} of a grid of {points} in {axis}"
        rules.require(size <= most, f"pml_size.{axis}", actual, f"0 to {most}")
        rules.require(_finite(alpha) and alpha >= 0, f"pml_alpha.{axis}", alpha, "a finite number from 0")


def _medium(problem: Problem, rules: "_Rules") -> None:
    positive: dict[str, Any] = {"sound_speed": problem.sound_speed, "density": problem.density}
    for axis, density in zip(_AXES[: problem.dimensions], problem.density_staggered, strict=True):
        positive[f"density_staggered.{axis}"] = density
    for key, value in positive.items():
        rules.field(key, value, low=0.0, open_end=True)
    if problem.nonlinearity is not None:
        rules.field("nonlinearity", problem.nonlinearity)
    rules.one_of("absorption", problem.absorption, get_args(Absorption))
    if problem.absorption != "none":
        rules.field("alpha_coeff", problem.alpha_coeff, low=0.0)
        y = problem.alpha_power
        right = _finite(y) and 0 <= y < 3 and not (y == 1 and disperses(problem))
        rules.require(right, "alpha_power", y, "from 0 to below 3, other than 1")


def _at_points(key: str, source: PointSource, signals: dict, rules: "_Rules") -> None:
    points = rules.index(f"{key}.index", source.index)
    rules.one_of(f"{key}.mode", source.mode, get_args(SourceMode))
    for name, signal in signals.items():
        if signal is not None:
            rules.signal(f"{key}.{name}", signal, points)


def _transducer(source: TransducerSource, rules: "_Rules") -> None:
    points = rules.index("transducer.index", source.index)
    rules.whole_number("transducer.steps", source.steps, 1)
    signal, delay, first = source.signal, source.delay, rules.first_index
    right = signal.ndim == 1 and bool(signal.size)
    rules.require(right, "transducer.signal", f"has the shape {signal.shape}", "(samples,)")
    rules.finite("transducer.signal", signal)
    right = delay.dtype.kind in "iu" and delay.shape == (points,)
    actual = f"has the shape {delay.shape} and the type {delay.dtype}"
    rules.require(right, "transducer.delay", actual, f"({points},), whole numbers")
    low, high = int(delay.min()), int(delay.max())
    allowed = f"{first} to {signal.size - 1 + first}, the samples of the signal"
    outside = (low if low < 0 else high) + first
    rules.require(low >= 0 and high < signal.size, "transducer.delay", outside, allowed)


def _cuboids(where: Cuboids, problem: Problem, rules: "_Rules") -> None:
    key, base = "recording.where", rules.first_index
    first, last = np.asarray(where.first), np.asarray(where.last)
    right = first.ndim == 2 and first.shape[1:] == (3,) and len(first) and first.shape == last.shape
    rules.require(right, key, f"has the shapes {first.shape} and {last.shape}", "(boxes, 3)")
    for number, (low, high) in enumerate(zip(first.tolist(), last.tolist(), strict=True), 1):
        for axis, a, b, size in zip(_AXES, low, high, problem.shape, strict=True):
            actual = f"cuboid {number} spans {a + base} to {b + base} in {axis}"
            allowed = f"first ≤ last, both {base} to {size - 1 + base}"
            rules.require(0 <= a <= b < size, key, actual, allowed)


def _interpolation(where: Interpolation, problem: Problem, rules: "_Rules") -> None:
    key, corners, each = "recording.where", where.corners, 1 << problem.dimensions
    right = corners.ndim == 2 and corners.shape[1] == each
    rules.require(right, key, f"{corners.shape} corners", f"(points, {each})")
    actual = f"{where.weights.shape} weights"
    rules.require(where.weights.shape == corners.shape, key, actual, f"{corners.shape}, as many as corners")
    rules.index(key, corners.reshape(-1), unique=False)
    rules.finite(key, where.weights)


class _Rules:
    """Checks numbers of a problem by common rules; ``key``, a key of `PYTHON_NAMES`, names them in errors."""

    def __init__(self, problem: Problem, names: Mapping[str, str] | None, first_index: int):
        self.names = {**PYTHON_NAMES, **(names or {})}
        self.first_index = first_index
        self._problem = problem

    def require(self, right: Any, key: str, actual: Any, allowed: str) -> None:
        ensure(right, self.names[key], actual, allowed)

    def one_of(self, key: str, value: str, allowed: tuple[str, ...]) -> None:
        self.require(value in allowed, key, repr(value), ", ".join(allowed))

    def whole_number(self, key: str, value: Any, least: int) -> None:
        self.require(is_whole(value) and value >= least, key, value, f"a whole number from {least}")

    def above_zero(self, key: str, value: Any) -> None:
        self.require(_finite(value) and value > 0, key, value, "a finite number above 0")

    def finite(
        self, key: str, array: np.ndarray, ends: tuple[float, float] | None = None
    ) -> tuple[float, float]:
        """Check that all values of an array are finite; return the smallest and the largest.

        ``ends`` are the smallest and the largest value, if they are known already.
        """
        self.require(array.dtype.kind in "fiu", key, f"is of type {array.dtype}", "real numbers")
        # NaN propagates through both, and neither allocates an array.
        low, high = ends or (float(array.min()), float(array.max()))
        finite = math.isfinite(low) and math.isfinite(high)
        self.require(finite, key, "has values that are not finite", "finite numbers")
        return low, high

    def field(
        self, key: str, value: Any, *, low: float = -math.inf, open_end: bool = False, scalar: bool = True
    ) -> None:
        """Check that a number, or each value of an array of the grid's shape, is finite and at least ``low``.

        With ``open_end`` values must be above ``low``; without ``scalar`` a single number is not allowed.
        """
        grid = self._problem.array_shape
        if getattr(value, "ndim", 0):  # also an array on a device
            actual = f"has the shape {value.shape}"
            self.require(value.shape == grid, key, actual, f"{grid}, that of the grid")
            least, _ = self.finite(key, value, self._problem.extremes.ranges.get(key))
        else:
            allowed = "a finite number" if scalar else f"an array of shape {grid}"
            self.require(scalar and _finite(value), key, value, allowed)
            least = float(value)
        # 9 digits distinguish float32 numbers, and show 0.1 rather than 0.10000000149.
        shown = f"{least:.9g}" if isinstance(value, (int, float)) else f"{least:.9g} at a grid point"
        right = least > low if open_end else least >= low
        self.require(right, key, shown, f"{'above' if open_end else 'from'} {low:g}")

    def index(self, key: str, index: np.ndarray, unique: bool = True) -> int:
        """Check flat indices of grid points; return their number.

        With ``unique`` no point may occur twice.
        """
        actual = f"has the shape {index.shape}, type {index.dtype}"
        self.require(index.ndim == 1 and index.dtype.kind in "iu", key, actual, "(points,), whole numbers")
        self.require(index.size, key, "no point", "one grid point or more")
        base, points = self.first_index, self._problem.points
        low, high = int(index.min()), int(index.max())
        actual = f"grid point {(low if low < 0 else high) + base}"
        self.require(low >= 0 and high < points, key, actual, f"{base} to {points - 1 + base}")
        if unique:
            ordered = index if np.all(index[1:] > index[:-1]) else np.sort(index)
            for point in ordered[1:][ordered[1:] == ordered[:-1]][:1]:
                self.require(False, key, f"grid point {int(point) + base} twice", "each once")
        return index.size

    def signal(self, key: str, signal: Signal, points: int) -> None:
        allowed = f"(steps, {points})" + (" or (steps, 1)" if points > 1 else "")
        if isinstance(signal, ProductSignal):
            self.finite(key, signal.weights)
            points, signal = signal.waveforms.shape[1], signal.waveforms
        right = signal.ndim == 2 and signal.shape[0] and signal.shape[1] in (1, points)
        self.require(right, key, f"has the shape {signal.shape}", allowed)
        self.finite(key, signal)


def _finite(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and math.isfinite(value)
