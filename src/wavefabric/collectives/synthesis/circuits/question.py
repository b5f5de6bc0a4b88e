"""The question of Algorithm 1 for a number of rounds, without wavelengths and with them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from wavefabric.collectives.synthesis.circuits.edges import Net, Room
from wavefabric.collectives.synthesis.circuits.seeds import Way
from wavefabric.collectives.synthesis.deadline import Deadline, check
from wavefabric.collectives.synthesis.demand import Demand, Move
from wavefabric.collectives.synthesis.edge_colouring import colours
from wavefabric.collectives.synthesis.model import Model
from wavefabric.collectives.synthesis.spread import Spread

Edges = tuple[int, ...]
#: A circuit wanted in a round: source, destination and route, if it was chosen.
Wanted = tuple[int, int, tuple[Edges, tuple[int, ...]] | None]


class Counted:
    """The relaxation: lasers, photodiodes and edges are counts, wavelengths have no names.

    f circuits go s → d on route i in round r; Σ_c y = Σ_i f. At most `at_once` leave and reach a rank in a
    round, and W L are on an edge. Where waveguides never run out the relaxation is exact (Kőnig).
    """

    def __init__(self, demand: Demand, net: Net, rounds: int, until: float = math.inf):
        self.model, self.net = Model(until), net
        self.spread = Spread(self.model, demand, net.routes, rounds, forward=False)
        self.circuits: dict[tuple[int, int, int], list[int]] = {}
        loads: dict[tuple, list[int]] = defaultdict(list)
        at_once = net.lights.at_once
        for (s, d, r), sent in self.spread.sent.items():
            # Routes that differ only in wide edges are alike here.
            alike = {
                tuple(sorted(net.narrow(edges))): i
                for i, (edges, _) in reversed(list(enumerate(net.routes[s, d])))
            }
            if () in alike:
                loads["send", s, r] += sent
                loads["receive", d, r] += sent
                continue
            most = min(at_once, sum(self.model.upper[c] for c in sent))
            columns = []
            for edges in alike:
                columns.append(self.model.variable(most))
                for e in edges:
                    loads["edge", e, r].append(columns[-1])
            self.circuits[s, d, r] = columns
            loads["send", s, r] += columns
            loads["receive", d, r] += columns
            self.model.row([*sent, *columns], 0, 0, [1] * len(sent) + [-1] * len(columns))
        for (what, n, _), columns in loads.items():
            room = at_once if what != "edge" else net.waveguides[n] * net.lights.lasers
            self.model.limit(columns, room)

    def routes(self, values: np.ndarray) -> dict[tuple[int, int, int], list]:
        """Of each (s, d, r) the routes chosen, one a circuit; nothing where any will do."""
        chosen = {}
        for (s, d, r), columns in self.circuits.items():
            alike = {tuple(sorted(self.net.narrow(x[0]))): x for x in reversed(self.net.routes[s, d])}
            chosen[s, d, r] = [
                route
                for column, route in zip(columns, alike.values(), strict=True)
                for _ in range(int(values[column]))
            ]
        return chosen


class Coloured:
    """The question itself: z circuits go s → d on route i and wavelength λ in round r; Σ_c y = Σ_{i,λ} z.

    A laser (4) and a photodiode (5) are used at most once a round, a wavelength on an edge at most W times
    (6). Circuits of one pair are interchangeable, so which of them carries which chunk is left open.
    """

    def __init__(self, demand: Demand, net: Net, rounds: int, until: float = math.inf):
        self.model, self.net = Model(until), net
        self.spread = Spread(self.model, demand, net.routes, rounds, forward=False)
        sent = self.spread.sent
        self.z = _colour(self.model, net, {pair: columns for pair, columns in sent.items()}, {})

    def ways(self, values: np.ndarray) -> dict[tuple[int, int, int], list[Way]]:
        """Of each (s, d, r) the wavelengths and routes."""
        return _chosen(self.z, values)


def _colour(model: Model, net: Net, sent: dict[tuple[int, int, int], list[int]], fixed: dict) -> dict:
    """Add z and (4)–(6) to a model; `fixed`: numbers of circuits instead of variables that count them."""
    z: dict[tuple[int, int, int], list[tuple[int, Way]]] = {}
    loads: dict[tuple, list[int]] = defaultdict(list)
    lights = net.lights
    for s, d, r in sent or fixed:
        options = []
        narrow: set[Edges] = set()
        for edges, tiles in net.routes[s, d]:
            tight = tuple(sorted(net.narrow(edges)))
            if tight in narrow:
                continue
            narrow.add(tight)
            for wavelength in range(lights.lasers):
                column = model.variable()
                options.append((column, (wavelength, tiles)))
                loads["laser", s, wavelength, r].append(column)
                loads["photodiode", d, wavelength, r].append(column)
                for e in tight:
                    loads["edge", e, wavelength, r].append(column)
        z[s, d, r] = options
        columns = [c for c, _ in options]
        if sent:
            chunks = sent[s, d, r]
            model.row([*chunks, *columns], 0, 0, [1] * len(chunks) + [-1] * len(columns))
        else:
            model.row(columns, fixed[s, d, r], fixed[s, d, r])
        if lights.at_once < lights.lasers:
            loads["send", s, 0, r] += columns
            loads["receive", d, 0, r] += columns
    for (what, n, _, _), columns in loads.items():
        room = {"edge": net.waveguides[n] if what == "edge" else 0, "laser": 1, "photodiode": 1}
        model.limit(columns, room.get(what, lights.at_once))
    return z


def _chosen(z: dict, values: np.ndarray) -> dict[tuple[int, int, int], list[Way]]:
    return {key: [way for column, way in options if values[column]] for key, options in z.items()}


class OneRound:
    """Wavelengths and routes of circuits whose ends and round are known."""

    def __init__(self, net: Net, wanted: Sequence[Wanted], until: float = math.inf):
        counts: dict[tuple[int, int, int], int] = defaultdict(int)
        for s, d, _ in wanted:
            counts[s, d, 0] += 1
        self.model = Model(until)
        self.z = _colour(self.model, net, {}, counts)

    def ways(self, values: np.ndarray, wanted: Sequence[Wanted]) -> list[Way]:
        """In the order of the circuits wanted."""
        left = _chosen(self.z, values)
        return [left[s, d, 0].pop() for s, d, _ in wanted]


def first_fit(net: Net, wanted: Sequence[Wanted], tries: int, until: float = math.inf) -> list[Way] | None:
    """Wavelengths and routes of circuits of one round, in their order; None if none were found.

    First a colouring of the bipartite multigraph of sources and destinations, whose colours are the
    wavelengths: it always fits lasers and photodiodes, and edges too unless too many circuits of one
    wavelength meet there. Then each circuit on the first wavelength that is free, in several orders.
    `OutOfTime` after `until`, of `clock.now`.
    """
    ranks = net.lights.ranks
    colour = colours([(s, d) for s, d, _ in wanted], ranks, ranks, Deadline(until))
    rng = np.random.default_rng(0)
    for attempt in range(tries):
        check(until)
        room = Room(net)
        order = range(len(wanted)) if attempt < 2 else rng.permutation(len(wanted))
        ways: dict[int, Way] = {}
        for i in map(int, order):
            s, d, route = wanted[i]
            routes = None if route is None or attempt else [route]
            way = room.place(s, d, 1 << colour[i] if attempt < 2 else -1, routes)
            if way is None:
                break
            ways[i] = way
        if len(ways) == len(wanted):
            return [ways[i] for i in range(len(wanted))]
    return None


def by_round(moves: Sequence[Move], routes: dict[tuple[int, int, int], list]) -> dict[int, list[Wanted]]:
    """Circuits wanted in each round, in the order of the moves."""
    left = {key: list(chosen) for key, chosen in routes.items()}
    wanted: dict[int, list[Wanted]] = defaultdict(list)
    for r, _, s, d in moves:
        wanted[r].append((s, d, left[s, d, r].pop() if left.get((s, d, r)) else None))
    return wanted
