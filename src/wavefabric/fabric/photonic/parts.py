"""A round whose circuits do not fit at once, dealt out to parts, and wavelengths, that do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wavefabric.fabric.photonic.edges import Route, flat_edges, grid, route_edges
from wavefabric.fabric.photonic.routing.ripup import Ways
from wavefabric.fabric.photonic.wafer import PhotonicFabric

#: How often circuits that are in each other's way are laid again before one gives up.
_PASSES = 8
#: In how many layers another route is looked for.
_TRIED = 4
#: At most so many circuits may be in the way of others at first.
_MOST = 200


def first_fit(fabric: PhotonicFabric, routes: Sequence[Route], order: np.ndarray) -> np.ndarray:
    """A layer for each circuit: the first in which it is in nobody's way.

    In a layer all circuits have the same wavelengths at the same time: no edge has more of them than
    waveguides, and no tile sends or receives two.

    Parameters
    ----------
    fabric : PhotonicFabric
    routes : sequence of tuple of int
    order : ndarray of int, shape (routes,)
        In which circuits are taken.

    Returns
    -------
    ndarray of int, shape (routes,)
        As many layers as it takes, from 0.
    """
    lines, room = _lines(fabric, routes)
    rows, rooms = [line.tolist() for line in lines], room.tolist()
    full = [0] * len(rooms)
    load: list[dict[int, int]] = [{} for _ in rooms]
    layer = np.zeros(len(rows), np.int64)
    for i in order.tolist():
        taken = 0
        for place in rows[i]:
            taken |= full[place]
        free = (~taken & (taken + 1)).bit_length() - 1
        layer[i] = free
        for place in rows[i]:
            count = load[place].get(free, 0) + 1
            load[place][free] = count
            if count == rooms[place]:
                full[place] |= 1 << free
    return layer


def orders(fabric: PhotonicFabric, routes: Sequence[Route]) -> list[np.ndarray]:
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
    """A layer and a route for each circuit, in fewer layers than `first_fit` takes.

    Parameters
    ----------
    fabric : PhotonicFabric
    routes : sequence of tuple of int
        To begin with.
    layers : int
        Parts times the sets of wavelengths that each has.
    reroute : bool
        Whether circuits may take other routes.
    seed : int

    Returns
    -------
    layer : ndarray of int, shape (routes,)
    routes : list of tuple of int
        None if none were found: which is no proof that there are none.

    Notes
    -----
    Circuits that are in the way of others are laid again by negotiated congestion, as in `ripup`, over all
    layers. Lasers and photodiodes count as edges with room for one.
    """
    table = _Table(fabric, routes, layers)
    for i in orders(fabric, routes)[0]:
        table.put(i, table.best(i))
    rng = np.random.default_rng(seed)
    ways = Ways(grid(fabric)) if reroute else None
    for _ in range(_PASSES):
        if table.fits:
            return table.layer, table.routes
        table.history += table.load > table.room
        crowded = [i for i in range(len(routes)) if table.crowded(i)]
        if len(crowded) > _MOST:
            return None
        rng.shuffle(crowded)
        for i in crowded:
            if table.crowded(i):
                table.move(i, ways)
    return (table.layer, table.routes) if table.fits else None


def _lines(fabric: PhotonicFabric, routes: Sequence[Route]) -> tuple[list[np.ndarray], np.ndarray]:
    """What each circuit needs: edges, a laser and a photodiode; and how many of each there are in a layer."""
    tiles = fabric.ranks
    edges, first = flat_edges(fabric.columns, routes)
    room = np.concatenate((grid(fabric).capacity, np.ones(2 * tiles, np.int64)))
    ends = np.array([(4 * tiles + r[0], 5 * tiles + r[-1]) for r in routes])
    return [np.append(edges[i:j], e) for i, j, e in zip(first[:-1], first[1:], ends, strict=True)], room


class _Table:
    """Which circuits are in which layer, and what its edges, lasers and photodiodes carry."""

    def __init__(self, fabric: PhotonicFabric, routes: Sequence[Route], layers: int):
        self.columns, self.edges = fabric.columns, 4 * fabric.ranks
        self.routes = list(routes)
        self.lines, self.room = _lines(fabric, routes)
        self.ends = [line[-2:] for line in self.lines]
        self.layer = np.zeros(len(routes), np.int64)
        self.load = np.zeros((layers, self.room.size), np.int64)
        self.history = np.zeros((layers, self.room.size))

    @property
    def fits(self) -> bool:
        return not (self.load > self.room).any()

    def put(self, i: int, layer: int) -> None:
        self.layer[i] = layer
        self.load[layer, self.lines[i]] += 1

    def best(self, i: int) -> int:
        """The first layer with the least that would be too much in the circuit's way."""
        over = self.load[:, self.lines[i]] + 1 - self.room[self.lines[i]]
        return int(np.argmin(np.maximum(over, 0).sum(axis=1)))

    def crowded(self, i: int) -> bool:
        line = self.lines[i]
        return bool((self.load[self.layer[i], line] > self.room[line]).any())

    def move(self, i: int, ways: Ways | None) -> None:
        """Take a circuit out, and lay it where it is cheapest."""
        self.load[self.layer[i], self.lines[i]] -= 1
        here = self._price(slice(None), self.lines[i]).sum(axis=1)
        layer = int(np.argmin(here))
        if ways is not None and here[layer] >= len(self.lines[i]) + 8:
            route = self.routes[i]
            for other in np.argsort(here, kind="stable")[:_TRIED].tolist():
                way, cost = ways.cheapest(route[0], route[-1], self._price(other, slice(0, self.edges)))
                cost += float(self._price(other, self.ends[i]).sum())
                if cost < here[layer]:
                    layer, here[other], self.routes[i] = other, cost, way
            self.lines[i] = np.append(route_edges(self.columns, self.routes[i]), self.ends[i])
        self.put(i, layer)

    def _price(self, layers, edges) -> np.ndarray:
        """1 for what is free, more for what is not, the more the more often that was so."""
        over = np.maximum(self.load[layers, edges] + 1 - self.room[edges], 0)
        return 1 + (over > 0) * (8 + 8 * self.history[layers, edges]) + 8.0 * over
