"""Markov-chain Monte Carlo over strategies, as FlexFlow searches (Jia, Zaharia and Aiken, MLSys 2019,
arXiv:1807.05358, section 6): Metropolis and Hastings' rule, with the simulator as cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf, log
from random import Random
from time import monotonic
from typing import NamedTuple

from wavefabric.training.iteration.calls import Call
from wavefabric.training.iteration.engine import CallTimes, FreeCommunication, run
from wavefabric.training.iteration.memory import strategy_memory
from wavefabric.training.iteration.tasks import build_tasks
from wavefabric.training.search.chain_costs import SearchSetting
from wavefabric.training.strategies.strategy import Strategy


class StrategyCost(NamedTuple):
    """B a GPU beyond the limit, and s of an iteration; the former counts first."""

    excess: float
    seconds: float


class StrategyCosts:
    """What an iteration takes with a strategy, and by how much it exceeds the memory.

    Where one controller sets up all circuits, those of each batch of calls must be planned, which takes long
    for strategies with many stages. So a strategy is first simulated with free communication, then with calls
    that do not wait for those of other GPUs; if that is too slow already, nothing else is done. The latter
    is no proven bound, as greedy orders have anomalies (Graham 1969, doi:10.1137/0117039).
    """

    def __init__(self, setting: SearchSetting, memory: float, policy: str):
        self.setting, self.memory, self.policy = setting, memory, policy
        self._known: dict[Strategy, StrategyCost] = {}
        self._least: dict[Strategy, float] = {}  # of strategies not simulated in full
        self._bounds: tuple[CallTimes, ...] = ()
        if not setting.fabric.concurrent:
            self._bounds = (FreeCommunication(), _Undisturbed(setting.fabric))

    @property
    def tried(self) -> int:
        """Different strategies seen."""
        return len(self._known.keys() | self._least.keys())

    def __call__(self, strategy: Strategy, most: float = inf) -> StrategyCost:
        """The cost; of a strategy that takes more than ``most`` s, perhaps a lower bound above that."""
        if strategy in self._known:
            return self._known[strategy]
        if self._least.get(strategy, 0.0) > most:
            return StrategyCost(0.0, self._least[strategy])
        workload = self.setting.workload(strategy)
        excess = max(0.0, float(strategy_memory(workload).max()) - self.memory)
        if excess:
            return self._known.setdefault(strategy, StrategyCost(excess, inf))
        graph = build_tasks(workload)
        for bound in self._bounds if most < inf else ():
            seconds = run(graph, bound, self.policy).seconds
            if seconds > most:
                self._least[strategy] = seconds
                return StrategyCost(0.0, seconds)
        seconds = run(graph, self.setting.fabric, self.policy).seconds
        return self._known.setdefault(strategy, StrategyCost(0.0, seconds))


class _Undisturbed:
    """A fabric on which calls of disjoint GPUs do not wait for each other."""

    concurrent = True

    def __init__(self, fabric: CallTimes):
        self._fabric = fabric

    def seconds(self, calls: Sequence[Call]) -> float:
        """As if each call were alone."""
        return max(self._fabric.seconds([call]) for call in calls)


@dataclass
class SearchTrail:
    """The best strategy of all so far, and how it came about.

    ``history``: (proposals made, s) at each that became the best. ``until``: `time.monotonic` at which to
    stop, or None.
    """

    limit: int
    until: float | None = None
    progress: Callable[[int, int, float], None] | None = None
    best: Strategy | None = None
    cost: StrategyCost = field(default_factory=lambda: StrategyCost(inf, inf))
    made: int = 0
    history: list[tuple[int, float]] = field(default_factory=list)

    def saw(self, strategy: Strategy, cost: StrategyCost) -> None:
        """Keep a strategy if it is the best."""
        if cost < self.cost:
            self.best, self.cost = strategy, cost
            if not cost.excess:
                self.history.append((self.made, cost.seconds))

    def late(self) -> bool:
        """Whether the time is over."""
        return self.until is not None and monotonic() >= self.until

    def report(self) -> None:
        """Tell how far the search is: proposals made, of how many, and s of the best."""
        if self.progress is not None:
            self.progress(self.made, self.limit, self.cost.seconds)


def markov_chain(
    start: Strategy,
    cost: Callable[[Strategy, float], StrategyCost],
    propose: Callable[[Strategy, Random], Strategy | None],
    proposals: int,
    beta: float,
    random: Random,
    trail: SearchTrail,
) -> None:
    """Walk from a start; what is best is in ``trail``.

    A proposal is taken with probability min(1, exp(beta · (current seconds − seconds) / scale)), where the
    scale is the first finite cost, so that beta has no unit. Beyond the memory limit the cost is infinite;
    but a start may be beyond it, and from there proposals are taken that exceed the limit by no more. Ends
    when no proposal of the last half of ``proposals`` became the best of this walk, or after all.

    ``cost``: of a strategy; where that is above its second argument, s, a lower bound above it will do.
    ``propose``: a strategy one change away, or None, which counts as refused. ``beta``: FlexFlow's constant;
    with 50 a proposal 2 % slower is taken with probability 1/e.
    """
    current, now = start, cost(start, inf)
    trail.saw(start, now)
    own, since, scale = now, 0, 0.0
    for _ in range(proposals):
        if trail.late() or 2 * since >= proposals:
            return
        trail.made += 1
        since += 1
        proposed = propose(current, random)
        if proposed is not None:
            # The chance is drawn first: what it refuses needs no exact cost.
            chance = -log(1.0 - random.random())
            scale = scale or (0.0 if now.excess else now.seconds)
            most = now.seconds + chance * scale / beta if scale else inf
            then = cost(proposed, most)
            trail.saw(proposed, then)
            if then < own:
                own, since = then, 0
            if then.excess <= now.excess if now.excess else not then.excess and then.seconds <= most:
                current, now = proposed, then
        trail.report()
