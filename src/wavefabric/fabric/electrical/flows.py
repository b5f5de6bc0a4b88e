"""Maps the transfers of a schedule to routes: between pairs of GPUs, or a tree for a switch operation."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.structure import units
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.electrical.static_routes import ResourceUse, resource_use, static_routes

#: A switch operation: whether it is a sum, its issuing GPU, and the GPUs summed or written to, ascending.
Tree = tuple[bool, int, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Flows:
    """Holds the routes that the transfers of a schedule use.

    ``route``: index of each transfer's route in ``use`` and ``words``. All transfers of a switch operation
    share a route, which only the first of them names; the others have −1, as have transfers within a GPU.
    ``use``: links and ports on each route. ``words``: description of each route.
    """

    route: np.ndarray
    use: ResourceUse
    words: tuple[str, ...]


def flows(schedule: Schedule, fabric: Fabric) -> Flows:
    """Return the static routes of all transfers of a schedule; `InputError` if a transfer has no route.

    A switch operation (multicast, or sum) uses the routes of all its transfers together. The routes of a
    multicast split at a switch, those of a sum join at one. If this switch multicasts and reduces
    (`Fabric.multicast_switches`), the links that the routes share are crossed once, otherwise once per
    transfer. If a GPU also sends to itself, this part travels to the first such switch and back. `InputError`
    if a route passes no such switch.
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
    """Return the links and ports of the routes in ``use`` and of one more route per switch operation.

    ``trees``: (whether it is a sum, GPU that issues it, GPUs that are summed or written to) of each
    operation. `InputError` as in `flows`.
    """
    fabric = use.fabric
    limited = fabric.copy_bandwidth is not None
    first, wires = use.latency.size, use.wires
    pair, resource, fraction, latency = [use.pair], [use.resource], [use.fraction], [use.latency]
    for number, (sums, at, members) in enumerate(trees):
        copies, parts, late = _crossed(fabric, sums, at, members)
        uses = [(copies, parts)]
        if limited:
            # Ports of GPUs, for outgoing and for incoming bytes.
            for gpu_of, base in ((wires.source, 0), (wires.target, fabric.ranks)):
                ends = gpu_of[copies] < fabric.ranks
                uses.append((wires.source.size + base + gpu_of[copies][ends], parts[ends]))
        for column, values in zip((resource, fraction), zip(*uses, strict=True), strict=True):
            column.append(np.concatenate(values))
        pair.append(np.full(resource[-1].size, first + number))
        latency.append(np.array([late]))
    pairs, resources, fractions, latencies = map(np.concatenate, (pair, resource, fraction, latency))
    return ResourceUse(fabric, wires, pairs, resources, fractions, use.capacity, latencies)


def _crossed(
    fabric: Fabric, sums: bool, at: int, members: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the wires that a switch operation crosses, the fraction of bytes on each, and its latency in s.

    A multicast crosses a wire once for all GPUs whose routes next reach the same switch that can copy, and
    once for each GPU whose route reaches no other such switch. A sum crosses a wire likewise, by the last
    switch that can add. Where routes are split, each part of the bytes takes the same switches on all routes.
    ``sums``: whether it is a sum; ``at``: the GPU that issues it; ``members``: the GPUs that are written to
    or summed.
    """
    able = {len(fabric.gpus) + fabric.switches.index(name) for name in fabric.multicast_switches}
    routes = static_routes(fabric)
    ends = list(zip(routes.wires.source.tolist(), routes.wires.target.tolist(), strict=True))
    others = [gpu for gpu in members if gpu != at]
    # Routes to all other GPUs; last, for the GPU's own part, the first route in the other direction.
    far, near = others + [at] * (at in members), [at] * len(others) + others[:1] * (at in members)
    which, wire, fraction, latency = routes.wires_of(*map(np.array, (far, near) if sums else (near, far)))
    cuts = np.searchsorted(which, np.arange(1, len(far)))
    crossed: dict[tuple[int, int], float] = {}
    for number, (over, parts) in enumerate(zip(np.split(wire, cuts), np.split(fraction, cuts), strict=True)):
        stops = _stops(list(zip(over.tolist(), parts.tolist(), strict=True)), ends, able, sums)
        end = far[number]
        if all(stop == end for _, stop in stops):
            if number == len(others):
                continue
            names = ", ".join(fabric.multicast_switches) or "none"
            fault = f"no switch on the route of {fabric.gpus[at]} to another multicasts and reduces"
            allowed = f"those of multicast_switches ({names})"
            raise InputError(f"fabric {fabric.name}: {fault}; allowed: {allowed}")
        for key, part in stops.items():
            # A GPU's own part returns from its first such switch; the other routes count the wires up to it.
            if number < len(others) or key[1] == at:
                crossed[key] = max(crossed.get(key, 0.0), part)
    copies, parts = np.array([wire for wire, _ in crossed]), np.array(list(crossed.values()))
    return copies, parts, float(latency.max())


def _stops(
    route: Sequence[tuple[int, float]], ends: Sequence[tuple[int, int]], able: set[int], sums: bool
) -> dict[tuple[int, int], float]:
    """Return a dictionary from (wire, stop) of a route to the fraction of its bytes that cross the wire.

    For a multicast the stop is the next switch after the wire that can multicast, or else the last GPU; a
    split route may have several. For ``sums`` it is the last switch before the wire that can add, or else the
    first GPU. ``route``: (wire, fraction of the bytes), in order; ``ends``: both nodes of each wire;
    ``able``: switches that can multicast and add.
    """
    stops: dict[tuple[int, int], float] = defaultdict(float)
    beyond: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for wire, fraction in route if sums else reversed(route):
        near, far = ends[wire] if sums else ends[wire][::-1]
        parts = {near: 1.0} if near in able or near not in beyond else beyond[near]
        whole = sum(parts.values())
        for stop, part in parts.items():
            stops[wire, stop] += fraction * part / whole
            beyond[far][stop] += fraction * part / whole
    return stops
