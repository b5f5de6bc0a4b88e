"""Defines the medium: sound speed, density, absorption and nonlinearity at every grid point."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from wavefabric.acoustics.setup_passes import run_setup
from wavefabric.base.arguments import listed, real
from wavefabric.base.errors import InputError, choice, ensure, require
from wavefabric.base.summary import one_line_repr
from wavefabric.base.units import quantity, show
from wavefabric.runtime.device.user_arrays import as_array
from wavefabric.runtime.kernels.cpu_launch import address

#: Ratio of neighbouring densities above which spectral derivatives ring and reflections are too weak.
LARGEST_JUMP = 20
_POWERS = "from 0 to below 3, 1 only with dispersion=False"


@dataclass(frozen=True, repr=False)
class Medium:
    """An absorbing, weakly nonlinear fluid. Every array is indexed [x, y(, z)] and has the grid's shape.

    `InputError`: density or a power is missing or out of range.

    Parameters
    ----------
    sound_speed : float, str or array_like
        c₀, m/s.
    density : float, str or array_like
        ρ₀, kg/m³. Required: sources, sensors of velocity and nonlinearity depend on it.
    alpha_coeff : float, array_like or None
        α₀ of the absorption α₀ f^y, dB/(MHz^y cm); None for a lossless medium.
    alpha_power : float or None
        y, from 0 to below 3; 1 only with ``dispersion=False`` (see Notes). Stokes absorption has y = 2, which
        may be left out.
    nonlinearity : float, array_like or None
        B/A; None for linear propagation.
    absorption : str
        ``"power_law"`` (fractional Laplacians; Treeby & Cox 2010, doi:10.1121/1.3377056), or ``"stokes"``
        (thermoviscous: y = 2, no dispersion, no extra transforms).
    dispersion : bool
        False leaves out the dispersion that accompanies power-law absorption.
    reference_speed : float, str or None
        c_ref of the k-space correction, m/s. Default: the largest sound speed, with which every time step is
        stable in a lossless medium of uniform density.
    density_staggered : sequence of float or array_like, or None
        ρ₀ half a spacing further along each axis, at the velocity points. Default: means of two neighbours,
        as in k-Wave; along a periodic axis (`Grid.periodic`) the first point is the last one's neighbour.
        `shaped_medium` and similar functions compute the values for boundaries between grid points.

    Notes
    -----
    The dispersion of a power law is proportional to tan(πy/2), which is infinite for y = 1. For y near 1 the
    speed and attenuation of the waves differ much from c₀ and α₀ f^y; `simulate` warns if they do at the
    frequency of a source.
    """

    sound_speed: Any
    density: Any = None
    alpha_coeff: Any = None
    alpha_power: float | None = None
    nonlinearity: Any = None
    absorption: Literal["power_law", "stokes"] = "power_law"
    dispersion: bool = True
    reference_speed: float | str | None = None
    density_staggered: Any = None

    __repr__ = one_line_repr

    def __post_init__(self) -> None:
        allowed = "kg/m³, one number or one for each grid point"
        ensure(self.density is not None, "medium.density", "is missing", allowed)
        choice("medium.absorption", self.absorption, ("power_law", "stokes"))
        units = {"sound_speed": "m/s", "density": "kg/m^3", "alpha_coeff": "", "nonlinearity": ""}
        assign = object.__setattr__
        for name, unit in units.items():
            value = getattr(self, name)
            if value is not None or name == "sound_speed":
                assign(self, name, _number_or_array(value, unit, f"medium.{name}"))
        y = None if self.alpha_power is None else real(self.alpha_power, "medium.alpha_power")
        assign(self, "alpha_power", y)
        if self.alpha_coeff is not None and self.absorption == "stokes":
            ensure(y in (None, 2.0), "medium.alpha_power", f"{show(y)} with Stokes absorption", "2")
            assign(self, "alpha_power", 2.0)
        elif self.alpha_coeff is not None and (y is None or not 0 <= y < 3 or (y == 1 and self.dispersion)):
            actual = "is missing" if y is None else show(y)
            raise InputError(f"medium.alpha_power: {actual}; allowed: {_POWERS}")
        if self.reference_speed is not None:
            c_ref = _number_or_array(self.reference_speed, "m/s", "medium.reference_speed")
            right = isinstance(c_ref, float) and 0 < c_ref < math.inf
            require(right, "medium.reference_speed", self.reference_speed, "one number above 0, m/s")
            assign(self, "reference_speed", c_ref)

    @cached_property
    def speeds(self) -> tuple[float, float]:
        """Return the smallest and largest sound speed, m/s; `InputError` unless positive and finite."""
        low, high = float(np.min(self.sound_speed)), float(np.max(self.sound_speed))
        actual = "has values that are not above 0 and finite"
        ensure(low > 0 and high < math.inf, "medium.sound_speed", actual, "m/s, above 0")
        return low, high

    def on(self, grid: Any) -> dict[str, Any]:
        """Return the arguments of `Problem` for this medium on a `Grid`, a dictionary from name to value."""

        def to_memory(value: Any, key: str) -> float | np.ndarray:
            return value if isinstance(value, float) else grid.to_memory(value, key)

        names = ("sound_speed", "density", "nonlinearity", "alpha_coeff")
        values = {name: value for name in names if (value := getattr(self, name)) is not None}
        parameters: dict[str, Any] = {name: to_memory(values[name], f"medium.{name}") for name in values}
        density = parameters["density"]
        key, staggered = "medium.density_staggered", self.density_staggered
        if staggered is None:
            staggered = tuple(stagger(density, axis, wrap) for axis, wrap in enumerate(grid.periodic))
        else:
            staggered = listed(staggered, key, f"one an axis, {grid.dimensions}")
            require(len(staggered) == grid.dimensions, key, len(staggered), f"one an axis, {grid.dimensions}")
            staggered = tuple(to_memory(_number_or_array(each, "kg/m^3", key), key) for each in staggered)
        speed = self.speeds[1] if self.reference_speed is None else self.reference_speed
        parameters |= {"density_staggered": staggered, "reference_speed": speed}
        if self.alpha_coeff is not None:
            parameters |= {name: getattr(self, name) for name in ("absorption", "alpha_power", "dispersion")}
        return parameters


def stagger(field: float | np.ndarray, axis: int, wrap: bool = False) -> float | np.ndarray:
    """Interpolate a field (Nz, Ny, Nx) to the points half a spacing further along ``axis`` (0 = x).

    Each result is the mean of two neighbours; a number stays as it is. With ``wrap``, for a periodic axis,
    the neighbour of the last point is the first one. Otherwise the last point keeps its value, as in k-Wave.
    """
    if not isinstance(field, np.ndarray):
        return field
    field = np.ascontiguousarray(field)
    moved = np.empty_like(field)
    run_setup("stagger", field.dtype, field.size, address(moved), address(field), *field.shape, axis, wrap)
    return moved


def density_jump(density: Any, sound_speed: Any, between: Sequence[Any] = ()) -> str | None:
    """Describe in words the reflection lost at the largest jump of the density; return None without a jump.

    A jump is a change of more than `LARGEST_JUMP`-fold between two neighbouring grid points. ``between``
    holds, for x, y(, z), the densities halfway between neighbours, arrays in memory order. If the density
    halfway is less than the larger of both neighbours divided by 2.1, and so less than their mean, the change
    is no jump: there the impedance changes smoothly enough.
    """
    rho, worst = np.asarray(density), (float(LARGEST_JUMP), 0.0)
    jumps = rho.size > 1 and LARGEST_JUMP * rho.min() < rho.max()
    for axis in [axis for axis, n in enumerate(rho.shape) if n > 1 and jumps]:
        one, other = (np.moveaxis(rho, axis, 0)[part] for part in (slice(1, None), slice(-1)))
        low, high = np.minimum(one, other), np.maximum(one, other)
        if between:
            side = np.moveaxis(np.broadcast_to(between[2 - axis], rho.shape), axis, 0)[:-1]
            low = np.where(2.1 * side < high, high, low)
        at = np.unravel_index(int((high / low).argmax()), low.shape)
        z1, z2 = (np.moveaxis(rho * sound_speed, axis, 0)[i, *at[1:]] for i in (at[0], at[0] + 1))
        worst = max(worst, (float((high / low)[at]), float(abs(z1 - z2) / (z1 + z2))))
    jump, reflection = worst
    if not reflection:
        return None
    text = f"changes {jump:.3g}-fold between neighbouring points, more than {LARGEST_JUMP}-fold, where up to "
    return f"{text}15 % (by a box 60 %) of the reflection coefficient {reflection:.4g} is lost"


def _number_or_array(value: Any, unit: str, key: str) -> float | np.ndarray:
    if isinstance(value, str):
        return quantity(value, unit, key)
    array = as_array(value, key)
    require(array.dtype.kind in "fiu", key, value, "a number, or one for each grid point")
    return float(array) if array.ndim == 0 else array
