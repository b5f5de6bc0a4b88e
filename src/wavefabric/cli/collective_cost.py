"""`wavefabric collective cost`: what schedules take on a fabric, and how far that is from the bound."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wavefabric.cli import collective_source as source
from wavefabric.cli.bench_show import tables
from wavefabric.cli.ranks import first
from wavefabric.errors import InputError

if TYPE_CHECKING:
    from wavefabric.collectives import Schedule
    from wavefabric.fabric import AnyFabric, Cost

MODELS = ("auto", "alpha-beta", "flow", "photonic")
_LIGHT = "Photonic fabrics"
Model = Annotated[str, typer.Option("--model", help=f"{', '.join(MODELS)}.")]
Routing = Annotated[
    str,
    typer.Option("--routing", help="auto, xy, shortest, random, ripup, exact.", rich_help_panel=_LIGHT),
]
Sharing = Annotated[
    str,
    typer.Option(
        "--sharing",
        help="Lasers of a tile over its peers: even, or as the paper does.",
        rich_help_panel=_LIGHT,
    ),
]
Incremental = Annotated[
    bool,
    typer.Option("--incremental", help="Circuits that stay are not set up anew.", rich_help_panel=_LIGHT),
]
Seed = Annotated[int, typer.Option("--seed", help="Of random choices.", rich_help_panel=_LIGHT)]
Circuits = Annotated[
    Path | None,
    typer.Option(
        "--circuits",
        help="Circuits of this file (JSON), for its fabric.",
        rich_help_panel=_LIGHT,
        show_default=False,
    ),
]


def command(
    words: source.Words = None,
    ranks: source.Ranks = None,
    elements: source.Elements = None,
    pieces: source.Pieces = 1,
    radix: source.Radix = None,
    root: source.Root = 0,
    grid: source.Grid = None,
    fabric: source.Fabric = None,
    sizes: Annotated[
        str, typer.Option("--bytes", help="Of the whole array: 64M, or 64K,1M, or 64K:1G. K, M, G: 2^10, …")
    ] = "64M",
    factor: Annotated[int, typer.Option("--factor", help="From one size to the next of least:most.")] = 4,
    algorithms: Annotated[
        str | None,
        typer.Option(
            "--algorithms", help="Compare these, such as ring,recursive:4,double-tree:8 (radix, or pieces)."
        ),
    ] = None,
    model: Model = "auto",
    routing: Routing = "auto",
    sharing: Sharing = "even",
    incremental: Incremental = False,
    seed: Seed = 0,
    circuits: Circuits = None,
    rounds: Annotated[bool, typer.Option("--rounds", help="Show every round.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Picture: time over size.", show_default=False)
    ] = None,
    force: source.Force = False,
    as_json: source.Json = False,
) -> None:
    """Time of a schedule on a fabric under a model, and of the least that any schedule needs.

    Examples:

    wavefabric collective cost recursive all-reduce --radix 4 --fabric lightpath:8x8 --bytes 64K:1G

    wavefabric collective cost all-reduce --algorithms ring,recursive:4 --fabric dgx-a100 -o compare.png
    """
    if not first():
        return
    if fabric is None and circuits is None:
        raise InputError("--fabric: none given; allowed: a name such as lightpath:4x8 or switch:8, or a file")
    _one_of("--model", model, MODELS)
    _one_of("--sharing", sharing, ("even", "paper"))
    source.check_target(output, force, (".png", ".svg", ".pdf"))
    bytes_each = source.sizes_of(sizes, "--bytes", factor)
    place = place_of(fabric, circuits)
    light = light_options(place, routing, sharing, incremental, seed, circuits)
    shape = source.Shape(ranks, elements, pieces, radix, root, grid)
    if algorithms is None:
        schedule = source.schedule_from(words, shape, place)
        _proved(schedule)
        chosen = {schedule.name: schedule}
    else:
        if circuits is not None:
            raise InputError(f"--circuits: {circuits} given with --algorithms; allowed: with one schedule")
        chosen = compared(algorithms, words, shape, place)
    costs = {
        name: [cost_at(schedule, place, size, model, light) for size in bytes_each]
        for name, schedule in chosen.items()
    }
    written = []
    if output is not None:
        from wavefabric.fabric.draw_cost import draw_costs

        written.append(draw_costs(output, bytes_each, costs, place.name))
    if as_json:
        typer.echo(json.dumps(plain(costs, bytes_each, rounds, written), indent=2))
        return
    show(costs, bytes_each, rounds)
    source.say_written(written)


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InputError(f"{name}: {value} given; allowed: {', '.join(allowed)}")


def _proved(schedule: Schedule) -> None:
    from wavefabric.collectives import verify

    verify(schedule)


def place_of(fabric: str | None, circuits: Path | None) -> AnyFabric:
    """The fabric that was named, or else that of the circuits.

    Raises
    ------
    InputError
    """
    if fabric is not None:
        return source.load_fabric(fabric)
    from wavefabric.cli.collective_circuits import load_circuits

    assert circuits is not None
    return load_circuits(circuits).fabric


def light_options(
    place: AnyFabric, routing: str, sharing: str, incremental: bool, seed: int, circuits: Path | None
) -> dict[str, Any]:
    """Options of the photonic model; none on an electrical fabric, where they are refused.

    Raises
    ------
    InputError
    """
    from wavefabric.fabric import PhotonicFabric

    given = {"routing": routing, "sharing": sharing, "incremental": incremental, "seed": seed}
    if isinstance(place, PhotonicFabric):
        from wavefabric.fabric.photonic.routes import METHODS

        _one_of("--routing", routing, METHODS)
        if circuits is None:
            return given
        from wavefabric.cli.collective_circuits import load_circuits

        found = load_circuits(circuits)
        if found.fabric != place:
            raise InputError(
                f"--circuits: {circuits} is for {found.fabric.name}; allowed: this fabric, or no --fabric"
            )
        return {"plan": found, "incremental": incremental}
    plain = {"routing": "auto", "sharing": "even", "incremental": False, "seed": 0}
    for name, value in [*given.items(), ("circuits", circuits)]:
        if value != plain.get(name):
            raise InputError(
                f"--{name}: {value} given with electrical {place.name}; allowed: with photonic ones"
            )
    return {}


def compared(
    text: str, words: list[str] | None, shape: source.Shape, place: AnyFabric
) -> dict[str, Schedule]:
    """Schedules of several algorithms for one collective, by name.

    Raises
    ------
    InputError
        For an algorithm that is unknown or cannot; or if a number stands behind one that takes none.
    """
    from wavefabric.collectives.registry import ALGORITHMS

    if not words or len(words) != 1:
        given = " ".join(words) if words else "nothing"
        raise InputError(f"COLLECTIVE: {given} given with --algorithms; allowed: one, such as all-reduce")
    found: dict[str, Schedule] = {}
    for word in text.split(","):
        name, colon, number = word.strip().partition(":")
        if name not in ALGORITHMS:
            raise InputError(f"--algorithms: {name or text} given; allowed: {', '.join(ALGORITHMS)}")
        mine = shape
        # What one algorithm has no use for is meant for the others.
        for option, default in (("radix", None), ("grid", None), ("pieces", 1)):
            if option not in ALGORITHMS[name].options:
                mine = replace(mine, **{option: default})
        if colon:
            option = next((o for o in ("radix", "pieces") if o in ALGORITHMS[name].options), None)
            if option is None or not (number.isascii() and number.isdigit() and len(number) < 7):
                kinds = "a radix or pieces" if option else f"no number, {name} has no radix and no pieces"
                raise InputError(f"--algorithms: {word.strip()} given; allowed: {kinds} behind the colon")
            mine = replace(mine, **{option: int(number)})
        schedule = source.build_by_name(name, words[0], mine, place)
        found[word.strip()] = schedule
    return found


def cost_at(schedule: Schedule, place: AnyFabric, size: float, model: str, light: dict[str, Any]) -> Cost:
    """Cost of one size in bytes of the whole array."""
    from wavefabric.fabric import cost

    elements = source.array_elements(schedule)
    if not elements:
        raise InputError(f"schedule: {schedule.name} has no elements; allowed: one that holds some")
    return cost(schedule, place, size / elements, model, **light)


def plain(
    costs: dict[str, list[Cost]], sizes: list[int], rounds: bool, written: list[Path]
) -> dict[str, Any]:
    """What ``--json`` prints."""
    rows = []
    for name, found in costs.items():
        for size, each in zip(sizes, found, strict=True):
            row = {
                "algorithm": name,
                "schedule": each.schedule,
                "bytes": size,
                "seconds": each.seconds,
                "latency": sum(r.latency for r in each.rounds),
                "reconfiguration": sum(r.reconfiguration for r in each.rounds),
                "transfer": sum(r.transfer for r in each.rounds),
                "bound": vars(each.bound),
                "ratio": each.seconds / each.bound.seconds if each.bound.seconds else None,
                "busiest": each.busiest,
                "best": each is min((costs[n][sizes.index(size)] for n in costs), key=lambda c: c.seconds),
            }
            if not each.rounds:  # rounds overlap: no such parts
                row |= {"latency": None, "reconfiguration": None, "transfer": None}
            if rounds:
                row["rounds"] = [vars(r) for r in each.rounds]
            rows.append(row)
    any_cost = next(iter(costs.values()))[0]
    return {
        "fabric": any_cost.fabric,
        "model": any_cost.model,
        "costs": rows,
        "written": [str(path) for path in written],
    }


def show(costs: dict[str, list[Cost]], sizes: list[int], rounds: bool) -> None:
    """Print a table, by size and by time."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from wavefabric.bench.exchange_report import size_words
    from wavefabric.fabric.draw_scene import time_words

    several = len(costs) > 1
    any_cost = next(iter(costs.values()))[0]
    name = next(iter(costs)) if not several else "compared"
    table = Table(
        title=f"{name} on {any_cost.fabric}, {any_cost.model} model", box=box.SIMPLE_HEAD, pad_edge=False
    )
    table.add_column("size", justify="right", no_wrap=True)
    if several:
        table.add_column("algorithm", no_wrap=True)
    light = any_cost.model == "photonic"
    parts = ("latency", "reconfiguration", "transfer") if light else ("latency", "transfer")
    parts = parts if any_cost.rounds else ()
    headings = {"reconfiguration": "set-up"}
    for heading in ("time", *parts, "bound", "ratio"):
        table.add_column(headings.get(heading, heading), justify="right", no_wrap=True)
    table.add_column("busiest", overflow="fold")
    for k, size in enumerate(sizes):
        order = sorted(costs, key=lambda n: costs[n][k].seconds)
        for place, label in enumerate(order):
            each = costs[label][k]
            cells = [size_words(size) if not place else ""]
            if several:
                cells.append(f"{label} *" if not place else label)
            cells.append(time_words(each.seconds))
            cells += [time_words(sum(getattr(r, part) for r in each.rounds)) for part in parts]
            ratio = each.seconds / each.bound.seconds if each.bound.seconds else float("nan")
            cells += [time_words(each.bound.seconds), f"{ratio:.2f}", each.busiest]
            best = several and not place
            table.add_row(
                *(Text(c, style="bold" if best else "") for c in cells),
                end_section=several and place + 1 == len(order),
            )
    out = tables(markup=False)
    out.print(table)
    largest = next(iter(costs.values()))[-1]
    size = f" of {size_words(sizes[-1])}" if len(sizes) > 1 else ""
    out.print(f"bound{size}: {largest.bound.why}" + ("; *: the fastest" if several else ""))
    if rounds:
        for label, found in costs.items():
            for size, each in zip(sizes, found, strict=True):
                out.print(rounds_table(each, f"{label}, {size_words(size)}"))


def rounds_table(cost: Cost, title: str):
    """Every round of one cost."""
    from rich import box
    from rich.table import Table

    from wavefabric.fabric.draw_scene import time_words

    if not cost.rounds:
        return f"{title}: the {cost.model} model has no rounds: they overlap"
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)
    light = cost.model == "photonic"
    for heading in (
        "round",
        *(("parts",) if light else ()),
        "time",
        "latency",
        *(("set-up",) if light else ()),
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("transfer", justify="right", no_wrap=True)
    table.add_column("limit", overflow="fold")
    for each in cost.rounds:
        cells = [str(each.round), *((str(each.parts),) if light else ()), time_words(each.seconds)]
        cells += [time_words(each.latency), *((time_words(each.reconfiguration),) if light else ())]
        table.add_row(*cells, time_words(each.transfer), each.limit)
    return table
