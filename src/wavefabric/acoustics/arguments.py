"""Checks arguments of the Python API: arrays, numbers, quantities with a unit; errors name the argument."""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, get_args

import numpy as np

from wavefabric.base.errors import InputError, one_line
from wavefabric.base.quantities import instance
from wavefabric.base.units import quantity, show
from wavefabric.runtime.device import host_array

Function = TypeVar("Function", bound=Callable[..., Any])


def require(right: Any, key: str, value: Any, allowed: str) -> None:
    """Raise `InputError` with ``key``, ``value`` and ``allowed`` unless ``right`` is true."""
    if not right:
        ensure(False, key, show(value), allowed)


def ensure(right: Any, key: str, actual: Any, allowed: str) -> None:
    """Raise `InputError` unless ``right`` is true; ``actual`` describes the wrong value."""
    if not right:
        raise InputError(f"{key}: {actual}; allowed: {allowed}")


def as_array(values: Any, key: str) -> np.ndarray:
    """Return ``values`` as an array in host memory; arrays on a GPU are copied.

    `InputError` names ``key`` if ``values`` cannot be converted.
    """
    try:
        return np.asarray(host_array(values))
    except ValueError:
        raise InputError(f"{key}: lists of different lengths given; allowed: an array") from None
    except (TypeError, RuntimeError, BufferError, ImportError) as error:  # tensors that need gradients
        raise InputError(f"{key}: {one_line(str(error))}; allowed: an array") from None


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
    """Return a non-empty sequence of pairs as a list of tuples; `InputError` for anything else."""
    items: list[Any] = [tuple(item) if np.iterable(item) else () for item in listed(values, key, allowed)]
    require(all(len(item) == 2 for item in items), key, values, allowed)
    return items


def per_axis(value: Any, n: int) -> tuple[Any, ...]:
    """Return a sequence as a tuple, of whatever length, and a single value ``n`` times, once per axis."""
    many = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes)
    return tuple(value) if many else (value,) * n


def real_array(values: Any, key: str) -> np.ndarray:
    """Return an array as `as_array` does; `InputError` unless it contains real numbers."""
    array = as_array(values, key)
    ensure(array.dtype.kind in "fiu", key, f"is of type {array.dtype}", "real numbers")
    return array


def typed(function: Function) -> Function:
    """Decorate a function so that it checks the arguments that are annotated with classes of this package."""
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

    return checked  # type: ignore[return-value]


def listed(values: Any, key: str, allowed: str) -> list[Any]:
    """Return the entries of a non-empty sequence as a list; `InputError` for anything else."""
    items = list(values) if np.iterable(values) and not isinstance(values, str) else []
    require(items, key, values, allowed)
    return items
