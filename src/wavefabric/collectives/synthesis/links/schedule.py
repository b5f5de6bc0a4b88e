"""Schedules over electrical links: SCCL's problem of chunks, steps and rounds."""

from __future__ import annotations

from collections.abc import Callable

from wavefabric.collectives.arguments import whole
from wavefabric.collectives.conditions import Layout
from wavefabric.collectives.synthesis import deadline as clock
from wavefabric.collectives.synthesis.bounds import link_uses
from wavefabric.collectives.synthesis.demand import Demand, Task, task
from wavefabric.collectives.synthesis.links.search import Half, decide_steps, least
from wavefabric.collectives.synthesis.problem import Links, Synthesis, check_ranks, check_time_limit, silent
from wavefabric.collectives.synthesis.spread import distances
from wavefabric.collectives.synthesis.write import Writer
from wavefabric.errors import InputError


def synthesise_links(
    layout: Layout,
    links: Links,
    steps: int,
    *,
    rounds: int | None = None,
    time_limit: float = 60.0,
    workers: int = 2,
    progress: Callable[[str], None] | None = None,
) -> Synthesis | None:
    """A schedule of so many steps and rounds over electrical links, or the proof that there is none.

    A step takes one round or more, and all steps together `rounds`; in a step of r rounds a link of capacity
    b carries at most r b chunks, and so do links together. What arrives in a step is sent on in later ones,
    also by ranks that do not need it. A rank gets no chunk twice.

    Parameters
    ----------
    layout : Layout
        Its ``pieces`` are SCCL's chunks a node (of an all-gather). Sums are found with time turned round, an
        all-reduce as two halves of as many steps and rounds each.
    links : Links
    steps : int
    rounds : int, optional
        `steps` by default.
    time_limit : float
        s, for everything: writing down the questions and the schedule included.
    workers : int
        Threads and processes of the solvers.
    progress : function of one str, optional

    Returns
    -------
    Synthesis or None
        None if it is proved impossible. A round of the schedule in which something is sent is a step;
        `rounds_of_steps` has their rounds.

    Raises
    ------
    InputError
        If `rounds` < `steps`, or they are odd for an all-reduce.
    Undecided
        If time runs out.
    MissingExtra
        If solvers are needed and ortools is absent.

    Notes
    -----
    SCCL: Cai et al. 2021, doi:10.1145/3437801.3441620: *k*-synchronous schedules with `rounds` ≤ `steps` + k.

    Examples
    --------
    >>> from wavefabric.collectives import layout
    >>> from wavefabric.collectives.synthesis import Links, synthesise_links
    >>> ring = Links(4, {(r, (r + d) % 4): 1 for r in range(4) for d in (1, 3)})
    >>> synthesise_links(layout("all-gather", 4, 4), ring, 1) is None
    True
    >>> synthesise_links(layout("all-gather", 4, 4), ring, 2).schedule.rounds
    2
    """
    found = decide_links(
        layout, links, steps, rounds=rounds, time_limit=time_limit, workers=workers, progress=progress
    )
    return None if isinstance(found, str) else found


def decide_links(
    layout: Layout,
    links: Links,
    steps: int,
    *,
    rounds: int | None = None,
    time_limit: float = 60.0,
    workers: int = 2,
    progress: Callable[[str], None] | None = None,
) -> Synthesis | str:
    """The schedule that `synthesise_links` finds, or what proves that there is none, in one line.

    Parameters and errors are those of `synthesise_links`.
    """
    begun = clock.now()
    check_ranks(layout.ranks, links.ranks)
    time_limit = check_time_limit(time_limit)
    workers = whole("workers", workers, 1)
    steps = whole("steps", steps, 1)
    rounds = whole("rounds", steps if rounds is None else rounds, steps)
    work = task(layout)
    parts = _parts(work, links)
    deadline = clock.before_writing(begun, time_limit, _moves(parts))
    if len(parts) > 1 and (steps % 2 or rounds % 2):
        raise InputError(
            f"steps, rounds: {steps}, {rounds}; allowed: even numbers, as an all-reduce is two halves"
        )
    steps, rounds = steps // max(1, len(parts)), rounds // max(1, len(parts))
    say = progress or silent
    halves: list[Half] = []
    for i, (demand, over) in enumerate(parts):
        if i and parts[i] == parts[0]:
            half = halves[0]
        else:
            half = decide_steps(demand, over, steps, rounds, deadline, workers, say)
        if isinstance(half, str):
            return half
        halves.append(half)
    return _result(work, halves, begun)


def least_steps(
    layout: Layout,
    links: Links,
    *,
    max_steps: int | None = None,
    time_limit: float = 60.0,
    workers: int = 2,
    progress: Callable[[str], None] | None = None,
) -> Synthesis:
    """A schedule of the fewest steps over electrical links, each step of one round.

    Parameters
    ----------
    layout, links, time_limit, workers, progress
        As of `synthesise_links`.
    max_steps : int, optional
        Steps that are allowed; of an all-reduce, of each half.

    Returns
    -------
    Synthesis
        If time runs out, the best schedule found, `optimal` False, and the lower bound that is proved.

    Raises
    ------
    InputError
        If the layout cannot be met over these links or within `max_steps`.
    Undecided
        If no schedule, or none of at most `max_steps`, was found in time.
    MissingExtra
        If solvers are needed and ortools is absent.

    Examples
    --------
    >>> from wavefabric.collectives import layout
    >>> from wavefabric.collectives.synthesis import Links, least_steps
    >>> ring = Links(8, {(r, (r + d) % 8): 1 for r in range(8) for d in (1, 7)})
    >>> least_steps(layout("all-gather", 8, 8), ring).rounds
    4
    """
    begun = clock.now()
    check_ranks(layout.ranks, links.ranks)
    time_limit = check_time_limit(time_limit)
    workers = whole("workers", workers, 1)
    work = task(layout)
    parts = _parts(work, links)
    deadline = clock.before_writing(begun, time_limit, _moves(parts))
    halves: list[Half] = []
    for i, (demand, over) in enumerate(parts):
        if i and parts[i] == parts[0]:
            halves.append(halves[0])
            continue
        until = clock.share(clock.now(), deadline, 1 / (len(parts) - i))
        halves.append(least(demand, over, max_steps, until, workers, progress or silent))
    return _result(work, halves, begun)


def _parts(work: Task, links: Links) -> list[tuple[Demand, Links]]:
    parts = [] if work.gather is None else [(work.gather, links.reversed())]
    return parts if work.spread is None else [*parts, (work.spread, links)]


def _moves(parts: list[tuple[Demand, Links]]) -> int:
    """Transfers at least."""
    return sum(link_uses(demand, distances(demand.ranks, over.capacity)) for demand, over in parts)


def _result(work: Task, halves: list[Half], begun: float) -> Synthesis:
    writer = Writer(work)
    taken: list[int] = []
    names = ["reduce-scatter", "all-gather"] if len(halves) > 1 else [""]
    for i, half in enumerate(halves):
        if work.gather is not None and i == 0:
            last = len(half.rounds) - 1
            writer.sums(sorted((last - r, number, d, s) for r, number, s, d in half.moves))
            taken += half.rounds[::-1]
        else:
            writer.copies(half.moves)
            taken += half.rounds
    if work.gather is not None and len(halves) == 1:
        writer.copies(())
    labels = [f"{name}: " if name else "" for name in names]
    return Synthesis(
        schedule=writer.schedule(),
        rounds=sum(taken),
        lower_bound=sum(h.lower for h in halves),
        optimal=all(sum(h.rounds) == h.lower for h in halves),
        why="; ".join(label + h.why for label, h in zip(labels, halves, strict=True)),
        circuits=(),
        seconds=clock.now() - begun,
        status=tuple(
            (n, label + text) for label, h in zip(labels, halves, strict=True) for n, text in h.status
        ),
        rounds_of_steps=tuple(taken),
    )
