"""``optimal``: schedules that are searched for a group, beside the algorithms that ``auto`` compares."""

from functools import cache

import pytest

from wavefabric.base.errors import InputError
from wavefabric.collectives import verify
from wavefabric.fabric import Fabric, Link, fastest, load
from wavefabric.training.communication import searched
from wavefabric.training.communication.searched import CLASS, MOST_GPUS, SearchedSchedules
from wavefabric.training.communication.times import Communication
from wavefabric.training.iteration.task_graph import Call

MIB = 2.0**20


@pytest.fixture(autouse=True)
def _enough_time(monkeypatch):
    """Searches of small groups end long before, on a busy machine too."""
    monkeypatch.setattr(searched, "SECONDS", 300.0)


def call(collective, groups, nbytes):
    return Call(collective, tuple(map(tuple, groups)), nbytes, "gradients")


@cache
def optimal(name):
    return Communication(load(name), "optimal")


@pytest.mark.parametrize(
    "collective",
    [
        "all-gather",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("reduce-scatter", "all-reduce")),
    ],
)
@pytest.mark.parametrize(
    "groups",
    [[(0, 1, 2, 3)], pytest.param([range(k, 16, 4) for k in range(4)], marks=pytest.mark.slow)],
)
def test_on_rings_of_a_torus_data_go_both_ways_at_full_rate(collective, groups):
    """A GPU receives (n − 1)/n of the array on two links, and as much again of the sums of an all-reduce."""
    torus, one = optimal("torus:4x4"), call(collective, groups, 1024 * MIB)
    rate = torus.fabric.links[0].bandwidth
    least = (1 + (collective == "all-reduce")) * 3 / 4 * one.bytes / (2 * rate)
    assert least < torus.seconds([one]) == pytest.approx(least, rel=1e-2)
    assert torus.algorithm(one).startswith("searched: ")
    assert torus.seconds([one]) < 0.8 * Communication(torus.fabric, "auto").seconds([one])
    assert torus.seconds([one]) == pytest.approx(torus.cost([one]).seconds)
    verify(torus.combined([one]))


@pytest.mark.slow
def test_any_size_takes_what_the_cost_model_says_and_no_more_than_with_auto():
    torus, auto = optimal("torus:4x4"), Communication(load("torus:4x4"), "auto")
    for nbytes in (1.0, 1e3, 3e4, 1e6, 2e6, 3e7, 1e9):
        for collective in ("all-reduce", "all-gather", "all-to-all"):
            one = call(collective, [(0, 1, 2, 3), (8, 9, 10, 11)], nbytes)
            assert torus.seconds([one]) <= auto.seconds([one])
            assert torus.seconds([one]) == pytest.approx(torus.cost([one]).seconds)


def test_calls_at_the_same_time_share_links():
    torus = optimal("torus:4x4")
    apart = [call("all-gather", [(4 * k, 4 * k + 1, 4 * k + 2, 4 * k + 3)], 1024 * MIB) for k in range(2)]
    assert torus.seconds(apart) == pytest.approx(torus.seconds(apart[:1]))
    verify(torus.combined(apart))
    mesh = optimal("mesh:1x4")
    crossing = [call("all-gather", [pair], 1024 * MIB) for pair in ((0, 2), (1, 3))]
    assert mesh.seconds(crossing) == pytest.approx(2 * mesh.seconds(crossing[:1]), rel=1e-3)


@pytest.mark.slow
def test_groups_and_sizes_that_are_alike_are_searched_once(monkeypatch):
    inputs, whole = [], fastest.fastest_schedule
    monkeypatch.setattr(fastest, "fastest_schedule", lambda *a, **k: inputs.append(a) or whole(*a, **k))
    torus = Communication(load("torus:4x4"), "optimal")
    for groups in ([(0, 1, 2, 3)], [(4, 5, 6, 7), (12, 13, 14, 15)], [(1, 5, 9, 13)]):
        for nbytes in (5 * MIB, 16 * MIB, 60 * MIB):
            torus.seconds([call("all-gather", groups, nbytes)])
    assert [(collective, nbytes) for collective, _, nbytes in inputs] == [("all-gather", 16 * MIB)]
    torus.seconds([call("all-gather", [(0, 1, 2, 3)], 65 * MIB)])
    assert [nbytes for *_, nbytes in inputs] == [16 * MIB, 256 * MIB]


def test_what_is_searched():
    torus, light = SearchedSchedules(load("torus:16x8")), SearchedSchedules(load("lightpath:2x4"))
    pair = call("all-gather", [(0, 1)], 1.0)
    assert torus.size_class(pair) == 0
    assert torus.size_class(call("all-to-all", [range(MOST_GPUS)], CLASS**3 * 1.1)) == 3
    assert torus.size_class(call("all-gather", [range(MOST_GPUS + 1)], 1.0)) is None
    assert torus.size_class(Call("messages", ((0, 1),), 1.0, "x", ((0, 1, 1.0),))) is None
    assert light.size_class(pair) is light.find(pair) is None
    # Four GPUs of a large machine are searched as four of a small one.
    assert torus.find(pair)[0] == SearchedSchedules(load("torus:4x4")).find(pair)[0]


def test_groups_without_a_way_are_refused():
    gpus = tuple(f"GPU{r}" for r in range(4))
    links = tuple(Link(gpus[a], gpus[b], 1e9) for r in range(4) for a, b in ((r, r - 1), (r - 1, r)))
    cycle = Communication(Fabric("four", gpus, (), links, 1e-6), "optimal")
    for group in ((0, 2), (0, 1, 2)):
        with pytest.raises(InputError, match=r"no way from GPU\d to GPU\d"):
            cycle.seconds([call("all-to-all", [group], MIB)])


@pytest.mark.parametrize("name", ["lightpath:2x4", pytest.param("switch:8", marks=pytest.mark.slow)])
def test_where_nothing_better_exists_optimal_is_auto(name):
    for collective in ("all-reduce", "all-gather"):
        one, auto = call(collective, [range(8)], 64 * MIB), Communication(load(name), "auto")
        assert optimal(name).seconds([one]) == auto.seconds([one])
        assert optimal(name).algorithm(one) == auto.algorithm(one)
