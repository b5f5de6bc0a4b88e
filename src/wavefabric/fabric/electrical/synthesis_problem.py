"""An electrical fabric as the links over which `wavefabric.collectives.synthesis` sends chunks."""

from collections import defaultdict

import numpy as np

from wavefabric.collectives.synthesis.problem import Links
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.electrical.static_routes import resource_use


def direct_links(fabric: Fabric) -> Links | None:
    """Chunks a round over each link of GPUs that are joined directly, the slowest link carrying one.

    None if those links do not join all GPUs in both directions.
    """
    number = {name: r for r, name in enumerate(fabric.gpus)}
    width: dict[tuple[int, int], float] = defaultdict(float)
    for link in fabric.links:
        if link.source in number and link.target in number:
            width[number[link.source], number[link.target]] += link.bandwidth
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    n, ends = fabric.ranks, np.array(sorted(width), np.int64).reshape(-1, 2).T
    joined = csr_array((np.ones(ends.shape[1]), tuple(ends)), shape=(n, n))
    if connected_components(joined, connection="strong")[0] > 1:
        return None
    least = min(width.values(), default=1.0)
    return Links(n, {pair: max(1, int(w / least + 1e-9)) for pair, w in width.items()})


def routed_links(fabric: Fabric, unit: float | None = None) -> Links:
    """Links between all pairs of GPUs by the static routes, of so many chunks a round as times `unit` in B/s.

    Links share the wires of their routes, and what GPUs send and receive in all, as groups. `unit` is by
    default the slowest of all these. Chunks are rounded down. `InputError` if a pair has no route.
    """
    n = fabric.ranks
    src, dst = (ends[~np.eye(n, dtype=bool)] for ends in np.indices((n, n)))
    use = resource_use(fabric, src, dst)
    used, member = np.unique(use.resource, return_inverse=True)
    rates = use.capacity[used].tolist()
    alone = min(fabric.flow_bandwidth or np.inf, max(rates, default=1.0))
    unit = min(alone, *rates) if unit is None and rates else unit or alone
    groups: list[set[tuple[int, int]]] = [set() for _ in used]
    for pair, group in zip(use.pair.tolist(), member.tolist(), strict=True):
        groups[group].add((int(src[pair]), int(dst[pair])))
    capacity = dict.fromkeys(zip(src.tolist(), dst.tolist(), strict=True), int(alone / unit + 1e-9))
    shared = zip(map(frozenset, groups), (int(rate / unit + 1e-9) for rate in rates), strict=True)
    return Links(n, capacity, tuple(shared))
