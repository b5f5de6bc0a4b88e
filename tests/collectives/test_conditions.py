"""Conditions of the named operations, against their definition element by element."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.collectives import COLLECTIVES, TRANSFER, Schedule, kind, layout, point_to_point
from wavefabric.collectives.conditions import ROOTED, operation, whole_elements

ARGUMENTS = {
    "collective": st.sampled_from(COLLECTIVES),
    "ranks": st.integers(1, 6),
    "elements": st.integers(0, 30),
    "pieces": st.integers(1, 4),
    "data": st.data(),
}


def owner(element, ranks, elements):
    """Whose share an element is: shares are as even as possible, larger ones first."""
    for r in range(ranks):
        part = elements // ranks + (r < elements % ranks)
        if element < part:
            return r
        element -= part
    raise AssertionError(element)


def before_and_after(collective, n, elements, root):
    """{(rank, buffer, place): (item, origins)} before and after, every element being an item of its own."""
    everybody, ranks = frozenset(range(n)), range(n)
    mine = {(r, 0, k): (k, {r}) for r in ranks for k in range(elements)}
    total = {at: (k, everybody) for at, (k, _) in mine.items()}
    at_owner = {(r, 0, k): r == owner(k, n, elements) for r, _, k in mine}
    at_root = {at: at[0] == root for at in mine}

    def of(where, what):
        return {at: v for at, v in what.items() if where[at]}

    from_root = {at: (k, {root}) for at, (k, _) in mine.items()}
    from_owner = {at: (k, {owner(k, n, elements)}) for at, (k, _) in mine.items()}
    if collective == "all-to-all":
        part = [[k for k in range(elements) if owner(k, n, elements) == d] for d in ranks]
        received = {
            (d, 1, r * len(part[d]) + i): (r * elements + k, {r})
            for d in ranks
            for r in ranks
            for i, k in enumerate(part[d])
        }
        return {(r, 0, k): (r * elements + k, {r}) for r, _, k in mine}, received
    return {
        "all-gather": (of(at_owner, mine), from_owner),
        "reduce-scatter": (mine, of(at_owner, total)),
        "all-reduce": (mine, total),
        "broadcast": (of(at_root, mine), from_root),
        "reduce": (mine, of(at_root, total)),
        "gather": (of(at_owner, mine), of(at_root, from_owner)),
        "scatter": (of(at_root, mine), of(at_owner, from_root)),
    }[collective]


def by_element(shape, held, first):
    """Holdings of chunks taken apart into elements; `first` gives the number of an item's first element."""
    result = {}
    for (rank, buffer, chunk), (item, origins) in held.items():
        sizes = shape.sizes[buffer][rank]
        start = sizes[:chunk].sum()
        assert sizes[chunk]
        ranks = {r for r in range(shape.ranks) if origins >> r & 1}
        for i in range(sizes[chunk]):
            result[rank, buffer, int(start) + i] = (first[item] + i, ranks)
    return result


@settings(max_examples=120)
@given(**ARGUMENTS)
def test_layouts_are_as_defined(collective, ranks, elements, pieces, data):
    root = data.draw(st.integers(0, ranks - 1)) if collective in ROOTED else 0
    shape = layout(collective, ranks, elements, pieces, root)
    before, after = before_and_after(collective, ranks, elements, root)
    by_rank = collective in ("all-gather", "reduce-scatter", "all-to-all", "gather", "scatter")
    assert shape.sizes[0].shape == (ranks, pieces * (ranks if by_rank else 1))
    # Items are chunks of the first buffer: of the one array, or of all ranks' arrays one after the other.
    sizes = shape.sizes[0].ravel() if collective == "all-to-all" else shape.sizes[0][0]
    first = np.cumsum(sizes) - sizes
    assert by_element(shape, shape.pre, first) == before
    assert by_element(shape, shape.post, first) == after


@settings(max_examples=60)
@given(**ARGUMENTS)
def test_pieces_of_a_share_are_as_even_as_possible(collective, ranks, elements, pieces, data):
    for sizes in layout(collective, ranks, elements, pieces).sizes:
        for part in sizes.reshape(-1, pieces):
            assert part.max() - part.min() <= 1
            assert (np.diff(part) <= 0).all()


def promised(shape):
    return Schedule(
        "promise", shape.ranks, shape.buffers, shape.sizes, np.zeros(0, TRANSFER), shape.pre, shape.post
    )


@settings(max_examples=80)
@given(**ARGUMENTS)
def test_kinds_are_found(collective, ranks, elements, pieces, data):
    ranks, root = ranks + 1, 0
    if collective in ROOTED:
        root = data.draw(st.integers(0, ranks - 1))
    shape = layout(collective, ranks, elements + ranks * pieces, pieces, root)
    schedule = promised(shape)
    result = (collective, root if collective in ROOTED else None)
    assert kind(schedule) == result
    # Names of items do not matter, nor further buffers.
    names = data.draw(st.permutations(range(100, 100 + schedule.sizes[0].size)))
    renamed = [
        {at: (names[item], held) for at, (item, held) in part.items()} for part in (shape.pre, shape.post)
    ]
    more = replace(
        schedule,
        pre=renamed[0],
        post=renamed[1],
        buffers=(*shape.buffers, "scratch"),
        sizes=(*shape.sizes, np.ones((ranks, 3), np.int64)),
    )
    assert kind(more) == result
    # One chunk less is another operation, or none.
    post = dict(shape.post)
    del post[data.draw(st.sampled_from(sorted(post)))]
    assert kind(replace(schedule, post=post)) != result


@settings(max_examples=40)
@given(**ARGUMENTS)
def test_empty_chunks_do_not_hide_the_kind(collective, ranks, elements, pieces, data):
    """Another name of it is right too: of one chunk an all-gather is a broadcast."""
    result, _ = kind(promised(layout(collective, ranks, elements, pieces)))
    assert result in COLLECTIVES
    assert result == collective or ranks == 1 or elements < ranks * pieces


def test_messages_are_of_no_kind():
    assert kind(point_to_point("p", 3, [(0, 1, 2), (1, 2, 2)])) == ("custom", None)
    swapped = promised(layout("all-gather", 3, 6))
    swapped.post[0, 0, 1], swapped.post[0, 0, 2] = swapped.post[0, 0, 2], swapped.post[0, 0, 1]
    assert kind(swapped) == ("custom", None)


REFUSED = {
    'collective: "sum" given; allowed: ' + ", ".join(COLLECTIVES): ("sum", 2, 1),
    "ranks: 0; allowed: whole numbers from 1": ("gather", 0, 1),
    "elements: -1; allowed: whole numbers from 0": ("gather", 2, -1),
    "pieces: 0; allowed: whole numbers from 1": ("gather", 2, 1, 0),
    "root: 2; allowed: whole numbers from 0 to 1": ("gather", 2, 1, 1, 2),
}


@pytest.mark.parametrize("text", REFUSED)
def test_bad_arguments_are_refused(text):
    with pytest.raises(InputError) as error:
        layout(*REFUSED[text])
    assert str(error.value) == text


@settings(max_examples=40)
@given(**ARGUMENTS, compact=st.booleans())
def test_data_may_begin_in_one_buffer_and_end_in_another(collective, ranks, elements, pieces, data, compact):
    ranks, shape = ranks + 1, layout(collective, ranks + 1, 7 * (ranks + 1) * pieces, pieces)
    # An all-to-all that ends where it began, all others elsewhere; shares in their places, or first.
    before, after = (0, 0) if collective == "all-to-all" else (2, 1)
    parts = {"all-gather": 0, "gather": 0, "reduce-scatter": 1, "scatter": 1}
    held, sizes = [], [np.zeros((ranks, 1), np.int64)] * 3
    for side, (part, buffer) in enumerate(((shape.pre, before), (shape.post, after))):
        moved = compact and parts.get(collective) == side
        held.append({(r, buffer, c % pieces if moved else c): v for (r, _, c), v in part.items()})
        whole = shape.sizes[0]
        rows = whole.reshape(ranks, ranks, pieces)[0] if moved else whole
        sizes[buffer] = rows
    schedule = Schedule("apart", ranks, ("a", "b", "c"), tuple(sizes), np.zeros(0, TRANSFER), *held)
    result = operation(schedule)
    assert result.collective == collective
    assert not result.in_place
    assert (result.before, result.after) == (before, after)
    assert whole_elements(schedule) == 7 * ranks * pieces
    plain = promised(shape)
    assert operation(plain).in_place
    assert operation(plain) is operation(plain)


def test_elements_of_a_custom_operation_count_every_item_once():
    assert whole_elements(point_to_point("p", 3, [(0, 1, 2), (1, 2, 3)])) == 5
    partial = promised(layout("all-reduce", 3, 6, 2))
    del partial.post[1, 0, 1]
    assert kind(partial) == ("custom", None)
    assert whole_elements(partial) == 6


@pytest.mark.parametrize("elements", [[1, 2, 3], [1.5, 2, 3, 4], [1, 2, 3, -4], [[1, 2], [3, 4]]])
def test_parts_of_another_number_or_kind_are_refused(elements):
    with pytest.raises(InputError, match=r"elements: .* given; allowed: whole numbers from 0, shape \(4,\)"):
        layout("all-gather", 4, np.array(elements))
    with pytest.raises(InputError, match=r"allowed: whole numbers from 0, shape \(1,\)"):
        layout("all-reduce", 4, np.array(elements))
