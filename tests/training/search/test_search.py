"""Search over strategies: what it may propose, how it walks, what it finds."""

import dataclasses
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from strategy_models import AffineTimes, chain, tables

from wavefabric.base.errors import InputError
from wavefabric.training.gpu.device_model import DEVICES
from wavefabric.training.gpu.precision import PRECISIONS
from wavefabric.training.iteration.memory import largest_need
from wavefabric.training.iteration.simulate import simulate
from wavefabric.training.iteration.workload import Workload
from wavefabric.training.search import markov
from wavefabric.training.search.chain import SearchSetting
from wavefabric.training.search.markov import (
    BUCKETS,
    SearchTrail,
    StrategyCost,
    StrategyCosts,
    StrategyMoves,
    markov_chain,
)
from wavefabric.training.search.search import expert_designed, search
from wavefabric.training.strategies.strategy import LayerLayout, Strategy, check_strategy, uniform
from wavefabric.training.strategies.strategy_text import from_json, to_json

DEVICE, BF16 = next(iter(DEVICES.values())), PRECISIONS["bf16"]
FABRIC = AffineTimes(2e-5, 4e-11)
MODEL = chain("column", "row", "none", "none", experts=4)


def find(model=MODEL, gpus=8, fabric=FABRIC, **options):
    return search(model, gpus, DEVICE, BF16, fabric, **{"proposals": 60, "batch": 32} | options)


def workload(model, strategy):
    return Workload(model, strategy, DEVICE, BF16)


# --- Proposals ---


@given(st.integers(0, 2**32), st.sampled_from([4, 6, 8]))
@hypothesis_settings(max_examples=20)
def test_proposals_fit_the_model_and_can_be_saved(seed, gpus):
    random, proposals = Random(seed), StrategyMoves(MODEL, gpus)
    strategy = uniform(MODEL, gpus, batch=48)
    for _ in range(40):
        proposed = proposals.propose(strategy, random)
        if proposed is not None:
            assert proposed != strategy
            assert proposed.batch == strategy.batch
            check_strategy(MODEL, proposed)
            assert from_json(to_json(MODEL, proposed), MODEL) == proposed
            strategy = proposed


@pytest.mark.slow
def test_every_strategy_of_a_file_is_proposed_some_day(monkeypatch):
    """All layouts, cuts and the rest of three layers on two GPUs, buckets but for those not tried."""
    monkeypatch.setattr(markov, "BUCKETS", (0.0, 1e6))
    model = chain("column", "none", "none", experts=2)
    wanted = set()
    layouts = [LayerLayout(2), LayerLayout(1, 2)]
    rest = list(product((0, 3), (0.0, 1e6), (False, True)))
    for one, two, three, parts in product(layouts, [*layouts, LayerLayout(2, 1, 2)], layouts, (1, 2, 4, 8)):
        wanted |= {Strategy(2, 8, parts, (0, 0, 0), (one, two, three), *other) for other in rest}
    for stage, parts in product([(0, 0, 1), (0, 1, 1)], (1, 2, 4, 8)):
        wanted |= {Strategy(2, 8, parts, stage, (LayerLayout(1),) * 3, *other) for other in rest}
    allowed = {s for s in wanted if s.batch % (s.microbatches * max(x.data for x in s.layouts)) == 0}
    random, proposals = Random(0), StrategyMoves(model, 2)
    strategy = uniform(model, 2, batch=8)
    seen = {strategy}
    for _ in range(40_000):
        strategy = proposals.propose(strategy, random) or strategy
        seen.add(strategy)
    assert seen == allowed


# --- The walk ---


def walk(costs, beta, proposals=2000):
    """Strategies with 1 to 5 microbatches, whose costs are given; how often the walk was at each."""
    start = uniform(MODEL, 1, batch=60)
    visits = dict.fromkeys(range(1, 6), 0)

    def propose(strategy, random):
        visits[strategy.microbatches] += 1
        return dataclasses.replace(strategy, microbatches=random.choice([1, 2, 3, 4, 5]))

    trail = SearchTrail(proposals)
    patient = [0.0]

    def cost(strategy, _):
        # Ever better, so that the walk does not end early.
        patient[0] -= 1e-12
        return StrategyCost(0.0, costs[strategy.microbatches - 1] + patient[0])

    markov_chain(start, cost, propose, proposals, beta, Random(1), trail)
    return visits, trail


def test_the_walk_is_at_each_strategy_as_often_as_boltzmann_says():
    visits, _ = walk([1.0, 1.1, 1.2, 1.3, 1.4], beta=5.0, proposals=20_000)
    assert sum(visits.values()) == 20_000
    weights = [0.6065306597126334**k for k in range(5)]  # exp(-5 · 0.1 k)
    for k in range(5):
        assert visits[k + 1] / 20_000 == pytest.approx(weights[k] / sum(weights), abs=0.02)


def test_a_cold_walk_stays_at_the_best():
    visits, trail = walk([3.0, 2.0, 1.0, 2.0, 3.0], beta=1e6)
    assert visits[3] > 1900
    assert trail.best is not None
    assert trail.best.microbatches == 3


def test_a_walk_ends_when_half_of_it_found_nothing_better():
    trail = SearchTrail(100)
    start = uniform(MODEL, 8)
    markov_chain(start, lambda *_: StrategyCost(0.0, 1.0), lambda s, _: s, 100, 50.0, Random(0), trail)
    assert trail.made == 50


def test_a_walk_from_beyond_the_memory_limit_finds_its_way():
    start = uniform(MODEL, 1, batch=60)
    trail = SearchTrail(200)

    def cost(strategy, _):
        over = max(0, 4 - strategy.microbatches)
        return StrategyCost(over, float("inf") if over else 1.0 / strategy.microbatches)

    def propose(strategy, random):
        return dataclasses.replace(
            strategy, microbatches=max(1, strategy.microbatches + random.choice([-1, 1]))
        )

    markov_chain(start, cost, propose, 200, 50.0, Random(0), trail)
    assert trail.best is not None
    assert trail.best.microbatches > 4
    assert all(seconds < 1 for _, seconds in trail.history)


@pytest.mark.parametrize(
    "most",
    [
        0.0,
        pytest.param(1e-4, marks=pytest.mark.slow),
        pytest.param(1.0, marks=pytest.mark.slow),
        float("inf"),
    ],
)
def test_costs_are_exact_up_to_what_matters(most):
    fabric = AffineTimes(2e-5, 4e-11, concurrent=False)
    strategies = list(expert_designed(SearchSetting(MODEL, 8, 32, DEVICE, BF16, fabric)))
    assert len(strategies) > 20
    costs = StrategyCosts(SearchSetting(MODEL, 8, 32, DEVICE, BF16, fabric), 1e12, "batched")
    for strategy in strategies:
        exact = simulate(workload(MODEL, strategy), fabric).seconds
        start_cost = costs(strategy, most).seconds
        assert start_cost == exact or most < start_cost <= exact
        assert costs(strategy).seconds == exact


# --- What is found ---


@pytest.mark.parametrize("concurrent", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_best_of_a_tiny_problem(concurrent):
    model = chain("column", "row", flops=3e9, features=8)
    fabric = AffineTimes(1e-5, 1e-10, concurrent)
    best = float("inf")
    rest = list(product((False, True), BUCKETS, (False, True)))
    for stages, parts, other in product((1, 2, 4), (1, 2, 4, 8), rest):
        layouts = [LayerLayout(n, 4 // stages // n) for n in (1, 2, 4) if (4 // stages) % n == 0]
        for pair in product(layouts, repeat=2):
            if stages < 3 and 8 % (parts * max(x.data for x in pair)) == 0:
                strategy = Strategy(4, 8, parts, (0, stages - 1), pair, *other)
                best = min(best, simulate(workload(model, strategy), fabric).seconds)
    result = find(model, 4, fabric, batch=8, proposals=1500)
    assert result.iteration.seconds == best
    assert result.history[-1][1] == best


@pytest.mark.slow
def test_the_same_seed_gives_the_same():
    first, second, other = (find(seed=seed, proposals=200) for seed in (3, 3, 4))
    assert first.strategy == second.strategy
    assert (first.history, first.tried) == (second.history, second.tried)
    assert first.tried != other.tried


@pytest.mark.parametrize("method", ["markov", pytest.param("chain", marks=pytest.mark.slow)])
def test_no_worse_than_its_starts(method):
    result = find(method=method, proposals=20)
    first_start = uniform(MODEL, 8, tensor=2, batch=32, bucket=1e6)
    assert result.iteration.seconds == simulate(workload(MODEL, result.strategy), FABRIC).seconds
    if method == "markov":
        assert result.iteration.seconds <= result.start.seconds
        also = find(proposals=20, starts=[first_start])
        assert also.iteration.seconds <= simulate(workload(MODEL, first_start), FABRIC).seconds


def test_history_falls_to_the_best():
    result = find()
    times = [seconds for _, seconds in result.history]
    assert times == sorted(times, reverse=True)
    assert times[-1] == result.iteration.seconds
    assert result.stopped == "proposals"


@pytest.mark.parametrize("method", ["markov", pytest.param("chain", marks=pytest.mark.slow)])
@pytest.mark.parametrize("fraction", [0.5, 0.3])
def test_memory_is_respected(method, fraction):
    plain = largest_need(workload(MODEL, uniform(MODEL, 8, batch=32))).total
    result = find(method=method, memory=plain * fraction)
    assert largest_need(workload(MODEL, result.strategy)).total <= plain * fraction * (1 + 1e-12)
    assert largest_need(result.start.workload).total > plain * fraction


def test_tables_are_split_when_data_parallelism_does_not_fit():
    model = tables(16)
    need = largest_need(workload(model, uniform(model, 8, batch=64))).total
    result = find(model, memory=need / 4, batch=64, proposals=0)
    assert result.strategy.sharded or result.strategy.layouts[0].tensor > 1


@pytest.mark.parametrize("method", ["markov", "chain"])
def test_memory_that_no_strategy_fits(method):
    with pytest.raises(InputError, match=r"^memory: 0.001 GB given; allowed: more \(none of \d+ strategies"):
        find(method=method, memory=1e6)


def test_fewer_samples_than_gpus():
    result = find(chain("column", "row", "column", features=64), batch=2)
    assert result.start.workload.strategy.layouts == (LayerLayout(2, 4),) * 3
    assert result.iteration.seconds <= result.start.seconds


def test_an_interrupt_gives_the_best_so_far():
    def interrupt(made, proposals, seconds):
        assert proposals == 60
        assert seconds > 0
        if made == 7:
            raise KeyboardInterrupt

    result = find(progress=interrupt)
    assert result.stopped == "interrupted"
    assert result.iteration.seconds == result.history[-1][1]
    with pytest.raises(KeyboardInterrupt):
        find(memory=1e6, progress=lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))


def test_time_may_be_limited():
    result = find(seconds=1e-9, proposals=10**6)
    assert result.stopped == "time"
    assert result.history


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"method": "luck"}, 'method: "luck" given; allowed: markov, chain'),
        ({"policy": "luck"}, 'policy: "luck" given; allowed: batched'),
        ({"proposals": -1}, "proposals: -1; allowed: whole numbers from 0"),
        ({"proposals": 1.5}, "proposals: 1.5; allowed"),
        ({"memory": 0.0}, "memory: 0.0 given; allowed: above 0"),
        ({"memory": float("nan")}, "memory: NaN given"),
        ({"beta": -1.0}, "beta: -1.0 given"),
        ({"seconds": 0}, "seconds: 0 given"),
        ({"batch": 0}, "batch: 0; allowed"),
        ({"gpus": 0}, "gpus: 0; allowed"),
        ({"starts": [uniform(MODEL, 4, batch=32)]}, "starts: a strategy of 4 GPUs and 32 samples given"),
    ],
)
def test_refused_in_one_line(options, line):
    with pytest.raises(InputError) as caught:
        find(**options)
    assert str(caught.value).startswith(line)
