"""Number the edges of an optical network, and track which wavelengths are free on them in a round."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from wavefabric.collectives.synthesis.deadline import Deadline
from wavefabric.collectives.synthesis.problem import Edge, Links, OpticalNetwork
from wavefabric.collectives.synthesis.search import Lightpath

#: A route as numbers of its edges, and as its tiles.
Route = tuple[tuple[int, ...], tuple[int, ...]]


class RoutedNetwork:
    """Holds an optical network with numbered edges, and its routes as tuples of edge numbers.

    Constraint (6) of docs/synthesis.md: a wavelength is on an edge of W waveguides at most W times. As each
    tile sends and receives a wavelength at most once, the constraint always holds on *wide* edges, which have
    W ≥ min(tiles that send over the edge, tiles that receive over the edge).
    """

    def __init__(self, network: OpticalNetwork, deadline: float = math.inf):
        self.network, stop = network, Deadline(deadline)
        number: dict[Edge, int] = {}
        sends: dict[int, set[int]] = defaultdict(set)
        receives: dict[int, set[int]] = defaultdict(set)
        numbered: dict[Edge, list[Route]] = {}
        for (s, d), routes in network.routes.items():
            stop.check()
            for route in routes:
                edges = []
                for a, b in pairwise(route):
                    edge = (min(a, b), max(a, b)) if network.shared else (a, b)
                    edges.append(number.setdefault(edge, len(number)))
                    sends[edges[-1]].add(s)
                    receives[edges[-1]].add(d)
                numbered.setdefault((s, d), []).append((tuple(edges), tuple(route)))
        self.waveguides = [network.waveguides_of(a, b) for a, b in number]
        self.wide = [w >= min(len(sends[e]), len(receives[e])) for e, w in enumerate(self.waveguides)]
        #: Whether all edges are wide, so that waveguides never run out.
        self.all_wide = all(self.wide)
        #: By pair, the routes that can be used, shortest first.
        self.routes: dict[Edge, list[Route]] = {}
        for pair, routes in numbered.items():
            if usable := [route for route in routes if all(self.waveguides[e] for e in route[0])]:
                self.routes[pair] = sorted(usable, key=lambda r: len(r[0]))
        #: Edges as links, whose capacity is the number of circuits that an edge carries per round.
        capacity = {e: w * network.lasers for e, w in zip(number, self.waveguides, strict=True)}
        self.links = Links(network.ranks, capacity)

    def hops(self, s: int, d: int) -> int:
        """Return the number of edges of the shortest route of a pair."""
        return len(self.routes[s, d][0][0])

    def one_route_per_pair(self) -> OpticalNetwork:
        """Return the network with one shortest route per pair, the one with fewest turns, along rows first.

        Where tiles are numbered row by row, that is dimension-order routing, which uses edges evenly.
        """
        paths = {pair: (min((tiles for _, tiles in r), key=_turns),) for pair, r in self.routes.items()}
        return replace(self.network, routes=paths)

    def narrow(self, edges: Iterable[int]) -> tuple[int, ...]:
        """Return those of ``edges`` whose waveguides can run out (narrow edges), in ascending order."""
        return tuple(sorted(e for e in edges if not self.wide[e]))

    def distinct_routes(self, s: int, d: int) -> dict[tuple[int, ...], Route]:
        """Return the routes of a pair that differ in narrow edges: edges whose waveguides can run out.

        The result is a dictionary from narrow edges to the shortest route that has exactly these narrow
        edges.
        """
        return {self.narrow(route[0]): route for route in reversed(self.routes[s, d])}


def _turns(tiles: tuple[int, ...]) -> tuple[int, int, list[int]]:
    moves = [b - a for a, b in pairwise(tiles)]
    return len(moves), sum(a != b for a, b in pairwise(moves)), [abs(m) for m in moves]


class FreeWavelengths:
    """Tracks the free wavelengths of lasers, photodiodes and edges in one round, as bit masks."""

    def __init__(self, net: RoutedNetwork):
        self.net = net
        ranks, all_free = net.network.ranks, (1 << net.network.lasers) - 1
        self.lasers, self.photodiodes = [all_free] * ranks, [all_free] * ranks
        self.sends, self.receives = [net.network.at_once] * ranks, [net.network.at_once] * ranks
        self.free = [all_free] * len(net.waveguides)
        #: Number of circuits by (edge, wavelength bit).
        self.used: Counter[tuple[int, int]] = Counter()

    def take(
        self, src: int, dst: int, wavelengths: int = -1, route: tuple[int, ...] | None = None
    ) -> Lightpath | None:
        """Set up a circuit on the first free wavelength; return wavelength and route, or None without one.

        ``wavelengths``: bit mask of those allowed, by default all. Without ``route`` it is any route of the
        pair.
        """
        ends = self.lasers[src] & self.photodiodes[dst] & wavelengths
        if not (ends and self.sends[src] and self.receives[dst]):
            return None
        for edges, tiles in self.net.routes.get((src, dst), ()):
            free = ends if route in (None, tiles) else 0
            for e in edges:
                free &= self.free[e]
            if free:
                bit = free & -free
                self.lasers[src] &= ~bit
                self.photodiodes[dst] &= ~bit
                self.sends[src] -= 1
                self.receives[dst] -= 1
                for e in edges:
                    if not self.net.wide[e]:
                        self.used[e, bit] += 1
                        if self.used[e, bit] >= self.net.waveguides[e]:
                            self.free[e] &= ~bit
                return bit.bit_length() - 1, tiles
        return None
