"""The fewest rounds in which chunks are spread by circuits: bounds, seeds, and then solvers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from wavefabric.collectives.synthesis import deadline as clock
from wavefabric.collectives.synthesis.bounds import UNREACHABLE, Bound, circuit_bound, cut_bound
from wavefabric.collectives.synthesis.circuits.edges import Net, Room
from wavefabric.collectives.synthesis.circuits.rounds import GIVEN, enough, too_large
from wavefabric.collectives.synthesis.circuits.seeds import Plan, seeds
from wavefabric.collectives.synthesis.deadline import Deadline, OutOfTime
from wavefabric.collectives.synthesis.demand import Demand
from wavefabric.collectives.synthesis.problem import Lights, Undecided, nothing_yet
from wavefabric.errors import InputError

#: Seconds for a try with one route a pair.
_SINGLE = 2.0


@dataclass(frozen=True)
class Found:
    """The best plan of circuits, and what is proved of it."""

    plan: Plan
    lower: int
    why: str
    status: tuple[tuple[int, str], ...]

    @property
    def optimal(self) -> bool:
        """Whether no plan has fewer rounds."""
        return self.plan.rounds == self.lower


class Search:
    """Tries numbers of rounds from the lower bound up, until one is possible.

    Raises
    ------
    Undecided
        If time is over before there is anything to begin with.
    """

    def __init__(
        self, demand: Demand, lights: Lights, deadline: float, workers: int, say: Callable[[str], None]
    ):
        self.demand, self.deadline, self.workers, self.say = demand, deadline, workers, say
        try:
            self.net = Net(lights, deadline)
        except OutOfTime:
            raise nothing_yet() from None
        self._single: Net | None = None
        self.verdicts: dict[int, str] = {}
        self.best: Plan | None = None
        self.lower, reason = self._bound()
        self.proof = f"a bound ({reason})"

    def _bound(self) -> Bound:
        """A lower bound by counting; one by lasers is preferred, as it does not depend on routes."""
        by_lasers = circuit_bound(self.demand, self.net.lights.at_once)
        until = clock.share(clock.now(), self.deadline, 1 / 4)
        by_edges = cut_bound(self.demand, self.net.capacity, shared=self.net.lights.shared, until=until)
        if by_edges[0] > by_lasers[0]:
            return by_edges[0], f"{by_edges[1]}, {GIVEN}"
        return by_lasers

    def run(self, max_rounds: int | None, others: int = 0, times: int = 1) -> Found:
        """Find the fewest rounds.

        Parameters
        ----------
        max_rounds : int or None
            Rounds allowed for this and what else has to be done.
        others : int
            Rounds that the rest needs.
        times : int
            How often this is done, each time anew: as either half of an all-reduce.
        """
        given = max_rounds
        if max_rounds is not None:
            max_rounds = (max_rounds - others) // times
        if self.lower >= UNREACHABLE:
            raise _unreachable()
        if self.lower > 1:
            self.verdicts[self.lower - 1] = f"infeasible: proved by {self.proof}"
        self._begin()
        rounds = self.lower
        while self._wanted(rounds, max_rounds):
            if self._try(rounds, self._share(rounds)):
                break
            rounds += 1
        # Time that is left goes to the fewest rounds that were not decided.
        while self._wanted(self.lower, max_rounds) and self.deadline - clock.now() > 1.0:
            if too_large(self.demand, self.net, self.lower) or self._try(self.lower, self.deadline):
                break
        if self.best is None or (max_rounds is not None and self.best.rounds > max_rounds):
            raise self._nothing(given, max_rounds, others, times)
        self.verdicts.setdefault(self.best.rounds, f"feasible: {self.best.method}")
        return Found(self.best, self.lower, self._why(self.best), tuple(sorted(self.verdicts.items())))

    def _begin(self) -> None:
        """Schedules that need no solver.

        Once there is one, better ones are looked for in a quarter of the time, or in all of it if the
        question is too large for the solvers.
        """
        part = 1.0 if too_large(self.demand, self.net, self.lower) else 1 / 4
        quarter, stop = clock.share(clock.now(), self.deadline, part), Deadline(self.deadline)
        try:
            for found in seeds(self.demand, self.net, stop):
                if self.best is None or found.rounds < self.best.rounds:
                    self.best = found
                    self.say(f"{_rounds(found.rounds)}: {found.method}")
                stop.at = quarter
                if self.best.rounds == self.lower or clock.now() > quarter:
                    return
        except OutOfTime:
            if self.best is None:
                raise nothing_yet() from None
        if self.best is None:
            raise _unreachable()

    def _wanted(self, rounds: int, max_rounds: int | None) -> bool:
        """Whether a number of rounds would be better than the best and may be tried."""
        better = self.best is None or rounds < self.best.rounds
        return better and (max_rounds is None or rounds <= max_rounds) and clock.now() < self.deadline

    def _share(self, rounds: int) -> float:
        """Until when one number of rounds is tried: half of the time that is left, the last one all of it."""
        last = self.best is not None and self.best.rounds == rounds + 1
        now = clock.now()
        return self.deadline if last or math.isinf(self.deadline) else now + (self.deadline - now) / 2

    def _try(self, rounds: int, until: float) -> bool:
        """Decide a number of rounds, as far as time allows; whether it is possible."""
        if too_large(self.demand, self.net, rounds):
            self.verdicts[rounds] = "unknown: too large for the solvers"
            return False

        def say(text: str) -> None:
            self.say(f"{_rounds(rounds)}: {text}")

        now = clock.now()
        if self._several():
            # Fewer routes make for an easier question; only yes is an answer.
            soon = now + _SINGLE if math.isinf(until) else now + min(_SINGLE, (until - now) / 4)
            found = self._enough(rounds, soon, say, single=True)
            if isinstance(found, Plan):
                return self._possible(rounds, found)
        found = self._enough(rounds, until, say)
        if isinstance(found, Plan):
            return self._possible(rounds, found)
        if found is not None:
            return self._impossible(rounds, found)
        self.verdicts[rounds] = "unknown: out of time"
        return False

    def _several(self) -> bool:
        """Whether a pair has several routes, and which of them is taken matters."""
        return not self.net.all_wide and any(len(ways) > 1 for ways in self.net.routes.values())

    def _enough(
        self, rounds: int, until: float, say: Callable[[str], None], single: bool = False
    ) -> Plan | str | None:
        """What `enough` finds, with one route a pair if `single`; None too if time runs out on the way."""
        try:
            if single and self._single is None:
                self._single = Net(self.net.straight(), until)
            net = self._single if single and self._single is not None else self.net
            return enough(self.demand, net, rounds, until, self.workers, self.best, say)
        except OutOfTime:
            return None

    def _impossible(self, rounds: int, by: str) -> bool:
        self.verdicts[rounds] = f"infeasible: proved by {by}"
        for fewer in self.verdicts:
            # One could always wait for a round.
            if fewer < rounds and self.verdicts[fewer].startswith("unknown"):
                self.verdicts[fewer] = f"infeasible: proved by {by}, of {_rounds(rounds)}"
        self.lower, self.proof = rounds + 1, by
        return False

    def _possible(self, rounds: int, found: Plan) -> bool:
        rooms = [Room(self.net) for _ in range(found.rounds)]
        for (r, _, s, d), (wavelength, tiles) in zip(found.moves, found.ways, strict=True):
            if not rooms[r].fits(s, d, wavelength, tiles):
                raise RuntimeError(f"{found.method}: a circuit from {s} to {d} in round {r} does not fit")
        self.best = found
        self.verdicts[rounds] = f"feasible: {found.method}"
        return True

    def _why(self, best: Plan) -> str:
        found = f"{_rounds(best.rounds)} found by {best.method}"
        if best.rounds == self.lower:
            return f"{found}; fewer are impossible: proved by {self.proof}"
        missing = f"{self.lower}" if best.rounds == self.lower + 1 else f"{self.lower} to {best.rounds - 1}"
        verdict = self.verdicts.get(self.lower, "unknown: out of time").removeprefix("unknown: ")
        fewer = f"fewer than {self.lower} are impossible: proved by {self.proof}"
        return f"{found}; {missing} not decided ({verdict})" + (f"; {fewer}" if self.lower > 1 else "")

    def _nothing(self, given: int | None, max_rounds: int | None, others: int, times: int) -> InputError:
        """Why there is no answer; in rounds of everything, as was `given`."""
        least = times * self.lower + others
        if max_rounds is not None and max_rounds < self.lower:
            return InputError(f"max_rounds: {given}; allowed: from {least}, as proved by {self.proof}")
        known = times * self.best.rounds + others if self.best else least
        return Undecided(
            f"time_limit: over before {least} to {given} rounds were decided; "
            f"allowed: more time, or max_rounds from {known}"
        )


def _rounds(number: int) -> str:
    return "1 round" if number == 1 else f"{number} rounds"


def _unreachable() -> InputError:
    return InputError("routes: some rank cannot get what it needs; allowed: routes that join the ranks")
