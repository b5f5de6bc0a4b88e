"""The least time over sets of circuits: brute force on small cases, extremes on all."""

from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.fabric.photonic.reconfiguration.search import CircuitProblem, RoundDemand, Topology, shortest


def topology(nodes, ends, speed=1.0):
    ends = np.array(sorted(set(ends)))
    return Topology(
        "", nodes, ends, np.full(len(ends), speed), tuple((a, b, speed) for a, b in ends.tolist())
    )


def random_problem(seed, rounds, planes=1, nodes=4, more=1):
    """Matchings that differ in their bytes, over themselves, denser topologies, and a ring."""
    rng = np.random.default_rng(seed)
    own, demands = [], []
    for _ in range(rounds):
        pairs = [(a, b) for a, b in enumerate(rng.permutation(nodes).tolist()) if a != b] or [(0, 1)]
        own.append(topology(nodes, pairs))
        demands.append(RoundDemand(own[-1].ends, rng.uniform(0.1, 1.0, len(pairs)), rng.choice([0.3, 3.0])))
    for _ in range(more):
        own.append(
            topology(nodes, [(a, b) for a in range(nodes) for b in rng.permutation(nodes)[:2] if a != b], 0.5)
        )
    set_up, hop = rng.choice([0.01, 0.3, 1.0, 5.0]), rng.choice([0.0, 0.05])
    ring = topology(nodes, [(a, (a + 1) % nodes) for a in range(nodes)])
    return CircuitProblem((*own, ring), tuple(demands), planes, set_up, hop, planes)


def end_of(problem, number, now, planes, chosen):
    """When a round is over, by bisection: of planes what they hold and since when they are free."""
    _, hops, seconds = problem.carried(number, chosen)
    new, stay, ready = problem.topologies[chosen].circuits, [], []
    for held, free in planes:
        stay.append({c for c in new if held >= 0 and c in problem.topologies[held].circuits})
        ready.append(now if len(stay[-1]) == len(new) else max(now, free + problem.set_up))
    kept, low, high = set.intersection(*stay) if hops == 1 else (), now, now + 1e3
    for _ in range(100):
        middle = (low + high) / 2
        done = [sum(max(0, middle - (now if c in kept else r)) for r in ready) for c in new]
        enough = len(done) == len(seconds) and (done >= seconds * problem.demands[number].scale).all()
        low, high = (low, middle) if enough else (middle, high)
    return high + problem.hop * hops if max(ready) < high < now + 999 else np.inf


def brute_force(problem):
    """The least over all topologies and sets of planes of all rounds, one after the other."""
    sets = [s for k in range(problem.planes) for s in combinations(range(problem.planes), k + 1)]
    ends = []
    for choices in product(product(range(len(problem.topologies)), sets), repeat=len(problem.demands)):
        now, planes = 0.0, [(-1, 0.0)] * problem.planes
        for number, (chosen, used) in enumerate(choices):
            now = end_of(problem, number, now, [planes[j] for j in used], chosen) if now < np.inf else now
            planes = [(chosen, now) if j in used else plane for j, plane in enumerate(planes)]
        ends.append(now)
    return min(ends)


SMALL = [(1, 2, 8), (2, 2, 3)]
MANY = [(1, 3, 100), (1, 4, 9), (2, 2, 60), (2, 3, 6)]


@pytest.mark.parametrize("case", [*SMALL, *(pytest.param(each, marks=pytest.mark.slow) for each in MANY)])
def test_it_equals_brute_force(case):
    planes, rounds, seeds = case
    for seed in range(seeds):
        problem = random_problem(seed, rounds, planes)
        seconds, steps, least = shortest(problem)
        assert seconds == pytest.approx(brute_force(problem), rel=1e-9)
        assert least == seconds == steps[-1].end


def not_slower_than_extremes(seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(seed, *rng.integers(1, (9, 4)).tolist(), nodes=int(rng.integers(3, 9)), more=2)
    rounds, (seconds, steps, least) = range(len(problem.demands)), shortest(problem)
    always = sum(problem.set_up + problem.time(r, r) for r in rounds)
    never = [problem.set_up + sum(problem.time(r, c) for r in rounds) for c in range(len(problem.topologies))]
    assert problem.lower_bound() <= least * (1 + 1e-12)
    assert least <= seconds == steps[-1].end <= min(always, *never) * (1 + 1e-12)
    assert all(a.end == b.begin for a, b in pairwise(steps))


@settings(max_examples=10)
@given(st.integers(0, 2**32))
def test_it_never_loses_to_an_extreme(seed):
    not_slower_than_extremes(seed)


@pytest.mark.slow
def test_it_never_loses_to_an_extreme_in_a_thousand_cases():
    for seed in range(1000):
        not_slower_than_extremes(seed)
