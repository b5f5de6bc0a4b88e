"""Implement `wavefabric plot`, which draws figures of a result file."""

from pathlib import Path
from typing import Literal, get_args

from wavefabric.acoustics.pictures.movie import Movie, draw_movie
from wavefabric.acoustics.pictures.plot_recorded import plot_recorded, select_quantities
from wavefabric.acoustics.pictures.recorded import RecordedFile, open_recorded
from wavefabric.base.errors import InputError
from wavefabric.base.files.output import check_output, made_folder
from wavefabric.base.results import read_result
from wavefabric.base.system.progress import terminal_bar
from wavefabric.base.units import quantity as quantity_of
from wavefabric.cli.common.options import argument, changed, option, options, refuse
from wavefabric.cli.common.show import print_written
from wavefabric.optics.link.figures import plot_result
from wavefabric.optics.link.movie import PulseMovie
from wavefabric.optics.sweeps.figures import SweepFigure, plot_sweep
from wavefabric.optics.sweeps.result import read_sweep

#: File formats of a figure.
Format = Literal["png", "pdf", "svg"]


@options()
class PlotOptions:
    """Options of the figures: the files, and which quantities of a result are drawn."""

    file: Path = argument("Result file (HDF5) of a run: of a fibre, of `simulate`, or k-Wave's output.")
    output: Path | None = option(
        "Folder for the figures, or the file of a single one. [default: beside FILE]", "--output", "-o"
    )
    format: Format | None = option("Picture (png) or vectors. [default: png]")
    quantity: list[str] | None = option(
        "Ultrasound: draw this one, e.g. p_max_all; may be repeated. [default: all] Sweep: e.g. penalty_db."
    )
    over: str | None = option("Sweep: an axis, or distance. [default: the first axis]")
    mode: int | None = option(
        "Sweep: a spatial mode, from 1. [default: the mean of all] Run: its constellation, or movie."
    )
    channel: int | None = option(
        "Sweep: a channel, from 1. [default: the mean of all] Run: its constellation."
    )
    slice: list[str] | None = option(
        "Ultrasound in 3-D: cut at e.g. z=5mm; may be repeated. [default: at the largest value]"
    )
    movie: str | None = option(
        "Ultrasound: a movie of this time series, e.g. p, recorded in a plane. Run: power or spectrum along "
        "the fibre, from its snapshots."
    )
    fps: int | None = option("Movie: frames per second. [default: 20]")
    every: int | None = option("Movie: time steps from frame to frame. [default: at most 200 frames]")
    force: bool = option(
        "Movies, ultrasound: replace files that are there (a fibre's figures always are).", default=False
    )


def command(options: PlotOptions) -> None:
    """Draw what a result file holds.

    A fibre's: Q² per spatial mode, the penalty against back-to-back, constellations. A sweep's: a quantity
    over an axis or over distance. Ultrasound, also from k-Wave's own output files: fields as slices, time
    series, values at the sensor.
    """
    recorded = open_recorded(options.file)
    if options.movie is None:
        refuse(changed(options, "fps", "every"), "without --movie", "with it")
    if recorded is not None:
        refuse(
            changed(options, "over", "mode", "channel"), "with a result of ultrasound", "with one of a sweep"
        )
        with recorded:
            (_ultrasound if options.movie is None else _movie)(recorded, options)
    else:
        swept = "axes" in read_result(options.file).attrs()
        if swept and options.movie is None and not options.slice:
            print_written(_sweep(options))
            return
        refuse(changed(options, "over"), "with a result of one run", "with that of a sweep")
        inputs = {name: values[0] for name, values in changed(options, "quantity", "slice").items() if values}
        inputs |= changed(options, "movie") if swept else {}
        refuse(inputs, "with a result of a fibre", "with results of ultrasound")
        if options.movie is not None:
            _pulse(options)
            return
        signal = changed(options, "mode", "channel")
        print_written(plot_result(options.file, options.output, options.format or "png", **signal))


def _sweep(options: PlotOptions) -> list[Path]:
    result, kind = read_sweep(options.file), options.format or "png"
    more = changed(options, "over", "mode", "channel")
    if not (more or options.quantity):
        return plot_sweep(result, options.output, kind)
    wanted = [SweepFigure(name, **more) for name in options.quantity or [SweepFigure.quantity]]
    return [path for each in wanted for path in plot_sweep(result, options.output, kind, each)]


def _movie(recorded: RecordedFile, options: PlotOptions) -> None:
    refuse(changed(options, "quantity", "slice", "format"), "with --movie", "without")
    movie = Movie(recorded, options.movie or "", options.every)
    target = _movie_target(options, movie.item.name.replace("/", "-"))
    print_written([draw_movie(movie, target, 20 if options.fps is None else options.fps, terminal_bar())])


def _pulse(options: PlotOptions) -> None:
    refuse(changed(options, "format", "every", "channel"), "with --movie of a fibre", "without")
    movie = PulseMovie.of_snapshots(options.file, options.movie or "", options.mode)
    target = _movie_target(options, options.movie or "")
    print_written([movie.draw(target, 20 if options.fps is None else options.fps, terminal_bar())])


def _movie_target(options: PlotOptions, quantity: str) -> Path:
    """Return the path of a movie of ``quantity``: --output, or a name beside the result file."""
    output = options.output or options.file.parent
    inside = output.is_dir() or not output.suffix
    target = output / f"{options.file.stem}-{quantity}.gif" if inside else output
    return check_output(target, options.force, "--output", inputs=[options.file])


def _ultrasound(recorded: RecordedFile, options: PlotOptions) -> None:
    names = select_quantities(recorded, options.quantity or [])
    positions = _positions(options.slice or [], len(recorded.shape))
    targets = _targets(recorded.path, names, options.output, options.format)
    folder = next(iter(targets.values())).parent
    for target in targets.values() if folder.is_dir() else ():
        check_output(target, options.force, "--output", inputs=[recorded.path])
    with made_folder(folder, "--output"):
        drawn, faults = plot_recorded(recorded, targets, positions)
    print_written(drawn)
    if faults:
        first, *more = faults
        also = f"; {', '.join(more)} cannot be drawn either" if more else ""
        raise InputError(f"{faults[first]}{also}" + ("; the others are drawn" if drawn else ""))


def _targets(file: Path, names: list[str], output: Path | None, kind: Format | None) -> dict[str, Path]:
    """Return the file of the picture of each quantity, by name; `InputError` if ``output`` does not fit."""
    suffix = output.suffix.lower().removeprefix(".") if output is not None else ""
    if output is not None and suffix in get_args(Format) and not output.is_dir():
        if len(names) > 1:
            allowed = f"a folder, or one --quantity of {', '.join(names)}"
            raise InputError(f"--output: {output} is one file for {len(names)} figures; allowed: {allowed}")
        if kind not in (None, suffix):
            raise InputError(f"--format: {kind} with --output {output}; allowed: {suffix}, or without")
        return {names[0]: output}
    folder, ending = output or file.parent, kind or "png"
    return {name: folder / f"{file.stem}-{name.replace('/', '-')}.{ending}" for name in names}


def _positions(cuts: list[str], dimensions: int) -> dict[str, float]:
    """Parse cuts such as ``z=5mm``; return positions in m, by axis."""
    positions: dict[str, float] = {}
    for text in cuts:
        axis, equals, position = text.partition("=")
        axis = axis.strip().lower()
        if not equals or axis not in ("x", "y", "z") or axis in positions:
            raise InputError(f"--slice: {text}; allowed: x, y or z once each with a place, such as z=5mm")
        if dimensions == 2:
            raise InputError(f"--slice: {text} for a grid of 2 dimensions; allowed: in 3 dimensions")
        positions[axis] = quantity_of(position.strip(), "m", "--slice")
    return positions
