"""What the scripts of this folder share: their options, how they run, and where results go."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from wavefabric.cli.common.rank_session import show_measurement
from wavefabric.cli.common.show import status_line
from wavefabric.device import get_device
from wavefabric.execution import timing

Json = Annotated[bool, typer.Option("--json", help="Print all numbers as JSON and write nothing.")]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", help="Folder for numbers (JSON) and figure. \\[default: beside the script]"
    ),
]
Plot = Annotated[bool | None, typer.Option("--plot/--no-plot", help="Draw the figure. \\[default: yes]")]
Seeds = Annotated[int, typer.Option("--seeds", help="Draws of random routes.")]
DeviceName = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:K.")]
Threads = Annotated[int | None, typer.Option("--threads", help="CPU threads. \\[default: all]")]


def run(command: Callable[..., None], arguments: Sequence[str] | None = None) -> None:
    """Run a script's command with the error messages and exit codes of `wavefabric`."""
    from wavefabric import cli

    cli.app.command("script", hidden=True)(command)
    cli.main(["script", *(sys.argv[1:] if arguments is None else arguments)])


def log2_ticks(axes: Any, values: Sequence[int]) -> None:
    """Give a logarithmic x axis ticks at these values alone."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(values, [str(value) for value in values])
    axes.minorticks_off()


def folder(script: str, output: Path | None) -> Path:
    """Where a script writes: the folder asked for, or its own."""
    return output or Path(os.path.relpath(Path(script).parent))


def show(module: str, result: dict[str, Any], as_json: bool, output: Path | None, plot: bool | None) -> None:
    """Print tables, or JSON; write ``NAME.json`` and ``NAME.png`` beside the script, or to `output`."""
    script = sys.modules[module]
    if not as_json:
        output = folder(str(script.__file__), output)
    show_measurement(script, result, as_json, output, plot)


def command(module: str, work: Callable[..., dict[str, Any]]) -> Callable[..., None]:
    """The command of a script whose ``work(say)`` needs one CPU; other parameters of `work` are options."""

    def main(as_json: Json = False, output: Output = None, plot: Plot = None, **options: Any) -> None:
        with status_line(as_json) as say:
            result = work(say=say, **options)
        result["machine"] = timing.machine(get_device("cpu"))
        show(module, result, as_json, output, plot)

    taken = [*inspect.signature(work, eval_str=True).parameters.values()]
    taken += inspect.signature(main, eval_str=True).parameters.values()
    mine = [each for each in taken if each.name not in ("say", "options")]
    main.__signature__ = inspect.Signature(mine)  # type: ignore[attr-defined]
    main.__annotations__ = {each.name: each.annotation for each in mine}
    main.__doc__ = (work.__doc__ or "").partition("\n")[0]
    return main


def start_ranks(ranks: int | None, threads: int | None) -> None:
    """Start a script anew on so many ranks and leave with their exit code; nothing if they are there."""
    from wavefabric.exchange.launch import environment
    from wavefabric.exchange.launch.launcher import LaunchOptions, launch

    if ranks is None or ranks < 2 or environment.ranks() > 1:
        return
    arguments, program = sys.argv[1:], [sys.executable, sys.argv[0]]
    raise typer.Exit(launch(LaunchOptions(arguments, ranks, threads=threads or 1, program=program)))
