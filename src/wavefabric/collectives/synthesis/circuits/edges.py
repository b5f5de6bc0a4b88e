"""Edges of a photonic fabric by number, and which wavelengths are free on them during a round."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from wavefabric.collectives.synthesis.deadline import Deadline
from wavefabric.collectives.synthesis.problem import Edge, Lights


class Net:
    """Routes as numbers of edges.

    An edge's constraint (6) says that each wavelength is on it at most W times. As a wavelength leaves each
    tile once and arrives at each once, it cannot be exceeded where W ≥ min(tiles that send over it, tiles
    that receive over it); such edges are *wide*, and are left out. `OutOfTime` after the deadline, of
    `clock.now`.
    """

    def __init__(self, lights: Lights, deadline: float = math.inf):
        self.lights = lights
        stop = Deadline(deadline)
        self.edges: list[Edge] = []
        number: dict[Edge, int] = {}
        everything: dict[Edge, list[tuple[int, ...]]] = {}
        sends: list[set[int]] = []
        receives: list[set[int]] = []
        for (s, d), ways in lights.routes.items():
            stop.check()
            for way in ways:
                edges = []
                for a, b in pairwise(way):
                    edge = (min(a, b), max(a, b)) if lights.shared else (a, b)
                    if edge not in number:
                        number[edge] = len(self.edges)
                        self.edges.append(edge)
                        sends.append(set())
                        receives.append(set())
                    edges.append(number[edge])
                    sends[number[edge]].add(s)
                    receives[number[edge]].add(d)
                everything.setdefault((s, d), []).append(tuple(edges))
        self.waveguides = [lights.of_edge(a, b) for a, b in self.edges]
        self.wide = [
            w >= min(len(s), len(d)) for w, s, d in zip(self.waveguides, sends, receives, strict=True)
        ]
        dark = {e for e, w in enumerate(self.waveguides) if w == 0}
        #: Of each pair: (edges, tiles) of the routes that can be used, shortest first.
        self.routes: dict[Edge, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {}
        for pair, ways in everything.items():
            usable = [
                (edges, tuple(way))
                for edges, way in zip(ways, lights.routes[pair], strict=True)
                if not dark & set(edges)
            ]
            if usable:
                self.routes[pair] = sorted(usable, key=lambda r: len(r[0]))
        self.capacity = {e: w * lights.lasers for e, w in zip(self.edges, self.waveguides, strict=True)}

    @property
    def all_wide(self) -> bool:
        """Whether waveguides never run out."""
        return all(self.wide)

    def straight(self) -> Lights:
        """The same fabric with one route a pair: a shortest one, of fewest turns, along rows first.

        Where tiles are numbered row by row, that is dimension-order routing, which uses edges evenly.
        """
        chosen = {}
        for pair, ways in self.routes.items():
            chosen[pair] = (min((tiles for _, tiles in ways), key=_bends),)
        return replace(self.lights, routes=chosen)

    def narrow(self, edges: Iterable[int]) -> list[int]:
        """Those of some edges whose constraint can be exceeded."""
        return [e for e in edges if not self.wide[e]]


def _bends(tiles: tuple[int, ...]) -> tuple[int, int, list[int]]:
    moves = [b - a for a, b in pairwise(tiles)]
    return len(moves), sum(a != b for a, b in pairwise(moves)), [abs(m) for m in moves]


class Room:
    """What is free in one round, wavelengths as bits."""

    def __init__(self, net: Net):
        self.net = net
        all_free = (1 << net.lights.lasers) - 1
        self.lasers = [all_free] * net.lights.ranks
        self.photodiodes = [all_free] * net.lights.ranks
        self.sends = [net.lights.at_once] * net.lights.ranks
        self.receives = [net.lights.at_once] * net.lights.ranks
        self.free = [all_free] * len(net.edges)
        #: Circuits of each wavelength on each edge that is used.
        self.used: dict[tuple[int, int], int] = {}

    def place(
        self, src: int, dst: int, wavelengths: int = -1, routes: Sequence | None = None
    ) -> tuple[int, tuple[int, ...]] | None:
        """Set up a circuit on the first wavelength and route that are free: (wavelength, tiles), or None.

        Parameters
        ----------
        src, dst : int
        wavelengths : int
            Those allowed, as bits.
        routes : sequence, optional
            Those of `Net.routes` by default.
        """
        if not (self.sends[src] and self.receives[dst]):
            return None
        ends = self.lasers[src] & self.photodiodes[dst] & wavelengths
        if not ends:
            return None
        for edges, tiles in self.net.routes.get((src, dst), ()) if routes is None else routes:
            free = ends
            for e in edges:
                free &= self.free[e]
            if free:
                bit = free & -free
                self._take(src, dst, bit, edges)
                return bit.bit_length() - 1, tiles
        return None

    def fits(self, src: int, dst: int, wavelength: int, tiles: tuple[int, ...]) -> bool:
        """Set up one certain circuit; False if something it needs is not free."""
        routes = [route for route in self.net.routes.get((src, dst), ()) if route[1] == tiles]
        return self.place(src, dst, 1 << wavelength, routes) is not None

    def _take(self, src: int, dst: int, bit: int, edges: tuple[int, ...]) -> None:
        self.lasers[src] &= ~bit
        self.photodiodes[dst] &= ~bit
        self.sends[src] -= 1
        self.receives[dst] -= 1
        for e in self.net.narrow(edges):
            used = self.used.get((e, bit), 0) + 1
            self.used[e, bit] = used
            if used >= self.net.waveguides[e]:
                self.free[e] &= ~bit
