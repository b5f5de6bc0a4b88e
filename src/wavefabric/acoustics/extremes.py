"""Finds the extremes of a medium: threads read each array once, in blocks that fit into their caches."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from wavefabric.acoustics.parts import Part, over_parts

Range = tuple[float, float]


class Extremes(NamedTuple):
    """Holds the least and the largest value of each parameter of a medium, and of products of parameters.

    Products are taken point by point. Both extremes are NaN if an array contains a NaN. Parameters that are
    neither real numbers nor real arrays of the grid's shape are left out. α₀ is in dB/(MHz^y cm).
    """

    ranges: dict[str, Range]
    stiffness: Range = (0.0, 0.0)  # ρ₀c₀²
    #: α₀c₀^y, α₀c₀^(y+1) and α₀c₀^(y+2).
    losses: tuple[Range, ...] = ((0.0, 0.0),) * 3
    #: c₀ and α₀ at the point where α₀c₀ is largest.
    strongest: tuple[float, float] = (0.0, 0.0)


def find_extremes(shape: tuple[int, int, int], medium: Mapping[str, Any], power: float) -> Extremes:
    """Return the extremes of a medium; ``power`` is the exponent y of absorption.

    The medium has a number or an array (Nz, Ny, Nx) for each name of a parameter.
    """
    arrays = {name: np.asarray(value) for name, value in medium.items() if value is not None}
    usable = {name: a for name, a in arrays.items() if a.dtype.kind in "fiu" and a.shape in ((), shape)}
    whole = all(not array.ndim for array in usable.values())

    def part(piece: Part) -> Extremes:
        return _of_part({name: a[piece] if a.ndim else a for name, a in usable.items()}, power)

    with np.errstate(all="ignore"):  # values that make no sense are refused later
        return part((slice(0), slice(0))) if whole else _merged(over_parts(shape, part))


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


def _merged(every: list[Extremes]) -> Extremes:
    """Combine the extremes of several parts; of points of the same strongest absorption the first."""

    def merged(ranges: Iterable[Range]) -> Range:
        lows, highs = zip(*ranges, strict=True)
        return float(np.min(lows)), float(np.max(highs))  # NaN goes through

    return Extremes(
        {name: merged(each.ranges[name] for each in every) for name in every[0].ranges},
        merged(each.stiffness for each in every),
        tuple(merged(ranges) for ranges in zip(*(each.losses for each in every), strict=True)),
        max((each.strongest for each in every), key=lambda point: point[0] * point[1]),
    )
