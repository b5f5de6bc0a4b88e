"""Declare options as fields of classes or as parameters, and build commands and groups of Click from them.

Only the library lists the words that an option allows; help texts refer to these lists.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import math
import re
import sys
import typing
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, dataclass_transform, get_args, get_origin

import click

from wavefabric.base.errors import InputError, choice
from wavefabric.runtime.exchange.launch import environment

if TYPE_CHECKING:
    from wavefabric.runtime.exchange.communicator import Communicator

_T = TypeVar("_T")
#: Reference to a tuple or dict of the library that lists the allowed words: ``{module:NAME}``.
_LISTED = re.compile(r"\{([\w.]+):(\w+)\}")
_ARGUMENTS, _OPTIONS = "Arguments", "Options"
#: Rules of an option, with defaults. ``limits``: smallest and largest number; ``allowed``: text of this range
#: in errors; ``also``: words allowed besides those in the help; ``checked``: whether words are checked;
#: ``read``: function that converts the value; ``endings``: of an output file.
_RULES = {"limits": (), "allowed": "", "also": (), "checked": True, "read": None, "endings": ()}


@dataclasses.dataclass
class Invocation:
    """Holds one call of the command, for code that starts ranks or opens their communicator."""

    #: Arguments after the command's name, which ranks started by this call get too.
    words: list[str] = dataclasses.field(default_factory=list)
    #: Program that is started with these arguments.
    program: Sequence[str] = (sys.executable, "-m", "wavefabric")
    #: Communicator of the ranks, once it is open.
    comm: Communicator | None = None


def option(help: str, *names: str, default: Any = None, panel: str = "", **more: Any) -> Any:
    """Declare an option: a field of an `options` class, or a parameter ``Annotated[T, option(...)]``.

    Without ``names`` the option has the name of the field. If ``help`` contains ``{module:NAME}``, a value
    must be one of the words listed there, unless ``checked=False``; the check and the help import the module.
    ``more`` holds rules (`_RULES`), which are checked before the command is called, and arguments for Click.
    """
    return dataclasses.field(default=default, metadata={"names": names, "help": help, "panel": panel, **more})


def argument(help: str, metavar: str | None = None, default: Any = dataclasses.MISSING) -> Any:
    """Declare a positional argument, as `option` declares an option; without ``default`` it is required."""
    return option(help, default=default, panel=_ARGUMENTS, checked=False, metavar=metavar)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(option, argument))
def options(panel: str = "") -> Callable[[type[_T]], type[_T]]:
    """Make a class a frozen dataclass of options, which ``--help`` shows in a section titled ``panel``."""

    def make(plain: type[_T]) -> type[_T]:
        for field in vars(plain).values():
            if isinstance(field, dataclasses.Field) and field.metadata:
                field.metadata = field.metadata | {"panel": field.metadata["panel"] or panel}  # type: ignore
        return dataclasses.dataclass(frozen=True, kw_only=True)(plain)

    return make


def changed(group: Any, *names: str) -> dict[str, Any]:
    """Return the fields of ``group`` that differ from their defaults; with ``names``, only these fields."""
    return {
        field.name: value
        for field in dataclasses.fields(group)
        if field.default not in ((value := getattr(group, field.name)), dataclasses.MISSING)
        and (not names or field.name in names)
    }


def refuse(inputs: dict[str, Any], why: str, allowed: str) -> None:
    """Raise `InputError` for the first of ``inputs``: ``--name: value given WHY; allowed: ALLOWED``."""
    for name, value in inputs.items():
        shown = "" if value is True else f"{value} "
        raise InputError(f"--{name.replace('_', '-')}: {shown}given {why}; allowed: {allowed}")


def make_command(
    name: str, call: Callable, all_ranks: bool = False, *, reads: Sequence[Callable] = (), **more: Any
) -> click.Command:
    """Return a `click.Command` that calls ``call``, on rank 0 only unless ``all_ranks``.

    The options are the parameters of ``call``, or of the functions in ``reads`` (for scripts in ``papers``):
    fields of `options` classes, and ``Annotated`` parameters. ``more`` are arguments for `click.Command`; the
    help is the docstring of ``call`` unless they include one. A field ``invocation`` of an `options` class
    receives the `Invocation` of the command.
    """
    signatures = [inspect.signature(each, eval_str=True) for each in reads or (call,)]
    parameters = [each for signature in signatures for each in signature.parameters.values()]
    params = [(each, list(_params(each))) for each in parameters]

    def run(**inputs: Any) -> Any:
        if not all_ranks and environment.rank() > 0:
            return None
        if environment.rank() == 0:
            _check_outputs(every, inputs)
        records = {}
        for each, fields in params:
            if dataclasses.is_dataclass(group := each.annotation):
                values = {str(field.name): inputs.pop(str(field.name)) for field in fields}
                if "invocation" in group.__dataclass_fields__:
                    values["invocation"] = click.get_current_context().ensure_object(Invocation)
                records[each.name] = group(**values)  # type: ignore[operator]
        return call(**inputs, **records)

    every = [param for _, fields in params for param in fields]
    more.setdefault("help", inspect.getdoc(call))
    return _Command(name, callback=run, params=every, **more)


def _params(parameter: inspect.Parameter) -> Iterator[click.Parameter]:
    """Yield the options and arguments of Click that a parameter of a command declares, if any."""
    hint = parameter.annotation
    if get_origin(hint) is Annotated:
        kind, field = get_args(hint)
        yield _param(parameter.name, kind, parameter.default, **field.metadata)
    elif dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        for field in dataclasses.fields(hint):
            if field.metadata:
                yield _param(field.name, hints[field.name], field.default, **field.metadata)


def _check_outputs(params: Sequence[click.Parameter], values: dict[str, Any]) -> None:
    """Raise `InputError` if an option's value is an output file that cannot or must not be written."""
    outputs = {str(each.name): each for each in params if vars(each).get("endings")}
    others = (value for key, value in values.items() if key not in outputs)
    lists = (value if isinstance(value, list) else [value] for value in others)
    inputs = [each for values in lists for each in values if isinstance(each, (str, Path))]
    for key, param in outputs.items():
        if values[key] is not None:
            from wavefabric.base.files.output import check_output

            endings, force = vars(param)["endings"], values.get("force", False)
            check_output(values[key], force, param.opts[0], inputs=inputs, endings=endings)


def _param(
    name: str, hint: Any, default: Any, *, names: tuple[str, ...], help: str, panel: str, **more: Any
) -> click.Parameter:
    """Build the option or argument of Click for a parameter or field with this name and type (``hint``)."""
    kind = get_args(hint)[0] if type(None) in get_args(hint) else hint  # X | None
    many = get_origin(kind) is list
    kind = get_args(kind)[0] if many else kind
    if kind is Path:
        kind = click.Path(path_type=Path)
    elif more.get("read"):
        kind = str
    elif get_origin(kind) is Literal:
        kind = click.Choice(get_args(kind))
    more["required"] = default in (inspect.Parameter.empty, dataclasses.MISSING)
    if not more["required"]:
        more["default"] = default
    rules = {key: more.pop(key, usual) for key, usual in _RULES.items()}
    more.setdefault("callback", _converted_value)
    if panel == _ARGUMENTS:
        param = click.Argument([name], type=kind, nargs=-1 if many else 1, **more)
    else:
        names = names or (f"--{name.replace('_', '-')}",)
        more["show_default"] = default not in (None, "") and default is not False
        param = click.Option([name, *names], type=kind, multiple=many, is_flag=kind is bool or None, **more)
    vars(param).update(help=help, panel=panel or _OPTIONS, listed=_LISTED.search(help), **rules)
    return param


def _converted_value(context: click.Context, param: click.Parameter, value: Any) -> Any:
    """Return an option's value, checked and converted, for the command; a list for repeatable options."""
    if isinstance(value, tuple):  # of an option that may be repeated
        return [_converted_value(context, param, each) for each in value] or None
    if value is None:
        return None
    rules = vars(param)
    if limits := rules["limits"]:
        least, most = (*limits, math.inf)[:2]
        numbers = f"{least} to {most}" if most < math.inf else f"a whole number from {least}"
        check_range(param.opts[0], value, least, most, rules["allowed"] or numbers)
    if rules["listed"] and rules["checked"] and value != param.default:
        choice(param.opts[0], value, (*rules["also"], *_quoted_words(rules["listed"])))
    return rules["read"](value) if rules["read"] else value


class _Command(click.Command):
    """A command whose help has one section per panel and lists the words that the library allows."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        panels: dict[str, list[tuple[str, str]]] = {_ARGUMENTS: [], _OPTIONS: []}
        for each in self.get_params(ctx):
            text = _LISTED.sub(lambda match: ", ".join(_quoted_words(match)), vars(each)["help"])
            vars(each)["help"] = text
            record = each.get_help_record(ctx) or (each.get_usage_pieces(ctx)[0], text)
            panels.setdefault(vars(each).get("panel", _OPTIONS), []).append(record)
        for title, records in panels.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_arguments(self, *_: Any) -> None:
        """Do nothing: `format_options` lists the arguments too."""


def _quoted_words(match: re.Match[str]) -> tuple[str, ...]:
    return tuple(getattr(importlib.import_module(match[1]), match[2]))


def check_range(name: str, value: float | None, least: float, most: float, allowed: str) -> None:
    """Raise `InputError` if ``value`` is not in ``least`` to ``most``; None is accepted."""
    if value is not None and not least <= value <= most:
        raise InputError(f"{name}: {value} given; allowed: {allowed}")


class Group(_Command, click.Group):
    """A group of commands, which its help shows in the order in which they were added.

    If the first word names no command, the command ``default`` gets all words, if there is one.
    """

    default = ""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        first = args[0] if args and parent else "--help"
        if first in self.commands:
            return self.commands[first].make_context(f"{info_name} {first}", args[1:], parent, **extra)
        if self.default and first not in ("-h", "--help"):
            return self.commands[self.default].make_context(info_name, args, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args:  # as with bad input, but with the help
            click.echo(ctx.get_help())
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        shown = [each for each in self.commands.values() if not each.hidden]
        with formatter.section("Commands"):
            formatter.write_dl([(str(each.name), (each.help or "").partition("\n\n")[0]) for each in shown])


def register(group: click.Group, name: str, call: Callable, all_ranks: bool = False, **more: Any) -> None:
    """Add the command that `make_command` builds from ``call`` to a group."""
    group.add_command(make_command(name, call, all_ranks, **more))


#: Option ``--json`` of commands that only print facts.
Json = Annotated[bool, option("Print as JSON and nothing else.", "--json")]


@options()
class OutputOptions:
    """Options of most commands: replace existing files, print JSON."""

    force: bool = option("Replace files that exist.", default=False)
    as_json: bool = option("Print as JSON and nothing else.", "--json", default=False)
