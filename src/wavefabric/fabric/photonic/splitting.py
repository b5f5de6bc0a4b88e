"""A round whose circuits do not fit at once, split into parts (and wavelengths) that do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.routing.ripup import CheapestPaths
from wavefabric.fabric.photonic.tile_grid import Route, flat_edges, route_edges, tile_grid

#: Passes over the circuits in conflict before the search is given up.
_PASSES = 8
#: Layers in which another route is looked for.
_TRIED = 4
#: Most circuits in conflict after the first assignment.
_MOST = 200


def first_fit(fabric: PhotonicFabric, routes: Sequence[Route], order: np.ndarray) -> np.ndarray:
    """A layer for each circuit, in a given order: the first in which it conflicts with none.

    In a layer all circuits have the same wavelengths at the same time: no edge has more of them than
    waveguides, and no tile sends or receives two.
    """
    needs, capacity = _needs(fabric, routes)
    rows, most = [need.tolist() for need in needs], capacity.tolist()
    full = [0] * len(most)  # layers in which each resource is used up, as bits
    load: list[dict[int, int]] = [{} for _ in most]
    layer = np.zeros(len(rows), np.int64)
    for i in order.tolist():
        taken = 0
        for resource in rows[i]:
            taken |= full[resource]
        free = (~taken & (taken + 1)).bit_length() - 1
        layer[i] = free
        for resource in rows[i]:
            count = load[resource].get(free, 0) + 1
            load[resource][free] = count
            if count == most[resource]:
                full[resource] |= 1 << free
    return layer


def circuit_orders(fabric: PhotonicFabric, routes: Sequence[Route]) -> list[np.ndarray]:
    """Orders to try: as circuits begin along rows and columns, the longest first, and shift by shift.

    Straight routes are intervals, for which the first is the best; shifts (how far from source to
    destination) leave no tile with two circuits at once.
    """
    edges, first = flat_edges(fabric.columns, routes)
    length, start = np.diff(first), np.minimum.reduceat(edges, first[:-1])
    shift = np.array([(r[-1] - r[0]) % fabric.ranks for r in routes])
    keys = (length, start), (start, -length), (length, start, shift)
    return [np.lexsort(key) for key in keys]


def negotiate(
    fabric: PhotonicFabric,
    routes: Sequence[Route],
    layers: int,
    reroute: bool,
    seed: int = 0,
) -> tuple[np.ndarray, list[Route]] | None:
    """A layer and a route for each circuit, in so many layers; None if none were found (no proof).

    Circuits in conflict are laid again by negotiated congestion, as in `ripup`, over all layers; with
    `reroute` they may leave their routes. Lasers and photodiodes count as edges of capacity 1.
    """
    table = _Layers(fabric, routes, layers)
    for i in circuit_orders(fabric, routes)[0]:
        table.put(i, table.best(i))
    rng = np.random.default_rng(seed)
    paths = CheapestPaths(tile_grid(fabric)) if reroute else None
    for _ in range(_PASSES):
        if table.fits:
            return table.layer, table.routes
        table.history += table.load > table.capacity
        crowded = [i for i in range(len(routes)) if table.crowded(i)]
        if len(crowded) > _MOST:
            return None
        rng.shuffle(crowded)
        for i in crowded:
            if table.crowded(i):
                table.move(i, paths)
    return (table.layer, table.routes) if table.fits else None


def _needs(fabric: PhotonicFabric, routes: Sequence[Route]) -> tuple[list[np.ndarray], np.ndarray]:
    """What each circuit needs: edges, a laser and a photodiode; and how many of each there are in a layer."""
    tiles = fabric.ranks
    edges, first = flat_edges(fabric.columns, routes)
    capacity = np.concatenate((tile_grid(fabric).capacity, np.ones(2 * tiles, np.int64)))
    ends = np.array([(4 * tiles + r[0], 5 * tiles + r[-1]) for r in routes])
    return [np.append(edges[i:j], e) for i, j, e in zip(first[:-1], first[1:], ends, strict=True)], capacity


class _Layers:
    """Which circuits are in which layer, and what its edges, lasers and photodiodes carry."""

    def __init__(self, fabric: PhotonicFabric, routes: Sequence[Route], layers: int):
        self.columns, self.edges = fabric.columns, 4 * fabric.ranks
        self.routes = list(routes)
        self.needs, self.capacity = _needs(fabric, routes)
        self.ends = [need[-2:] for need in self.needs]
        self.layer = np.zeros(len(routes), np.int64)
        self.load = np.zeros((layers, self.capacity.size), np.int64)
        self.history = np.zeros((layers, self.capacity.size))

    @property
    def fits(self) -> bool:
        return not (self.load > self.capacity).any()

    def put(self, i: int, layer: int) -> None:
        self.layer[i] = layer
        self.load[layer, self.needs[i]] += 1

    def best(self, i: int) -> int:
        """The first layer in which the circuit overloads least."""
        over = self.load[:, self.needs[i]] + 1 - self.capacity[self.needs[i]]
        return int(np.argmin(np.maximum(over, 0).sum(axis=1)))

    def crowded(self, i: int) -> bool:
        need = self.needs[i]
        return bool((self.load[self.layer[i], need] > self.capacity[need]).any())

    def move(self, i: int, paths: CheapestPaths | None) -> None:
        """Take a circuit out, and lay it where it is cheapest."""
        self.load[self.layer[i], self.needs[i]] -= 1
        here = self._price(slice(None), self.needs[i]).sum(axis=1)
        layer = int(np.argmin(here))
        if paths is not None and here[layer] >= len(self.needs[i]) + 8:
            route = self.routes[i]
            for other in np.argsort(here, kind="stable")[:_TRIED].tolist():
                path, cost = paths.cheapest(route[0], route[-1], self._price(other, slice(0, self.edges)))
                cost += float(self._price(other, self.ends[i]).sum())
                if cost < here[layer]:
                    layer, here[other], self.routes[i] = other, cost, path
            self.needs[i] = np.append(route_edges(self.columns, self.routes[i]), self.ends[i])
        self.put(i, layer)

    def _price(self, layers, edges) -> np.ndarray:
        """1 for what is free, more for what is overloaded, rising with how often it was."""
        over = np.maximum(self.load[layers, edges] + 1 - self.capacity[edges], 0)
        return 1 + (over > 0) * (8 + 8 * self.history[layers, edges]) + 8.0 * over
