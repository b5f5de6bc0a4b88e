"""How options are declared: single ones, groups of them as dataclasses, and choices listed by the library."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_origin, get_type_hints

import click
import typer

from wavefabric.errors import InputError


def option(*names: str, help: str, panel: str | None = None, **more: Any) -> Any:
    """An option, shown by ``--help`` in a panel of that title."""
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


class Choice(click.ParamType):
    """A word from a tuple or dict of the library, which is imported only when it is asked for.

    ``extra`` words are allowed besides.
    """

    name = "text"

    def __init__(self, module: str, attribute: str, *extra: str):
        self._module, self._attribute, self._extra = module, attribute, extra

    @property
    def choices(self) -> tuple[str, ...]:
        """The words."""
        return *self._extra, *getattr(importlib.import_module(self._module), self._attribute)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """What ``--help`` shows."""
        return f"[{'|'.join(self.choices)}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The word, if it is allowed."""
        name = param.opts[0] if param is not None else "value"
        if param is None or value != param.default:
            check_choice(name, value, self.choices)
        return value


def check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Refuse a word that is not one of those allowed."""
    if value not in allowed:
        raise InputError(f"{name}: {value[:60]} given; allowed: {', '.join(allowed)}")


def grouped(command: Callable) -> Callable:
    """A command that takes options as dataclasses: each field that is ``Annotated`` becomes an option."""
    groups: dict[str, tuple[type, list[str]]] = {}
    parameters = []
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        if not dataclasses.is_dataclass(group := parameter.annotation):
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        hints = get_type_hints(group, include_extras=True)
        fields = [f for f in dataclasses.fields(group) if get_origin(hints[f.name]) is Annotated]
        groups[name] = group, [field.name for field in fields]  # type: ignore[assignment]
        for field in fields:
            parameter = inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY)
            parameters.append(parameter.replace(default=field.default, annotation=hints[field.name]))

    @functools.wraps(command)
    def call(**given: Any) -> Any:
        made = {
            name: group(**{field: given.pop(field) for field in fields})
            for name, (group, fields) in groups.items()
        }
        return command(**given, **made)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def changed(group: Any) -> dict[str, Any]:
    """Fields of a group of options that differ from their defaults."""
    return {
        field.name: value
        for field in dataclasses.fields(group)
        if (value := getattr(group, field.name)) != field.default
    }


Force = Annotated[bool, option("--force", help="Replace files that exist.")]
Quiet = Annotated[bool, option("--quiet", "-q", help="No progress bar, no table.")]
Json = Annotated[bool, option("--json", help="Print as JSON and nothing else.")]
Device = Annotated[str | None, option("--device", help="auto, cpu, cuda or cuda:K.")]
