"""`collective make optimal`: the fewest rounds over circuits, or steps and rounds over links, proved."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from wavefabric.cli.collective import source
from wavefabric.cli.collective.solve import links_of
from wavefabric.errors import InputError

if TYPE_CHECKING:
    from wavefabric.collectives.conditions import Layout
    from wavefabric.collectives.synthesis import Lights, Links, Synthesis
    from wavefabric.fabric import AnyFabric, Cost

#: Collectives whose array is whole on a rank: in as many pieces as ranks, each has one to add or pass on. The
#: others have a share for every rank as it is.
_WHOLE = ("all-reduce", "broadcast", "reduce")
#: Seconds to make and check the plan of a circuit, with room for a busy machine.
_PLAN = 1e-4
#: Chunks of all ranks together, beyond which a question takes too long to be put.
_MOST_CHUNKS = 1 << 19
_BYTES = "64M"


@dataclass(frozen=True)
class Question:
    """Options of ``optimal``, as given."""

    fabric: str | None = None
    pieces: int | None = None
    lasers: int | None = None
    waveguides: int | None = None
    routes: str | None = None
    steps: int | None = None
    rounds: int | None = None
    conditions: Path | None = None
    bytes: str | None = None
    time_limit: float | None = None


def optimal(
    collective: str | None,
    shape: source.Shape,
    asked: Question,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Synthesise, show, and write the schedule and its circuits.

    Exit code 1 if it is proved that there is no schedule of the
    steps and rounds asked for.

    Raises
    ------
    InputError, MissingExtra
    """
    from wavefabric.fabric import PhotonicFabric

    begun = time.monotonic()
    time_limit = _checked(shape, asked)
    assert asked.fabric is not None
    place = source.load_fabric(asked.fabric, asked.lasers, asked.waveguides)
    if shape.ranks not in (None, place.ranks):
        given = f"{shape.ranks} given with {place.name}"
        raise InputError(f"--ranks: {given}; allowed: its {place.ranks} GPUs, or without")
    photonic = isinstance(place, PhotonicFabric)
    _check_kind(asked, place, photonic)
    size = source.sizes_of(asked.bytes or _BYTES)[0]
    default = place.ranks if collective in _WHOLE else 1
    shape = replace(shape, pieces=default if asked.pieces is None else asked.pieces)
    over = _circuits_or_links(place, asked, begun + time_limit, time_limit)
    wanted = _wanted(collective, shape, asked.conditions, place)
    circuits = None
    if photonic and output is not None:
        circuits = output.with_name(output.name.removesuffix(".json") + ".circuits.json")
        source.check_target(circuits, force, (".json",))
    found = _solve(wanted, over, asked, begun, time_limit, as_json)
    if isinstance(found, str):
        raise _impossible(found, asked, place, as_json)
    pieces = None if asked.conditions is not None else shape.pieces
    _show(found, place, size, pieces, output, circuits, force, as_json)


def _checked(shape: source.Shape, asked: Question) -> float:
    """The time limit in seconds."""
    if asked.fabric is None:
        raise InputError("--fabric: none given with optimal; allowed: such as lightpath:2x4, or a file")
    time_limit = 60.0 if asked.time_limit is None else asked.time_limit
    if not (math.isfinite(time_limit) and 0 < time_limit <= 1e6):
        raise InputError(f"--time-limit: {time_limit} given; allowed: seconds above 0")
    for name in ("radix", "grid"):
        if getattr(shape, name) is not None:
            raise InputError(f"--{name}: {getattr(shape, name)} given with optimal; allowed: without")
    if asked.bytes is not None and len(source.sizes_of(asked.bytes)) > 1:
        raise InputError(f"--bytes: {asked.bytes} given; allowed: one size with make, such as 64M")
    for name in ("steps", "rounds"):
        value = getattr(asked, name)
        if value is not None and not 1 <= value <= 4096:
            raise InputError(f"--{name}: {value} given; allowed: 1 to 4096")
    if asked.rounds is not None and (asked.steps is None or asked.rounds < asked.steps):
        given = f"{asked.rounds} given with {'no' if asked.steps is None else asked.steps} --steps"
        raise InputError(f"--rounds: {given}; allowed: with --steps, and as many or more")
    return time_limit


def _check_kind(asked: Question, place: AnyFabric, photonic: bool) -> None:
    """Refuse what circuits or links have no use for."""
    if photonic and asked.steps is not None:
        raise InputError(
            f"--steps: {asked.steps} given with photonic {place.name}; allowed: with electrical ones"
        )
    if not photonic and asked.routes is not None:
        given = f"{asked.routes} given with electrical {place.name}"
        raise InputError(f"--routes: {given}; allowed: with photonic ones")
    if asked.routes is not None:
        routes_of(asked.routes)


def routes_of(text: str) -> tuple[str, int]:
    """Method and number of ``--routes``: ``xy``, ``shortest``, or ``shortest:K``.

    Raises
    ------
    InputError
    """
    method, colon, number = text.partition(":")
    good = method in ("xy", "shortest") and (not colon or method == "shortest")
    if not good or (colon and not (number.isascii() and number.isdigit() and 1 <= int(number[:4]) <= 64)):
        raise InputError(
            f"--routes: {text[:60]} given; allowed: xy, shortest, or shortest:K with K from 1 to 64"
        )
    return method, int(number[:4]) if colon else 4


def _circuits_or_links(place: AnyFabric, asked: Question, until: float, time_limit: float) -> Lights | Links:
    """The fabric as plain data, unless that takes until after `until`."""
    from wavefabric.collectives.synthesis.deadline import OutOfTime
    from wavefabric.fabric import Fabric
    from wavefabric.fabric.photonic.from_synthesis import lights

    if isinstance(place, Fabric):
        return links_of(place)
    method, k = routes_of(asked.routes or "xy")
    try:
        return lights(place, k, method, until)
    except OutOfTime:
        raise _too_short(time_limit) from None


def _too_short(time_limit: float) -> InputError:
    given = f"{time_limit:g} s over before the search began"
    return InputError(f"--time-limit: {given}; allowed: more time")


def _wanted(collective: str | None, shape: source.Shape, conditions: Path | None, place: AnyFabric) -> Layout:
    """What the solver is to reach."""
    from wavefabric.collectives.conditions import CUT_BY_RANK, Layout, layout

    if conditions is None:
        assert collective is not None
        chunks = place.ranks * (place.ranks if collective in CUT_BY_RANK else 1)
        chunks *= 2 if collective == "all-to-all" else 1
        if shape.pieces < 1 or chunks * shape.pieces > _MOST_CHUNKS:
            most = _MOST_CHUNKS // chunks
            allowed = f"whole numbers from 1 to {most}" if most else "fewer GPUs"
            raise InputError(f"--pieces: {shape.pieces} given for {place.ranks} GPUs; allowed: {allowed}")
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


def _solve(
    wanted: Layout, over: Lights | Links, asked: Question, begun: float, time_limit: float, quiet: bool
) -> Synthesis | str:
    """Ask the solver; a line of what it tries, on a terminal.

    The limit counts from `begun`, and leaves time for the plan of the circuits.
    """
    from wavefabric.cli.common.show import Status
    from wavefabric.collectives.synthesis import Links, Undecided, decide_links, least_steps, synthesise

    left = time_limit - (time.monotonic() - begun)
    if left <= 0:
        raise _too_short(time_limit)
    try:
        with Status(quiet) as say:
            if not isinstance(over, Links):
                left -= min(left / 4, _PLAN * len(wanted.post))
                return synthesise(wanted, over, time_limit=left, progress=say)
            if asked.steps is None:
                return least_steps(wanted, over, time_limit=left, progress=say)
            return decide_links(wanted, over, asked.steps, rounds=asked.rounds, time_limit=left, progress=say)
    except Undecided as error:
        raise Undecided(str(error).replace("time_limit:", f"--time-limit: {time_limit:g} s", 1)) from None


def _impossible(why: str, asked: Question, place: AnyFabric, as_json: bool) -> typer.Exit:
    """Say that there is no schedule; the end with exit code 1."""
    rounds = asked.steps if asked.rounds is None else asked.rounds
    if as_json:
        told = {"fabric": place.name, "steps": asked.steps, "rounds": rounds, "feasible": False, "why": why}
        source.say_json(told)
    else:
        typer.echo(f"impossible in {asked.steps} steps and {rounds} rounds on {place.name}: proved by {why}")
    return typer.Exit(1)


def _show(
    found: Synthesis,
    place: AnyFabric,
    size: int,
    pieces: int | None,
    output: Path | None,
    circuits: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    from wavefabric.cli.collective.circuits import circuits_text
    from wavefabric.cli.collective.make import show
    from wavefabric.fabric import Fabric
    from wavefabric.fabric.cost.cost import cost
    from wavefabric.fabric.photonic.from_synthesis import plan_of

    also: dict[str, Any] = {
        "fabric": place.name,
        "pieces": pieces,
        "lower_bound": found.lower_bound,
        "optimal": found.optimal,
        "why": found.why,
        "status": [list(each) for each in found.status],
        "seconds": found.seconds,
    }
    if found.rounds_of_steps:
        also["rounds_of_steps"] = list(found.rounds_of_steps)
    more = [
        ("lower bound", _so_many(found.lower_bound, "round")),
        ("optimum", _optimum(found, place, pieces)),
    ]
    beside = {}
    options: dict[str, Any] = {}
    if not isinstance(place, Fabric):
        plan = plan_of(found, place)
        options["plan"] = plan
        also["circuits"] = sum(b.lasers for r in plan.rounds for b in r.bundles)
        if circuits is not None:
            beside[circuits] = circuits_text(plan)
    elements = source.array_elements(found.schedule)
    if elements:
        taken = cost(found.schedule, place, size / elements, **options)
        more.append(("time", time_words_of(taken, size)))
        also["cost"] = {
            "bytes": size,
            "seconds": taken.seconds,
            "bound": vars(taken.bound),
            "ratio": taken.seconds / taken.bound.seconds if taken.bound.seconds else None,
        }
    more.append(("search took", f"{found.seconds:.3g} s"))
    if "circuits" in also:
        more.append(("circuits", f"{also['circuits']} on {place.name}"))
    show(found.schedule, output, force, as_json, more, also, beside)


def _optimum(found: Synthesis, place: AnyFabric, pieces: int | None) -> str:
    """What is optimal, or best so far, and why, in words."""
    from wavefabric.fabric import Fabric

    best = "optimal" if found.optimal else "not proved optimal"
    if isinstance(place, Fabric) and place.switches:
        best += " over direct links"
    if found.schedule.name.endswith(" all-reduce"):
        best += " in each half"
    steps = f"{_so_many(len(found.rounds_of_steps), 'step')}, " if found.rounds_of_steps else ""
    for_pieces = "" if pieces is None else f" for {_so_many(pieces, 'piece')}"
    return f"{best}: {steps}{_so_many(found.rounds, 'round')}{for_pieces}; {found.why}"


def _so_many(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def time_words_of(taken: Cost, size: int) -> str:
    """What a size takes, and how far that is from the bound."""
    from wavefabric.execution.report import size_words
    from wavefabric.fabric.draw.scene import time_words

    words = f"{size_words(size)} in {time_words(taken.seconds)} on {taken.fabric}, {taken.model} model"
    if taken.bound.seconds:
        words += f"; {taken.seconds / taken.bound.seconds:.2f} times the bound of"
        words += f" {time_words(taken.bound.seconds)} for any schedule"
    return words
