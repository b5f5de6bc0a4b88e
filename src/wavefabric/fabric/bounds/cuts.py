"""Cuts through a fabric: what can leave a set of GPUs at once."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from wavefabric.fabric.electrical.fabric import Fabric, Link
from wavefabric.fabric.electrical.routing import Wires, wires
from wavefabric.fabric.photonic.fabric import PhotonicFabric


@dataclass(frozen=True)
class Cut:
    """A set of GPUs, and what can leave it (or enter it, of a cut in reverse)."""

    gpus: frozenset[int]
    capacity: float  # B/s


@dataclass(frozen=True, eq=False)
class CapacityGraph:
    """A fabric as a graph with capacities; node g < GPUs is the memory of GPU g."""

    gpus: int
    nodes: int
    source: np.ndarray  # nodes, shape (edges,)
    target: np.ndarray
    capacity: tuple[Fraction | None, ...]  # B/s of each edge; None: no limit

    def reverse(self) -> CapacityGraph:
        """The same, every edge turned round."""
        return replace(self, source=self.target, target=self.source)

    @cached_property
    def units(self) -> tuple[Fraction, list[int]]:
        """The greatest number that all capacities are whole multiples of, and the multiples; -1: no limit."""
        known = {id(c): c for c in self.capacity if c is not None}  # many edges share one number
        unit = _common(list(known.values()))
        multiple = {key: int(c / unit) for key, c in known.items()}
        return unit, [-1 if c is None else multiple[id(c)] for c in self.capacity]


def as_electrical(fabric: PhotonicFabric) -> Fabric:
    """What no choice of circuits can beat: tiles that send and receive at their full rate, and edges on which
    every waveguide carries every wavelength."""
    names = tuple(f"tile{r}" for r in range(fabric.ranks))
    rate = fabric.lasers * fabric.laser_bandwidth
    links = tuple(
        Link(names[a], names[b], fabric.capacity(a, b) * rate, 0.0, "waveguide") for a, b in fabric.edges()
    )
    return Fabric(fabric.name, names, (), links, fabric.alpha, copy_bandwidth=fabric.bandwidth, forwards=True)


def restrict(fabric: Fabric, ranks: int) -> Fabric:
    """The first GPUs of a fabric; the others stay as switches if GPUs forward."""
    if ranks == fabric.ranks:
        return fabric
    kept, rest = fabric.gpus[:ranks], fabric.gpus[ranks:]
    if fabric.forwards:
        return replace(fabric, gpus=kept, switches=(*fabric.switches, *rest))
    gone = set(rest)
    links = tuple(link for link in fabric.links if link.source not in gone and link.target not in gone)
    return replace(fabric, gpus=kept, links=links)


@lru_cache(maxsize=8)
def port_rates(fabric: Fabric) -> tuple[np.ndarray, np.ndarray]:
    """What each GPU can send, and receive, in all: two arrays of shape (GPUs,), B/s."""
    w = wires(fabric)
    most = float(_port_limit(fabric) or np.inf)
    sends = np.bincount(w.source, w.bandwidth, len(fabric.gpus) + len(fabric.switches))[: fabric.ranks]
    receives = np.bincount(w.target, w.bandwidth, len(fabric.gpus) + len(fabric.switches))[: fabric.ranks]
    return np.minimum(sends, most), np.minimum(receives, most)


def _port_limit(fabric: Fabric) -> Fraction | None:
    limits = []
    if fabric.copy_bandwidth is not None:
        limits.append(Fraction(fabric.copy_bandwidth))
    if fabric.flow_bandwidth is not None:
        limits.append(Fraction(fabric.flow_bandwidth) * max(fabric.ranks - 1, 1))
    return min(limits, default=None)


def capacity_graph(fabric: Fabric) -> CapacityGraph:
    """The graph of a fabric: where a GPU's memory has a limit of its own, ports lie between it and links."""
    w = wires(fabric)
    n, nodes = fabric.ranks, fabric.ranks + len(fabric.switches)
    source, target = w.source.copy(), w.target.copy()
    exact = {b: Fraction(b) for b in np.unique(w.bandwidth).tolist()}
    capacity: list[Fraction | None] = [exact[b] for b in w.bandwidth.tolist()]
    limit = _port_limit(fabric)
    if limit is not None:
        out, into = nodes + np.arange(n), nodes + n + np.arange(n)
        source[source < n] += nodes
        target[target < n] += nodes + n
        extra: list[tuple[np.ndarray, np.ndarray, Fraction | None]] = [
            (np.arange(n), out, limit),
            (into, np.arange(n), limit),
        ]
        if fabric.forwards:
            extra.append((into, out, None))
        for a, b, most in extra:
            source, target = np.concatenate((source, a)), np.concatenate((target, b))
            capacity += [most] * n
        nodes += 2 * n
    return CapacityGraph(n, nodes, source, target, tuple(capacity))


@lru_cache(maxsize=8)
def sampled(fabric: Fabric) -> list[tuple[frozenset[int], float, float]]:
    """Cuts of every number of GPUs, as (gpus, B/s out, B/s into).

    The first k in order of rank, or of column and rank of any grid; with switches by a maximum flow.
    """
    w = wires(fabric)
    n = fabric.ranks
    cuts = []
    if fabric.switches:
        forth = capacity_graph(fabric)
        back = forth.reverse()
        for k in sorted({n * i // 16 for i in range(1, 16)} - {0}):
            first = frozenset(range(k))
            cuts.append((first, _largest_flow(forth, first), _largest_flow(back, first)))
        return cuts
    ranks, back = np.arange(n), Wires(w.target, w.source, w.bandwidth, w.latency)
    for columns in [d for d in range(1, n) if n % d == 0]:
        order = np.lexsort((ranks // columns, ranks % columns))
        position = np.empty(n, np.int64)
        position[order] = ranks
        out, into = _crossing(w, position, n), _crossing(back, position, n)
        cuts += [(frozenset(order[: k + 1].tolist()), out[k], into[k]) for k in _tight_prefixes(out, into, n)]
    return cuts


def _crossing(w: Wires, position: np.ndarray, n: int) -> np.ndarray:
    """Bandwidth from the first k + 1 positions to the others: shape (n − 1,)."""
    a, b = position[w.source], position[w.target]
    forth = a < b
    begin, end = (np.bincount(x[forth], w.bandwidth[forth], n) for x in (a, b))
    crossing = np.cumsum(begin - end)[: n - 1]
    # Sums in floating point: a little more is on the safe side of a bound.
    rounding = n * np.finfo(float).eps * np.cumsum(begin + end)[: n - 1]
    return np.maximum(crossing * (1 + 1e-12), crossing + rounding)


def _tight_prefixes(out: np.ndarray, into: np.ndarray, n: int) -> list[int]:
    """Numbers of GPUs, less one, at which any collective has most to move for the capacity."""
    k = np.arange(1, n)
    tight = set()
    for capacity in (out, into):
        with np.errstate(divide="ignore"):
            for demand in (k, n - k, k * (n - k), np.ones(n - 1)):
                tight.add(int(np.argmax(demand / capacity)))
    return sorted(tight)


def _largest_flow(g: CapacityGraph, gpus: frozenset[int]) -> float:
    """Greatest flow from a set of GPUs to the others, B/s."""
    network = FlowNetwork(g, sinks=tuple(i for i in range(g.gpus) if i not in gpus))
    return float(network.capacity(network.cut(gpus)))


class FlowNetwork:
    """A graph with a super-source before the GPUs, and a super-sink behind `sinks`, for SciPy's maximum flow.

    SciPy counts in 32 bits. Where that is too little, links are rounded up and what is offered down: the side
    so obtained is a cut all the same, and its capacity is taken from the exact numbers.
    """

    def __init__(self, g: CapacityGraph, sinks: tuple[int, ...] = ()):
        from scipy.sparse import csr_matrix

        self.graph = g
        self.source, self.sink, self.size = g.nodes, g.nodes + 1, g.nodes + 2
        self.unit, self.units = g.units
        rows = np.concatenate((g.source, np.full(g.gpus, self.source), np.array(sinks, np.int64)))
        columns = np.concatenate((g.target, np.arange(g.gpus), np.full(len(sinks), self.sink)))
        self.csr = csr_matrix((np.arange(1, rows.size + 1), (rows, columns)), shape=(self.size, self.size))
        self.place = np.asarray(self.csr.data, np.int64) - 1

    def cut(self, gpus: Iterable[int], ratio: Fraction | None = None, sink: int | None = None) -> np.ndarray:
        """Nodes on the source's side of a least cut: shape (nodes,), bool.

        The super-source feeds each of `gpus` with one and a link of capacity c, in `unit`, carries `ratio` c;
        without a ratio neither has a limit but c. `sink` is a GPU, by default the super-sink.
        """
        edges = len(self.units)
        most = 2**31 - 2
        data = np.full(self.place.size, most, np.int64)
        fed = np.zeros(self.graph.gpus, bool)
        fed[list(gpus)] = True
        if ratio is None:
            total = sum(u for u in self.units if u > 0)
            one, offer = (Fraction(1), most) if total < most else (Fraction(2**30, total), most)
        else:
            offer = ratio.denominator
            one = Fraction(ratio.numerator)
            if offer * int(fed.sum()) >= most:
                small = 2**30 // int(fed.sum())
                one, offer = ratio * small, small
        up, down = one.numerator, one.denominator
        data[:edges] = [most if u < 0 else min(-(-u * up // down), most) for u in self.units]
        data[edges : edges + fed.size] = np.where(fed, offer, 0)
        return self._side(data, self.sink if sink is None else sink)

    def _side(self, data: np.ndarray, sink: int) -> np.ndarray:
        from scipy.sparse.csgraph import breadth_first_order, maximum_flow

        network = self.csr.copy()
        network.data = data[self.place].astype(np.int32)
        left = network - maximum_flow(network, self.source, sink).flow
        left.eliminate_zeros()
        side = np.zeros(self.size, bool)
        side[breadth_first_order(left, self.source, return_predecessors=False)] = True
        return side[: self.graph.nodes]

    def capacity(self, side: np.ndarray) -> Fraction:
        """What edges let out of a set of nodes, B/s."""
        crossing = np.flatnonzero(side[self.graph.source] & ~side[self.graph.target])
        return sum((self.units[i] for i in crossing), 0) * self.unit


def _common(values: list[Fraction]) -> Fraction:
    """The greatest number that all are whole multiples of."""
    if not values:
        return Fraction(1)
    down = math.lcm(*{v.denominator for v in values})
    return Fraction(math.gcd(*{int(v * down) for v in values}), down)
