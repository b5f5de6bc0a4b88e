"""Finds the tightest cuts of a fabric: sets of GPUs with the smallest bandwidth to the other GPUs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.fabric.electrical.fabric import Fabric, Link
from wavefabric.fabric.electrical.static_routes import Wires, resource_use, wires
from wavefabric.fabric.photonic.fabric import PhotonicFabric

#: Largest number of sinks for which the exact bottleneck is searched.
MOST_SINKS = 256
#: Largest number of GPUs and switches for which all cuts are searched, and for which one cut per wire is
#: searched; largest number of pairs of wires in the second search.
MOST_SEARCHED, MOST_NODES, MOST_CROSSINGS = 16, 1024, 1 << 26
#: Largest number of bandwidths, the highest ones, at which sets of nodes joined by such links are compared.
_MOST_BANDWIDTHS = 8


@dataclass(frozen=True)
class Cut:
    """A set of GPUs, and the bandwidth at which data can leave it (in a reversed `bottleneck`: enter it)."""

    gpus: frozenset[int]
    capacity: float  # B/s


def as_electrical(fabric: PhotonicFabric) -> Fabric:
    """Return an electrical fabric that is at least as fast as a photonic fabric with any circuits.

    Its tiles send and receive at their full rate, and every waveguide carries every wavelength.
    """
    names = tuple(f"tile{r}" for r in range(fabric.ranks))
    rate, edges = fabric.lasers * fabric.laser_bandwidth, fabric.edges()
    links = tuple(Link(names[a], names[b], fabric.capacity(a, b) * rate, kind="waveguide") for a, b in edges)
    return Fabric(fabric.name, names, (), links, fabric.alpha, copy_bandwidth=fabric.bandwidth, forwards=True)


def restrict(fabric: Fabric, ranks: int) -> Fabric:
    """Return the fabric with only the first ``ranks`` GPUs.

    The other GPUs become switches if GPUs of the fabric forward data; else they and their links are removed.
    """
    kept, rest = fabric.gpus[:ranks], fabric.gpus[ranks:]
    if fabric.forwards:
        return replace(fabric, gpus=kept, switches=(*fabric.switches, *rest))
    gone = set(rest)
    links = tuple(link for link in fabric.links if link.source not in gone and link.target not in gone)
    return replace(fabric, gpus=kept, links=links)


@lru_cache(maxsize=8)
def port_rates(fabric: Fabric) -> tuple[np.ndarray, np.ndarray]:
    """Return the total rates in B/s at which each GPU can send, and receive: two arrays of shape (GPUs,)."""
    w, nodes = wires(fabric), len(fabric.gpus) + len(fabric.switches)
    sends, receives = (np.bincount(end, w.bandwidth, nodes)[: fabric.ranks] for end in (w.source, w.target))
    return np.minimum(sends, _port_limit(fabric)), np.minimum(receives, _port_limit(fabric))


def _port_limit(fabric: Fabric) -> float:
    """Return the largest total rate in B/s at which a GPU can send, or receive, however fast its links."""
    peers = max(fabric.ranks - 1, 1)
    return min(fabric.copy_bandwidth or math.inf, (fabric.flow_bandwidth or math.inf) * peers)


@lru_cache(maxsize=8)
def tightest_by_size(fabric: Fabric) -> list[tuple[frozenset[int], float, float]]:
    """Return, for each number of GPUs, the sets of this size with the least bandwidth out of and into them.

    A cut is (set of GPUs, B/s out of it, B/s into it). In fabrics of up to `MOST_SEARCHED` GPUs and switches
    all cuts are compared. In larger fabrics each wire gives one cut: the nodes closer to the wire's beginning
    than to its end against the others, where a link of c B/s has the length 1/c. So does each set of nodes
    that links of some bandwidth or more join. Both are compared with switches moved, too. Among these cuts
    are the halves of meshes and tori, sockets, nodes and racks. Beyond `MOST_NODES` nodes, or
    `MOST_CROSSINGS` pairs of wires, the list is empty. The result does not depend on the numbering of GPUs.
    """
    w, n = wires(fabric), fabric.ranks
    nodes, capacities = n + len(fabric.switches), []
    if nodes <= MOST_SEARCHED:
        sides = (2 * np.arange(2 ** (nodes - 1))[:, None] + 1) >> np.arange(nodes) & 1 > 0
    elif nodes <= MOST_NODES and w.source.size**2 <= MOST_CROSSINGS:
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import dijkstra

        far = dijkstra(csr_matrix((1 / w.bandwidth, (w.source, w.target)), shape=(nodes, nodes))).T
        sides = far[w.source] < far[w.target] * (1 - 1e-9)
        sides = np.concatenate((sides, _joined_by_fast_links(w, nodes)))
        sides = np.concatenate((sides, _switches_moved(sides, w, n)))
    else:
        return []
    sides = sides[(sides[:, :n].any(axis=1)) & ~sides[:, :n].all(axis=1)]
    for ends in ((w.source, w.target), (w.target, w.source)):
        begins, stays = (sides[:, end] for end in ends)
        capacities.append((begins & ~stays) @ w.bandwidth)
    size, cuts = sides[:, :n].sum(axis=1), {}
    for capacity in capacities:
        order = np.lexsort((capacity, size))
        for i in order[np.flatnonzero(np.diff(size[order], prepend=0))].tolist():
            gpus = frozenset(np.flatnonzero(sides[i, :n]).tolist())
            # Add rounding errors of the sums, so that the bound stays valid.
            cuts[i] = gpus, *(float(each[i]) * (1 + 1e-12) for each in capacities)
    return list(cuts.values())


def _joined_by_fast_links(w: Wires, nodes: int) -> np.ndarray:
    """Return the sets of nodes that wires of at least each bandwidth join: masks, shape (sets, nodes)."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    sets = []
    for least in np.unique(w.bandwidth)[-_MOST_BANDWIDTHS:]:
        fast = w.bandwidth >= least
        graph = csr_array((np.ones(fast.sum()), (w.source[fast], w.target[fast])), shape=(nodes, nodes))
        count, number = connected_components(graph, connection="weak")
        sets.append(number == np.arange(count)[:, None])
    return np.concatenate(sets)


def _switches_moved(sides: np.ndarray, w: Wires, gpus: int) -> np.ndarray:
    """Return ``sides`` with each switch moved to the side from which it receives more than it sends away.

    ``sides[i, node]``: whether a node is inside cut i. The GPUs, the first ``gpus`` nodes, stay. All switches
    move at once, and then once more as the others did.
    """
    from scipy.sparse import csr_array

    rate = csr_array((w.bandwidth, (w.source, w.target)), shape=(sides.shape[1],) * 2)
    for _ in range(2):
        came, left = sides @ rate, (rate @ (~sides).T).T
        sides = np.concatenate((sides[:, :gpus], (left < came)[:, gpus:]), axis=1)
    return sides


@lru_cache(maxsize=64)
def bottleneck(fabric: Fabric, reverse: bool = False, roots: tuple[int, ...] | None = None) -> Cut:
    """Return the bottleneck cut: the set S of GPUs, not all, with the largest |S| / (bandwidth out of S).

    An all-gather of b bytes per GPU takes at least b |S| / bandwidth, and ForestColl builds schedules that
    reach this bound (Zhao et al. 2024, arXiv:2402.06787). With ``reverse`` the bandwidth into S counts, as
    for a reduce-scatter.

    If ``roots`` are given, only they have data to send and count in |S|, and only the other GPUs wait for
    data. For a broadcast this is the root, for a gather all GPUs but the root. The result is exact for up to
    `MOST_SINKS` waiting GPUs. For more, only sets of one GPU, and of all but one, are compared.

    The method is Newton's (Dinkelbach's) iteration on the ratio |S| / bandwidth, in exact fractions. A
    super-source feeds one unit to each sending GPU, and each link's capacity is its bandwidth × the present
    ratio. For each waiting GPU v a maximum flow either brings all units to v, or yields a set with a larger
    ratio.
    """
    n = fabric.ranks
    fed = tuple(range(n)) if roots is None else roots
    sends, receives = port_rates(fabric)[:: -1 if reverse else 1]
    waiting = [v for v in range(n) if roots is None or v not in roots] if n > 1 else []
    everybody = frozenset(range(n))
    around = [(len(fed) - (v in fed), receives[v], everybody - {v}) for v in waiting]
    around += [(1, sends[r], frozenset({r})) for r in fed if n > 1]
    around.append((0, np.inf, everybody))
    part, rate, best = max(around, key=lambda cut: cut[0] / cut[1] if cut[1] else np.inf)
    start = Cut(best, float(rate))
    if not rate or not 0 < len(waiting) <= MOST_SINKS or _all_pairs_reach(fabric, part / rate, len(fed)):
        return start
    network = _FlowNetwork(fabric, reverse)
    tightest, ratio = start, Fraction(part) / Fraction(rate)
    for sink in waiting:
        while True:
            side = network.cut(fed, sink, ratio)
            capacity, inside = network.capacity(side), int(np.count_nonzero(side[list(fed)]))
            if not inside or (capacity and Fraction(inside) / capacity <= ratio):
                break
            tightest = Cut(frozenset(np.flatnonzero(side[:n]).tolist()), float(capacity))
            if not capacity:
                return tightest
            ratio = Fraction(inside) / capacity
    return tightest


def _all_pairs_reach(fabric: Fabric, ratio: float, fed: int) -> bool:
    """Return whether direct sends prove that no set S of GPUs has |S| / (bandwidth out of S) > ``ratio``.

    If each of n GPUs can send a byte to every other within t seconds, the bandwidth out of S is at least |S|
    (n − |S|)/t, so the quotient is at most t. ``fed``: number of GPUs that have data to send; only they count
    in the numerator (see `bottleneck`). False means that this proof fails, not that such a set exists.
    """
    n = fabric.ranks
    try:
        use = resource_use(fabric, *np.nonzero(~np.eye(n, dtype=bool)))
    except InputError:
        return False
    slowest = max(float(use.seconds(np.ones(n * n - n)).max()), 1 / (fabric.flow_bandwidth or np.inf))
    return slowest / (n - 1 if fed == 1 else 1) <= ratio * (1 + 1e-12)


class _FlowNetwork:
    """A fabric as a graph for SciPy's maximum flow; the first nodes are the memories of the GPUs.

    If GPUs have a rate limit, port nodes lie between GPUs and links. A super-source feeds the graph, a
    super-sink drains it. SciPy counts in 32 bits: where exact numbers do not fit, capacities of links are
    rounded up and the flow from the super-source down. The nodes on the source's side of the minimum cut are
    then still a valid cut, whose capacity is computed exactly.
    """

    def __init__(self, fabric: Fabric, reverse: bool = False):
        from scipy.sparse import csr_matrix

        w, gpu, nodes = wires(fabric), np.arange(fabric.ranks), fabric.ranks + len(fabric.switches)
        edges = [(w.source, w.target, w.bandwidth)]
        limit = _port_limit(fabric)
        if limit < math.inf:
            out, into = nodes + gpu, nodes + gpu.size + gpu
            source, target = (np.where(end < gpu.size, 1, 0) for end in (w.source, w.target))
            edges = [(w.source + source * nodes, w.target + target * (nodes + gpu.size), w.bandwidth)]
            edges += [(gpu, out, np.full(gpu.size, limit)), (into, gpu, np.full(gpu.size, limit))]
            if fabric.forwards:
                edges.append((into, out, np.full(gpu.size, math.inf)))
            nodes += 2 * gpu.size
        ends, self.nodes = [np.concatenate(column) for column in zip(*edges, strict=True)], nodes
        self.source, self.target = ends[1::-1] if reverse else ends[:2]
        self.unit, self.units = _whole_multiples(ends[2])
        first, last = np.full(gpu.size, nodes), np.full(gpu.size, nodes + 1)
        positions = [np.concatenate((self.source, first, gpu)), np.concatenate((self.target, gpu, last))]
        numbers = np.arange(1, positions[0].size + 1)
        self._csr = csr_matrix((numbers, positions), shape=(nodes + 2, nodes + 2))
        self._position = np.asarray(self._csr.data, np.int64) - 1

    def cut(self, fed: Sequence[int], sink: int, ratio: Fraction) -> np.ndarray:
        """Return which nodes lie on the source's side of a minimum cut: a mask, shape (nodes,).

        A super-source feeds one unit to each GPU of ``fed``, and the units flow to the GPU ``sink``. A link
        of c B/s has the capacity ``ratio`` × c.
        """
        from scipy.sparse.csgraph import breadth_first_order, maximum_flow

        # Half of the 32-bit range, because reverse flow is added to a link's capacity.
        most, exact = 2**30 - 1, ratio * self.unit
        one, output = Fraction(exact.numerator), exact.denominator
        if output * len(fed) >= most:
            output = 2**29 // len(fed)
            one = exact * output
        up, down = one.numerator, one.denominator
        supply, drain = np.zeros((2, (self._position.size - len(self.units)) // 2), np.int64)
        supply[list(fed)], drain[sink] = output, most
        carried = [most if u < 0 else min(-(-u * up // down), most) for u in self.units]
        network = self._csr.copy()
        network.data = np.concatenate((carried, supply, drain))[self._position].astype(np.int32)
        left = network - maximum_flow(network, self.nodes, self.nodes + 1).flow
        left.eliminate_zeros()
        side = np.zeros(self.nodes + 2, bool)
        side[breadth_first_order(left, self.nodes, return_predecessors=False)] = True
        return side[: self.nodes]

    def capacity(self, side: np.ndarray) -> Fraction:
        """Return the total bandwidth in B/s of the edges from nodes in the mask ``side`` to others."""
        crossing = np.flatnonzero(side[self.source] & ~side[self.target])
        return sum((self.units[i] for i in crossing), 0) * self.unit


def _whole_multiples(values: np.ndarray) -> tuple[Fraction, list[int]]:
    """Return the largest number of which all finite ``values`` are whole multiples, and the multiples.

    An infinite value has the multiple −1.
    """
    exact = {v: Fraction(v) for v in np.unique(values[np.isfinite(values)]).tolist()}
    down = math.lcm(*(v.denominator for v in exact.values()))
    unit = Fraction(math.gcd(*(int(v * down) for v in exact.values())) or 1, down)
    multiple = {v: int(each / unit) for v, each in exact.items()}
    return unit, [multiple.get(v, -1) for v in values.tolist()]
