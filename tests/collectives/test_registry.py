"""Every algorithm by name: right for all arguments it accepts, wrong once anything is changed; its speed."""

import doctest
import time
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedule_cases import OPERATIONS, Numbers, builds, plain_verdict

from wavefabric.base.errors import InputError
from wavefabric.collectives import (
    ALGORITHMS,
    ScheduleError,
    build,
    from_json,
    kind,
    levels,
    to_json,
    verify,
    why_refused,
)
from wavefabric.collectives.conditions import ROOTED
from wavefabric.collectives.registry import channels_of, size_bounds

#: Of what only copies; a chunk is written once there.
_COPIES = [(a, c) for a, c in OPERATIONS if c in ("all-gather", "broadcast", "gather", "scatter")]


def accepted(schedule):
    try:
        verify(schedule)
    except ScheduleError:
        return False
    return True


def full(arguments):
    """The same with at least one element in every chunk, and two ranks."""
    (algorithm, collective, ranks, _), options = arguments
    ranks = max(ranks, 2)
    chunks = options.get("pieces", 1) * channels_of(algorithm, options.get("grid"))
    return (algorithm, collective, ranks, 2 * ranks * chunks), options


@pytest.mark.parametrize("operation", OPERATIONS, ids="-".join)
@settings(max_examples=5)
@given(data=st.data())
def test_what_is_accepted_is_right(operation, data):
    ranks = st.integers(1, 12) | st.sampled_from([16, 27, 32])
    arguments, options = data.draw(builds(st.just(operation), ranks))
    assert why_refused(*arguments[:3], **options) is None
    schedule = build(*arguments, **options)
    verify(schedule)
    assert (levels(schedule) <= schedule.transfers["round"]).all()
    assert schedule.rounds == np.unique(schedule.transfers["round"]).size


@settings(max_examples=50)
@given(arguments=builds().map(full).filter(lambda a: not why_refused(*a[0][:3], **a[1])))
def test_a_schedule_is_of_its_kind(arguments):
    (algorithm, collective, _, _), options = arguments
    schedule = build(*arguments[0], **options)
    root = options.get("root", 0) if collective in ROOTED else None
    assert kind(schedule) == ((collective, root) if collective != "halo" else ("custom", None))
    assert schedule.name.startswith(f"{algorithm} {collective}")


@settings(max_examples=40)
@given(arguments=builds(ranks=st.integers(2, 7)), data=st.data())
def test_nothing_can_be_left_out_or_changed(arguments, data):
    schedule = build(*arguments[0], **arguments[1])
    t = schedule.transfers
    if not t.size:
        return
    # What a multicast brings back to where it comes from changes nothing.
    number = data.draw(st.sampled_from(np.flatnonzero((t["src"] != t["dst"]) | (t["switch"] == 0)).tolist()))
    without = replace(schedule, transfers=np.delete(t, number))
    flipped = replace(schedule, transfers=t.copy())
    flipped.transfers["reduce"][number] ^= True
    # What should be read is not, and is nowhere else or would be counted twice.
    moved = replace(schedule, transfers=t.copy())
    moved.transfers["src_chunk"][number] += data.draw(st.sampled_from([-1, 1]))
    for wrong in (without, flipped, moved):
        assert not accepted(wrong)


@settings(max_examples=30)
@given(arguments=builds(st.sampled_from(_COPIES), st.integers(2, 7)), data=st.data())
def test_a_copy_to_somebody_else_is_found(arguments, data):
    schedule = build(*arguments[0], **arguments[1])
    t = schedule.transfers
    if not t.size:
        return
    number = data.draw(st.integers(0, t.size - 1))
    wrong = replace(schedule, transfers=t.copy())
    wrong.transfers["dst"][number] += data.draw(st.integers(1, schedule.ranks - 1))
    wrong.transfers["dst"] %= schedule.ranks
    assert not accepted(wrong)


@settings(max_examples=60)
@given(arguments=builds(ranks=st.integers(1, 6), pieces=2), data=st.data())
def test_any_change_is_judged_as_by_the_definition(arguments, data):
    schedule = build(*arguments[0], **arguments[1])
    t = schedule.transfers.copy()
    if not t.size:
        return
    number = data.draw(st.integers(0, t.size - 1))
    field = data.draw(st.sampled_from(["src", "dst", "src_chunk", "dst_chunk", "round"]))
    t[field][number] = data.draw(st.integers(0, max(1, int(t[field].max()))))
    wrong = replace(schedule, transfers=t[np.argsort(t["round"], kind="stable")])
    assert accepted(wrong) == plain_verdict(wrong)


@pytest.mark.parametrize("operation", [o for o in OPERATIONS if o[1] == "all-reduce"], ids="-".join)
@settings(max_examples=6)
@given(data=st.data())
def test_all_ranks_end_an_all_reduce_with_the_same_bits(operation, data):
    arguments, options = data.draw(builds(st.just(operation), pieces=2))
    schedule = build(*arguments, **options)
    numbers = Numbers(schedule, data.draw(st.integers(0, 99)))
    numbers.carry_out_all(schedule.transfers)
    for rank in range(schedule.ranks):
        assert np.array_equal(numbers.buffers[rank, 0], numbers.buffers[0, 0])


@pytest.mark.parametrize("collective", ["all-reduce", "reduce", "reduce-scatter"])
@pytest.mark.parametrize("ranks", [1, 2, 5, 8])
def test_direct_sums_are_in_rank_order(collective, ranks):
    schedule = build("direct", collective, ranks, 40, pieces=2, root=ranks // 2 * (collective == "reduce"))
    numbers = Numbers(schedule, ranks)
    numbers.carry_out_all(schedule.transfers)
    for at in schedule.post:
        assert np.array_equal(numbers.chunk(at), numbers.wanted(at))


@settings(max_examples=25)
@given(arguments=builds(ranks=st.integers(1, 8), pieces=2))
def test_schedules_are_the_same_after_writing_and_reading(arguments):
    schedule = build(*arguments[0], **arguments[1])
    again = from_json(to_json(schedule))
    assert np.array_equal(again.transfers, schedule.transfers)
    assert (again.name, again.buffers, again.pre, again.post) == (
        schedule.name, schedule.buffers, schedule.pre, schedule.post
    )  # fmt: skip
    assert all(map(np.array_equal, again.sizes, schedule.sizes))


REFUSED = {
    f'algorithm: "rings" given (did you mean ring?); allowed: {", ".join(ALGORITHMS)}': (
        *("rings", "all-reduce", 4),
        {},
    ),
    'collective: "gather" given (did you mean all-gather?); allowed: all-gather, reduce-scatter, all-reduce, '
    "broadcast, reduce (ring)": ("ring", "gather", 4, {}),
    "ranks: 0; allowed: whole numbers from 1 to 4096": ("ring", "reduce", 0, {}),
    "ranks: 5000; allowed: whole numbers from 1 to 4096": ("recursive", "all-reduce", 5000, {"radix": 5000}),
    "ranks: 4096 given, ring all-gather has up to 16777216 chunks and moves 67108864; "
    "allowed: fewer ranks, 2097152 chunks, 8388608 moves": ("ring", "all-gather", 4096, {}),
    "pieces: 10000000 given; allowed: whole numbers from 1 to 262144 (4 ranks, tree)": (
        "tree", "all-reduce", 4, {"pieces": 10**7}
    ),
    "pieces: 0; allowed: whole numbers from 1": ("tree", "reduce", 3, {"pieces": 0}),
    "pieces: 2 given; allowed: none, torus has no pieces": ("torus", "halo", 4, {"pieces": 2}),
    "radix: 1; allowed: whole numbers from 2": ("bruck", "all-gather", 3, {"radix": 1}),
    "radix: 3 given; allowed: none, ring has no radix": ("ring", "reduce", 3, {"radix": 3}),
    "root: 3; allowed: whole numbers from 0 to 2": ("tree", "reduce", 3, {"root": 3}),
    "root: 1 given; allowed: 0, all-reduce has no root": ("tree", "all-reduce", 3, {"root": 1}),
    "grid: (2, 2) given; allowed: none, bruck has no grid": ("bruck", "all-gather", 4, {"grid": (2, 2)}),
    "radix: 4 given; allowed: none, hierarchical all-to-all has no radix": (
        "hierarchical", "all-to-all", 8, {"radix": 4}
    ),
    "grid: 2x2 given; allowed: a product of 6, the ranks": ("mesh", "halo", 6, {"grid": (2, 2)}),
    "grid: 5 given; allowed: ranks along each axis": ("mesh", "halo", 5, {"grid": 5}),
    "grid[1]: 0; allowed: whole numbers from 1": ("mesh", "halo", 4, {"grid": (4, 0)}),
    "grid: 1x8 given; allowed: two powers of two from 2 (squares)": (
        "squares", "all-reduce", 8, {"grid": (1, 8)}
    ),
    "ranks: 12 given; allowed: powers of two from 4 (squares)": ("squares", "all-reduce", 12, {}),
    "ranks: 12 given; allowed: products of numbers up to the radix, 2 (recursive)": (
        "recursive", "all-gather", 12, {}
    ),
    "grid: 2x2x2 given; allowed: nodes and GPUs of each, such as 4x8 (hierarchical)": (
        "hierarchical", "all-reduce", 8, {"grid": (2, 2, 2)}
    ),
    "grid: 8 given; allowed: nodes and GPUs of each, such as 4x8 (ring)": (
        "ring", "all-reduce", 8, {"grid": (8,)}
    ),
    "grid: 2x3 given; allowed: a product of 8, the ranks": ("ring", "all-reduce", 8, {"grid": (2, 3)}),
    "ranks: 1024 given, ring all-gather of 8 channels has up to 8388608 chunks and moves 33554432; "
    "allowed: fewer ranks, 2097152 chunks, 8388608 moves": (
        "ring", "all-gather", 1024, {"grid": (128, 8)}
    ),
    "pieces: 9 given; allowed: whole numbers from 1 to 4 (256 ranks, ring)": (
        "ring", "all-gather", 256, {"grid": (32, 8), "pieces": 9}
    ),
    "ranks: 10 given; allowed: products of numbers up to the radix, 4 (recursive-exchange)": (
        "recursive-exchange", "all-reduce", 10, {"radix": 4}
    ),
}  # fmt: skip


@settings(max_examples=50)
@given(arguments=builds(ranks=st.integers(1, 20), pieces=3))
def test_extents_are_upper_bounds(arguments):
    (algorithm, collective, ranks, elements), options = arguments
    schedule = build(algorithm, collective, ranks, elements + 100, **options)
    radix = options.get("radix") or 2
    pieces = options.get("pieces", 1) * channels_of(algorithm, options.get("grid"))
    chunks, moves = size_bounds(algorithm, collective, ranks, pieces, radix)
    assert sum(sizes.size for sizes in schedule.sizes) <= chunks
    assert schedule.transfers["count"].sum() <= moves


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_accepted_is_refused_in_one_line(text):
    *arguments, options = REFUSED[text]
    assert why_refused(*arguments, **options) == text
    with pytest.raises(InputError) as error:
        build(*arguments, 10, **options)
    assert str(error.value) == text


def test_elements_are_checked():
    with pytest.raises(InputError, match="elements: -1; allowed: whole numbers from 0"):
        build("ring", "reduce", 3, -1)


def test_options_are_those_that_change_something():
    assert {o for a in ALGORITHMS.values() for o in a.options} == {"pieces", "radix", "root", "grid"}
    assert all(a.name == name and a.summary and a.collectives for name, a in ALGORITHMS.items())


ALL_REDUCES = [("ring", {}), *(("recursive", {"radix": r}) for r in (2, 16))]
ALL_TO_ALLS = [("pairwise", {}), ("bruck", {}), ("direct", {})]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "collective", "options", "seconds"),
    [(a, "all-reduce", o, 2) for a, o in ALL_REDUCES] + [(a, "all-to-all", o, 10) for a, o in ALL_TO_ALLS],
)
def test_256_ranks_are_built_and_proved_soon(algorithm, collective, options, seconds):
    start = time.process_time()
    verify(build(algorithm, collective, 256, 1 << 20, **options))
    assert time.process_time() - start < seconds


@pytest.mark.parametrize("name", ["registry", "synthesis.synthesise", "formats.msccl.write"])
def test_examples_of_the_docstrings(name):
    failed, tried = doctest.testmod(import_module(f"wavefabric.collectives.{name}"))
    assert tried
    assert not failed


@settings(max_examples=30)
@given(
    st.sampled_from([("direct", {}), ("pairwise", {}), ("bruck", {"radix": 3}), ("hierarchical", {})]),
    st.data(),
)
def test_all_to_alls_of_unequal_sizes_are_right(algorithm, data):
    (name, options), ranks = algorithm, data.draw(st.sampled_from([1, 2, 4, 6, 9]))
    row = st.lists(st.integers(0, 4), min_size=ranks, max_size=ranks)
    sizes = np.array(data.draw(st.lists(row, min_size=ranks, max_size=ranks)))
    schedule = build(name, "all-to-all", ranks, sizes, pieces=data.draw(st.integers(1, 3)), **options)
    verify(schedule)
    received = sum(schedule.sizes[buffer][rank, chunk] for rank, buffer, chunk in schedule.post)
    assert received == sizes.sum()
