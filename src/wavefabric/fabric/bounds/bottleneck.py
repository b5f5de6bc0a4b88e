"""The bottleneck cut of a fabric: what bounds an all-gather, a broadcast and their reverses."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from wavefabric.errors import InputError
from wavefabric.fabric.bounds.cuts import Cut, FlowNetwork, capacity_graph, port_rates
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.electrical.resources import resource_use
from wavefabric.fabric.electrical.routing import Wires, wires

#: Most sinks that are searched, one after the other, for the exact cut.
MOST_SINKS = 256


@lru_cache(maxsize=64)
def bottleneck(fabric: Fabric, reverse: bool = False, roots: tuple[int, ...] | None = None) -> Cut:
    """The set S of GPUs, not all, with the greatest |S|/capacity out of S.

    No all-gather of shares of b bytes is done in less than b |S|/capacity, and ForestColl builds schedules
    that reach it (Zhao et al. 2024, arXiv:2402.06787). With `reverse` capacities are into S, as for a
    reduce-scatter. With `roots` only these have anything to send, and only the others wait for it: a
    broadcast's root, or all but the root of a gather. Exact, unless more than `MOST_SINKS` GPUs differ from
    each other: then the best around a single GPU.

    Newton's (Dinkelbach's) iteration on the ratio, in exact fractions. For each GPU v left out, a maximum
    flow from a super-source that feeds one unit to each GPU, over links of ratio × capacity, either fills v
    or yields a set with a greater ratio. Of GPUs that symmetries map onto each other one is tried.

    Examples
    --------
    >>> from wavefabric.fabric import load
    >>> from wavefabric.fabric.bounds.bottleneck import bottleneck
    >>> cut = bottleneck(load("dgx-a100"))
    >>> len(cut.gpus), f"{8 / len(cut.gpus) * cut.capacity / 1e9:.2f} GB/s"
    (7, '342.86 GB/s')
    """
    n = fabric.ranks
    fed = tuple(range(n)) if roots is None else roots
    sends, receives = port_rates(fabric)[:: -1 if reverse else 1]
    waiting = [v for v in range(n) if roots is None or v not in roots]
    everybody = frozenset(range(n))
    best = max(
        [(len(fed) - (v in fed), receives[v], everybody - {v}) for v in waiting if n > 1]
        + [(1, sends[r], frozenset({r})) for r in fed if n > 1],
        key=lambda cut: cut[0] / cut[1] if cut[1] else np.inf,
        default=(0, np.inf, everybody),
    )
    start = Cut(best[2], float(best[1]))
    if n == 1 or not best[1]:
        return start
    if roots is None and _ring_reaches(fabric, start):
        return start
    sinks = _distinct_gpus(fabric) if roots is None else waiting
    if len(sinks) > MOST_SINKS:
        return start
    graph = capacity_graph(fabric)
    network = FlowNetwork(graph.reverse() if reverse else graph)
    tightest, ratio = None, Fraction(best[0]) / Fraction(best[1])
    for sink in sinks:
        while True:
            side = network.cut(fed, ratio * network.unit, sink)
            capacity = network.capacity(side)
            inside = int(np.count_nonzero(side[list(fed)]))
            if inside and not capacity:
                return Cut(frozenset(np.flatnonzero(side[:n]).tolist()), 0.0)
            if not inside or Fraction(inside) / capacity <= ratio:
                break
            tightest, ratio = side, Fraction(inside) / capacity
    if tightest is None:
        return start
    return Cut(frozenset(np.flatnonzero(tightest[:n]).tolist()), float(network.capacity(tightest)))


def _ring_reaches(fabric: Fabric, cut: Cut) -> bool:
    """Whether a ring in order of rank takes no longer than a cut says, so that none is tighter."""
    n = fabric.ranks
    ranks = np.arange(n)
    try:
        use = resource_use(fabric, ranks, (ranks + 1) % n)
    except InputError:
        return False
    load = np.bincount(use.resource, minlength=use.capacity.size) / use.capacity
    slowest = max(float(load.max()), 1 / (fabric.flow_bandwidth or np.inf))
    return slowest * (n - 1) <= len(cut.gpus) / cut.capacity * (1 + 1e-12)


def _distinct_gpus(fabric: Fabric) -> list[int]:
    """One GPU of each class that symmetries of the fabric map onto each other."""
    n = fabric.ranks
    if len(fabric.switches) > 1:
        return list(range(n))
    w = wires(fabric)
    lowest = np.arange(n)
    for permutation in _candidate_symmetries(n):
        if _is_symmetry(w, np.append(permutation, n)):
            # GPUs that are mapped onto each other join the class of the lowest.
            while True:
                low = np.minimum(lowest, lowest[permutation])
                np.minimum.at(low, permutation, lowest)
                low = low[low]
                if (low == lowest).all():
                    break
                lowest = low
    return np.unique(lowest).tolist()


def _candidate_symmetries(n: int) -> list[np.ndarray]:
    """Shifts, turns and mirrors of rings, grids and hypercubes of n GPUs."""
    r = np.arange(n)
    permutations = [n - 1 - r]
    for m in [d for d in range(1, n) if n % d == 0]:
        block, at = np.divmod(r, m)
        permutations += [(r + m) % n, block * m + (at + 1) % m, block * m + m - 1 - at]
        permutations.append((n // m - 1 - block) * m + at)
        if m * m == n:
            permutations.append(at * m + block)
        if m & (m - 1) == 0 and (r ^ m).max() < n:
            permutations.append(r ^ m)
    return permutations


def _is_symmetry(w: Wires, permutation: np.ndarray) -> bool:
    source, target = permutation[w.source], permutation[w.target]
    order = np.lexsort((target, source))
    # Wires are in order of source and target.
    return (
        (source[order] == w.source).all()
        and (target[order] == w.target).all()
        and (w.bandwidth[order] == w.bandwidth).all()
    )
