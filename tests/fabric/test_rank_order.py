"""Orders of GPUs: what they keep, and that the search finds known ones and never does harm."""

from itertools import permutations

import numpy as np
import pytest
from electrical_routes import nodes
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.collectives import point_to_point
from wavefabric.collectives.registry import build
from wavefabric.fabric import Fabric, Link, cost, load, rank_order
from wavefabric.fabric.draw.graph import positions
from wavefabric.fabric.rank_order import best_order, depends_on_pair, reordered

MIB = float(1 << 20)


def test_ring_of_a_dgx_1_keeps_to_nvlink():
    # A ring of eight over NVLinks, of 50 and 25 GB/s, exists.
    machine, ring = load("dgx-1"), build("ring", "all-reduce", 8, 8)
    order = best_order(ring, machine, 8 * MIB)
    assert sorted(order) == list(range(8))
    joined = {(link.source, link.target) for link in machine.links if link.kind == "nvlink"}
    names = reordered(machine, order).gpus
    assert all((names[r], names[(r + 1) % 8]) in joined for r in range(8))
    result = cost(ring, reordered(machine, order), 8 * MIB)
    assert result.seconds < cost(ring, machine, 8 * MIB).seconds / 3
    known = reordered(machine, (0, 1, 3, 2, 6, 7, 5, 4))
    assert result.seconds <= cost(ring, known, 8 * MIB).seconds * (1 + 1e-9)


def test_a_ring_that_was_shuffled_is_put_in_order_again():
    rng = np.random.default_rng(3)
    plain = load("ring:12")
    shuffled = reordered(plain, rng.permutation(12).tolist())
    schedule = build("ring", "all-gather", 12, 12)
    order = best_order(schedule, shuffled, MIB)
    best = cost(schedule, plain, MIB).seconds
    assert cost(schedule, shuffled, MIB).seconds > 1.5 * best
    assert cost(schedule, reordered(shuffled, order), MIB).seconds == pytest.approx(best)


@pytest.mark.parametrize("wiring", [(0, 2, 4, 1, 3, 5), tuple(np.random.default_rng(1).permutation(12))])
def test_an_order_is_found_where_the_given_one_has_no_way(wiring):
    gpus = tuple(f"GPU{r}" for r in range(len(wiring)))
    pairs = list(zip(wiring, (*wiring[1:], wiring[0]), strict=True))
    links = tuple(Link(gpus[x], gpus[y], 25e9) for a, b in pairs for x, y in ((a, b), (b, a)))
    machine, ring = Fabric("wired", gpus, (), links, 1e-6), build("ring", "all-gather", len(gpus), len(gpus))
    with pytest.raises(InputError, match="no way from"):
        cost(ring, machine, MIB)
    order = best_order(ring, machine, MIB)
    joined = {frozenset(pair) for pair in pairs}
    assert {frozenset(pair) for pair in zip(order, (*order[1:], order[0]), strict=True)} == joined
    # Closed form: each round a latency and 1 MiB over one link.
    done = cost(ring, reordered(machine, order), MIB)
    assert done.seconds == pytest.approx((len(gpus) - 1) * (1e-6 + MIB / 25e9))
    with pytest.raises(InputError, match=r"no way from .*; no other order was found for direct"):
        best_order(build("direct", "all-gather", len(gpus), len(gpus)), machine, MIB)


@pytest.mark.slow
def test_all_orders_are_tried_where_there_are_few():
    position = load("mesh:1x5")
    schedule = point_to_point("few", 5, [(0, 4, 3), (4, 2, 2), (1, 3, 1), (3, 0, 2)])
    least = min(cost(schedule, reordered(position, p), MIB).seconds for p in permutations(range(5)))
    order = best_order(schedule, position, MIB)
    assert cost(schedule, reordered(position, order), MIB).seconds == pytest.approx(least)


def test_ranks_may_be_fewer_than_gpus():
    # GPUs 3 and 4 have PCIe between them: two that two NVLinks join are better, whoever they are.
    apart = reordered(load("dgx-1"), (3, 4))
    schedule = point_to_point("one", 2, [(0, 1, 1)])
    order = best_order(schedule, apart, MIB)
    assert cost(schedule, reordered(apart, order), MIB).seconds == pytest.approx(0.7e-6 + MIB / 50e9)


def machines():
    """Fabrics of three to six GPUs, all joined through a switch, some directly as well."""

    def build_one(args):
        n, chords = args
        names = tuple(f"g{r}" for r in range(n))
        links = [Link(*e, 1e9, 1e-6) for g in names for e in ((g, "s"), ("s", g))]
        links += [Link(names[a % n], names[b % n], 1e9 * w, 1e-7) for a, b, w in chords if (a - b) % n]
        return Fabric("some", names, ("s",), tuple(links), 1e-6)

    chord = st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 9))
    return st.tuples(st.integers(3, 6), st.lists(chord, max_size=6)).map(build_one)


@pytest.mark.slow
@given(machines(), st.sampled_from(["ring", "direct", "pairwise"]), st.sampled_from(["alpha-beta", "flow"]))
@settings(max_examples=25)
def test_never_worse_than_as_they_are(position, algorithm, model):
    schedule = build(algorithm, "all-gather", position.ranks, position.ranks)
    with pytest.MonkeyPatch.context() as few:
        few.setattr(rank_order, "MOST_ORDERS", 40)
        few.setattr(rank_order, "STARTS", 2)
        order = best_order(schedule, position, 1e5, model=model)
    assert sorted(order) == list(range(position.ranks))
    result = cost(schedule, reordered(position, order), 1e5, model).seconds
    assert result <= cost(schedule, position, 1e5, model).seconds


@given(st.permutations(range(12)))
@settings(max_examples=15)
def test_data_go_the_same_ways_whatever_the_order(order):
    machine = load("torus:3x4")
    other = reordered(machine, order)
    for a in range(0, 12, 5):
        for b in range(12):
            if a != b:
                routes = nodes(other, a, b), nodes(machine, order[a], order[b])
                assert routes[0] == routes[1]
    assert reordered(other, np.argsort(order).tolist()).gpus == machine.gpus
    drawn, known = positions(other), positions(machine)
    assert all(np.array_equal(drawn[g], known[g]) for g in machine.gpus)


def test_orders_matter_only_where_pairs_differ():
    assert [depends_on_pair(load(name)) for name in ("dgx-1", "ring:8", "mesh:1x3")] == [True] * 3
    assert [depends_on_pair(load(n)) for n in ("switch:8", "dgx-a100", "lightpath:2x2", "ring:3")] == [
        False
    ] * 4
    assert best_order(build("ring", "all-reduce", 8, 8), load("switch:8"), 1.0) == tuple(range(8))


@pytest.mark.parametrize(
    ("fabric", "order", "words"),
    [
        ("ring:4", (0, 4), ["order[1]", "4", "3"]),
        ("ring:4", (0, 0), ["order", "0,0", "once"]),
        ("ring:4", (-1,), ["order[0]", "-1"]),
        ("lightpath:2x2", (1, 0, 2, 3), ["order", "photonic", "lightpath:2x2"]),
    ],
)
def test_bad_orders_are_named(fabric, order, words):
    with pytest.raises(InputError) as refused:
        reordered(load(fabric), order)
    assert "\n" not in str(refused.value)
    for word in words:
        assert word in str(refused.value)


def test_bad_searches_are_named(monkeypatch):
    schedule = build("ring", "all-gather", 4, 4)
    with pytest.raises(InputError, match="seed"):
        best_order(schedule, load("ring:4"), 1.0, seed=-1)
    with pytest.raises(InputError, match="photonic"):
        best_order(schedule, load("lightpath:2x2"), 1.0)
    monkeypatch.setattr("wavefabric.fabric.rank_order.MOST_GPUS", 4)
    with pytest.raises(InputError, match="at most 4"):
        best_order(schedule, load("ring:5"), 1.0)
