"""Schedules over circuits of light: least rounds, and circuits that obey every rule."""

import time
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthesis_cases import check_circuits, fewest_rounds, grid

from wavefabric.base.errors import InputError
from wavefabric.collectives import COLLECTIVES, kind, layout
from wavefabric.collectives.synthesis import OpticalNetwork, Undecided, synthesise
from wavefabric.collectives.synthesis.circuits.circuit_search import CircuitSearch


def all_gather(ranks, pieces=1):
    return layout("all-gather", ranks, ranks * pieces, pieces)


@pytest.mark.parametrize("waveguides", [1, 20])
@pytest.mark.parametrize(("lasers", "rounds"), [(1, 7), (2, 4), (4, 2), (8, 1), (16, 1)])
def test_two_by_four_tiles(lasers, waveguides, rounds):
    # ⌈7/L⌉ rounds: the bound by photodiodes is met, which holds whatever the routes.
    network = grid(2, 4, lasers, waveguides)
    begun = time.process_time()
    result = synthesise(all_gather(8), network)
    assert time.process_time() - begun < 60
    assert (result.rounds, result.lower_bound, result.optimal) == (rounds, rounds, True)
    assert "routes given" not in result.why
    check_circuits(result, network)


@pytest.mark.parametrize(
    ("rows", "columns", "lasers", "k", "rounds", "seconds"),
    [(2, 2, 4, 4, 1, 1), (2, 2, 1, 4, 3, 1), (4, 4, 4, 6, 4, 30), (4, 8, 16, 4, 2, 60)],
)
def test_larger_grids(rows, columns, lasers, k, rounds, seconds):
    network = grid(rows, columns, lasers, 20, k)
    begun = time.process_time()
    result = synthesise(all_gather(rows * columns), network)
    assert time.process_time() - begun < seconds
    assert (result.rounds, result.optimal) == (rounds, True)
    check_circuits(result, network)


@pytest.mark.slow
def test_one_waveguide_for_both_directions():
    # Counting both directions of an edge together, two rounds of four lasers are not enough on 2 × 4 tiles,
    # though nothing shows it until wavelengths are told apart.
    network = grid(2, 4, 4, 1, 2, shared=True)
    result = synthesise(all_gather(8), network)
    assert (result.rounds, result.optimal) == (3, True)
    assert dict(result.status)[2].startswith("infeasible: proved by")
    assert "with wavelengths, for the routes given" in result.why
    check_circuits(result, network)


def test_without_wavelengths_suffices():
    network = grid(2, 4, 8, 1, 2, shared=True)
    result = synthesise(all_gather(8), network)
    assert (result.rounds, result.optimal) == (2, True)
    assert "without wavelengths, for the routes given" in result.why or "cross the edges" in result.why
    check_circuits(result, network)


def test_edges_that_run_out():
    # A line: the middle edge carries one chunk a round and wavelength, and two have to cross it either way.
    network = grid(1, 4, 2, 1)
    result = synthesise(all_gather(4), network)
    assert (result.rounds, result.optimal) == (2, True)
    check_circuits(result, network)
    dark = replace(network, capacity={(1, 2): 0})
    with pytest.raises(InputError, match="some rank cannot get what it needs"):
        synthesise(all_gather(4), dark)


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_collective(collective):
    network = grid(2, 3, 2, 1, 3)
    for pieces in (1, 6 if collective == "all-reduce" else 2):
        result = synthesise(layout(collective, 6, 90, pieces), network, time_limit=20)
        assert kind(result.schedule)[0] == collective
        check_circuits(result, network)
        assert result.lower_bound <= result.rounds
        if result.optimal:
            assert result.rounds == result.lower_bound


def test_all_reduce_is_two_halves():
    network = grid(2, 4, 4, 20)
    result = synthesise(layout("all-reduce", 8, 803, 8), network)
    half = synthesise(layout("reduce-scatter", 8, 803), network)
    assert (result.rounds, half.rounds) == (4, 2)
    assert result.optimal
    assert half.optimal
    assert "reduce-scatter: " in result.why
    assert "all-gather: " in result.why
    for each in (result, half):
        check_circuits(each, network)


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_a_root_scatters_pieces_and_all_gather_them(collective, monkeypatch):
    monkeypatch.setattr(CircuitSearch, "decide_over", None)
    network = grid(4, 4, 16, 20, 2)
    result = synthesise(layout(collective, 16, 32, 16), network)
    assert (result.rounds, result.lower_bound, result.optimal) == (2, 2, True)
    check_circuits(result, network)


def test_sums_in_one_direction_only():
    # Light goes round one way; a sum must therefore be gathered along the routes, not against them.
    paths = {(a, (a + 1) % 3): ((a, (a + 1) % 3),) for a in range(3)}
    network = OpticalNetwork(3, 1, 1, None, paths)
    for collective, rounds in (("reduce-scatter", 2), ("all-reduce", 4), ("reduce", 2), ("broadcast", 2)):
        result = synthesise(layout(collective, 3, 3, 3 if collective == "all-reduce" else 1), network)
        assert (result.rounds, result.optimal) == (rounds, True)
        check_circuits(result, network)


@pytest.mark.parametrize(("ports", "rounds"), [(None, 1), (8, 1), (4, 2), (1, 7)])
def test_ports(ports, rounds):
    network = grid(2, 4, 8, 20, ports=ports)
    result = synthesise(layout("all-to-all", 8, 8), network)
    assert (result.rounds, result.optimal) == (rounds, True)
    check_circuits(result, network)


def test_nothing_to_do():
    for made in (layout("all-gather", 1, 5), layout("all-gather", 4, 0)):
        result = synthesise(
            made, grid(1, made.ranks, 1, 1) if made.ranks > 1 else OpticalNetwork(1, 1, 1, None, {})
        )
        assert (result.rounds, result.optimal, result.circuits) == (0, True, ())


@st.composite
def small(draw):
    """A small fabric of any shape, and chunks somewhere that are needed elsewhere."""
    ranks = draw(st.integers(2, 4))
    pairs = [(a, b) for a in range(ranks) for b in range(a)]
    tree = [(b, draw(st.integers(0, b - 1))) for b in range(1, ranks)]
    edges = {
        e for a, b in {*tree, *draw(st.sets(st.sampled_from(pairs), max_size=2))} for e in ((a, b), (b, a))
    }
    routes = {}
    for s in range(ranks):
        for path in (
            (s,),
            *((s, a) for a in range(ranks)),
            *((s, a, b) for a in range(ranks) for b in range(ranks)),
        ):
            long = len(set(path)) == len(path) > 1
            if long and all((a, b) in edges for a, b in pairwise(path)):
                routes.setdefault((s, path[-1]), []).append(path)
    lasers = draw(st.integers(1, 2))
    ports = draw(st.sampled_from([None, 1]))
    capacity = {e: 2 for e in edges if draw(st.booleans())}
    paths = {pair: tuple(w) for pair, w in routes.items()}
    network = OpticalNetwork(ranks, lasers, 1, ports, paths, capacity, capacity == {} and draw(st.booleans()))
    one = ["broadcast", "reduce"]
    collective = draw(st.sampled_from(one if ranks == 4 else [*one, "all-gather", "reduce-scatter"]))
    return network, collective, draw(st.integers(1, 2)) if collective in one and ranks < 4 else 1


@settings(max_examples=60)
@given(small())
def test_against_trying_everything(case):
    network, collective, pieces = case
    made = layout(collective, network.ranks, 12 * pieces, pieces)
    everybody = set(range(network.ranks))
    mirrored = network.reversed() if "reduce" in collective else network
    owners = (
        [0] * pieces
        if collective in ("broadcast", "reduce")
        else [r for r in everybody for _ in range(pieces)]
    )
    have = [{r} for r in owners]
    least = fewest_rounds(mirrored, have, [everybody] * len(owners), 6)
    try:
        result = synthesise(made, network, time_limit=20)
    except InputError:
        assert least is None
        return
    check_circuits(result, network)
    assert result.optimal
    assert least is None or result.rounds == least


@pytest.mark.slow
def test_time_runs_out():
    network = grid(2, 4, 4, 1, 2, shared=True)
    result = synthesise(all_gather(8), network, time_limit=0.6)
    assert (result.rounds, result.lower_bound, result.optimal) == (3, 2, False)
    assert (2, "unknown: out of time") in result.status
    assert "2 not decided" in result.why
    check_circuits(result, network)
    with pytest.raises(Undecided, match="time_limit: over before 2 to 2 rounds were decided"):
        synthesise(all_gather(8), network, time_limit=0.3, max_rounds=2)


def test_max_rounds():
    with pytest.raises(
        InputError, match=r"max_rounds: 1; allowed: from 2, as proved by a bound \(rank 0 receives 7"
    ):
        synthesise(all_gather(8), grid(2, 4, 4, 20), max_rounds=1)
    with pytest.raises(InputError, match="max_rounds: 3; allowed: from"):
        synthesise(layout("all-reduce", 8, 8, 8), grid(2, 4, 4, 20), max_rounds=3)
    assert synthesise(layout("all-reduce", 8, 8, 8), grid(2, 4, 4, 20), max_rounds=4).rounds == 4


def test_max_rounds_of_two_halves_that_are_one():
    # One round each by counting; but what every rank wants of every other does not fit over these edges.
    network = grid(1, 4, 3, 1)
    made = layout("all-reduce", 4, 4, 4)
    least = synthesise(made, network)
    assert (least.rounds, least.optimal) == (4, True)
    for most in range(least.rounds):
        with pytest.raises(InputError, match=f"max_rounds: {most}; allowed: from "):
            synthesise(made, network, max_rounds=most)
    for most in (least.rounds, least.rounds + 1):
        assert synthesise(made, network, max_rounds=most).rounds == least.rounds


@pytest.mark.slow
def test_what_is_impossible_is_so_in_fewer_rounds(monkeypatch):
    # Four rounds by counting, six shown impossible by the solvers; they are not let decide five.
    decided = CircuitSearch.decide_over
    monkeypatch.setattr(
        CircuitSearch, "decide_over", lambda s, n, r, *rest: None if r == 5 else decided(s, n, r, *rest)
    )
    result = synthesise(all_gather(5), grid(1, 5, 1, 1, 1, shared=True))
    assert (result.rounds, result.lower_bound, result.optimal) == (7, 7, True)
    verdicts = dict(result.status)
    assert verdicts[5] == f"{verdicts[6]}, of 6 rounds"
    assert verdicts[6].startswith("infeasible: proved by")


def test_progress():
    said = []
    synthesise(all_gather(8), grid(2, 4, 8, 1), progress=said.append)
    assert "1 round: without wavelengths" in said


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lasers": 0}, "lasers: 0; allowed"),
        ({"ports": 0}, "ports: 0; allowed"),
        ({"routes": {(0, 1): ((0, 2, 1),)}}, r"routes\[0, 1\]: \(0, 2, 1\); allowed: tiles of 0 to 1"),
        ({"routes": {(0, 1): ((1, 0),)}}, r"routes\[0, 1\]"),
        ({"routes": {(0, 0): ()}}, "a rank and itself"),
        ({"capacity": {(0, 1): -1}}, r"capacity\[0, 1\]: -1; allowed"),
    ],
)
def test_bad_fabrics(change, message):
    good = {"ranks": 2, "lasers": 1, "waveguides": 1, "ports": None, "routes": {(0, 1): ((0, 1),)}}
    with pytest.raises(InputError, match=message):
        OpticalNetwork(**(good | change))


def test_bad_arguments():
    network = grid(1, 2, 1, 1)
    for more, message in (
        ({"time_limit": 0}, "time_limit: 0; allowed"),
        ({"max_rounds": -1}, "max_rounds: -1; allowed"),
    ):
        with pytest.raises(InputError, match=message):
            synthesise(all_gather(2), network, **more)
    with pytest.raises(InputError, match="layout: 3 ranks; allowed: the 2 ranks of the fabric"):
        synthesise(all_gather(3), network)


@pytest.mark.parametrize("change", ["wavelength", "route", "dst"])
def test_the_check_finds_errors(change):
    network = grid(2, 4, 2, 1, 2)
    result = synthesise(all_gather(8), network)
    first, second = result.circuits[:2]
    assert (first.round, first.src) == (second.round, second.src)
    bad = {
        "wavelength": replace(first, wavelength=second.wavelength),
        "route": replace(first, route=first.route[:1]),
        "dst": replace(first, dst=(first.dst + 1) % 8),
    }[change]
    with pytest.raises(AssertionError):
        check_circuits(replace(result, circuits=(bad, *result.circuits[1:])), network)
