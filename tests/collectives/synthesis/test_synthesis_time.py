"""The time limit of a synthesis holds for everything: seeds, bounds, questions, solvers, writing."""

import contextlib
import math
import time

import pytest
import synthesis_cases as cases
from synthesis_cases import check_circuits, grid

from wavefabric.collectives import layout
from wavefabric.collectives.synthesis import Undecided, deadline, least_steps, solve, synthesise
from wavefabric.collectives.synthesis.bounds import cut_bound
from wavefabric.collectives.synthesis.circuits.free_wavelengths import RoutedNetwork
from wavefabric.collectives.synthesis.circuits.known_circuits import direct, greedy, ring
from wavefabric.collectives.synthesis.deadline import Deadline, OutOfTime, search_deadline
from wavefabric.collectives.synthesis.demand import task
from wavefabric.collectives.synthesis.graphs import colours
from wavefabric.collectives.synthesis.model import Model


def all_gather(ranks, pieces=1):
    return layout("all-gather", ranks, ranks * pieces, pieces)


def model_of(variables, model):
    for _ in range(variables):
        model.row([model.variable()], 0, 1)
    return model


class Ticking:
    """A clock that goes on by a second whenever it is looked at."""

    def __init__(self):
        self.time = 0.0

    def __call__(self):
        self.time += 1.0
        return self.time


@pytest.fixture
def ticking(monkeypatch):
    """The synthesis reads a clock that counts how often it is read."""
    fake = Ticking()
    monkeypatch.setattr(deadline, "now", fake)
    return fake


@pytest.mark.slow
def test_large_questions_end_in_time():
    # Without a limit on writing it down, the question for the solvers alone takes some 20 s.
    network = grid(4, 8, 16, 1, 2)
    made = all_gather(32, 6)
    begun = time.process_time()
    with contextlib.suppress(Undecided):
        result = synthesise(made, network, time_limit=0.8)
        check_circuits(result, network)
        assert result.lower_bound <= result.rounds
    assert time.process_time() - begun < 10


@pytest.mark.slow
def test_large_links_end_in_time():
    # 4032 chunks over 224 links: greedy steps alone would take minutes.
    begun = time.process_time()
    with contextlib.suppress(Undecided):
        result = least_steps(layout("all-to-all", 64, 64 * 4, 4), cases.wound_mesh(8), time_limit=0.8)
        cases.check_links(result, cases.wound_mesh(8))
    assert time.process_time() - begun < 10


@pytest.mark.parametrize("seed", [direct, ring, greedy])
def test_seeds_stop(seed, ticking):
    demand, net = task(all_gather(8)).copies, RoutedNetwork(grid(2, 4, 4, 1, 2))
    stop = Deadline(ticking.time + 3, every=1)
    with pytest.raises(OutOfTime):
        seed(demand, net, *(() if seed is ring else (0,)), stop)
    # Three looks in time, and the one that was late.
    assert ticking.time == 4


def test_parts_stop(ticking):
    with pytest.raises(OutOfTime):
        RoutedNetwork(grid(4, 5, 4, 1, 1), deadline=0.0)
    model = Model(0.0)
    with pytest.raises(OutOfTime):
        model_of(1000, model)
    assert len(model.upper) < 1000
    with pytest.raises(OutOfTime):
        colours([(n % 9, n // 9) for n in range(81)], 9, 9, Deadline(3.0, every=1))
    with pytest.raises(OutOfTime):
        solve.decide(model_of(1000, Model()), 0.0)
    pytest.importorskip("ortools")
    with pytest.raises(OutOfTime):
        solve._CpSat(model_of(1000, Model()), 0.0, 1)


def test_a_bound_by_then_is_still_a_bound(ticking):
    demand = task(layout("all-to-all", 8, 8)).copies
    links = cases.ring(8)
    full = cut_bound(demand, links)[0]
    some = [cut_bound(demand, links, until=ticking.time + n)[0] for n in (1, 4, 40, math.inf)]
    assert some == sorted(some)
    assert some[0] < full == some[-1]


@pytest.mark.parametrize("limit", [5, 30, 200])
def test_nothing_is_looked_at_after_the_limit(ticking, limit):
    # On this clock all work between two looks takes a second; after the limit only those that notice it.
    with contextlib.suppress(Undecided):
        synthesise(all_gather(12, 2), grid(3, 4, 4, 1, 2), time_limit=float(limit))
    assert ticking.time <= limit + 25


def test_a_limit_too_small_is_said(ticking):
    for call in (
        lambda: synthesise(all_gather(64), grid(8, 8, 1, 1, 1), time_limit=3.0),
        lambda: least_steps(layout("all-to-all", 64, 64), cases.wound_mesh(8), time_limit=3.0),
    ):
        with pytest.raises(Undecided) as refused:
            call()
        assert str(refused.value) == "time_limit: over before any schedule was found; allowed: more time"


def test_time_is_kept_for_writing():
    assert search_deadline(100.0, math.inf, 10**9) == math.inf
    assert 159 < search_deadline(100.0, 60.0, 1000) < 160
    assert search_deadline(100.0, 60.0, 10**9) == 130.0
