"""`wavefabric collective draw`: a schedule on its fabric as a picture, an animation or a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wavefabric.cli.collective import source
from wavefabric.cli.collective.cost import (
    Circuits,
    Incremental,
    Routing,
    Seed,
    Sharing,
    cost_at,
    setting,
    whole_array,
)
from wavefabric.cli.collective.order import Order, check_order, placed
from wavefabric.cli.collective.order import words as order_words
from wavefabric.cli.common.ranks import first
from wavefabric.errors import InputError


def command(
    words: source.Words = None,
    ranks: source.Ranks = None,
    elements: source.Elements = None,
    pieces: source.Pieces = 1,
    radix: source.Radix = None,
    root: source.Root = 0,
    grid: source.Grid = None,
    fabric: source.Fabric = None,
    size: Annotated[str, typer.Option("--bytes", help="Of the whole array, for times.")] = "64M",
    order: Order = None,
    routing: Routing = "auto",
    sharing: Sharing = "even",
    incremental: Incremental = False,
    seed: Seed = 0,
    circuits: Circuits = None,
    most: Annotated[
        int | None,
        typer.Option("--rounds", help="Draw so many rounds at most. \\[default: 12, gif 40, html all]"),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Picture (.png .svg .pdf), animation (.gif), page (.html).",
            show_default=False,
        ),
    ] = None,
    force: source.Force = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
    as_json: source.Json = False,
) -> None:
    """Draw a schedule on its fabric: circuits over the tiles, or loads of links and when each transfer runs.

    Examples:

    wavefabric collective draw recursive all-reduce --fabric lightpath:4x8 -o rounds.gif

    wavefabric collective draw best.json --circuits best.circuits.json -o best.html

    wavefabric collective draw ring all-reduce --fabric dgx-1 --bytes 64M -o ring.png
    """
    from wavefabric.cli.common.progress import make_progress
    from wavefabric.fabric import PhotonicFabric
    from wavefabric.fabric.draw import pictures

    if not first():
        return
    if output is None:
        raise InputError("--output: none given; allowed: a name that ends in .png, .svg, .pdf, .gif or .html")
    source.check_target(output, force, pictures.ENDINGS, inputs=words or ())
    if fabric is None and circuits is None:
        raise InputError("--fabric: none given; allowed: a name such as lightpath:4x8 or dgx-1, or a file")
    if most is not None and most < 1:
        raise InputError(f"--rounds: {most} given; allowed: 1 or more")
    sizes = source.sizes_of(size)
    if len(sizes) != 1:
        raise InputError(f"--bytes: {size} given; allowed: one size")
    place, light = setting(fabric, routing, sharing, incremental, seed, circuits, order)
    pictures.check_ending(output, place)
    check_order(order, place)
    if most is not None and not isinstance(place, PhotonicFabric):
        raise InputError(f"--rounds: {most} given with electrical {place.name}; allowed: with photonic ones")
    shape = source.Shape(ranks, elements, pieces, radix, root, grid)
    schedule = source.schedule_from(words, shape, place)
    width = sizes[0] / whole_array(schedule)
    where, gpus = placed(order, schedule, place, width, "flow", seed)
    progress = make_progress(quiet or as_json)
    try:
        if isinstance(place, PhotonicFabric):
            from wavefabric.fabric.photonic.check import check_plan
            from wavefabric.fabric.photonic.planning import plan_circuits

            found = light.get("plan")
            if found is None:
                found = plan_circuits(schedule, place, routing=routing, sharing=sharing, seed=seed)
            check_plan(found, schedule)
            cost = cost_at(schedule, place, sizes[0], "photonic", {"plan": found, "incremental": incremental})
            path = pictures.draw_circuits(
                schedule, found, output, cost, most=most, progress=progress, force=force
            )
        else:
            assert not isinstance(where, PhotonicFabric)
            cost = cost_at(schedule, where, sizes[0], "flow", {})
            path = pictures.draw_flow(schedule, where, width, output, cost, force=force)
    finally:
        progress.finish()
    if as_json:
        told = {
            "schedule": schedule.name,
            "fabric": place.name,
            "seconds": cost.seconds,
            "order": gpus,
            "written": [str(path)],
        }
        source.say_json(told)
        return
    if gpus is not None:
        typer.echo(f"order: rank 0, 1, … is GPU {order_words(gpus)}")
    source.say_written([path])
