"""Search for the strategy with the least simulated iteration time that fits the memory of the GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf, isfinite
from random import Random
from time import monotonic
from typing import Any

from wavefabric.collectives.arguments import whole
from wavefabric.errors import InputError, show
from wavefabric.quantities import choice
from wavefabric.training.gpu.device_model import DeviceModel
from wavefabric.training.gpu.precision import Precision
from wavefabric.training.iteration.engine import POLICIES, CallTimes
from wavefabric.training.iteration.simulate import Iteration, simulate
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.search.chain_costs import SearchSetting
from wavefabric.training.search.costs import StrategyCosts
from wavefabric.training.search.markov import SearchTrail, StrategyCost, markov_chain
from wavefabric.training.search.moves import StrategyMoves
from wavefabric.training.search.starts import chain_optima, data_parallel, expert_designed
from wavefabric.training.strategies.strategy import Strategy, check_strategy

#: How strategies are searched: all that a file can say, by chance; or layouts of one stage, exactly.
METHODS = ("markov", "chain")
#: Proposals of the Markov chains, and how cold they are, unless others are given.
PROPOSALS, BETA = 600, 50.0


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Attributes
    ----------
    strategy : Strategy
    iteration : Iteration
        The strategy simulated.
    start : Iteration
        Data parallelism simulated, for comparison; it need not fit the memory. Of fewer samples than GPUs
        it has as much tensor parallelism as that takes.
    tried : int
        Different strategies simulated, or found too large.
    history : tuple of (int, float)
        Each time that a strategy became the best: proposals made until then, and s of its iteration.
    stopped : str
        ``"proposals"``, ``"time"`` or ``"interrupted"``: what ended the search.
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

    Parameters
    ----------
    method : str
        ``"chain"``: `best_chain` for one stage, with and without sharding and recomputation; of these the
        fastest when simulated. ``"markov"``: Markov chains from data parallelism, from the fastest
        strategy that `expert_designed` knows, from the fastest of ``"chain"`` and from ``starts``, each with
        an equal share of the proposals. Never worse than any of them.
    proposals, seed, beta
        Of the Markov chains; see `markov_chain`. The same give the same, unless ``seconds`` ends the search.
    memory : float, optional
        B that a GPU may hold; by default all it has.
    batch : int, optional
        Samples of an iteration; by default the model's own for each GPU.
    policy : str
        Order of calls, of `engine.POLICIES`.
    starts : iterable of Strategy
        Others from which to start, for the same GPUs and batch.
    seconds : float, optional
        Begin no proposal after so long.
    progress : callable, optional
        Called with proposals made, proposals in all, and s of the best (inf: none fits yet).
    """

    method: str = "markov"
    proposals: int = PROPOSALS
    seed: int = 0
    memory: float | None = None
    batch: int | None = None
    policy: str = "batched"
    beta: float = BETA
    starts: Iterable[Strategy] = ()
    seconds: float | None = None
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
    """Find a strategy.

    Parameters
    ----------
    model : ModelGraph
    gpus : int
    device : DeviceModel
    precision : Precision
    fabric : CallTimes
        Keeps what calls take, so the same one serves searches of several models best.
    options
        Of `SearchOptions`, by keyword.

    Raises
    ------
    InputError
        For an unknown method or policy, numbers out of range, a batch that no strategy divides, and if no
        strategy tried fits the memory.

    Notes
    -----
    Ctrl-C (KeyboardInterrupt) ends the search with the best so far, once there is one that fits.
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
    best, start = (simulate(costs.workload(each), fabric, how.policy) for each in (trail.best, first))
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
