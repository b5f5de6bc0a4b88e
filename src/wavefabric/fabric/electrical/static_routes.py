"""Computes static routes of an electrical fabric, and the resources that transfers share on them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.sizes import ragged
from wavefabric.collectives.structure import transfer_elements
from wavefabric.fabric.electrical.fabric import Fabric

#: Number of GPUs per batch of distance computations.
_BLOCK = 256


@dataclass(frozen=True, eq=False)
class Wires:
    """Holds links as arrays; parallel links are one wire, and nodes are numbers, GPUs before switches."""

    source: np.ndarray  # nodes, shape (wires,)
    target: np.ndarray
    bandwidth: np.ndarray  # B/s, the sum over parallel links
    latency: np.ndarray  # s, the largest of parallel links
    kind: np.ndarray  # number of `Link.kind`; for parallel links the kind of the widest link


class RouteWires(NamedTuple):
    """Holds the wires that pairs of GPUs use; the first three arrays have one element per pair and wire."""

    pair: np.ndarray  # ascending; uses of a pair are in the order of its route
    wire: np.ndarray
    fraction: np.ndarray  # of the pair's bytes that cross the wire
    latency: np.ndarray  # s of each pair, on the slowest of its parallel routes


class ParallelWires(NamedTuple):
    """Groups wires over which a node may split data: all its wires to switches with the same `Link.kind`."""

    group: np.ndarray  # group of each wire; a wire to a GPU is a group by itself
    first: np.ndarray  # group g: ``wires[first[g]:first[g + 1]]``
    wires: np.ndarray
    hops: np.ndarray  # links from each switch to each GPU, −1: no route
    width: np.ndarray  # total B/s of all routes from a switch to a GPU


@dataclass(frozen=True, eq=False)
class StaticRoutes:
    """Holds the routes between all GPUs of a fabric."""

    fabric: Fabric
    wires: Wires
    table: np.ndarray  # shape (nodes, GPUs): a wire on which a node sends data for a GPU; −1: none
    parallel: ParallelWires | None  # None where no node has several wires to choose from
    number: np.ndarray  # of each node in the machine, independent of the order of ranks

    def wires_of(self, src: np.ndarray, dst: np.ndarray) -> RouteWires:
        """Return the wires on the routes from GPUs ``src`` to ``dst``; `InputError` if a route is missing."""
        goal, nodes = np.asarray(dst), len(self.table)
        at, pair = np.asarray(src).copy(), np.arange(goal.size)
        fraction, late, latency = np.ones(goal.size), np.zeros(goal.size), np.zeros(goal.size)
        uses: list[tuple[np.ndarray, ...]] = [(pair[:0], pair[:0], fraction[:0])]
        while pair.size:
            wire = self.table[at, goal[pair]]
            if (wire < 0).any():
                i = pair[np.argmax(wire < 0)]
                a, b = self.fabric.gpus[src[i]], self.fabric.gpus[goal[i]]
                why = "" if self.fabric.forwards else " (GPUs of this fabric do not forward)"
                fault = f"no way from {a} to {b}{why}"
                raise InputError(f"fabric {self.fabric.name}: {fault}; allowed: pairs with one")
            if self.parallel is not None:
                row, wire, part = self._split(self.parallel, wire, goal[pair], np.asarray(src)[pair])
                pair, fraction, late = pair[row], fraction[row] * part, late[row]
            uses.append((pair, wire, fraction))
            at, late = self.wires.target[wire], late + self.wires.latency[wire]
            if self.parallel is not None:  # join data that reach a node on several wires
                key, first, joined = np.unique(pair * nodes + at, return_index=True, return_inverse=True)
                pair, at, fraction = pair[first], at[first], np.bincount(joined, fraction, key.size)
                slowest = np.zeros(key.size)
                np.maximum.at(slowest, joined, late)
                late = slowest
            arrived, onward = at == goal[pair], at != goal[pair]
            latency[pair[arrived]] = late[arrived]
            pair, at, fraction, late = pair[onward], at[onward], fraction[onward], late[onward]
        pair, wire, fraction = map(np.concatenate, zip(*uses, strict=True))
        order = np.argsort(pair, kind="stable")
        return RouteWires(pair[order], wire[order], fraction[order], latency)

    def _split(
        self, over: ParallelWires, wire: np.ndarray, goal: np.ndarray, sender: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Divide data on ``wire``, from GPUs ``sender`` to GPUs ``goal``, among all parallel wires.

        The division is in proportion to their rates; with ECMP all data of a pair of GPUs take one of the
        wires. ``over``: groups of parallel wires. Returns three arrays of equal length: index into ``wire``,
        number of the wire that is used, fraction of the data on it.
        """
        group, gpus = over.group[wire], self.fabric.ranks
        row, within = ragged(over.first[group + 1] - over.first[group])
        each = over.wires[over.first[group[row]] + within]
        # The only wire of a group to a GPU is compared with itself.
        node, taken = (np.maximum(self.wires.target[some] - gpus, 0) for some in (each, wire[row]))
        alike = over.hops[node, goal[row]] == over.hops[taken, goal[row]]
        row, each, node = row[alike], each[alike], node[alike]
        rate = np.minimum(self.wires.bandwidth[each], over.width[node, goal[row]])
        rate[self.wires.target[each] < gpus] = 1.0
        if self.fabric.multipath == "ecmp":
            count = np.bincount(row, minlength=wire.size)
            pair = self.number[sender] * gpus + self.number[goal]
            member = _hash(pair, self.number[self.wires.source[wire]]) % count
            row, each = np.arange(wire.size), each[np.cumsum(count) - count + member]
            return row, each, np.ones(wire.size)
        return row, each, rate / np.bincount(row, rate, wire.size)[row]


def _hash(pair: np.ndarray, node: np.ndarray) -> np.ndarray:
    """Return a pseudo-random number from 0 for each pair of GPUs at a node (the mixer of SplitMix64)."""
    x = pair.astype(np.uint64) * np.uint64(4096) + node.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return (x >> np.uint64(33)).astype(np.int64)


def wires(fabric: Fabric) -> Wires:
    """Return the links of a fabric as arrays, with parallel links joined to one wire."""
    number = {name: i for i, name in enumerate((*fabric.gpus, *fabric.switches))}
    ends = np.array([(number[link.source], number[link.target]) for link in fabric.links], np.int64)
    nodes, wire = np.unique(ends.reshape(-1, 2), axis=0, return_inverse=True)
    wire, latency = wire.ravel(), np.zeros(len(nodes))
    np.maximum.at(latency, wire, [link.latency for link in fabric.links])
    rates = np.array([link.bandwidth for link in fabric.links])
    bandwidth, widest = np.bincount(wire, rates, len(nodes)), np.argsort(rates, kind="stable")
    kind = np.zeros(len(nodes), np.int64)
    kind[wire[widest]] = np.unique([link.kind for link in fabric.links], return_inverse=True)[1][widest]
    source, target = nodes.T.copy()
    return Wires(source, target, bandwidth, latency, kind)


@lru_cache(maxsize=8)
def static_routes(fabric: Fabric) -> StaticRoutes:
    """Compute static routes between all GPUs: over the fewest links, and over parallel switches together.

    Data pass through switches, and through other GPUs only if the fabric says that they forward. Each node
    sends all data for a GPU the same way: either split over several switches, or through one forwarding GPU.
    The switches must be equally close to the GPU, and joined to the node by links of one kind. Each switch
    gets bytes in proportion to the total rate of its routes. Where links of several kinds, or several GPUs,
    lead equally close, the choice with the highest rate is used: NVLink alone where a node has PCIe too.

    Among equally close GPUs of equal rate a node uses the neighbour whose number is closest to its own: along
    the last axis of a mesh or torus first, and from the lowest dimension of a hypercube (dimension-order and
    e-cube routing, Dally & Seitz 1987, doi:10.1109/TC.1987.1676939). For destinations half-way around a
    torus, GPUs with an even coordinate send upwards, others downwards, to balance both directions.
    """
    w = wires(fabric)
    nodes = len(fabric.gpus) + len(fabric.switches)
    passes = np.arange(nodes) >= (0 if fabric.forwards else fabric.ranks)
    number = np.arange(nodes)
    if fabric.numbering:
        number[: fabric.ranks] = [fabric.numbering.index(name) for name in fabric.gpus]
    source, target = number[w.source], number[w.target]
    apart = np.abs(source - target)
    # Choice between two neighbours equally close in number: up from even coordinates, down from odd ones.
    coordinate = source // np.maximum(apart, 1) % 2
    turn = (target > source) == (coordinate == 1)
    table = np.full((nodes, fabric.ranks), -1, np.int64)
    preferred = np.lexsort((target, turn, apart, w.source))
    # Group wires to switches by node and kind; each other wire is a group by itself.
    kinds = w.source * (int(w.kind.max(initial=0)) + 1) + w.kind
    group = np.where(w.target >= fabric.ranks, kinds, -1 - np.arange(w.kind.size))
    group = np.unique(group, return_inverse=True)[1]
    several = bool(np.bincount(group, minlength=1).max() > 1)
    uniform = not several and np.unique(w.bandwidth).size < 2
    hops_of, width_of = [], []
    for gpu, hops in enumerate(_hops(w, nodes, fabric.ranks, fabric.forwards)):
        near, far = hops[w.target], hops[w.source]
        usable = (near >= 0) & (far == near + 1) & (passes[w.target] | (w.target == gpu))
        order = preferred[usable[preferred]]
        if not uniform:
            width, widest = _widths(w, hops, usable, gpu, group)
            order = order[np.lexsort((-width[order], w.source[order]))]
            hops_of.append(hops[fabric.ranks :])
            width_of.append(widest[fabric.ranks :])
        source = w.source[order]
        first = np.ones(source.size, bool)
        first[1:] = source[1:] != source[:-1]
        table[source[first], gpu] = order[first]
    if not several:
        return StaticRoutes(fabric, w, table, None, number)
    members = np.argsort(group, kind="stable")
    begin = np.searchsorted(group[members], np.arange(group.max() + 2))
    over = ParallelWires(group, begin, members, np.array(hops_of).T, np.array(width_of).T)
    return StaticRoutes(fabric, w, table, over, number)


def _hops(w: Wires, nodes: int, gpus: int, forwards: bool) -> Iterator[np.ndarray]:
    """Yield for each GPU the fewest links on a route to it from every node, −1: no route; shape (nodes,)."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import dijkstra

    # Search backwards from each GPU. If GPUs do not forward, each GPU has a second node, at which only the
    # search from this GPU begins.
    source, target = w.target, w.source
    if not forwards:
        own = source < gpus
        source = np.where(own, source + nodes, source)
    size = nodes + gpus
    graph = csr_matrix((np.ones(source.size), (source, target)), shape=(size, size))
    for begin in range(0, gpus, _BLOCK):
        block = np.arange(begin, min(begin + _BLOCK, gpus))
        far = dijkstra(graph, indices=block if forwards else block + nodes, unweighted=True)[:, :nodes]
        far[np.arange(block.size), block] = 0
        yield from np.where(np.isfinite(far), far, -1).astype(np.int64)


def _widths(
    w: Wires, hops: np.ndarray, usable: np.ndarray, gpu: int, group: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the bandwidth in B/s of routes to ``gpu``: through each wire, and the largest from each node.

    Wires parallel to a wire (of the same ``group``) add to its bandwidth. ``hops``: links from each node to
    the GPU; ``usable``: which wires lead closer to it.
    """
    best = np.zeros(hops.size)
    best[gpu] = np.inf
    width = np.zeros(w.source.size)
    for far in range(1, int(hops.max()) + 1):
        layer = np.flatnonzero(usable & (hops[w.source] == far))
        alone = np.minimum(w.bandwidth[layer], best[w.target[layer]])
        width[layer] = np.bincount(group[layer], alone)[group[layer]]
        np.maximum.at(best, w.source[layer], width[layer])
    return width, best


@lru_cache(maxsize=8)
def hop_counts(fabric: Fabric) -> tuple[np.ndarray, float]:
    """Return the fewest links from each GPU to each other, shape (GPUs, GPUs), and all links' total B/s.

    Routes may pass through other GPUs; −1 means that there is no route.
    """
    w = wires(fabric)
    nodes = fabric.ranks + len(fabric.switches)
    to = [far[: fabric.ranks] for far in _hops(w, nodes, fabric.ranks, True)]
    return np.array(to).T, float(w.bandwidth.sum())


@dataclass(frozen=True, eq=False)
class ResourceUse:
    """Holds the resources (links, ports) on the routes between pairs of GPUs.

    Resources are numbered: wires, then the send ports of GPUs, then their receive ports.
    """

    fabric: Fabric
    wires: Wires
    pair: np.ndarray  # shape (uses,), ascending
    resource: np.ndarray  # shape (uses,)
    fraction: np.ndarray  # of the pair's bytes that cross the resource, shape (uses,)
    capacity: np.ndarray  # B/s of each resource
    latency: np.ndarray  # s of the route of each pair

    def of(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the links and ports that some pairs use, as three arrays of equal length.

        The arrays are the index into ``pairs`` (ascending; a pair may occur twice), the number of the link or
        port, and the fraction of the pair's bytes that crosses the link or port.
        """
        first = np.searchsorted(self.pair, np.arange(self.latency.size + 1))
        which, within = ragged(np.diff(first)[pairs])
        use = first[pairs][which] + within
        return which, self.resource[use], self.fraction[use]

    def seconds(self, nbytes: np.ndarray) -> np.ndarray:
        """Return the busy time in s of each link and port if pair p sends ``nbytes[p]`` bytes."""
        carried = np.bincount(self.resource, nbytes[self.pair] * self.fraction, self.capacity.size)
        return carried / self.capacity

    def name(self, resource: int) -> str:
        """Return the description of a link or port, such as ``link GPU0 -> GPU1`` or ``GPU0 sends``."""
        f, w = self.fabric, self.wires
        if resource < w.source.size:
            names = (*f.gpus, *f.switches)
            return f"link {names[w.source[resource]]} -> {names[w.target[resource]]}"
        gpu, receives = resource - w.source.size, resource - w.source.size >= f.ranks
        return f"{f.gpus[gpu % f.ranks]} {'receives' if receives else 'sends'}"


def resource_use(fabric: Fabric, src: np.ndarray, dst: np.ndarray) -> ResourceUse:
    """Return the links and ports on the static routes from ``src`` to ``dst``; `InputError` without one."""
    routes = static_routes(fabric)
    pair, wire, fraction, latency = routes.wires_of(src, dst)
    capacity = routes.wires.bandwidth
    if fabric.copy_bandwidth is not None:
        n, first = np.arange(len(src)), capacity.size
        pair = np.concatenate((pair, n, n))
        wire = np.concatenate((wire, first + np.asarray(src), first + fabric.ranks + np.asarray(dst)))
        order = np.argsort(pair, kind="stable")
        fraction = np.concatenate((fraction, np.ones(2 * n.size)))[order]
        pair, wire = pair[order], wire[order]
        capacity = np.concatenate((capacity, np.full(2 * fabric.ranks, fabric.copy_bandwidth)))
    return ResourceUse(fabric, routes.wires, pair, wire, fraction, capacity, latency)


def transfer_bytes(schedule: Schedule, element_bytes: float) -> np.ndarray:
    """Return the bytes of each transfer of a schedule: shape (transfers,)."""
    return transfer_elements(schedule) * float(element_bytes)


def check_connected(fabric: Fabric) -> None:
    """Raise `InputError` unless links join all GPUs of a fabric, over any nodes, in both directions."""
    w, nodes, first = wires(fabric), fabric.ranks + len(fabric.switches), fabric.gpus[0]
    from scipy.sparse import csr_array  # imported here, as most fabrics need no SciPy
    from scipy.sparse.csgraph import breadth_first_order

    graph = csr_array((np.ones(w.source.size), (w.source, w.target)), shape=(nodes, nodes))
    back, forth = (set(breadth_first_order(g, 0)[0].tolist()) for g in (graph.T.tocsr(), graph))
    for number, gpu in enumerate(fabric.gpus):
        if number not in forth or number not in back:
            ends = f"{gpu} to {first}" if number in forth else f"{first} to {gpu}"
            allowed = "links that join all GPUs in both directions"
            raise InputError(f"links: no way from {ends}; allowed: {allowed}")
