"""How options are declared: single ones, groups of them as dataclasses, and choices listed by the library."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any, get_origin, get_type_hints

import typer
import typer.core

from wavefabric.errors import InputError

#: A tuple or dict of the library, whose words are allowed: ``{module:NAME}``.
_LISTED = re.compile(r"\{([\w.]+):(\w+)\}")


def option(*names: str, help: str, panel: str | None = None, also: tuple[str, ...] = (), **more: Any) -> Any:
    """An option, shown by ``--help`` in a panel of that title.

    If the help holds ``{module:NAME}``, a value must be one of these words, or of `also`. The module is
    imported when a value is given, or help is shown by a `Command`.
    """
    if match := _LISTED.search(help):
        more["callback"] = _only(names[0], match, also)
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


def _only(
    name: str, match: re.Match[str], also: tuple[str, ...]
) -> Callable[[typer.CallbackParam, Any], Any]:
    def check(param: typer.CallbackParam, value: Any) -> Any:
        if value is not None and value != param.default:
            check_choice(name, value, (*also, *_words(match)))
        return value

    return check


def _words(match: re.Match[str]) -> tuple[str, ...]:
    return tuple(getattr(importlib.import_module(match[1]), match[2]))


def check_choice(name: str, value: str, allowed: Iterable[str]) -> None:
    """Refuse a word that is not one of those allowed."""
    if value not in (words := tuple(allowed)):
        raise InputError(f"{name}: {value[:60]} given; allowed: {', '.join(words)}")


class Command(typer.core.TyperCommand):
    """A command whose help names the words that the library allows."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Put the words in."""
        for param in self.params:
            if text := getattr(param, "help", None):
                param.help = _LISTED.sub(lambda match: ", ".join(_words(match)), text)  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


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
