"""Reorders the GPUs of a fabric, and searches for an order that makes a schedule faster."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from wavefabric.base.arguments import whole
from wavefabric.base.errors import InputError, ensure
from wavefabric.collectives.assignment import all_assignments, descend, lexicographic_order
from wavefabric.collectives.schedule import Schedule
from wavefabric.fabric.cost_models.cost import check_sizes, cost, model_for
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.electrical.static_routes import resource_use, static_routes, transfer_bytes
from wavefabric.fabric.photonic.fabric import PhotonicFabric

#: Largest number of GPUs for which orders are searched, as the routes of all pairs are stored.
MOST_GPUS = 512
#: Limit of link uses added up during a search, which bounds its time to 1 to 3 s.
_WORK = 1 << 27
#: Fixed effort of evaluating one order, in link uses.
_OVERHEAD = 1 << 12
#: Number of GPU pairs that are compared to see whether pairs differ.
_PAIRS = 1 << 16
#: Number of starting orders of a search, and limit of orders tried (fewer for large schedules).
STARTS, MOST_ORDERS = 12, 20_000
#: Penalty in s for a pair of GPUs without a route.
_NO_ROUTE = 1e6
#: Number of best orders that the cost model compares at the end.
_FINAL = 4


def reordered(fabric: Fabric | PhotonicFabric, order: Sequence[int]) -> Fabric:
    """Return the fabric with the same links and routes, but with its GPUs in another order.

    Rank r is GPU ``order[r]``; GPUs that are not in ``order`` follow in their previous order. Raises
    `InputError` for a GPU that does not exist or occurs twice, and for a photonic fabric.

    Examples
    --------
    >>> from wavefabric.fabric import load
    >>> from wavefabric.fabric.rank_order import reordered
    >>> reordered(load("ring:4"), (2, 0)).gpus
    ('GPU2', 'GPU0', 'GPU1', 'GPU3')
    """
    shown = ",".join(map(str, order))
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    if isinstance(fabric, PhotonicFabric):
        allowed = "electrical fabrics, rank r is tile r of a photonic one"
        raise InputError(f"order: {shown} given for photonic {fabric.name}; allowed: {allowed}")
    n = fabric.ranks
    numbers = [whole(f"order[{i}]", g, 0, n - 1) for i, g in enumerate(order)]
    if len(set(numbers)) < len(numbers):
        raise InputError(f"order: {shown} given; allowed: GPUs from 0 to {n - 1}, each once")
    numbers += sorted(set(range(n)) - set(numbers))
    names = tuple(fabric.gpus[g] for g in numbers)
    return replace(fabric, gpus=names, numbering=fabric.numbering or fabric.gpus)


def depends_on_pair(fabric: Fabric | PhotonicFabric) -> bool:
    """Return whether pairs of GPUs differ in length or speed of routes; if not, their order is irrelevant."""
    if isinstance(fabric, PhotonicFabric) or fabric.ranks < 3:
        return False
    n = fabric.ranks
    # With very many GPUs, compare the routes from some of them only.
    src, dst = np.divmod(np.arange(min(n, _PAIRS // n + 1) * n), n)
    src, dst = src[src != dst], dst[src != dst]
    routes = static_routes(fabric)
    if (routes.table[src, dst] < 0).any():
        return True
    pair, wire, fraction, latency = routes.wires_of(src, dst)
    uses = np.bincount(pair)
    narrowest = np.minimum.reduceat(routes.wires.bandwidth[wire] / fraction, np.cumsum(uses) - uses)
    return any(np.ptp(each) > 1e-9 * each.max() for each in (uses, narrowest, latency))


def best_order(
    schedule: Schedule, fabric: Fabric, element_bytes: float, *, model: str = "auto", seed: int = 0
) -> tuple[int, ...]:
    """Return an order of GPUs that makes a schedule faster, if one is found: rank r is GPU ``order[r]``.

    If there are few orders, all are tried. Else local search improves each of `STARTS` orders (the present
    one; nearest neighbours along wide, short routes; random): it swaps two GPUs, reverses a part, or moves
    one GPU. Orders are compared by the total time of all rounds in sequence, then by the sum of squares of
    the times in which links are busy. Last, the cost model ``model`` compares the best few with the present
    order 0, 1, 2, …, so the result is never slower than that. Raises `InputError` for more than `MOST_GPUS`
    GPUs, and if each order found lacks a route for some pair of ranks that communicate.

    Examples
    --------
    >>> from wavefabric.collectives.registry import build
    >>> from wavefabric.fabric import cost, load
    >>> from wavefabric.fabric.rank_order import best_order, reordered
    >>> ring, machine = build("ring", "all-reduce", 8, 8), load("dgx-1")
    >>> order = best_order(ring, machine, 2**23)
    >>> times = [cost(ring, f, 2**23).seconds for f in (machine, reordered(machine, order))]
    >>> ["%.2f ms" % (1e3 * t) for t in times]
    ['7.47 ms', '2.36 ms']
    """
    same = tuple(range(fabric.ranks))
    if isinstance(fabric, PhotonicFabric):
        reordered(fabric, same)
    check_sizes(schedule, fabric, element_bytes)
    seed = whole("seed", seed, 0)
    if not depends_on_pair(fabric) or not schedule.communication_rounds:
        return same
    actual = f"auto given with the {fabric.ranks} GPUs of {fabric.name}"
    ensure(fabric.ranks <= MOST_GPUS, "order", actual, f"at most {MOST_GPUS}, or numbers")
    times = _OrderTimes(schedule, fabric, element_bytes)
    least, best, fault = math.inf, None, None
    model_for(fabric, schedule.ranks, model)
    for order in (same, *_search(times, np.random.default_rng(seed), min(MOST_ORDERS, times.affordable))):
        try:
            seconds = cost(schedule, reordered(fabric, order), element_bytes, model).seconds
        except InputError as error:  # a pair has no route
            fault = fault or error
            continue
        if seconds < least * (1 - 1e-9):
            least, best = seconds, order
    if best is None:
        raise InputError(f"{fault}; no other order was found for {schedule.name}")
    return best


class _OrderTimes:
    """Computes the time of a schedule's rounds for any order of GPUs."""

    def __init__(self, schedule: Schedule, fabric: Fabric, element_bytes: float):
        n = self.gpus = fabric.ranks
        self._alpha = fabric.alpha
        kinds = _distinct_rounds(schedule, transfer_bytes(schedule, element_bytes))
        times, pairs, sizes = zip(*kinds, strict=True)
        self._times = np.array(times, float)
        self._src, self._dst = np.divmod(np.concatenate(pairs), schedule.ranks)
        count = np.array([each.size for each in pairs])
        self._first = np.cumsum(count) - count
        src, dst = np.divmod(np.arange(n * n), n)
        there = (src != dst) & (static_routes(fabric).table[src, dst] >= 0)
        use = resource_use(fabric, src[there], dst[there])
        # Each row lists the resources of one pair of GPUs, padded with a resource that is never busy.
        idle = use.capacity.size
        hops = np.zeros(n * n, np.int64)
        hops[there] = np.bincount(use.pair, minlength=int(there.sum()))
        self._table = np.full((n * n, int(hops.max())), idle)
        self._table[np.arange(hops.max()) < hops[:, None]] = use.resource
        self._fraction = np.zeros(self._table.shape)
        self._fraction[self._table < idle] = use.fraction
        self._latency = np.full(n * n, _NO_ROUTE)
        self._latency[there] = use.latency
        self._capacity = np.append(use.capacity, math.inf)
        self._row = np.repeat(np.arange(len(kinds)), count)[:, None] * self._capacity.size
        self._sizes = np.concatenate(sizes)[:, None]
        work = self._sizes.size * self._table.shape[1]
        self.affordable = max(_WORK // (_OVERHEAD + work + len(kinds) * (idle + 1)), 1)
        # Distance of any two GPUs, to build starting orders.
        slowest = np.where(there, (self._fraction / self._capacity[self._table]).max(axis=1), math.inf)
        with np.errstate(invalid="ignore"):
            self.distance = (slowest * (1 + 1e-3 * hops)).reshape(n, n)

    def __call__(self, order: np.ndarray) -> tuple[float, float]:
        """Return the time of all rounds in s for an order, and the sum of squares of links' busy times."""
        pair = order[self._src] * self.gpus + order[self._dst]
        cells = self._row + self._table[pair]
        carried = self._sizes * self._fraction[pair]
        load = np.bincount(cells.ravel(), carried.ravel(), self._times.size * self._capacity.size)
        load = load.reshape(-1, self._capacity.size) / self._capacity
        # Penalties of pairs without a route add up, so that the search prefers orders with fewer such pairs.
        latency = self._latency[pair]
        missing = np.add.reduceat(latency >= _NO_ROUTE, self._first)
        late = np.maximum.reduceat(latency, self._first) + missing * _NO_ROUTE
        seconds = float(self._times @ (load.max(axis=1) + late + self._alpha))
        # Rounding hides differences in the last bits.
        return float(f"{seconds:.9e}"), float(f"{float(self._times @ (load * load).sum(axis=1)):.9e}")


def _distinct_rounds(schedule: Schedule, size: np.ndarray) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """Return (number of occurrences, pairs, bytes of each pair) for each distinct round of a schedule.

    A pair is the number source × ranks + destination; ``size``: bytes of each transfer.
    """
    t, n = schedule.transfers, schedule.ranks
    away = np.flatnonzero(t["src"] != t["dst"])
    pair = t["src"][away].astype(np.int64) * n + t["dst"][away]
    flows, flow = np.unique(t["round"][away].astype(np.int64) * (n * n) + pair, return_inverse=True)
    rounds, pairs = np.divmod(flows, n * n)
    cuts = np.flatnonzero(np.diff(rounds)) + 1
    each = zip(np.split(pairs, cuts), np.split(np.bincount(flow, size[away]), cuts), strict=True)
    alike: dict[bytes, tuple[int, np.ndarray, np.ndarray]] = {}
    for some, moved in each:
        key = some.tobytes() + moved.tobytes()
        alike[key] = alike.get(key, (0,))[0] + 1, some, moved
    return list(alike.values())


def _search(times: _OrderTimes, rng: np.random.Generator, evaluations: int) -> list[tuple[int, ...]]:
    """Return the best few orders of GPUs, best first; ``times`` is evaluated about ``evaluations`` times."""
    n = times.gpus
    every = all_assignments(n, n, evaluations)
    if every is not None:
        best = lexicographic_order(np.array([times(order) for order in every]))[:_FINAL]
        return [tuple(order) for order in every[best].tolist()]
    moves = [(kind, i, j) for kind in _MOVES for i, j in itertools.combinations(range(n), 2)]
    values: dict[tuple[int, ...], tuple[float, float]] = {}
    left = evaluations
    for number in range(STARTS):
        if left <= 0:
            break
        order = np.arange(n)
        if number:
            order = _nearest_neighbour_order(times, rng) if number % 2 else rng.permutation(n)
        shuffled = (moves[k] for _ in itertools.count() for k in rng.permutation(len(moves)))
        # Each start may use half of the remaining evaluations, so that later starts get some too.
        most = max(left // 2, min(left, 64))
        order, value, valued = descend(order, times, _moved, shuffled, 2 * n**2, most)
        left -= valued
        values[tuple(order.tolist())] = value
    return sorted(values, key=lambda order: (values[order], order))[:_FINAL]


def _nearest_neighbour_order(times: _OrderTimes, rng: np.random.Generator) -> np.ndarray:
    """Return an order in which the nearest unused GPU follows each GPU; the first GPU and ties are random."""
    n = times.gpus
    order = [int(rng.integers(n))]
    free = np.ones(n, bool)
    free[order[0]] = False
    while len(order) < n:
        far = np.where(free, times.distance[order[-1]], math.inf)
        close = np.flatnonzero(free & (far <= far.min() * (1 + 1e-9)))
        order.append(int(rng.choice(close)))
        free[order[-1]] = False
    return np.array(order)


def _moved(order: np.ndarray, kind: Callable[[np.ndarray], np.ndarray], first: int, last: int) -> np.ndarray:
    """Return a copy of ``order`` whose part ``first`` to ``last`` is changed by ``kind``, one of `_MOVES`."""
    moved = order.copy()
    moved[first : last + 1] = kind(order[first : last + 1])
    return moved


#: Changes to a part of an order: swap both ends, reverse, rotate one end to the other.
_MOVES = (
    lambda part: np.concatenate((part[-1:], part[1:-1], part[:1])),
    lambda part: part[::-1],
    lambda part: np.roll(part, 1),
    lambda part: np.roll(part, -1),
)
