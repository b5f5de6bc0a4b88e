"""`wavefabric plot`: figures from a result file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wavefabric.errors import InputError
from wavefabric.files.output import check_output

if TYPE_CHECKING:
    from wavefabric.acoustics.pictures.recorded import RecordedFile


class Format(StrEnum):
    """File formats of a figure."""

    png = "png"
    pdf = "pdf"
    svg = "svg"


def command(
    file: Annotated[
        Path,
        typer.Argument(
            help="Result file (HDF5) of a run: of a fibre, of `simulate`, or k-Wave's output.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder for the figures, or the file of a single one. \\[default: beside FILE]",
        ),
    ] = None,
    kind: Annotated[
        Format | None, typer.Option("--format", help="Picture (png) or vectors. \\[default: png]")
    ] = None,
    quantity: Annotated[
        list[str] | None,
        typer.Option(
            "--quantity", help="Ultrasound: draw this one, e.g. p_max_all; may be repeated. \\[default: all]"
        ),
    ] = None,
    cut: Annotated[
        list[str] | None,
        typer.Option(
            "--slice",
            help="Ultrasound in 3-D: cut at e.g. z=5mm; may be repeated. \\[default: at the largest value]",
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Ultrasound: replace figures that are there (a fibre's always are)."),
    ] = False,
) -> None:
    """Draw what a result file holds.

    A fibre's: Q² per spatial mode, the penalty against back-to-back, constellations. Ultrasound, also from
    k-Wave's own output files: fields as slices, time series, values at the sensor.
    """
    from wavefabric.cli.common.ranks import first

    if not first():
        return
    from wavefabric.acoustics.pictures.recorded import open_recorded

    found = open_recorded(file)
    if found is not None:
        with found:
            written = _ultrasound(found, output, kind, quantity or [], cut or [], force)
    else:
        from wavefabric.results import read_result
        from wavefabric.results.plots import plot_result

        read_result(file)
        for name, given in (("--quantity", quantity), ("--slice", cut)):
            if given:
                raise InputError(f"{name}: {given[0]} given; allowed: with results of ultrasound")
        written = plot_result(file, output, (kind or Format.png).value)
    for path in written:
        typer.echo(f"wrote {path}")


def _ultrasound(
    found: RecordedFile,
    output: Path | None,
    kind: Format | None,
    asked: list[str],
    cuts: list[str],
    force: bool,
) -> list[Path]:
    from wavefabric.acoustics.pictures.plot_recorded import chosen, plot_recorded

    names = chosen(found, asked)
    places = _places(cuts, len(found.shape))
    targets = _targets(found.path, names, output, kind)
    for target in targets.values():
        if target.parent.is_dir():
            check_output(target, force, "--output", inputs=[found.path])
    folder = next(iter(targets.values())).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--output: {folder} cannot be used as a folder ({error.strerror})") from None
    return plot_recorded(found, targets, places)


def _targets(file: Path, names: list[str], output: Path | None, kind: Format | None) -> dict[str, Path]:
    """The picture of each quantity."""
    suffix = output.suffix.lower().removeprefix(".") if output is not None else ""
    if output is not None and suffix in list(Format) and not output.is_dir():
        if len(names) > 1:
            raise InputError(
                f"--output: {output} is one file for {len(names)} figures; allowed: a folder, or one "
                f"--quantity of {', '.join(names)}"
            )
        if kind not in (None, suffix):
            raise InputError(f"--format: {kind} with --output {output}; allowed: {suffix}, or without")
        return {names[0]: output}
    folder = output if output is not None else file.parent
    ending = (kind or Format.png).value
    return {name: folder / f"{file.stem}-{name.replace('/', '-')}.{ending}" for name in names}


def _places(cuts: list[str], dimensions: int) -> dict[str, float]:
    """``z=5mm`` as m by axis."""
    from wavefabric.units import quantity as read

    places: dict[str, float] = {}
    for text in cuts:
        axis, equals, place = text.partition("=")
        axis = axis.strip().lower()
        if not equals or axis not in ("x", "y", "z") or axis in places:
            raise InputError(f"--slice: {text}; allowed: x, y or z once each with a place, such as z=5mm")
        if dimensions == 2:
            raise InputError(f"--slice: {text} for a grid of 2 dimensions; allowed: in 3 dimensions")
        places[axis] = read(place.strip(), "m", "--slice")
    return places
