"""The `wavefabric` command: a module for each subcommand, no physics; may import everything else.

A module is imported when its command is asked for, so that ``--help`` answers at once.
"""

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated

import typer

import wavefabric
from wavefabric.cli.common import encoding, failure
from wavefabric.cli.common.options import Invocation, defer
from wavefabric.errors import InputError, LateRank, MissingExtra, one_line
from wavefabric.exchange.launch import environment, rank_status
from wavefabric.system.interrupt import INTERRUPTED, exit_code, terminable
from wavefabric.system.user_cache import redirect

app = typer.Typer(
    name="wavefabric",
    help="Waves that outgrow one GPU, and the fabric between the GPUs that carries them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(options: bool) -> None:
    if options:
        typer.echo(f"wavefabric {wavefabric.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    pass


#: Commands and groups of commands, with the first line of their help.
_COMMANDS = {
    "run": "Simulate the link of a run file, or a k-Wave input file.",
    "plan": "Predict the time of a step, and the memory, of every way to share a run among GPUs; choose one.",
    "sweep": "Simulate the link of a run file for all values of some of its keys.",
    "kwave": "Run a k-Wave input file as kspaceFirstOrder-OMP and -CUDA do: same options, same files.",
    "transcranial": "Simulate a sonication through a skull: pressure, focus, temperature and thermal dose.",
    "plot": "Draw what a result file holds.",
    "report": "Write one HTML page about a result: whether it worked, how fast it was, and its figures.",
    "theory": "Show the Q² that theory expects of a fibre link, by mode group and distance, in seconds.",
    "info": "Show version, processor, GPUs, transports between ranks and optional parts.",
}
_GROUPS = {
    "bench": "Benchmarks: what steps and exchanges cost on this machine.",
    "collective": "Schedules of collective operations: make, verify, cost, draw, export and run them.",
    "fabric": "Fabrics between GPUs: show, import, route and measure them.",
    "train": "Training of a model on a fabric: how long an iteration takes.",
}
#: Commands in which ranks after the first have a part.
_ALL_RANKS = ("run", "sweep", "kwave", "transcranial", "info")
for _name, _help in _COMMANDS.items():
    defer(app, _name, _help, all_ranks=_name in _ALL_RANKS)
for _name, _help in _GROUPS.items():
    defer(app, _name, _help, group=True, default="simulate")


def redirect_caches() -> None:
    """Give libraries a place for their caches where the home cannot be written; before they are imported."""
    config = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    redirect("MPLCONFIGDIR", "matplotlib", f"{config}/matplotlib", f"{cache}/matplotlib")


def _command(words: list[str], invocation: Invocation) -> int:
    if environment.ranks() > 1:
        rank_status.begin()
    redirect_caches()
    code = app(args=words, prog_name="wavefabric", standalone_mode=False, obj=invocation)
    if code == INTERRUPTED:  # Click's and Typer's own answer to Ctrl-C
        return exit_code()
    return code if isinstance(code, int) else 0


def main(argv: list[str] | None = None, program: Sequence[str] = ()) -> None:
    """Run the command and leave with its exit code: 0, 2 for bad input (one line on stderr), 130 for Ctrl-C,
    143 for SIGTERM.

    Several ranks leave together: one of them speaks, and if some go on, they are stopped.

    Parameters
    ----------
    argv : list of str, optional
        Arguments after the command's name; those of the process by default.
    program : sequence of str, optional
        The command without arguments, for ranks that it starts; this one by default.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    invocation = Invocation(words, program) if program else Invocation(words)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    encoding.print_anywhere()
    code, message, fault = 0, "", None
    try:
        with warnings.catch_warnings(), terminable():
            warnings.showwarning = failure.show_warning
            code = _command(words, invocation)
            sys.stdout.flush()
    except (SystemExit, KeyboardInterrupt, Exception) as error:
        code, message, shown = _ending(error)
        fault = error if shown or (debug and message and isinstance(error, Exception)) else None
    # Values of options stand behind their "=".
    message = one_line(message, words + [word.partition("=")[2] for word in words if word.startswith("-")])
    if environment.ranks() > 1:
        sys.exit(failure.leave(code, message, fault, invocation.comm))
    if fault is not None:
        raise fault
    if message:
        failure.fail(message)
    sys.exit(code)


def _ending(error: BaseException) -> tuple[int, str, bool]:
    """Exit code, message, and whether the traceback is shown in any case."""
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":  # Click's name for Ctrl-C
        return exit_code(), "", False
    if isinstance(error, SystemExit):
        if isinstance(error.code, str):
            return failure.FAILED, error.code, False
        return int(error.code or 0), "", False
    if type(error).__name__ == "NoArgsIsHelpError":
        return failure.BAD_INPUT, "", False  # It has printed the help.
    if isinstance(error, (InputError, MissingExtra, OSError, MemoryError)):
        return failure.BAD_INPUT, failure.describe(error), False
    if isinstance(error, LateRank):
        return failure.FAILED, str(error), False
    if hasattr(error, "format_message"):  # Click's: an unknown option, a missing argument
        return failure.BAD_INPUT, error.format_message(), False  # type: ignore[attr-defined]
    return failure.FAILED, failure.describe(error), True
