"""Arguments that users give: arrays, numbers and quantities with a unit, each with an error that names it."""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, get_args

import numpy as np

from wavefabric.device import host_array
from wavefabric.errors import InputError, one_line
from wavefabric.quantities import instance
from wavefabric.units import quantity, show

Function = TypeVar("Function", bound=Callable[..., Any])


def require(right: Any, key: str, value: Any, allowed: str) -> None:
    """Refuse a value that is not right."""
    if not right:
        ensure(False, key, show(value), allowed)


def ensure(right: Any, key: str, actual: Any, allowed: str) -> None:
    """Raise `InputError` as `require` does, with ``actual`` as the description of what was given."""
    if not right:
        raise InputError(f"{key}: {actual}; allowed: {allowed}")


def as_array(values: Any, key: str) -> np.ndarray:
    """Return an array in host memory, with an error that names ``key`` where that cannot be.

    Arrays on a GPU are copied.
    """
    try:
        return np.asarray(host_array(values))
    except ValueError:
        raise InputError(f"{key}: lists of different lengths given; allowed: an array") from None
    except (TypeError, RuntimeError, BufferError, ImportError) as error:  # tensors that need gradients
        raise InputError(f"{key}: {one_line(str(error))}; allowed: an array") from None


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


def pairs(values: Any, key: str, allowed: str) -> list[tuple[Any, Any]]:
    """The pairs that a sequence holds, one or more; refuses anything else."""
    items: list[Any] = [tuple(item) if np.iterable(item) else () for item in listed(values, key, allowed)]
    require(all(len(item) == 2 for item in items), key, values, allowed)
    return items


def per_axis(value: Any, n: int) -> tuple[Any, ...]:
    """A value for each of ``n`` axes, or as many as were given."""
    many = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes)
    return tuple(value) if many else (value,) * n


def real_array(values: Any, key: str) -> np.ndarray:
    """Return an array as `as_array` does, and refuse one of another type than real numbers."""
    array = as_array(values, key)
    ensure(array.dtype.kind in "fiu", key, f"is of type {array.dtype}", "real numbers")
    return array


def typed(function: Function) -> Function:
    """Decorate a function: it checks the arguments that are annotated with classes of this package."""
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
    """Return the entries of a sequence that is not empty; refuse anything else."""
    items = list(values) if np.iterable(values) and not isinstance(values, str) else []
    require(items, key, values, allowed)
    return items
