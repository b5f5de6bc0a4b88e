"""`wavefabric collective cost`: what schedules take on a fabric, and how far that is from the bound."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wavefabric.cli.collective import source
from wavefabric.cli.collective.cost_table import Chosen, plain, show
from wavefabric.cli.collective.order import Order, check_order, may_matter, placed
from wavefabric.cli.common.ranks import first
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
OVERSUBSCRIBED = ("split", "thin")
Oversubscribed = Annotated[
    str,
    typer.Option(
        "--oversubscribed",
        help="Where not all circuits fit: split the round, or thin them out to fewer wavelengths.",
        rich_help_panel=_LIGHT,
    ),
]
Engines = Annotated[
    int | None, typer.Option("--engines", help="flow: transfers that a GPU sends at once. \\[default: any]")
]
Budget = Annotated[
    bool,
    typer.Option(
        "--budget",
        help="Wavelengths carry what their link budget allows, and no more than the fabric says.",
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
    factor: source.Factor = None,
    algorithms: Annotated[
        str | None,
        typer.Option(
            "--algorithms",
            help="Compare these, such as ring,recursive:4,double-tree:8 (radix, or pieces), or all.",
        ),
    ] = None,
    order: Order = None,
    model: Model = "auto",
    routing: Routing = "auto",
    sharing: Sharing = "even",
    oversubscribed: Oversubscribed = "split",
    budget: Budget = False,
    incremental: Incremental = False,
    seed: Seed = 0,
    circuits: Circuits = None,
    engines: Engines = None,
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

    wavefabric collective cost all-reduce --algorithms all,recursive:4 --fabric lightpath:4x8

    wavefabric collective cost ring all-reduce --fabric dgx-1 --order auto
    """
    if not first():
        return
    if fabric is None and circuits is None:
        raise InputError("--fabric: none given; allowed: a name such as lightpath:4x8 or switch:8, or a file")
    _one_of("--model", model, MODELS)
    _one_of("--sharing", sharing, ("even", "paper"))
    _one_of("--oversubscribed", oversubscribed, OVERSUBSCRIBED)
    if engines is not None and (model != "flow" or engines < 1):
        allowed = "1 or more" if model == "flow" else "with --model flow"
        raise InputError(f"--engines: {engines} given; allowed: {allowed}")
    source.check_target(output, force, (".png", ".svg", ".pdf"))
    bytes_each = source.sizes_of(sizes, "--bytes", factor)
    place, light = setting(
        fabric, routing, sharing, incremental, seed, circuits, order, oversubscribed=oversubscribed
    )
    if engines is not None and not light:
        light = {"engines": engines}
    if budget:
        light["budget"] = _link_budget(place)
    check_order(order, place)
    shape = source.Shape(ranks, elements, pieces, radix, root, grid)
    left_out: dict[str, str] = {}
    if algorithms is None:
        schedule = source.schedule_from(words, shape, place)
        taken = source.grid_of(words[0], schedule.ranks, place) if words and grid is None else None
        chosen = {schedule.name: Chosen(schedule, schedule.name, taken)}
    else:
        if circuits is not None:
            raise InputError(f"--circuits: {circuits} given with --algorithms; allowed: with one schedule")
        chosen = compared(algorithms, words, shape, place, left_out)
    for name, each in chosen.items():
        # One order for all sizes: that of the largest, where links count most.
        width = max(bytes_each) / whole_array(each.schedule)
        where, gpus = placed(order, each.schedule, place, width, model, seed)
        chosen[name] = replace(each, place=where, order=gpus)
    costs, notes = {}, {}
    for name, each in chosen.items():
        options, notes[name] = _planned(each.schedule, place, light)
        where = each.place or place
        costs[name] = [cost_at(each.schedule, where, size, model, options) for size in bytes_each]
    written = []
    if output is not None:
        from wavefabric.fabric.draw.cost import draw_costs

        written.append(draw_costs(output, bytes_each, costs, place.name))
    if as_json:
        told = plain(chosen, costs, bytes_each, rounds, written, notes)
        source.say_json(told | {"left_out": left_out} if left_out else told)
        return
    reorder = may_matter([each.schedule for each in chosen.values()], place)
    show(chosen, costs, bytes_each, rounds, reorder, notes, getattr(place, "laser_bandwidth", 0.0))
    for name, why in left_out.items():
        typer.echo(f"left out: {name} ({why})")
    source.say_written(written)


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InputError(f"{name}: {value} given; allowed: {', '.join(allowed)}")


def setting(
    fabric: str | None,
    routing: str,
    sharing: str,
    incremental: bool,
    seed: int,
    circuits: Path | None,
    order: str | None = None,
    *,
    oversubscribed: str = "split",
) -> tuple[AnyFabric, dict[str, Any]]:
    """The fabric that was named, or else that of the circuits; options of the photonic model, if it is one.

    Raises
    ------
    InputError
        For options that nothing here has a use for.
    """
    from wavefabric.fabric import PhotonicFabric

    source.check_seed(seed)
    found = None
    place = None if fabric is None else source.load_fabric(fabric)
    if circuits is not None and (place is None or isinstance(place, PhotonicFabric)):
        from wavefabric.cli.collective.circuits import load_circuits

        found = load_circuits(circuits)
        if place not in (None, found.fabric):
            raise InputError(
                f"--circuits: {circuits} is for {found.fabric.name}; allowed: this fabric, or no --fabric"
            )
        place = found.fabric
    assert place is not None
    plain = {"routing": "auto", "sharing": "even", "oversubscribed": "split", "seed": 0}
    plain |= {"incremental": False, "circuits": None}
    given = {"routing": routing, "sharing": sharing, "oversubscribed": oversubscribed, "seed": seed}
    others = {"incremental": incremental, "circuits": circuits}
    changed = [name for name, value in {**given, **others}.items() if value != plain[name]]
    if found is not None:
        for name in (n for n in changed if n in given):
            raise InputError(f"--{name}: {given[name]} given with --circuits; allowed: one of the two")
        return place, {"plan": found, "incremental": incremental}
    if isinstance(place, PhotonicFabric):
        from wavefabric.fabric.photonic.routing.routes import METHODS

        _one_of("--routing", routing, METHODS)
        return place, {**given, "incremental": incremental}
    for name in changed:
        if name == "seed" and order == "auto":
            continue
        allowed = "with photonic ones" + (", or --order auto" if name == "seed" else "")
        value = {**given, **others}[name]
        raise InputError(f"--{name}: {value} given with electrical {place.name}; allowed: {allowed}")
    return place, {}


def compared(
    text: str, words: list[str] | None, shape: source.Shape, place: AnyFabric, left_out: dict[str, str]
) -> dict[str, Chosen]:
    """Schedules of several algorithms for one collective, by what was given.

    ``all`` stands for every algorithm that does this collective; those of them that refuse the ranks or
    options get the reason in `left_out`.

    Raises
    ------
    InputError
        For an algorithm that is unknown, given twice or cannot; if a number stands behind one that takes
        none; or for an option that none of them has.
    """
    from wavefabric.collectives.registry import ALGORITHMS

    if not words or len(words) != 1:
        given = " ".join(words) if words else "nothing"
        raise InputError(f"COLLECTIVE: {given} given with --algorithms; allowed: one, such as all-reduce")
    asked: dict[str, tuple[str, source.Shape]] = {}
    listed = [each.strip() for each in text.split(",")]
    for word in _expanded(listed, words[0], shape, place, left_out):
        name, colon, number = word.partition(":")
        if name not in ALGORITHMS:
            raise InputError(f"--algorithms: {name or text} given; allowed: all, {', '.join(ALGORITHMS)}")
        if word in asked:
            raise InputError(f"--algorithms: {word} given twice; allowed: each once")
        mine = _of_use(name, shape)
        if colon:
            option = next((o for o in ("radix", "pieces") if o in ALGORITHMS[name].options), None)
            if option is None or not (number.isascii() and number.isdigit() and len(number) < 7):
                kinds = "a radix or pieces" if option else f"no number, {name} has no radix and no pieces"
                raise InputError(f"--algorithms: {word} given; allowed: {kinds} behind the colon")
            mine = replace(mine, **{option: int(number)})
        asked[word] = name, mine
    plain = source.Shape()
    for option in ("radix", "grid", "pieces"):
        value = getattr(shape, option)
        if value != getattr(plain, option) and all(getattr(m, option) != value for _, m in asked.values()):
            raise InputError(f"--{option}: {value} given; allowed: with an algorithm that has a use for it")
    found = {}
    for word, (name, mine) in asked.items():
        schedule = source.build_by_name(name, words[0], mine, place)
        taken = source.grid_of(name, schedule.ranks, place) if mine.grid is None else None
        found[word] = Chosen(schedule, _label(word, name, mine, asked), taken)
    return found


def _of_use(name: str, shape: source.Shape) -> source.Shape:
    """Options that an algorithm has a use for; the others are meant for those beside it."""
    from wavefabric.collectives.registry import ALGORITHMS

    plain = source.Shape()
    unused = [o for o in ("radix", "grid", "pieces") if o not in ALGORITHMS[name].options]
    return replace(shape, **{option: getattr(plain, option) for option in unused})


def _expanded(
    listed: list[str], collective: str, shape: source.Shape, place: AnyFabric, left_out: dict[str, str]
) -> list[str]:
    """A list of algorithms with ``all`` spelt out; see `compared`."""
    from wavefabric.collectives.registry import ALGORITHMS, accepts

    if "all" not in listed:
        return listed
    can = [name for name, known in ALGORITHMS.items() if collective in known.collectives]
    if not can:
        every = dict.fromkeys(c for known in ALGORITHMS.values() for c in known.collectives)
        raise InputError(f"COLLECTIVE: {collective[:60]} given; allowed: {', '.join(every)}")
    found = []
    for name in (n for n in can if n not in listed):
        mine = _of_use(name, shape)
        ranks = shape.ranks or place.ranks
        options = {"pieces": mine.pieces, "radix": mine.radix, "root": mine.root}
        grid = mine.axes() or source.grid_of(name, ranks, place)
        why = accepts(name, collective, ranks, **options, grid=grid)
        if why is None:
            found.append(name)
        else:
            left_out[name] = why
    if not found and len(listed) == 1:
        raise InputError(f"--algorithms: all given; {next(iter(left_out.values()))}")
    at = listed.index("all")
    return [*listed[:at], *found, *listed[at + 1 :]]


def _label(word: str, name: str, mine: source.Shape, asked: dict[str, tuple[str, source.Shape]]) -> str:
    """An algorithm in tables; whether a tree is pipelined is said where others are."""
    pipelined = any(m.pieces > 1 for _, m in asked.values())
    trees = ("tree", "double-tree", "binomial")
    return f"{word}, pieces 1" if name in trees and pipelined and mine.pieces == 1 else word


def whole_array(schedule: Schedule) -> int:
    """Elements of the whole array, at least one.

    Raises
    ------
    InputError
        If there are none.
    """
    elements = source.array_elements(schedule)
    if not elements:
        raise InputError(f"schedule: {schedule.name} has no elements; allowed: one that holds some")
    return elements


def _link_budget(place: AnyFabric) -> Any:
    """That of the fabric, or typical numbers.

    Raises
    ------
    InputError
        For an electrical fabric.
    """
    from wavefabric.fabric import PhotonicFabric
    from wavefabric.fabric.photonic.budget import LinkBudget

    if not isinstance(place, PhotonicFabric):
        raise InputError(f"--budget: given with electrical {place.name}; allowed: with photonic ones")
    return place.budget or LinkBudget()


def _planned(
    schedule: Schedule, place: AnyFabric, light: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of the photonic model with one plan for all sizes, and its facts; others as they are.

    See `wavefabric.cli.collective.circuits.facts`.
    """
    from wavefabric.cli.collective.circuits import facts
    from wavefabric.fabric import PhotonicFabric
    from wavefabric.fabric.cost.cost import check_sizes
    from wavefabric.fabric.photonic.assign import plan
    from wavefabric.fabric.photonic.check import check_plan

    if not isinstance(place, PhotonicFabric):
        return light, {}
    check_sizes(schedule, place, 1.0)
    if "plan" in light:
        check_plan(light["plan"], schedule)
        return light, facts(light["plan"])
    made = {key: light[key] for key in ("routing", "sharing", "oversubscribed", "seed")}
    found = plan(schedule, place, **made)
    others = {key: value for key, value in light.items() if key not in made}
    return {**others, "plan": found}, facts(found)


def cost_at(schedule: Schedule, place: AnyFabric, size: float, model: str, light: dict[str, Any]) -> Cost:
    """Cost of one size in bytes of the whole array."""
    from wavefabric.fabric.cost.cost import cost

    return cost(schedule, place, size / whole_array(schedule), model, **light)
