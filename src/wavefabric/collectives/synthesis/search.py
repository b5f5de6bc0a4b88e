"""The search for the fewest rounds, over circuits or links: bounds, known schedules, and then solvers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from wavefabric.collectives.synthesis import deadline as clock
from wavefabric.collectives.synthesis.bounds import UNREACHABLE, Bound
from wavefabric.collectives.synthesis.deadline import Deadline, OutOfTime
from wavefabric.collectives.synthesis.demand import Demand, Move
from wavefabric.collectives.synthesis.problem import Undecided
from wavefabric.collectives.synthesis.send_variables import FAR
from wavefabric.errors import InputError

#: Wavelength, and tiles of the route.
Way = tuple[int, tuple[int, ...]]
#: Is called with what is tried.
Progress = Callable[[str], None]


@dataclass(frozen=True)
class MovePlan:
    """Moves in order, what made them, and of circuits the wavelength and route of each."""

    moves: tuple[Move, ...]
    method: str
    ways: tuple[Way, ...] = ()

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return 1 + max((m[0] for m in self.moves), default=-1)

    def reversed(self, rounds: int) -> MovePlan:
        """The plan with time, and so every move and route, reversed; its moves in order again."""
        moves = [(rounds - 1 - r, number, d, s) for r, number, s, d in self.moves]
        order = sorted(range(len(moves)), key=moves.__getitem__)
        ways = [(wavelength, tuple(route[::-1])) for wavelength, route in self.ways]
        return MovePlan(tuple(moves[i] for i in order), self.method, tuple(ways[i] for i in order if ways))


@dataclass(frozen=True)
class HalfResult:
    """The best plan for the sums or the copies of a task, and what is proved of it.

    ``rounds_of_steps``: of links, the rounds that each step takes.
    """

    plan: MovePlan
    lower: int
    why: str
    status: tuple[tuple[int, str], ...]
    rounds_of_steps: tuple[int, ...] = ()

    @property
    def rounds(self) -> int:
        """Of the plan, or of all its steps."""
        return sum(self.rounds_of_steps) or self.plan.rounds

    @property
    def optimal(self) -> bool:
        """Whether no plan has fewer rounds."""
        return self.rounds == self.lower


class SearchProblem(ABC):
    """A demand over a network: what a `Search` asks of circuits and of links."""

    #: What is counted: rounds or steps.
    unit: str
    #: The error text if some rank cannot be reached.
    unreachable: str
    demand: Demand

    @abstractmethod
    def lower_bound(self, deadline: float) -> Bound:
        """By counting."""

    @abstractmethod
    def known(self, stop: Deadline) -> Iterator[MovePlan]:
        """Plans that need no solver, promising ones first; `OutOfTime` when `stop` has passed."""

    @abstractmethod
    def too_large(self, rounds: int) -> bool:
        """Whether there would be more variables than are written down."""

    @abstractmethod
    def decide(self, rounds: int, until: float, best: MovePlan, say: Progress) -> MovePlan | str | None:
        """A plan of so many rounds; or what proves that there is none; or None if time ran out."""

    def time_for_known(self, rounds: int) -> float:
        """The share of the time in which better known plans are looked for once there is one."""
        return 1 / 4


class Search:
    """Tries numbers of rounds from the lower bound up, until one is possible."""

    def __init__(self, problem: SearchProblem, deadline: float, say: Progress):
        self.problem, self.deadline, self.say = problem, deadline, say
        self.verdicts: dict[int, str] = {}
        self.lower, reason = problem.lower_bound(deadline)
        self.proof = f"a bound ({reason})"

    def run(self, max_rounds: int | None, others: int = 0, times: int = 1) -> HalfResult:
        """The fewest rounds, if `times` as many and the `others` are at most `max_rounds`."""
        limit = None if max_rounds is None else (max_rounds - others) // times
        if self.lower >= min(UNREACHABLE, FAR):
            raise InputError(self.problem.unreachable)
        if self.lower > 1:
            self.verdicts[self.lower - 1] = f"infeasible: proved by {self.proof}"
        self.best = self._begin()
        rounds = self.lower
        while self._wanted(rounds, limit):
            last = self.best.rounds == rounds + 1
            if self._try(rounds, clock.share(clock.now(), self.deadline, 1 if last else 1 / 2)):
                break
            rounds += 1
        # Time that is left goes to the fewest rounds that were not decided.
        while self._wanted(self.lower, limit) and self.deadline - clock.now() > 1.0:
            if self.problem.too_large(self.lower) or self._try(self.lower, self.deadline):
                break
        if limit is not None and self.best.rounds > limit:
            raise self._beyond(max_rounds, limit, others, times)
        self.verdicts.setdefault(self.best.rounds, f"feasible: {self.best.method}")
        return HalfResult(self.best, self.lower, self._why(), tuple(sorted(self.verdicts.items())))

    def _begin(self) -> MovePlan:
        """The best known plan: until there is one all of the time may pass, then a share of it."""
        part = self.problem.time_for_known(self.lower)
        soon, stop = clock.share(clock.now(), self.deadline, part), Deadline(self.deadline)
        best: MovePlan | None = None
        try:
            for plan in self.problem.known(stop):
                if best is None or plan.rounds < best.rounds:
                    best = plan
                    self.say(f"{self._count(plan.rounds)}: {plan.method}")
                stop.at = soon
                if best.rounds == self.lower or clock.now() > soon:
                    break
        except OutOfTime:
            if best is None:
                raise no_time_to_begin() from None
        if best is None:
            raise InputError(self.problem.unreachable)
        return best

    def _wanted(self, rounds: int, limit: int | None) -> bool:
        """Whether a number of rounds would be better than the best and may be tried."""
        better = rounds < self.best.rounds and (limit is None or rounds <= limit)
        return better and clock.now() < self.deadline

    def _try(self, rounds: int, until: float) -> bool:
        """Decide a number of rounds, as far as time allows; whether it is possible."""
        if self.problem.too_large(rounds):
            self.verdicts[rounds] = "unknown: too large for the solvers"
            return False

        def say(text: str) -> None:
            self.say(f"{self._count(rounds)}: {text}")

        try:
            answer = self.problem.decide(rounds, until, self.best, say)
        except OutOfTime:
            answer = None
        if answer is None:
            self.verdicts[rounds] = "unknown: out of time"
        elif isinstance(answer, str):
            self._impossible(rounds, answer)
        else:
            self.best = answer
            self.verdicts[rounds] = f"feasible: {answer.method}"
            return True
        return False

    def _impossible(self, rounds: int, by: str) -> None:
        self.verdicts[rounds] = f"infeasible: proved by {by}"
        for fewer in self.verdicts:
            # One could always wait for a round.
            if fewer < rounds and self.verdicts[fewer].startswith("unknown"):
                self.verdicts[fewer] = f"infeasible: proved by {by}, of {self._count(rounds)}"
        self.lower, self.proof = rounds + 1, by

    def _why(self) -> str:
        best = self.best
        text = f"{self._count(best.rounds)} found by {best.method}"
        if best.rounds == self.lower:
            return f"{text}; fewer are impossible: proved by {self.proof}"
        missing = f"{self.lower}" if best.rounds == self.lower + 1 else f"{self.lower} to {best.rounds - 1}"
        verdict = self.verdicts.get(self.lower, "unknown: out of time").removeprefix("unknown: ")
        fewer = f"; fewer than {self.lower} are impossible: proved by {self.proof}" if self.lower > 1 else ""
        return f"{text}; {missing} not decided ({verdict}){fewer}"

    def _beyond(self, given: int | None, limit: int, others: int, times: int) -> InputError:
        """Why there is no answer; in rounds of everything, as was `given`."""
        units, least = f"{self.problem.unit}s", times * self.lower + others
        if limit < self.lower:
            return InputError(f"max_{units}: {given}; allowed: from {least}, as proved by {self.proof}")
        known = times * self.best.rounds + others
        return Undecided(
            f"time_limit: over before {least} to {given} {units} were decided; "
            f"allowed: more time, or max_{units} from {known}"
        )

    def _count(self, number: int) -> str:
        return counted(number, self.problem.unit)


def counted(number: int, unit: str) -> str:
    """1 round, 2 rounds, …"""
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"


def no_time_to_begin() -> Undecided:
    """Time is over before any schedule was found."""
    return Undecided("time_limit: over before any schedule was found; allowed: more time")


def ordered_plan(ways: dict[Move, Way], method: str) -> MovePlan:
    """Moves of circuits in order, empty rounds left out."""
    rounds = {r: i for i, r in enumerate(sorted({m[0] for m in ways}))}
    ordered = sorted(ways)
    moves = tuple((rounds[r], *move) for r, *move in ordered)
    return MovePlan(moves, method, tuple(ways[m] for m in ordered))  # type: ignore[arg-type]


def last_round(moves: Iterable[Move]) -> int:
    """The number of the last round, −1 without moves."""
    return max((m[0] for m in moves), default=-1)
