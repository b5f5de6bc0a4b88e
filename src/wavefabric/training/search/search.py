"""Search for the strategy with the least simulated iteration time that fits the memory of the GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf, isfinite
from random import Random
from time import monotonic

from wavefabric.errors import InputError, show
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


def search(
    model: ModelGraph,
    gpus: int,
    device: DeviceModel,
    precision: Precision,
    fabric: CallTimes,
    *,
    method: str = "markov",
    proposals: int = PROPOSALS,
    seed: int = 0,
    memory: float | None = None,
    batch: int | None = None,
    policy: str = "batched",
    beta: float = BETA,
    starts: Iterable[Strategy] = (),
    seconds: float | None = None,
    progress: Callable[[int, int, float], None] | None = None,
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

    Raises
    ------
    InputError
        For an unknown method or policy, numbers out of range, a batch that no strategy divides, and if no
        strategy tried fits the memory.

    Notes
    -----
    Ctrl-C (KeyboardInterrupt) ends the search with the best so far, once there is one that fits.
    """
    memory = device.memory if memory is None else memory
    _check(method, policy, proposals, memory, beta, seconds)
    setting = SearchSetting(
        model, gpus, model.batch * gpus if batch is None else batch, device, precision, fabric
    )
    starts = tuple(starts)
    for start in starts:
        if (start.gpus, start.batch) != (gpus, setting.batch):
            given = f"starts: a strategy of {start.gpus} GPUs and {start.batch} samples given"
            raise InputError(f"{given}; allowed: of {gpus} and {setting.batch}")
        check_strategy(model, start)
    costs = StrategyCosts(setting, memory, policy)
    trail = SearchTrail(
        proposals if method == "markov" else 0, None if seconds is None else monotonic() + seconds
    )
    trail.progress = progress
    first = data_parallel(setting)
    stopped = "proposals"
    try:
        if method == "chain":
            _best_of(chain_optima(setting, memory), costs, trail)
        else:
            _walk(setting, first, starts, costs, trail, beta, Random(seed))
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
    found = simulate(costs.workload(trail.best), fabric, policy)
    start = simulate(costs.workload(first), fabric, policy)
    return SearchResult(trail.best, found, start, costs.tried, tuple(trail.history), stopped)


def _walk(
    setting: SearchSetting,
    first: Strategy,
    starts: tuple[Strategy, ...],
    costs: StrategyCosts,
    trail: SearchTrail,
    beta: float,
    random: Random,
) -> None:
    """Markov chains from each start, with equal shares of the proposals."""
    chosen = [first, *starts]
    for group in (expert_designed(setting), chain_optima(setting, costs.memory)):
        best = _best_of(group, costs, trail)
        if best is not None:
            chosen.append(best)
    chosen = [s for s in dict.fromkeys(chosen) if not costs(s).excess] or chosen[-1:]
    moves = StrategyMoves(setting.model, setting.gpus)
    for number, start in enumerate(chosen):
        share = trail.limit * (number + 1) // len(chosen) - trail.limit * number // len(chosen)
        markov_chain(start, costs, moves.propose, share, beta, random, trail)


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


def _check(
    method: str, policy: str, proposals: int, memory: float, beta: float, seconds: float | None
) -> None:
    if method not in METHODS:
        raise InputError(f"method: {show(method)} given; allowed: {', '.join(METHODS)}")
    if policy not in POLICIES:
        raise InputError(f"policy: {show(policy)} given; allowed: {', '.join(POLICIES)}")
    if not isinstance(proposals, int) or not 0 <= proposals <= 10**9:
        raise InputError(f"proposals: {show(proposals)} given; allowed: whole numbers from 0 to 1e9")
    for key, value in (("memory", memory), ("beta", beta), ("seconds", seconds)):
        if value is not None and not value > 0:
            raise InputError(f"{key}: {show(value)} given; allowed: above 0")
