"""Whether so many steps and rounds over electrical links suffice."""

from __future__ import annotations

import math
from collections.abc import Iterator

from wavefabric.collectives.synthesis import deadline as clock
from wavefabric.collectives.synthesis.bounds import (
    NOTHING,
    Bound,
    cut_bound,
    link_bound,
    nearer_sets,
    nearest,
)
from wavefabric.collectives.synthesis.deadline import Deadline, OutOfTime
from wavefabric.collectives.synthesis.demand import Demand
from wavefabric.collectives.synthesis.links.capacity import fits
from wavefabric.collectives.synthesis.links.heuristics import greedy, known
from wavefabric.collectives.synthesis.model import Model
from wavefabric.collectives.synthesis.problem import Links, Undecided
from wavefabric.collectives.synthesis.search import HalfResult, MovePlan, Progress, SearchProblem, counted
from wavefabric.collectives.synthesis.send_variables import SendVariables, distances
from wavefabric.collectives.synthesis.solve import TOO_MANY, decide

_ATTEMPTS = 6


class LinkProblem(SearchProblem):
    """A demand over electrical links, every step of one round; or of exactly so many steps and rounds."""

    unit = "step"
    unreachable = "links: some rank cannot get what it needs; allowed: links that join the ranks"

    def __init__(self, demand: Demand, links: Links, workers: int):
        self.demand, self.links, self.workers = demand, links, workers

    def lower_bound(self, deadline: float) -> Bound:
        return max(self.bounds(deadline), key=lambda b: b[0])

    def known(self, stop: Deadline) -> Iterator[MovePlan]:
        return known(self.demand, self.links, stop, _ATTEMPTS)

    def too_large(self, rounds: int) -> bool:
        return self._variables(rounds) > TOO_MANY

    def decide(self, rounds: int, until: float, best: MovePlan, say: Progress) -> MovePlan | str | None:
        answer = self._ask(rounds, rounds, until, say)
        return answer[0] if isinstance(answer, tuple) else answer

    def bounds(self, deadline: float) -> tuple[Bound, Bound]:
        """Lower bounds of steps by distance, and of rounds by what cuts and all links together carry.

        In a quarter of the time until the deadline at most.
        """
        demand, links = self.demand, self.links
        until = clock.share(clock.now(), deadline, 1 / 4)
        hops = distances(demand.ranks, links.usable)
        farthest, stop = NOTHING, Deadline(until)
        try:
            for have, need in dict.fromkeys((c.have, c.need) for c in demand.chunks if c.need):
                stop.check()
                hop = nearest(hops, have, need)
                if max(hop) > farthest[0]:
                    rank = sorted(need)[hop.index(max(hop))]
                    farthest = max(hop), f"rank {rank} is {max(hop)} links away from what it needs"
        except OutOfTime:
            pass
        together = link_bound(demand, links.capacity, links.groups, hops, until)
        sets = nearer_sets(hops, links.capacity) if clock.now() < until else []
        cuts = cut_bound(demand, links.capacity, links.groups, until=until, sets=sets)
        return farthest, max(together, cuts, key=lambda b: b[0])

    def decide_exactly(self, steps: int, rounds: int, deadline: float, say: Progress) -> HalfResult | str:
        """A schedule of exactly so many steps and rounds, or what proves that there is none.

        `lower` of the result: rounds that are needed in exactly so many steps; fewer steps may need fewer.
        `Undecided` is raised if time runs out.
        """
        (least, far), (fewest, why) = self.bounds(deadline)
        if least > steps or fewest > rounds:
            return f"a bound ({far if least > steps else why})"
        known = self._known_exactly(steps, rounds - steps, clock.share(clock.now(), deadline, 1 / 4))
        answer = known or self._ask(steps, rounds, deadline, say)
        if answer is None:
            size = self._variables(steps)
            if size > TOO_MANY:
                allowed = f"{TOO_MANY}, or links that a ring fits"
                raise Undecided(f"layout: {size} variables for the solvers; allowed: {allowed}")
            raise Undecided(
                f"time_limit: over before {steps} steps and {rounds} rounds were decided; allowed: more time"
            )
        if isinstance(answer, str):
            return answer
        plan, taken = answer
        lower = max(steps, fewest)
        text = f"found by {plan.method}; {counted(rounds, 'round')} in exactly {counted(steps, 'step')}"
        text += f", which need at least {lower}: {why if fewest > steps else 'no step takes less than one'}"
        if fewest < steps:
            text += "; fewer steps may need fewer"
        return HalfResult(plan, lower, text, ((rounds, f"feasible: {plan.method}"),), taken)

    def _known_exactly(self, steps: int, extra: int, until: float) -> tuple[MovePlan, tuple[int, ...]] | None:
        """A known plan for so many steps and extra rounds, and the rounds of each step."""
        even = tuple(1 + extra // steps + (i >= steps - extra % steps) for i in range(steps))
        last = (*(1,) * (steps - 1), 1 + extra)
        stop = Deadline(until)
        try:
            for plan in known(self.demand, self.links, stop, 2):
                if fits(plan.moves, self.links, last):
                    return plan, last
            for seed in range(_ATTEMPTS):
                taken = even if seed % 2 else last
                moves = greedy(self.demand, self.links, taken, seed, stop)
                if moves is not None and fits(moves, self.links, taken):
                    return MovePlan(tuple(moves), "greedy steps"), taken
        except OutOfTime:
            pass
        return None

    def _ask(
        self, steps: int, rounds: int, deadline: float, say: Progress
    ) -> tuple[MovePlan, tuple[int, ...]] | str | None:
        """The solvers' plan and the rounds of each step; what proves that there is none; or None."""
        if self._variables(steps) > TOO_MANY:
            return None
        say(f"{steps} steps, {rounds} rounds")
        model = Model(deadline)
        try:
            sends = SendVariables(model, self.demand, self.links.usable, steps, forward=True)
            takes = [model.variable(rounds - steps + 1, 1) for _ in range(steps)]
            model.row(takes, rounds, rounds)
            for step in range(steps):
                for members, n in self._carried():
                    columns = [c for s, d in members for c in sends.sent.get((s, d, step), ())]
                    if rounds > steps:
                        model.row([*columns, takes[step]], -math.inf, 0, [1] * len(columns) + [-n])
                    else:
                        model.limit(columns, n)
            answer = decide(model, deadline, self.workers)
        except OutOfTime:
            return None
        if answer.feasible is False:
            return answer.solver
        if answer.values is None:
            return None
        plan = MovePlan(tuple(sends.moves(answer.values)), answer.solver)
        return plan, tuple(int(answer.values[t]) for t in takes)

    def _carried(self):
        """Links, single or several together, and the chunks that they carry in a round."""
        single = [((link,), n) for link, n in self.links.capacity.items()]
        return [*single, *self.links.groups]

    def _variables(self, steps: int) -> int:
        return steps * sum(bool(c.need) for c in self.demand.chunks) * len(self.links.capacity)
