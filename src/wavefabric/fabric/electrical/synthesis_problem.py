"""Converts an electrical fabric to the links over which `wavefabric.collectives.synthesis` sends chunks."""

from collections import defaultdict
from dataclasses import replace
from itertools import permutations

import numpy as np
from scipy.sparse import csr_array

from wavefabric.base.errors import InputError
from wavefabric.collectives.synthesis.demand import FAR, distances
from wavefabric.collectives.synthesis.problem import Links
from wavefabric.collectives.synthesis.relays import Pairs
from wavefabric.collectives.synthesis.translated_trees import shifted
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.electrical.static_routes import resource_use, static_routes


def direct_links(fabric: Fabric) -> Links | None:
    """Return the links between GPUs for a schedule synthesis; None if they do not connect all GPUs.

    Their bandwidths are whole chunks per round: 1 on the slowest link, rounded down on the others.
    """
    width = direct_bandwidths(fabric)
    if (distances(fabric.ranks, width) >= FAR).any():
        return None
    least = min(width.values(), default=1.0)
    return Links(fabric.ranks, {pair: max(1, int(w / least + 1e-9)) for pair, w in width.items()})


def direct_bandwidths(fabric: Fabric) -> dict[tuple[int, int], float]:
    """Return the bandwidth in B/s of all links together that lead from one GPU to another."""
    number = {name: r for r, name in enumerate(fabric.gpus)}
    width: dict[tuple[int, int], float] = defaultdict(float)
    for link in fabric.links:
        if link.source in number and link.target in number:
            width[number[link.source], number[link.target]] += link.bandwidth
    return width


def routed_links(fabric: Fabric, unit: float | None = None) -> Links:
    """Return a link for each pair of GPUs for a schedule synthesis, with groups that share a wire or port.

    Bandwidths of links and groups are whole chunks per round. ``unit`` is the bandwidth in B/s of one chunk
    per round, by default of the slowest link or group. Routes are static; pairs without a route are left out.
    """
    first_wire = static_routes(fabric).table
    pairs = [pair for pair in permutations(range(fabric.ranks), 2) if first_wire[pair] >= 0]
    use = resource_use(fabric, *np.array(pairs, np.int64).reshape(-1, 2).T)
    most = np.zeros(use.capacity.size)  # largest fraction of a pair's bytes on each resource
    np.maximum.at(most, use.resource, use.fraction)
    groups = defaultdict(set)
    for pair, resource in zip(use.pair.tolist(), use.resource.tolist(), strict=True):
        groups[float(use.capacity[resource] / most[resource]), resource].add(pairs[pair])
    alone = min(fabric.flow_bandwidth or np.inf, max(groups, default=(1.0,))[0])
    unit = unit or min(alone, min(groups, default=(1.0,))[0])
    shared = ((frozenset(links), int(rate / unit + 1e-9)) for (rate, _), links in groups.items())
    return Links(fabric.ranks, dict.fromkeys(pairs, int(alone / unit + 1e-9)), tuple(shared))


def translation_loads(fabric: Fabric, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return the translations of a periodic grid that every rank can send by, and the load of each.

    A translation is named by the rank to which it takes rank 0, along one axis of ``shape``. If direct links
    join the GPUs, only translations over one link count. One that any rank has no route for is left out. The
    second array, shape (links and ports, translations), has the seconds for which each link or port is busy
    if all ranks send one byte by that translation.
    """
    ranks = np.arange(fabric.ranks)
    along = [np.arange(1, n) * int(np.prod(shape[axis + 1 :])) for axis, n in enumerate(shape)]
    direct = direct_links(fabric)
    steps, loads = [], []
    for step in np.concatenate([*along, ranks[:0]]):
        goal = shifted(ranks, step, shape)
        if direct is not None and not all(pair in direct.capacity for pair in zip(ranks, goal, strict=True)):
            continue
        try:
            use = resource_use(fabric, ranks, goal)
        except InputError:  # some rank has no route to the rank that this step leads to
            continue
        steps.append(step)
        loads.append(use.seconds(np.ones(fabric.ranks)))
    return np.array(steps, np.int64), np.array(loads).T if loads else np.zeros((0, 0))


def adjacent_pairs(fabric: Fabric) -> Pairs:
    """Return the pairs of GPUs between which no other GPU lies, and the links and ports that they share.

    Where `Fabric.flow_bandwidth` limits single transfers, a pair is a link too.
    """
    first_wire = static_routes(replace(fabric, forwards=False)).table
    pairs = np.argwhere((first_wire[: fabric.ranks] >= 0) & ~np.eye(fabric.ranks, dtype=bool))
    use = resource_use(fabric, *pairs.T)
    rows, columns, number = use.resource, use.pair, np.arange(len(pairs))
    seconds, count = use.fraction / use.capacity[use.resource], use.capacity.size
    if fabric.flow_bandwidth is not None:
        rows, columns = np.r_[rows, count + number], np.r_[columns, number]
        seconds, count = np.r_[seconds, np.full(len(pairs), 1 / fabric.flow_bandwidth)], count + len(pairs)
    loads = csr_array((seconds, (rows, columns)), shape=(count, len(pairs)))
    return Pairs(pairs, loads, fabric.alpha + use.latency)
