"""How options are declared, as fields of classes or parameters, and become commands and groups of Click.

Words that are allowed are listed by the library alone.
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

from wavefabric.errors import InputError, choice
from wavefabric.exchange.launch import environment

if TYPE_CHECKING:
    from wavefabric.exchange.communicator import Communicator

_T = TypeVar("_T")
#: A tuple or dict of the library, whose words are allowed: ``{module:NAME}``.
_LISTED = re.compile(r"\{([\w.]+):(\w+)\}")
_ARGUMENTS, _OPTIONS = "Arguments", "Options"
#: What an option may say besides, and what it says if it does not: least and most of a number, how errors say
#: so; words allowed besides those in the help, whether these are checked; what makes another value of a
#: value; endings of a file that is written.
_RULES = {"limits": (), "allowed": "", "also": (), "checked": True, "read": None, "endings": ()}


@dataclasses.dataclass
class Invocation:
    """What belongs to one call of the command, for those who start ranks or open their communicator."""

    #: After the command's name, for ranks that it starts.
    words: list[str] = dataclasses.field(default_factory=list)
    #: The program that takes them.
    program: Sequence[str] = (sys.executable, "-m", "wavefabric")
    #: Of its ranks, once it is open.
    comm: Communicator | None = None


def option(help: str, *names: str, default: Any = None, panel: str = "", **more: Any) -> Any:
    """This declares an option: a field of `options`, or a parameter ``Annotated[T, option(...)]``.

    It is called as the field unless named. If the help holds ``{module:NAME}``, a value must be one of these
    words, unless it is not to be checked; for that and for the help the module is imported. `more` is for
    `_RULES`, which are checked before the command is called, or for Click.
    """
    return dataclasses.field(default=default, metadata={"names": names, "help": help, "panel": panel, **more})


def argument(help: str, metavar: str | None = None, default: Any = dataclasses.MISSING) -> Any:
    """This declares what is given by its place, as `option` does; a field without a default must be given."""
    return option(help, default=default, panel=_ARGUMENTS, checked=False, metavar=metavar)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(option, argument))
def options(panel: str = "") -> Callable[[type[_T]], type[_T]]:
    """This makes a frozen dataclass of options, which ``--help`` shows in a section of that title."""

    def make(plain: type[_T]) -> type[_T]:
        for field in vars(plain).values():
            if isinstance(field, dataclasses.Field) and field.metadata:
                field.metadata = field.metadata | {"panel": field.metadata["panel"] or panel}  # type: ignore
        return dataclasses.dataclass(frozen=True, kw_only=True)(plain)

    return make


def changed(group: Any, *names: str) -> dict[str, Any]:
    """Fields of a group of options that differ from their defaults; of those named, if any are."""
    return {
        field.name: value
        for field in dataclasses.fields(group)
        if field.default not in ((value := getattr(group, field.name)), dataclasses.MISSING)
        and (not names or field.name in names)
    }


def refuse(inputs: dict[str, Any], why: str, allowed: str) -> None:
    """Refuse the first of these options, by field: ``--name: value given WHY; allowed: ALLOWED``."""
    for name, value in inputs.items():
        shown = "" if value is True else f"{value} "
        raise InputError(f"--{name.replace('_', '-')}: {shown}given {why}; allowed: {allowed}")


def make_command(
    name: str, call: Callable, all_ranks: bool = False, *, reads: Sequence[Callable] = (), **more: Any
) -> click.Command:
    """The command of Click that this makes calls a function; ranks other than 0 leave most commands at once.

    Its options are the fields of `options` classes, and what is ``Annotated``, among the parameters of the
    function, or of those functions that it `reads`; its help is the docstring unless `more` has another. The
    field ``invocation`` of a class is the `Invocation` of the command.
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
    """This makes the options and arguments of Click for a parameter of a command; none if it has none."""
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
    """Refuse files that cannot or must not be written, before anything is computed."""
    outputs = {str(each.name): each for each in params if vars(each).get("endings")}
    others = (value for key, value in values.items() if key not in outputs)
    lists = (value if isinstance(value, list) else [value] for value in others)
    inputs = [each for values in lists for each in values if isinstance(each, (str, Path))]
    for key, param in outputs.items():
        if values[key] is not None:
            from wavefabric.files.output import check_output

            endings, force = vars(param)["endings"], values.get("force", False)
            check_output(values[key], force, param.opts[0], inputs=inputs, endings=endings)


def _param(
    name: str, hint: Any, default: Any, *, names: tuple[str, ...], help: str, panel: str, **more: Any
) -> click.Parameter:
    """This makes the option or argument of Click for a parameter, or a field, of this name and type."""
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
    more.setdefault("callback", _taken)
    if panel == _ARGUMENTS:
        param = click.Argument([name], type=kind, nargs=-1 if many else 1, **more)
    else:
        names = names or (f"--{name.replace('_', '-')}",)
        more["show_default"] = default not in (None, "") and default is not False
        param = click.Option([name, *names], type=kind, multiple=many, is_flag=kind is bool or None, **more)
    vars(param).update(help=help, panel=panel or _OPTIONS, listed=_LISTED.search(help), **rules)
    return param


def _taken(context: click.Context, param: click.Parameter, value: Any) -> Any:
    """This gives what a command is called with: a value that is checked and read, a list of such, or None."""
    if isinstance(value, tuple):  # of an option that may be repeated
        return [_taken(context, param, each) for each in value] or None
    if value is None:
        return None
    rules = vars(param)
    if limits := rules["limits"]:
        least, most = (*limits, math.inf)[:2]
        numbers = f"{least} to {most}" if most < math.inf else f"a whole number from {least}"
        check_range(param.opts[0], value, least, most, rules["allowed"] or numbers)
    if rules["listed"] and rules["checked"] and value != param.default:
        choice(param.opts[0], value, (*rules["also"], *_words(rules["listed"])))
    return rules["read"](value) if rules["read"] else value


class _Command(click.Command):
    """A command shows a section for each panel in its help, where the words of the library stand."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        panels: dict[str, list[tuple[str, str]]] = {_ARGUMENTS: [], _OPTIONS: []}
        for each in self.get_params(ctx):
            text = _LISTED.sub(lambda match: ", ".join(_words(match)), vars(each)["help"])
            vars(each)["help"] = text
            record = each.get_help_record(ctx) or (each.get_usage_pieces(ctx)[0], text)
            panels.setdefault(vars(each).get("panel", _OPTIONS), []).append(record)
        for title, records in panels.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_arguments(self, *_: Any) -> None:
        """Arguments stand among the options."""


def _words(match: re.Match[str]) -> tuple[str, ...]:
    return tuple(getattr(importlib.import_module(match[1]), match[2]))


def check_range(name: str, value: float | None, least: float, most: float, allowed: str) -> None:
    """Refuse a number outside a range; None is none."""
    if value is not None and not least <= value <= most:
        raise InputError(f"{name}: {value} given; allowed: {allowed}")


class Group(_Command, click.Group):
    """A group shows its commands in the order in which they were added.

    Words that begin with the name of none go to the `default`, if there is one.
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
    """This adds the command of a function, as of `make_command`, to a group."""
    group.add_command(make_command(name, call, all_ranks, **more))


#: For commands that print facts alone.
Json = Annotated[bool, option("Print as JSON and nothing else.", "--json")]


@options()
class OutputOptions:
    """What most commands have: files replaced, JSON printed."""

    force: bool = option("Replace files that exist.", default=False)
    as_json: bool = option("Print as JSON and nothing else.", "--json", default=False)
