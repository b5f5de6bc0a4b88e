"""Routes drawn at random from the shortest simple paths of every pair, as the paper's "random" ones are."""

from __future__ import annotations

from functools import cache

import numpy as np

from wavefabric.fabric.photonic.fabric import PhotonicFabric


class Draws:
    """The k shortest simple paths of every pair of a round, ready to be drawn from many times.

    Parameters
    ----------
    fabric : PhotonicFabric
    pairs : sequence of (src, dst)
    k : int
        Paths of a pair; fewer where there are no more.
    """

    def __init__(self, fabric: PhotonicFabric, pairs, k: int = 32):
        known = [_paths(fabric, src, dst, k) for src, dst in pairs]
        longest = max(len(path) for paths in known for path in paths) - 1
        self._columns = fabric.columns
        self._edges = 2 * fabric.ranks
        #: Edges of path j of pair i, without direction; filled up with a number that is no edge.
        self._table = np.full((len(known), k, longest), self._edges, np.int32)
        self._counts = np.array([len(paths) for paths in known])
        for i, paths in enumerate(known):
            for j, path in enumerate(paths):
                self._table[i, j, : len(path) - 1] = self._numbers(np.array(path))

    def overlap(self, rng: np.random.Generator) -> int:
        """Most paths on one edge, both directions together, when each pair takes one of its paths."""
        which = (rng.random(self._counts.size) * self._counts).astype(np.int64)
        used = self._table[np.arange(which.size), which]
        return int(np.bincount(used.ravel(), minlength=self._edges + 1)[: self._edges].max())

    def _numbers(self, path: np.ndarray) -> np.ndarray:
        """An edge is numbered after its left or upper tile: 2t to the right of it, 2t + 1 below it."""
        low, high = np.minimum(path[:-1], path[1:]), np.maximum(path[:-1], path[1:])
        return 2 * low + (high - low == self._columns) * (self._columns > 1)


def _paths(fabric: PhotonicFabric, src: int, dst: int, k: int) -> list[tuple[int, ...]]:
    """k shortest simple paths; those of pairs that are mirror images are mirror images."""
    rows, columns = fabric.rows, fabric.columns

    def mirrored(tile: int, route: tuple[bool, bool]) -> int:
        row, column = divmod(tile, columns)
        return (rows - 1 - row if route[0] else row) * columns + (
            columns - 1 - column if route[1] else column
        )

    mirrors = [(a, b) for a in (False, True) for b in (False, True)]
    images = [(mirrored(src, route), mirrored(dst, route), route, False) for route in mirrors]
    images += [(b, a, route, True) for a, b, route, _ in images]
    a, b, route, turned = min(images)
    paths = [tuple(mirrored(tile, route) for tile in path) for path in _shortest(fabric, a, b, k)]
    return [path[::-1] for path in paths] if turned else paths


@cache
def _shortest(fabric: PhotonicFabric, src: int, dst: int, k: int) -> list[tuple[int, ...]]:
    from wavefabric.fabric.photonic.routing.k_shortest import k_shortest

    return k_shortest(fabric, src, dst, k)
