"""Implement `wavefabric collective make`: schedules by algorithms, a solver, or from a list of messages."""

from typing import Any

from wavefabric.base.errors import InputError
from wavefabric.cli.collective.algorithm import AlgorithmOptions, RankedAlgorithmOptions, build_by_name
from wavefabric.cli.collective.facts import MakeOptions, show_made
from wavefabric.cli.collective.optimal import SolverOptions, optimal
from wavefabric.cli.common.files import read_rows
from wavefabric.cli.common.options import changed, refuse
from wavefabric.cli.common.show import conclude, table
from wavefabric.collectives import Schedule, verify
from wavefabric.collectives.builders.messages import greedy
from wavefabric.collectives.conditions import COLLECTIVES
from wavefabric.collectives.registry import ALGORITHMS, why_refused
from wavefabric.collectives.sizes import MOST_RANKS

#: Names that `make` takes besides the algorithms of the registry.
SOLVERS = {
    "optimal": "the fewest rounds, by a solver; over switches or with --bytes the least time, and its gap",
    "greedy": "messages packed into rounds (--messages, --lasers)",
}
#: Solvers that have an option, if not optimal alone.
_FOR = {"messages": "greedy", "seed": "greedy", "lasers": "optimal or greedy"}


def command(chosen: RankedAlgorithmOptions, solver: SolverOptions, options: MakeOptions) -> None:
    """Make a schedule and prove it.

    Examples:

    wavefabric collective make recursive all-reduce --ranks 16 --radix 4 -o r4.json

    wavefabric collective make optimal all-gather --fabric lightpath:2x4 --lasers 4 -o best.json

    wavefabric collective make optimal all-gather --fabric dgx-1 --pieces 2 --steps 2 --rounds 3

    wavefabric collective make greedy --ranks 8 --messages layers.json --lasers 2
    """
    algorithm, collective = options.algorithm, options.collective
    if options.list_all:
        inputs = [word for word in (algorithm, collective) if word is not None]
        inputs += [*chosen.present(), *(f"--{name.replace('_', '-')}" for name in changed(solver))]
        inputs += [] if options.output is None else ["--output"]
        if inputs:
            raise InputError(f"--list: given with {inputs[0]}; allowed: alone, or with --json")
        show_list(options.as_json)
        return
    if algorithm is None:
        raise InputError("ALGORITHM: none given; allowed: see wavefabric collective make --list")
    for name, value in changed(solver).items():
        needed = _FOR.get(name, "optimal")
        if algorithm not in needed.split(" or "):
            refuse({name: value}, f"with {algorithm}", f"with {needed}")
    if collective is None and algorithm != "greedy" and solver.conditions is None:
        known = ALGORITHMS[algorithm].collectives if algorithm in ALGORITHMS else COLLECTIVES
        raise InputError(f"COLLECTIVE: none given after {algorithm}; allowed: {', '.join(known)}")
    if algorithm == "optimal":
        optimal(collective, chosen, solver, options)
        return
    if algorithm == "greedy":
        schedule = _greedy(collective, chosen, solver)
    else:
        assert collective is not None
        schedule = build_by_name(algorithm, collective, chosen)
    show_made(schedule, options)


def show_list(as_json: bool) -> None:
    """Print all algorithms, with their collectives, possible numbers of ranks, and options."""
    rows: list[dict[str, Any]] = []
    for known in ALGORITHMS.values():
        fits = [n for n in range(2, 65) if why_refused(known.name, known.collectives[0], n) is None]
        row = {"algorithm": known.name, "collectives": known.collectives, "ranks": _ranks_text(fits)}
        rows.append(row | {"options": known.options, "summary": known.summary})
    solvers = ({"algorithm": name, "summary": text} for name, text in SOLVERS.items())
    shown = table(("|algorithm", "<collectives", "<ranks", "<options"))
    for row in rows:
        does = f"{row['summary']}\n{', '.join(row['collectives'])}"
        shown.add_row(row["algorithm"], does, row["ranks"], " ".join(f"--{name}" for name in row["options"]))
    for name, ranks in (("optimal", "few"), ("greedy", "any")):
        shown.add_row(name, SOLVERS[name], ranks, "see --help")
    conclude(as_json, [*rows, *solvers], shown=[shown])


def _ranks_text(fits: list[int]) -> str:
    """Return possible numbers of ranks, among 2 to 64, in words."""
    powers = [2**k for k in range(1, 7)]
    if fits == powers:
        return "factors up to the radix"
    if len(fits) == 63:
        return "any"
    if fits == powers[1:]:
        return "powers of 2 from 4"
    shown = ", ".join(map(str, fits[:6]))
    return f"{shown}, …" if len(fits) > 6 else shown or "see --grid"


def _greedy(collective: str | None, chosen: AlgorithmOptions, solver: SolverOptions) -> Schedule:
    """Pack the messages of ``--messages`` into a schedule, and verify it."""
    if collective is not None:
        raise InputError(f"COLLECTIVE: {collective} given with greedy; allowed: --messages FILE instead")
    if solver.messages is None:
        raise InputError("--messages: none given with greedy; allowed: a JSON list of [src, dst, elements]")
    for name in chosen.present():
        if name != "--ranks":
            raise InputError(f"{name}: given with greedy; allowed: --ranks, --messages, --lasers, --seed")
    rows = read_rows(solver.messages, "--messages", "[src, dst, elements]")
    ranks = chosen.ranks or 1 + max((max(src, dst) for src, dst, _ in rows), default=0)
    if ranks > MOST_RANKS:
        raise InputError(f"--ranks: {ranks} given; allowed: 1 to {MOST_RANKS}")
    schedule = greedy(ranks, rows, 1 if solver.lasers is None else solver.lasers, solver.seed or 0)
    verify(schedule)
    return schedule
