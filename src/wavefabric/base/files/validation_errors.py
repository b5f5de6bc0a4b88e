"""Turn Pydantic's errors about the tables of a file into one line."""

from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from wavefabric.base.errors import InputError, cut, did_you_mean, one_value, show, visible

_Table = TypeVar("_Table", bound=BaseModel)

#: Words for the allowed values by Pydantic's type of error; for other types Pydantic's message is used.
_ALLOWED = {
    "greater_than": "above {gt}",
    "greater_than_equal": "from {ge}",
    "less_than": "below {lt}",
    "less_than_equal": "up to {le}",
    "literal_error": "{expected}",
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    "string_unicode": "text",
    "string_pattern_mismatch": "text of the form {pattern}",
    "list_type": "a list",
    "tuple_type": "a list",
    "too_short": "a list with at least one entry",
    "too_long": "a list of at most {max_length} entries",
    "model_type": "a table",
    "dict_type": "a table",
}


#: Errors that describe a list as a whole.
_WHOLE_LISTS = ("value_error", "too_short", "too_long", "model_type", "dict_type")


def checked(model: type[_Table], content: Any) -> _Table:
    """Return ``content`` validated as ``model``; `InputError` describes the first error in one line."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise InputError(one_line(error, model)) from None


def one_line(error: ValidationError, model: type[BaseModel], prefix: str = "") -> str:
    """Return the first error as one line: the full key (after ``prefix``), the value, the allowed values."""
    # An unknown key explains a missing one, so it goes first.
    faults = sorted(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")
    first = faults[0]
    path, kind, inputs, ctx = first["loc"], first["type"], first["input"], first.get("ctx", {})
    holder, path = _holder(model, path)
    name = prefix + "".join(
        f"[{part}]" if isinstance(part, int) else f".{visible(cut(part))}" for part in path
    )
    message = str(ctx.get("error"))
    if kind == "extra_forbidden":
        message = _unknown(str(path[-1]), inputs, holder)
    elif kind == "missing":
        message = "missing; allowed: a value for it"
    elif isinstance(ctx.get("error"), InputError):  # the message begins with a key of this table
        key, _, message = message.partition(": ")
        name += f".{key}"
    elif isinstance(inputs, list) and kind not in _WHOLE_LISTS:
        message = one_value(inputs)
    elif kind != "value_error":
        words = {key: str(value).replace("'", '"') for key, value in ctx.items()}
        message = f"{show(inputs)} given; allowed: {_ALLOWED.get(kind, first['msg']).format(**words)}"
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{name.removeprefix('.')}: {message}{more}"


def _holder(model: type[BaseModel], path: tuple) -> tuple[type[BaseModel], tuple]:
    """Return the model of the table with the last key of ``path``, a path from ``model`` on, and that path.

    Pydantic adds to a path which of several kinds a table is; this is left out of the path that is returned.
    """
    kinds: dict[str, type[BaseModel]] = {}
    keys = []
    for position, part in enumerate(path):
        if kinds and part in kinds:
            model, kinds = kinds[part], {}
            continue
        keys.append(part)
        if part in model.model_fields and position + 1 < len(path):
            models = submodels(model.model_fields[part].annotation)
            model = models[0] if len(models) == 1 else model
            several = models if len(models) > 1 else []
            kinds = {get_args(each.model_fields["kind"].annotation)[0]: each for each in several}
    return model, tuple(keys)


def submodel(annotation: Any) -> type[BaseModel] | None:
    """Return the Pydantic model, the class of a table, of a field with one table; else None."""
    models = [] if get_origin(annotation) is dict else submodels(annotation)
    return models[0] if len(models) == 1 else None


def submodels(annotation: Any) -> list[type[BaseModel]]:
    """Return the Pydantic models, classes of tables, in a field's annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for each in get_args(annotation) for model in submodels(each)]


def _unknown(key: str, value: Any, holder: type[BaseModel]) -> str:
    fields = {field.alias or name: field for name, field in holder.model_fields.items()}
    keys = {name: f"[{name}]" if submodels(field.annotation) else name for name, field in fields.items()}
    what = "table" if isinstance(value, dict) else "key"
    return f"unknown {what}{did_you_mean(key, keys, keys)}; allowed: {', '.join(keys.values())}"
