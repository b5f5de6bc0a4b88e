"""Finds the smallest and largest values of a medium's parameters and of their products, on all threads."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from wavefabric.acoustics.setup_passes import partial_results, run_setup, value_range

Range = tuple[float, float]
#: Number of values that the kernel computes for each part of a medium.
_COLUMNS = 11


class Extremes(NamedTuple):
    """Holds the smallest and the largest value of each parameter of a medium, and of some of their products.

    A product, such as density times squared sound speed, is computed at each grid point before its extremes
    are determined. The absorption coefficient α₀ is in dB/(MHz^y cm). If an array contains a NaN, both
    extremes are NaN. Parameters that are neither real numbers nor real arrays of the grid's shape are left
    out.
    """

    ranges: dict[str, Range]
    stiffness: Range = (0.0, 0.0)  # ρ₀c₀²
    #: α₀c₀^y, α₀c₀^(y+1) and α₀c₀^(y+2).
    losses: tuple[Range, ...] = ((0.0, 0.0),) * 3
    #: c₀ and α₀ at the point where α₀c₀ is largest.
    strongest: tuple[float, float] = (0.0, 0.0)


def find_extremes(shape: tuple[int, int, int], medium: Mapping[str, Any], power: float) -> Extremes:
    """Return the smallest and largest values of a medium's parameters and of products of them.

    ``medium`` is a dictionary from names of parameters to numbers or arrays (Nz, Ny, Nx). ``power`` is the
    exponent y of the absorption α₀ f^y.
    """
    arrays = {name: np.asarray(value) for name, value in medium.items() if value is not None}
    usable = {
        name: _prepared(array)
        for name, array in arrays.items()
        if array.dtype.kind in "fiu" and array.shape in ((), shape)
    }
    result = Extremes({name: value_range(array) for name, array in usable.items()})
    c, rho, alpha = (usable.get(name) for name in ("sound_speed", "density", "alpha_coeff"))
    if c is None:
        return result
    nothing = np.zeros(1)
    parameters = [nothing if each is None else each for each in (c, rho, alpha)]
    points = max(each.size for each in parameters)
    dtype = np.result_type(*{each.dtype for each in parameters if each.size > 1} or {np.dtype(np.float64)})
    parameters = [each.astype(dtype, copy=False).reshape(-1) for each in parameters]
    partials = partial_results(points, _COLUMNS)
    run_setup("medium_extremes", dtype, points, *parameters, points, power, partials)
    low, high = partials[:, 0:8:2].min(axis=0), partials[:, 1:8:2].max(axis=0)  # NaN propagates
    stiffness, *losses = ((float(low), float(high)) for low, high in zip(low, high, strict=True))
    if rho is not None:
        result = result._replace(stiffness=stiffness)
    if alpha is not None and (result.ranges["alpha_coeff"] != (0.0, 0.0)):
        _, *strongest = partials[partials[:, 8].argmax(), 8:]
        result = result._replace(losses=tuple(losses), strongest=tuple(map(float, strongest)))
    return result


def _prepared(array: np.ndarray) -> np.ndarray:
    """Convert an array to contiguous float32 or float64; of a single broadcast number keep one element."""
    if not any(array.strides):
        array = array[(slice(0, 1),) * array.ndim]
    dtype = array.dtype if array.dtype in (np.float32, np.float64) else np.float64
    return np.ascontiguousarray(array, dtype)
