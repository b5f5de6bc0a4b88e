"""What a schedule puts on the wires: transfers between pairs of GPUs, and operations of switches on trees."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.structure import units
from wavefabric.errors import InputError
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.electrical.static_routes import ResourceUse, resource_use, static_routes

#: An operation of a switch: whether it is a sum, whose, and of whom (or for whom); GPUs ascend.
Tree = tuple[bool, int, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Flows:
    """Routes over a fabric, and which of them transfers take.

    ``route``: of each transfer, −1 of what stays within a GPU, and of all rows but the first of an operation
    of a switch, which stands for all. ``use``: resources of routes, in place of those of pairs.
    ``words``: of each route.
    """

    route: np.ndarray
    use: ResourceUse
    words: tuple[str, ...]


def flows(schedule: Schedule, fabric: Fabric) -> Flows:
    """Routes of all transfers by static routes; `InputError` if there is none.

    An operation of a switch takes the union of the routes of its rows. Where they part, or meet, at a switch
    that multicasts and reduces (`Fabric.multicast_switches`), what they share is crossed once, elsewhere once
    for each. A GPU's own part goes to the first such switch and back. Rows that meet no such switch are
    refused.
    """
    t, ranks, u = schedule.transfers, schedule.ranks, units(schedule)
    away = (t["src"] != t["dst"]) & (t["switch"] == 0)
    ends = t["src"][away].astype(np.int64) * ranks + t["dst"][away]
    pairs, number = np.unique(ends, return_inverse=True)
    route = np.full(t.size, -1, np.int64)
    route[away] = number
    src, dst = np.divmod(pairs, ranks)
    words = [f"{fabric.gpus[a]} -> {fabric.gpus[b]}" for a, b in zip(src.tolist(), dst.tolist(), strict=True)]
    use = resource_use(fabric, src, dst)
    trees: dict[Tree, int] = {}
    for unit in np.flatnonzero(u.switched).tolist():
        rows, sums = slice(u.first[unit], u.first[unit + 1]), bool(u.sums[unit])
        one, many = (t[end][rows].tolist() for end in (("dst", "src") if sums else ("src", "dst")))
        if set(many) != {one[0]}:
            key = sums, one[0], tuple(sorted(many))
            route[u.first[unit]] = trees.setdefault(key, pairs.size + len(trees))
    if trees:
        use = with_trees(use, list(trees))
        kinds = {True: "sum at", False: "multicast of"}
        words += [f"{kinds[sums]} {fabric.gpus[at]}" for sums, at, _ in trees]
    return Flows(route, use, tuple(words))


def with_trees(use: ResourceUse, trees: Sequence[Tree]) -> ResourceUse:
    """The same with routes of operations of switches behind those of pairs; `InputError` as `flows`."""
    fabric = use.fabric
    limited = fabric.copy_bandwidth is not None
    first, wires = use.latency.size, use.wires
    pair, resource, latency = [use.pair], [use.resource], [use.latency]
    for number, (sums, at, members) in enumerate(trees):
        crossed = _crossed(fabric, sums, at, members)
        copies = np.array([wire for wire, _ in crossed], np.int64)
        own = [copies]
        if limited:
            # Ports of GPUs: what leaves one, and what comes to it.
            for gpu_of, base in ((wires.source, 0), (wires.target, fabric.ranks)):
                gpu = gpu_of[copies]
                own.append(wires.source.size + base + gpu[gpu < fabric.ranks])
        uses = np.concatenate(own)
        pair.append(np.full(uses.size, first + number))
        resource.append(uses)
        latency.append(np.array([max(delay for _, delay in crossed)]))
    pairs, resources, latencies = map(np.concatenate, (pair, resource, latency))
    return ResourceUse(fabric, wires, pairs, resources, use.capacity, latencies)


def _crossed(fabric: Fabric, sums: bool, at: int, members: Sequence[int]) -> list[tuple[int, float]]:
    """Wires of an operation, each as often as it is crossed, with the latency of a route that takes it.

    A wire is crossed once for all rows whose routes have the same next switch that copies (or the same last
    one that adds up), or the same GPU at the end.
    """
    able = {len(fabric.gpus) + fabric.switches.index(name) for name in fabric.multicast_switches}
    routes = static_routes(fabric)
    source, target = routes.wires.source.tolist(), routes.wires.target.tolist()

    others = [gpu for gpu in members if gpu != at]
    # Of each other one; behind them, for the own part, the route of the first in the other direction.
    far, near = others + [at] * (at in members), [at] * len(others) + others[:1] * (at in members)
    which, wire = routes.wires_of(*map(np.array, (far, near) if sums else (near, far)))
    ends = np.searchsorted(which, np.arange(1, len(far)))
    paths = [part.tolist() for part in np.split(wire, ends)]
    if at in members:
        # To the first such switch on a route to another one, and back.
        reverse = paths.pop()
        there, back = (reverse, paths[0]) if sums else (paths[0], reverse)
        up = next((i for i, w in enumerate(there, 1) if target[w] in able), 0)
        down = next((i for i, w in enumerate(back[::-1], 1) if source[w] in able), 0)
        paths += [there[:up] + back[len(back) - down :]] if up and down else []
    crossed: dict[tuple[int, int], float] = {}
    for path in paths:
        if not any(target[w] in able for w in path):
            names = ", ".join(fabric.multicast_switches) or "none"
            fault = f"no switch on the route of {fabric.gpus[at]} to another multicasts and reduces"
            allowed = f"those of multicast_switches ({names})"
            raise InputError(f"fabric {fabric.name}: {fault}; allowed: {allowed}")
        delay = float(routes.wires.latency[path].sum())
        # The end of the route, from which on, or up to which, nothing has been joined.
        stop = source[path[0]] if sums else target[path[-1]]
        for w in path if sums else path[::-1]:
            end = source[w] if sums else target[w]
            stop = end if end in able else stop
            crossed[w, stop] = max(crossed.get((w, stop), 0.0), delay)
    return [(wire, delay) for (wire, _), delay in crossed.items()]
