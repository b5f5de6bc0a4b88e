"""The models of Algorithm 1 for a number of rounds, without wavelengths and with them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from wavefabric.collectives.synthesis.circuits.resources import FreeWavelengths, Route, RoutedNetwork
from wavefabric.collectives.synthesis.deadline import Deadline, check
from wavefabric.collectives.synthesis.demand import Demand, Move
from wavefabric.collectives.synthesis.edge_colouring import colours
from wavefabric.collectives.synthesis.model import Model
from wavefabric.collectives.synthesis.search import Way
from wavefabric.collectives.synthesis.send_variables import SendVariables

#: Source, destination and round of circuits.
Circuits = tuple[int, int, int]
#: A circuit wanted in a round: source, destination and route, if it was chosen.
Wanted = tuple[int, int, Route | None]


class CountingModel:
    """The relaxation: lasers, photodiodes and edges are counts, wavelengths have no names.

    f circuits go s → d on route i in round r; Σ_c y = Σ_i f. At most `at_once` leave and reach a rank in a
    round, and W L are on an edge. Where waveguides never run out the relaxation is exact (Kőnig).
    """

    def __init__(self, demand: Demand, net: RoutedNetwork, rounds: int, until: float = math.inf):
        self.model, self.net = Model(until), net
        self.sends = SendVariables(self.model, demand, net.routes, rounds, forward=False)
        self.circuits: dict[Circuits, list[int]] = {}
        loads: dict[tuple, list[int]] = defaultdict(list)
        at_once = net.network.at_once
        for (s, d, r), sent in self.sends.sent.items():
            routes, columns = net.distinct_routes(s, d), sent
            if () not in routes:
                most = min(at_once, sum(self.model.upper[c] for c in sent))
                columns = self.circuits[s, d, r] = [self.model.variable(most) for _ in routes]
                for column, edges in zip(columns, routes, strict=True):
                    for e in edges:
                        loads["edge", e, r].append(column)
                self.model.equal(sent, columns)
            loads["send", s, r] += columns
            loads["receive", d, r] += columns
        for (what, n, _), columns in loads.items():
            room = at_once if what != "edge" else net.waveguides[n] * net.network.lasers
            self.model.limit(columns, room)

    def routes(self, values: np.ndarray) -> dict[Circuits, list[Route]]:
        """The routes chosen, one a circuit; nothing where any will do."""
        return {
            (s, d, r): [
                route
                for column, route in zip(columns, self.net.distinct_routes(s, d).values(), strict=True)
                for _ in range(int(values[column]))
            ]
            for (s, d, r), columns in self.circuits.items()
        }


class WavelengthModel:
    """The whole model: z circuits go s → d on route i and wavelength λ in round r; Σ_c y = Σ_{i,λ} z.

    A laser (4) and a photodiode (5) are used at most once a round, a wavelength on an edge at most W times
    (6). Circuits of one pair are interchangeable, so which of them carries which chunk is left open.
    """

    def __init__(self, demand: Demand, net: RoutedNetwork, rounds: int, until: float = math.inf):
        self.model = Model(until)
        self.sends = SendVariables(self.model, demand, net.routes, rounds, forward=False)
        self.z = _wavelengths(self.model, net, self.sends.sent)

    def ways(self, values: np.ndarray) -> dict[Circuits, list[Way]]:
        """The wavelengths and routes."""
        return {key: [way for column, way in options if values[column]] for key, options in self.z.items()}


class OneRoundModel:
    """Wavelengths and routes of circuits whose ends and round are known."""

    def __init__(self, net: RoutedNetwork, wanted: Sequence[Wanted], until: float = math.inf):
        counts: dict[Circuits, int] = defaultdict(int)
        for s, d, _ in wanted:
            counts[s, d, 0] += 1
        self.model = Model(until)
        self.z = _wavelengths(self.model, net, counts)

    def ways(self, values: np.ndarray, wanted: Sequence[Wanted]) -> list[Way]:
        """In the order of the circuits wanted."""
        left = {key: [way for column, way in options if values[column]] for key, options in self.z.items()}
        return [left[s, d, 0].pop() for s, d, _ in wanted]


def _wavelengths(
    model: Model, net: RoutedNetwork, circuits: Mapping[Circuits, int | list[int]]
) -> dict[Circuits, list[tuple[int, Way]]]:
    """Add z and (4)–(6) to a model, for numbers of circuits or the variables that add up to them."""
    z: dict[Circuits, list[tuple[int, Way]]] = {}
    loads: dict[tuple, list[int]] = defaultdict(list)
    network = net.network
    for (s, d, r), number in circuits.items():
        options: list[tuple[int, Way]] = []
        seen: set[tuple[int, ...]] = set()
        for edges, tiles in net.routes[s, d]:
            narrow = net.narrow(edges)
            if narrow in seen:
                continue
            seen.add(narrow)
            for wavelength in range(network.lasers):
                column = model.variable()
                options.append((column, (wavelength, tiles)))
                loads["laser", s, wavelength, r].append(column)
                loads["photodiode", d, wavelength, r].append(column)
                for e in narrow:
                    loads["edge", e, wavelength, r].append(column)
        z[s, d, r] = options
        columns = [c for c, _ in options]
        if isinstance(number, int):
            model.row(columns, number, number)
        else:
            model.equal(number, columns)
        if network.at_once < network.lasers:
            loads["send", s, 0, r] += columns
            loads["receive", d, 0, r] += columns
    for (what, n, _, _), columns in loads.items():
        room = {"edge": net.waveguides[n] if what == "edge" else 0, "laser": 1, "photodiode": 1}
        model.limit(columns, room.get(what, network.at_once))
    return z


def first_fit(
    net: RoutedNetwork, wanted: Sequence[Wanted], tries: int, until: float = math.inf
) -> list[Way] | None:
    """Wavelengths and routes of circuits of one round, in their order; None if none were found.

    First the colours of the multigraph of sources and destinations, which fit lasers and photodiodes, and
    often edges too. Then each circuit on the first wavelength that is free, in several orders.
    """
    ranks = net.network.ranks
    colour = colours([(s, d) for s, d, _ in wanted], ranks, ranks, Deadline(until))
    rng = np.random.default_rng(0)
    for attempt in range(tries):
        check(until)
        free = FreeWavelengths(net)
        order = range(len(wanted)) if attempt < 2 else rng.permutation(len(wanted))
        ways: dict[int, Way] = {}
        for i in map(int, order):
            s, d, route = wanted[i]
            routes = None if route is None or attempt else [route]
            way = free.take(s, d, 1 << colour[i] if attempt < 2 else -1, routes)
            if way is None:
                break
            ways[i] = way
        if len(ways) == len(wanted):
            return [ways[i] for i in range(len(wanted))]
    return None


def by_round(moves: Sequence[Move], routes: dict[Circuits, list[Route]]) -> dict[int, list[Wanted]]:
    """Circuits wanted in each round, in the order of the moves."""
    left = {key: list(chosen) for key, chosen in routes.items()}
    wanted: dict[int, list[Wanted]] = defaultdict(list)
    for r, _, s, d in moves:
        wanted[r].append((s, d, left[s, d, r].pop() if left.get((s, d, r)) else None))
    return wanted
