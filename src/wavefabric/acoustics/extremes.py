"""Extremes of a medium: each array is read once, in parts that stay in the caches, on all threads."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from wavefabric.system.machine import usable_threads

#: Points of a part: some arrays of them fit into the second-level cache.
_PART = 1 << 14
#: Points for which a thread is worth starting.
_THREAD = 1 << 17

Range = tuple[float, float]


class Extremes(NamedTuple):
    """Holds the least and the largest value of each parameter of a medium, and of products at one point.

    Both are NaN where a value is. What is no grid of real numbers is left out. α₀ is in dB/(MHz^y cm).
    """

    ranges: dict[str, Range]
    stiffness: Range = (0.0, 0.0)  # ρ₀c₀²
    #: α₀c₀^y, α₀c₀^(y+1) and α₀c₀^(y+2).
    losses: tuple[Range, ...] = ((0.0, 0.0),) * 3
    #: c₀ and α₀ at the point where α₀c₀ is largest.
    strongest: tuple[float, float] = (0.0, 0.0)


def parts(shape: tuple[int, int, int], points: int) -> list[tuple[slice, slice]]:
    """Return runs of planes, or of rows of one plane, of so many points at most, or one row."""
    nz, ny, nx = shape
    rows = max(1, points // max(nx, 1))
    if rows < ny:
        return [(slice(z, z + 1), slice(y, y + rows)) for z in range(nz) for y in range(0, ny, rows)]
    planes = max(1, rows // max(ny, 1))
    return [(slice(z, z + planes), slice(None)) for z in range(0, nz, planes)]


def find_extremes(shape: tuple[int, int, int], medium: Mapping[str, Any], power: float) -> Extremes:
    """Find the extremes of parameters, numbers or arrays (Nz, Ny, Nx), by name; ``power`` is y."""
    arrays = {name: np.asarray(value) for name, value in medium.items() if value is not None}
    usable = {name: a for name, a in arrays.items() if a.dtype.kind in "fiu" and a.shape in ((), shape)}
    whole = all(not array.ndim for array in usable.values())
    pieces = [(slice(None), slice(None))] if whole else parts(shape, _PART)

    def part(piece: tuple[slice, slice]) -> Extremes:
        return _of_part(
            {name: array[piece] if array.ndim else array for name, array in usable.items()}, power
        )

    threads = max(1, min(usable_threads(), shape[0] * shape[1] * shape[2] // _THREAD))
    with np.errstate(all="ignore"):  # values that make no sense are refused later
        if whole or threads == 1:
            return _merged(map(part, pieces))
        with ThreadPoolExecutor(threads) as pool:
            return _merged(pool.map(part, pieces))


def _of_part(arrays: Mapping[str, np.ndarray], power: float) -> Extremes:
    result = Extremes({name: _range(array) for name, array in arrays.items()})
    c, rho, alpha = (arrays.get(name) for name in ("sound_speed", "density", "alpha_coeff"))
    if c is None:
        return result
    low, high = result.ranges["sound_speed"]
    c = np.float64(low) if low == high else c.astype(np.float64)  # a power of one number, or of each
    if rho is not None:
        result = result._replace(stiffness=_range(rho * c * c))
    if alpha is None or not np.any(alpha):
        return result
    product = np.asarray(c * alpha)
    at = np.unravel_index(int(product.argmax()), product.shape)
    strongest = float(np.broadcast_to(c, product.shape)[at]), float(np.broadcast_to(alpha, product.shape)[at])
    losses = [alpha * c**power]
    losses += [losses[0] * c, losses[0] * (c * c)]
    return result._replace(losses=tuple(map(_range, losses)), strongest=strongest)


def _range(array: np.ndarray) -> Range:
    return float(array.min()), float(array.max())


def _merged(extremes: Iterable[Extremes]) -> Extremes:
    """Return the extremes of several parts; of several strongest points the first."""
    every = list(extremes)

    def merged(ranges: Iterable[Range]) -> Range:
        lows, highs = zip(*ranges, strict=True)
        return float(np.min(lows)), float(np.max(highs))  # NaN goes through

    return Extremes(
        {name: merged(each.ranges[name] for each in every) for name in every[0].ranges},
        merged(each.stiffness for each in every),
        tuple(merged(ranges) for ranges in zip(*(each.losses for each in every), strict=True)),
        max((each.strongest for each in every), key=lambda point: point[0] * point[1]),
    )
