"""Check arguments of constructors: numbers in SI units or text with a unit, alone or in lists; choices."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wavefabric.base.errors import InputError, quoted
from wavefabric.base.units import EXAMPLES, quantity, show

#: Units of β1 … β4.
BETA_UNITS = ("s/m", "s^2/m", "s^3/m", "s^4/m")
_MOST = 2**63 - 1


def numbers(value: Any, unit: str, key: str) -> NDArray[np.float64]:
    """Return a new array of floats in ``unit``, from numbers or text (``"-21 ps^2/km"``), nested at will."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
        return np.array(value, dtype=float)
    try:
        return np.array(_read(value, unit, key), dtype=float)
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{key}: {show(value)} given; allowed: numbers{_in(unit)}") from None


def number(value: Any, unit: str, key: str) -> float:
    """Return one float in ``unit``, from a number or text."""
    array = numbers(value, unit, key)
    if array.ndim:
        raise InputError(f"{key}: {show(value)} given; allowed: one number{_in(unit)}")
    return float(array)


def positive(value: Any, unit: str, key: str, zero: bool = False) -> float:
    """Return one positive finite number in ``unit`` (0 is allowed with ``zero``), from a number or text."""
    value = number(value, unit, key)
    if not (math.isfinite(value) and (value > 0 or (zero and value == 0))):
        allowed = "0 or more" if zero else "a positive number"
        raise InputError(f"{key}: {value!r}{' ' + unit if unit else ''} given; allowed: {allowed}")
    return value


def within(value: Any, unit: str, key: str, least: float, most: float) -> float:
    """Return one number in ``unit`` from ``least`` to ``most``, from a number or text."""
    value = number(value, unit, key)
    if not least <= value <= most:
        space = " " * bool(unit)
        raise InputError(f"{key}: {value:g}{space}{unit} given; allowed: {least:g} to {most:g}{space}{unit}")
    return value


def instance(key: str, value: Any, *kinds: type) -> None:
    """Raise `InputError` for an object that is an instance of none of ``kinds``."""
    if not isinstance(value, kinds):
        names = " or ".join(kind.__name__.replace("NoneType", "None") for kind in kinds)
        raise InputError(f"{key}: {quoted(value)} given; allowed: a {names}")


def field_array(value: Any) -> Any:
    """Return a field of numbers as an array of NumPy, or of the device that it is on; else `InputError`."""
    try:
        field = value if hasattr(value, "dtype") else np.asarray(value)
    except ValueError:  # rows of unlike lengths
        field = np.array(None)
    if field.dtype.kind not in "biufc":
        raise InputError(f"field: {quoted(value)} given; allowed: an array of numbers")
    return field


def whole(key: str, value: Any, least: int, most: int | None = None) -> int:
    """Return a whole number from ``least`` to ``most``, by default the 64-bit maximum; else `InputError`."""
    number = value if isinstance(value, int | np.integer) and not isinstance(value, bool) else None
    if number is None or not least <= number <= (_MOST if most is None else most):
        upper = "" if most is None else f" to {most}"
        raise InputError(f"{key}: {quoted(value)}; allowed: whole numbers from {least}{upper}")
    return int(number)


def dispersion_coefficients(value: Any) -> NDArray[np.float64]:
    """Return β1, β2, β3, β4 of each mode, a row each, as far as given; each column has its own unit."""
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
