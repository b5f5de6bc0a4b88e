"""What the scripts of this folder share: their options, how they run, and where results go."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from click import Command
from click.exceptions import Exit

from wavefabric.cli.common.options import make_command, option
from wavefabric.cli.common.rank_session import show_measurement
from wavefabric.cli.common.show import status_line
from wavefabric.fabric.execution import timing
from wavefabric.runtime.device import get_device

Json = Annotated[bool, option("Print all numbers as JSON and write nothing.", "--json")]
Output = Annotated[
    Path | None,
    option("Folder for numbers (JSON) and figure. [default: beside the script]", "--output", "-o"),
]
Plot = Annotated[bool | None, option("Draw the figure. [default: yes]", "--plot/--no-plot")]
Seeds = Annotated[int, option("Draws of random routes.")]
DeviceName = Annotated[str, option("auto, cpu, cuda or cuda:K.", "--device")]
Threads = Annotated[int | None, option("CPU threads. [default: all]")]


def run(command: Callable[..., None] | Command, arguments: Sequence[str] | None = None) -> None:
    """Run a script's command with the error messages and exit codes of `wavefabric`."""
    from wavefabric import cli

    if not isinstance(command, Command):
        command = make_command("script", command, all_ranks=True, hidden=True)
    cli.app.add_command(command)
    cli.main(["script", *(sys.argv[1:] if arguments is None else arguments)])


def log2_ticks(axes: Any, values: Sequence[int]) -> None:
    """Give a logarithmic x axis ticks at these values alone."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(values, [str(value) for value in values])
    axes.minorticks_off()


def ratio_axes(axes: Any, rows: Sequence[str], limits: tuple[float, float], ticks: Sequence[float]) -> None:
    """Name the rows of a figure of ratios, one below the other from y = 0 on, on a logarithmic x axis."""
    axes.set_yticks(range(len(rows)), rows, fontsize=7)
    axes.set_ylim(-1, len(rows))
    axes.set_xscale("log")
    axes.set_xlim(*limits)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
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


def command(module: str, work: Callable[..., dict[str, Any]]) -> Command:
    """This makes the command of a script whose ``work(say)`` needs one CPU; its other inputs are options."""

    def main(as_json: Json = False, output: Output = None, plot: Plot = None, **options: Any) -> None:
        with status_line(as_json) as say:
            result = work(say=say, **options)
        result["machine"] = timing.machine(get_device("cpu"))
        show(module, result, as_json, output, plot)

    summary = (work.__doc__ or "").partition("\n")[0]
    return make_command("script", main, all_ranks=True, reads=(work, main), help=summary, hidden=True)


def start_ranks(ranks: int | None, threads: int | None) -> None:
    """Start a script anew on so many ranks and leave with their exit code; nothing if they are there."""
    from wavefabric.runtime.exchange.launch import environment
    from wavefabric.runtime.exchange.launch.launcher import LaunchOptions, launch

    if ranks is None or ranks < 2 or environment.ranks() > 1:
        return
    arguments, program = sys.argv[1:], [sys.executable, sys.argv[0]]
    raise Exit(launch(LaunchOptions(arguments, ranks, threads=threads or 1, program=program)))
