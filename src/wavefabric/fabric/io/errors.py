"""Faults of a fabric's file: from Pydantic's errors to one line."""

from __future__ import annotations

import difflib
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from wavefabric.units import show

_LIMITS = {
    "greater_than": "above",
    "greater_than_equal": "from",
    "less_than": "below",
    "less_than_equal": "up to",
}
_WANTED = {
    "int_type": "a whole number",
    "bool_type": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "too_short": "a list with at least one entry",
    "model_type": "a table",
    "string_unicode": "text",
}


def one_line(error: ValidationError, model: type[BaseModel]) -> str:
    """The first fault: its key from the top, what was given, what is allowed."""
    # An unknown key explains a missing one, so it goes first.
    faults = sorted(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")
    path = faults[0]["loc"]
    name = ""
    for part in path:
        name += f"[{part}]" if isinstance(part, int) else f".{_shown(part)}"
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{name.removeprefix('.')}: {_what(faults[0], _holder(model, path))}{more}"


def _shown(key: str) -> str:
    return key if key.isprintable() and len(key) <= 60 else show(key)


def _holder(model: type[BaseModel], path: tuple) -> type[BaseModel]:
    """The table that the last key of a path is in."""
    for part in path[:-1]:
        if part in model.model_fields:
            model = _submodel(model.model_fields[part].annotation) or model
    return model


def _submodel(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for a in get_args(annotation) if (model := _submodel(a))), None)


def _what(fault: Any, holder: type[BaseModel]) -> str:
    kind, given, ctx = fault["type"], show(fault["input"]), fault.get("ctx", {})
    if kind == "extra_forbidden":
        keys = [field.alias or name for name, field in holder.model_fields.items()]
        close = difflib.get_close_matches(str(fault["loc"][-1]), keys, n=1, cutoff=0.6)
        hint = f" (did you mean {close[0]}?)" if close else ""
        return f"unknown key{hint}; allowed: {', '.join(keys)}"
    if kind == "missing":
        return "missing; allowed: a value for it"
    if kind == "value_error":
        return str(ctx["error"])
    if kind == "literal_error":
        return f"{given} given; allowed: {ctx['expected'].replace(chr(39), chr(34))}"
    if kind in _LIMITS:
        return f"{given} given; allowed: {_LIMITS[kind]} {next(iter(ctx.values()))}"
    return f"{given} given; allowed: {_WANTED.get(kind, fault['msg'])}"
