"""Schedules of the fewest rounds over circuits (LUMORPH, Algorithm 1, corrected) and over links (SCCL)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from wavefabric.collectives.arguments import whole
from wavefabric.collectives.conditions import Layout
from wavefabric.collectives.synthesis import deadline as clock
from wavefabric.collectives.synthesis.bounds import link_uses
from wavefabric.collectives.synthesis.circuits.decide import CircuitProblem
from wavefabric.collectives.synthesis.demand import Demand, SumsAndCopies, task
from wavefabric.collectives.synthesis.links.decide import LinkProblem
from wavefabric.collectives.synthesis.problem import (
    Circuit,
    Links,
    OpticalNetwork,
    Synthesis,
    Undecided,
    check_time_limit,
)
from wavefabric.collectives.synthesis.search import HalfResult, Progress, Search
from wavefabric.collectives.synthesis.send_variables import distances
from wavefabric.collectives.synthesis.write import ScheduleWriter
from wavefabric.errors import InputError


def synthesise(
    layout: Layout,
    network: OpticalNetwork,
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
        time reversed. Of an all-reduce, a reduce-scatter and an all-gather are found one after the other, and
        optimal is meant of each; ``pieces`` sets how many roots there are.
    network : OpticalNetwork
    max_rounds : int, optional
        Rounds that are allowed in all.
    time_limit : float
        s, for everything: writing down the models and the schedule included.
    workers : int
        Threads and processes of the solvers.
    progress : function of one str, optional
        Is called with what is tried.

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
    >>> from wavefabric.collectives.synthesis import OpticalNetwork, synthesise
    >>> routes = {(a, b): ((a, b),) for a in range(3) for b in range(3) if a != b}
    >>> result = synthesise(layout("all-gather", 3, 3), OpticalNetwork(3, 1, 1, None, routes))
    >>> result.rounds, result.optimal
    (2, True)
    >>> result.circuits[0]
    Circuit(round=0, src=0, dst=1, wavelength=0, route=(0, 1))
    """
    run = _Run(layout, network, time_limit, workers, progress)
    if max_rounds is not None:
        max_rounds = whole("max_rounds", max_rounds, 0)
    deadline = run.deadline(sum(len(c.need) for demand, _ in run.parts for c in demand.chunks))

    def search(part: int, until: float) -> Search:
        demand, over = run.parts[part]
        return Search(CircuitProblem(demand, over, until, workers), until, run.say_of(part))

    if run.halves_alike:
        # One half serves as both, so half of the rounds are allowed for it.
        return run.result([search(0, deadline).run(max_rounds, times=2)] * 2)
    if len(run.parts) < 2:
        return run.result([search(i, deadline).run(max_rounds) for i in range(len(run.parts))])
    first, second = search(0, clock.share(run.begun, deadline, 1 / 2)), search(1, deadline)
    sums = first.run(max_rounds, second.lower)
    try:
        copies = second.run(max_rounds, sums.rounds)
    except InputError as error:
        if isinstance(error, Undecided) or sums.optimal:
            raise
        # What is left is too little, but the first half may need less than was found.
        raise Undecided(
            f"time_limit: over before {max_rounds} rounds of both halves were decided; allowed: more time"
        ) from error
    return run.result([sums, copies])


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
        Its ``pieces`` are SCCL's chunks a node (of an all-gather). Sums are found with time reversed, an
        all-reduce as two halves of as many steps and rounds each.
    links : Links
    steps : int
    rounds : int, optional
        `steps` by default.
    time_limit, workers, progress
        As of `synthesise`.

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
    options = {"rounds": rounds, "time_limit": time_limit, "workers": workers, "progress": progress}
    result = decide_links(layout, links, steps, **options)  # type: ignore[arg-type]
    return None if isinstance(result, str) else result


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
    """The schedule that `synthesise_links` finds, or what proves that there is none, in one line."""
    run = _Run(layout, links, time_limit, workers, progress)
    steps = whole("steps", steps, 1)
    rounds = whole("rounds", steps if rounds is None else rounds, steps)
    deadline = run.deadline(_link_moves(run.parts))
    parts = max(1, len(run.parts))
    if steps % parts or rounds % parts:
        raise InputError(
            f"steps, rounds: {steps}, {rounds}; allowed: even numbers, as an all-reduce is two halves"
        )
    halves: list[HalfResult] = []
    for demand, over in run.parts[: 1 if run.halves_alike else 2]:
        problem = LinkProblem(demand, over, workers)
        half = problem.decide_exactly(steps // parts, rounds // parts, deadline, run.say)
        if isinstance(half, str):
            return half
        halves.append(half)
    return run.result(halves * 2 if run.halves_alike else halves)


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
    InputError, Undecided, MissingExtra
        As by `synthesise`.

    Examples
    --------
    >>> from wavefabric.collectives import layout
    >>> from wavefabric.collectives.synthesis import Links, least_steps
    >>> ring = Links(8, {(r, (r + d) % 8): 1 for r in range(8) for d in (1, 7)})
    >>> least_steps(layout("all-gather", 8, 8), ring).rounds
    4
    """
    run = _Run(layout, links, time_limit, workers, progress)
    deadline = run.deadline(_link_moves(run.parts))
    different = 1 if run.halves_alike else len(run.parts)
    halves: list[HalfResult] = []
    for i in range(different):
        until = clock.share(clock.now(), deadline, 1 / (different - i))
        demand, over = run.parts[i]
        half = Search(LinkProblem(demand, over, workers), until, run.say_of(i)).run(max_steps)
        halves.append(replace(half, rounds_of_steps=(1,) * half.rounds))
    return run.result(halves * 2 if run.halves_alike else halves)


class _Run:
    """One synthesis: its arguments checked, its demands, its clock, and its result."""

    def __init__(
        self,
        layout: Layout,
        network: OpticalNetwork | Links,
        time_limit: float,
        workers: int,
        progress: Progress | None,
    ):
        self.begun = clock.now()
        if layout.ranks != network.ranks:
            raise InputError(
                f"layout: {layout.ranks} ranks; allowed: the {network.ranks} ranks of the fabric"
            )
        self.time_limit = check_time_limit(time_limit)
        whole("workers", workers, 1)
        self.say = progress or (lambda text: None)
        self.task: SumsAndCopies = task(layout)
        #: Sums, with time reversed, and copies.
        self.parts: list = []
        if self.task.sums is not None:
            self.parts.append((self.task.sums, network.reversed()))
        if self.task.copies is not None:
            self.parts.append((self.task.copies, network))
        alike = len(self.parts) == 2 and self.task.sums == self.task.copies
        self.halves_alike = alike and network.symmetric()
        self.labels = ["reduce-scatter: ", "all-gather: "] if len(self.parts) == 2 else [""]

    def deadline(self, moves: int) -> float:
        """Until when to search, so that so many moves can be written in time."""
        return clock.before_writing(self.begun, self.time_limit, moves)

    def say_of(self, part: int) -> Progress:
        return lambda text: self.say(self.labels[part] + text)

    def result(self, halves: list[HalfResult]) -> Synthesis:
        """The schedule of both halves, or the one, written and verified."""
        writer, sums = ScheduleWriter(self.task), self.task.sums is not None
        circuits: list[Circuit] = []
        steps: list[int] = []
        for i, half in enumerate(halves):
            plan, taken = half.plan, half.rounds_of_steps
            if sums and i == 0:
                plan, taken = plan.reversed(len(taken) or plan.rounds), taken[::-1]
                became = writer.sums(plan.moves)
            else:
                became = writer.copies(plan.moves)
            steps += taken
            circuits += [
                Circuit(became[r], s, d, wavelength, route)
                for (r, _, s, d), (wavelength, route) in zip(plan.moves, plan.ways, strict=False)
            ]
        if sums and len(halves) == 1:
            writer.copies(())
        # Transfers are in this order too; circuits of one pair in one round may carry either's chunk.
        circuits.sort(key=lambda c: (c.round, c.src, c.dst, c.wavelength))
        labelled = list(zip(self.labels, halves, strict=False))
        return Synthesis(
            schedule=writer.schedule(),
            rounds=sum(half.rounds for half in halves),
            lower_bound=sum(half.lower for half in halves),
            optimal=all(half.optimal for half in halves),
            why="; ".join(label + half.why for label, half in labelled),
            circuits=tuple(circuits),
            seconds=clock.now() - self.begun,
            status=tuple((n, label + text) for label, half in labelled for n, text in half.status),
            rounds_of_steps=tuple(steps),
        )


def _link_moves(parts: list[tuple[Demand, Links]]) -> int:
    """Transfers at least."""
    return sum(link_uses(demand, distances(demand.ranks, over.capacity)) for demand, over in parts)
