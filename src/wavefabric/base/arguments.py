"""Check arguments: numbers in SI units or text with a unit, whole numbers, sequences, classes of objects."""

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from wavefabric.base.errors import InputError, quoted, require
from wavefabric.base.units import EXAMPLES, quantity, show

Function = TypeVar("Function", bound=Callable[..., Any])
_MOST = 2**63 - 1


def numbers(value: Any, unit: str, key: str) -> NDArray[np.float64]:
    """Convert a number, text (``"-21 ps^2/km"``) or nested lists of them to a float array in ``unit``."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
        return np.array(value, dtype=float)
    try:
        return np.array(_read(value, unit, key), dtype=float)
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{key}: {show(value)} given; allowed: numbers{_unit_text(unit)}") from None


def number(value: Any, unit: str, key: str) -> float:
    """Return one float in ``unit`` from a number or text with a unit; `InputError` for anything else."""
    array = numbers(value, unit, key)
    if array.ndim:
        raise InputError(f"{key}: {show(value)} given; allowed: one number{_unit_text(unit)}")
    return float(array)


def positive(value: Any, unit: str, key: str, zero: bool = False) -> float:
    """Convert a number or text with a unit to a positive finite float in ``unit``; ``zero`` also allows 0."""
    value = number(value, unit, key)
    if not (math.isfinite(value) and (value > 0 or (zero and value == 0))):
        allowed = "0 or more" if zero else "a positive number"
        raise InputError(f"{key}: {value!r}{' ' + unit if unit else ''} given; allowed: {allowed}")
    return value


def within(value: Any, unit: str, key: str, least: float, most: float) -> float:
    """Return a number, or text with a unit, as a float in ``unit``; `InputError` unless in [least, most]."""
    value = number(value, unit, key)
    if not least <= value <= most:
        space = " " * bool(unit)
        raise InputError(f"{key}: {value:g}{space}{unit} given; allowed: {least:g} to {most:g}{space}{unit}")
    return value


def instance(key: str, value: Any, *kinds: type) -> None:
    """Raise `InputError` unless ``value``, given for ``key``, is an instance of a class in ``kinds``."""
    if not isinstance(value, kinds):
        names = " or ".join(kind.__name__.replace("NoneType", "None") for kind in kinds)
        raise InputError(f"{key}: {quoted(value)} given; allowed: a {names}")


def field_array(value: Any) -> Any:
    """Return an array of numbers unchanged, also on a GPU, and lists as a NumPy array; else `InputError`."""
    try:
        field = value if hasattr(value, "dtype") else np.asarray(value)
    except ValueError:  # rows of unlike lengths
        field = np.array(None)
    if field.dtype.kind not in "biufc":
        raise InputError(f"field: {quoted(value)} given; allowed: an array of numbers")
    return field


def whole(key: str, value: Any, least: int, most: int | None = None) -> int:
    """Return a whole number from ``least`` to ``most`` (default 2^63 − 1) as int; else raise `InputError`."""
    number = value if is_whole(value) else None
    if number is None or not least <= number <= (_MOST if most is None else most):
        upper = "" if most is None else f" to {most}"
        raise InputError(f"{key}: {quoted(value)}; allowed: whole numbers from {least}{upper}")
    return int(number)


def is_whole(value: Any) -> bool:
    """Return whether ``value`` is a Python or NumPy integer, and not a bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def real(value: Any, key: str) -> float:
    """Return a real number, NumPy scalars included, as a float; `InputError` for anything else."""
    right = is_whole(value) and abs(int(value)) < 2**1023
    require(right or isinstance(value, float | np.floating), key, value, "a number")
    return float(value)


def in_unit(value: Any, unit: str, key: str) -> float:
    """Return a number, or text with a unit, as a float in the SI unit ``unit``."""
    return quantity(value if isinstance(value, str) else real(value, key), unit, key)


def pairs(values: Any, key: str, allowed: str) -> list[tuple[Any, Any]]:
    """Return a non-empty sequence of pairs as a list of tuples; `InputError` says what is ``allowed``."""
    items: list[Any] = [tuple(item) if np.iterable(item) else () for item in listed(values, key, allowed)]
    require(all(len(item) == 2 for item in items), key, values, allowed)
    return items


def per_axis(value: Any, n: int) -> tuple[Any, ...]:
    """Return a sequence of any length as a tuple, or a single value repeated for each of ``n`` axes."""
    many = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes)
    return tuple(value) if many else (value,) * n


def typed(function: Function) -> Function:
    """Decorate ``function`` so that `InputError` is raised for an argument of a wrong class.

    Only arguments whose annotation is a class of wavefabric are checked.
    """
    signature = inspect.signature(function)
    classes = {name: get_args(p.annotation) or (p.annotation,) for name, p in signature.parameters.items()}
    modules = {name: getattr(each[0], "__module__", "") for name, each in classes.items()}

    @functools.wraps(function)
    def checked(*positional: Any, **keywords: Any) -> Any:
        values = signature.bind(*positional, **keywords).arguments
        for name in values:
            if modules[name].startswith("wavefabric"):
                instance(name, values[name], *classes[name])
        return function(*positional, **keywords)

    return checked  # type: ignore[return-value]  # `wraps` gives it the type of the function


def listed(values: Any, key: str, allowed: str) -> list[Any]:
    """Return a non-empty sequence as a list; for anything else `InputError` says what is ``allowed``."""
    items = list(values) if np.iterable(values) and not isinstance(values, str) else []
    require(items, key, values, allowed)
    return items


def _unit_text(unit: str) -> str:
    return f" in {unit}, or text with a unit such as {EXAMPLES.get(unit, unit)}" if unit else ""


def _read(value: Any, unit: str, key: str) -> Any:
    if isinstance(value, str):
        return quantity(value, unit, key)
    if isinstance(value, bool):
        raise TypeError("no number")
    if isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim):
        return [_read(item, unit, key) for item in value]
    return float(value)
