"""The least time over sets of circuits: brute force on small cases, extremes on all, published cases."""

from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.fabric.photonic.reconfiguration.search import Demand, Problem, Topology, shortest


def topology(nodes, ends, speed=1.0, name="topology"):
    ends = np.array(sorted(set(ends)))
    circuits = tuple((a, b, speed) for a, b in ends.tolist())
    return Topology(name, nodes, ends, np.full(len(ends), speed), circuits)


def shift(nodes, step, speed=1.0):
    return topology(nodes, [(i, (i + step) % nodes) for i in range(nodes)], speed)


def random_problem(seed, nodes=4, rounds=3, planes=1, more=1):
    """Matchings that differ in their bytes, over themselves and over denser topologies."""
    rng = np.random.default_rng(seed)
    own, demands = [], []
    for _ in range(rounds):
        pairs = np.array([(a, b) for a, b in enumerate(rng.permutation(nodes)) if a != b])
        pairs = pairs if len(pairs) else np.array([(0, 1)])
        own.append(topology(nodes, map(tuple, pairs.tolist())))
        demands.append(Demand(own[-1].ends, rng.uniform(0.1, 1.0, len(pairs)), rng.choice([0.3, 3.0])))
    for _ in range(more):
        extra = [(a, int(b)) for a in range(nodes) for b in rng.permutation(nodes)[:2] if a != b]
        own.append(topology(nodes, extra, 0.5))
    set_up, hop = rng.choice([0.01, 0.3, 1.0, 5.0]), rng.choice([0.0, 0.05])
    return Problem((*own, shift(nodes, 1)), tuple(demands), planes, set_up, hop, planes)


def ends_of_data(problem, number, chosen, now, held, ready):
    """When the data of a round are there, by bisection link by link."""
    _, hops, seconds = problem.carried(number, chosen)
    kept = set.intersection(*[stays(problem, h, chosen) for h in held]) if hops == 1 else ()
    low, high = now, now + 1e3
    for _ in range(100):
        middle = (low + high) / 2
        enough = all(
            sum(max(0.0, middle - (now if i in kept else r)) for r in ready)
            >= s * problem.demands[number].scale
            for i, s in enumerate(seconds)
        )
        low, high = (low, middle) if enough else (middle, high)
    return high


def stays(problem, before, after):
    circuits = problem.topologies[after].circuits
    old = problem.topologies[before].circuits if before >= 0 else ()
    return {i for i, c in enumerate(circuits) if c in old}


def brute_force(problem):
    """The least over all topologies and sets of planes of all rounds, one after the other."""
    sets = [s for k in range(problem.planes) for s in combinations(range(problem.planes), k + 1)]
    best = np.inf
    for choices in product(product(range(len(problem.topologies)), sets), repeat=len(problem.demands)):
        now, held, used = 0.0, [-1] * problem.planes, [0.0] * problem.planes
        for number, (chosen, planes) in enumerate(choices):
            _, hops, seconds = problem.carried(number, chosen)
            if not np.isfinite(seconds).all():
                now = np.inf
                break
            links = len(problem.topologies[chosen].circuits)
            whole = [len(stays(problem, held[j], chosen)) == links for j in planes]
            ready = [
                now if w else max(now, used[j] + problem.set_up) for w, j in zip(whole, planes, strict=True)
            ]
            end = ends_of_data(problem, number, chosen, now, [held[j] for j in planes], ready)
            now = end + problem.hop * hops if max(ready) < end else np.inf
            for j in planes:
                held[j], used[j] = chosen, now
        best = min(best, now)
    return best


@pytest.mark.parametrize(("planes", "rounds", "seeds"), [(1, 2, 8), (1, 3, 4), (2, 2, 4)])
def test_it_equals_brute_force(planes, rounds, seeds):
    for seed in range(seeds):
        problem = random_problem(seed, rounds=rounds, planes=planes)
        seconds, steps, least = shortest(problem)
        assert seconds == pytest.approx(brute_force(problem), rel=1e-9)
        assert least == seconds == steps[-1].end


@pytest.mark.slow
@pytest.mark.parametrize(("planes", "rounds", "seeds"), [(1, 3, 100), (1, 4, 10), (2, 2, 60), (2, 3, 6)])
def test_it_equals_brute_force_on_many(planes, rounds, seeds):
    for seed in range(1000, 1000 + seeds):
        problem = random_problem(seed, rounds=rounds, planes=planes)
        assert shortest(problem)[0] == pytest.approx(brute_force(problem), rel=1e-9)


def not_slower_than_extremes(seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(
        seed, int(rng.integers(3, 9)), int(rng.integers(1, 9)), int(rng.integers(1, 4)), 2
    )
    rounds, (seconds, steps, least) = range(len(problem.demands)), shortest(problem)
    always = sum(problem.set_up + problem.time(r, r) for r in rounds)
    never = [problem.set_up + sum(problem.time(r, c) for r in rounds) for c in range(len(problem.topologies))]
    assert seconds <= min(always, *never) * (1 + 1e-12)
    assert problem.lower_bound() <= least * (1 + 1e-12)
    assert least <= seconds == steps[-1].end
    assert all(a.end == b.begin for a, b in pairwise(steps))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_it_never_loses_to_an_extreme(seed):
    not_slower_than_extremes(seed)


@pytest.mark.slow
def test_it_never_loses_to_an_extreme_in_a_thousand_cases():
    for seed in range(1000):
        not_slower_than_extremes(seed)
