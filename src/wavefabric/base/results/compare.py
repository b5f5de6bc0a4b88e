"""Compare two results: how much each quantity differs, relative to its largest value, and where most."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wavefabric.base.results.export import selected
from wavefabric.base.results.file import Result

#: Spacings are equal, and wall times are not compared.
_EQUAL, _TIMES = 1e-5, ("seconds",)


@dataclass(frozen=True)
class Difference:
    """Describes how much a quantity of a second result differs from that of a first one."""

    quantity: str
    units: str
    #: Largest magnitude in the first result; numbers of values compared.
    magnitude: float
    points: int
    #: Largest difference over ``magnitude``, and the L2 norm of the difference over that of the first.
    largest: float
    l2: float
    #: Coordinates of the largest difference, or why the quantity cannot be compared.
    where: str


def common_values(first: Result, second: Result, key: str) -> tuple[np.ndarray, np.ndarray, list[Any]] | None:
    """Return a quantity of two results at their common points, and the coordinates along each axis.

    Evenly spaced axes of equal spacing may have different lengths, such as with and without a PML. None if
    the results have no common points.
    """
    along = []
    cuts: tuple[list[Any], list[Any]] = [], []
    if first.dims(key) != second.dims(key) and first.shape(key) != second.shape(key):
        return None
    for axis, (n, m) in enumerate(zip(first.shape(key), second.shape(key), strict=True)):
        x, y = _along(first, key, axis), _along(second, key, axis)
        step = _step(x)
        if step and abs(_step(y) - step) <= _EQUAL * step:
            _, *index = np.intersect1d(np.round(x / step), np.round(y / step), return_indices=True)
        elif n == m:
            index = [np.arange(n)] * 2
        else:
            return None
        along.append(x[index[0]])
        for cut, each in zip(cuts, index, strict=True):
            cut.append(each)
    if not all(each.size for each in along):
        return None
    values = (np.asarray(each[key])[np.ix_(*cut)] for each, cut in zip((first, second), cuts, strict=True))
    a, b = map(np.asarray, values)
    return a, b, along


def compare(first: Result, second: Result, quantities: Sequence[str] = ()) -> list[Difference]:
    """Compare all quantities that both results have, or those named ``quantities``, as in `selected`."""
    named, other = selected(first, quantities), second.quantities()
    common = [key for key in first.quantities() if key in other and key not in _TIMES]
    return [_difference(first, second, key) for key in common if key in named or not named]


def absolute_difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return |a − b|: 0 where both are NaN or equal infinities, infinite where only one is NaN."""
    with np.errstate(invalid="ignore"):
        result = np.abs(b.astype(np.result_type(b, float)) - a)
    result = np.where((a == b) | ((a != a) & (b != b)), 0, result)
    return np.where(np.isnan(result), np.inf, result)


def _difference(first: Result, second: Result, key: str) -> Difference:
    unit = str(first.attrs(key).get("units", ""))
    values = common_values(first, second, key)
    if values is None:
        shapes = f"shapes {first.shape(key)} and {second.shape(key)}"
        return Difference(key, unit, np.nan, 0, np.inf, np.inf, shapes)
    a, b, along = values
    difference = absolute_difference(a, b)
    finite = np.where(np.isfinite(a), np.abs(a), 0)
    magnitude, norm = float(finite.max()), float(np.linalg.norm(finite))
    index = np.unravel_index(int(difference.argmax()), difference.shape)
    largest, total = float(difference[index]), float(np.linalg.norm(difference))
    relative = [
        each and (each / size if size else np.inf) for each, size in ((largest, magnitude), (total, norm))
    ]
    at = (_text(first, key, dim, each[i]) for dim, each, i in zip(first.dims(key), along, index, strict=True))
    where = ", ".join(at) if largest else ""
    return Difference(key, unit, magnitude, a.size, relative[0], relative[1], where)


def _along(result: Result, key: str, axis: int) -> np.ndarray:
    """Return the coordinates along an axis of a quantity, or numbers from 0."""
    at = result.coordinate(key, result.dims(key)[axis])
    return np.arange(result.shape(key)[axis]) if at is None else np.asarray(result[at])


def _step(along: np.ndarray) -> float:
    """Return the spacing of evenly spaced numbers; 0 for others."""
    if along.size < 2 or along.dtype.kind not in "fiu":
        return 0.0
    steps = np.diff(along.astype(float))
    return float(steps.mean()) if np.ptp(steps) <= _EQUAL * abs(steps.mean()) else 0.0


def _text(result: Result, key: str, dim: str, value: Any) -> str:
    """Return a dimension and a coordinate along it as text, positions in mm: ``x −1.2 mm``."""
    at = result.coordinate(key, dim)
    unit = str(result.attrs(at).get("units", "")) if at else ""
    if isinstance(value, str):
        return f"{dim} {value}"
    value, unit = (value * 1e3, "mm") if unit == "m" and dim[0] in "xyz" else (value, unit)
    return f"{dim} {value:.6g} {unit}".rstrip()
