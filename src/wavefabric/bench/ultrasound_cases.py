"""The two problems of ``ultrasound-step``: the least and the most that a 3-D time step has to do."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any

import numpy as np

from wavefabric.acoustics.problem import Problem

#: What is timed.
MEDIA = ("homogeneous", "heterogeneous")
#: Points that record the pressure, as in any run.
SENSOR_POINTS = 100
_SPACING, _SPEED, _DENSITY = 0.1e-3, 1500.0, 1000.0


def problem(medium: str, shape: tuple[int, int, int], steps: int, precision: str = "single") -> Problem:
    """A pressure ball in the middle of the grid, (Nx, Ny, Nz).

    The homogeneous medium is uniform and lossless. In the heterogeneous one sound speed, density (also at the
    staggered points), B/A and absorption differ from point to point, power law y = 1.5. Nothing but the
    problem's arrays is allocated on the way, so that they are all that memory holds.
    """
    dtype = np.float32 if precision == "single" else np.float64
    mixed = medium == "heterogeneous"
    fastest = _SPEED * (1.1 if mixed else 1.0)
    pml = tuple(min(10, n // 4) for n in shape)

    def grid(background: float, change: float, along: int | None = None) -> Any:
        """background (1 + change · shape), half a point further along an axis if one is given."""
        return _grid(shape, dtype, along, lambda s: background * (1 + change * s)) if mixed else background

    return Problem(
        shape=shape,
        spacing=(_SPACING, _SPACING, _SPACING),
        dt=0.3 * _SPACING / fastest,
        steps=steps,
        reference_speed=fastest,
        pml_size=pml,  # type: ignore[arg-type]
        pml_alpha=(2.0, 2.0, 2.0),
        sound_speed=grid(_SPEED, 0.1),
        density=grid(_DENSITY, 0.2),
        density_staggered=tuple(grid(_DENSITY, 0.2, axis) for axis in range(3)),
        nonlinearity=grid(6.0, 0.3) if mixed else None,
        absorption="power_law" if mixed else "none",
        alpha_coeff=grid(0.5, 0.5) if mixed else 0.0,
        alpha_power=1.5 if mixed else 0.0,
        initial_pressure=_grid(shape, dtype, None, lambda s: 1e5 * s**16),
    )


def outline(medium: str, shape: tuple[int, int, int]) -> Problem:
    """The same with arrays that take no memory, to ask what a run would need."""
    small = problem(medium, (8, 8, 8), 1)

    def grown(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(grown, value))
        return np.broadcast_to(value[:1, :1, :1], shape[::-1]) if isinstance(value, np.ndarray) else value

    return replace(small, **{f.name: grown(getattr(small, f.name)) for f in fields(small)} | {"shape": shape})


def points(shape: tuple[int, int, int], count: int = SENSOR_POINTS) -> np.ndarray:
    """Flat indices of at most so many points spread over the grid, ascending."""
    size = math.prod(shape)
    return np.unique(np.linspace(0, size - 1, min(size, count)).astype(np.int64))


def _grid(shape, dtype, along, value) -> np.ndarray:
    """Values of a smooth shape, 0 at the edges and 1 in the middle, plane by plane."""
    waves = []
    for axis, n in enumerate(shape):
        points = np.arange(n) + (0.5 if axis == along else 0.0)
        waves.append(np.sin(np.pi * points / n) ** 2)
    out = np.empty(shape[::-1], dtype)
    plane = waves[1][:, None] * waves[0]
    for z, factor in enumerate(waves[2]):
        out[z] = value(factor * plane)
    return out
