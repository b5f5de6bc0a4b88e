"""Arguments of constructors: numbers in SI units, or text with a unit, alone or in (nested) lists."""

from __future__ import annotations

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


def dispersion_coefficients(value: Any, key: str = "beta") -> NDArray[np.float64]:
    """β1, β2, β3, β4 of each mode, a row each, as far as given; each column has its own unit."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
        return np.array(value, dtype=float)
    rows = list(value) if isinstance(value, (list, tuple, np.ndarray)) else []
    if not rows or not all(isinstance(row, (list, tuple, np.ndarray)) and np.ndim(row) == 1 for row in rows):
        raise InputError(f"{key}: {show(value)} given; allowed: a list of β1 … β4 for each mode")
    if len({len(row) for row in rows}) != 1 or not 1 <= len(rows[0]) <= len(BETA_UNITS):
        counts = ", ".join(str(len(row)) for row in rows[:8])
        raise InputError(f"{key}: rows of {counts} values; allowed: β1 … β4, as many for all modes")
    return np.array(
        [[number(b, unit, key) for b, unit in zip(row, BETA_UNITS, strict=False)] for row in rows]
    )


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
