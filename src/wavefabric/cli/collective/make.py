"""`wavefabric collective make`: a schedule from a named algorithm, a solver, or a list of messages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wavefabric.cli.collective import source
from wavefabric.cli.common.ranks import first
from wavefabric.cli.common.show import console
from wavefabric.errors import InputError, visible

if TYPE_CHECKING:
    from wavefabric.collectives import Schedule

_OPTIMAL = "Of optimal and greedy"
#: What `make` takes beside the algorithms of the registry.
SOLVERS = {
    "optimal": "the fewest rounds, proved by a solver (--fabric, and COLLECTIVE or --conditions)",
    "greedy": "messages packed into rounds (--messages, --lasers)",
}


def command(
    algorithm: Annotated[
        str | None, typer.Argument(metavar="ALGORITHM", help="See --list.", show_default=False)
    ] = None,
    collective: Annotated[
        str | None, typer.Argument(metavar="COLLECTIVE", help="Such as all-reduce.", show_default=False)
    ] = None,
    ranks: source.Ranks = None,
    elements: source.Elements = None,
    pieces: Annotated[
        int | None,
        typer.Option(
            "--pieces",
            help="Parts that follow each other in a pipeline. \\[default: 1; optimal all-reduce, broadcast,"
            " reduce: as many as GPUs]",
            rich_help_panel="Of an algorithm",
        ),
    ] = None,
    radix: source.Radix = None,
    root: source.Root = 0,
    grid: source.Grid = None,
    fabric: Annotated[
        str | None,
        typer.Option("--fabric", "-f", help="optimal: for this fabric.", rich_help_panel=_OPTIMAL),
    ] = None,
    lasers: Annotated[
        int | None,
        typer.Option(
            "--lasers",
            help="Wavelengths a GPU sends at once. \\[default: optimal, the fabric's; greedy 1]",
            rich_help_panel=_OPTIMAL,
        ),
    ] = None,
    waveguides: Annotated[
        int | None, typer.Option("--waveguides", help="Between tiles, each way.", rich_help_panel=_OPTIMAL)
    ] = None,
    routes: Annotated[
        str | None,
        typer.Option(
            "--routes",
            help="optimal: of each pair, xy (row first, column first), or shortest:K (K shortest paths)."
            " \\[default: xy]",
            rich_help_panel=_OPTIMAL,
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            "--steps",
            help="optimal, electrical: exactly so many steps; exit code 1 if proved impossible.",
            rich_help_panel=_OPTIMAL,
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            "--rounds",
            help="optimal: rounds of all steps together. \\[default: --steps]",
            rich_help_panel=_OPTIMAL,
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            "--bytes",
            help="optimal: of the whole array, for the time that is shown. \\[default: 64M]",
            rich_help_panel=_OPTIMAL,
        ),
    ] = None,
    conditions: Annotated[
        Path | None,
        typer.Option(
            "--conditions",
            help="optimal: what is held before and after, a schedule (JSON) without transfers.",
            rich_help_panel=_OPTIMAL,
        ),
    ] = None,
    messages: Annotated[
        Path | None,
        typer.Option(
            "--messages", help="greedy: JSON list of \\[src, dst, elements].", rich_help_panel=_OPTIMAL
        ),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option("--time-limit", help="optimal: seconds. \\[default: 60]", rich_help_panel=_OPTIMAL),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="greedy: order of equals. \\[default: 0]", rich_help_panel=_OPTIMAL),
    ] = None,
    list_all: Annotated[bool, typer.Option("--list", help="Show all algorithms.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Schedule (JSON).", show_default=False)
    ] = None,
    force: source.Force = False,
    as_json: source.Json = False,
) -> None:
    """Make a schedule and prove it.

    Examples:

    wavefabric collective make recursive all-reduce --ranks 16 --radix 4 -o r4.json

    wavefabric collective make optimal all-gather --fabric lightpath:2x4 --lasers 4 -o best.json

    wavefabric collective make optimal all-gather --fabric dgx-1 --pieces 2 --steps 2 --rounds 3

    wavefabric collective make greedy --ranks 8 --messages layers.json --lasers 2
    """
    from wavefabric.cli.collective.optimal import Question, optimal
    from wavefabric.cli.collective.solve import greedy_schedule

    if not first():
        return
    shape = source.Shape(ranks, elements, 1 if pieces is None else pieces, radix, root, grid)
    if list_all:
        others = {"--fabric": fabric, "--lasers": lasers, "--waveguides": waveguides, "--messages": messages}
        others |= {"--routes": routes, "--steps": steps, "--rounds": rounds, "--bytes": size}
        others |= {"--conditions": conditions, "--time-limit": time_limit, "--seed": seed, "--output": output}
        given = [each for each in (algorithm, collective) if each is not None] + shape.given()
        given += [name for name, value in others.items() if value is not None]
        if given:
            raise InputError(f"--list: given with {given[0]}; allowed: alone, or with --json")
        show_list(as_json)
        return
    if algorithm is None:
        raise InputError("ALGORITHM: none given; allowed: see wavefabric collective make --list")
    _only_for(algorithm, "optimal", fabric=fabric, waveguides=waveguides, conditions=conditions)
    _only_for(algorithm, "optimal", time_limit=time_limit, routes=routes, steps=steps, rounds=rounds)
    _only_for(algorithm, "optimal", bytes=size)
    _only_for(algorithm, "greedy", messages=messages, seed=seed)
    source.check_seed(seed)
    if algorithm not in SOLVERS:
        _only_for(algorithm, "optimal or greedy", lasers=lasers)
    if collective is None and algorithm != "greedy" and conditions is None:
        raise InputError(f"COLLECTIVE: none given after {algorithm}; allowed: {_collectives(algorithm)}")
    source.check_target(output, force, (".json",))
    if algorithm == "optimal":
        asked = Question(
            fabric, pieces, lasers, waveguides, routes, steps, rounds, conditions, size, time_limit
        )
        optimal(collective, shape, asked, output, force, as_json)
        return
    if algorithm == "greedy":
        schedule = greedy_schedule(collective, shape, messages, lasers, seed or 0)
    else:
        assert collective is not None
        schedule = source.build_by_name(algorithm, collective, shape)
    show(schedule, output, force, as_json)


def _only_for(algorithm: str, needed: str, **options: Any) -> None:
    for name, value in options.items():
        if value is not None and algorithm not in needed.split(" or "):
            option = name.replace("_", "-")
            raise InputError(f"--{option}: {value} given with {algorithm}; allowed: with {needed}")


def _collectives(algorithm: str) -> str:
    from wavefabric.collectives.conditions import COLLECTIVES
    from wavefabric.collectives.registry import ALGORITHMS

    return ", ".join(ALGORITHMS[algorithm].collectives if algorithm in ALGORITHMS else COLLECTIVES)


def facts(schedule: Schedule) -> dict[str, Any]:
    """What is worth knowing about a schedule that was verified."""
    from wavefabric.collectives.conditions import kind

    sent, received = volumes(schedule)
    whole = source.array_elements(schedule)
    collective, root = kind(schedule)
    found = {
        "schedule": schedule.name,
        "collective": collective,
        "ranks": schedule.ranks,
        "elements": whole,
        "rounds": schedule.communication_rounds,
        "local_rounds": schedule.rounds - schedule.communication_rounds,
        "transfers": int(schedule.transfers.size),
        "sent_elements": int(sent.max(initial=0)),
        "received_elements": int(received.max(initial=0)),
        "verified": True,
    }
    return found if root is None else {**found, "root": root}


def volumes(schedule: Schedule):
    """Elements that each rank sends to and receives from others: two arrays of shape (ranks,)."""
    import numpy as np

    from wavefabric.collectives.structure import transfer_elements

    t = schedule.transfers
    n = transfer_elements(schedule) * (t["src"] != t["dst"])
    return np.stack([np.bincount(t[end], n, schedule.ranks) for end in ("src", "dst")])


def show(
    schedule: Schedule,
    output: Path | None,
    force: bool,
    as_json: bool,
    more: list[tuple[str, str]] | None = None,
    also: dict[str, Any] | None = None,
    beside: dict[Path, str] | None = None,
) -> None:
    """Write files, and print what was made.

    Parameters
    ----------
    schedule : Schedule
        Verified.
    output : Path, optional
    force, as_json : bool
    more : list of (str, str), optional
        Further lines of the table.
    also : dict, optional
        Further keys of the JSON.
    beside : dict of Path to str, optional
        Further files.
    """
    from wavefabric.cli.collective.files import write_all
    from wavefabric.collectives import to_json

    texts = {} if output is None else {output: to_json(schedule)}
    written = write_all({**texts, **(beside or {})}, force)
    told = facts(schedule)
    if as_json:
        source.say_json({**told, **(also or {}), "written": [str(p) for p in written]})
        return
    lines = [("schedule", told["schedule"]), ("ranks", str(told["ranks"])), ("rounds", rounds_words(told))]
    lines += [("transfers", str(told["transfers"])), ("a rank sends", share_words(told, "sent_elements"))]
    lines += [("and receives", share_words(told, "received_elements"))]
    proof = "verified: replayed, every rank ends with what it must hold"
    lines += [("proof", proof), *(more or [])]
    console().print(pairs_table(lines))
    source.say_written(written)


def rounds_words(told: dict[str, Any]) -> str:
    """Rounds in words."""
    local = told["local_rounds"]
    return f"{told['rounds']}" + (f", and {local} that add or copy within ranks" if local else "")


def share_words(told: dict[str, Any], key: str) -> str:
    """Elements in words, and as a multiple of the array if it is one of the named collectives."""
    plural = "s" if told[key] != 1 else ""
    words = f"at most {told[key]} element{plural}"
    if told["collective"] == "custom" or not told["elements"]:
        return words
    return f"{words}, {told[key] / told['elements']:.4g} times the array ({told['elements']})"


def pairs_table(lines: list[tuple[str, str]]):
    """Names and values as a table without lines."""
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in lines:
        table.add_row(name, visible(text))  # it may be a file's
    return table


def show_list(as_json: bool) -> None:
    """All algorithms: what they do, for how many ranks, and their options."""
    from wavefabric.collectives.registry import ALGORITHMS, accepts

    rows = []
    for known in ALGORITHMS.values():
        fits = [n for n in range(2, 65) if accepts(known.name, known.collectives[0], n) is None]
        rows.append(
            {
                "algorithm": known.name,
                "collectives": list(known.collectives),
                "ranks": "factors up to the radix" if fits == _POWERS else _ranks_words(fits),
                "options": list(known.options),
                "summary": known.summary,
            }
        )
    if as_json:
        solvers = [{"algorithm": name, "summary": text} for name, text in SOLVERS.items()]
        source.say_json(rows + solvers)
        return
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("algorithm", "collectives", "ranks", "options"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "algorithm")
    for row in rows:
        options = " ".join(f"--{name}" for name in row["options"])
        what = f"{row['summary']}\n{', '.join(row['collectives'])}"
        table.add_row(row["algorithm"], what, row["ranks"], options)
    for name, text in SOLVERS.items():
        table.add_row(name, text, "few" if name == "optimal" else "any", "see --help")
    console().print(table)


_POWERS = [2**k for k in range(1, 7)]


def _ranks_words(fits: list[int]) -> str:
    """Rank counts of 2 to 64 in words."""
    if len(fits) == 63:
        return "any"
    if fits == _POWERS[1:]:
        return "powers of 2 from 4"
    shown = ", ".join(map(str, fits[:6]))
    return f"{shown}, …" if len(fits) > 6 else shown or "see --grid"
