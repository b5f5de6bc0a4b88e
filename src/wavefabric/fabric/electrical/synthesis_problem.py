"""An electrical fabric as the links over which `wavefabric.collectives.synthesis` sends chunks."""

from collections import defaultdict

import numpy as np

from wavefabric.collectives.synthesis.demand import FAR, distances
from wavefabric.collectives.synthesis.problem import Links
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.electrical.static_routes import resource_use


def direct_links(fabric: Fabric) -> Links | None:
    """Chunks a round over each link of GPUs that are joined directly, the slowest link carrying one.

    None if such links do not join all GPUs.
    """
    number = {name: r for r, name in enumerate(fabric.gpus)}
    width: dict[tuple[int, int], float] = defaultdict(float)
    for link in fabric.links:
        if link.source in number and link.target in number:
            width[number[link.source], number[link.target]] += link.bandwidth
    if (distances(fabric.ranks, width) >= FAR).any():
        return None
    least = min(width.values(), default=1.0)
    return Links(fabric.ranks, {pair: max(1, int(w / least + 1e-9)) for pair, w in width.items()})


def routed_links(fabric: Fabric, unit: float | None = None) -> Links:
    """Links between all GPUs by their static routes: a round carries `unit` B/s a chunk, rounded down.

    What routes share is a group of links: wires, and what GPUs send and receive in all. `unit` is by default
    that of the slowest, so that it carries one chunk. `InputError` if a pair has no route.
    """
    src, dst = (ends[~np.eye(fabric.ranks, dtype=bool)] for ends in np.indices((fabric.ranks,) * 2))
    use, pairs = resource_use(fabric, src, dst), list(zip(src.tolist(), dst.tolist(), strict=True))
    groups = defaultdict(set)
    for pair, resource in zip(use.pair.tolist(), use.resource.tolist(), strict=True):
        groups[float(use.capacity[resource]), resource].add(pairs[pair])
    rates = [rate for rate, _ in groups]
    alone = min(fabric.flow_bandwidth or np.inf, max(rates, default=1.0))
    unit = unit or min(alone, *rates, alone)
    capacity = dict.fromkeys(pairs, int(alone / unit + 1e-9))
    shared = ((frozenset(links), int(rate / unit + 1e-9)) for (rate, _), links in groups.items())
    return Links(fabric.ranks, capacity, tuple(shared))
