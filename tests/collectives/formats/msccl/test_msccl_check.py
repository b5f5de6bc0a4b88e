"""Rules of MSCCL's format, deadlocks and races."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msccl_cases import (
    NONE,
    algo,
    block,
    early_sends,
    exchange,
    fused_ring,
    halves,
    hierarchical,
    out_of_place,
    swap,
)
from msccl_machine import Machine, Stuck, numbers

from wavefabric.base.errors import InputError
from wavefabric.collectives import all_to_all, direct_all_reduce, ring_all_reduce
from wavefabric.collectives.formats.msccl.check import check_algorithm, check_msccl, find_circle, runs_up_to
from wavefabric.collectives.formats.msccl.format import NOP, read_algorithm, write_algorithm
from wavefabric.collectives.formats.msccl.read import from_msccl
from wavefabric.collectives.formats.msccl.write import to_msccl
from wavefabric.collectives.registry import build


@pytest.mark.parametrize(
    "text",
    [exchange(), fused_ring(4), out_of_place(), swap(), early_sends(2, "Simple"), halves(), hierarchical()],
)
def test_good_ones(text):
    check_msccl(text)
    check_msccl(f'<?xml version="1.0"?><!-- made by hand -->{text}<!-- end -->')
    check_msccl(
        text.replace("<tb ", '<note/><tb rbid="7" ').replace("<algo ", '<algo nthreads="256" outoforder="x" ')
    )


def error_of(read, text):
    """The error with which a text is refused, or nothing."""
    try:
        read(text)
    except InputError as error:
        return str(error)
    return ""


def refused(text, **options):
    """The one line with which a text is refused."""
    with pytest.raises(InputError) as caught:
        check_msccl(text, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert "; allowed: " in message
    return message


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('proto="Simple"', 'proto="simple"', 'algo proto: "simple"; allowed: Simple, LL, LL128'),
        ('coll="allreduce"', 'coll="all-reduce"', 'algo coll: "all-reduce"; allowed: allreduce, '),
        ('name="by hand" ', "", "algo: no attribute name"),
        ('ngpus="2"', 'ngpus="3"', "gpu id: 2 is missing; allowed: each from 0 to 2 once"),
        ('ngpus="2"', 'ngpus="1"', "gpu id: \"1\"; allowed: whole numbers from 0 to 0"),
        ('ngpus="2"', 'ngpus="1e9"', 'algo ngpus: "1e9"; allowed: whole numbers from 1 to 4096'),
        ('ngpus="2"', f'ngpus="{"9" * 5000}"', "algo ngpus: "),
        (
            'nchunksperloop="2"',
            'nchunksperloop="1048577"',
            'algo nchunksperloop: "1048577"; allowed: whole numbers from 0 to 1048576',
        ),
        (
            'o_chunks="0"',
            'o_chunks="16777216"',
            'gpu 0 o_chunks: "16777216"; allowed: whole numbers from 0 to 1048576',
        ),
        ('gpu id="1"', 'gpu id="0"', "gpu id: 0 given twice"),
        ('inplace="1"', 'inplace="2"', 'algo inplace: "2"; allowed: whole numbers from 0 to 1'),
        ('minBytes="0"', 'minBytes="999999999"', "algo minBytes: 999999999; allowed: 0 to maxBytes, 1342"),
        ('nchunksperloop="2"', 'nchunksperloop="4"', "gpu 0 i_chunks: 2 with nchunksperloop 4 and coll"),
        ('nchannels="1"', 'nchannels="0"', "gpu 0 tb 0 chan: 0; allowed: below nchannels, 0"),
        ('nchannels="1"', 'nchannels="33"', 'algo nchannels: "33"; allowed: whole numbers from 0 to 32'),
        ('tb id="0"', 'tb id="1"', "gpu 0 tb id: 0 is missing; allowed: 0, 1, 2"),
        ('tb id="0"', 'tb id="216"', 'gpu 0 tb id: "216"; allowed: whole numbers from 0 to 215'),
        ('send="1"', 'send="0"', "gpu 0 tb 0 send: 0, the GPU itself; allowed: another GPU, or -1"),
        ('send="1"', 'send="2"', 'gpu 0 tb 0 send: "2"; allowed: whole numbers from -1 to 1'),
        ('send="1"', 'send="-1"', "gpu 0 tb 0 step 0 (s): its block has send -1; allowed: a GPU"),
        ('recv="1"', 'recv="-1"', "gpu 0 tb 0 step 1 (rrc): its block has recv -1; allowed: a GPU"),
        ('chan="0"', 'chan="-1"', 'gpu 0 tb 0 chan: "-1"; allowed: whole numbers from 0 to 31'),
        ('s="1" type', 's="2" type', "gpu 0 tb 0 step s: 2; allowed: 1, the order of the elements"),
        ('type="rrc"', 'type="rr"', 'gpu 0 tb 0 step 1 type: "rr"; allowed: s, r, rcs'),
        ('type="rrc"', 'type="nop"', "gpu 0 tb 0 step 1 (nop): a nop; allowed: one that waits"),
        ('srcbuf="i"', 'srcbuf="x"', 'gpu 0 tb 0 step 0 srcbuf: "x"; allowed: i, o, s'),
        ('srcoff="1"', 'srcoff="2"', "gpu 0 tb 0 step 0 (s) srcoff: 2 with cnt 1; allowed: within the 2"),
        ('srcoff="1"', 'srcoff="-1"', "gpu 0 tb 0 step 0 (s) srcoff: -1 with cnt 1; allowed: within the 2"),
        ('srcbuf="i"', 'srcbuf="s"', "gpu 0 tb 0 step 0 (s) srcoff: 1 with cnt 1; allowed: within the 0"),
        ('cnt="1"', 'cnt="72"', 'gpu 0 tb 0 step 0 cnt: "72"; allowed: whole numbers from 1 to 71'),
        ('cnt="1"', 'cnt="0"', 'gpu 0 tb 0 step 0 cnt: "0"; allowed: whole numbers from 1 to 71'),
        ('depid="-1"', 'depid="1"', "gpu 0 tb 0 step 0 (s) depid: 1; allowed: a tb of the GPU, or -1"),
        ('depid="-1" deps="-1"', 'depid="0" deps="9"', "gpu 0 tb 0 step 0 (s) deps: 9; allowed: a step"),
        ('depid="-1" deps="-1"', 'depid="0" deps="0"', "gpu 0 tb 0 step 0 (s) deps: 0 of its own tb; allow"),
        ('hasdep="0"', 'hasdep="yes"', 'gpu 0 tb 0 step 0 hasdep: "yes"; allowed: whole numbers from 0 to 1'),
        ("</algo>", "", "msccl: not XML (no element found at line 1"),
        ("<gpu ", "<gpu <", "msccl: not XML (not well-formed"),
        ("<algo ", "<algorithm ", "msccl: not XML (mismatched tag"),
    ],
)  # fmt: skip
def test_rules(old, new, message):
    assert old in exchange()
    assert refused(exchange().replace(old, new, 1)).startswith(message)


def test_other_roots_and_document_types():
    assert refused("<system/>") == "msccl: root element 'system'; allowed: algo"
    bomb = '<!DOCTYPE algo [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    assert refused(bomb + exchange().replace("by hand", "&b;")).startswith(
        "msccl: a document type (DOCTYPE) given"
    )
    assert refused('<!DOCTYPE algo SYSTEM "file:///etc/passwd">' + exchange()).startswith(
        "msccl: a document type"
    )
    assert refused("<a>" * 10_000).startswith("msccl: nested more than 64 deep")
    assert refused("\ud800").startswith("msccl: not text that can be encoded")
    assert refused("").startswith("msccl: not XML (no element found")


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([block(0, 1, -1, []), block(1, 1, -1, [])], "gpu 0 tb 1 send: gpu 1 on channel 0, as tb 0; allow"),
        ([block(0, -1, 1, []), block(1, -1, 1, [])], "gpu 0 tb 1 recv: gpu 1 on channel 0, as tb 0; allow"),
        ([block(0, 1, -1, [("s", ("i", 0))])], "gpu 0 to gpu 1 on channel 0: 1 sends, 0 receives; all"),
        ([block(0, -1, -1, [("cpy", ("i", 0), ("i", 1), 2)])], "gpu 0 tb 0 step 0 (cpy): source and dest"),
        ([block(0, -1, -1, [("re", ("i", 0), ("i", 0))])], "gpu 0 tb 0 step 0 (re): source and destination"),
        (
            [
                block(0, -1, -1, [("cpy", ("i", 0), ("i", 1), {"wait": (1, 0)})]),
                block(1, -1, -1, [("cpy", ("i", 2), ("i", 3))]),
            ],
            "gpu 0 tb 0 step 0 (cpy) waits for gpu 0 tb 1 step 0 (cpy); allowed: steps with hasdep 1",
        ),
        (
            [
                block(0, -1, -1, [("nop", {"cnt": 0, "wait": (1, 0)})]),
                block(1, -1, -1, [("cpy", ("i", 0), ("i", 1), {"hasdep": 1})]),
            ],
            "gpu 0 tb 0 step 0 (nop): a nop; allowed: one that waits, before a step that waits too",
        ),
        (
            [
                block(0, -1, -1, [("cpy", ("i", 0), ("i", 1))]),
                block(1, -1, -1, [("cpy", ("i", 1), ("i", 2))]),
            ],
            "gpu 0 tb 0 step 0 (cpy) and gpu 0 tb 1 step 0 (cpy) touch the same chunk in any order; allowed:",
        ),
    ],
)  # fmt: skip
def test_blocks_of_one_gpu(blocks, message):
    assert refused(algo("custom", [((4, 4, 4), blocks), ((4, 4, 4), [])], 4)).startswith(message)


def test_counts_of_a_send_and_its_receive():
    gpus = [((2, 2, 0), [block(0, 1, -1, [("s", ("i", 0), NONE, 2)])])]
    gpus.append(((2, 2, 0), [block(0, -1, 0, [("r", NONE, ("o", 0)), ("r", NONE, ("o", 1))])]))
    assert "1 sends, 2 receives" in refused(algo("custom", gpus, 2))
    gpus[1][1][0] = block(0, -1, 0, [("r", NONE, ("o", 0))])
    message = refused(algo("custom", gpus, 2))
    assert (
        message == "gpu 0 tb 0 step 0 (s) cnt: 2, received by gpu 1 tb 0 step 0 (r) with 1; allowed: the same"
    )


def test_too_many_blocks_on_a_channel():
    ends = [block(n, n + 1, -1, []) for n in range(33)]
    text = algo("custom", [((1, 1, 0), ends), *([((1, 1, 0), [])] * 33)], 1)
    assert refused(text) == "gpu 0 send: more than 32 blocks on channel 0; allowed: 32"


def test_blocks_that_may_be_waited_for():
    ends = [block(n, -1, -1, [("cpy", ("i", 0), ("s", n), {"hasdep": 1})]) for n in range(129)]
    last = block(129, -1, -1, [("re", ("s", 128), ("s", 127), {"wait": (128, 0)})])
    assert "depid: 128; allowed: to 127, the runtime keeps it in 8 bits" in refused(
        algo("custom", [((1, 1, 129), [*ends, last])], 1)
    )


def test_a_planted_circle():
    """Two blocks of a GPU that wait for each other through its neighbour."""
    first = [
        block(0, 1, -1, [("s", ("i", 0), NONE, {"wait": (1, 0)})]),
        block(1, -1, 1, [("r", NONE, ("o", 0), {"hasdep": 1})]),
    ]
    second = [block(0, 0, 0, [("r", NONE, ("o", 0)), ("s", ("i", 0))])]
    text = algo("custom", [((1, 1, 0), first), ((1, 1, 0), second)], 1)
    message = refused(text)
    assert message.startswith("deadlock with 8 slots a connection, 4 a message under Simple: ")
    for step in (
        "gpu 0 tb 0 step 0 (s)",
        "gpu 0 tb 1 step 0 (r)",
        "gpu 1 tb 0 step 0 (r)",
        "gpu 1 tb 0 step 1 (s)",
    ):
        assert message.count(step) == 1
    with pytest.raises(Stuck):
        Machine(text, 8).run()


@pytest.mark.parametrize(("proto", "fits"), [("Simple", 2), ("LL", 8), ("LL128", 8)])
def test_sends_that_do_not_fit(proto, fits):
    check_msccl(early_sends(fits, proto))
    full = early_sends(fits + 1, proto)
    assert f"gpu 0 tb 0 step {fits} (s)" in refused(full)
    check_msccl(full, slots=16)
    Machine(full, fits + 1).run()
    with pytest.raises(Stuck):
        Machine(full, fits).run()


EXPORTED = [
    to_msccl(schedule, proto="LL", shared=shared)
    for shared in (None, True)
    for schedule in (
        build("ring", "all-reduce", 3, 6, pieces=2),
        direct_all_reduce(4, 1),
        all_to_all([[1] * 3] * 3),
        build("recursive", "all-reduce", 4, 8, pieces=2),
        build("bruck", "all-to-all", 4, 4),
    )
] + [fused_ring(4, "LL"), exchange().replace("Simple", "LL")]


def finishes(text, fits, seed, together=1):
    machine = Machine(text, fits, seed, together)
    for memory in machine.memory:
        for chunks in memory.values():
            chunks[:] = [0] * len(chunks)
    try:
        machine.run()
    except Stuck:
        return False
    return True


@pytest.mark.slow
@settings(max_examples=80)
@given(st.data())
def test_circles_are_found_exactly(data):
    """Steps that changed places: refused if and only if no order of the blocks ever ends."""
    algorithm = read_algorithm(data.draw(st.sampled_from(EXPORTED)))
    steps = algorithm.steps.copy()
    for _ in range(data.draw(st.integers(1, 3))):
        row = data.draw(st.integers(0, len(steps) - 2))
        if steps["block"][row] == steps["block"][row + 1] and NOP not in steps["type"][row : row + 2]:
            what = ["type", "srcbuf", "srcoff", "dstbuf", "dstoff", "cnt"]

            for key in what:
                steps[key][[row, row + 1]] = steps[key][[row + 1, row]]
    changed = replace(algorithm, steps=steps)
    fits = data.draw(st.integers(1, 3))
    try:
        check_algorithm(changed, fits)
        deadlock = False
    except InputError as error:
        if "cnt" in str(error):
            return
        deadlock = str(error).startswith("deadlock")
    text, seed = write_algorithm(changed), data.draw(st.integers(0, 99))
    assert finishes(text, fits, seed) == (not deadlock)
    together = data.draw(st.integers(2, 4))
    stuck = bool(find_circle(changed, fits, together))
    assert finishes(text, fits, seed, together) == (not stuck)


def big_sends(sends, count, chunks, proto="Simple", more=""):
    """Two GPUs that both send some steps of `count` chunks before they receive any."""
    gpus = []
    for g in range(2):
        steps = [("s", ("i", n * count), ("o", n * count), {"cnt": count}) for n in range(sends)]
        steps += [("r", ("i", n * count), ("o", n * count), {"cnt": count}) for n in range(sends)]
        gpus.append(((chunks, chunks, 0), [block(0, 1 - g, 1 - g, steps)]))
    return algo("custom", gpus, chunks, 0, proto, more=more)


@pytest.mark.parametrize(
    ("proto", "sends", "count", "most"),
    [
        # As many messages a step as two (or eight) slots take; a chunk is a share of what a message holds.
        ("Simple", 1, 2, None),
        ("Simple", 1, 3, 64 * (2097152 // 2)),
        ("Simple", 2, 32, 64 * (2097152 // 32)),
        ("LL", 1, 8, None),
        ("LL", 2, 32, 64 * (32768 // 8)),
        ("LL128", 1, 64, 64 * (576000 // 8)),
        ("Simple", 3, 1, 0),
    ],
)
def test_the_largest_array(proto, sends, count, most):
    """By hand: with n chunks a message, ceil(count / n) messages a step; all sends must fit the buffer."""
    limit = f'maxBytes="{most}"' if most else 'maxBytes="0"'
    text = big_sends(sends, count, 64, proto, limit)
    if most == 0:
        assert "deadlock with" in refused(text)
        return
    assert check_msccl(text) == most
    assert from_msccl(text).msccl.most_bytes == most
    if most:
        above = refused(text.replace(limit, f'maxBytes="{most + 1}"'))
        assert f"above {most} bytes of the 0 to {most + 1} that it is for" in above
        assert above.endswith(f"allowed: no such circle, or maxBytes to {most}")
        assert "any size" in refused(text.replace(limit, 'maxBytes="0"'))
        # Where no largest size is said, the size is only reported.
        assert check_msccl(text.replace(limit, "")) == most
        beyond = refused(text.replace(limit, f'minBytes="{most + 1}"'))
        assert f"above {most} bytes of the {most + 1} and more that it is for" in beyond
        beyond = f'minBytes="{most + 1}" maxBytes="{most + 9}"'
        assert refused(text.replace(limit, beyond)).endswith("allowed: no such circle")


def test_no_limit_of_size():
    """A `maxBytes` of 0, above which no `minBytes` is refused."""
    text = exchange().replace('minBytes="0" maxBytes="134217728"', 'minBytes="393216" maxBytes="0"')
    assert check_msccl(text) is None
    assert read_algorithm(text).max_bytes is None
    assert read_algorithm(write_algorithm(read_algorithm(text))).max_bytes is None


@st.composite
def counted(draw):
    """Blocks of two or three GPUs with random sends and receives of several chunks, matched in number."""
    ranks = draw(st.integers(2, 3))
    blocks, counts = {}, {}
    for _ in range(draw(st.integers(2, 7))):
        src = draw(st.integers(0, ranks - 1))
        dst = (src + draw(st.integers(1, ranks - 1))) % ranks
        count = counts.setdefault((src, dst), draw(st.integers(1, 7)))
        for rank, kind in ((src, "s"), (dst, "r")):
            own = blocks.setdefault((rank, min(src, dst), max(src, dst)), [])
            latest = len(own) // 3 if kind == "s" else len(own)
            own.insert(draw(st.integers(0, latest)), (kind, ("i", 0), ("o", 0), {"cnt": count}))
    gpus = [
        ((8, 8, 0), [(max(pair) if rank == min(pair) else min(pair), steps)
                     for (rank, *pair), steps in sorted(blocks.items()) if rank == r])
        for r in range(ranks)
    ]  # fmt: skip
    gpus = [
        (sizes, [block(n, peer, peer, steps) for n, (peer, steps) in enumerate(result)])
        for sizes, result in gpus
    ]
    return algo("custom", gpus, 8, proto=draw(st.sampled_from(["Simple", "LL"])), more='maxBytes="{}"')


@pytest.mark.slow
@settings(max_examples=100)
@given(counted(), st.integers(1, 4), st.integers(0, 40), st.integers(0, 99))
def test_whether_an_array_of_a_size_gets_stuck(text, fits, power, seed):
    """The interpreter, with the runtime's number of chunks a message, gets stuck above the size."""
    algorithm = read_algorithm(text.replace("{}", "0"))
    simple = algorithm.proto == "Simple"
    most = runs_up_to(algorithm, fits * (4 if simple else 1))
    assert most is None or most >= 0
    sizes = {1 << power} | ({most, most + 1} if most else set())
    for size in sizes:
        holds, chunk = 4 * (4 << 20) // 8 if simple else (512 << 10) // 8 // 2, -(-size // 8)
        together = min(71, max(1, holds // chunk))
        assert finishes(text, fits, seed, together) == (most is None or size <= most)


@pytest.mark.slow
@settings(max_examples=80)
@given(st.data())
def test_without_a_wait_it_is_refused_or_needs_none(data):
    text = data.draw(st.sampled_from(EXPORTED))
    algorithm = read_algorithm(text)
    steps = algorithm.steps.copy()
    waits = [
        r
        for r in range(len(steps))
        if steps["depid"][r] >= 0 and NOP not in steps["type"][max(0, r - 1) : r + 1]
    ]
    if not waits:
        return
    row = data.draw(st.sampled_from(waits))
    steps["depid"][row] = steps["deps"][row] = -1
    changed = write_algorithm(replace(algorithm, steps=steps))
    message = error_of(check_msccl, changed)
    if message:
        assert "touch the same chunk in any order" in message
        return
    schedule = from_msccl(text)
    ends = []
    for seed in (data.draw(st.integers(0, 999)), 1):
        machine = Machine(changed, 1 + seed % 3, seed)
        letters = {"send": "i", "recv": "o", "data": "i"}
        for (rank, buffer, chunk), (item, _) in schedule.pre.items():
            machine.memory[rank][letters[schedule.buffers[buffer]]][chunk] = numbers(rank, item)
        machine.run()
        ends.append([memory["o"] or memory["i"] for memory in machine.memory])
    assert ends[0] == ends[1]


def test_a_missing_wait_is_a_race():
    text = to_msccl(ring_all_reduce(3, 6))
    assert 'depid="1" deps="0"' in text
    message = refused(text.replace('depid="1" deps="0"', 'depid="-1" deps="-1"', 1))
    assert message.endswith("touch the same chunk in any order; allowed: one after the other")


@settings(max_examples=80)
@given(st.data())
def test_damaged_files_are_refused_in_one_line(data):
    text = data.draw(st.sampled_from([exchange(), out_of_place(), fused_ring(3)]))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        upto = data.draw(st.integers(at, min(len(text), at + 12)))
        put = data.draw(
            st.one_of(st.text(max_size=4), st.sampled_from(['"', "<", "&", "-1", "99", "4294967296", "gpu"]))
        )
        text = text[:at] + put + text[upto:]
    for read in (check_msccl, from_msccl):
        assert "\n" not in error_of(read, text)
