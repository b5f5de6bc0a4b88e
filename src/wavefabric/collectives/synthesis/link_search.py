"""Search for schedules of few steps and rounds over electrical links (SCCL), without and with solvers."""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from wavefabric.base.units import counted
from wavefabric.collectives.synthesis import deadline as clock
from wavefabric.collectives.synthesis.bounds import link_bounds
from wavefabric.collectives.synthesis.demand import Demand, Move
from wavefabric.collectives.synthesis.known_links import farthest_first, fits, greedy, open_shop, ring
from wavefabric.collectives.synthesis.model import Model, SendVariables
from wavefabric.collectives.synthesis.problem import Links, Undecided
from wavefabric.collectives.synthesis.search import HalfResult, Progress, Search, Solution
from wavefabric.collectives.synthesis.solve import TOO_MANY, decide

_ATTEMPTS = 6


class LinkSearch(Search):
    """Searches, over electrical links, for the fewest one-round steps, or for exact steps and rounds."""

    unit = "step"
    unreachable = "links: some rank cannot get what it needs; allowed: links that join the ranks"

    def __init__(self, demand: Demand, links: Links, deadline: float, say: Progress):
        self.links = links
        #: Bounds on steps and on rounds, found in a quarter of the time.
        self.bounds = link_bounds(demand, links, clock.fraction(deadline, 1 / 4))
        super().__init__(demand, deadline, say, max(self.bounds, key=lambda bound: bound[0]))

    def known(self, stop: clock.Deadline, attempts: int = _ATTEMPTS) -> Iterator[Solution | None]:
        demand, links = self.demand, self.links
        yield _solution(ring(demand, links, stop), "a ring")
        yield _solution(open_shop(demand, links, stop), "an open shop of translations")
        for n in range(attempts):
            yield _solution(farthest_first(demand, links, n, stop), "shortest ways, farthest first")
        for n in range(attempts):
            yield _solution(greedy(demand, links, (), n, stop), "greedy steps")

    def variables(self, rounds: int) -> int:
        return rounds * sum(bool(c.need) for c in self.demand.chunks) * len(self.links.capacity)

    def decide(self, rounds: int, until: float, say: Progress) -> Solution | str | None:
        return self._ask(rounds, rounds, until, say)

    def decide_exactly(self, steps: int, rounds: int) -> HalfResult | str:
        """Return a schedule of exactly ``steps`` steps and ``rounds`` rounds, or the proof that none exists.

        `lower` of the result: rounds needed in exactly that many steps; fewer steps may need fewer rounds.
        `Undecided` is raised if time runs out.
        """
        (least, far), (fewest, why) = self.bounds
        if least > steps or fewest > rounds:
            return f"a bound ({far if least > steps else why})"
        known = self._known_exactly(steps, rounds - steps, clock.fraction(self.deadline, 1 / 4))
        answer = known or self._ask(steps, rounds, self.deadline, self.say)
        if answer is None and self.too_large(steps):
            allowed = f"{TOO_MANY}, or links that a ring fits"
            raise Undecided(f"layout: {self.variables(steps)} variables for the solvers; allowed: {allowed}")
        if answer is None:
            over = f"over before {steps} steps and {rounds} rounds were decided"
            raise Undecided(f"time_limit: {over}; allowed: more time")
        if isinstance(answer, str):
            return answer
        lower = max(steps, fewest)
        text = f"found by {answer.method}; {counted(rounds, 'round')} in exactly {counted(steps, 'step')}"
        text += f", which need at least {lower}: {why if fewest > steps else 'no step takes less than one'}"
        if fewest < steps:
            text += "; fewer steps may need fewer"
        return HalfResult(answer, lower, text, ((rounds, f"feasible: {answer.method}"),))

    def _known_exactly(self, steps: int, extra: int, until: float) -> Solution | None:
        """Return a solution of ``steps`` steps and ``extra`` rounds more, found without a solver, or None."""
        even = tuple(1 + extra // steps + (i >= steps - extra % steps) for i in range(steps))
        last = (*(1,) * (steps - 1), 1 + extra)
        stop = clock.Deadline(until)
        with suppress(clock.OutOfTime):
            for solution in filter(None, self.known(stop, 2)):
                if fits(solution.moves, self.links, last):
                    return replace(solution, rounds_of_steps=last)
            for seed in range(_ATTEMPTS):
                taken = even if seed % 2 else last
                moves = greedy(self.demand, self.links, taken, seed, stop)
                if moves is not None and fits(moves, self.links, taken):
                    return Solution(moves, "greedy steps", rounds_of_steps=taken)
        return None

    def _ask(self, steps: int, rounds: int, deadline: float, say: Progress) -> Solution | str | None:
        """Return the solvers' solution, their proof (text) that there is none, or None if undecided."""
        if self.too_large(steps):
            return None
        say(f"{steps} steps, {rounds} rounds")
        model = Model(deadline)
        #: Single links and groups of links, with the chunks that they carry per round.
        carried = [([link], n) for link, n in self.links.capacity.items()] + list(self.links.groups)
        try:
            sends = SendVariables(model, self.demand, self.links.usable, steps, forward=True)
            takes = [model.variable(rounds - steps + 1, 1) for _ in range(steps)]
            model.row(takes, rounds, rounds)
            for step, take in enumerate(takes):
                for members, n in carried:
                    columns = [c for s, d in members for c in sends.sent.get((s, d, step), ())]
                    if rounds > steps:
                        model.row([*columns, take], -math.inf, 0, [1] * len(columns) + [-n])
                    else:
                        model.limit(columns, n)
            answer = decide(model, deadline)
        except clock.OutOfTime:
            return None
        if answer.values is None:
            return answer.solver if answer.feasible is False else None
        taken = tuple(int(answer.values[t]) for t in takes)
        return Solution(sends.moves(answer.values), answer.solver, rounds_of_steps=taken)


def _solution(moves: list[Move] | None, method: str) -> Solution | None:
    return None if moves is None else Solution(moves, method)
