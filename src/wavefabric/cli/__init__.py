"""Define the `wavefabric` command, one module per subcommand; no physics; may import all other packages.

A module is imported only when its command is called, so that ``--help`` answers at once.
"""

import gc
import os
import sys
import warnings
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from itertools import pairwise

import click

import wavefabric
from wavefabric.base.errors import InputError, LateRank, MissingExtra, one_line
from wavefabric.base.system.deferred_interrupt import exit_code, terminable
from wavefabric.base.system.gpu_context import begin_context
from wavefabric.base.system.user_cache import redirect
from wavefabric.cli.common import encoding, failure
from wavefabric.cli.common.options import Group, Invocation, make_command
from wavefabric.runtime.exchange.launch import environment, rank_status

#: Commands and groups of commands, with the first line of their help.
_COMMANDS = {
    "run": "Simulate the link of a run file, or a k-Wave input file.",
    "plan": "Predict the time of a step, and the memory, of every way to share a run among GPUs; choose one.",
    "sweep": "Simulate the link of a run file for all values of some of its keys.",
    "kwave": "Run a k-Wave input file as kspaceFirstOrder-OMP and -CUDA do: same options, same files.",
    "transcranial": "Simulate a sonication through a skull: pressure, focus, temperature and thermal dose.",
    "plot": "Draw what a result file holds.",
    "report": "Write one HTML page about a result: whether it worked, how fast it was, and its figures.",
    "export": "Write quantities of a result as CSV, NetCDF, MATLAB, VTK or NIfTI.",
    "compare": "Compare two results: the largest difference of each quantity, and where it is.",
    "theory": "Show the Q² that theory expects of a fibre link, by mode group and distance, in seconds.",
    "info": "Show version, processor, GPUs, transports between ranks and optional parts.",
}
_GROUPS = {
    "bench": "Benchmarks: what steps and exchanges cost on this machine.",
    "collective": "Schedules of collective operations: make, verify, cost, draw, export and run them.",
    "fabric": "Fabrics between GPUs: show, import, route, measure and calibrate them.",
    "train": "Training of a model on a fabric: how long an iteration takes.",
}
#: Commands of groups; each is a module of that name.
_MEMBERS = {
    "collective": ("make", "verify", "cost", "compile", "draw", "export", "run", "tune"),
    "fabric": ("show", "routes", "measure", "calibrate"),
}
#: Commands that all ranks execute, not only rank 0.
_ALL_RANKS = ("run", "sweep", "kwave", "transcranial", "info", "tune", "measure")
_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 120}


class _Program(Group):
    """The top-level group, which imports a command or group only when it is called."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _load(cmd_name) if cmd_name in _COMMANDS | _GROUPS else super().get_command(ctx, cmd_name)


@cache
def _load(name: str) -> click.Command:
    if name == "kwave":  # NumPy's BLAS, unused by kwave, starts a thread per core: 0.3 s on 16 cores
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if name in _MEMBERS:
        return Group(
            name, commands=[_load(f"{name}.{member}") for member in _MEMBERS[name]], help=_GROUPS[name]
        )
    if name in _GROUPS:
        group = import_module(f"wavefabric.cli.{name}.app").app
        group.help = group.help or _GROUPS[name]
        return group
    word = name.rpartition(".")[2]
    return make_command(word, import_module(f"wavefabric.cli.{name}").command, word in _ALL_RANKS)


@click.group("wavefabric", _Program, context_settings=_SETTINGS)
@click.version_option(wavefabric.__version__, message="wavefabric %(version)s", help="Show the version.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
def app() -> None:
    """Waves that outgrow one GPU, and the fabric between the GPUs that carries them."""


for _name, _help in (_COMMANDS | _GROUPS).items():
    app.add_command(click.Command(_name, help=_help))


def redirect_caches() -> None:
    """Redirect caches of libraries if the home folder is not writable; call before importing libraries."""
    config = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    redirect("MPLCONFIGDIR", "matplotlib", f"{config}/matplotlib", f"{cache}/matplotlib")


def gpu_of(arguments: Sequence[str]) -> int | None:
    """Return the number of the GPU that a command line asks for; None if it asks for none or is not clear."""
    values = dict(pairwise([*arguments, ""])) | dict(word.split("=", 1) for word in arguments if "=" in word)
    device = values.get("--device", "cuda" if arguments[:1] == ["kwave"] else "cpu").replace("auto", "cuda")
    kind, _, number = device.partition(":")
    number = values.get("-g", values.get("--gpu", number or "0"))
    joined = any(word.startswith("-g") and word != "-g" for word in arguments)
    other = not {"--ranks", "--help", "-h", "--version"}.isdisjoint(values) or environment.ranks() > 1
    other = other or joined
    return int(number) if kind == "cuda" and number.isdecimal() and not other else None


def _command(arguments: list[str], invocation: Invocation) -> None:
    if environment.ranks() > 1:
        rank_status.begin()
    if (gpu := gpu_of(arguments)) is not None:
        begin_context(gpu)  # while Python imports the command
    redirect_caches()
    with app.make_context("wavefabric", arguments, obj=invocation) as context:
        app.invoke(context)


def main(argv: list[str] | None = None, program: Sequence[str] = ()) -> None:
    """Run the command and exit: 0, 2 for bad input (one line on stderr), 130 for Ctrl-C, 143 for SIGTERM.

    ``argv``: arguments after the command's name, by default those of the process. ``program``: program,
    without arguments, that ranks are started with, by default this command. Several ranks exit together: one
    rank prints the message, and ranks that keep running are stopped.
    """
    gc.set_threshold(100_000)  # imports make many objects and no garbage
    arguments = list(sys.argv[1:] if argv is None else argv)
    invocation = Invocation(arguments, program) if program else Invocation(arguments)
    debug = "--debug" in arguments
    arguments = [word for word in arguments if word != "--debug"]
    encoding.print_anywhere()
    code, message, fault = 0, "", None
    try:
        with warnings.catch_warnings(), terminable():
            warnings.showwarning = failure.show_warning
            _command(arguments, invocation)
            sys.stdout.flush()
            gc.freeze()  # exempts all objects from the last collection, at exit
    except (SystemExit, KeyboardInterrupt, Exception) as error:
        code, message, shown = _ending(error)
        fault = error if shown or (debug and message and isinstance(error, Exception)) else None
    # Values of options follow an "=".
    values = [word.partition("=")[2] for word in arguments if word.startswith("-")]
    message = one_line(message, arguments + values)
    if environment.ranks() > 1:
        sys.exit(failure.leave(code, message, fault, invocation.comm))
    if fault is not None:
        raise fault
    if message:
        failure.fail(message)
    sys.exit(code)


def _ending(error: BaseException) -> tuple[int, str, bool]:
    """Return the exit code, the message, and whether the traceback is shown even without ``--debug``."""
    if isinstance(error, KeyboardInterrupt):
        return exit_code(), "", False
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code, "", False
    if isinstance(error, SystemExit):
        if isinstance(error.code, str):
            return failure.FAILED, error.code, False
        return int(error.code or 0), "", False
    if isinstance(error, BrokenPipeError) and error.filename is None:  # the reader of stdout has exited
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return failure.FAILED, "", False
    if isinstance(error, (InputError, MissingExtra, OSError, MemoryError)):
        return failure.BAD_INPUT, failure.describe(error), False
    if isinstance(error, LateRank):
        return failure.FAILED, str(error), False
    if isinstance(error, click.ClickException):  # an unknown option, a missing argument
        return failure.BAD_INPUT, error.format_message(), False
    return failure.FAILED, failure.describe(error), True
