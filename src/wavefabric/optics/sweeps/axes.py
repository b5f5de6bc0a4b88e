"""Axes of a sweep: keys of a run file with their values, as ranges or lists."""

import contextlib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from typing import Any

import numpy as np

from wavefabric.errors import InputError, show

#: Most points of a sweep, and so most values of an axis.
MOST_POINTS = 10_000
NUMBER = r"[+-]?(?:\d{1,40}\.?\d{0,40}|\.\d{1,40})(?:[eE][+-]?\d{1,3})?"
_RANGE = re.compile(rf"\s*({NUMBER})\s*:\s*({NUMBER})\s*:\s*({NUMBER})\s*([^:]*)")


@dataclass(frozen=True)
class Axis:
    """One dimension of a sweep: ``rows[i][k]`` is the i-th value of ``keys[k]``; the first key names it."""

    keys: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    @property
    def name(self) -> str:
        """The first key."""
        return self.keys[0]


def axis(keys: str | Sequence[str], values: Any) -> Axis:
    """An axis of one key with its values (see `values_of`), or of several (zipped) with a list of values.

    InputError for what is no value, and for zipped keys with different numbers of values.
    """
    names, lists = ((keys,), [values]) if isinstance(keys, str) else (tuple(keys), values)
    if not isinstance(lists, (list, tuple)) or not 0 < len(names) == len(lists):
        raise InputError(f"{', '.join(names) or 'zip'}: zipped keys; allowed: values for each")
    columns = {key: values_of(key, each) for key, each in zip(names, lists, strict=True)}
    if len({len(column) for column in columns.values()}) > 1:
        counts = ", ".join(f"{key} has {len(column)}" for key, column in columns.items())
        fault = f"{names[0]}: varies with others, but {counts} values"
        raise InputError(f"{fault}; allowed: as many for each key")
    return Axis(names, tuple(zip(*columns.values(), strict=True)))


def values_of(key: str, values: Any) -> list[Any]:
    """The values of a key, as they would stand in a run file; InputError unless there are 1 to `MOST_POINTS`.

    Text is a range ``"first:last:step unit"``, both ends included, a TOML list ``"[...]"``, or entries with
    commas between. Without a unit they are numbers. Sequences are taken as they are.
    """
    if isinstance(values, str):
        match = _RANGE.fullmatch(values)
        values = _range(key, values, *match.groups()) if match else _entries(key, values)
    result = list(values) if isinstance(values, (list, tuple, range, np.ndarray)) else [values]
    if not 1 <= len(result) <= MOST_POINTS:
        raise InputError(f"{key}: {len(result)} values given; allowed: 1 to {MOST_POINTS}")
    return [value.item() if isinstance(value, np.generic) else value for value in result]


def _range(key: str, text: str, *parts: str) -> list[Any]:
    (first, last, step), unit = map(Decimal, parts[:3]), parts[3].strip()
    with localcontext(Context(prec=2200)):  # exact, for all numbers that `NUMBER` allows
        count = round((last - first) / step) if step else -1
        if count < 0 or abs(first + count * step - last) > abs(step) * Decimal("1e-9"):
            allowed = "a step that leads from the first value to the last"
            raise InputError(f"{key}: {show(text)} given; allowed: {allowed}")
        if count >= MOST_POINTS:
            many = f"{Decimal(count + 1):.6g} values"
            raise InputError(f"{key}: {show(text)} has {many}; allowed: up to {MOST_POINTS}")
        values = [(first + step * i).normalize() for i in range(count + 1)]
    if unit:
        return [f"{value:f} {unit}" for value in values]
    return [int(value) if re.fullmatch(r"[\s\d:+-]*", text) else float(value) for value in values]


def _entries(key: str, text: str) -> list[Any]:
    words = [word.strip() for word in text.split(",")]
    if words[0].startswith("["):
        with contextlib.suppress(ValueError, RecursionError):
            return tomllib.loads(f"values = {text}")["values"]
    elif all(words):
        return [_scalar(word) for word in words]
    allowed = 'a range "first:last:step unit", or a list such as "50 m, 100 m"'
    raise InputError(f"{key}: {show(text)} given; allowed: {allowed}")


def _scalar(word: str) -> Any:
    if word in ("true", "false"):
        return word == "true"
    if re.fullmatch(r"[+-]?\d{1,40}", word):
        return int(word)
    return float(word) if re.fullmatch(NUMBER, word) else word


def axes_of_table(table: Any) -> list[Axis]:
    """Axes of the table [sweep] of a run file; ``zip`` in it holds tables of keys that vary together."""
    if not isinstance(table, dict):
        raise InputError(f"sweep: {show(table)} given; allowed: a table of keys with their values")
    single = dict(table)
    zipped = single.pop("zip", [])
    zipped = [zipped] if isinstance(zipped, dict) else zipped
    if not isinstance(zipped, list) or not all(isinstance(each, dict) for each in zipped):
        raise InputError(f"sweep.zip: {show(zipped)} given; allowed: tables of keys that vary together")
    pairs = [dict(_flat(each)) for each in zipped]
    return [axis(*each) for each in _flat(single)] + [axis(list(each), list(each.values())) for each in pairs]


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys: without quotation marks TOML makes tables in tables of them."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
