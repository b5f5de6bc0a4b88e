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


def end_of(problem, number, now, planes, chosen, early):
    """When a round is over, by bisection: of planes what they hold, since when they are free, if early."""
    _, hops, seconds = problem.carried(number, chosen)
    new, stay, ready = problem.topologies[chosen].circuits, [], []
    for held, free in planes:
        stay.append({c for c in new if held >= 0 and c in problem.topologies[held].circuits})
        ready.append(now if len(stay[-1]) == len(new) else max(now, free + problem.set_up))
    kept, low, high = set.intersection(*stay) if hops == 1 else (), now, now + 1e3
    stops = [problem.set_up * each for each in early]
    for _ in range(100):
        middle = (low + high) / 2
        starts = [[now if c in kept else r for r in ready] for c in new]
        done = [sum(max(0, middle - s - r) for s, r in zip(stops, row, strict=True)) for row in starts]
        enough = len(done) == len(seconds) and (done >= seconds * problem.demands[number].scale).all()
        low, high = (low, middle) if enough else (middle, high)
    used = all(s + r < high for s, r in zip(stops, ready, strict=True))
    return high + problem.hop * hops if used and max(ready) < high < now + 999 else np.inf


def brute_force(problem):
    """The least over all topologies, sets of planes and of early ones of all rounds, one after the other."""
    sets = [s for k in range(problem.planes) for s in combinations(range(problem.planes), k + 1)]
    sets = [(s, e) for s in sets for e in product((False, True), repeat=len(s)) if not all(e)]
    ends = []
    for choices in product(product(range(len(problem.topologies)), sets), repeat=len(problem.demands)):
        now, planes = 0.0, [(-1, 0.0)] * problem.planes
        for number, (chosen, (used, early)) in enumerate(choices):
            if now < np.inf:
                now = end_of(problem, number, now, [planes[j] for j in used], chosen, early)
            for j, each in zip(used, early, strict=True):
                planes[j] = chosen, now - problem.set_up * each
        ends.append(now)
    return min(ends)


def test_a_plane_stops_early_to_be_up_for_the_next_round():
    # Two planes; rounds of 8, 0.5 and 4 s over circuits that differ; a set-up takes 1 s. Plane 0 stops 1 s
    # before plane 1, carries the second round alone while plane 1 is set up for the third, and joins it.
    own = [topology(4, [(k, k + 1)]) for k in range(3)]
    demands = tuple(RoundDemand(t.ends, np.ones(1), s) for t, s in zip(own, (8.0, 0.5, 4.0), strict=True))
    seconds, steps, _ = shortest(CircuitProblem(tuple(own), demands, 2.0, 1.0, 0.0, 2))
    assert [(step.begin, step.end) for step in steps] == [(0.0, 5.5), (5.5, 6.0), (6.0, 8.75)]
    assert [step.planes for step in steps] == [(0, 1), (0,), (0, 1)]
    assert (steps[0].free, steps[2].ready) == ((4.5, 5.5), (7.0, 6.5))
    assert seconds == 8.75


def test_planes_with_circuits_of_their_own_are_found_beside_ones_that_change():
    # Six tiny rounds over circuits that differ, on six planes: each is set up once, at the beginning.
    own = [topology(7, [(k, k + 1)]) for k in range(6)]
    demands = tuple(RoundDemand(each.ends, np.ones(1), 0.01) for each in own)
    seconds, steps, _ = shortest(CircuitProblem(tuple(own), demands, 6.0, 1.0, 0.0, 6), keep=16)
    assert seconds == pytest.approx(1.0 + 6 * 0.01)
    assert sorted(j for step in steps for j in step.planes) == list(range(6))


SMALL = [(1, 2, 8)]
MANY = [(2, 2, 3), (1, 3, 100), (1, 4, 9), (2, 2, 30), (2, 3, 1)]


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


@pytest.mark.slow
@settings(max_examples=10)
@given(st.integers(0, 2**32))
def test_it_never_loses_to_an_extreme(seed):
    not_slower_than_extremes(seed)


@pytest.mark.slow
def test_it_never_loses_to_an_extreme_in_a_thousand_cases():
    for seed in range(1000):
        not_slower_than_extremes(seed)
