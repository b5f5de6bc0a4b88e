"""Search for the fewest rounds over circuits or links: bounds, known schedules, and then solvers."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from wavefabric.base.errors import InputError, ensure
from wavefabric.base.units import counted
from wavefabric.collectives.synthesis import deadline as clock
from wavefabric.collectives.synthesis.bounds import UNREACHABLE, Bound
from wavefabric.collectives.synthesis.demand import FAR, Demand, Move
from wavefabric.collectives.synthesis.problem import Undecided, no_time_to_begin
from wavefabric.collectives.synthesis.solve import TOO_MANY

#: Wavelength, and tiles of the route.
Lightpath = tuple[int, tuple[int, ...]]
#: A callback that gets a text on each attempt.
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Solution:
    """Holds moves in order, the method that found them, and for circuits the wavelength and route of each.

    ``rounds_of_steps``: for links, the number of rounds of each step; empty if each has one.
    """

    moves: Sequence[Move]
    method: str
    lightpaths: Mapping[Move, Lightpath] = field(default_factory=dict)
    rounds_of_steps: tuple[int, ...] = ()

    @property
    def steps(self) -> int:
        return len(self.rounds_of_steps) or 1 + max((m[0] for m in self.moves), default=-1)

    @property
    def rounds(self) -> int:
        """Return the number of rounds of all steps together."""
        return sum(self.rounds_of_steps) or self.steps

    def reversed(self) -> "Solution":
        """Return the solution reversed in time, with every move and route reversed; moves are in order."""
        last = self.steps - 1
        back = {m: (last - m[0], m[1], m[3], m[2]) for m in self.moves}
        paths = {back[m]: (wave, tuple(route[::-1])) for m, (wave, route) in self.lightpaths.items()}
        return Solution(sorted(back.values()), self.method, paths, self.rounds_of_steps[::-1])


def ordered_solution(lightpaths: dict[Move, Lightpath], method: str) -> Solution:
    """Return a solution of the moves that are keys of ``lightpaths``, in order and without empty rounds."""
    rounds = {r: i for i, r in enumerate(sorted({m[0] for m in lightpaths}))}
    ordered = {(rounds[m[0]], *m[1:]): lightpaths[m] for m in sorted(lightpaths)}
    return Solution(list(ordered), method, ordered)


@dataclass(frozen=True)
class HalfResult:
    """Holds the best solution for the sums or the copies of a synthesis, with the proved lower bound."""

    solution: Solution
    lower: int
    why: str
    status: tuple[tuple[int, str], ...]


class Search(ABC):
    """Tries increasing numbers of rounds, from the lower bound on, until one is possible.

    A subclass defines what circuits or links can carry; ``unit``: what is counted, rounds or steps.
    """

    unit: str
    #: The error text if some rank cannot be reached.
    unreachable: str

    def __init__(self, demand: Demand, deadline: float, say: Progress, bound: Bound):
        self.demand, self.deadline, self.say = demand, deadline, say
        self.verdicts: dict[int, str] = {}
        self.lower, reason = bound
        self.proof = f"a bound ({reason})"

    @abstractmethod
    def known(self, stop: clock.Deadline) -> Iterator[Solution | None]:
        """Yield solutions found without a solver, promising ones first; None for a method that fails."""

    @abstractmethod
    def variables(self, rounds: int) -> int:
        """Return how many variables the solvers' model has for ``rounds``, without building the model."""

    @abstractmethod
    def decide(self, rounds: int, until: float, say: Progress) -> Solution | str | None:
        """Return a solution of ``rounds`` rounds, a proof (text) that there is none, or None if undecided."""

    def too_large(self, rounds: int) -> bool:
        """Return whether the solvers' model would have more than `TOO_MANY` variables."""
        return self.variables(rounds) > TOO_MANY

    def time_for_known(self) -> float:
        """Return the fraction of the remaining time after which `known` ends if it has yielded a solution."""
        return 1 / 4

    def run(self, max_rounds: int | None = None, others: int = 0, times: int = 1) -> HalfResult:
        """Search for the fewest rounds, and return the best solution with the lower bound that is proved.

        ``max_rounds`` limits ``times`` × rounds + ``others``, where ``others`` are rounds of other parts.
        `InputError` if that is proved impossible; `Undecided` if time runs out before the limit is reached.
        """
        limit = None if max_rounds is None else (max_rounds - others) // times
        if self.lower >= min(UNREACHABLE, FAR):
            raise InputError(self.unreachable)
        if self.lower > 1:
            self.verdicts[self.lower - 1] = f"infeasible: proved by {self.proof}"
        self.best = self._begin()
        rounds = self.lower
        while self._wanted(rounds, limit):
            last = self.best.rounds == rounds + 1
            if self._try(rounds, clock.fraction(self.deadline, 1 if last else 1 / 2)):
                break
            rounds += 1
        # The rest of the time goes to the fewest rounds that are undecided.
        while self._wanted(self.lower, limit) and self.deadline - clock.now() > 1.0:
            if self.too_large(self.lower) or self._try(self.lower, self.deadline):
                break
        if max_rounds is not None and limit is not None and self.best.rounds > limit:
            least = times * self.lower + others
            ensure(limit >= self.lower, "max_rounds", max_rounds, f"from {least}, as proved by {self.proof}")
            allowed = f"more time, or max_rounds from {times * self.best.rounds + others}"
            over = f"over before {least} to {max_rounds} rounds were decided"
            raise Undecided(f"time_limit: {over}; allowed: {allowed}")
        self.verdicts.setdefault(self.best.rounds, f"feasible: {self.best.method}")
        return HalfResult(self.best, self.lower, self._why(), tuple(sorted(self.verdicts.items())))

    def _begin(self) -> Solution:
        """Return the best solution of `known`; the first may take all of the time, better ones a fraction."""
        soon, stop = clock.fraction(self.deadline, self.time_for_known()), clock.Deadline(self.deadline)
        best: Solution | None = None
        try:
            for solution in filter(None, self.known(stop)):
                if best is None or solution.rounds < best.rounds:
                    best = solution
                    self.say(f"{counted(solution.rounds, self.unit)}: {solution.method}")
                stop.at = soon
                if best.rounds == self.lower or clock.now() > soon:
                    break
        except clock.OutOfTime:
            if best is None:
                raise no_time_to_begin() from None
        if best is None:
            raise InputError(self.unreachable)
        return best

    def _wanted(self, rounds: int, limit: int | None) -> bool:
        """Return whether ``rounds`` would be an improvement within ``limit``, and time is left to try."""
        better = rounds < self.best.rounds and (limit is None or rounds <= limit)
        return better and clock.now() < self.deadline

    def _try(self, rounds: int, until: float) -> bool:
        """Try by ``until`` to decide ``rounds`` rounds, and note the verdict; return True for a solution."""
        if self.too_large(rounds):
            self.verdicts[rounds] = "unknown: too large for the solvers"
            return False
        count = counted(rounds, self.unit)
        try:
            answer = self.decide(rounds, until, lambda text: self.say(f"{count}: {text}"))
        except clock.OutOfTime:
            answer = None
        if isinstance(answer, Solution):
            self.best = answer
            self.verdicts[rounds] = f"feasible: {answer.method}"
            return True
        self.verdicts[rounds] = f"infeasible: proved by {answer}" if answer else "unknown: out of time"
        if answer:
            for fewer, verdict in self.verdicts.items():
                # Fewer rounds are impossible too: an idle round could be added to any schedule.
                if fewer < rounds and verdict.startswith("unknown"):
                    self.verdicts[fewer] = f"infeasible: proved by {answer}, of {count}"
            self.lower, self.proof = rounds + 1, answer
        return False

    def _why(self) -> str:
        best = self.best
        text = f"{counted(best.rounds, self.unit)} found by {best.method}"
        if best.rounds == self.lower:
            return f"{text}; fewer are impossible: proved by {self.proof}"
        missing = f"{self.lower}" if best.rounds == self.lower + 1 else f"{self.lower} to {best.rounds - 1}"
        verdict = self.verdicts.get(self.lower, "unknown: out of time").removeprefix("unknown: ")
        fewer = f"; fewer than {self.lower} are impossible: proved by {self.proof}" if self.lower > 1 else ""
        return f"{text}; {missing} not decided ({verdict}){fewer}"
