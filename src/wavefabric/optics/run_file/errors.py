"""Faults of a run file: from Pydantic's errors to one line."""

from __future__ import annotations

import difflib
from typing import Any

from pydantic import BaseModel, ValidationError

from wavefabric.errors import InputError
from wavefabric.units import show


def one_line(error: ValidationError, model: type[BaseModel], prefix: str = "") -> str:
    """The first fault: its key from the top (after `prefix`), what was given, what is allowed."""
    # An unknown key explains a missing one, so it goes first.
    faults = sorted(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")
    first = faults[0]
    keys, table, entry = _locate(first["loc"], model)
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InputError):  # it names the key of the table itself
        key, _, message = str(cause).partition(": ")
        keys.append(key)
    else:
        unknown = first["type"] == "extra_forbidden"
        name = ".".join(keys)
        message = _unknown(str(first["loc"][-1]), table, first["input"]) if unknown else _message(first, name)
    name = ".".join([prefix, *keys] if prefix else keys) + entry
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{name}: {message}{more}"


def _locate(path: tuple, model: type[BaseModel]) -> tuple[list[str], type[BaseModel], str]:
    """Names from the top to the faulty key, the model that holds it, and which entry of a list it is."""
    names: list[str] = []
    table, inner = model, model
    for part in path:
        if isinstance(part, int):
            return names, table, f" (entry {part + 1})"
        names.append(part)
        if inner is None:
            continue
        table = inner
        field = table.model_fields.get(part)
        inner = _submodel(field.annotation) if field is not None else None
    return names, table, ""


def _submodel(annotation: Any) -> type[BaseModel] | None:
    options = [annotation, *getattr(annotation, "__args__", ())]
    return next((o for o in options if isinstance(o, type) and issubclass(o, BaseModel)), None)


def _unknown(key: str, model: type[BaseModel], value: Any) -> str:
    shown = {n: f"[{n}]" if _submodel(f.annotation) else n for n, f in model.model_fields.items()}
    close = difflib.get_close_matches(key, shown, n=1, cutoff=0.6)
    hint = f"did you mean {shown[close[0]]}? " if close else ""
    what = "table" if isinstance(value, dict) else "key"
    return f"unknown {what}; {hint}allowed: {', '.join(shown.values())}"


_LIMITS = {
    "greater_than": "above",
    "greater_than_equal": "at least",
    "less_than": "below",
    "less_than_equal": "at most",
}
_WANTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "too_short": "a list with at least one entry",
    "string_pattern_mismatch": '"auto", "cpu", "cuda" or "cuda:1"',
}


def _message(fault: Any, name: str) -> str:
    kind, value, ctx = fault["type"], show(fault["input"]), fault.get("ctx", {})
    if kind == "value_error":
        return str(ctx["error"])
    if kind == "missing":
        return "missing"
    if kind == "literal_error":
        return f"{value} given, allowed: {ctx['expected'].replace(chr(39), chr(34))}"
    if kind in _LIMITS:
        return f"{value} given, must be {_LIMITS[kind]} {next(iter(ctx.values()))}"
    if kind == "too_long":
        return f"{value} given, must be a list of at most {ctx['max_length']} entries"
    wanted = f"a table [{name}]" if kind == "model_type" else _WANTED.get(kind, fault["msg"])
    return f"{value} given, must be {wanted}"
