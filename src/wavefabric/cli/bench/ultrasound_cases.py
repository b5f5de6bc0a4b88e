"""Define problems of ultrasound benchmarks, and take their time steps one by one.

The problems are the cheapest and the most expensive time step, and a head.
"""

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np

from wavefabric.acoustics.problem import PressureSource, Problem, Recording, VelocitySource
from wavefabric.acoustics.recording.recorder import Recorder
from wavefabric.acoustics.recording.sinks import Sink
from wavefabric.acoustics.run_settings import PRECISIONS
from wavefabric.acoustics.solver.stages import Stages
from wavefabric.acoustics.solver.step import Step, StepRecording
from wavefabric.base.arguments import whole
from wavefabric.base.errors import InputError, choices
from wavefabric.cli.bench.common import Triple
from wavefabric.fabric.execution.report import shape_words
from wavefabric.runtime.device import Device, get_device

#: Media that are timed by default, and all that can be timed.
MEDIA = ("homogeneous", "heterogeneous")
ALL_MEDIA = (*MEDIA, "tissues")
#: Number of points that record the pressure, as in any run.
SENSOR_POINTS = 100
_SPACING = 0.1e-3
#: Value in the homogeneous medium, and relative increase in the middle of the heterogeneous one: m/s, kg/m³,
#: B/A, dB/(MHz^y cm).
_SMOOTH = {"speed": (1500.0, 0.1), "density": (1000.0, 0.2), "ratio": (6.0, 0.3), "alpha": (0.5, 0.5)}
#: Water, scalp, skull, cerebrospinal fluid, brain, approximately; each is a spherical layer between two
#: of the `_RADII`.
_TISSUES = {
    "speed": (1500.0, 1620.0, 2800.0, 1505.0, 1550.0),
    "density": (1000.0, 1110.0, 1850.0, 1007.0, 1045.0),
    "ratio": (5.0, 7.0, 8.0, 5.0, 6.6),
    "alpha": (0.002, 0.6, 4.0, 0.01, 0.5),
}
#: Outer radii of all layers but the water, relative to half the grid.
_RADII = (0.8, 0.76, 0.66, 0.62)
NO_SENSOR = Recording(())
#: Steps in which the source is on, and steps before timing starts.
_SOURCE_STEPS, _FIRST_STEPS = 2, 5
# Signals at points: period in steps; kg/m³ and m/s per step, too weak to change the medium.
_PERIOD, _MASS, _VELOCITY = 64, 1e-9, 1e-12


def problem(
    medium: str,
    shape: Triple,
    steps: int,
    precision: str = "single",
    device: Device | None = None,
) -> Problem:
    """Return a problem with a pressure ball in the middle of the grid, (Nx, Ny, Nz); a disc if Nz is 1.

    The homogeneous medium is uniform and lossless. In the heterogeneous medium sound speed, density (also at
    the staggered points), B/A and absorption vary from point to point, power law y = 1.5. In tissues they
    vary from layer to layer: five materials. Arrays are NumPy's, computed plane by plane on a device, so that
    no other memory is needed.
    """
    dtype, device = np.float32 if precision == "single" else np.float64, device or get_device("cpu", 1)
    mixed, speed = medium != "homogeneous", _SMOOTH["speed"][0]
    fastest = {"homogeneous": speed, "heterogeneous": 1.1 * speed, "tissues": max(_TISSUES["speed"])}[medium]
    pml, xp = tuple(min(10, n // 4) for n in shape), device.xp
    smooth = partial(_planes, device, shape, dtype, _bump, operator.mul)

    def grid(name: str, along: int | None = None) -> Any:
        """Return values of the parameter ``name``; with ``along`` half a step further along this axis."""
        background, change = _SMOOTH[name]
        if medium == "tissues":
            inward = xp.asarray(np.array(_TISSUES[name][::-1], dtype))
            squares = xp.asarray(np.square(_RADII[::-1]))
            layers = partial(_planes, device, shape, dtype, _squared_radius, operator.add)
            return layers(along, lambda square: inward[xp.searchsorted(squares, square, "right")])
        return smooth(along, lambda s: background * (1 + change * s)) if mixed else background

    return Problem(
        shape=shape,
        spacing=(_SPACING, _SPACING, _SPACING),
        dt=0.3 * _SPACING / fastest,
        steps=steps,
        reference_speed=fastest,
        pml_size=pml,  # type: ignore[arg-type]
        pml_alpha=(2.0, 2.0, 2.0),
        sound_speed=grid("speed"),
        density=grid("density"),
        density_staggered=tuple(grid("density", axis) for axis in range(2 + (shape[2] > 1))),
        nonlinearity=grid("ratio") if mixed else None,
        absorption="power_law" if mixed else "none",
        alpha_coeff=grid("alpha") if mixed else 0.0,
        alpha_power=1.5 if mixed else 0.0,
        initial_pressure=smooth(None, lambda s: 1e5 * s**16),
    )


def outline(medium: str, shape: Triple) -> Problem:
    """Return the problem of `problem`, but with arrays that take no memory, to query what a run needs.

    Tissues have one material. Arrays of the heterogeneous medium contain more distinct values than an index
    of materials can address.
    """
    small = problem(medium, (8, 8, min(8, shape[2])), 1)

    def grown(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(grown, value))
        if not isinstance(value, np.ndarray):
            return value
        if medium != "heterogeneous":
            return np.broadcast_to(value[:1, :1, :1], shape[::-1])
        return _ramps(shape, value[0, 0, 0])

    return replace(small, **{f.name: grown(getattr(small, f.name)) for f in fields(small)} | {"shape": shape})


def _ramps(shape: Triple, least: np.floating) -> np.ndarray:
    """Return an array that rises by 10 % from ``least``: its planes are overlapping views of one ramp."""
    nx, ny, nz = shape
    further = min(nx * ny, -(-(1 << 17) // nz))
    ramp = np.linspace(least, 1.1 * least, nx * ny + (nz - 1) * further, dtype=least.dtype)
    strides = (further * ramp.itemsize, nx * ramp.itemsize, ramp.itemsize)
    return np.lib.stride_tricks.as_strided(ramp, shape[::-1], strides, writeable=False)


def points(shape: Triple, count: int = SENSOR_POINTS) -> np.ndarray:
    """Return flat indices of at most ``count`` points spread over the grid, ascending."""
    size = math.prod(shape)
    return np.unique(np.linspace(0, size - 1, min(size, count)).astype(np.int64))


def with_sources(inputs: Problem, count: int) -> Problem:
    """Return the problem with values added to pressure and velocity at ``count`` points, in all steps."""
    index = points(inputs.shape, count)
    signal = np.sin(2 * np.pi / _PERIOD * (np.arange(inputs.steps) % _PERIOD))[:, None]
    return replace(
        inputs,
        pressure_source=PressureSource(index, _MASS * signal, "additive_no_correction"),
        velocity_source=VelocitySource(
            index, (_VELOCITY * signal,) * inputs.dimensions, "additive_no_correction"
        ),
    )


def _planes(device, shape, dtype, vector: Callable, join: Callable, along, value: Callable) -> np.ndarray:
    """Return an array of shape (Nz, Ny, Nx), computed plane by plane: value(join(z, join(y, x))).

    x = ``vector``(positions 0 … Nx − 1, Nx), and y and z alike; on the axis ``along`` positions start at ½.
    """
    x, y, z = (vector(np.arange(n) + (0.5 if axis == along else 0.0), n) for axis, n in enumerate(shape))
    out, plane = np.empty(shape[::-1], dtype), join(device.asarray(y)[:, None], device.asarray(x))
    for position, here in enumerate(z):
        out[position] = device.to_host(value(join(here, plane)).astype(dtype))
    return out


def _bump(index: Any, n: int) -> Any:
    """Return sin²(π ``index``/``n``), 0 at the edges and 1 in the middle; 1 if ``n`` is 1."""
    return np.sin(np.pi * (index / n if n > 1 else 0.5 + 0 * index)) ** 2


def _squared_radius(index: Any, n: int) -> Any:
    """Return the squared distance from the middle in units of half the grid; 0 if ``n`` is 1."""
    return np.square(2 * index / n - 1) if n > 1 else 0 * index


def check(
    shapes: Iterable[Triple],
    media: Sequence[str],
    precision: str,
    repeats: int,
    most: int,
    planes: bool = False,
) -> None:
    """Raise `InputError` unless axes have 8 to ``most`` points, names are known, and ``repeats`` is above 0.

    With ``planes`` a grid may have one point along z.
    """
    for shape in shapes:
        axes = shape[:2] if planes and shape[2:] == (1,) else shape
        if len(shape) != 3 or not all(8 <= n <= most for n in axes):
            allowed = f"N, {'NXxNY ' * planes}or NXxNYxNZ, each from 8 to {most} points"
            raise InputError(f"size: {shape_words(shape)} given; allowed: {allowed}")
    choices("medium", media, ALL_MEDIA)
    choices("precision", [precision], PRECISIONS)
    whole("repeats", repeats, 1)


def light_problem(medium: str, shape: Triple) -> Problem:
    """Return a problem whose arrays take no host memory, with a source of one point in the middle.

    On the device, arrays of the heterogeneous medium have full size; tissues are a single material.
    """
    nx, ny, nz = shape
    middle = ((nz // 2) * ny + ny // 2) * nx + nx // 2
    signal = np.full((_SOURCE_STEPS, 1), 1e-3)
    return replace(
        outline(medium, shape),
        steps=1 << 30,
        pml_size=tuple(min(10, n // 4) for n in shape),
        initial_pressure=None,
        pressure_source=PressureSource(np.array([middle]), signal, "additive_no_correction"),
    )


class Stepper:
    """Takes time steps one by one, as a run does without recording."""

    def __init__(self, stages: Stages, first_steps: int = _FIRST_STEPS, *recordings: StepRecording):
        self.stages = stages
        self._step, self._next = Step(stages, *recordings), 0
        self.begin_anew(first_steps)

    def begin_anew(self, steps: int = _FIRST_STEPS) -> None:
        """Drop captured graphs and take ``steps`` steps; needed whenever the functions in a step change."""
        self._step.discard_graphs()
        for _ in range(steps):
            self()

    def __call__(self) -> None:
        self._step.take(self._next)
        self._next += 1

    def finite(self) -> bool:
        """Return whether the field is still finite, after all steps; collective."""
        self.stages.layout.finish_exchanges()
        return math.isfinite(float(abs(self.stages.fields.p).max()))


class Nowhere(Sink):
    """Discards recorded data."""


class RecordingStepper(Stepper):
    """Takes time steps that record pressure and its maximum at ``count`` points, as a run does."""

    def __init__(self, stages: Stages, count: int, first_steps: int):
        shape = stages.coefficients.problem.shape
        self._recorder = Recorder(stages, Recording(("p_raw", "p_max"), points(shape, count)), Nowhere())
        self._recorder.begin(0)
        super().__init__(stages, first_steps, self._recorder)

    def __call__(self) -> None:
        number = self._next
        super().__call__()
        self._recorder.after(number)

    def close(self) -> None:
        """End the thread that receives recorded data."""
        self._recorder.delivery.close()
