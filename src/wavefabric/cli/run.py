"""`wavefabric run`: a run file in, a result file, a penalty table and figures out; or k-Wave's files."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wavefabric.cli.common import decomposition
from wavefabric.cli.common import ranks as several
from wavefabric.errors import InputError, visible

if TYPE_CHECKING:
    from rich.table import Table

    from wavefabric.collectives import Schedule
    from wavefabric.results import Result


#: Powers of rows (dense), or of groups of rows (factored).
EXCHANGES = ("auto", "dense", "factored")


def command(
    file: Annotated[
        Path,
        typer.Argument(
            help="Run file (TOML; see docs/run-files.md) or k-Wave input file (HDF5).", show_default=False
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Result file (HDF5). \\[default: the run file's stem + .h5, or k-Wave's + _out.h5]",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the result file if it exists.")] = False,
    device: Annotated[str | None, typer.Option("--device", help="auto, cpu, cuda or cuda:K.")] = None,
    threads: Annotated[
        int | None,
        typer.Option("--threads", help="CPU threads. \\[default: all; ultrasound: by the size of the grid]"),
    ] = None,
    no_resume: Annotated[
        bool, typer.Option("--no-resume", help="Start anew even if there is a checkpoint.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no table.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON instead.")] = False,
    ranks: several.Ranks = None,
    transport: several.Transport = None,
    placement: several.Placement = None,
    exchange: Annotated[
        str | None,
        typer.Option(
            "--exchange",
            help=f"Fibres: what ranks exchange, {', '.join(EXCHANGES)}. \\[default: auto]",
            rich_help_panel="Several ranks",
        ),
    ] = None,
    kind: decomposition.Kind = None,
    grid: decomposition.Grid = None,
    overlap: decomposition.Overlap = None,
    bell: decomposition.Bell = None,
) -> None:
    """Simulate the link of a run file, or a k-Wave input file.

    The same command again goes on where a killed one stopped.
    """
    from wavefabric.cli import run_kwave

    asked = several.RankOptions(ranks, transport, placement, device, threads)
    asked.check()
    if run_kwave.is_hdf5(file):
        if exchange is not None:
            raise InputError(f"--exchange: {exchange} given with a k-Wave file; allowed: with run files")
        with _naming_no_resume():
            run_kwave.run_file(
                file,
                output,
                force=force,
                ranks=asked,
                shared=decomposition.read_options(kind, grid, overlap, bell, asked),
                resume=not no_resume,
                quiet=quiet,
                as_json=as_json,
            )
        return
    for name, value in (
        ("--decomposition", kind),
        ("--grid", grid),
        ("--overlap", overlap),
        ("--bell", bell),
    ):
        if value is not None:
            raise InputError(f"{name}: {value} given with a run file; allowed: with k-Wave files")
    if exchange is not None:
        if exchange not in EXCHANGES:
            raise InputError(f"--exchange: {exchange} given; allowed: {', '.join(EXCHANGES)}")
        if asked.count == 1:
            raise InputError(f"--exchange: {exchange} given for one rank; allowed: with --ranks 2 or more")

    from wavefabric.cli.common.progress import make_progress, tell_of_compiling
    from wavefabric.optics.run_file import run_file
    from wavefabric.results import ResultWriter, read_result
    from wavefabric.results.checkpoint import checkpoint_path

    settings = run_file.load(file)
    changes = {"device": device, "threads": threads, "exchange": exchange}
    changes = {key: value for key, value in changes.items() if value is not None}
    if changes:
        settings = settings.with_solver(**changes)
    asked = replace(asked, device=settings.solver.device, threads=settings.solver.threads)
    asked.check()
    target = output or settings.output_path()
    if asked.count == 1 or several.starting(asked):
        ResultWriter(target, force, settings.input_paths())  # ranks have one among them, in run_link
    saved = checkpoint_path(target)
    if several.starting(asked):
        from wavefabric.optics.link.build import check_ranks

        check_ranks(settings, asked.count)
        several.start(asked, saved, lambda: _traffic(asked.count), quiet or as_json)
    comm = several.open_ranks(asked, lambda: _traffic(asked.count), quiet or as_json)

    from wavefabric.optics.link.run import run_link

    progress = make_progress(quiet or as_json)
    tell_of_compiling(quiet or as_json)
    try:
        with _naming_no_resume():
            done = run_link(
                settings, output=target, force=force, resume=not no_resume, progress=progress, comm=comm
            )
    except KeyboardInterrupt:
        from wavefabric.cli.common.kwave_run import interrupted
        from wavefabric.system.interrupt import exit_code

        progress.finish()
        command = "without --no-resume it" if no_resume else "the same command"
        interrupted(f"{command} goes on from {saved}" if saved.exists() else "no checkpoint yet")
        raise typer.Exit(exit_code()) from None
    finally:
        progress.finish()
    if not several.first():
        return

    figures: list[Path] = []
    if settings.output.figures:
        from wavefabric.results.plots import plot_result

        figures = plot_result(done.path)
    result = read_result(done.path)
    if as_json:
        typer.echo(json.dumps(_plain(summary(result, figures)), indent=2))
    elif not quiet:
        show(result, settings.title, figures)


@contextlib.contextmanager
def _naming_no_resume() -> Iterator[None]:
    """Say which option does what is advised for a checkpoint that cannot be used."""
    try:
        yield
    except InputError as error:
        if not str(error).endswith("to start anew"):
            raise
        raise InputError(f"{error} (--no-resume)") from None


def _traffic(ranks: int) -> Schedule:
    """What the ranks of a link exchange: every rank its cell powers with all others."""
    from wavefabric.collectives import direct_all_gather

    return direct_all_gather([1] * ranks)


def group_rows(result: Result) -> list[dict[str, Any]]:
    """Q² per mode group and place: mean and minimum in dB, penalty of the mean against back-to-back in dB.

    The penalty is None without back-to-back, or if that was received without noise.
    """
    import numpy as np

    from wavefabric.results.plots import NOISELESS_DB, distance, mean_db, mode_groups, received

    names = received(result)
    if not names:
        return []
    q = {name: np.atleast_2d(result[f"received/{name}/q_squared_db"]) for name in names}
    groups = mode_groups(result, len(q[names[0]]))
    rows = []
    for number in np.unique(groups):
        inside = groups == number
        row: dict[str, Any] = {"group": int(number), "modes": int(inside.sum()), "received": {}}
        reference = None
        for name in names:
            # One number for the group: its modes and channels together, averaged in linear units.
            mean = float(mean_db(q[name][inside].reshape(1, -1))[0])
            if name == "back_to_back" and mean <= NOISELESS_DB:
                reference = mean
            row["received"][name] = {
                "distance_m": distance(result, name),
                "q_squared_mean_db": mean,
                "q_squared_min_db": float(q[name][inside].min()),
                "penalty_db": None if reference is None else mean - reference,
            }
        rows.append(row)
    return rows


def summary(result: Result, figures: list[Path]) -> dict[str, Any]:
    """What ``--json`` prints."""
    return {
        "output": str(result.path),
        "figures": [str(path) for path in figures],
        "solver": result.attrs("solver") if "solver" in result.groups() else {},
        "warnings": list(result.get("solver/warnings", [])),
        "groups": group_rows(result),
    }


def show(result: Result, title: str, figures: list[Path]) -> None:
    """Print the penalty table, two distances beside each other, and what was written."""
    from rich.console import Console

    console = Console(highlight=False)
    if rows := group_rows(result):
        if title:
            console.print(visible(title), style="bold", markup=False)
        far = [name for name in rows[0]["received"] if name != "back_to_back"]
        for start in range(0, max(len(far), 1), 2):
            console.print(_table(rows, far[start : start + 2]))
        console.print("Q² in dB over modes and channels; penalty: mean minus back to back")
        if "back_to_back" in rows[0]["received"] and not _has_reference(rows):
            console.print("back to back is free of noise (no receiver.osnr): no reference for a penalty")
    solver = result.attrs("solver") if "solver" in result.groups() else {}
    if "local_error" in solver:
        console.print(cost_line(solver))
    if line := step_line(solver):
        console.print(line, soft_wrap=True)
    for path in [result.path, *figures]:
        console.print(f"wrote {path}", soft_wrap=True, markup=False)


def _has_reference(rows: list[dict[str, Any]]) -> bool:
    return all(
        "back_to_back" in r["received"] and r["received"]["back_to_back"]["penalty_db"] == 0 for r in rows
    )


def cost_line(solver: dict[str, Any]) -> str:
    """One line on what the propagation cost and how exact it was."""
    local = solver["local_error"]
    error = "not measured" if local != local else f"{local:.1e}"
    return (
        f"{solver['integrator']} on {solver['device']}: {solver['steps']} steps, {solver['ffts']} FFTs, "
        f"{solver['exchanges']} exchanges in {solver['seconds']:.1f} s; local error {error}, "
        f"energy drift {solver['energy_drift']:.1e}"
    )


def step_line(solver: dict[str, Any]) -> str:
    """One line on the step beside the resonance limit, "" for results that do not hold it."""
    limit, step = solver.get("resonance_step_m", math.nan), solver.get("step", math.nan)
    if not (math.isfinite(limit) and math.isfinite(step)):
        return ""
    from wavefabric.optics.propagation.resonance import metres

    def compared(limit: float) -> str:
        return f"{'above' if step > limit else 'below'} the resonance limit of {metres(limit)}"

    field = min(limit, solver["field_resonance_step_m"])
    return f"step {metres(step)}: {compared(limit)} for the channels ({solver['resonance_cause']}), " + (
        f"{compared(field).replace('the resonance limit', 'that')} for the whole field"
    )


def _table(rows: list[dict[str, Any]], places: list[str]) -> Table:
    from rich.table import Table

    def column(header: str, style: str = "") -> None:
        table.add_column(header, justify="right", no_wrap=True, style=style)

    table = Table()
    column("\ngroup")
    column("\nmodes")
    reference = _has_reference(rows)
    if reference:
        column("back to\nback")
    for name in places:
        column(f"{rows[0]['received'][name]['distance_m'] / 1e3:g} km\nmean")
        column("\nmin")
        if reference:
            column("\npenalty", "bold")
    for row in rows:
        cells = [str(row["group"]), str(row["modes"])]
        if reference:
            cells.append(f"{row['received']['back_to_back']['q_squared_mean_db']:.2f}")
        for name in places:
            place = row["received"][name]
            cells += [f"{place['q_squared_mean_db']:.2f}", f"{place['q_squared_min_db']:.2f}"]
            if reference:
                cells.append(f"{place['penalty_db']:+.3f}")
        table.add_row(*cells)
    return table


def _plain(value: Any) -> Any:
    """Values that JSON has: NumPy's as Python's, a level that is not finite as null."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (str, int, float)) else str(value)
