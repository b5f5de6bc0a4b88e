"""Checks of arguments that several constructors share: one wording each."""

from __future__ import annotations

import math
from typing import Any

from wavefabric.errors import InputError
from wavefabric.quantities import number


def positive(value: Any, unit: str, key: str) -> float:
    """One positive finite number in ``unit``, from a number or text; InputError otherwise."""
    value = number(value, unit, key)
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"{key}: {value!r}{' ' + unit if unit else ''} given; allowed: a positive number")
    return value


def choice(key: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raise InputError unless the value is one of those allowed."""
    if value not in allowed:
        raise InputError(f"{key}: {value!r} given; allowed: {', '.join(allowed)}")


def whole(key: str, value: Any, least: int) -> None:
    """Raise InputError unless the value is a whole number of at least ``least``."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < least:
        raise InputError(f"{key}: {value!r} given; allowed: a whole number of at least {least}")
