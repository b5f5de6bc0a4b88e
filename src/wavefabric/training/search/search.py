"""Search for the strategy with the shortest simulated iteration that fits the memory of the GPUs.

The search starts from data parallelism, strategies that experts would choose, and optima of `best_chain`.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from math import gcd, inf, isfinite
from random import Random
from time import monotonic
from typing import Any

from wavefabric.base.arguments import whole
from wavefabric.base.errors import InputError, choice, show
from wavefabric.training.gpu.device_model import DeviceModel
from wavefabric.training.gpu.precision import Precision
from wavefabric.training.iteration.engine import POLICIES, CallTimes
from wavefabric.training.iteration.simulate import Iteration, simulate
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.search.chain import SearchSetting, SerialOptions, best_chain
from wavefabric.training.search.markov import (
    SearchTrail,
    StrategyCost,
    StrategyCosts,
    StrategyMoves,
    markov_chain,
)
from wavefabric.training.strategies.strategy import Strategy, check_strategy, context_fault, uniform
from wavefabric.training.strategies.strategy_text import parse_strategy

#: Search methods: Markov chains over all strategies, or exact search of the layouts of one pipeline stage.
METHODS = ("markov", "chain")
#: Defaults: number of proposals of the Markov chains, and their inverse temperature.
PROPOSALS, BETA = 600, 50.0
#: Bytes of gradients per call in PyTorch (``bucket_cap_mb``).
BUCKET = 25.0 * 2**20
#: Degrees of tensor parallelism (within one machine) and pipeline parallelism (few stages) that experts try.
TENSOR, PIPELINE = (1, 2, 4, 8), (1, 2, 4, 8)
#: Degrees of context parallelism that experts try, while a GPU keeps at least `LEAST_POSITIONS` positions.
CONTEXT, LEAST_POSITIONS = (1, 2, 4, 8, 16), 4096


@dataclass(frozen=True)
class SearchResult:
    """Holds the result of a search for a strategy.

    ``iteration``: the simulation of ``strategy``, the best one. ``start``: the simulation of `data_parallel`,
    for comparison, which may exceed the memory. ``tried``: number of different strategies simulated or found
    too large. ``history``: (number of proposals until then, iteration time in s) of each new best strategy.
    ``stopped``: why the search ended: ``"proposals"``, ``"time"`` or ``"interrupted"``.
    """

    strategy: Strategy
    iteration: Iteration
    start: Iteration
    tried: int
    history: tuple[tuple[int, float], ...]
    stopped: str


@dataclass(frozen=True)
class SearchOptions:
    """Options of `search`.

    ``method`` ``"chain"``: simulate the `best_chain` strategies for one pipeline stage, with and without
    sharding and recomputation, and return the fastest. ``"markov"``: run Markov chains from data parallelism,
    from the fastest of `expert_designed`, from the fastest of ``"chain"`` and from ``starts``, with equal
    numbers of proposals. The result is never worse than any start, and reproducible unless ``seconds`` ends
    the search.
    """

    method: str = "markov"
    proposals: int = PROPOSALS  # proposals, seed, beta: of the Markov chains (`markov_chain`)
    seed: int = 0
    memory: float | None = None  # memory limit per GPU in B; by default all of the device
    batch: int | None = None  # samples per iteration; by default ``model.batch`` × GPUs
    policy: str = "batched"  # order of calls, of `engine.POLICIES`
    beta: float = BETA
    starts: Iterable[Strategy] = ()  # further starts, for the same GPUs and batch
    seconds: float | None = None  # time limit in s, after which no proposal begins
    #: Called with (proposals done, proposals in total, iteration time of the best in s; inf: none fits yet).
    progress: Callable[[int, int, float], None] | None = None

    def __post_init__(self):
        choice("method", self.method, METHODS)
        choice("policy", self.policy, POLICIES)
        whole("proposals", self.proposals, 0, 10**9)
        for key in ("memory", "beta", "seconds"):
            value = getattr(self, key)
            if value is not None and not value > 0:
                raise InputError(f"{key}: {show(value)} given; allowed: above 0")


def search(
    model: ModelGraph, gpus: int, device: DeviceModel, precision: Precision, fabric: CallTimes, **options: Any
) -> SearchResult:
    """Find the strategy with the shortest iteration; ``options`` are the fields of `SearchOptions`.

    ``fabric`` caches the times of calls, so reuse ``fabric`` for searches of several models. Ctrl-C
    (KeyboardInterrupt) ends the search with the best strategy so far, if one fits. Raises `InputError` for an
    unknown method or policy, numbers out of range, a batch that no strategy can divide, or if no strategy
    fits the memory.
    """
    how = SearchOptions(**options)
    memory = device.memory if how.memory is None else how.memory
    batch = model.batch * gpus if how.batch is None else how.batch
    setting = SearchSetting(model, gpus, batch, device, precision, fabric)
    first = data_parallel(setting)
    chosen = [first, *how.starts]
    for start in chosen[1:]:
        if (start.gpus, start.batch) != (gpus, batch):
            actual = f"starts: a strategy of {start.gpus} GPUs and {start.batch} samples given"
            raise InputError(f"{actual}; allowed: of {gpus} and {batch}")
        check_strategy(model, start)
    costs = StrategyCosts(setting, memory, how.policy)
    until = None if how.seconds is None else monotonic() + how.seconds
    trail = SearchTrail(how.proposals if how.method == "markov" else 0, until, how.progress)
    stopped = "proposals"
    try:
        if how.method == "chain":
            _best_of(chain_optima(setting, memory), costs, trail)
        else:
            _walk(chosen, costs, trail, how.beta, Random(how.seed))
        stopped = "time" if trail.late() else stopped
    except KeyboardInterrupt:
        if trail.best is None or trail.cost.excess:
            raise
        stopped = "interrupted"
    if trail.best is None or trail.cost.excess:
        least = memory + trail.cost.excess
        what = f"at least {least / 1e9:.3g} GB" if isfinite(least) else "more"
        need = f"none of {max(1, costs.tried)} strategies fits, {what} needed a GPU"
        raise InputError(f"memory: {memory / 1e9:.3g} GB given; allowed: more ({need})")
    best, start = (simulate(setting.workload(each), fabric, how.policy) for each in (trail.best, first))
    return SearchResult(trail.best, best, start, costs.tried, tuple(trail.history), stopped)


def _walk(
    starts: list[Strategy], costs: StrategyCosts, trail: SearchTrail, beta: float, random: Random
) -> None:
    """Run Markov chains of equal length, one from each start, and record the best strategy in ``trail``.

    The starts are ``starts``, the best strategy that experts would design, and the best strategy of the exact
    search. Starts that exceed the memory are left out; if all do, the last one is used.
    """
    setting, chosen = costs.setting, list(starts)
    for group in (expert_designed(setting), chain_optima(setting, costs.memory)):
        best = _best_of(group, costs, trail)
        if best is not None:
            chosen.append(best)
    chosen = [s for s in dict.fromkeys(chosen) if not costs(s).excess] or chosen[-1:]
    moves = StrategyMoves(setting.model, setting.gpus)
    for number, start in enumerate(chosen):
        fraction = trail.limit * (number + 1) // len(chosen) - trail.limit * number // len(chosen)
        markov_chain(start, costs, moves.propose, fraction, beta, random, trail)


def _best_of(strategies: Iterable[Strategy], costs: StrategyCosts, trail: SearchTrail) -> Strategy | None:
    """Return the strategy with the smallest cost; of several equal, the first; None if there are none."""
    best, least = None, StrategyCost(inf, inf)
    for strategy in strategies:
        if trail.late() and best is not None:
            break
        cost = costs(strategy, least.seconds)
        trail.saw(strategy, cost)
        if cost < least:
            best, least = strategy, cost
        trail.report()
    return best


def data_parallel(setting: SearchSetting) -> Strategy:
    """Return the strategy with as much data parallelism as the batch allows, and no pipeline.

    The degree of data parallelism is the greatest common divisor of the number of GPUs and the batch. The
    rest is tensor parallelism, of degree 1 if the number of GPUs divides the batch.
    """
    across = gcd(setting.gpus, setting.batch) or 1
    tensor = setting.gpus // across
    return uniform(setting.model, setting.gpus, tensor=tensor, batch=setting.batch, bucket=BUCKET)


def expert_designed(setting: SearchSetting) -> Iterator[Strategy]:
    """Yield strategies that experts would try: usual degrees for all layers, and split embedding tables.

    Each is yielded with and without sharding; those with usual degrees also with and without recomputation.
    Strategies that the model or the number of GPUs does not allow are left out.
    """
    model, gpus = setting.model, setting.gpus
    for text in ("data", "data,sharded", "tables", "tables,sharded"):
        with suppress(InputError):
            yield parse_strategy(text, model, gpus, batch=setting.batch)
    experts = gcd(*(layer.experts for layer in model.layers))
    most = model.layers[0].output[0] // LEAST_POSITIONS
    degrees = [c for c in CONTEXT if c == 1 or (c <= most and not context_fault(model, c))]
    for tensor, pipeline, context in product(TENSOR, PIPELINE, degrees):
        data = gpus // (tensor * pipeline)
        for expert in sorted({1, gcd(experts, data) if experts else 1}):
            with suppress(InputError):
                plain = uniform(
                    model, gpus, tensor=tensor, pipeline=pipeline, expert=expert, context=context,
                    batch=setting.batch, bucket=BUCKET,
                )  # fmt: skip
                for zero, recompute in product((0, 3), (False, True)):
                    yield replace(plain, zero=zero, recompute=recompute)


def chain_optima(setting: SearchSetting, memory: float) -> Iterator[Strategy]:
    """Yield strategies of least serial time for one stage, with and without sharding and recomputation."""
    for sharded, recompute in product((False, True), repeat=2):
        with suppress(InputError):
            yield best_chain(setting, SerialOptions(1, sharded, recompute), memory).strategy
