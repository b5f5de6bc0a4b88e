"""Whether so many rounds of circuits suffice: first without wavelengths, then with them."""

from __future__ import annotations

import math
from collections.abc import Iterator

from wavefabric.collectives.synthesis import deadline as clock
from wavefabric.collectives.synthesis.bounds import Bound, circuit_bound, cut_bound
from wavefabric.collectives.synthesis.circuits.heuristics import known
from wavefabric.collectives.synthesis.circuits.models import (
    CountingModel,
    OneRoundModel,
    WavelengthModel,
    by_round,
    first_fit,
)
from wavefabric.collectives.synthesis.circuits.resources import FreeWavelengths, RoutedNetwork
from wavefabric.collectives.synthesis.deadline import Deadline, OutOfTime
from wavefabric.collectives.synthesis.demand import Demand, Move
from wavefabric.collectives.synthesis.problem import OpticalNetwork
from wavefabric.collectives.synthesis.search import (
    MovePlan,
    Progress,
    SearchProblem,
    Way,
    no_time_to_begin,
    ordered_plan,
)
from wavefabric.collectives.synthesis.solve import TOO_MANY, Answer, decide

#: What a proof that rests on routes says of itself.
GIVEN = "for the routes given"
#: Seconds for a try with one route a pair, and for the wavelengths of one round whose circuits are known.
_SINGLE, _ONE_ROUND = 2.0, 10.0


class CircuitProblem(SearchProblem):
    """A demand over an optical network."""

    unit = "round"
    unreachable = "routes: some rank cannot get what it needs; allowed: routes that join the ranks"

    def __init__(self, demand: Demand, network: OpticalNetwork, deadline: float, workers: int):
        self.demand, self.workers = demand, workers
        try:
            self.net = RoutedNetwork(network, deadline)
        except OutOfTime:
            raise no_time_to_begin() from None
        self._single: RoutedNetwork | None = None

    def lower_bound(self, deadline: float) -> Bound:
        """One by lasers is preferred, as it does not depend on routes."""
        network, until = self.net.network, clock.share(clock.now(), deadline, 1 / 4)
        by_lasers = circuit_bound(self.demand, network.at_once)
        by_edges = cut_bound(self.demand, self.net.capacity, shared=network.shared, until=until)
        if by_edges[0] > by_lasers[0]:
            return by_edges[0], f"{by_edges[1]}, {GIVEN}"
        return by_lasers

    def known(self, stop: Deadline) -> Iterator[MovePlan]:
        return known(self.demand, self.net, stop)

    def time_for_known(self, rounds: int) -> float:
        return 1.0 if self.too_large(rounds) else 1 / 4

    def too_large(self, rounds: int) -> bool:
        chunks = sum(1 if c.direct else self.demand.ranks for c in self.demand.chunks if c.need)
        routes = sum(len(routes) for routes in self.net.routes.values())
        lasers = 0 if self.net.all_wide else self.net.network.lasers
        return rounds * (chunks * self.demand.ranks + routes * lasers) > TOO_MANY

    def decide(self, rounds: int, until: float, best: MovePlan, say: Progress) -> MovePlan | str | None:
        now = clock.now()
        answer = None
        if not self.net.all_wide and any(len(routes) > 1 for routes in self.net.routes.values()):
            # Fewer routes make for an easier model; only yes is an answer.
            soon = now + (_SINGLE if math.isinf(until) else min(_SINGLE, (until - now) / 4))
            answer = self._with_one_route(rounds, soon, best, say)
        if not isinstance(answer, MovePlan):
            answer = decide_rounds(self.demand, self.net, rounds, until, self.workers, best, say)
        if isinstance(answer, MovePlan):
            self._check(answer)
        return answer

    def _with_one_route(
        self, rounds: int, until: float, best: MovePlan, say: Progress
    ) -> MovePlan | str | None:
        try:
            self._single = self._single or RoutedNetwork(self.net.one_route_a_pair(), until)
            return decide_rounds(self.demand, self._single, rounds, until, self.workers, best, say)
        except OutOfTime:
            return None

    def _check(self, plan: MovePlan) -> None:
        free = [FreeWavelengths(self.net) for _ in range(plan.rounds)]
        for (r, _, s, d), (wavelength, tiles) in zip(plan.moves, plan.ways, strict=True):
            if not free[r].fits(s, d, wavelength, tiles):
                raise RuntimeError(f"{plan.method}: a circuit from {s} to {d} in round {r} does not fit")


def decide_rounds(
    demand: Demand,
    net: RoutedNetwork,
    rounds: int,
    until: float,
    workers: int,
    best: MovePlan,
    say: Progress,
) -> MovePlan | str | None:
    """A plan of so many rounds; or what proves that there is none; or None if time ran out.

    Models that cannot be written down by `until`, of `deadline.now`, raise `OutOfTime`.
    """
    say("without wavelengths")
    counting = CountingModel(demand, net, rounds, until)
    counting.sends.hint(best.moves)
    now = clock.now()
    half = now + (until - now) / 2 if math.isfinite(until) else now + 600.0
    answer = decide(counting.model, until if net.all_wide else half, workers)
    if answer.feasible is False:
        everywhere = net.all_wide and len(net.routes) == demand.ranks * (demand.ranks - 1)
        return f"{answer.solver}, without wavelengths" + ("" if everywhere else f", {GIVEN}")
    if answer.values is not None:
        plan = _with_wavelengths(counting, answer, until, workers)
        if plan is not None:
            return plan
    if net.all_wide or clock.now() >= until:
        return None
    say("with wavelengths")
    model = WavelengthModel(demand, net, rounds, until)
    model.sends.hint(best.moves)
    answer = decide(model.model, until, workers)
    if answer.feasible is False:
        return f"{answer.solver}, with wavelengths, {GIVEN}"
    if answer.values is None:
        return None
    ways = model.ways(answer.values)
    chosen = {m: ways[m[2], m[3], m[0]].pop() for m in model.sends.moves(answer.values)}
    return ordered_plan(chosen, answer.solver)


def _with_wavelengths(counting: CountingModel, answer: Answer, until: float, workers: int) -> MovePlan | None:
    """Wavelengths for circuits that were only counted, round by round."""
    assert answer.values is not None
    moves = counting.sends.moves(answer.values)
    wanted = by_round(moves, counting.routes(answer.values))
    chosen: dict[Move, Way] = {}
    how = "edge colouring"
    for r, circuits in sorted(wanted.items()):
        ways = first_fit(counting.net, circuits, 20, until)
        if ways is None:
            how = "a question a round"
            one = OneRoundModel(counting.net, circuits, until)
            values = decide(one.model, min(until, clock.now() + _ONE_ROUND), workers).values
            if values is None:
                return None
            ways = one.ways(values, circuits)
        chosen.update(zip([m for m in moves if m[0] == r], ways, strict=True))
    return ordered_plan(chosen, f"{answer.solver}, wavelengths by {how}")
