"""Candidates: each algorithm of the registry is one, or is named with the reason; their parameters."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.collectives import ALGORITHMS, build, kind, why_refused
from wavefabric.collectives.candidates import FEW, MANY, PIECES, Choice, candidates
from wavefabric.collectives.conditions import COLLECTIVES


@settings(max_examples=60)
@given(
    st.sampled_from([*COLLECTIVES, "halo"]),
    st.integers(1, 40) | st.sampled_from([127, 128, 300]),
    st.none() | st.just("no switch"),
)
def test_every_algorithm_is_a_candidate_or_named(collective, ranks, switches):
    result = candidates(collective, ranks, switches=switches)
    assert len(set(result.choices)) == len(result.choices)
    compared = {choice.algorithm for choice in result.choices}
    left_out = result.left_out.keys() - {"other radices and grids"}
    does = {name for name, each in ALGORITHMS.items() if collective in each.collectives}
    assert compared | left_out == does
    assert not compared & left_out
    for choice in result.choices:
        assert why_refused(choice.algorithm, collective, ranks, **choice.options) is None
    for name in left_out:
        assert (ALGORITHMS[name].switched and switches) or "allowed: " in result.left_out[name]
    assert (ranks >= MANY and bool(compared)) == ("other radices and grids" in result.left_out)


def test_nodes_of_every_size_and_radices_with_other_groups():
    result = candidates("all-reduce", 24, switches="none", grids=[(3, 8)]).choices
    grids = [choice.grid for choice in result if choice.algorithm == "hierarchical"]
    assert set(grids) == {(2, 12), (3, 8), (4, 6), (6, 4), (8, 3), (12, 2)}
    assert [c.radix for c in result if c.algorithm == "recursive"] == [
        3,
        4,
        6,
        24,
    ]  # others have groups of these
    assert [c.pieces for c in result if c.algorithm == "tree" and c.grid is None] == list(PIECES)
    assert {c.grid for c in result if c.algorithm == "double-tree"} == {None, (3, 8)}
    many = candidates("all-reduce", 240, switches="none", grids=[(30, 8)]).choices
    assert {choice.grid for choice in many if choice.algorithm == "hierarchical"} == {(30, 8)}
    assert len([choice.radix for choice in many if choice.algorithm == "recursive"]) == FEW


def test_pieces_are_tried_where_they_form_a_pipeline():
    for name, algorithm in ALGORITHMS.items():
        for collective in set(algorithm.collectives) - {"halo"}:
            grid = (4, 2) if name == "nvls-tree" else None
            rounds = [
                build(name, collective, 8, 16 * 64, pieces=pieces, grid=grid).communication_rounds
                for pieces in ((1, 4) if "pieces" in algorithm.options else (1, 1))
            ]
            assert (rounds[0] != rounds[1]) == (collective in algorithm.pipelined), (name, collective)


def test_what_fails_is_left_out_by_name():
    result = candidates("all-reduce", 4, switches="none")
    trees = {choice: "no way" for choice in result.choices if choice.algorithm == "tree"}
    assert result.without(trees).left_out == result.left_out | {"tree": "no way"}
    one = Choice("tree", pieces=4)
    assert result.without({one: "slow"}).left_out == result.left_out | {"tree, 4 pieces": "slow"}
    assert one not in result.without({one: "slow"}).choices


@pytest.mark.parametrize("grid", [(2, 4), (4, 2)])
def test_a_choice_builds_its_schedule(grid):
    choice = Choice("hierarchical", 4, grid=grid)
    assert str(choice) == f"hierarchical, {grid[0]}x{grid[1]}, radix 4"
    schedule = build(choice.algorithm, "all-reduce", 8, 64, **choice.options)
    assert kind(schedule)[0] == "all-reduce"
    assert schedule.name.endswith(f"{grid[0]}x{grid[1]}")
