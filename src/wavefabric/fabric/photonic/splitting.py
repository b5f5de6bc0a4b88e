"""Splits a round whose circuits do not fit at once into parts (and wavelengths) that fit."""

from collections.abc import Sequence

import numpy as np

from wavefabric.collectives.builders.messages import first_fit
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.routing.ripup import cheapest
from wavefabric.fabric.photonic.tile_grid import Route, flat_edges, route_edges, tile_grid

#: Number of passes over circuits in conflict before the search fails.
_PASSES = 8
#: Number of layers in which another route is searched.
_TRIED = 4
#: Largest number of circuits in conflict after the first assignment; beyond, the search fails.
_MOST = 200


def in_layers(fabric: PhotonicFabric, routes: Sequence[Route], order: np.ndarray) -> np.ndarray:
    """Return a layer for each circuit; circuits in a layer can use one wavelength at the same time.

    In a layer no edge has more circuits than waveguides, and no tile sends or receives two. Circuits are
    assigned in ``order``, each to the first layer without a conflict.
    """
    needs, capacity = _needs(fabric, routes)
    layer = np.zeros(len(needs), np.int64)
    layer[order] = first_fit((needs[i].tolist() for i in order), capacity.tolist())
    return layer


def circuit_orders(fabric: PhotonicFabric, routes: Sequence[Route]) -> list[np.ndarray]:
    """Return orders in which to assign circuits to layers: by start, by decreasing length, and by shift.

    The first is the best for straight routes. The shift is the destination's number minus the source's:
    circuits of equal shift have different sources and different destinations.
    """
    edges, first = flat_edges(fabric.columns, routes)
    length, start = np.diff(first), np.minimum.reduceat(edges, first[:-1])
    shift = np.array([(r[-1] - r[0]) % fabric.ranks for r in routes])
    keys = (length, start), (start, -length), (length, start, shift)
    return [np.lexsort(key) for key in keys]


def negotiate(
    fabric: PhotonicFabric, routes: Sequence[Route], layers: int, reroute: bool, seed: int = 0
) -> tuple[np.ndarray, list[Route]] | None:
    """Assign a layer, of ``layers``, and a route to each circuit; return both, or None if none were found.

    Layers are as in `in_layers`. Circuits in conflict get another layer by negotiated congestion, as in
    `ripup`, and with ``reroute`` another route. Lasers and photodiodes count as edges of capacity 1. The
    search is not exhaustive: None is no proof.
    """
    routes, edges, grid = list(routes), 4 * fabric.ranks, tile_grid(fabric)
    needs, capacity = _needs(fabric, routes)
    layer = np.zeros(len(routes), np.int64)
    load = np.zeros((layers, capacity.size), np.int64)
    history = np.zeros(load.shape)

    def over(where, what) -> np.ndarray:
        """Return by how much one more circuit overloads the edges ``what`` in the layers ``where``."""
        return np.maximum(load[where, what] + 1 - capacity[what], 0)

    def price(where, what) -> np.ndarray:
        """Return the price of edges ``what`` in layers ``where``: it rises with overloads, now and past."""
        beyond = over(where, what)
        return 1 + (beyond > 0) * (8 + 8 * history[where, what]) + 8.0 * beyond

    def crowded(i: int) -> bool:
        return bool((load[layer[i], needs[i]] > capacity[needs[i]]).any())

    for i in circuit_orders(fabric, routes)[0]:
        layer[i] = np.argmin(over(slice(None), needs[i]).sum(axis=1))
        load[layer[i], needs[i]] += 1
    rng = np.random.default_rng(seed)
    for _ in range(_PASSES):
        if not (load > capacity).any():
            break
        history += load > capacity
        again = [i for i in range(len(routes)) if crowded(i)]
        if len(again) > _MOST:
            return None
        rng.shuffle(again)
        for i in filter(crowded, again):
            load[layer[i], needs[i]] -= 1
            here = price(slice(None), needs[i]).sum(axis=1)
            best, ends = int(np.argmin(here)), needs[i][-2:]
            if reroute and here[best] >= len(needs[i]) + 8:
                for other in np.argsort(here, kind="stable")[:_TRIED].tolist():
                    path, cost = cheapest(grid, routes[i][0], routes[i][-1], price(other, slice(0, edges)))
                    cost += float(price(other, ends).sum())
                    if cost < here[best]:
                        best, here[other], routes[i] = other, cost, path
                needs[i] = np.append(route_edges(fabric.columns, routes[i]), ends)
            layer[i] = best
            load[best, needs[i]] += 1
    return None if (load > capacity).any() else (layer, routes)


def _needs(fabric: PhotonicFabric, routes: Sequence[Route]) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the edges, laser and photodiode of each circuit, and how many of each a layer offers."""
    tiles = fabric.ranks
    edges, first = flat_edges(fabric.columns, routes)
    capacity = np.concatenate((tile_grid(fabric).capacity, np.ones(2 * tiles, np.int64)))
    ends = np.array([(4 * tiles + r[0], 5 * tiles + r[-1]) for r in routes])
    return [np.append(edges[i:j], e) for i, j, e in zip(first[:-1], first[1:], ends, strict=True)], capacity
