"""Schedules as MSCCL algorithms: run by a plain interpreter, read again, refused."""

import re
import time
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msccl_machine import Machine, numbers, traffic

from wavefabric.base.errors import InputError
from wavefabric.collectives import (
    TRANSFER,
    Schedule,
    all_to_all,
    direct_all_gather,
    direct_all_reduce,
    point_to_point,
    ring_all_gather,
    ring_all_reduce,
    verify,
)
from wavefabric.collectives.conditions import kind
from wavefabric.collectives.formats.msccl.check import check_msccl
from wavefabric.collectives.formats.msccl.read import from_msccl, load_msccl
from wavefabric.collectives.formats.msccl.write import save_msccl, to_msccl
from wavefabric.collectives.registry import ALGORITHMS, build, why_refused
from wavefabric.collectives.structure import ScheduleError

BUFFER = {"all-gather": "o", "broadcast": "o"}


def equal_chunks(algorithm, collective, ranks, pieces, radix):
    """The schedule with chunks of one element, None if the algorithm has none for these numbers."""
    options = {"pieces": pieces, "radix": radix}
    if why_refused(algorithm, collective, ranks, **options):
        return None
    chunks = build(algorithm, collective, ranks, 5040, **options).sizes[0].shape[1]
    return build(algorithm, collective, ranks, 1 if collective == "halo" else chunks, **options)


@st.composite
def schedules(draw):
    """Of any algorithm of the registry."""
    name = draw(st.sampled_from(sorted(n for n, each in ALGORITHMS.items() if not each.switched)))
    collective = draw(st.sampled_from(ALGORITHMS[name].collectives))
    ranks, pieces = draw(st.integers(2, 8)), draw(st.integers(1, 3))
    radix = draw(st.sampled_from([None, 3, 4]))
    for fewer in ((ranks, pieces, radix), (ranks, 1, None), (4, 1, None)):
        schedule = equal_chunks(name, collective, *fewer)
        if schedule is not None:
            return collective, schedule
    raise AssertionError(f"{name} has no {collective} of 4 ranks")


def run(schedule, collective, text, instances, seed):
    """Run the XML with numbers and compare with what the schedule promises; each buffer holds one chunk."""
    machine = Machine(text, 1, seed, together=1 + seed % 3, strict=True)

    def memory(rank, buffer):
        if collective in ("all-to-all", "halo"):
            return machine.memory[rank]["io"[buffer]]
        return machine.memory[rank][BUFFER.get(collective, "i")]

    parts = range(instances)
    for (rank, buffer, chunk), (item, _) in schedule.pre.items():
        for j in parts:
            memory(rank, buffer)[chunk * instances + j] = numbers(rank, item * instances + j)
    machine.run()
    for (rank, buffer, chunk), (item, origins) in schedule.post.items():
        held = [r for r in range(schedule.ranks) if origins >> r & 1]
        for j in parts:
            total = sum(numbers(r, item * instances + j) for r in held)
            assert memory(rank, buffer)[chunk * instances + j] == total
    return machine


@pytest.mark.slow
@settings(max_examples=60)
@given(schedules(), st.integers(1, 3), st.sampled_from([None, True]), st.integers(0, 2**32))
def test_every_algorithm_runs_and_comes_back(case, instances, shared, seed):
    collective, schedule = case
    text = to_msccl(schedule, instances=instances, shared=shared)
    machine = run(schedule, collective, text, instances, seed)
    wanted = {pair: chunks * instances for pair, chunks in traffic(schedule).items()}
    assert machine.sent == wanted
    again = from_msccl(text)  # proves it
    assert traffic(again) == wanted
    assert kind(again) == kind(schedule)
    assert again.communication_rounds <= schedule.communication_rounds
    if instances == 1 and collective != "halo":  # where items have no numbers of their own
        assert (again.pre, again.post) == (schedule.pre, schedule.post)
        assert again.sizes[0].tolist() == schedule.sizes[0].tolist()


@pytest.mark.parametrize(
    ("schedule", "coll", "inplace", "chunks", "scratch"),
    [
        (ring_all_gather([2] * 3), "allgather", "1", (3, 0, 3), 0),
        (ring_all_reduce(3, 6), "allreduce", "1", (3, 3, 0), 0),
        (direct_all_reduce(3, 6), "allreduce", "1", (1, 1, 0), 2),
        (all_to_all([[2] * 3] * 3), "alltoall", "0", (3, 3, 3), 0),
        (build("direct", "reduce-scatter", 3, 6), "reduce_scatter", "1", (3, 3, 0), 2),
        (build("tree", "broadcast", 3, 6, root=1), "broadcast", "1", (1, 0, 1), 0),
        (build("ring", "reduce", 3, 6), "reduce", "1", (1, 1, 0), 0),
        (build("binomial", "gather", 3, 6), "custom", "1", (3, 3, 0), 0),
        (point_to_point("two", 3, [(0, 1, 4), (0, 2, 4)]), "custom", "0", (2, 2, 2), 0),
    ],
)
def test_buffers_and_attributes(schedule, coll, inplace, chunks, scratch):
    root = ElementTree.fromstring(to_msccl(schedule, proto="LL128", name="ours"))
    assert (root.get("name"), root.get("proto"), root.get("ngpus")) == ("ours", "LL128", "3")
    assert (root.get("coll"), root.get("inplace")) == (coll, inplace)
    for gpu in root:
        result = [root.get("nchunksperloop"), *(gpu.get(f"{b}_chunks") for b in "ios")]
        assert [int(n) for n in result] == [*chunks, scratch]


def blocks_of(text):
    return [
        (int(gpu.get("id")), *(int(tb.get(k)) for k in ("id", "send", "recv", "chan")), len(tb))
        for gpu in ElementTree.fromstring(text)
        for tb in gpu
    ]


def test_a_block_for_each_direction_or_one_for_a_pair():
    pairs = build("recursive", "all-reduce", 4, 4)
    assert {b[1:4] for b in blocks_of(to_msccl(pairs)) if b[0] == 0} <= {
        (n, *ends) for n in range(4) for ends in ((1, -1), (-1, 1), (2, -1), (-1, 2))
    }
    shared = [b[2:4] for b in blocks_of(to_msccl(pairs, shared=True)) if b[0] == 0]
    assert sorted(shared) == [(1, 1), (2, 2)]


def test_long_rings_use_more_channels():
    blocks = blocks_of(to_msccl(build("ring", "broadcast", 3, 300, pieces=300)))  # each piece a step
    assert max(b[5] for b in blocks) <= 256
    assert {b[4] for b in blocks} == {0, 1}
    assert sum(b[5] for b in blocks if b[0] == 0) == 300


@pytest.mark.slow
def test_many_peers_are_spread_over_channels():
    direct = blocks_of(to_msccl(direct_all_gather([1] * 40)))
    for direction in (2, 3):
        ends = [(b[0], b[4]) for b in direct if b[direction] >= 0]
        assert max(ends.count(e) for e in set(ends)) <= 32
    assert max(b[1] for b in direct) == 77
    shared = blocks_of(to_msccl(direct_all_gather([1] * 112)))  # 222 blocks would be too many
    assert max(b[1] for b in shared) == 110
    assert all(b[2] == b[3] for b in shared)


def test_counts_are_split():
    text = to_msccl(point_to_point("much", 2, [(0, 1, 8)] * 150))
    counts = [int(c) for c in re.findall(r' cnt="(\d+)"', text)]
    assert counts == [50] * 6


def test_sums_keep_their_order():
    """The runtime would join the two sums of GPU 1 to (x0 + x2) + x1; a mark keeps them apart."""
    rows = [
        (0, 2, 0, 0, 0, 1, 1, 1, False),
        (0, 0, 0, 0, 0, 1, 0, 1, False),
        (1, 0, 1, 1, 0, 1, 0, 2, False),
        (2, 1, 1, 1, 0, 0, 0, 1, True),
        (3, 1, 1, 1, 1, 0, 0, 1, True),
    ]
    sizes = (np.ones((3, 1), np.int64), np.ones((3, 2), np.int64))
    pre = {(r, 0, 0): (0, 1 << r) for r in range(3)}
    chain = Schedule(
        "chain",
        3,
        ("data", "scratch"),
        sizes,
        np.array([(*row, 0) for row in rows], TRANSFER),
        pre,
        {(1, 0, 0): (0, 7)},
    )
    sums = [s for s in ElementTree.fromstring(to_msccl(chain)).iter("step") if s.get("type") == "re"]
    assert [(s.get("depid"), s.get("hasdep")) for s in sums] == [("0", "1"), ("-1", "0")]


def test_round_trip_through_a_file(tmp_path):
    ring = ring_all_gather([1] * 3)
    path = save_msccl(tmp_path / "ring.xml", ring, proto="LL")
    assert load_msccl(path, elements=5).sizes[0].tolist() == [[5] * 3] * 3
    with pytest.raises(InputError, match=r"msccl: .*ring\.xml exists; allowed: another name, or --force"):
        save_msccl(path, ring)
    save_msccl(path, ring, force=True)
    path.write_text("<algo/>")
    with pytest.raises(InputError, match=r"ring\.xml: algo ngpus|ring\.xml: algo: no attribute ngpus"):
        load_msccl(path)
    assert [p.name for p in tmp_path.iterdir()] == ["ring.xml"]


def test_one_rank():
    alone = build("direct", "all-to-all", 1, 4)
    again = from_msccl(to_msccl(alone))
    verify(again)
    assert len(again.transfers) == len(alone.transfers) == 1


@pytest.mark.parametrize(
    ("schedule", "options", "message"),
    [
        (ring_all_reduce(3, 7), {}, "chunks: 2 to 3 elements; allowed by MSCCL: all of one size"),
        (ring_all_gather([3, 0, 3]), {}, "chunks: 0 to 3 elements; allowed by MSCCL: all of one size"),
        (ring_all_gather([0, 0]), {}, "chunks: none with elements"),
        (direct_all_gather([1] * 218), {}, "MSCCL: GPU 0: 217 thread blocks, of 216; allowed: 216"),
        (ring_all_gather([1] * 2), {"proto": "simple"}, "proto: 'simple'; allowed: Simple, LL, LL128"),
        (ring_all_gather([1] * 2), {"name": 'a"b'}, "name: 'a\"b'; allowed: 1 to 63"),
        (ring_all_gather([1] * 2), {"instances": 0}, "instances: 0; allowed: whole numbers from 1 to 32"),
        (ring_all_gather([1] * 2), {"slots": 3}, "slots: 3; allowed: from 4"),
    ],
)
def test_what_cannot_be_exported(schedule, options, message):
    with pytest.raises(InputError) as caught:
        to_msccl(schedule, **options)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_only_proved_schedules():
    ring = ring_all_gather([1] * 3)
    ring.transfers["src_chunk"][0] = 1
    with pytest.raises(ScheduleError, match="ring all-gather"):
        to_msccl(ring)


@pytest.mark.slow
def test_128_ranks():
    schedule = build("recursive", "all-reduce", 128, 128)
    begin = time.process_time()
    text = to_msccl(schedule)
    assert time.process_time() - begin < 6
    check_msccl(text)
    # 7 peers, both ways; the most chunks are one step of 64.
    assert [len(list(gpu)) for gpu in ElementTree.fromstring(text)] == [14] * 128
    assert max(int(c) for c in re.findall(r' cnt="(\d+)"', text)) == 64
