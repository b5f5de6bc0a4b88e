"""Circuits for schedules: they fit, they are as many as promised, and parts are few."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.collectives import point_to_point
from wavefabric.collectives.registry import build
from wavefabric.fabric.photonic.check import check_plan, needs_wavelength_switches
from wavefabric.fabric.photonic.edge_colouring import Colouring, split_by_degree
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.planning import plan_circuits


def wafer(rows, columns, **changes):
    numbers = {"lasers": 16, "serdes_ports": None, "laser_bandwidth": 20e9, "waveguides": 64, "fibres": 64}
    numbers |= {"wafer_rows": rows, "wafer_columns": columns, "alpha": 1e-6, "reconfiguration": 4e-6}
    return PhotonicFabric("wafer", rows, columns, **numbers | changes)


def messages(ranks, pairs):
    return point_to_point("messages", ranks, [(s, d, 1) for s, d in pairs])


def assert_sound(circuits, schedule):
    """Each rule once more, by plain counting."""
    fabric = circuits.fabric
    edges = set(fabric.edges())
    served = {}
    for part in circuits.rounds:
        used = set()
        load = {}
        for b in part.bundles:
            colours = [w for w in range(fabric.lasers) if b.wavelengths >> w & 1]
            assert colours
            assert b.wavelengths < 1 << fabric.lasers
            served.setdefault((part.round, b.src, b.dst), set()).add(part.part)
            for w in colours:
                positions = [("laser", b.src, w), ("photodiode", b.dst, w)]
                for a, c, g in zip(b.route[:-1], b.route[1:], b.waveguides, strict=True):
                    assert (a, c) in edges
                    assert 0 <= g < fabric.capacity(a, c)
                    positions.append((a, c, g, w))
                assert used.isdisjoint(positions)
                used.update(positions)
                for end in (("out", b.src), ("in", b.dst)):
                    load[end] = load.get(end, 0) + 1
        assert max(load.values()) <= fabric.ports
    wanted = {
        (int(t["round"]), int(t["src"]), int(t["dst"])) for t in schedule.transfers if t["src"] != t["dst"]
    }
    assert served.keys() == wanted
    assert all(len(parts) == 1 for parts in served.values())


def lasers_of(circuits, number=0):
    """Wavelengths of each pair of a round."""
    result = {}
    for part in circuits.rounds:
        if part.round == number:
            for b in part.bundles:
                result[b.src, b.dst] = result.get((b.src, b.dst), 0) + b.lasers
    return result


@settings(max_examples=40)
@given(st.data())
def test_any_messages_on_any_wafer_get_circuits_that_fit(data):
    rows, columns = data.draw(st.integers(1, 4)), data.draw(st.integers(2, 4))
    fabric = wafer(
        rows,
        columns,
        lasers=data.draw(st.integers(1, 6)),
        serdes_ports=data.draw(st.none() | st.integers(1, 6)),
        waveguides=data.draw(st.integers(1, 4)),
        fibres=data.draw(st.integers(1, 3)),
        wafer_rows=data.draw(st.integers(1, rows)),
        wafer_columns=data.draw(st.integers(1, columns)),
    )
    tiles = range(rows * columns)
    every = [p for p in product(tiles, tiles) if p[0] != p[1]]
    pairs = data.draw(st.lists(st.sampled_from(every), min_size=1, max_size=40, unique=True))
    options = {
        "routing": data.draw(st.sampled_from(("auto", "xy", "shortest", "random", "ripup"))),
        "sharing": data.draw(st.sampled_from(("even", "paper"))),
        "oversubscribed": data.draw(st.sampled_from(("split", "thin"))),
    }
    schedule = messages(fabric.ranks, pairs)
    circuits = plan_circuits(schedule, fabric, **options, seed=1)
    assert_sound(circuits, schedule)
    check_plan(circuits, schedule)
    assert len(circuits.rounds) >= circuits.rounds[0].parts_bound


@pytest.mark.parametrize(
    ("radix", "sharing", "lasers"), [(2, "even", 16), (4, "even", 5), (4, "paper", 4), (2, "paper", 16)]
)
def test_lasers_are_shared_among_peers(radix, sharing, lasers):
    schedule = build("recursive", "all-reduce", 64, 64, radix=radix)
    circuits = plan_circuits(schedule, wafer(8, 8), sharing=sharing)
    assert len(circuits.rounds) == schedule.communication_rounds
    assert {b.lasers for r in circuits.rounds for b in r.bundles} == {lasers}
    assert all(r.overlap == r.overlap_bound for r in circuits.rounds)
    assert not needs_wavelength_switches(circuits)


def test_both_ends_of_a_pair_must_have_the_lasers():
    # Rank 0 sends to 1, 2, 3; rank 4 to 3 only: what 3 spares is half, what 0 spares a third.
    circuits = plan_circuits(messages(6, [(0, 1), (0, 2), (0, 3), (4, 3), (5, 0)]), wafer(2, 3, lasers=12))
    assert lasers_of(circuits) == {(0, 1): 4, (0, 2): 4, (0, 3): 4, (4, 3): 6, (5, 0): 12}


def test_ports_limit_what_lasers_could_do():
    schedule = build("recursive", "all-gather", 16, 16, radix=4)
    circuits = plan_circuits(schedule, wafer(4, 4, serdes_ports=8))
    assert {b.lasers for r in circuits.rounds for b in r.bundles} == {2}
    check_plan(circuits, schedule)


@pytest.mark.parametrize(
    ("ports", "sharing", "parts"),
    [(16, "even", 1), (7, "even", 3), (4, "even", 4), (1, "even", 15), (16, "paper", 1), (8, "paper", 3)],
)
def test_more_peers_than_ports_take_the_fewest_parts(ports, sharing, parts):
    schedule = build("direct", "all-to-all", 16, 256)
    circuits = plan_circuits(schedule, wafer(4, 4, serdes_ports=ports), sharing=sharing)
    assert len(circuits.rounds) == parts == circuits.rounds[0].parts_bound
    assert_sound(circuits, schedule)
    check_plan(circuits, schedule)


@pytest.mark.parametrize("waveguides", [1, 2, 3, 4, 5, 7, 8])
def test_halves_of_a_wafer_are_exchanged_in_the_fewest_parts(waveguides):
    # Eight tiles of each row talk across its middle, each with all of its lasers.
    schedule = messages(32, [(t, t ^ 8) for t in range(32)])
    circuits = plan_circuits(schedule, wafer(2, 16, waveguides=waveguides))
    assert len(circuits.rounds) == -(-8 // waveguides) == circuits.rounds[0].parts_bound
    assert {b.lasers for r in circuits.rounds for b in r.bundles} == {16}
    assert_sound(circuits, schedule)
    check_plan(circuits, schedule)


@pytest.mark.parametrize(("waveguides", "lasers"), [(8, 16), (4, 8), (2, 4), (1, 2)])
def test_thin_circuits_are_up_together(waveguides, lasers):
    schedule = messages(32, [(t, t ^ 8) for t in range(32)])
    circuits = plan_circuits(schedule, wafer(2, 16, waveguides=waveguides), oversubscribed="thin")
    assert len(circuits.rounds) == 1
    assert set(lasers_of(circuits).values()) == {lasers}
    check_plan(circuits, schedule)


def test_wavelengths_let_more_circuits_pass_than_there_are_waveguides():
    # Sixteen routes on an edge, five wavelengths each: eight waveguides are enough for all of them.
    schedule = build("recursive", "all-gather", 256, 256, radix=4)
    circuits = plan_circuits(schedule, wafer(16, 16, waveguides=8))
    assert len(circuits.rounds) == schedule.communication_rounds
    assert max(r.overlap for r in circuits.rounds) == 16
    check_plan(circuits, schedule)
    assert needs_wavelength_switches(circuits)


def test_circuits_take_another_way_before_a_round_is_split():
    # Rows first, the first two would share an edge; columns first, the others.
    schedule = messages(16, [(0, 7), (1, 2), (14, 5), (10, 6)])
    fabric = wafer(4, 4, waveguides=1)
    assert len(plan_circuits(schedule, fabric).rounds) == 1
    assert len(plan_circuits(schedule, fabric, routing="xy").rounds) > 1


def test_fibres_are_capacity_too():
    fabric = wafer(4, 8, wafer_rows=4, wafer_columns=4, fibres=2)
    schedule = messages(32, [(t, t ^ 4) for t in range(32)])
    circuits = plan_circuits(schedule, fabric)
    assert len(circuits.rounds) == 2 == circuits.rounds[0].parts_bound
    check_plan(circuits, schedule)
    assert max(g for r in circuits.rounds for b in r.bundles for g in b.waveguides) == 1


def test_rounds_with_the_same_pairs_share_their_circuits():
    ring = build("ring", "all-reduce", 16, 16)
    circuits = plan_circuits(ring, wafer(4, 4))
    assert len(circuits.rounds) == 30
    assert len({id(r.bundles) for r in circuits.rounds}) == 1
    assert [r.round for r in circuits.rounds] == sorted({int(n) for n in ring.transfers["round"]})


def test_local_rounds_have_no_circuits():
    schedule = build("direct", "all-reduce", 4, 8)
    circuits = plan_circuits(schedule, wafer(2, 2))
    assert len(circuits.rounds) == schedule.communication_rounds < schedule.rounds
    check_plan(circuits, schedule)
    assert plan_circuits(messages(4, [(1, 1)]), wafer(2, 2)).rounds == ()


def test_tiles_may_be_left_over():
    schedule = build("ring", "all-gather", 5, 5)
    circuits = plan_circuits(schedule, wafer(2, 4))
    check_plan(circuits, schedule)
    assert_sound(circuits, schedule)


@settings(max_examples=40)
@given(st.integers(2, 7), st.data())
def test_colourings_are_proper_with_as_many_colours_as_the_busiest_tile_needs(tiles, data):
    units = data.draw(
        st.lists(st.tuples(st.integers(0, tiles - 1), st.integers(0, tiles - 1)), min_size=1, max_size=30)
    )
    src, dst = zip(*units, strict=True)
    colours = max(max(np.bincount(src)), max(np.bincount(dst)))
    lines = [
        np.array(data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True))) for _ in units
    ]
    for extra in ({}, {"edges": lines, "capacity": np.array([1, 2, 3, 30])}):
        made = Colouring(src, dst, tiles, int(colours), **extra)
        for ends in (src, dst):
            assert len(set(zip(ends, made.colour, strict=True))) == len(units)
        assert all(0 <= c < colours for c in made.colour)
        load = np.zeros((colours, 4), int)
        for c, line in zip(made.colour, lines, strict=True):
            load[c, line] += 1
        if extra:
            assert made.fits == bool((load <= extra["capacity"]).all())


@settings(max_examples=30)
@given(st.integers(2, 6), st.integers(1, 4), st.data())
def test_groups_are_the_fewest_in_which_no_tile_has_too_many_peers(tiles, limit, data):
    every = [(s, d) for s in range(tiles) for d in range(tiles) if s != d]
    pairs = np.array(data.draw(st.lists(st.sampled_from(every), min_size=1, unique=True)))
    made = split_by_degree(pairs, tiles, limit)
    busiest = max(np.bincount(pairs[:, 0]).max(), np.bincount(pairs[:, 1]).max())
    assert len(made) == -(-busiest // limit)
    assert sorted(np.concatenate(made).tolist()) == list(range(len(pairs)))
    for group in made:
        for end in pairs[group].T:
            assert np.bincount(end).max() <= limit


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"routing": "best"}, "routing: 'best' given; allowed: auto"),
        ({"sharing": "fair"}, "sharing: 'fair' given; allowed: even, paper"),
        ({"oversubscribed": "drop"}, "oversubscribed: 'drop' given; allowed: split, thin"),
    ],
)
def test_unknown_options_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        plan_circuits(messages(4, [(0, 1)]), wafer(2, 2), **options)


def test_more_ranks_than_tiles_are_refused():
    with pytest.raises(InputError, match="ranks: 5 given; allowed: 1 to 4, the tiles of wafer"):
        plan_circuits(messages(5, [(0, 1)]), wafer(2, 2))
