"""Implement `wavefabric sweep`, which simulates a link at all points of a grid of parameter axes."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from wavefabric.base.errors import InputError
from wavefabric.cli.common.files import is_hdf5
from wavefabric.cli.common.options import argument, changed, option, options, refuse
from wavefabric.cli.common.progress import naming_no_resume, running
from wavefabric.cli.common.ranks import PANEL, RankOptions
from wavefabric.cli.common.show import conclude, heading, table
from wavefabric.cli.run_options import RunOptions
from wavefabric.collectives import direct_all_gather
from wavefabric.optics.link.build import check_start
from wavefabric.optics.sweeps.figures import plot_sweep
from wavefabric.optics.sweeps.points import make_grid
from wavefabric.optics.sweeps.result import SweepResult
from wavefabric.optics.sweeps.run import output_path, points_folder, sweep
from wavefabric.runtime.exchange.launch import environment

#: Largest number of points for which the table has one row per point.
_MOST_ROWS = 40


@options()
class SweepOptions(RunOptions):
    """Options of the run file, the axes, and how ranks share the points."""

    file: Path = argument("Run file of a fibre (TOML; see docs/sweeps.md).")
    output: Path | None = option(
        "Result file (HDF5). [default: the run file's stem + -sweep.h5]", "--output", "-o"
    )
    axes: list[str] | None = option(
        'An axis: "KEY=FIRST:LAST:STEP UNIT" or "KEY=A, B, ..."; may be repeated.', "--set"
    )
    zipped: list[str] | None = option(
        'An axis of keys that vary together: "KEY=VALUES; KEY=VALUES"; may be repeated.', "--zip"
    )
    together: bool = option(
        "All ranks run each point. [default: each rank runs points of its own]", default=False, panel=PANEL
    )


@naming_no_resume()
def command(options: SweepOptions, ranks: RankOptions) -> None:
    """Simulate the link of a run file for all values of some of its keys.

    The same command again goes on where a killed one stopped.
    """
    if is_hdf5(options.file):
        allowed = "a run file (TOML), which k-Wave's inputs do not have"
        raise InputError(f"FILE: {options.file} is HDF5; allowed: {allowed}")
    refuse(changed(options, "verify_step"), "with a sweep", "with run")
    if ranks.count == 1:
        refuse(changed(options, "exchange", "together"), "for one rank", "with --ranks 2 or more")
    elif not options.together:
        refuse(changed(options, "exchange"), "for ranks with points of their own", "with --together")
    grid = make_grid(options.file, _axes(options), **changed(options, "device", "threads", "exchange"))
    solver, target = grid.base.solver, options.output or output_path(grid.base)
    ranks, folder = ranks.checked(solver.device, solver.threads), points_folder(target)
    # Exchange between the ranks of one point: every rank sends its powers to all others.
    traffic = partial(direct_all_gather, [1] * ranks.count)
    together = ranks.count if options.together else 1
    check = partial(check_start, grid.base, together, target, options.force)
    go_on = "without --no-resume it" if options.no_resume else "the same command"
    with running(ranks, traffic, folder, check, options.silent, command=go_on) as (comm, progress):
        how: dict[str, Any] = {"progress": progress, "comm": comm, "together": options.together}
        result = sweep(grid, None, target, options.force, not options.no_resume, **how)
    if environment.rank() == 0:
        _conclude(result, grid.base.title, grid.base.output.figures, options)


def _axes(options: SweepOptions) -> list[Any]:
    zipped = ((_pair(part, "--zip") for part in text.split(";")) for text in options.zipped or ())
    single = [_pair(text, "--set") for text in options.axes or ()]
    return [*single, *(tuple(zip(*pairs, strict=True)) for pairs in zipped)]


def _pair(text: str, option: str) -> tuple[Any, Any]:
    key, equals, values = (part.strip() for part in text.partition("="))
    if not (key and equals and values):
        allowed = 'KEY=VALUES, "signal.launch_power=-4:4:2 dBm"'
        raise InputError(f'{option}: "{text.strip()}" given; allowed: {allowed}')
    return key, values


def _conclude(result: SweepResult, title: str, draw: bool, options: SweepOptions) -> None:
    """Draw the figures of a sweep, print its table and name the best point."""
    import numpy as np

    figures, best, axes = plot_sweep(result) if draw else [], result.best(), list(result.axes)
    least = np.fmin.reduce(result.at_farthest(result.numbers("q_squared_db")), (-2, -1))
    tables = {"mean": result.mean_q_squared_db(), "min": least}
    tables |= {name: result.numbers(name) for name in ("steps", "seconds", "local_error")}
    tables |= {
        name: np.reshape(np.array(result[name], object), result.shape) for name in ("warnings", "fault")
    }
    points = {
        index: {name: result.label(name, i) for name, i in zip(axes, index, strict=True)}
        | {name: each[index] for name, each in tables.items()}
        for index in np.ndindex(result.shape)
    }
    named = None if best is None else points[best]

    def show() -> Iterator[Any]:
        if title:
            yield heading(title)
        shown = {"mean": "{:.2f}", "min": "{:.2f}", "steps": "{:g}", "seconds": "{:.1f}"}
        heads, rows = [*axes, *shown], []
        if len(points) <= _MOST_ROWS:
            for each in points.values():
                numbers = (form.format(each[name]) for name, form in shown.items())
                rows.append([*(each[axis] for axis in axes), *numbers])
        else:
            heads = ["|axis", "|value", "least mean", "largest mean"]
            for number, axis in enumerate(axes):
                for i, part in enumerate(np.moveaxis(tables["mean"], number, 0)):
                    ends = (f"{end(part):.2f}" for end in (np.fmin.reduce, np.fmax.reduce))
                    rows.append([axis, result.label(axis, i), *ends])
        yield table(heads, rows)
        yield "Q² in dB over modes and channels at the farthest receiver position"
        if named is not None:
            words = ", ".join(f"{axis} = {named[axis]}" for axis in axes)
            yield f"best of {len(points)} points: {words} with {named['mean']:.2f} dB"

    if options.as_json or not options.quiet:
        said = {"axes": result.axes, "points": list(points.values()), "best": named}
        conclude(options.as_json, said, [result.path, *figures], show())
