"""Find schedules over electrical links without a solver, and check what links can carry in a step."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from wavefabric.collectives.synthesis.deadline import Deadline
from wavefabric.collectives.synthesis.demand import FAR, Demand, Move, distances, useful
from wavefabric.collectives.synthesis.graphs import colours, ring_moves
from wavefabric.collectives.synthesis.problem import Edge, Links

#: Largest product of chunks and ranks for greedy schedules, which memory limits.
_ENTRIES = 1 << 28
#: Largest number of moves of `open_shop` and `farthest_first`, and of ranks of `open_shop`.
_MOVES, _RANKS = 1 << 21, 512
_PASSES = 4


class StepCapacity:
    """Tracks the remaining capacity of links, and of groups of links, in a step of ``rounds`` rounds."""

    def __init__(self, links: Links, rounds: int):
        self.links = {link: n * rounds for link, n in links.capacity.items()}
        self.groups = [n * rounds for _, n in links.groups]
        self.of_link: dict[Edge, list[int]] = defaultdict(list)
        for i, (members, _) in enumerate(links.groups):
            for link in members:
                self.of_link[link].append(i)

    def take(self, link: Edge) -> bool:
        """Reserve space for one chunk on ``link`` and in its groups; return whether there was any."""
        groups = self.of_link.get(link, ())
        if self.links.get(link, 0) < 1 or any(self.groups[i] < 1 for i in groups):
            return False
        self.links[link] -= 1
        for i in groups:
            self.groups[i] -= 1
        return True


def fits(moves: Sequence[Move], links: Links, rounds: Sequence[int] = ()) -> bool:
    """Return whether moves keep to the capacities of links; step i has ``rounds[i]`` rounds (default: 1)."""
    rounds = rounds or [1] * (1 + max((m[0] for m in moves), default=-1))
    steps = [StepCapacity(links, r) for r in rounds]
    return all(m[0] < len(steps) and steps[m[0]].take((m[2], m[3])) for m in moves)


def ring(demand: Demand, links: Links, stop: Deadline) -> list[Move] | None:
    """Return moves of all chunks both ways around a ring of links, one round per step; None if no ring."""
    for width in range(max(links.capacity.values(), default=0), 0, -1):
        wide = [link for link in links.usable if links.capacity[link] >= width]
        moves = ring_moves(demand, wide, width, True, stop)
        if moves is not None and fits(moves, links):
            return moves
    return None


def greedy(
    demand: Demand, links: Links, rounds: Sequence[int], seed: int, stop: Deadline
) -> list[Move] | None:
    """Return moves that fill the links in each step: first chunks that the receiver needs, rare ones first.

    Step i takes ``rounds[i]`` rounds, later steps one. None if some rank cannot be reached.
    """
    if len(demand.chunks) * demand.ranks > _ENTRIES:
        return None
    rng, pairs = np.random.default_rng(seed), links.usable
    hops = distances(demand.ranks, pairs)
    has, needs = np.zeros((2, len(demand.chunks), demand.ranks), bool)
    for number, chunk in enumerate(demand.chunks):
        has[number, sorted(chunk.have)] = True
        needs[number, sorted(chunk.need)] = True
    moves: list[Move] = []
    step = 0
    while (missing := needs & ~has).any():
        copies, wanted, before = has.sum(axis=1), [], len(moves)
        for number in np.flatnonzero(missing.any(axis=1)).tolist():
            nearest = hops[has[number]].min(axis=0)
            # nearer[d]: number of ranks without the chunk that would be nearer to a copy if d had one.
            nearer = ((hops < nearest) & missing[number] & (hops < FAR)).sum(axis=1)
            stop.check()
            for s, d in pairs:
                if has[number, s] and not has[number, d] and nearer[d]:
                    rank = (not missing[number, d], copies[number] - nearer[d], rng.random())
                    wanted.append((*rank, number, s, d))
        capacity = StepCapacity(links, rounds[step] if step < len(rounds) else 1)
        for *_, number, s, d in sorted(wanted):
            if not has[number, d] and capacity.take((s, d)):
                moves.append((step, number, s, d))
                has[number, d] = True
        if len(moves) == before:
            return None
        step += 1
    return useful(demand, moves)


def open_shop(demand: Demand, links: Links, stop: Deadline) -> list[Move] | None:
    """Return moves in which all ranks do the same, shifted to their position; None if there are none.

    They exist on rings, tori and hypercubes. Ranks are numbers of one or more digits, and links and demand
    depend only on the digitwise difference (Cayley graphs of Abelian groups). Then a difference v is a job:
    shortest paths of links that sum to v, taken by all ranks at once. As links may be taken in any order,
    jobs and links are an open shop of unit operations, whose shortest time is the largest load of a link or
    length of a job: an edge colouring.

    The result is the best over all digits that fit. On a k-ary n-cube (a hypercube is a binary one) the steps
    are as few as links allow if chunks halfway around a ring can go either way evenly. Hypercubes: Johnsson &
    Ho 1989, doi:10.1109/12.29465; Edelman 1991, J. Parallel Distrib. Comput. 11, 328. Open shops: Gonzalez &
    Sahni 1976, doi:10.1145/321978.321985.
    """
    chunks = _direct_chunks(demand)
    n = demand.ranks
    if not chunks or n > _RANKS:
        return None
    capacity, wanted = np.zeros((n, n), np.int64), np.zeros((n, n), np.int64)
    for link, most in links.capacity.items():
        capacity[link] = most
    for pair, numbers in chunks.items():
        wanted[pair] = len(numbers)
    sums = (add for add in map(_digitwise_sums, _factorisations(n)) if _invariant((capacity, wanted), add))
    candidates = filter(None, (_translated(chunks, wanted[0], capacity[0], add, stop) for add in sums))
    best = min(candidates, key=lambda moves: moves[-1][0], default=None)
    return best if best is not None and fits(best, links) else None


def _direct_chunks(demand: Demand) -> dict[Edge, list[int]] | None:
    """Return a dictionary from (source, destination) to the numbers of the chunks that go this way.

    None if a chunk has several sources or destinations.
    """
    chunks: dict[Edge, list[int]] = defaultdict(list)
    for number, chunk in enumerate(demand.chunks):
        if chunk.need:
            if not chunk.direct:
                return None
            chunks[min(chunk.have), min(chunk.need)].append(number)
    return chunks


def _factorisations(n: int) -> Iterator[tuple[int, ...]]:
    """Yield all ordered factorisations of ``n`` into factors above 1."""
    if n == 1:
        yield ()
    for first in range(2, n + 1):
        if n % first == 0:
            for rest in _factorisations(n // first):
                yield (first, *rest)


def _digitwise_sums(sizes: Sequence[int]) -> np.ndarray:
    """Return the table of digitwise sums r + v of all numbers r and v: shape (n, n).

    The numbers have one digit for each of ``sizes``, added modulo this size; the last digit is the lowest.
    """
    digits = np.indices(sizes).reshape(len(sizes), -1)
    sums = (digits[:, :, None] + digits[:, None, :]) % np.array(sizes)[:, None, None]
    return np.asarray(np.ravel_multi_index(tuple(sums), sizes))


def _invariant(tables: Iterable[np.ndarray], add: np.ndarray) -> bool:
    """Return whether each table depends only on the difference of two ranks; ``add[r, v]`` is rank r + v."""
    return all((np.take_along_axis(table, add, axis=1) == table[0]).all() for table in tables)


def _translated(
    chunks: dict[Edge, list[int]], wanted: np.ndarray, capacity: np.ndarray, add: np.ndarray, stop: Deadline
) -> list[Move] | None:
    """Return the moves of `open_shop` for one division of rank numbers into digits; None if impossible.

    ``add[r, v]``: the digitwise sum of rank r and difference v. ``chunks``: numbers of chunks by (source,
    destination). ``wanted[v]``: how many chunks each rank sends to the rank at difference v; ``capacity[v]``:
    of its link to that rank.
    """
    n = len(add)
    links = [int(g) for g in np.flatnonzero(capacity)]
    hops = distances(n, [(r, int(add[r, g])) for r in range(n) for g in links])[0]
    jobs = [int(v) for v in np.flatnonzero(wanted) for _ in range(wanted[v])]
    if any(hops[v] >= FAR for v in jobs) or n * int(hops[jobs].sum()) > _MOVES:
        return None
    # A wide link counts as several links of capacity 1, among which operations are distributed.
    first = dict(zip(links, np.cumsum([0, *capacity[links][:-1]]).tolist(), strict=True))
    done: dict[int, int] = defaultdict(int)
    operations = []
    for job, path in sorted(_paths_of_differences(jobs, links, capacity, add, hops, stop).items()):
        for g in path:
            operations.append((job, g, first[g] + done[g] % int(capacity[g])))
            done[g] += 1
    when = colours([(j, m) for j, _, m in operations], len(jobs), int(capacity.sum()), stop)
    order: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for t, (job, g, _) in sorted(zip(when, operations, strict=True)):
        order[job].append((t, g))
    moves: list[Move] = []
    sent: dict[int, int] = defaultdict(int)
    for job, v in enumerate(jobs):
        here = np.arange(n)
        numbers = [chunks[r, int(d)][sent[v]] for r, d in enumerate(add[:, v])]
        sent[v] += 1
        for t, g in order[job]:
            stop.check()
            after = add[here, g]
            moves += zip([t] * n, numbers, here.tolist(), after.tolist(), strict=True)
            here = after
    moves.sort()
    return moves


def _paths_of_differences(
    jobs: list[int], links: list[int], capacity: np.ndarray, add: np.ndarray, hops: np.ndarray, stop: Deadline
) -> dict[int, list[int]]:
    """Return a dictionary from each job, by number, to the links of a shortest path.

    Job j goes to the rank at the difference ``jobs[j]``. Links are differences too; those of a path sum to
    that of the job. In `_PASSES` passes paths are chosen so that the loads of links are even. ``add[r, g]``:
    the rank r + g; ``hops``: length of a shortest path for each difference.
    """
    n = len(add)
    minus = np.empty((n, n), np.int64)  # minus[a, g] + g = a
    minus[add[:, links], np.array(links)[None, :]] = np.arange(n)[:, None]

    def onward(_: int, rest: int) -> list[tuple[int, int]]:
        return [(g, int(minus[rest, g])) for g in links if hops[minus[rest, g]] == hops[rest] - 1]

    jobs_in_order = sorted(range(len(jobs)), key=lambda j: (hops[jobs[j]], jobs[j]))
    orders = [jobs_in_order, *[range(len(jobs))] * (_PASSES - 1)]
    return _even_routes(orders, dict(enumerate(jobs)), onward, dict(enumerate(capacity.tolist())), stop)


def _even_routes(
    orders: Sequence[Iterable[int]],
    starts: Mapping[int, int],
    onward: Callable[[int, int], list],
    capacity: Mapping,
    stop: Deadline,
) -> dict[int, list]:
    """Return the path of each job as a list of links, chosen so that the loads of links are even.

    Each of ``orders`` is a pass over the jobs, in which each job's path is chosen anew. ``starts``: where
    each job begins. ``onward(job, position)`` returns (link, next position) for each link that the job can
    take next, and nothing at its destination.
    """
    load: dict = defaultdict(float)
    paths: dict[int, list] = {}
    for order in orders:
        for job in order:
            stop.check()
            for link in paths.get(job, ()):
                load[link] -= 1 / capacity[link]
            paths[job], here = [], starts[job]
            while able := onward(job, here):
                link, here = min(able, key=lambda option: load[option[0]])
                load[link] += 1 / capacity[link]
                paths[job].append(link)
    return paths


def farthest_first(demand: Demand, links: Links, seed: int, stop: Deadline) -> list[Move] | None:
    """Return moves over shortest paths that load links evenly; chunks with most hops left go first.

    Among equally loaded links, odd seeds prefer the one to the nearest rank number, even seeds the one to the
    farthest. If ranks are numbered row by row, a path then stays in one dimension as long as possible.
    """
    chunks = _direct_chunks(demand)
    if chunks is None:
        return None
    hops = distances(demand.ranks, links.usable)
    if any(hops[pair] >= FAR for pair in chunks):
        return None
    if sum(int(hops[pair]) * len(numbers) for pair, numbers in chunks.items()) > _MOVES:
        return None
    return _queued(_routes(chunks, links, hops, seed, stop), links, seed, stop)


def _routes(
    chunks: dict[Edge, list[int]], links: Links, hops: np.ndarray, seed: int, stop: Deadline
) -> dict[int, list[Edge]]:
    """Return a dictionary from each chunk to the links of a shortest path to its destination.

    ``seed`` varies the order of chunks, and the choice between equally short paths.
    """
    near: dict[int, list[int]] = defaultdict(list)
    for s, d in links.usable:
        near[s].append(d)
    for s in near:
        near[s].sort(key=lambda d: (abs(d - s) if seed % 2 else -abs(d - s), d))
    ends = {number: pair for pair, numbers in chunks.items() for number in numbers}
    even, order = seed >= 2, list(ends)
    if even:
        order = [order[i] for i in np.random.default_rng(seed).permutation(len(order))]

    def onward(number: int, here: int) -> list[tuple[Edge, int]]:
        s, d = ends[number]
        able = [b for b in near[here] if hops[b, d] == hops[here, d] - 1]
        if able and not even:
            # Halfway around a ring of consecutive ranks, even and odd ranks send in opposite directions.
            opposite = len(able) == 2 and able[0] - here == here - able[1]
            able = [able[s % 2 if opposite else 0]]
        return [((here, b), b) for b in able]

    starts = {number: s for number, (s, _) in ends.items()}
    return _even_routes([order] * (_PASSES if even else 1), starts, onward, links.capacity, stop)


def _queued(paths: dict[int, list[Edge]], links: Links, seed: int, stop: Deadline) -> list[Move] | None:
    """Return the moves of chunks along ``paths``; on each link the chunk with most hops left goes first."""
    rng = np.random.default_rng(seed)
    at = dict.fromkeys(paths, 0)
    moves: list[Move] = []
    step = 0
    while at:
        capacity = StepCapacity(links, 1)
        waiting = sorted(at, key=lambda number: (at[number] - len(paths[number]), rng.random()))
        before = len(moves)
        for number in waiting:
            stop.check()
            link = paths[number][at[number]]
            if capacity.take(link):
                moves.append((step, number, *link))
                here = at.pop(number) + 1
                if here < len(paths[number]):
                    at[number] = here
        if len(moves) == before:
            return None
        step += 1
    return moves
