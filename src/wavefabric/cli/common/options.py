"""How options are declared: as fields of classes; words that are allowed are listed by the library alone."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, dataclass_transform, get_type_hints

import typer
import typer.core
import typer.main

from wavefabric.errors import InputError, choice
from wavefabric.exchange.launch import environment

if TYPE_CHECKING:
    from wavefabric.exchange.communicator import Communicator

_T = TypeVar("_T")
#: A tuple or dict of the library, whose words are allowed: ``{module:NAME}``.
_LISTED = re.compile(r"\{([\w.]+):(\w+)\}")


@dataclasses.dataclass
class Invocation:
    """What belongs to one call of the command, for those who start ranks or open their communicator."""

    #: After the command's name, for ranks that it starts.
    words: list[str] = dataclasses.field(default_factory=list)
    #: The program that takes them.
    program: Sequence[str] = (sys.executable, "-m", "wavefabric")
    #: Of its ranks, once it is open.
    comm: Communicator | None = None


def option(
    help: str,
    *names: str,
    default: Any = None,
    panel: str | None = None,
    also: tuple[str, ...] = (),
    checked: bool = True,
    **more: Any,
) -> Any:
    """A field of an `options` class that is an option of the command line, called as the field unless named.

    If the help holds ``{module:NAME}``, a value must be one of these words, or of `also`, unless it is not
    to be checked. The module is imported when the command is.
    """
    if checked and (match := _LISTED.search(help)):
        more["callback"] = _only(match, also)
    how = {"param_decls": names, "help": help, "rich_help_panel": panel, **more}
    return dataclasses.field(default=default, metadata={"option": how})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(option,))
def options(panel: str | None = None) -> Callable[[type[_T]], type[_T]]:
    """A frozen dataclass of options, which ``--help`` shows in a panel of that title."""

    def make(plain: type[_T]) -> type[_T]:
        made = dataclasses.dataclass(frozen=True, kw_only=True)(plain)
        own = dict.fromkeys(inspect.get_annotations(plain), panel)
        made.panels = getattr(plain, "panels", {}) | own  # type: ignore[attr-defined]
        return made

    return make


def changed(group: Any, *names: str) -> dict[str, Any]:
    """Fields of a group of options that differ from their defaults; of those named, if any are."""
    return {
        field.name: value
        for field in dataclasses.fields(group)
        if (value := getattr(group, field.name)) != field.default and (not names or field.name in names)
    }


def refuse(inputs: dict[str, Any], why: str, allowed: str) -> None:
    """Refuse the first of these options, by field: ``--name: value given WHY; allowed: ALLOWED``."""
    for name, value in inputs.items():
        shown = "" if value is True else f"{value} "
        raise InputError(f"--{name.replace('_', '-')}: {shown}given {why}; allowed: {allowed}")


def grouped(command: Callable, all_ranks: bool) -> Callable:
    """A command that takes `options` classes: each of their fields becomes an option.

    Of a class with the field ``invocation`` this is the `Invocation` of the command.
    """
    groups: dict[str, tuple[type, list[str]]] = {}
    parameters = []
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        if dataclasses.is_dataclass(group := parameter.annotation):
            own = list(_parameters(group))  # type: ignore[arg-type]
            groups[name] = group, [each.name for each in own]  # type: ignore[assignment]
            parameters += own
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    parameters.append(inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context))

    @functools.wraps(command)
    def call(context: typer.Context, **inputs: Any) -> Any:
        if not all_ranks and environment.rank() > 0:
            return None
        made = {}
        for name, (group, fields) in groups.items():
            values = {field: inputs.pop(field) for field in fields}
            if "invocation" in group.__dataclass_fields__:  # type: ignore[attr-defined]
                values["invocation"] = context.ensure_object(Invocation)
            made[name] = group(**values)
        return command(**inputs, **made)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _parameters(group: type) -> Iterable[inspect.Parameter]:
    """Of an `options` class: a parameter for each field that is an option."""
    hints = get_type_hints(group, include_extras=True)
    for field in dataclasses.fields(group):
        if how := dict(field.metadata.get("option", {})):
            names = how.pop("param_decls") or (f"--{field.name.replace('_', '-')}",)
            # Words of the library stand in the help.
            how["help"] = _LISTED.sub(lambda match: ", ".join(_words(match)), how["help"])
            how["rich_help_panel"] = how["rich_help_panel"] or getattr(group, "panels", {}).get(field.name)
            yield inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=Annotated[hints[field.name], typer.Option(*names, **how)],
            )


def _only(match: re.Match[str], also: tuple[str, ...]) -> Callable[..., Any]:
    def check(param: typer.CallbackParam, value: Any) -> Any:
        if value is not None and value != param.default:
            choice(param.opts[0], value, (*also, *_words(match)))
        return value

    return check


def _words(match: re.Match[str]) -> tuple[str, ...]:
    return tuple(getattr(importlib.import_module(match[1]), match[2]))


def check_range(name: str, value: float | None, least: float, most: float, allowed: str) -> None:
    """Refuse a number outside a range; None is none."""
    if value is not None and not least <= value <= most:
        raise InputError(f"{name}: {value} given; allowed: {allowed}")


def from_one(param: typer.CallbackParam, value: int | None) -> int | None:
    """Callback of an option: refuse whole numbers below 1."""
    check_range(f"--{param.name}", value, 1, float("inf"), "a whole number from 1")
    return value


def from_zero(param: typer.CallbackParam, value: int | None) -> int | None:
    """Callback of an option: refuse negative numbers."""
    check_range(f"--{param.name}", value, 0, float("inf"), "whole numbers from 0")
    return value


def register(app: typer.Typer, name: str, command: Callable, all_ranks: bool = False, **how: Any) -> None:
    """Add a command whose parameters may be `options` classes; others than rank 0 leave most at once."""
    app.command(name, **how)(grouped(command, all_ranks))


class _Deferred(typer.core.TyperCommand):
    """A command, or the group ``app`` of a module, that is imported when it is asked for."""

    all_ranks, group, default = False, False, ""

    def __init__(self, **own: Any) -> None:
        super().__init__(**own)
        del self.params  # there are those of the command itself

    @functools.cached_property
    def _loaded(self) -> Any:
        if not self.group:
            app = typer.Typer()
            module = importlib.import_module(f"wavefabric.cli.{self.name}")
            register(app, str(self.name), module.command, self.all_ranks)
            return typer.main.get_group(app).commands[str(self.name)]
        group = typer.main.get_group(importlib.import_module(f"wavefabric.cli.{self.name}.app").app)
        group.help, group.no_args_is_help = group.help or self.help, True
        return group

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Go on with the command of a group whose name comes first, or with the default one."""
        command, below = self._loaded, getattr(self._loaded, "commands", {})
        if args and args[0] in below:
            command, info_name, args = below[args[0]], f"{info_name} {args[0]}", args[1:]
        elif args and args[0] not in parent.help_option_names:
            command = below.get(self.default, command)
        return command.make_context(info_name, args, parent, **extra)

    def __getattr__(self, name: str) -> Any:
        """Of the command, or the group, what only that has."""
        return getattr(self._loaded, name)


def defer(app: typer.Typer, name: str, help: str, **own: Any) -> None:
    """Add the command of ``wavefabric.cli.NAME``, imported when it is asked for, with its first line of help.

    With ``group`` it is the group ``wavefabric.cli.NAME.app``; there words that begin with the name of no
    command go to the command ``default``. ``all_ranks`` as of `register`.
    """
    app.command(name, help=help, cls=type("Deferred", (_Deferred,), own))(lambda: None)


@options()
class OutputOptions:
    """What most commands have: files replaced, JSON printed."""

    force: bool = option("Replace files that exist.", default=False)
    as_json: bool = option("Print as JSON and nothing else.", "--json", default=False)
