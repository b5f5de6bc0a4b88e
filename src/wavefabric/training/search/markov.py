"""Search strategies by Markov-chain Monte Carlo as in FlexFlow; the cost is the simulated iteration time.

FlexFlow: Jia, Zaharia and Aiken, MLSys 2019, arXiv:1807.05358, section 6. Proposals are random changes of
stages, layouts, context, microbatches, sharding, recomputation and bucket; they can lead to every
combination, with three limits that keep simulations short: up to `MOST_MICROBATCHES` microbatches per stage,
buckets of `BUCKETS`, and stages and layouts that `check_strategy` accepts. No proposal changes the other
options.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import gcd, inf, log
from random import Random
from time import monotonic
from typing import NamedTuple

from wavefabric.base.errors import InputError
from wavefabric.training.iteration.engine import CallTimes, FreeCommunication, run
from wavefabric.training.iteration.memory import largest_need
from wavefabric.training.iteration.task_graph import Call
from wavefabric.training.iteration.tasks import build_tasks
from wavefabric.training.models.graph import ModelGraph, part_of
from wavefabric.training.search.chain import SearchSetting
from wavefabric.training.strategies.strategy import (
    LayerLayout,
    Strategy,
    check_strategy,
    context_fault,
    cut_stages,
    divisors,
    layouts_of,
)

#: Largest number of microbatches per pipeline stage that is tried.
MOST_MICROBATCHES = 8
#: Bucket sizes that are tried, in bytes.
BUCKETS = (0.0, *(float(2**power) for power in range(20, 31)))


class StrategyCost(NamedTuple):
    """Cost of a strategy: bytes per GPU above the memory limit, compared first, and iteration time in s."""

    excess: float
    seconds: float


class StrategyCosts:
    """Computes and caches the cost of strategies: memory above the limit, and iteration time.

    On a photonic fabric each batch of calls needs a circuit plan, which takes long for strategies with many
    stages. A strategy is therefore first simulated with free communication, then with calls that do not wait
    for calls of other GPUs; if one of these times is too long already, the full simulation is skipped. The
    second time is not proved to be a lower bound, since greedy orders have anomalies (Graham 1969,
    doi:10.1137/0117039).
    """

    def __init__(self, setting: SearchSetting, memory: float, policy: str):
        self.setting, self.memory, self.policy = setting, memory, policy
        self._known: dict[Strategy, StrategyCost] = {}
        self._least: dict[Strategy, float] = {}  # lower bounds, for strategies not simulated in full
        self._bounds: tuple[CallTimes, ...] = ()
        if not setting.fabric.concurrent:
            self._bounds = (FreeCommunication(), _Undisturbed(setting.fabric))

    @property
    def tried(self) -> int:
        """Return the number of different strategies evaluated so far."""
        return len(self._known.keys() | self._least.keys())

    def __call__(self, strategy: Strategy, most: float = inf) -> StrategyCost:
        """Return the cost of ``strategy``; a time above ``most`` s may be a lower bound above ``most``."""
        if strategy in self._known:
            return self._known[strategy]
        if self._least.get(strategy, 0.0) > most:
            return StrategyCost(0.0, self._least[strategy])
        workload = self.setting.workload(strategy)
        excess = max(0.0, largest_need(workload).total - self.memory)
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
    """Times of calls on a photonic fabric as if calls of disjoint GPUs did not wait for each other."""

    concurrent = True

    def __init__(self, fabric: CallTimes):
        self._fabric = fabric

    def seconds(self, calls: Sequence[Call]) -> float:
        """Return the time in s of the slowest of ``calls``, each timed alone."""
        return max(self._fabric.seconds([call]) for call in calls)


@dataclass
class SearchTrail:
    """Records the best strategy so far and the progress of the search.

    ``limit``: number of proposals in total. ``made``: number of proposals so far. ``until``: value of
    `time.monotonic` at which to stop, or None. ``history``: (proposals made, iteration time in s) for each
    new best strategy.
    """

    limit: int
    until: float | None = None
    progress: Callable[[int, int, float], None] | None = None
    best: Strategy | None = None
    cost: StrategyCost = field(default_factory=lambda: StrategyCost(inf, inf))
    made: int = 0
    history: list[tuple[int, float]] = field(default_factory=list)

    def saw(self, strategy: Strategy, cost: StrategyCost) -> None:
        """Record ``strategy`` if it is the best so far."""
        if cost < self.cost:
            self.best, self.cost = strategy, cost
            if not cost.excess:
                self.history.append((self.made, cost.seconds))

    def late(self) -> bool:
        """Return whether the time limit has passed."""
        return self.until is not None and monotonic() >= self.until

    def report(self) -> None:
        """Call ``progress`` with proposals made, proposals in total, and the best iteration time in s."""
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
    """Run a Metropolis–Hastings chain over strategies from ``start``; record the best one in ``trail``.

    A proposal is accepted with probability min(1, exp(beta · (current seconds − seconds) / scale)), where the
    scale is the first finite time, so that beta has no unit. A strategy beyond the memory limit is rejected,
    unless the current strategy exceeds the limit by as much or more. The chain ends after ``proposals``, or
    when half as many proposals in a row bring no new best strategy of this chain.

    ``cost(strategy, most)``: the cost of a strategy; a time above ``most`` seconds may be replaced by a lower
    bound above ``most``. ``propose``: returns a strategy one change away, or None, which counts as rejected.
    ``beta``: FlexFlow's constant; with 50 a proposal 2 % slower is accepted with probability 1/e.
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
            # The random number is drawn first, so a rejected proposal needs no exact cost.
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


class StrategyMoves:
    """Proposes random changes of a strategy for one model and number of GPUs; the batch never changes.

    Kinds of changes, each with a relative frequency: layout of a layer, of a block, of all blocks equal to a
    block, of all layers; number of stages; position of a cut; microbatches; sharding; recomputation; bucket.
    """

    def __init__(self, model: ModelGraph, gpus: int):
        self.model, self.gpus = model, gpus
        self.blocks = model.blocks
        parts = [part_of(model, block) for block in self.blocks]
        #: For each block, the layers of all blocks equal to it.
        self.equal = [
            tuple(n for other, block in zip(parts, self.blocks, strict=True) if other == part for n in block)
            for part in parts
        ]
        self.pipelines = [p for p in divisors(gpus) if p <= len(self.blocks)]
        self.cut = lru_cache(maxsize=None)(lambda stages: cut_stages(model, stages))
        layers = range(len(model.layers))
        self.kinds: dict[Callable[[Strategy, Random], Strategy | None], float] = {
            self._layouts(lambda random: [random.choice(layers)]): 2.0,
            self._layouts(lambda random: random.choice(self.blocks)): 2.0,
            self._layouts(lambda random: random.choice(self.equal)): 3.0,
            self._layouts(lambda random: layers): 2.0,
            self._pipeline: 2.0,
            self._boundary: 1.0,
            _microbatches: 1.0,
            lambda strategy, _: replace(strategy, zero=0 if strategy.zero else 3): 1.0,
            lambda strategy, _: replace(strategy, recompute=not strategy.recompute): 0.5,
            lambda strategy, random: replace(strategy, bucket=random.choice(BUCKETS)): 1.0,
        }
        if not context_fault(model, 2):
            self.kinds[_context] = 1.0

    def propose(self, strategy: Strategy, random: Random) -> Strategy | None:
        """Return a strategy that differs from ``strategy`` by one random change; None if it is impossible."""
        kind = random.choices(list(self.kinds), list(self.kinds.values()))[0]
        changed = kind(strategy, random)
        if changed is None or changed == strategy:
            return None
        try:
            check_strategy(self.model, changed)
        except InputError:
            return None
        return changed

    def _layouts(self, drawn: Callable[[Random], Sequence[int]]) -> Callable[..., Strategy | None]:
        """Return a function that changes the layout of some layers of a strategy.

        ``drawn(random)`` draws the layers. The function gives all of them one random layout, and draws a new
        number of microbatches if the old one is not allowed. It returns None if no change is possible.
        """

        def change(strategy: Strategy, random: Random) -> Strategy | None:
            numbers = drawn(random)
            layers = [self.model.layers[n] for n in numbers]
            every = layouts_of(layers, strategy.stage_gpus)
            context = strategy.context
            choices = [x for x in every if x.data % context == 0 == strategy.batch % (x.data // context)]
            if not choices:
                return None
            layout, layouts = random.choice(choices), list(strategy.layouts)
            for n, layer in zip(numbers, layers, strict=True):
                layouts[n] = layout.of(layer)
            changed = replace(strategy, layouts=tuple(layouts))
            allowed = strategy.microbatches in _allowed_microbatches(changed)
            return changed if allowed else _microbatches(changed, random)

        return change

    def _pipeline(self, strategy: Strategy, random: Random) -> Strategy | None:
        stages = random.choice(self.pipelines)
        if stages == strategy.stages:
            return None
        gpus = self.gpus // stages
        layouts = tuple(_fitted(layout, gpus) for layout in strategy.layouts)
        return _microbatches(replace(strategy, stage=self.cut(stages), layouts=layouts), random)

    def _boundary(self, strategy: Strategy, random: Random) -> Strategy | None:
        """Move a random cut between stages by one block; None without a cut or if a stage becomes empty."""
        stages = [strategy.stage[block[0]] for block in self.blocks]
        cuts = [k for k in range(1, len(stages)) if stages[k] != stages[k - 1]]
        if not cuts:
            return None
        cut, later = random.choice(cuts), random.random() < 0.5
        position = cut if later else cut - 1
        if stages.count(stages[position]) == 1:
            return None
        stages[position] = stages[cut - 1] if later else stages[cut]
        stage = tuple(own for block, own in zip(self.blocks, stages, strict=True) for _ in block)
        return replace(strategy, stage=stage)


def _context(strategy: Strategy, random: Random) -> Strategy | None:
    degrees = divisors(gcd(*(layout.data for layout in strategy.layouts)))
    return _microbatches(replace(strategy, context=random.choice(degrees)), random)


def _microbatches(strategy: Strategy, random: Random) -> Strategy | None:
    allowed = _allowed_microbatches(strategy)
    return replace(strategy, microbatches=random.choice(allowed)) if allowed else None


def _fitted(layout: LayerLayout, gpus: int) -> LayerLayout:
    """Return a layout for ``gpus`` GPUs with the degrees of ``layout``, reduced to divisors."""
    tensor = gcd(layout.tensor, gpus)
    return LayerLayout(gpus // tensor, tensor, gcd(layout.expert, gpus // tensor))


def _allowed_microbatches(strategy: Strategy) -> list[int]:
    """Return the numbers of microbatches for which the samples per GPU of every layer are whole numbers."""
    if any(layout.data % strategy.context for layout in strategy.layouts):
        return []
    degrees = {layout.data // strategy.context for layout in strategy.layouts}
    if any(strategy.batch % data for data in degrees):
        return []
    common = gcd(*(strategy.batch // data for data in degrees))
    most = MOST_MICROBATCHES * strategy.stages
    return [n for n in range(1, most + 1) if common % n == 0]
