"""Search for the strategy with the least simulated iteration time that fits the memory of the GPUs.

It starts from data parallelism, what experts would choose, and the optimum of a chain.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from math import gcd, inf, isfinite
from random import Random
from time import monotonic
from typing import Any

from wavefabric.errors import InputError, choice, show
from wavefabric.quantities import whole
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
from wavefabric.training.strategies.strategy import Strategy, check_strategy, uniform
from wavefabric.training.strategies.strategy_text import parse_strategy

#: How strategies are searched: all that a file can say, by chance; or layouts of one stage, exactly.
METHODS = ("markov", "chain")
#: Proposals of the Markov chains, and how cold they are, unless others are given.
PROPOSALS, BETA = 600, 50.0
#: Bytes of gradients that PyTorch reduces together (its ``bucket_cap_mb``).
BUCKET = 25.0 * 2**20
#: Degrees of tensor and pipeline parallelism that experts try: of GPUs in one machine, of few stages.
TENSOR, PIPELINE = (1, 2, 4, 8), (1, 2, 4, 8)


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    ``iteration``: the strategy simulated. ``start``: data parallelism simulated, for comparison; it need not
    fit the memory. Of fewer samples than GPUs it has as much tensor parallelism as that takes. ``tried``:
    different strategies simulated, or found too large. ``history``: each time that a strategy became the
    best, proposals made until then, and s of its iteration. ``stopped``: ``"proposals"``, ``"time"`` or
    ``"interrupted"``, what ended the search.
    """

    strategy: Strategy
    iteration: Iteration
    start: Iteration
    tried: int
    history: tuple[tuple[int, float], ...]
    stopped: str


@dataclass(frozen=True)
class SearchOptions:
    """How strategies are searched.

    ``method`` ``"chain"``: `best_chain` for one stage, with and without sharding and recomputation; of these
    the fastest when simulated. ``"markov"``: Markov chains from data parallelism, from the fastest strategy
    that `expert_designed` knows, from the fastest of ``"chain"`` and from ``starts``, each with an equal
    share of the proposals. Never worse than any of them. The same options give the same, unless ``seconds``
    ends the search.
    """

    method: str = "markov"
    proposals: int = PROPOSALS  # of the Markov chains, as are seed and beta; see `markov_chain`
    seed: int = 0
    memory: float | None = None  # B that a GPU may hold; by default all it has
    batch: int | None = None  # samples of an iteration; by default the model's own for each GPU
    policy: str = "batched"  # order of calls, of `engine.POLICIES`
    beta: float = BETA
    starts: Iterable[Strategy] = ()  # others from which to start, for the same GPUs and batch
    seconds: float | None = None  # begin no proposal after so long
    #: Called with proposals made, proposals in all, and s of the best (inf: none fits yet).
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
    """Find a strategy; ``options``: of `SearchOptions`, by keyword.

    ``fabric`` keeps what calls take, so the same one serves searches of several models best. Ctrl-C
    (KeyboardInterrupt) ends the search with the best so far, once there is one that fits. `InputError`: an
    unknown method or policy, numbers out of range, a batch that no strategy divides, or no strategy tried
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
    """Markov chains from each start and from the best known, with equal shares of the proposals."""
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
    """The strategy with the least cost; the first of equals."""
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
    """All GPUs share the samples, or as many as have whole ones; with PyTorch's buckets."""
    across = gcd(setting.gpus, setting.batch) or 1
    tensor = setting.gpus // across
    return uniform(setting.model, setting.gpus, tensor=tensor, batch=setting.batch, bucket=BUCKET)


def expert_designed(setting: SearchSetting) -> Iterator[Strategy]:
    """One layout for all layers, of the usual degrees, plain and sharded; split tables; those that fit."""
    model, gpus = setting.model, setting.gpus
    for text in ("data", "data,sharded", "tables", "tables,sharded"):
        with suppress(InputError):
            yield parse_strategy(text, model, gpus, batch=setting.batch)
    experts = gcd(*(layer.experts for layer in model.layers))
    for tensor, pipeline in product(TENSOR, PIPELINE):
        data = gpus // (tensor * pipeline)
        for expert in sorted({1, gcd(experts, data) if experts else 1}):
            with suppress(InputError):
                plain = uniform(
                    model, gpus, tensor=tensor, pipeline=pipeline, expert=expert,
                    batch=setting.batch, bucket=BUCKET,
                )  # fmt: skip
                for zero, recompute in product((0, 3), (False, True)):
                    yield replace(plain, zero=zero, recompute=recompute)


def chain_optima(setting: SearchSetting, memory: float) -> Iterator[Strategy]:
    """The strategies of `best_chain` with and without sharding and recomputation, those that fit."""
    for sharded, recompute in product((False, True), repeat=2):
        with suppress(InputError):
            yield best_chain(setting, SerialOptions(1, sharded, recompute), memory).strategy
