"""Search for schedules of few rounds of circuits (LUMORPH, Algorithm 1), first without wavelengths."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import numpy as np

from wavefabric.collectives.synthesis import deadline as clock
from wavefabric.collectives.synthesis.bounds import circuit_bound, cut_bound
from wavefabric.collectives.synthesis.circuits.free_wavelengths import FreeWavelengths, RoutedNetwork
from wavefabric.collectives.synthesis.circuits.known_circuits import direct, greedy, relayed, ring
from wavefabric.collectives.synthesis.demand import Demand, Move
from wavefabric.collectives.synthesis.graphs import colours
from wavefabric.collectives.synthesis.model import Model, SendVariables
from wavefabric.collectives.synthesis.problem import OpticalNetwork, no_time_to_begin
from wavefabric.collectives.synthesis.search import Lightpath, Progress, Search, Solution, ordered_solution
from wavefabric.collectives.synthesis.solve import decide

#: Text that marks a proof which holds only for the given routes.
FIXED = "for the routes given"
#: Seconds for a try with one route per pair, and for the wavelengths of a round whose circuits are known.
_SINGLE, _ONE_ROUND = 2.0, 10.0
#: Number of orders in which the circuits of a round are set up, until one fits.
_TRIES = 20
#: Source, destination and round of circuits.
Circuits = tuple[int, int, int]
#: A circuit needed in a round: source, destination and the tiles of its route, if already fixed.
Wanted = tuple[int, int, tuple[int, ...] | None]
#: By source, destination and round: the variable of each wavelength and route.
CircuitVariables = dict[Circuits, list[tuple[int, Lightpath]]]


class CircuitSearch(Search):
    """Searches for the fewest rounds of circuits over an optical network."""

    unit = "round"
    unreachable = "routes: some rank cannot get what it needs; allowed: routes that join the ranks"

    def __init__(self, demand: Demand, network: OpticalNetwork, deadline: float, say: Progress):
        try:
            self.net = RoutedNetwork(network, deadline)
        except clock.OutOfTime:
            raise no_time_to_begin() from None
        self._single: RoutedNetwork | None = None
        until, bound = clock.fraction(deadline, 1 / 4), circuit_bound(demand, network.at_once)
        rounds, why = cut_bound(demand, self.net.links, shared=network.shared, until=until)
        # A bound by lasers is preferred, as it does not depend on routes.
        super().__init__(demand, deadline, say, (rounds, f"{why}, {FIXED}") if rounds > bound[0] else bound)

    def known(self, stop: clock.Deadline) -> Iterator[Solution | None]:
        demand, net = self.demand, self.net
        yield relayed(demand, net, stop)
        yield from (direct(demand, net, seed, stop) for seed in range(4))
        yield ring(demand, net, stop)
        seeds = range(min(12, max(1, 4000 // (demand.ranks * len(demand.chunks) + 1))))
        yield from (greedy(demand, net, seed, stop) for seed in seeds)

    def time_for_known(self) -> float:
        return 1.0 if self.too_large(self.lower) else 1 / 4

    def variables(self, rounds: int) -> int:
        chunks = sum(1 if c.direct else self.demand.ranks for c in self.demand.chunks if c.need)
        routes = sum(len(routes) for routes in self.net.routes.values())
        lasers = 0 if self.net.all_wide else self.net.network.lasers
        return rounds * (chunks * self.demand.ranks + routes * lasers)

    def decide(self, rounds: int, until: float, say: Progress) -> Solution | str | None:
        answer = None
        if not self.net.all_wide and any(len(routes) > 1 for routes in self.net.routes.values()):
            # Fewer routes make the model easier, but only a solution counts as an answer.
            soon = clock.fraction(until, 1 / 4, _SINGLE)
            with suppress(clock.OutOfTime):
                self._single = self._single or RoutedNetwork(self.net.one_route_per_pair(), soon)
                answer = self.decide_over(self._single, rounds, soon, say)
        if not isinstance(answer, Solution):
            answer = self.decide_over(self.net, rounds, until, say)
        if isinstance(answer, Solution):
            self._check(answer)
        return answer

    def decide_over(
        self, net: RoutedNetwork, rounds: int, until: float, say: Progress
    ) -> Solution | str | None:
        """Return a solution of ``rounds`` rounds over the routes of ``net``, or a proof that there is none.

        None if neither was found by ``until``; `OutOfTime` if no model is written in time.
        """
        say("without wavelengths")
        model, sends = self._sends(net, rounds, until)
        z = circuit_variables(model, net, sends.sent, counted=True)
        answer = decide(model, until if net.all_wide else clock.fraction(until, 1 / 2, 600.0))
        if answer.feasible is False:
            everywhere = net.all_wide and len(net.routes) == net.network.ranks * (net.network.ranks - 1)
            return f"{answer.solver}, without wavelengths" + ("" if everywhere else f", {FIXED}")
        if answer.values is not None:
            chosen = _chosen(z, answer.values)
            solution = _with_wavelengths(net, sends.moves(answer.values), chosen, answer.solver, until)
            if solution is not None:
                return solution
        if net.all_wide or clock.now() >= until:
            return None
        say("with wavelengths")
        model, sends = self._sends(net, rounds, until)
        z = circuit_variables(model, net, sends.sent)
        answer = decide(model, until)
        if answer.feasible is False:
            return f"{answer.solver}, with wavelengths, {FIXED}"
        if answer.values is None:
            return None
        chosen = _chosen(z, answer.values)
        lightpaths = {m: chosen[m[2], m[3], m[0]].pop() for m in sends.moves(answer.values)}
        return ordered_solution(lightpaths, answer.solver)

    def _sends(self, net: RoutedNetwork, rounds: int, until: float) -> tuple[Model, SendVariables]:
        model = Model(until)
        sends = SendVariables(model, self.demand, net.routes, rounds, forward=False)
        sends.hint(self.best.moves)
        return model, sends

    def _check(self, solution: Solution) -> None:
        free = [FreeWavelengths(self.net) for _ in range(solution.rounds)]
        for (r, _, s, d), (wavelength, tiles) in solution.lightpaths.items():
            if free[r].take(s, d, 1 << wavelength, tiles) is None:
                raise RuntimeError(f"{solution.method}: a circuit from {s} to {d} in round {r} does not fit")


def circuit_variables(
    model: Model, net: RoutedNetwork, circuits: Mapping[Circuits, int | list[int]], counted: bool = False
) -> CircuitVariables:
    """Add variables and constraints for the circuits of each round to a model; return the variables.

    The result is from (s, d, r), that is source, destination and round, to a list of pairs: a variable z, and
    the wavelength λ and the route i of the circuits that it counts. ``circuits`` has, by (s, d, r), the
    number of circuits, or the variables y of the chunks c that they carry: Σ_c y = Σ_{i,λ} z. Constraints of
    docs/synthesis.md: a laser (4) and a photodiode (5) are used at most once per round, a wavelength on an
    edge at most W times (6). Circuits of one pair are interchangeable: any of them may carry any chunk.

    With ``counted`` wavelengths are not distinguished: per round at most `at_once` circuits leave and reach a
    rank, and W L are on an edge (L lasers). If waveguides never run out this relaxation is exact (Kőnig).
    """
    z: CircuitVariables = {}
    loads: dict[tuple, list[int]] = defaultdict(list)
    lasers, at_once = net.network.lasers, net.network.at_once
    for (s, d, r), number in circuits.items():
        columns, routes = [] if isinstance(number, int) else number, net.distinct_routes(s, d)
        if not counted or () not in routes:
            most = min(at_once, sum(model.upper[c] for c in columns)) if counted else 1
            options = z[s, d, r] = []
            ends = () if counted else (("laser", s), ("photodiode", d))
            for narrow, (_, tiles) in routes.items():
                for wavelength in range(1 if counted else lasers):
                    column = model.variable(most)
                    options.append((column, (wavelength, tiles)))
                    for used in (*ends, *(("edge", e) for e in narrow)):
                        loads[*used, wavelength, r].append(column)
            columns = [column for column, _ in options]
            if isinstance(number, int):
                model.row(columns, number, number)
            else:
                model.equal(number, columns)
        if counted or at_once < lasers:
            loads["send", s, 0, r] += columns
            loads["receive", d, 0, r] += columns
    for (what, n, *_), columns in loads.items():
        capacity = at_once if what in ("send", "receive") else 1
        if what == "edge":
            capacity = net.waveguides[n] * (lasers if counted else 1)
        model.limit(columns, capacity)
    return z


def _chosen(z: CircuitVariables, values: np.ndarray) -> dict[Circuits, list[Lightpath]]:
    return {
        key: [path for column, path in options for _ in range(values[column])] for key, options in z.items()
    }


def _with_wavelengths(
    net: RoutedNetwork, moves: list[Move], paths: dict[Circuits, list[Lightpath]], solver: str, until: float
) -> Solution | None:
    """Assign wavelengths, round by round, to circuits found without wavelengths; None if not possible.

    ``paths``: lightpaths by (source, destination, round), of which only the routes are used.
    """
    of_round: dict[int, dict[Move, Wanted]] = defaultdict(dict)
    for r, number, s, d in moves:
        of_round[r][r, number, s, d] = s, d, paths[s, d, r].pop()[1] if paths.get((s, d, r)) else None
    chosen: dict[Move, Lightpath] = {}
    how = "edge colouring"
    for _, wanted in sorted(of_round.items()):
        circuits = list(wanted.values())
        lightpaths = _first_fit(net, circuits, until)
        if lightpaths is None:
            how, model = "a question a round", Model(until)
            z = circuit_variables(model, net, Counter((s, d, 0) for s, d, _ in circuits))
            values = decide(model, min(until, clock.now() + _ONE_ROUND)).values
            if values is None:
                return None
            left = _chosen(z, values)
            lightpaths = [left[s, d, 0].pop() for s, d, _ in circuits]
        chosen.update(zip(wanted, lightpaths, strict=True))
    return ordered_solution(chosen, f"{solver}, wavelengths by {how}")


def _first_fit(net: RoutedNetwork, wanted: Sequence[Wanted], until: float) -> list[Lightpath] | None:
    """Return wavelengths and routes for the circuits of one round, in their order; None if none were found.

    First a colouring of the multigraph of sources and destinations is tried, which fits lasers and
    photodiodes, and often edges. Then each circuit gets the first wavelength that is free, in several orders.
    """
    ranks = net.network.ranks
    colour = colours([(s, d) for s, d, _ in wanted], ranks, ranks, clock.Deadline(until))
    rng = np.random.default_rng(0)
    for attempt in range(_TRIES):
        clock.check(until)
        free = FreeWavelengths(net)
        order = range(len(wanted)) if attempt < 2 else rng.permutation(len(wanted))
        lightpaths: dict[int, Lightpath] = {}
        for i in map(int, order):
            s, d, tiles = wanted[i]
            lightpath = free.take(s, d, 1 << colour[i] if attempt < 2 else -1, None if attempt else tiles)
            if lightpath is None:
                break
            lightpaths[i] = lightpath
        if len(lightpaths) == len(wanted):
            return [lightpaths[i] for i in range(len(wanted))]
    return None
