"""`wavefabric collective run`: a schedule between real ranks, checked, timed, and beside its prediction."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from wavefabric.cli.collective import source
from wavefabric.cli.collective.order import Order, check_order, placed
from wavefabric.cli.common import ranks as several
from wavefabric.cli.common.measure import Device, RankSession, Repeats, Threads, Transports, check_free
from wavefabric.cli.common.options import Json
from wavefabric.errors import InputError


def command(
    words: source.Words = None,
    elements: source.Elements = None,
    pieces: source.Pieces = 1,
    radix: source.Radix = None,
    root: source.Root = 0,
    grid: source.Grid = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            "--sizes", help="Bytes of the whole array: least:most, or with commas between; K, M, G: 2^10, …"
        ),
    ] = None,
    factor: source.Factor = None,
    dtype: Annotated[
        str, typer.Option("--dtype", help="float16, float32, float64, int32 or int64.")
    ] = "float32",
    fabric: Annotated[
        str | None, typer.Option("--fabric", "-f", help="Predict for this fabric: a name or a file.")
    ] = None,
    model: Annotated[
        str, typer.Option("--model", help="Of the prediction: auto, alpha-beta, flow.")
    ] = "auto",
    order: Order = None,
    nccl: Annotated[bool, typer.Option("--nccl", help="Time NCCL's own operation too.")] = False,
    repeats: Repeats = 5,
    transports: Transports = "all",
    ranks: several.Ranks = None,
    placement: several.Placement = None,
    device: Device = "auto",
    threads: Threads = None,
    as_json: Json = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder for the picture and the numbers (JSON); neither is written without.",
            show_default=False,
        ),
    ] = None,
    plot: Annotated[
        bool | None,
        typer.Option(
            "--plot/--no-plot",
            help="Draw the picture, without --output in this folder. \\[default: yes with --output]",
        ),
    ] = None,
    force: source.Force = False,
) -> None:
    """Run a schedule on every transport; every element that arrives is checked.

    Examples:

    wavefabric collective run recursive all-reduce --ranks 4 --sizes 64K:16M

    mpiexec -n 4 wavefabric collective run best.json --fabric measured.toml
    """
    from wavefabric.exchange.launch import environment
    from wavefabric.execution import run_schedule as module

    draw = output is not None if plot is None else plot
    if several.first():
        check_free("collective-run", output, draw, force)
    chosen = source.chosen_sizes(sizes, factor)
    if fabric is None:
        for name, value in (("--order", order), ("--model", None if model == "auto" else model)):
            if value is not None:
                raise InputError(f"{name}: {value} given without --fabric; allowed: with one")
    place = None if fabric is None else source.load_fabric(fabric)
    if place is not None:
        check_order(order, place)
    count = max(environment.ranks(), ranks or 1)
    shape = source.Shape(count, elements, pieces, radix, root, grid)
    if words and len(words) == 2:
        # Refused before any rank starts.
        example = source.build_by_name(words[0], words[1], shape, place)
        schedule = _by_elements(words[0], words[1], shape, place)
    else:
        from dataclasses import replace

        example = schedule = source.schedule_from(words, replace(shape, ranks=None))
        if ranks is None and environment.ranks() == 1:
            count = ranks = schedule.ranks
        if schedule.ranks != count:
            raise InputError(
                f"--ranks: {count} given; allowed: {schedule.ranks}, as in {words[0] if words else ''}"
            )
    predicted: Any = place
    if place is not None and order is not None:
        width = max(chosen, default=1 << 26) / max(source.array_elements(example), 1)
        predicted, _ = placed(order, example, place, width, model)
    with RankSession(ranks, transports, placement, device, threads, as_json) as job:
        result = module.run(
            job.ranks, schedule, chosen, dtype, repeats, predicted, nccl, job.say, model=model
        )
        job.show(module, result, output, draw)


def _by_elements(algorithm: str, collective: str, shape: source.Shape, place):
    """A schedule for each size."""
    from dataclasses import replace

    def schedule(elements: int):
        return source.build_by_name(algorithm, collective, replace(shape, elements=elements), place)

    return schedule
