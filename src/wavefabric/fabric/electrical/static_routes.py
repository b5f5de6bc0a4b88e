"""Static routes of an electrical fabric, and what transfers share on them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from wavefabric.collectives.arguments import ragged
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.structure import transfer_elements
from wavefabric.errors import InputError
from wavefabric.fabric.electrical.fabric import Fabric

#: GPUs to which distances are computed at a time.
_BLOCK = 256


@dataclass(frozen=True, eq=False)
class Wires:
    """Links as arrays: parallel ones between the same two nodes are one wire. GPUs are numbered first."""

    source: np.ndarray  # nodes, shape (wires,)
    target: np.ndarray
    bandwidth: np.ndarray  # B/s, the sum over parallel links
    latency: np.ndarray  # s, the greatest of parallel links


@dataclass(frozen=True, eq=False)
class StaticRoutes:
    """Routes between all GPUs of a fabric."""

    fabric: Fabric
    wires: Wires
    table: np.ndarray  # shape (nodes, GPUs): the wire on which data for a GPU leaves a node; −1: none

    def wires_of(self, src: np.ndarray, dst: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Wires of the routes of pairs of different GPUs; `InputError` if a pair has no route.

        Returns pair and wire of each use, shape (uses,): in order of pair, then along the route.
        """
        pairs, wires = [], []
        at, left = np.asarray(src).copy(), np.arange(len(src))
        goal = np.asarray(dst)
        while left.size:
            wire = self.table[at[left], goal[left]]
            if (wire < 0).any():
                i = left[np.argmax(wire < 0)]
                a, b = self.fabric.gpus[src[i]], self.fabric.gpus[goal[i]]
                why = "" if self.fabric.forwards else " (GPUs of this fabric do not forward)"
                fault = f"no way from {a} to {b}{why}"
                raise InputError(f"fabric {self.fabric.name}: {fault}; allowed: pairs with one")
            pairs.append(left)
            wires.append(wire)
            at[left] = self.wires.target[wire]
            left = left[at[left] != goal[left]]
        if not pairs:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        pair, wire = np.concatenate(pairs), np.concatenate(wires)
        order = np.argsort(pair, kind="stable")
        return pair[order], wire[order]


def wires(fabric: Fabric) -> Wires:
    """Links of a fabric, parallel ones joined."""
    number = {name: i for i, name in enumerate((*fabric.gpus, *fabric.switches))}
    ends = np.array([(number[link.source], number[link.target]) for link in fabric.links], np.int64)
    nodes, wire = np.unique(ends.reshape(-1, 2), axis=0, return_inverse=True)
    wire, latency = wire.ravel(), np.zeros(len(nodes))
    np.maximum.at(latency, wire, [link.latency for link in fabric.links])
    bandwidth = np.bincount(wire, [link.bandwidth for link in fabric.links], len(nodes))
    source, target = nodes.T.copy()
    return Wires(source, target, bandwidth, latency)


@lru_cache(maxsize=8)
def static_routes(fabric: Fabric) -> StaticRoutes:
    """Static routes between all GPUs: fewest hops, then the widest.

    Data passes switches, and other GPUs only where the fabric says that they forward. Each node sends all
    that is bound for a GPU the same way. Of routes that are as short and as wide (by their narrowest link) it
    takes the neighbour whose number is closest to its own: along the last axis of a mesh or torus first, and
    from the lowest dimension of a hypercube (dimension-order and e-cube routing, Dally & Seitz 1987,
    doi:10.1109/TC.1987.1676939). Half-way around a torus GPUs with an even coordinate send upwards, others
    downwards, so that both directions carry as much.
    """
    w = wires(fabric)
    nodes = len(fabric.gpus) + len(fabric.switches)
    passes = np.arange(nodes) >= (0 if fabric.forwards else fabric.ranks)
    number = np.arange(nodes)  # of each node in the machine, whatever the order of ranks
    if fabric.numbering:
        number[: fabric.ranks] = [fabric.numbering.index(name) for name in fabric.gpus]
    source, target = number[w.source], number[w.target]
    apart = np.abs(source - target)
    # Which of two neighbours equally close in number: up from even coordinates, down from odd ones.
    coordinate = source // np.maximum(apart, 1) % 2
    turn = (target > source) == (coordinate == 1)
    table = np.full((nodes, fabric.ranks), -1, np.int64)
    preferred = np.lexsort((target, turn, apart, w.source))
    uniform = not w.bandwidth.size or (w.bandwidth == w.bandwidth[0]).all()
    for gpu, hops in enumerate(_hops(w, nodes, fabric.ranks, fabric.forwards)):
        near, far = hops[w.target], hops[w.source]
        usable = (near >= 0) & (far == near + 1) & (passes[w.target] | (w.target == gpu))
        order = preferred[usable[preferred]]
        if not uniform:
            width = _widths(w, hops, usable, gpu)
            order = order[np.lexsort((-width[order], w.source[order]))]
        source = w.source[order]
        first = np.ones(source.size, bool)
        first[1:] = source[1:] != source[:-1]
        table[source[first], gpu] = order[first]
    return StaticRoutes(fabric, w, table)


def _hops(w: Wires, nodes: int, gpus: int, forwards: bool) -> Iterator[np.ndarray]:
    """For one GPU after the other the number of links from each node to it, −1: no route; shape (nodes,)."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import dijkstra

    # Backwards from a GPU. Where GPUs do not forward, each has a second node, from which nothing but its own
    # search begins.
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


def _widths(w: Wires, hops: np.ndarray, usable: np.ndarray, gpu: int) -> np.ndarray:
    """Narrowest bandwidth from each wire on to a GPU, by the widest route: shape (wires,)."""
    best = np.zeros(hops.size)
    best[gpu] = np.inf
    width = np.zeros(w.source.size)
    for far in range(1, int(hops.max()) + 1):
        layer = np.flatnonzero(usable & (hops[w.source] == far))
        width[layer] = np.minimum(w.bandwidth[layer], best[w.target[layer]])
        np.maximum.at(best, w.source[layer], width[layer])
    return width


@lru_cache(maxsize=8)
def hop_counts(fabric: Fabric) -> tuple[np.ndarray, float]:
    """Least number of links between GPUs, through others' memory too (−1: no route), and B/s of all links."""
    w = wires(fabric)
    nodes = fabric.ranks + len(fabric.switches)
    to = [far[: fabric.ranks] for far in _hops(w, nodes, fabric.ranks, True)]
    return np.array(to).T, float(w.bandwidth.sum())


@dataclass(frozen=True, eq=False)
class ResourceUse:
    """Resources that each of a number of pairs of GPUs uses.

    Resources are numbered: wires, then what each GPU sends, then what each receives.
    """

    fabric: Fabric
    wires: Wires
    pair: np.ndarray  # shape (uses,), ascending
    resource: np.ndarray  # shape (uses,)
    capacity: np.ndarray  # B/s of each resource, infinite where the fabric has no such limit
    latency: np.ndarray  # s of the route of each pair

    def of(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Resources of any pairs, which may repeat: indices into `pairs`, ascending, and resources."""
        first = np.searchsorted(self.pair, np.arange(self.latency.size + 1))
        which, within = ragged(np.diff(first)[pairs])
        return which, self.resource[first[pairs][which] + within]

    def name(self, resource: int) -> str:
        """A resource in words."""
        f, w = self.fabric, self.wires
        if resource < w.source.size:
            names = (*f.gpus, *f.switches)
            return f"link {names[w.source[resource]]} -> {names[w.target[resource]]}"
        gpu, receives = resource - w.source.size, resource - w.source.size >= f.ranks
        return f"{f.gpus[gpu % f.ranks]} {'receives' if receives else 'sends'}"


def resource_use(fabric: Fabric, src: np.ndarray, dst: np.ndarray) -> ResourceUse:
    """Resources of pairs of GPUs by the static routes; `InputError` if a pair has no route."""
    routes = static_routes(fabric)
    pair, wire = routes.wires_of(src, dst)
    latency = np.bincount(pair, routes.wires.latency[wire], len(src))
    capacity = routes.wires.bandwidth
    if fabric.copy_bandwidth is not None:
        n, first = np.arange(len(src)), capacity.size
        pair = np.concatenate((pair, n, n))
        wire = np.concatenate((wire, first + np.asarray(src), first + fabric.ranks + np.asarray(dst)))
        order = np.argsort(pair, kind="stable")
        pair, wire = pair[order], wire[order]
        capacity = np.concatenate((capacity, np.full(2 * fabric.ranks, fabric.copy_bandwidth)))
    return ResourceUse(fabric, routes.wires, pair, wire, capacity, latency)


def transfer_bytes(schedule: Schedule, element_bytes: float) -> np.ndarray:
    """Bytes of each transfer: shape (transfers,)."""
    return transfer_elements(schedule) * float(element_bytes)
