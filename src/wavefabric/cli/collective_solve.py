"""`collective make optimal` and `collective make greedy`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wavefabric.cli import collective_source as source
from wavefabric.errors import InputError

if TYPE_CHECKING:
    from wavefabric.collectives import Schedule
    from wavefabric.collectives.conditions import Layout
    from wavefabric.fabric import AnyFabric


def optimal(
    collective: str | None,
    shape: source.Shape,
    fabric: str | None,
    lasers: int | None,
    waveguides: int | None,
    conditions: Path | None,
    time_limit: float | None,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Synthesise, show, and write the schedule and its circuits.

    Raises
    ------
    InputError, MissingExtra
    """
    from wavefabric.cli.collective_circuits import circuits_text
    from wavefabric.cli.collective_make import show
    from wavefabric.collectives import verify
    from wavefabric.fabric import PhotonicFabric

    if fabric is None:
        raise InputError("--fabric: none given with optimal; allowed: such as lightpath:2x4, or a file")
    time_limit = 60.0 if time_limit is None else time_limit
    if not (math.isfinite(time_limit) and 0 < time_limit <= 1e6):
        raise InputError(f"--time-limit: {time_limit} given; allowed: seconds above 0")
    for name in ("radix", "grid"):
        if getattr(shape, name) is not None:
            raise InputError(f"--{name}: {getattr(shape, name)} given with optimal; allowed: without")
    place = source.load_fabric(fabric, lasers, waveguides)
    if shape.ranks not in (None, place.ranks):
        given = f"{shape.ranks} given with {place.name}"
        raise InputError(f"--ranks: {given}; allowed: its {place.ranks} GPUs, or without")
    wanted = _wanted(collective, shape, conditions, place)
    circuits = (
        None if output is None else output.with_name(output.name.removesuffix(".json") + ".circuits.json")
    )
    photonic = isinstance(place, PhotonicFabric)
    if photonic:
        source.check_target(circuits, force, (".json",))
    found = _solve(wanted, place, time_limit, as_json)
    schedule = found.schedule
    verify(schedule)
    best = "optimal" if found.optimal else "not proved optimal"
    if not photonic and place.switches:
        best += " over direct links"
    more = [
        ("lower bound", f"{found.lower_bound} round{'s' if found.lower_bound != 1 else ''}"),
        ("optimum", f"{best}: {found.why}"),
        ("took", f"{found.seconds:.3g} s"),
    ]
    also: dict[str, Any] = {
        "fabric": place.name,
        "lower_bound": found.lower_bound,
        "optimal": found.optimal,
        "why": found.why,
        "status": [list(each) for each in found.status],
        "seconds": found.seconds,
    }
    beside = {}
    if photonic:
        from wavefabric.fabric.photonic.from_synthesis import plan_of

        plan = plan_of(found, place)
        also["circuits"] = sum(b.lasers for r in plan.rounds for b in r.bundles)
        more.append(("circuits", f"{also['circuits']} on {place.name}"))
        if circuits is not None:
            beside[circuits] = circuits_text(plan)
    show(schedule, output, force, as_json, more, also, beside)


def _wanted(collective: str | None, shape: source.Shape, conditions: Path | None, place: AnyFabric) -> Layout:
    """What the solver is to reach."""
    from wavefabric.collectives.conditions import Layout, layout

    if conditions is None:
        assert collective is not None
        elements = shape.elements or source.default_elements(place.ranks, shape.pieces)
        return layout(collective, place.ranks, elements, shape.pieces, shape.root)
    if collective is not None:
        raise InputError(f"--conditions: given with {collective}; allowed: one of the two")
    given = source.read(conditions)
    if given.transfers.size:
        count = given.transfers.size
        raise InputError(f"--conditions: {conditions} has {count} transfers; allowed: a schedule without any")
    if given.ranks != place.ranks:
        raise InputError(
            f"--conditions: {given.ranks} ranks given; allowed: the {place.ranks} of {place.name}"
        )
    return Layout(given.ranks, given.buffers, given.sizes, given.pre, given.post)


def _solve(wanted: Layout, place: AnyFabric, time_limit: float, quiet: bool):
    """Ask the solver; a line of what it tries, on a terminal."""
    from wavefabric.cli.bench_show import Status
    from wavefabric.fabric import PhotonicFabric

    if not isinstance(place, PhotonicFabric):
        from wavefabric.collectives.synthesis.links import least_steps

        links = links_of(place)
        with Status(quiet) as say:
            return least_steps(wanted, links, time_limit=time_limit, progress=say)
    from wavefabric.collectives.synthesis.lights import synthesise
    from wavefabric.fabric.photonic.from_synthesis import lights

    with Status(quiet) as say:
        return synthesise(wanted, lights(place), time_limit=time_limit, progress=say)


def links_of(fabric: Any):
    """Chunks a round over each link of GPUs that are joined directly, the slowest link carrying one.

    Raises
    ------
    InputError
        If no GPU is linked to another directly.

    Notes
    -----
    Links to switches are left out: they are shared in ways that rounds of chunks do not describe.
    """
    from wavefabric.collectives.synthesis.problem import Links

    number = {name: r for r, name in enumerate(fabric.gpus)}
    width: dict[tuple[int, int], float] = {}
    for link in fabric.links:
        if link.source in number and link.target in number:
            at = number[link.source], number[link.target]
            width[at] = width.get(at, 0.0) + link.bandwidth
    if not width:
        raise InputError(
            f"--fabric: {fabric.name} has switches alone; allowed: GPUs that are linked directly"
        )
    least = min(width.values())
    return Links(fabric.ranks, {at: max(1, int(w / least + 1e-9)) for at, w in width.items()})


def greedy_schedule(
    collective: str | None, shape: source.Shape, messages: Path | None, lasers: int | None, seed: int
) -> Schedule:
    """The schedule of a list of messages.

    Raises
    ------
    InputError
    """
    from wavefabric.collectives import verify
    from wavefabric.collectives.builders.greedy import greedy

    if collective is not None:
        raise InputError(f"COLLECTIVE: {collective} given with greedy; allowed: --messages FILE instead")
    if messages is None:
        raise InputError("--messages: none given with greedy; allowed: a JSON list of [src, dst, elements]")
    extra = [name for name in shape.given() if name != "--ranks"]
    if extra:
        raise InputError(f"{extra[0]}: given with greedy; allowed: --ranks, --messages, --lasers, --seed")
    wanted = read_messages(messages)
    ranks = shape.ranks or 1 + max((max(src, dst) for src, dst, _ in wanted), default=0)
    if ranks > source.MOST_RANKS:
        raise InputError(f"--ranks: {ranks} given; allowed: 1 to {source.MOST_RANKS}")
    schedule = greedy(ranks, wanted, 1 if lasers is None else lasers, seed)
    verify(schedule)
    return schedule


def read_messages(path: Path) -> list[tuple[int, int, int]]:
    """Messages of a JSON file.

    Raises
    ------
    InputError
        Naming the first that is none.
    """
    content = source.read_json(path, "--messages")
    if not isinstance(content, list):
        raise InputError(f"--messages: {path} holds no list; allowed: a JSON list of [src, dst, elements]")
    for number, each in enumerate(content):
        fits = isinstance(each, list) and len(each) == 3
        if not fits or not all(isinstance(v, int) and not isinstance(v, bool) and v >= 0 for v in each):
            shown = str(each)[:40]
            raise InputError(
                f"--messages: {path}[{number}]: {shown} given; allowed: [src, dst, elements], whole, from 0"
            )
    return [(src, dst, elements) for src, dst, elements in content]
