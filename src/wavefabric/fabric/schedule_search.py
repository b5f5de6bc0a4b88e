"""Make schedules of a collective operation on an electrical fabric by every method, with their costs."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import inf
from typing import Any

import numpy as np

from wavefabric.base.errors import InputError, ensure
from wavefabric.base.units import counted
from wavefabric.collectives.conditions import (
    CUT_BY_RANK,
    ArrayCut,
    Layout,
    default_elements,
    layout,
    whole_elements,
)
from wavefabric.collectives.registry import ALGORITHMS, build, channels_of, size_bounds, why_refused
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.synthesis.deadline import OutOfTime, fraction, now
from wavefabric.collectives.synthesis.demand import distances
from wavefabric.collectives.synthesis.forest import Forest, forest_rounds, forest_schedule, forests
from wavefabric.collectives.synthesis.problem import Undecided
from wavefabric.collectives.synthesis.relays import relayed_schedule, relays
from wavefabric.collectives.synthesis.synthesise import least_steps, synthesise_links
from wavefabric.collectives.synthesis.translated_trees import SERVED, translated_schedule, translated_trees
from wavefabric.collectives.synthesis.tree_rounds import TreeRounds
from wavefabric.collectives.verify import verify
from wavefabric.fabric.candidates import algorithm_grid, node_grid, own_grid
from wavefabric.fabric.cost_models.cost import Cost, cost
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.electrical.synthesis_problem import (
    adjacent_pairs,
    direct_bandwidths,
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
#: Largest number of GPUs for which schedules of given steps and rounds are searched, and s for each.
_MOST_SOLVED, _QUESTION = 8, 3.0
#: Steps, further rounds, and chunks of each root that are asked for.
_STEPS, _EXTRA, _CHUNKS = range(1, 6), range(6), range(1, 9)
#: Least part of the shortest time by which other trees must be able to be faster.
_NEAR = 0.01
#: Rounds tried, as parts of those that suit trees that fill and drain in one; chunks of a root per round.
_PACES, _PER_ROUND = (0.06, 0.12, 0.25, 0.4, 0.6, 1.0, 1.4), 6
#: Pieces of messages over other GPUs that are tried, as parts of those that suit the size.
_LENGTHS = (0.1, 0.2, 0.3, 0.42, 0.6, 1)
#: Relative difference from a bound below which a time counts as equal to the bound.
EQUAL = 1e-9


@dataclass(frozen=True)
class Attempt:
    """Holds the time of a method's schedule, s, or infinity and in ``why`` the reason that it made none."""

    method: str
    seconds: float = inf
    why: str = ""


#: An attempt, with its schedule and cost if it made one.
Result = tuple[Attempt, Schedule | None, Cost | None]


def translation_shapes(fabric: Fabric) -> list[tuple[int, ...]]:
    """Return the periodic grids along whose axes a fabric may look the same from every GPU."""
    shapes = [node_grid(fabric, range(fabric.ranks)), own_grid(fabric), (fabric.ranks,)]
    if fabric.ranks & (fabric.ranks - 1) == 0:
        shapes.append((2,) * (fabric.ranks.bit_length() - 1))  # a hypercube
    return list(dict.fromkeys(shape for shape in shapes if shape))


def _failed(method: str, why: str) -> Result:
    return Attempt(method, why=why), None, None


def _words(pieces: int) -> str:
    return counted(pieces, "piece")


class ScheduleSearch:
    """Makes schedules of one operation by all methods and computes their costs; see `fastest_schedule`."""

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
        #: Shortest time so far, s.
        self._least = inf
        #: Pieces of the array of which every rank has a part: all-reduces are divided among the ranks.
        self._base = cut.pieces or (fabric.ranks if collective == "all-reduce" else 1)

    def attempts(self) -> Iterator[Result]:
        """Yield the attempts of all methods, those that are ready at once first."""
        yield from self._registry()
        yield from self._translated()
        yield from self._relayed()
        yield from self._fewest_steps()
        yield from self._trees()
        yield from self._steps_and_rounds()

    def _attempt(self, method: str, make: Callable[[], Schedule]) -> Result:
        try:
            schedule = make()
            price = cost(schedule, self._fabric, self._nbytes / whole_elements(schedule), self._model)
        except OutOfTime:
            return _failed(method, "out of time")
        except InputError as error:  # such as a pair without a route, or no switch that multicasts
            return _failed(method, str(error))
        self._least = min(self._least, price.seconds)
        return Attempt(method, price.seconds), schedule, price

    def _registry(self) -> Iterator[Result]:
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

    def _fewest_steps(self) -> Iterator[Result]:
        links, n, method = direct_links(self._fabric), self._fabric.ranks, "fewest steps over direct links"
        pieces = self._pieces or (n if self._collective in ("all-reduce", "broadcast", "reduce") else 1)
        if links is None:
            return
        if n * pieces > _MOST_EXACT:
            yield _failed(method, f"more than {_MOST_EXACT} chunks")
            return
        limit = max(fraction(self._until, 0.3, 20.0) - now(), 0.1)

        def make() -> Schedule:
            return least_steps(self._layout(pieces), links, time_limit=limit).schedule

        yield self._attempt(f"{method}, {_words(pieces)}", make)

    def _steps_and_rounds(self) -> Iterator[Result]:
        """Yield the fastest schedule of few steps, rounds and chunks, if it is faster than all before.

        As SCCL (doi:10.1145/3437801.3441620) does, a solver is asked for one number of each after the other.
        """
        links, n, halves = (
            direct_links(self._fabric),
            self._fabric.ranks,
            1 + (self._collective == "all-reduce"),
        )
        if links is None or n > _MOST_SOLVED:
            return
        bandwidth, until = min(direct_bandwidths(self._fabric).values()), fraction(self._until, 0.3, 20.0)
        parts, each = (n if self._collective in CUT_BY_RANK else 1), (n if halves == 2 else 1)
        questions = []
        for steps, extra, chunks in product(_STEPS, _EXTRA, _CHUNKS):
            pieces = each * chunks
            transfer = (steps + extra) * self._nbytes / (pieces * parts * bandwidth)
            if self._pieces in (None, pieces):
                questions.append((halves * (steps * self._latency + transfer), steps, steps + extra, pieces))
        for seconds, steps, rounds, pieces in sorted(questions):
            limit = min(until - now(), _QUESTION)
            if limit <= 0 or seconds >= self._least * (1 - EQUAL):
                return
            size = f"{halves * steps} steps, {halves * rounds} rounds"
            with suppress(Undecided):
                schedule = synthesise_links(
                    self._layout(pieces), links, halves * steps, rounds=halves * rounds, time_limit=limit
                )
                if schedule is not None:
                    yield self._attempt(f"{size}, {_words(pieces)}", lambda result=schedule: result.schedule)
                    return

    def _layout(self, pieces: int) -> Layout:
        """Return the layout in ``pieces``, of the elements that were asked for or else of some that suit."""
        n, elements = self._fabric.ranks, self._elements
        elements = default_elements(n, pieces) if elements is None else elements
        return layout(self._collective, n, elements, pieces, self._root)

    def _trees(self) -> Iterator[Result]:
        n = self._fabric.ranks
        if n * n > MOST_CHUNKS:
            yield _failed("trees", f"more than {MOST_CHUNKS} pairs of GPUs")
            return
        try:
            links = routed_links(self._fabric, 1.0)
        except InputError as error:
            yield _failed("trees", str(error))
            return
        counts: list[int | None] = [*[n - 1] * self._rooted, 1, 0, 2, 3]
        if len(links.usable) <= _MOST_PAIRS:
            counts.insert(2, None)
        for count in counts:
            names = {None: "trees over the best division of the links", 0: "trees of fewest hops"}
            words = names.get(count, f"trees: {count} of each root")
            try:
                whole = layout(self._collective, n, n * self._base, self._base, self._root)
                halves = 2 if self._collective == "all-reduce" else 1
                forest = forests(
                    whole, links, count, self._until, self._least * (1 - _NEAR) / halves / self._nbytes
                )
            except OutOfTime:
                yield _failed(words, "out of time")
                return
            except InputError as error:  # trees do not serve an all-to-all, a gather or a scatter
                yield _failed(words, str(error))
                return
            if not forest[0].trees:
                yield _failed(words, f"not {_NEAR:.0%} faster even if they filled at once")
                continue
            yield from self._forest_schedules(forest, words)

    def _forest_schedules(self, made: list[Forest], words: str) -> Iterator[Result]:
        """Yield schedules over the trees of forests, in the number of rounds that suits the size."""
        n, trees = self._fabric.ranks, sum(tree.count for tree in made[0].trees)
        depth = max(depth for each in made for tree in each.trees for _, depth in tree.reached.values())
        parts = n if self._collective in CUT_BY_RANK else 1
        most = (float(made[0].rounds) * self._nbytes / (self._latency or 1e-9)) ** 0.5
        per_round = 1 if self._rooted else _PER_ROUND * n / trees
        tried: list[tuple[float, int, list[TreeRounds]]] = []
        for shortest, paces in ((1.0, (1 / most, *_PACES)), (1 / 16, _PACES[2:])):
            before = inf
            for pace in (max(1.0, most * part) for part in paces):
                length = max(1, min(round(per_round * pace) if pace > 1 else 1, MOST_CHUNKS // (trees * n)))
                pieces = self._pieces or length * trees // parts
                rounds = forest_rounds(made, pieces * parts, pace, shortest)
                seconds = sum(sum(each.seconds) for each in rounds) * self._nbytes / (pieces * parts)
                seconds += self._latency * sum(len(each.seconds) for each in rounds)
                tried.append((seconds, pieces, rounds))
                if seconds > before or now() > self._until:
                    break
                before = seconds
        tried.sort(key=lambda each: each[:2])
        # The estimates are those of the α–β model.
        for _, pieces, rounds in tried[: 1 if self._model == "alpha-beta" else 3]:

            def make(pieces: int = pieces, rounds: list[TreeRounds] = rounds) -> Schedule:
                return forest_schedule(self._layout(pieces), rounds)

            yield self._attempt(f"{words}, {depth} deep, {_words(pieces)}", make)

    def _translated(self) -> Iterator[Result]:
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
            # Four times as many as over other trees are allowed: these schedules are made as whole arrays.
            most = 4 * MOST_CHUNKS // (fabric.ranks**2 * count)
            longest = self._longest(trees.depth, trees.seconds * self._nbytes / fabric.ranks, most)

            def make(pieces: int, trees=trees, unit=unit) -> Schedule:
                ensure(pieces % unit == 0, "pieces", f"{pieces} given", f"multiples of {unit}")
                elements = self._elements
                if not isinstance(elements, int):  # trees serve no all-to-all, which alone has other sizes
                    elements = default_elements(fabric.ranks, pieces)
                schedule = translated_schedule(self._collective, trees, elements, pieces // unit)
                verify(schedule)
                return schedule

            # The longest is likely the best, and building a schedule may take many seconds.
            lengths = sorted({1, longest, max(1, round(longest * 0.42))}, reverse=True)
            cuts = [unit * length for length in lengths]
            yield from self._pipelines(f"{words}, {grid}, {trees.depth} deep", cuts, make)

    def _relayed(self) -> Iterator[Result]:
        """Yield all-to-alls over other GPUs: one with the fewest hops, one with up to two more."""
        n, words, sizes = self._fabric.ranks, "relays", self._elements
        sizes = np.broadcast_to(sizes if isinstance(sizes, np.ndarray) else 1, (n, n))
        used = (sizes > 0) & ~np.eye(n, dtype=bool)
        if self._collective != "all-to-all" or n < 3 or not used.any():
            return
        if n * n > _MOST_PAIRS:
            yield _failed(words, f"more than {_MOST_PAIRS} pairs of GPUs")
            return
        pairs, alike, deepest = adjacent_pairs(self._fabric), bool((sizes == sizes[0]).all()), 0
        # The whole array is that of each rank, or if these differ all of them; see `whole_elements`.
        nbytes = self._nbytes * sizes / (sizes[0] if alike else sizes).sum()
        fewest = min(int(distances(n, map(tuple, pairs.ends.tolist()))[used].max()), n - 1)
        for hops in sorted({max(fewest, 2), min(fewest + 2, n - 1)}):
            try:
                routes = relays(pairs, nbytes, hops, self._pieces, self._until)
            except (OutOfTime, InputError) as error:  # such as links that do not join all GPUs
                yield _failed(words, str(error) or "out of time")
                return
            if routes.hops <= deepest:
                continue
            deepest, parts = routes.hops, routes.parts
            longest = self._longest(deepest, routes.seconds, MOST_CHUNKS // (2 * n * n * parts))

            def make(pieces: int, routes=routes) -> Schedule:
                elements = self._elements if self._elements is not None else default_elements(n, pieces)
                verify(schedule := relayed_schedule(routes, n, elements, pieces // routes.parts))
                return schedule

            cuts = sorted({parts * max(1, round(longest * part)) for part in _LENGTHS})
            yield from self._pipelines(f"{words}, {deepest} deep", cuts, make)

    def _longest(self, depth: int, seconds: float, most: int) -> int:
        """Return the number of pieces, up to ``most``, that suits routes on which links are busy ``seconds``.

        P pieces take P + depth − 1 rounds, each of 1/P of the transfer.
        """
        return max(1, min(round(((depth - 1) * seconds / (self._latency or 1e-9)) ** 0.5), most))

    def _pipelines(self, words: str, cuts: list[int], make: Callable[[int], Schedule]) -> Iterator[Result]:
        """Yield schedules in each number of pieces of ``cuts``, until one takes longer than that before."""
        before = inf
        for pieces in [self._pieces] if self._pieces else cuts:
            result = self._attempt(f"{words}, {_words(pieces)}", partial(make, pieces))
            yield result
            if result[0].seconds >= before:
                return
            before = result[0].seconds
