"""Find the fastest schedule of a collective operation on an electrical fabric, by every method there is."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any

import numpy as np

from wavefabric.base.arguments import positive, whole
from wavefabric.base.errors import InputError, choice, ensure
from wavefabric.base.units import time_words
from wavefabric.collectives.conditions import (
    COLLECTIVES,
    CUT_BY_RANK,
    ArrayCut,
    default_elements,
    layout,
    whole_elements,
)
from wavefabric.collectives.registry import ALGORITHMS, build, channels_of, size_bounds, why_refused
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.synthesis.deadline import OutOfTime, fraction, now
from wavefabric.collectives.synthesis.demand import distances
from wavefabric.collectives.synthesis.forest import Forest, forest_schedule, forests
from wavefabric.collectives.synthesis.problem import Undecided
from wavefabric.collectives.synthesis.relays import relayed_schedule, relays
from wavefabric.collectives.synthesis.synthesise import least_steps
from wavefabric.collectives.synthesis.translated_trees import SERVED, translated_schedule, translated_trees
from wavefabric.collectives.verify import verify
from wavefabric.fabric.candidates import algorithm_grid, node_grid, own_grid
from wavefabric.fabric.cost_models.cost import Cost, cost, model_for
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.electrical.synthesis_problem import (
    adjacent_pairs,
    direct_links,
    routed_links,
    translation_loads,
)

#: Largest number of chunks of all ranks together; with more, posing the problem takes too long.
MOST_CHUNKS = 1 << 19
#: Largest number of pairs of GPUs for which the linear programs of `divide` and `relays` are solved.
_MOST_PAIRS = 4100
#: Largest number of chunks that the exact search for the fewest steps is given.
_MOST_EXACT = 512
#: Fractions tried of the pieces that suit trees of one depth; most trees are less deep than the deepest.
_PARTS = (0.1, 0.2, 0.3, 0.42, 0.6, 1)
#: Relative difference from a bound below which a time counts as equal to the bound.
EQUAL = 1e-9


@dataclass(frozen=True)
class Attempt:
    """Holds the time of a method's schedule, s, or infinity and in ``why`` the reason that it made none."""

    method: str
    seconds: float = inf
    why: str = ""


#: An attempt, with its schedule and cost if it made one.
_Result = tuple[Attempt, Schedule | None, Cost | None]


@dataclass(frozen=True)
class FastestSchedule:
    """Holds the fastest schedule found, the method that made it, its cost, and all attempts in order."""

    schedule: Schedule
    method: str
    cost: Cost
    attempts: tuple[Attempt, ...]

    @property
    def gap(self) -> float:
        """Return how much longer than the bound of any schedule it takes, as a fraction of the bound."""
        return (self.cost.ratio(self.cost.bound) or 1.0) - 1


def fastest_schedule(
    collective: str,
    fabric: Fabric,
    nbytes: float,
    cut: ArrayCut | None = None,
    *,
    model: str = "auto",
    until: float = inf,
    progress: Callable[[str], object] = lambda text: None,
) -> FastestSchedule:
    """Return the fastest schedule of ``nbytes`` B of the whole array, verified, of all that the methods find.

    Methods: every algorithm of the registry; on machines that repeat along the axes of a grid, trees of one
    GPU and their translations; spanning trees over evenly divided links and over the division of
    `collectives.synthesis.division`, which reaches the shortest time of any trees; for all-to-alls, routes
    over other GPUs that load links evenly; on fabrics whose GPUs are joined by direct links, the fewest steps
    by a solver. The search ends when a schedule meets the bound, or at the time ``until`` (`deadline.now`).

    ``cut``: how the array is cut, by default as is fastest. ``model``: the cost model, as in `cost`; with
    ``"flow"`` a GPU sends on what it has at any moment, which matters for small arrays. ``progress`` is
    called with a line of text at each improvement. `InputError` for an unknown collective, and for numbers
    out of range; `Undecided` if no schedule was found.
    """
    cut = cut or ArrayCut()
    choice("collective", collective, COLLECTIVES)
    whole("pieces", 1 if cut.pieces is None else cut.pieces, 1, max(1, most_pieces(collective, fabric.ranks)))
    if not isinstance(cut.elements, np.ndarray):
        whole("elements", 1 if cut.elements is None else cut.elements, 1)
    whole("root", cut.root, 0, fabric.ranks - 1)
    positive(nbytes, "", "nbytes")
    search = _Search(collective, fabric, nbytes, cut, model_for(fabric, fabric.ranks, model), until)
    attempts: list[Attempt] = []
    best: FastestSchedule | None = None
    for attempt, schedule, price in search.attempts():
        attempts.append(attempt)
        least = inf if best is None else best.cost.seconds * (1 - EQUAL)
        if schedule is not None and price is not None and price.seconds < least:
            best = FastestSchedule(schedule, attempt.method, price, ())
            progress(f"{time_words(price.seconds)}: {attempt.method}")
        if now() > until or (best is not None and best.gap <= EQUAL):
            break
    if best is None and now() <= until:
        why = next((each.why for each in attempts), "no method serves it")
        raise Undecided(f"--fabric: no {collective} found on {fabric.name}: {why}")
    if best is None:
        raise Undecided(f"--fabric: {fabric.name} is too large; allowed: fewer GPUs, or more time")
    return replace(best, attempts=tuple(attempts))


def most_pieces(collective: str, ranks: int) -> int:
    """Return the largest number of pieces with which all ranks together have at most `MOST_CHUNKS` chunks."""
    chunks = ranks * (ranks if collective in CUT_BY_RANK else 1)
    return MOST_CHUNKS // (2 * chunks if collective == "all-to-all" else chunks)


def translation_shapes(fabric: Fabric) -> list[tuple[int, ...]]:
    """Return the periodic grids along whose axes a fabric may look the same from every GPU."""
    shapes = [node_grid(fabric, range(fabric.ranks)), own_grid(fabric), (fabric.ranks,)]
    if fabric.ranks & (fabric.ranks - 1) == 0:
        shapes.append((2,) * (fabric.ranks.bit_length() - 1))  # a hypercube
    return list(dict.fromkeys(shape for shape in shapes if shape))


def _failed(method: str, why: str) -> _Result:
    return Attempt(method, why=why), None, None


class _Search:
    """Makes schedules of one operation by all methods and computes their costs."""

    def __init__(
        self,
        collective: str,
        fabric: Fabric,
        nbytes: float,
        cut: ArrayCut,
        model: str,
        until: float,
    ):
        self._collective, self._fabric, self._nbytes, self._root = collective, fabric, nbytes, cut.root
        self._pieces, self._elements, self._model, self._until = cut.pieces, cut.elements, model, until
        self._latency = fabric.alpha + 2 * max(link.latency for link in fabric.links)
        self._rooted = collective in ("broadcast", "reduce")
        #: Pieces of the array of which every rank has a part: all-reduces are divided among the ranks.
        self._base = cut.pieces or (fabric.ranks if collective == "all-reduce" else 1)

    def attempts(self) -> Iterator[_Result]:
        """Yield the attempts of all methods, those that are ready at once first."""
        yield from self._registry()
        yield from self._translated()
        yield from self._relayed()
        yield from self._exact()
        yield from self._trees()

    def _attempt(self, method: str, make: Callable[[], Schedule]) -> _Result:
        try:
            schedule = make()
            price = cost(schedule, self._fabric, self._nbytes / whole_elements(schedule), self._model)
        except OutOfTime:
            return _failed(method, "out of time")
        except InputError as error:  # such as a pair without a route, or no switch that multicasts
            return _failed(method, str(error))
        return Attempt(method, price.seconds), schedule, price

    def _registry(self) -> Iterator[_Result]:
        n, alone = self._fabric.ranks, self._nbytes / max(link.bandwidth for link in self._fabric.links)
        for name in sorted(ALGORITHMS, key=lambda name: name != "direct"):
            if self._collective not in (algorithm := ALGORITHMS[name]).collectives:
                continue
            grid, cuts = algorithm_grid(name, n, self._fabric), [self._pieces or 1]
            channels = channels_of(name, grid)
            if self._collective in algorithm.pipelined and self._pieces is None:
                # While one piece crosses a link, others cross the links before and behind it.
                most = MOST_CHUNKS // size_bounds(name, self._collective, n, channels)[0]
                fill = round((alone / (self._latency or 1e-9)) ** 0.5)
                cuts = sorted({1, *(min(fill * more, most) for more in (1, 4) if min(fill * more, most) > 1)})
            for pieces in cuts:
                how = {"pieces": pieces, "root": self._root, "grid": grid}
                parts = pieces * channels
                method = f"algorithm {name}" + (f", {pieces} pieces" if pieces > 1 else "")
                if why := why_refused(name, self._collective, n, **how):
                    yield _failed(method, why)
                else:
                    yield self._attempt(method, partial(self._built, name, parts, how))

    def _built(self, name: str, parts: int, how: dict[str, Any]) -> Schedule:
        n = self._fabric.ranks
        elements = default_elements(n, parts) if self._elements is None else self._elements
        schedule = build(name, self._collective, n, elements, **how)
        verify(schedule)
        return schedule

    def _exact(self) -> Iterator[_Result]:
        links, n, method = direct_links(self._fabric), self._fabric.ranks, "fewest steps over direct links"
        pieces = self._pieces or (n if self._collective in ("all-reduce", "broadcast", "reduce") else 1)
        if links is None:
            return
        if n * pieces > _MOST_EXACT:
            yield _failed(method, f"more than {_MOST_EXACT} chunks")
            return
        limit = fraction(self._until, 0.3, 20.0) - now()

        def make() -> Schedule:
            elements = default_elements(n, pieces) if self._elements is None else self._elements
            operation = layout(self._collective, n, elements, pieces, self._root)
            return least_steps(operation, links, time_limit=max(limit, 0.1)).schedule

        yield self._attempt(f"{method}, {pieces} piece{'s' * (pieces > 1)}", make)

    def _trees(self) -> Iterator[_Result]:
        n, most = self._fabric.ranks, inf
        if n * n > MOST_CHUNKS:
            yield _failed("trees", f"more than {MOST_CHUNKS} pairs of GPUs")
            return
        try:
            links = routed_links(self._fabric, 1.0)
        except InputError as error:
            yield _failed("trees", str(error))
            return
        few = [n - 1, 1, 2, 3][not self._rooted :]
        counts: list[int | None] = [*few]
        if len(links.usable) <= _MOST_PAIRS:
            counts.append(None)
        for count in counts:
            words = (
                "trees over the best division of the links"
                if count is None
                else f"trees: {count} of each root"
            )
            try:
                whole = layout(self._collective, n, n * self._base, self._base, self._root)
                forest = forests(whole, links, count, self._until, most)
            except OutOfTime:
                yield _failed(words, "out of time")
                return
            except InputError as error:  # trees do not serve an all-to-all, a gather or a scatter
                yield _failed(words, str(error))
                return
            if not forest[0][0]:
                yield _failed(words, "not 1 % faster than fewer trees")
                continue
            most = float(forest[0][1]) * 0.99
            yield from self._forest_pipelines(forest, words)

    def _forest_pipelines(self, forest: list[Forest], words: str) -> Iterator[_Result]:
        trees = max(tree.all for group, _ in forest for tree in group)
        depth = max(depth for group, _ in forest for tree in group for _, depth in tree.reached.values())

        def make(pieces: int, elements: int) -> Schedule:
            cut = layout(self._collective, self._fabric.ranks, elements, pieces, self._root)
            return forest_schedule(cut, forest)

        pipeline = _Pipeline(words, depth, self._base * trees, float(forest[0][1]) * self._nbytes)
        roots = trees * (1 if self._rooted else self._fabric.ranks)
        yield from self._pipelines(pipeline, MOST_CHUNKS // (roots * self._fabric.ranks), make)

    def _translated(self) -> Iterator[_Result]:
        words, fabric = "translated trees", self._fabric
        if self._collective not in SERVED or fabric.ranks < 3:
            return
        for shape in translation_shapes(fabric):
            grid = "x".join(map(str, shape))
            try:
                trees = translated_trees(shape, *translation_loads(fabric, shape), self._until)
            except OutOfTime:
                yield _failed(f"{words}, {grid}", "out of time")
                return
            if trees is None:
                yield _failed(f"{words}, {grid}", f"{fabric.name} does not repeat along the axes of {grid}")
                continue
            count = len(trees.parent)
            unit = count * (fabric.ranks if self._collective == "all-reduce" else 1)
            seconds = trees.seconds * self._nbytes / fabric.ranks
            pipeline = _Pipeline(f"{words}, {grid}", trees.depth, unit, seconds, even=True)

            def make(pieces: int, elements: int, trees=trees, unit=unit) -> Schedule:
                ensure(pieces % unit == 0, "pieces", f"{pieces} given", f"multiples of {unit}")
                schedule = translated_schedule(self._collective, trees, elements, pieces // unit)
                verify(schedule)
                return schedule

            # Four times as many as other methods may have: these schedules are made as whole arrays.
            yield from self._pipelines(pipeline, 4 * MOST_CHUNKS // (fabric.ranks**2 * count), make)

    def _relayed(self) -> Iterator[_Result]:
        """Yield all-to-alls over other GPUs: one with the fewest hops, one with up to two more."""
        n, words, sizes = self._fabric.ranks, "relays", self._elements
        sizes = np.broadcast_to(sizes if isinstance(sizes, np.ndarray) else 1, (n, n))
        used = (sizes > 0) & ~np.eye(n, dtype=bool)
        if self._collective != "all-to-all" or n < 3 or not used.any():
            return
        if n * n > _MOST_PAIRS:
            yield _failed(words, f"more than {_MOST_PAIRS} pairs of GPUs")
            return
        pairs, alike, longest = adjacent_pairs(self._fabric), bool((sizes == sizes[0]).all()), 0
        # The whole array is that of each rank, or if these differ all of them; see `whole_elements`.
        nbytes = self._nbytes * sizes / (sizes[0] if alike else sizes).sum()
        fewest = min(int(distances(n, map(tuple, pairs.ends.tolist()))[used].max()), n - 1)
        for hops in sorted({max(fewest, 2), min(fewest + 2, n - 1)}):
            try:
                result = relays(pairs, nbytes, hops, self._pieces, self._until)
            except (OutOfTime, InputError) as error:  # such as links that do not join all GPUs
                yield _failed(words, str(error) or "out of time")
                return

            def make(pieces: int, elements: int, result=result) -> Schedule:
                size = self._elements if isinstance(self._elements, np.ndarray) else elements
                verify(schedule := relayed_schedule(result, n, size, pieces // result.parts))
                return schedule

            if result.hops > longest:
                longest, pipeline = result.hops, _Pipeline(words, result.hops, result.parts, result.seconds)
                yield from self._pipelines(pipeline, MOST_CHUNKS // (2 * n * n * result.parts), make)

    def _pipelines(
        self, pipeline: "_Pipeline", most: int, make: Callable[[int, int], Schedule]
    ) -> Iterator[_Result]:
        """Yield schedules that send the data of each tree in pieces, up to ``most``, one after the other.

        ``make`` builds a schedule for a number of pieces of all trees and a number of elements.
        """
        # P pieces per tree take P + depth − 1 rounds, each of 1/P of the transfer.
        seconds = (pipeline.depth - 1) * pipeline.seconds
        longest = max(1, min(round((seconds / (self._latency or 1e-9)) ** 0.5), most))
        lengths = sorted({max(1, round(longest * part)) for part in _PARTS})
        if pipeline.even:  # the longest is likely the best, and building a schedule may take many seconds
            lengths = sorted({1, lengths[-1], max(1, round(longest * 0.42))}, reverse=True)
        before = inf
        for pieces in [self._pieces] if self._pieces else [pipeline.unit * length for length in lengths]:
            elements = self._elements
            if not isinstance(elements, int):  # trees serve no all-to-all, which alone has other sizes
                elements = default_elements(self._fabric.ranks, pieces)
            method = f"{pipeline.words}, {pipeline.depth} deep, {pieces} piece{'s' * (pieces > 1)}"
            result = self._attempt(method, partial(make, pieces, elements))
            yield result
            if result[0].seconds >= before:  # further pieces add latency alone
                return
            before = result[0].seconds


@dataclass(frozen=True)
class _Pipeline:
    """Describes trees whose data move in pieces, all trees together.

    ``unit``: pieces of the array if each tree has one. ``seconds``: in which links carry all data. ``even``:
    whether all trees are alike, and take as many rounds as their depth says.
    """

    words: str
    depth: int
    unit: int
    seconds: float
    even: bool = False
