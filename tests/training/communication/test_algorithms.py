"""Which algorithm serves a call: every choice, any size of group, never an error in a simulation."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.collectives import kind, verify
from wavefabric.collectives.builders.ring import ring_of_one_part
from wavefabric.collectives.candidates import Choice
from wavefabric.collectives.structure import transfer_elements
from wavefabric.fabric import load
from wavefabric.training.communication.algorithms import (
    ALIASES,
    CHOICES,
    built,
    complete,
    complete_messages,
    folded,
    parse_collective,
)
from wavefabric.training.communication.algorithms import recipes as recipes_on

#: What is searched for ``optimal`` besides what ``auto`` compares is in `test_searched`.
SERVED = [*sorted(set(CHOICES) - {"zero", "optimal"}), "recursive:3", "double-tree:8"]
ELECTRICAL, PHOTONIC = load("switch:4096"), load("lightpath:64x64")


def recipes(text, collective, ranks, photonic, whole=False):
    """Choices for the first GPUs of a fabric."""
    fabric = PHOTONIC if photonic else ELECTRICAL
    return recipes_on(text, collective, range(ranks), fabric, whole).choices


KINDS = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all")


@pytest.mark.parametrize("collective", KINDS)
@pytest.mark.parametrize("photonic", [False, True])
@pytest.mark.parametrize("choice", SERVED)
@pytest.mark.parametrize("sizes", [(3, 4, 12), pytest.param((2, 7, 17), marks=pytest.mark.slow)])
def test_every_choice_serves_groups_of_any_size_with_chunks_alike(sizes, choice, photonic, collective):
    for ranks in sizes:
        for recipe in recipes(choice, collective, ranks, photonic):
            built(recipe, collective, ranks)
            group = complete(recipe, collective, ranks)
            sizes = np.concatenate([table.ravel() for table in group.schedule.sizes])
            assert len(set(sizes.tolist()) - {0}) == 1
            assert group.elements == group.schedule.sizes[0][0].sum()
            assert kind(group.schedule)[0] == collective


def test_recursive_algorithms_take_the_smallest_radix_that_fits_or_a_ring():
    def chosen(radix, ranks):
        return str(recipes(f"recursive:{radix}", "all-reduce", ranks, True)[0])

    assert chosen(2, 256) == chosen(2, 2) == "recursive, radix 2"
    assert chosen(4, 12) == "recursive, radix 4"
    assert chosen(2, 12) == "recursive, radix 3"
    assert chosen(2, 26) == "recursive, radix 13"
    assert chosen(4, 34) == "ring"


def test_what_serves_what():
    def names(choice, collective, photonic, ranks=8):
        return [str(recipe) for recipe in recipes(choice, collective, ranks, photonic)]

    assert names("double-tree", "all-gather", False) == ["ring"]
    assert names("double-tree:8", "all-reduce", False) == ["double-tree, 8 pieces"]
    assert names("bruck", "all-gather", False) == ["bruck"]
    assert names("bruck", "reduce-scatter", False) == ["recursive, radix 2"]
    assert names("ring", "all-to-all", True) == ["bruck"]
    assert names("ring", "all-to-all", False) == ["bruck", "pairwise", "direct"]
    assert names("ring", "messages", True) == ["greedy"]
    assert names("ring", "messages", False) == ["point-to-point"]


@pytest.mark.parametrize(
    ("gpus", "grid"),
    [
        (range(32), (4, 8)),
        (range(8, 24), (2, 8)),
        (range(1, 32, 2), (4, 4)),
        (range(0, 32, 8), None),  # one of each node
        (range(8), None),
        ((*range(8), 8), None),  # a node and a part of another
    ],
)
def test_rings_and_trees_run_through_all_gpus_of_a_node_where_a_group_has_equal_parts_of_nodes(gpus, grid):
    fabric = load("nodes:4x8")

    def chosen(text, collective="all-reduce"):
        return recipes_on(text, collective, gpus, fabric).choices

    ring = Choice("ring", grid=grid)
    assert chosen("ring") == chosen("ring", "all-gather") == chosen("double-tree:4", "all-gather") == (ring,)
    assert chosen("double-tree:4") == (Choice("double-tree", pieces=4, grid=grid),)
    assert {choice.grid for choice in chosen("tree")} == {grid}
    assert [choice.pieces for choice in chosen("tree")] == [1, 4, 16, 64]
    assert {choice.grid for choice in chosen("auto") if choice.algorithm == "ring"} == {None, grid}
    assert chosen("optimal") == chosen("auto")


def test_rings_serve_the_largest_groups():
    for choice in ("ring", "bidirectional-ring"):
        for collective in ("all-reduce", "all-gather", "reduce-scatter"):
            assert recipes(choice, collective, 4096, False) == (Choice("ring"),)
    for gpus in (range(1024), range(512, 1024)):  # more chunks than a schedule of all rings may have
        nodes = recipes_on("auto", "all-reduce", gpus, load("nodes:128x8")).choices
        assert set(nodes) >= {Choice("ring"), Choice("ring", grid=(len(gpus) // 8, 8))}
    with pytest.raises(InputError, match="ranks: 4000 given"):
        recipes("ring", "all-to-all", 4000, True)


def test_where_all_rounds_are_needed_trees_serve_groups_too_large_for_a_ring():
    assert recipes("ring", "all-reduce", 2048, True) == (Choice("ring"),)
    assert recipes("ring", "all-reduce", 2048, True, whole=True) == (Choice("double-tree"),)


def test_what_a_user_may_say():
    assert [parse_collective(name) for name in CHOICES] == list(CHOICES)
    assert [parse_collective(name) for name in ALIASES] == list(ALIASES.values())
    assert parse_collective("recursive:08") == "recursive:8"
    assert parse_collective("double-tree:32") == "double-tree:32"


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("rings", "ring, bidirectional-ring, .*, zero, lumorph-2, lumorph-4"),
        ("recursive", "ring, .*"),
        ("recursive:1", "recursive: and 2 to 16"),
        ("recursive:17", "recursive: and 2 to 16"),
        ("recursive:99999999999999999999", "recursive: and 2 to 16"),
        ("recursive:٣", "ring, .*"),
        ("double-tree:0", "double-tree: and 1 to 4096"),
        ("ring:2", "ring, .*"),
        ("", "ring, .*"),
        (4, "ring, .*"),
    ],
)
def test_what_a_user_may_not_say(text, allowed):
    with pytest.raises(InputError, match=f"^collective: .* given; allowed: {allowed}$"):
        parse_collective(text)


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 4), st.floats(0, 1e9) | st.integers(0, 100)), max_size=12
    ),
    st.integers(1, 3) | st.none(),
)
def test_messages_keep_their_sizes_and_are_proved(messages, lasers):
    group = (7, 3, 11, 0, 5)
    inputs = [(group[src], group[dst], size) for src, dst, size in messages]
    made = complete_messages(group, inputs, lasers)
    verify(made.schedule)
    moving = [(src, dst, size) for src, dst, size in messages if size > 0 and src != dst]
    largest = max((size for _, _, size in moving), default=0.0)
    for end, buffer in ((0, 0), (1, 1)):
        for rank in range(len(group)):
            wanted = sum(message[2] for message in moving if message[end] == rank)
            result = made.schedule.sizes[buffer][rank].sum() / made.elements
            assert result == pytest.approx(wanted, rel=1e-9, abs=max(1e-10 * largest, 1e-300))


def test_whole_sizes_of_messages_are_exact():
    made = complete_messages((0, 1), [(0, 1, 1.5), (1, 0, 0.25)], None)
    assert made.elements == 4
    assert [table.tolist() for table in made.schedule.sizes] == [[[6], [1]], [[1], [6]]]


@pytest.mark.parametrize("collective", ["all-gather", "reduce-scatter", "all-reduce"])
@pytest.mark.parametrize("grid", [(2, 2), (3, 2), (4, 4), (3, 5)])
def test_a_round_of_rings_by_rails_stands_for_all_rounds_of_its_kind(collective, grid):
    ring, ranks = Choice("ring", grid=grid), grid[0] * grid[1]
    one, whole = folded(ring, collective, ranks), built(ring, collective, ranks)
    assert one.repeats * one.schedule.rounds == whole.schedule.rounds
    assert one.elements == whole.elements

    def sent(schedule, number):
        """Elements by sender, receiver, and whether they are added there."""
        now = schedule.transfers["round"] == number
        t, total = schedule.transfers[now], Counter()
        ends = zip(*(t[column].tolist() for column in ("src", "dst", "reduce")), strict=True)
        for key, size in zip(ends, transfer_elements(schedule)[now].tolist(), strict=True):
            total[key] += size
        return total

    for number in range(whole.schedule.rounds):
        assert sent(whole.schedule, number) == sent(one.schedule, number // one.repeats)


@pytest.mark.parametrize("collective", ["all-gather", "reduce-scatter", "all-reduce"])
@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_rounds_of_a_ring_are_one_share_in_all_places(collective, ranks):
    """`folded` proves one share, and counts one round of each kind."""
    part, whole = ring_of_one_part(collective, ranks), built(Choice("ring"), collective, ranks).schedule
    turned = set()
    for r in range(ranks):
        for t in part.transfers:
            ends = (int(t["src"] + r) % ranks, int(t["dst"] + r) % ranks)
            turned.add((int(t["round"]), *ends, r, bool(t["reduce"])))
    columns = ("round", "src", "dst", "src_chunk", "reduce")
    assert turned == set(zip(*(whole.transfers[c].tolist() for c in columns), strict=True))
    one = folded(Choice("ring"), collective, ranks)
    kinds = one.schedule.transfers
    assert one.repeats * one.schedule.rounds == whole.rounds
    for number in range(whole.rounds):
        alike = kinds[kinds["round"] == number // one.repeats]
        at = whole.transfers[whole.transfers["round"] == number]
        ends = [
            set(zip(*(x[c].tolist() for c in ("src", "dst", "reduce")), strict=True)) for x in (alike, at)
        ]
        assert ends[0] == ends[1]


@pytest.mark.parametrize("sizes", [(5e-324,), (5e-324, 1.0), (5e-324, 1e308), (1e-320, 3e-320)])
def test_the_smallest_messages_have_a_finite_scale(sizes):
    made = complete_messages((0, 1), [(0, 1, size) for size in sizes], None)
    assert 0 < made.elements < np.inf
    verify(made.schedule)
