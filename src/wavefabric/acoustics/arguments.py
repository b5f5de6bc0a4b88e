"""Arguments that users give: arrays, numbers and quantities with a unit, each with an error that names it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from wavefabric.errors import InputError
from wavefabric.units import quantity, show


def require(right: Any, key: str, value: Any, allowed: str) -> None:
    """Refuse a value that is not right."""
    if not right:
        raise InputError(f"{key}: {show(value)}; allowed: {allowed}")


def as_array(values: Any, key: str) -> np.ndarray:
    """``np.asarray``, with an error that names ``key`` where nested lists differ in length."""
    try:
        return np.asarray(values)
    except ValueError:
        raise InputError(f"{key}: lists of different lengths given; allowed: an array") from None


def is_whole(value: Any) -> bool:
    """Whether it is an int, NumPy's included, and no bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def real(value: Any, key: str) -> float:
    """A real number as float, NumPy scalars included."""
    right = is_whole(value) and abs(int(value)) < 2**1023
    require(right or isinstance(value, float | np.floating), key, value, "a number")
    return float(value)


def in_unit(value: Any, unit: str, key: str) -> float:
    """A number, or text with a unit, as a float in the SI unit."""
    return quantity(value if isinstance(value, str) else real(value, key), unit, key)


def positive(value: Any, unit: str, key: str) -> float:
    """As `in_unit`, above 0."""
    number = in_unit(value, unit, key)
    require(number > 0, key, value, "above 0")
    return number


def per_axis(value: Any, n: int) -> tuple[Any, ...]:
    """A value for each of ``n`` axes, or as many as were given."""
    many = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes)
    return tuple(value) if many else (value,) * n


def check_reals(values: np.ndarray, key: str) -> None:
    """Refuse an array of another type than real numbers."""
    if values.dtype.kind not in "fiu":
        raise InputError(f"{key}: is of type {values.dtype}; allowed: real numbers")


def check_choice(value: Any, allowed: Sequence[str], key: str) -> None:
    """Refuse a word that is not one of those allowed."""
    require(isinstance(value, str) and value in allowed, key, value, ", ".join(allowed))
