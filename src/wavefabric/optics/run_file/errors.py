"""Faults of a run file: from Pydantic's errors to one line."""

from __future__ import annotations

import difflib
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from wavefabric.errors import InputError
from wavefabric.units import show

#: What is said of each kind of fault; "must be" and Pydantic's words for the rest.
_TEXTS = {
    "missing": "missing",
    "literal_error": "{given} given, allowed: {expected}",
    "greater_than": "{given} given, must be above {gt}",
    "greater_than_equal": "{given} given, must be at least {ge}",
    "less_than": "{given} given, must be below {lt}",
    "less_than_equal": "{given} given, must be at most {le}",
    "int_type": "{given} given, must be a whole number",
    "float_type": "{given} given, must be a number",
    "finite_number": "{given} given, must be a finite number",
    "bool_type": "{given} given, must be true or false",
    "string_type": "{given} given, must be text",
    "string_pattern_mismatch": '{given} given, must be "auto", "cpu", "cuda" or "cuda:1"',
    "list_type": "{given} given, must be a list",
    "too_short": "{given} given, must be a list with at least one entry",
    "too_long": "{given} given, must be a list of at most {max_length} entries",
    "model_type": "{given} given, must be a table [{name}]",
}


def one_line(error: ValidationError, model: type[BaseModel], prefix: str = "") -> str:
    """The first fault: its key from the top (after `prefix`), what was given, what is allowed."""
    # An unknown key explains a missing one, so it goes first.
    faults = sorted(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")
    first = faults[0]
    kind, ctx = first["type"], first.get("ctx", {})
    keys, table, entry = _locate(first["loc"], model)
    if isinstance(ctx.get("error"), InputError):  # it names the key of the table itself
        key, _, message = str(ctx["error"]).partition(": ")
        keys.append(key)
    elif kind == "value_error":
        message = str(ctx["error"])
    elif kind == "extra_forbidden":
        message = _unknown(keys[-1], table, first["input"])
    else:
        ctx = {key: str(value).replace("'", '"') for key, value in ctx.items()}
        text = _TEXTS.get(kind, f"{{given}} given, must be {first['msg']}")
        message = text.format(given=show(first["input"]), name=".".join(keys), **ctx)
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
        if inner is not None:
            table = inner
            field = table.model_fields.get(part)
            inner = _submodel(field.annotation) if field is not None else None
    return names, table, ""


def _submodel(annotation: Any) -> type[BaseModel] | None:
    options = [annotation, *get_args(annotation)]
    return next((o for o in options if isinstance(o, type) and issubclass(o, BaseModel)), None)


def _unknown(key: str, model: type[BaseModel], value: Any) -> str:
    shown = {n: f"[{n}]" if _submodel(f.annotation) else n for n, f in model.model_fields.items()}
    close = difflib.get_close_matches(key, shown, n=1, cutoff=0.6)
    hint = f"did you mean {shown[close[0]]}? " if close else ""
    what = "table" if isinstance(value, dict) else "key"
    return f"unknown {what}; {hint}allowed: {', '.join(shown.values())}"
