"""Synthesise schedules of fewest rounds, over circuits (LUMORPH, Algorithm 1, corrected) or links (SCCL)."""

from typing import Any

from wavefabric.base.arguments import whole
from wavefabric.base.errors import InputError, ensure
from wavefabric.collectives.conditions import Layout
from wavefabric.collectives.synthesis import deadline as clock
from wavefabric.collectives.synthesis.bounds import link_uses
from wavefabric.collectives.synthesis.circuits.circuit_search import CircuitSearch
from wavefabric.collectives.synthesis.demand import Demand, distances, task
from wavefabric.collectives.synthesis.link_search import LinkSearch
from wavefabric.collectives.synthesis.problem import Circuit, Links, OpticalNetwork, Synthesis, Undecided
from wavefabric.collectives.synthesis.search import HalfResult, Progress
from wavefabric.collectives.synthesis.write import ScheduleWriter


def synthesise(
    layout: Layout,
    network: OpticalNetwork,
    *,
    max_rounds: int | None = None,
    time_limit: float = 60.0,
    progress: Progress | None = None,
) -> Synthesis:
    """Find a schedule of the fewest rounds over circuits of light, proved optimal if time allows.

    In a round each circuit carries one chunk. A rank sends only chunks that it had or received before; a
    chunk goes only to ranks that need it in the end, to each once. A wavelength leaves a tile at most once
    per round and reaches a tile at most once; on an edge it is at most once in each waveguide. This is
    Algorithm 1 of LUMORPH; docs/synthesis.md has the formulation and the corrections.

    ``layout`` comes from `wavefabric.collectives.layout`, or has its form. Sums (reduce, reduce-scatter) are
    found reversed in time. For an all-reduce, a reduce-scatter and an all-gather are found one after the
    other, and each is optimal or not; ``pieces`` of the layout sets the number of roots. ``max_rounds``
    limits the total. ``time_limit`` (s) includes writing down the models and the schedule; at its end the
    best schedule found is returned, with `optimal` False and the lower bound that is proved. ``progress`` is
    called with a text on each attempt. `InputError`: the layout is proved impossible over these routes or
    within ``max_rounds``. `Undecided`: no schedule, or none of at most ``max_rounds``, was found in time.
    `MissingExtra`: solvers are needed and ortools is absent.

    >>> from wavefabric.collectives import layout
    >>> from wavefabric.collectives.synthesis import OpticalNetwork, synthesise
    >>> routes = {(a, b): ((a, b),) for a in range(3) for b in range(3) if a != b}
    >>> result = synthesise(layout("all-gather", 3, 3), OpticalNetwork(3, 1, 1, None, routes))
    >>> result.rounds, result.optimal
    (2, True)
    >>> result.circuits[0]
    Circuit(round=0, src=0, dst=1, wavelength=0, route=(0, 1))
    """
    run = _Run(layout, network, time_limit, progress)
    if max_rounds is not None:
        max_rounds = whole("max_rounds", max_rounds, 0)

    def search(part: int, until: float) -> CircuitSearch:
        return CircuitSearch(*run.parts[part], until, run.say_of(part))

    if run.different == 1:
        # If one half serves as both, half of the rounds are allowed for it.
        return run.result([search(0, run.deadline).run(max_rounds, times=len(run.parts))])
    if not run.parts:
        return run.result([])
    first, second = search(0, clock.fraction(run.deadline, 1 / 2)), search(1, run.deadline)
    sums = first.run(max_rounds, second.lower)
    try:
        copies = second.run(max_rounds, sums.solution.rounds)
    except InputError as error:
        if isinstance(error, Undecided) or sums.solution.rounds == sums.lower:
            raise
        # The remaining rounds are too few, but the first half may need fewer than were found.
        raise Undecided(
            f"time_limit: over before {max_rounds} rounds of both halves were decided; allowed: more time"
        ) from error
    return run.result([sums, copies])


def synthesise_links(layout: Layout, links: Links, steps: int, **options) -> Synthesis | None:
    """Return the schedule that `decide_links` finds with these options; None if it proves there is none."""
    result = decide_links(layout, links, steps, **options)
    return None if isinstance(result, str) else result


def decide_links(
    layout: Layout,
    links: Links,
    steps: int,
    *,
    rounds: int | None = None,
    time_limit: float = 60.0,
    progress: Progress | None = None,
) -> Synthesis | str:
    """Return a schedule of exactly ``steps`` steps over electrical links, or the proof that none exists.

    A step takes one round or more, and all steps together ``rounds`` (default: ``steps``); in a step of r
    rounds a link of capacity b carries at most r b chunks, and the same holds for groups of links. Chunks
    that arrive in a step can be sent on in later steps, also by ranks that do not need them. A rank gets no
    chunk twice. The layout's ``pieces`` are SCCL's chunks per node (all-gather). Sums are found reversed in
    time, an all-reduce as two halves of equal steps and rounds. A round of the schedule with communication is
    a step; `rounds_of_steps` of the result has the rounds of each step.

    `InputError` if ``rounds`` < ``steps``, or one is odd for an all-reduce; `Undecided` if time runs out;
    `MissingExtra` as for `synthesise`. SCCL: Cai et al. 2021, doi:10.1145/3437801.3441620: *k*-synchronous
    schedules with ``rounds`` ≤ ``steps`` + k.
    """
    run = _Run(layout, links, time_limit, progress)
    steps = whole("steps", steps, 1)
    rounds = whole("rounds", steps if rounds is None else rounds, steps)
    parts = max(1, len(run.parts))
    even = "even numbers, as an all-reduce is two halves"
    ensure(steps % parts == rounds % parts == 0, "steps, rounds", f"{steps}, {rounds}", even)
    halves: list[HalfResult] = []
    for part in range(run.different):
        search = LinkSearch(*run.parts[part], run.deadline, run.say)
        half = search.decide_exactly(steps // parts, rounds // parts)
        if isinstance(half, str):
            return half
        halves.append(half)
    return run.result(halves)


def least_steps(
    layout: Layout, links: Links, *, time_limit: float = 60.0, progress: Progress | None = None
) -> Synthesis:
    """Find a schedule of the fewest steps over electrical links, each step of one round; see `decide_links`.

    If time runs out, the result is the best schedule found, with `optimal` False and the proved lower bound.
    Errors are those of `synthesise`.
    """
    run = _Run(layout, links, time_limit, progress)
    halves: list[HalfResult] = []
    for part in range(run.different):
        until = clock.fraction(run.deadline, 1 / (run.different - part))
        halves.append(LinkSearch(*run.parts[part], until, run.say_of(part)).run())
    return run.result(halves)


class _Run:
    """Holds the checked arguments, demands and deadline of one synthesis, and makes the `Synthesis`."""

    def __init__(
        self, layout: Layout, network: OpticalNetwork | Links, time_limit: float, progress: Progress | None
    ):
        self.begun = clock.now()
        if layout.ranks != network.ranks:
            actual = f"{layout.ranks} ranks; allowed: the {network.ranks} ranks of the fabric"
            raise InputError(f"layout: {actual}")
        if isinstance(time_limit, bool) or not isinstance(time_limit, int | float) or not time_limit > 0:
            raise InputError(f"time_limit: {time_limit!r}; allowed: seconds, more than 0")
        self.say = progress or (lambda text: None)
        self.task = task(layout)
        sums, copies = self.task.sums, self.task.copies
        #: Demand of sums (reversed in time) and of copies, each with the network or links that carry it.
        self.parts: list[tuple[Demand, Any]] = [(sums, network.reversed())] if sums is not None else []
        self.parts += [(copies, network)] if copies is not None else []
        both = len(self.parts) == 2
        #: Number of parts to find: one half of an all-reduce serves as both if they are identical.
        self.different = 1 if both and sums == copies and network.symmetric() else len(self.parts)
        self.labels = ["reduce-scatter: ", "all-gather: "] if both else [""]
        moves = sum(len(chunk.need) for demand, _ in self.parts for chunk in demand.chunks)
        self.links = isinstance(network, Links)
        if self.links:
            moves = sum(link_uses(each, distances(each.ranks, over.capacity)) for each, over in self.parts)
        #: End of the search, which leaves time to write the smallest possible number of moves.
        self.deadline = clock.search_deadline(self.begun, float(time_limit), moves)

    def say_of(self, part: int) -> Progress:
        return lambda text: self.say(self.labels[part] + text)

    def result(self, halves: list[HalfResult]) -> Synthesis:
        """Return the synthesis that ``halves`` make up: its verified schedule, with their proofs joined.

        Halves are the results for sums and for copies; one alone serves as both if they are identical.
        """
        halves = halves * 2 if len(halves) < len(self.parts) else halves
        writer, sums = ScheduleWriter(self.task), self.task.sums is not None
        circuits: list[Circuit] = []
        steps: list[int] = []
        for i, half in enumerate(halves):
            reverse = sums and i == 0
            best = half.solution.reversed() if reverse else half.solution
            became = (writer.sums if reverse else writer.copies)(best.moves)
            if self.links:
                steps += best.rounds_of_steps or [1] * best.rounds
            circuits += [Circuit(became[r], s, d, *path) for (r, _, s, d), path in best.lightpaths.items()]
        if sums and len(halves) == 1:
            writer.copies(())
        # Transfers have this order too; circuits of one pair in one round are interchangeable.
        circuits.sort(key=lambda c: (c.round, c.src, c.dst, c.wavelength))
        labelled = list(zip(self.labels, halves, strict=False))
        return Synthesis(
            schedule=writer.schedule(),
            rounds=sum(half.solution.rounds for half in halves),
            lower_bound=sum(half.lower for half in halves),
            optimal=all(half.solution.rounds == half.lower for half in halves),
            why="; ".join(label + half.why for label, half in labelled),
            circuits=tuple(circuits),
            seconds=clock.now() - self.begun,
            status=tuple((n, label + text) for label, half in labelled for n, text in half.status),
            rounds_of_steps=tuple(steps),
        )
