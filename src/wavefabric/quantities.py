"""Arguments of constructors, checked: numbers in SI units or text with a unit, alone or in lists; choices."""

import math
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wavefabric.errors import InputError
from wavefabric.units import EXAMPLES, quantity, show

#: Units of β1 … β4.
BETA_UNITS = ("s/m", "s^2/m", "s^3/m", "s^4/m")


def numbers(value: Any, unit: str, key: str) -> NDArray[np.float64]:
    """A new array of floats in ``unit``, from numbers or text such as ``"-21 ps^2/km"``, nested at will."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
        return np.array(value, dtype=float)
    try:
        return np.array(_read(value, unit, key), dtype=float)
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{key}: {show(value)} given; allowed: numbers{_in(unit)}") from None


def number(value: Any, unit: str, key: str) -> float:
    """One float in ``unit``, from a number or text."""
    array = numbers(value, unit, key)
    if array.ndim:
        raise InputError(f"{key}: {show(value)} given; allowed: one number{_in(unit)}")
    return float(array)


def positive(value: Any, unit: str, key: str) -> float:
    """One positive finite number in ``unit``, from a number or text."""
    value = number(value, unit, key)
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"{key}: {value!r}{' ' + unit if unit else ''} given; allowed: a positive number")
    return value


def choice(key: str, value: str, allowed: Collection[str]) -> None:
    """Refuse a value that is not one of those allowed."""
    if not isinstance(value, str) or value not in allowed:
        raise InputError(f"{key}: {show(value)} given; allowed: {', '.join(allowed)}")


def whole(key: str, value: Any, least: int) -> None:
    """Refuse a value that is no whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(f"{key}: {value!r} given; allowed: a whole number of at least {least}")


def dispersion_coefficients(value: Any) -> NDArray[np.float64]:
    """β1, β2, β3, β4 of each mode, a row each, as far as given; each column has its own unit."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
        return np.array(value, dtype=float)
    rows = list(value) if isinstance(value, (list, tuple, np.ndarray)) else []
    if not rows or not all(isinstance(row, (list, tuple, np.ndarray)) and np.ndim(row) == 1 for row in rows):
        raise InputError(f"beta: {show(value)} given; allowed: a list of β1 … β4 for each mode")
    if len({len(row) for row in rows}) != 1 or not 1 <= len(rows[0]) <= len(BETA_UNITS):
        counts = ", ".join(str(len(row)) for row in rows[:8])
        raise InputError(f"beta: rows of {counts} values; allowed: β1 … β4, as many for all modes")
    columns = zip(zip(*rows, strict=True), BETA_UNITS, strict=False)
    return np.stack([numbers(list(column), unit, "beta") for column, unit in columns], axis=1)


def _in(unit: str) -> str:
    return f" in {unit}, or text with a unit such as {EXAMPLES.get(unit, unit)}" if unit else ""


def _read(value: Any, unit: str, key: str) -> Any:
    if isinstance(value, str):
        return quantity(value, unit, key)
    if isinstance(value, bool):
        raise TypeError("no number")
    if isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim):
        return [_read(item, unit, key) for item in value]
    return float(value)
