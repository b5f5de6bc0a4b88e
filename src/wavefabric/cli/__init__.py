"""The `wavefabric` command: one module per subcommand, no physics.

Modules import what is heavy inside their functions, so that ``--help`` answers at once.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Annotated

import typer

import wavefabric
from wavefabric.cli import info, kwave, plot, run
from wavefabric.cli.bench import bench
from wavefabric.cli.collective import collective
from wavefabric.cli.common import failure, output, ranks
from wavefabric.cli.fabric import fabric
from wavefabric.errors import InputError, MissingExtra, one_line
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


def _version(asked: bool) -> None:
    if asked:
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


app.command("run")(run.command)
app.command("kwave")(kwave.command)
app.command("plot")(plot.command)
app.command("info")(info.command)
bench.register(app)
collective.register(app)
fabric.register(app)


def redirect_caches() -> None:
    """Give libraries a place for their caches where the home cannot be written; before they are imported."""
    config = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    redirect("MPLCONFIGDIR", "matplotlib", f"{config}/matplotlib", f"{cache}/matplotlib")


def _command(words: list[str]) -> int:
    if failure.several():
        from wavefabric.exchange.launch import rank_status

        rank_status.begin()
    redirect_caches()
    code = app(args=words, prog_name="wavefabric", standalone_mode=False)
    if code == INTERRUPTED:  # Click's and Typer's own answer to Ctrl-C
        return exit_code()
    return code if isinstance(code, int) else 0


def main(argv: list[str] | None = None) -> None:
    """Run the command and leave with its exit code: 0, 2 for bad input (one line on stderr), 130 for Ctrl-C,
    143 for SIGTERM.

    Several ranks leave together: one of them speaks, and if some go on, they are stopped.

    Parameters
    ----------
    argv : list of str, optional
        Arguments after the command's name; those of the process by default.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    ranks.words[:] = words
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    output.print_anywhere()
    message, fault = "", None
    try:
        with warnings.catch_warnings(), terminable():
            warnings.showwarning = failure.show_warning
            code = _command(words)
    except KeyboardInterrupt:
        code = exit_code()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        message = stop.code if isinstance(stop.code, str) else ""
    except (InputError, MissingExtra, OSError, MemoryError) as error:
        code, message, fault = failure.BAD_INPUT, failure.describe(error), error if debug else None
    except Exception as error:
        # Click's own errors (unknown option, missing argument, Ctrl-C as Abort) know their message.
        if type(error).__name__ == "Abort":
            code = exit_code()
        elif type(error).__name__ == "NoArgsIsHelpError":
            code = failure.BAD_INPUT  # It has printed the help.
        elif hasattr(error, "format_message") and not debug:
            code, message = failure.BAD_INPUT, error.format_message()  # type: ignore[attr-defined]
        else:
            code, message, fault = failure.FAILED, failure.describe(error), error
    message = one_line(message, _values(words))
    if failure.several():
        sys.exit(failure.leave(code, message, fault))
    if fault is not None:
        raise fault
    if message:
        failure.fail(message)
    sys.exit(code)


def _values(words: list[str]) -> list[str]:
    """Words of the command line, and what follows the ``=`` of an option."""
    return words + [word.partition("=")[2] for word in words if word.startswith("-")]
