"""How options are declared: as fields of classes; words that are allowed are listed by the library alone."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, dataclass_transform, get_args, get_origin

import click

from wavefabric.errors import InputError, choice
from wavefabric.exchange.launch import environment

if TYPE_CHECKING:
    from wavefabric.exchange.communicator import Communicator

_T = TypeVar("_T")
#: A tuple or dict of the library, whose words are allowed: ``{module:NAME}``.
_LISTED = re.compile(r"\{([\w.]+):(\w+)\}")
_ARGUMENTS = "Arguments"


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
    panel: str = "",
    also: tuple[str, ...] = (),
    checked: bool = True,
    **more: Any,
) -> Any:
    """This declares an option: a field of `options`, or a parameter ``Annotated[T, option(...)]``.

    It is called as the field unless named. If the help holds ``{module:NAME}``, a value must be one of these
    words, or of `also`, unless it is not to be checked; for that and for the help the module is imported.
    """
    if checked and (match := _LISTED.search(help)):
        more["callback"] = _only(match, also)
    return dataclasses.field(default=default, metadata={"names": names, "help": help, "panel": panel, **more})


def argument(help: str, metavar: str | None = None) -> Any:
    """This declares what is given by its place: a parameter ``Annotated[T, argument(...)]`` of a command."""
    return option(help, panel=_ARGUMENTS, checked=False, metavar=metavar)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(option,))
def options(panel: str = "") -> Callable[[type[_T]], type[_T]]:
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


def make_command(
    name: str,
    call: Callable[..., Any],
    all_ranks: bool = False,
    *,
    reads: Sequence[Callable[..., Any]] = (),
    help: str | None = None,
    hidden: bool = False,
) -> click.Command:
    """The command that this makes calls a function; others than rank 0 leave most at once.

    Its options are the fields of `options` classes, and what is ``Annotated``, among the parameters of the
    function, or of those functions that it `reads`; its help is the docstring unless there is another. The
    field ``invocation`` of a class is the `Invocation` of the command.
    """
    groups: dict[str, tuple[Any, list[str]]] = {}
    params: list[click.Parameter] = []
    signatures = [inspect.signature(each, eval_str=True) for each in reads or (call,)]
    for key, parameter in [each for signature in signatures for each in signature.parameters.items()]:
        hint = parameter.annotation
        if dataclasses.is_dataclass(hint):
            fields = list(_fields(hint))
            groups[key] = hint, [str(each.name) for each in fields]
            params += fields
        elif get_origin(hint) is Annotated:
            kind, field = get_args(hint)
            params.append(_parameter(key, kind, parameter.default, **field.metadata))

    def run(**inputs: Any) -> Any:
        if not all_ranks and environment.rank() > 0:
            return None
        inputs = {key: list(v) or None if isinstance(v, tuple) else v for key, v in inputs.items()}
        records = {}
        for key, (group, names) in groups.items():
            values = {each: inputs.pop(each) for each in names}
            if "invocation" in group.__dataclass_fields__:
                values["invocation"] = click.get_current_context().ensure_object(Invocation)
            records[key] = group(**values)
        return call(**inputs, **records)

    text = inspect.cleandoc(help or call.__doc__ or "")
    return _Command(name, callback=run, params=params, help=text, hidden=hidden)


def _fields(group: Any) -> Iterator[click.Parameter]:
    """An option of Click for each field of an `options` class that is one."""
    hints, panels = typing.get_type_hints(group), getattr(group, "panels", {})
    for field in dataclasses.fields(group):
        if how := dict(field.metadata):
            how["panel"] = how["panel"] or panels.get(field.name, "")
            yield _parameter(field.name, hints[field.name], field.default, **how)


def _parameter(
    name: str, hint: Any, default: Any, *, names: tuple[str, ...], help: str, panel: str, **more: Any
) -> click.Parameter:
    """An option or argument of Click for a field, or a parameter, of this name, type and default."""
    kind = get_args(hint)[0] if type(None) in get_args(hint) else hint  # X | None
    many = get_origin(kind) is list
    kind = get_args(kind)[0] if many else kind
    if kind is Path:
        kind = click.Path(path_type=Path)
    elif get_origin(kind) is Literal:
        kind = click.Choice(get_args(kind))
    elif limits := {end: more.pop(end) for end in ("min", "max") if end in more}:
        kind = click.IntRange(**limits)
    more |= {"required": True} if default is inspect.Parameter.empty else {"default": default}
    if panel == _ARGUMENTS:
        parameter = _Argument([name], type=kind, nargs=-1 if many else 1, **more)
    else:
        names = names or (f"--{name.replace('_', '-')}",)
        more["show_default"] = default not in (None, "") and default is not False
        parameter = _Option([name, *names], type=kind, multiple=many, is_flag=kind is bool or None, **more)
    parameter.help, parameter.panel = help, panel
    return parameter


class _Option(click.Option):
    """An option belongs to a panel of the help; the words of the library stand in its line."""

    panel = ""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        self.help = _LISTED.sub(lambda match: ", ".join(_words(match)), self.help or "")
        return super().get_help_record(ctx)


class _Argument(click.Argument):
    """An argument has a line of help, as those of Click have from 8.5 on."""

    help: str | None = None
    panel = _ARGUMENTS

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        return self.make_metavar(ctx), self.help or ""


class _Command(click.Command):
    """A command shows a section of options for each panel in its help."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        panels: dict[str, list[tuple[str, str]]] = {_ARGUMENTS: [], "Options": []}
        for each in self.get_params(ctx):
            if record := each.get_help_record(ctx):
                panels.setdefault(getattr(each, "panel", "") or "Options", []).append(record)
        for title, records in panels.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_arguments(self, *_: Any) -> None:
        """Arguments stand among the options."""


def _only(match: re.Match[str], also: tuple[str, ...]) -> Callable[..., Any]:
    def check(_: click.Context, param: click.Parameter, value: Any) -> Any:
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


def from_one(_: click.Context, param: click.Parameter, value: int | None) -> int | None:
    """Callback of an option: refuse whole numbers below 1."""
    check_range(f"--{param.name}", value, 1, float("inf"), "a whole number from 1")
    return value


def from_zero(_: click.Context, param: click.Parameter, value: int | None) -> int | None:
    """Callback of an option: refuse negative numbers."""
    check_range(f"--{param.name}", value, 0, float("inf"), "whole numbers from 0")
    return value


class Deferred(click.Command):
    """A command, or the group ``app``, of the module of its name is imported when it is asked for."""

    def __init__(self, name: str, help: str, *, is_group: bool, all_ranks: bool):
        super().__init__(name, help=help)
        self.is_group, self.all_ranks = is_group, all_ranks

    @functools.cached_property
    def loaded(self) -> click.Command:
        """What it stands for."""
        module = f"wavefabric.cli.{self.name}"
        if not self.is_group:
            return make_command(str(self.name), importlib.import_module(module).command, self.all_ranks)
        group = importlib.import_module(f"{module}.app").app
        group.help = group.help or self.help
        return group


class Group(_Command, click.Group):
    """A group shows its commands in the order in which they were added.

    Words that begin with the name of none go to the `default`, if there is one.
    """

    default = ""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = self.commands.get(cmd_name)
        return command.loaded if isinstance(command, Deferred) else command

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if parent is None or not args:
            return super().make_context(info_name, args, parent, **extra)
        if args[0] in self.commands:
            return self.commands[args[0]].make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        if self.default and args[0] not in parent.help_option_names:
            return self.commands[self.default].make_context(info_name, args, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args:  # as with bad input, but with the help
            click.echo(ctx.get_help())
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        lines = (
            (name, (each.help or "").partition("\n\n")[0])
            for name, each in self.commands.items()
            if not each.hidden
        )
        with formatter.section("Commands"):
            formatter.write_dl(list(lines))


def register(
    group: click.Group, name: str, call: Callable[..., Any], all_ranks: bool = False, **how: Any
) -> None:
    """Add the command of a function, as of `make_command`."""
    group.add_command(make_command(name, call, all_ranks, **how))


#: For commands that print facts alone.
Json = Annotated[bool, option("Print as JSON and nothing else.", "--json")]


@options()
class OutputOptions:
    """What most commands have: files replaced, JSON printed."""

    force: bool = option("Replace files that exist.", default=False)
    as_json: bool = option("Print as JSON and nothing else.", "--json", default=False)
