"""Faults of a run file: from Pydantic's errors to one line."""

from __future__ import annotations

import difflib
from typing import Any

from pydantic import BaseModel, ValidationError

from wavefabric.units import show


class KeyedError(ValueError):
    """A fault that concerns several keys; `key` is the one to mend."""

    def __init__(self, key: str, message: str):
        super().__init__(message)
        self.key = key


def one_line(error: ValidationError, model: type[BaseModel], prefix: str = "") -> str:
    """The first fault: its key from the top (after `prefix`), what was given, what is allowed."""
    # An unknown key explains a missing one, so it goes first.
    faults = sorted(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")
    key, holder, entry = _locate(fault_path := faults[0]["loc"], model)
    cause = faults[0].get("ctx", {}).get("error")
    if isinstance(cause, KeyedError):
        key.append(cause.key)
    name = ".".join([prefix, *key] if prefix else key) + entry
    unknown = faults[0]["type"] == "extra_forbidden"
    what = _unknown(str(fault_path[-1]), holder, faults[0]["input"]) if unknown else _message(faults[0], name)
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{name}: {what}{more}"


def _locate(path: tuple, model: type[BaseModel]) -> tuple[list[str], type[BaseModel], str]:
    """Names from the top to the faulty key, the model that holds it, and which entry of a list it is."""
    names: list[str] = []
    holder, inner = model, model
    for part in path:
        if isinstance(part, int):
            return names, holder, f" (entry {part + 1})"
        names.append(part)
        if inner is None:
            continue
        holder = inner
        field = holder.model_fields.get(part)
        inner = _submodel(field.annotation) if field is not None else None
    return names, holder, ""


def _submodel(annotation: Any) -> type[BaseModel] | None:
    options = [annotation, *getattr(annotation, "__args__", ())]
    return next((o for o in options if isinstance(o, type) and issubclass(o, BaseModel)), None)


def _unknown(key: str, model: type[BaseModel], value: Any) -> str:
    shown = {n: f"[{n}]" if _submodel(f.annotation) else n for n, f in model.model_fields.items()}
    close = difflib.get_close_matches(key, shown, n=1, cutoff=0.6)
    hint = f"did you mean {shown[close[0]]}? " if close else ""
    what = "table" if isinstance(value, dict) else "key"
    return f"unknown {what}; {hint}allowed: {', '.join(shown.values())}"


def _message(fault: Any, name: str) -> str:
    kind, given, ctx = fault["type"], show(fault["input"]), fault.get("ctx", {})
    if kind == "value_error":
        return str(ctx["error"])
    if kind == "missing":
        return "missing"
    if kind == "literal_error":
        return f"{given} given, allowed: {ctx['expected'].replace(chr(39), chr(34))}"
    limits = {"greater_than": "above", "greater_than_equal": "at least", "less_than": "below"}
    for limit, word in (limits | {"less_than_equal": "at most"}).items():
        if kind == limit:
            return f"{given} given, must be {word} {next(iter(ctx.values()))}"
    wanted = {
        "int_type": "a whole number",
        "float_type": "a number",
        "finite_number": "a finite number",
        "bool_type": "true or false",
        "string_type": "text",
        "list_type": "a list",
        "too_short": "a list with at least one entry",
        "too_long": f"a list of at most {ctx.get('max_length')} entries",
        "model_type": f"a table [{name}]",
        "string_pattern_mismatch": '"auto", "cpu", "cuda" or "cuda:1"',
    }
    return f"{given} given, must be {wanted.get(kind, fault['msg'])}"
