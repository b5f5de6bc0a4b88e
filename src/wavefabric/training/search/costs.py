"""Simulated time of strategies, each simulated once, and no further than it matters."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from wavefabric.training.iteration.calls import Call
from wavefabric.training.iteration.engine import CallTimes, FreeCommunication, run
from wavefabric.training.iteration.memory import strategy_memory
from wavefabric.training.iteration.tasks import Workload, build_tasks
from wavefabric.training.search.chain_costs import SearchSetting
from wavefabric.training.search.markov import StrategyCost
from wavefabric.training.strategies.strategy import Strategy


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

    def workload(self, strategy: Strategy) -> Workload:
        """What is simulated."""
        return Workload(self.setting.model, strategy, self.setting.device, self.setting.precision)

    def __call__(self, strategy: Strategy, most: float = inf) -> StrategyCost:
        """The cost; of a strategy that takes more than ``most`` s, perhaps a lower bound above that."""
        if strategy in self._known:
            return self._known[strategy]
        if self._least.get(strategy, 0.0) > most:
            return StrategyCost(0.0, self._least[strategy])
        workload = self.workload(strategy)
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
