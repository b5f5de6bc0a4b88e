"""Optimal schedules over photonic circuits (LUMORPH, Algorithm 1, corrected)."""

from __future__ import annotations

from collections.abc import Callable

from wavefabric.collectives.arguments import whole
from wavefabric.collectives.conditions import Layout
from wavefabric.collectives.synthesis import deadline as clock
from wavefabric.collectives.synthesis.circuits.search import Found, Search
from wavefabric.collectives.synthesis.circuits.seeds import Plan
from wavefabric.collectives.synthesis.demand import Demand, task
from wavefabric.collectives.synthesis.problem import (
    Circuit,
    Lights,
    Synthesis,
    Undecided,
    check_ranks,
    check_time_limit,
    silent,
)
from wavefabric.collectives.synthesis.write import Writer
from wavefabric.errors import InputError


def synthesise(
    layout: Layout,
    lights: Lights,
    *,
    max_rounds: int | None = None,
    time_limit: float = 60.0,
    workers: int = 2,
    progress: Callable[[str], None] | None = None,
) -> Synthesis:
    """A schedule of the fewest rounds over circuits of light, proved optimal if time allows.

    In a round each circuit carries one chunk. A rank sends only what it had or received before; a chunk goes
    only to ranks that need it in the end, to each once. A wavelength leaves a tile at most once a round and
    arrives at one at most once; on an edge it is at most once in each waveguide.

    Parameters
    ----------
    layout : Layout
        From `wavefabric.collectives.layout`, or of its form. Sums (reduce, reduce-scatter) are found with
        time turned round. Of an all-reduce, a reduce-scatter and an all-gather are found one after the
        other, and optimal is meant of each; ``pieces`` sets how many roots there are.
    lights : Lights
    max_rounds : int, optional
        Rounds that are allowed in all.
    time_limit : float
        s, for everything: writing down the questions and the schedule included.
    workers : int
        Threads and processes of the solvers.
    progress : function of one str, optional
        Told what is tried.

    Returns
    -------
    Synthesis
        With circuits. If time runs out, the best schedule found, `optimal` False, and the lower bound that is
        proved. What is impossible is proved so, by counting or by a solver, never by time; a proof that
        holds for the given routes only says so.

    Raises
    ------
    InputError
        If the layout cannot be met over these routes or within `max_rounds`.
    Undecided
        If no schedule, or none of at most `max_rounds`, was found in time.
    MissingExtra
        If solvers are needed and ortools is absent.

    Notes
    -----
    LUMORPH, Algorithm 1; docs/synthesis.md has the formulation and what was corrected.

    Examples
    --------
    >>> from wavefabric.collectives import layout
    >>> from wavefabric.collectives.synthesis import Lights, synthesise
    >>> ways = {(a, b): ((a, b),) for a in range(3) for b in range(3) if a != b}
    >>> found = synthesise(layout("all-gather", 3, 3), Lights(3, 1, 1, None, ways))
    >>> found.rounds, found.optimal
    (2, True)
    >>> found.circuits[0]
    Circuit(round=0, src=0, dst=1, wavelength=0, route=(0, 1))
    """
    begun = clock.now()
    check_ranks(layout.ranks, lights.ranks)
    time_limit = check_time_limit(time_limit)
    workers = whole("workers", workers, 1)
    if max_rounds is not None:
        max_rounds = whole("max_rounds", max_rounds, 0)
    work = task(layout)
    say = progress if progress is not None else silent

    def search(demand: Demand, over: Lights, until: float, label: str) -> Search:
        return Search(demand, over, until, workers, lambda text: say(label + text))

    moves = sum(len(c.need) for part in (work.gather, work.spread) if part for c in part.chunks)
    deadline = clock.before_writing(begun, time_limit, moves)
    halves: list[tuple[str, Found]] = []
    second: Search | None = None
    gather, spread = work.gather, work.spread
    if gather is not None:
        both = spread is not None
        same = both and gather == spread and lights.symmetric()
        until = clock.share(begun, deadline, 1 / 2) if both and not same else deadline
        first = search(gather, lights.reversed(), until, "reduce-scatter: " if both else "")
        if same:
            # One half serves as both, so half of the rounds are allowed for it.
            found = first.run(max_rounds, times=2)
            halves += [("reduce-scatter", found), ("all-gather", found)]
            spread = None
        elif both:
            second = search(spread, lights, deadline, "all-gather: ")
            halves.append(("reduce-scatter", first.run(max_rounds, second.lower)))
        else:
            halves.append(("reduce-scatter", first.run(max_rounds)))
    if spread is not None:
        second = second or search(spread, lights, deadline, "")
        done = sum(f.plan.rounds for _, f in halves)
        try:
            halves.append(("all-gather", second.run(max_rounds, done)))
        except InputError as error:
            if isinstance(error, Undecided) or all(f.optimal for _, f in halves):
                raise
            # What is left is too little, but the first half may need less than was found.
            raise Undecided(
                f"time_limit: over before {max_rounds} rounds of both halves were decided; allowed: more time"
            ) from error
    return _result(Writer(work), gather is not None, halves, begun)


def _result(writer: Writer, sums: bool, halves: list[tuple[str, Found]], begun: float) -> Synthesis:
    circuits: list[Circuit] = []
    for i, (_, found) in enumerate(halves):
        moves, ways = found.plan.moves, found.plan.ways
        if sums and i == 0:
            plan = _turned(found.plan)
            moves, ways = plan.moves, plan.ways
            became = writer.sums(moves)
        else:
            became = writer.copies(moves)
        circuits += [
            Circuit(became[r], s, d, wavelength, route)
            for (r, _, s, d), (wavelength, route) in zip(moves, ways, strict=True)
        ]
    if sums and len(halves) == 1:
        writer.copies(())
    # Transfers are in this order too; circuits of one pair in one round may carry either's chunk.
    circuits.sort(key=lambda c: (c.round, c.src, c.dst, c.wavelength))
    label = len(halves) > 1
    schedule = writer.schedule()
    return Synthesis(
        schedule=schedule,
        rounds=sum(f.plan.rounds for _, f in halves),
        lower_bound=sum(f.lower for _, f in halves),
        optimal=all(f.optimal for _, f in halves),
        why="; ".join(f"{name}: {f.why}" if label else f.why for name, f in halves),
        circuits=tuple(circuits),
        seconds=clock.now() - begun,
        status=tuple((r, f"{name}: {text}" if label else text) for name, f in halves for r, text in f.status),
    )


def _turned(plan: Plan) -> Plan:
    """A plan with time turned round, its moves in order again."""
    last = plan.rounds - 1
    turned = [
        ((last - r, number, d, s), (wavelength, tuple(route[::-1])))
        for (r, number, s, d), (wavelength, route) in zip(plan.moves, plan.ways, strict=True)
    ]
    turned.sort()
    return Plan(tuple(m for m, _ in turned), tuple(w for _, w in turned), plan.method)
