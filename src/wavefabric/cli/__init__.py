"""The `wavefabric` command: one module per subcommand, no physics.

Modules import what is heavy inside their functions, so that ``--help`` answers at once.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import wavefabric
from wavefabric.cli import bench, collective, fabric, failure, info, kwave, plot, ranks, run
from wavefabric.errors import InputError, MissingExtra

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


def main(argv: list[str] | None = None) -> None:
    """Run the command and leave with its exit code: 0, 2 for bad input (one line on stderr), 130 for Ctrl-C.

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
    if failure.several():
        from wavefabric.exchange.muster import sign_in

        sign_in()
    message, fault = "", None
    try:
        code = app(args=words, prog_name="wavefabric", standalone_mode=False)
        code = code if isinstance(code, int) else 0
    except KeyboardInterrupt:
        code = failure.INTERRUPTED
    except (InputError, MissingExtra, OSError, MemoryError) as error:
        code, message, fault = failure.BAD_INPUT, failure.describe(error), error if debug else None
    except Exception as error:
        # Click's own errors (unknown option, missing argument, Ctrl-C as Abort) know their message.
        if type(error).__name__ == "Abort":
            code = failure.INTERRUPTED
        elif type(error).__name__ == "NoArgsIsHelpError":
            code = failure.BAD_INPUT  # It has printed the help.
        elif hasattr(error, "format_message") and not debug:
            code, message = failure.BAD_INPUT, error.format_message()  # type: ignore[attr-defined]
        else:
            code, message, fault = failure.FAILED, failure.describe(error), error
    if failure.several():
        sys.exit(failure.leave(code, message, fault))
    if fault is not None:
        raise fault
    if message:
        failure.fail(message)
    sys.exit(code)
