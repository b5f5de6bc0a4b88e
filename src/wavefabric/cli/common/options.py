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
    to be checked. The module is imported when a value is given, or help is shown by a `Command`.
    """
    how = {"help": help, "names": names, "panel": panel, "also": also, "checked": checked, "more": more}
    return dataclasses.field(default=default, metadata=how)


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
        if how := field.metadata:
            names = how["names"] or (f"--{field.name.replace('_', '-')}",)
            more = dict(how["more"])
            if how["checked"] and (match := _LISTED.search(how["help"])):
                more["callback"] = _only(names[0], match, how["also"])
            panel = how["panel"] or getattr(group, "panels", {}).get(field.name)
            shown = typer.Option(*names, help=how["help"], rich_help_panel=panel, **more)
            hint = Annotated[hints[field.name], shown]
            parameter = inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY)
            yield parameter.replace(default=field.default, annotation=hint)


def _only(name: str, match: re.Match[str], also: tuple[str, ...]) -> Callable[..., Any]:
    def check(param: typer.CallbackParam, value: Any) -> Any:
        if value is not None and value != param.default:
            choice(name, value, (*also, *_words(match)))
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


def check_seed(seed: int | None) -> None:
    """Refuse a negative seed."""
    check_range("--seed", seed, 0, float("inf"), "whole numbers from 0")


def full_help(help: str) -> str:
    """A help text with the words of the library."""
    return _LISTED.sub(lambda match: ", ".join(_words(match)), help)


def fill_in(params: Iterable[Any]) -> None:
    """Put the words of the library into the help of options."""
    for param in params:
        if text := getattr(param, "help", None):
            param.help = full_help(text)


class Command(typer.core.TyperCommand):
    """A command whose help names the words that the library allows."""

    def get_usage(self, ctx: Any) -> str:
        """How it is used; a default command has no name, and leaves one space."""
        return super().get_usage(ctx).replace("  [", " [")

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Put the words in."""
        fill_in(self.params)
        super().format_help(ctx, formatter)


def register(app: typer.Typer, name: str, command: Callable, all_ranks: bool = False) -> None:
    """Add a command whose parameters may be `options` classes; others than rank 0 leave most at once."""
    app.command(name, cls=Command)(grouped(command, all_ranks))


class _LazyGroup(typer.core.TyperGroup):
    """The commands of a module that is imported when one is asked for."""

    module = ""
    default: str | None = None  # the command that words go to which begin with the name of none
    _helping = False

    @functools.cached_property
    def _loaded(self) -> Any:
        return typer.main.get_group(importlib.import_module(self.module).app)

    @property
    def commands(self) -> Any:
        return self._loaded.commands

    @commands.setter
    def commands(self, value: Any) -> None:
        """There are none before the module is imported."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the default command's name in front of what is no command."""
        if self.default and args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Leave the default command's name out of its usage line."""
        result, command, rest = super().resolve_command(ctx, args)
        return "" if result == self.default else result, command, rest

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of all but the default command."""
        return [name for name in self.commands if name != self.default]

    def get_params(self, ctx: Any) -> list[Any]:
        """In help also those of the default command."""
        own = super().get_params(ctx)
        return [*self.commands[self.default].params, *own] if self._helping else own

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """How the default command is used, or another."""
        if self.default is None:
            return super().collect_usage_pieces(ctx)
        return [*self.commands[self.default].collect_usage_pieces(ctx), "|", self.subcommand_metavar]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Show what the default command takes above the names of the others."""
        if self.default:
            command = self.commands[self.default]
            self.help, self._helping = command.help, True
            fill_in(command.params)
        try:
            super().format_help(ctx, formatter)
        finally:
            self._helping = False


def lazy_group(app: typer.Typer, name: str, help: str, default: str | None = None) -> None:
    """Add the commands of ``wavefabric.cli.NAME.app``, which is imported when one is asked for.

    ``wavefabric NAME`` followed by the name of no command is the command `default`, whose options the group's
    help shows.
    """
    own = {"module": f"wavefabric.cli.{name}.app", "default": default}
    group = type("Group", (_LazyGroup,), own)
    app.add_typer(typer.Typer(name=name, help=help, cls=group, no_args_is_help=True))


@options()
class OutputOptions:
    """What most commands have: files replaced, JSON printed."""

    force: bool = option("Replace files that exist.", default=False)
    as_json: bool = option("Print as JSON and nothing else.", "--json", default=False)
