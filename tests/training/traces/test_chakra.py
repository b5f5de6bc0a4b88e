"""Chakra traces: what is written is read back, in the bytes of the schema; bad files, one line each."""

import json
import sys

import pytest
from chakra_bytes import COLL, COMP, RECV, REDUCE, SEND, file_of, node, saved, text, varint
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import Wire, graphs

from wavefabric.base.errors import InputError, MissingExtra
from wavefabric.fabric import load
from wavefabric.training.communication.times import Communication
from wavefabric.training.gpu.device_model import DEVICES
from wavefabric.training.iteration.engine import run
from wavefabric.training.iteration.simulate import simulate_tasks
from wavefabric.training.iteration.task_graph import Call, TaskGraph
from wavefabric.training.traces.chakra import messages, read_chakra, write_chakra


def test_a_trace_made_by_hand(tmp_path):
    nodes = (
        node(7, "first", COMP, micros=5),
        node(3, "sum", COLL, [7], is_cpu_op=False, **REDUCE),
        node(9, "second_BWD", COMP, [3], micros=300),
    )
    graph = read_chakra(saved(tmp_path, *[file_of(*nodes)] * 4))
    assert graph.kind == ["forward", "call", "backward"]
    assert graph.seconds == pytest.approx([5e-6, 0, 300e-6], rel=1e-12)
    assert graph.waits == [[], [0], [1]]
    assert graph.program == [[0, 2]]
    assert graph.call[1] == Call("all-reduce", ((0, 1, 2, 3),), 1 << 20, "tensor")
    # 300 µs, 5 µs, and the call: 5 µs and 1 MiB at 1 GB/s.
    assert simulate_tasks(graph, Wire()).seconds == pytest.approx(305e-6 + 5e-6 + (1 << 20) * 1e-9, rel=1e-12)


def test_bytes_that_are_written_are_those_of_the_schema(tmp_path):
    graph = TaskGraph(1, program=[[0]])
    first = graph.compute("forward", "a", 0, 2.5e-6, [], -1)
    graph.communicate("sum", Call("all-gather", ((0, 1),), 600.0, "parameters"), (0,), [first], -1)
    content = write_chakra(tmp_path / "x", graph)[1].read_bytes()
    compute = node(1, "a", COMP, micros=2, is_cpu_op=False, task=0, duration_seconds=2.5e-6, kind="forward")
    call = node(2, "sum", COLL, [1], is_cpu_op=False, task=1, comm_type=2, comm_size=300, pg_name="0",
                purpose="parameters", call_bytes=600.0)  # fmt: skip
    assert content.endswith(b"".join(varint(len(body)) + body for body in (compute, call)))
    assert content.startswith(varint(content[0]) + text(1, "0.0.4"))


# --- There and back -------------------------------------------------------------------------------------


def assert_same(one, other):
    for key in ("kind", "name", "seconds", "worker", "call", "ports", "microbatch", "program"):
        assert getattr(one, key) == getattr(other, key), key


@pytest.mark.slow
@given(graphs())
@settings(max_examples=25)
def test_random_tasks_come_back(tmp_path_factory, drawn):
    graph, gpus = drawn
    prefix = tmp_path_factory.mktemp("random") / "x"
    paths = write_chakra(prefix, graph, gpus=gpus)
    assert len(paths) == sum(map(len, gpus))
    back = read_chakra(prefix)
    assert_same(graph, back)
    assert (run(graph, Wire()).end == run(back, Wire()).end).all()


def pipeline(parts=3):
    """Two stages of two GPUs: forward and backward of microbatches, then the sum of gradients."""
    graph = TaskGraph(2, program=[[], []])
    ahead = Call("messages", ((0, 1, 2, 3),), 1.0, "layer-to-layer", ((0, 2, 3e5), (1, 3, 3e5)))
    back = Call("messages", ((0, 1, 2, 3),), 1.0, "layer-to-layer", ((2, 0, 3e5), (3, 1, 3e5)))
    sent = {}
    for part in range(parts):
        graph.program[0].append(graph.compute("forward", f"in {part}", 0, 100e-6, [], part))
        sent[part] = graph.communicate(f"ahead {part}", ahead, (0, 1), graph.program[0][-1:], part)
    returned = {}
    for part in range(parts):
        graph.program[1].append(graph.compute("forward", f"out {part}", 1, 120e-6, [sent[part]], part))
        graph.program[1].append(graph.compute("backward", f"out {part} backward", 1, 250e-6, [], part))
        returned[part] = graph.communicate(f"back {part}", back, (0, 1), graph.program[1][-1:], part)
    for part in range(parts):
        task = graph.compute("backward", f"in {part} backward", 0, 210e-6, [returned[part]], part)
        graph.program[0].append(task)
    for stage, groups in ((0, ((0, 1),)), (1, ((2, 3),))):
        graph.communicate(
            "sum", Call("all-reduce", groups, 4e6, "gradients"), (stage,), graph.program[stage][-1:], -1
        )
    return graph


OWN = ("task", "worker", "duration_seconds", "kind", "purpose", "call_bytes", "message", "message_size")


def stripped(path):
    """Leave what other programs know."""
    kinds, out = messages.schema(), b""
    for number, (message, _) in enumerate(messages.decoded(path.read_bytes(), str(path))):
        kept = [each for each in message.attr if each.name not in (*OWN, "microbatch")]
        plain = (kinds.node if number else kinds.metadata)()
        plain.CopyFrom(message)
        del plain.attr[:]
        plain.attr.extend(kept)
        out += messages.with_length(plain)
    path.write_bytes(out)


def test_without_attributes_of_our_own_times_are_the_same(tmp_path):
    graph = pipeline()
    wire = Wire()
    want = run(graph, wire).seconds
    for path in write_chakra(tmp_path / "x", graph):
        stripped(path)
    back = read_chakra(tmp_path / "x")
    assert back.workers == 2
    assert len(back) == len(graph)
    assert sorted(len(c.messages) for c in back.call if c) == [0, 0, 2, 2, 2, 2, 2, 2]
    assert run(back, wire).seconds == pytest.approx(want, rel=1e-12)
    purposes = {c.collective: c.purpose for c in back.call if c}
    assert purposes == {"messages": "layer-to-layer", "all-reduce": "gradients"}


def test_on_an_ideal_switch_the_same_time(tmp_path):
    graph = pipeline()
    fabric = Communication(load("switch:4"), "ring")
    want = simulate_tasks(graph, fabric)
    write_chakra(tmp_path / "x", want)
    assert simulate_tasks(read_chakra(tmp_path / "x"), fabric).seconds == want.seconds > 0


def test_what_a_call_of_other_gpus_waits_for_is_kept(tmp_path):
    # GPU 1 takes no part in the message between 0 and 2: its sum waits for what that waits for.
    graph = TaskGraph(1, program=[[0]])
    first = graph.compute("forward", "a", 0, 1e-3, [], -1)
    sent = graph.communicate(
        "m", Call("messages", ((0, 2),), 8.0, "layer-to-layer", ((0, 2, 1.0),)), (0,), [first], -1
    )
    graph.communicate("sum", Call("all-reduce", ((0, 1, 2),), 8.0, "gradients"), (0,), [sent], -1)
    paths = write_chakra(tmp_path / "x", graph)
    other = [message for message, _ in messages.decoded(paths[1].read_bytes(), "x")]
    assert [n.name for n in other[2:]] == ["a", "sum"]
    assert list(other[3].data_deps) == [other[2].id]
    assert_same(graph, read_chakra(tmp_path / "x"))


# --- What others write ----------------------------------------------------------------------------------


def test_operations_without_duration_take_a_devices_time(tmp_path):
    paths = saved(tmp_path, file_of(node(1, "a", COMP, num_ops=10**12, tensor_size=10**6)))
    with pytest.raises(
        InputError, match=r"x\.0\.et: node 1 has operations and no duration; allowed: durations"
    ):
        read_chakra(paths)
    graph = read_chakra(paths, DEVICES["a100"])
    assert graph.seconds == [DEVICES["a100"].seconds("matmul", 1e12, 1e6, "bf16")]


def test_groups_are_told_or_guessed(tmp_path):
    def member(name, said=""):
        return file_of(node(5, "groups", 1, said=said), node(1, "sum", COLL, [5], pg_name=name, **REDUCE))

    files = [member("7"), member("7"), member("9"), member("9")]
    graph = read_chakra(saved(tmp_path, *files))
    assert [call.groups for call in graph.call] == [((0, 1), (2, 3))]  # GPUs that do the same: one worker
    told = "['" + json.dumps([{"pg_name": "7", "ranks": [1, 0]}, {"pg_name": "9", "ranks": [2, 3]}]) + "']"
    graph = read_chakra(saved(tmp_path, *[member(name, told) for name in "7799"]))
    assert [call.groups for call in graph.call] == [((1, 0), (2, 3))]
    (tmp_path / "groups.json").write_text('{"7": [0, 1], "9": [2, 3, 4]}')
    with pytest.raises(InputError, match='group "9" has GPU 4, of which there is no file'):
        read_chakra(saved(tmp_path, *files), groups=tmp_path / "groups.json")
    (tmp_path / "groups.json").write_text("[1]")
    with pytest.raises(InputError, match=r"groups: .* is none; allowed: JSON such as"):
        read_chakra(saved(tmp_path, *files), groups=tmp_path / "groups.json")


def test_a_ring_of_messages_is_one_call_a_step(tmp_path):
    def member(rank):
        to, by = (rank + 1) % 3, (rank - 1) % 3
        steps = []
        for step in range(2):
            after = [10 * step - 9] if step else []
            steps.append(node(10 * step, "s", SEND, after, comm_dst=to, comm_size=64, comm_tag=0))
            steps.append(node(10 * step + 1, "r", RECV, [10 * step], comm_src=by, comm_size=64, comm_tag=0))
        return file_of(*steps)

    graph = read_chakra(saved(tmp_path, *map(member, range(3))))
    assert graph.workers == 1
    assert [set(call.messages) for call in graph.call] == [{(0, 1, 64), (1, 2, 64), (2, 0, 64)}] * 2
    assert graph.waits == [[], [0]]


def test_gpus_that_differ_are_workers_of_their_own(tmp_path):
    one = file_of(node(1, "a", COMP, micros=10), node(2, "sum", COLL, [1], **REDUCE))
    other = file_of(node(1, "a", COMP, micros=20), node(2, "sum", COLL, [1], **REDUCE))
    graph = read_chakra(saved(tmp_path, one, other))
    assert graph.workers == 2
    assert graph.ports[graph.kind.index("call")] == (0, 1)
    assert run(graph, Wire()).begin[graph.kind.index("call")] == 20 * 1e-6


def test_the_cpu_works_beside_the_gpu(tmp_path):
    nodes = (
        node(1, "host", COMP, micros=50, is_cpu_op=True),
        node(2, "kernel", COMP, micros=30, is_cpu_op=False),
        node(3, "wait", COMP, [2], micros=5, is_cpu_op=True),
    )
    graph = read_chakra(saved(tmp_path, file_of(*nodes)))
    assert graph.program == [[1], [0, 2]]
    assert run(graph, Wire()).seconds == pytest.approx(55e-6)


def test_an_order_of_the_file_that_deadlocks_is_not_kept(tmp_path):
    def member(rank):
        other = 1 - rank
        return file_of(
            node(1, "r", RECV, comm_src=other, comm_size=8, comm_tag=0),
            node(2, f"late {rank}", COMP, [1], micros=1),
            node(3, f"early {rank}", COMP, micros=1),
            node(4, "s", SEND, [3], comm_dst=other, comm_size=8, comm_tag=0),
        )

    graph = read_chakra(saved(tmp_path, member(0), member(1)))
    assert [[graph.name[task] for task in program] for program in graph.program] == [
        ["early 0", "late 0"],
        ["early 1", "late 1"],
    ]
    assert run(graph, Wire()).seconds > 7e-6


def test_collectives_of_one_gpu_are_nothing(tmp_path):
    graph = read_chakra(
        saved(tmp_path, file_of(node(1, "sum", COLL, **REDUCE), node(2, "a", COMP, [1], micros=1)))
    )
    assert graph.call == [None, None]
    assert run(graph, Wire()).seconds == 1e-6


# --- Bad input ------------------------------------------------------------------------------------------

A = node(1, "a", COMP, micros=1)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ([b""], r"x\.0\.et is empty"),
        ([file_of(A)[:-2]], r"x\.0\.et ends within a message of \d+ bytes at byte 8"),
        ([file_of(A) + b"\x80"], r"ends within a length at byte \d+"),
        ([file_of(A) + b"\xff" * 9], r"holds no length of a message at byte \d+"),
        ([file_of(A) + b"\x02\x0a\x7f"], r"holds something else at byte \d+"),
        ([file_of(node(1, "a", 8))], r"node 1 has type 8; allowed: 1 \(METADATA\), 2 "),
        ([file_of(node(1, "a", 0))], "node 1 has type 0"),
        ([file_of(A, A)], "node 1 is there twice"),
        ([file_of(node(1, "a", COMP, [2]), node(2, "b", COMP, [1]))], r"x\.0\.et: nodes wait in a circle"),
        ([file_of(node(1, "a", COMP, duration_seconds=float("nan")))], "duration_seconds nan; allowed"),
        ([file_of(node(1, "a", COLL, comm_size=8))], "node 1 has no comm_type"),
        ([file_of(node(1, "a", COLL, comm_type=12, comm_size=8))], "has comm_type 12; allowed: ALL_"),
        ([file_of(node(1, "a", COLL, comm_type=0))], "node 1 has no comm_size"),
        ([file_of(node(1, "a", SEND, comm_size=8))], "node 1 has no comm_dst"),
        ([file_of(node(1, "a", SEND, comm_src=4, comm_dst=1, comm_size=8))], "comm_src 4; allowed: 0, whose"),
        ([file_of(node(1, "s", SEND, comm_dst=1, comm_size=8, comm_tag=2)), file_of(A)],
         r'x\.0\.et: "s" is sent and never received; allowed: .* from 0 to 1 with tag 2'),
        ([file_of(A), file_of(node(1, "r", RECV, comm_src=0, comm_size=8))],
         r'x\.1\.et: "r" is received and never sent'),
        (
            [
                file_of(node(1, "s", SEND, comm_dst=1, comm_size=8)),
                file_of(node(1, "r", RECV, comm_src=0, comm_size=9)),
            ],
            r'x\.1\.et: "r" receives 9 B; allowed: 8 B, as .*x\.0\.et sends',
        ),
        ([file_of(node(1, "a", COLL, **REDUCE)), file_of(A)], r"x\.1\.et: 0 collectives of group"),
        (
            [
                file_of(node(1, "a", COLL, comm_type=0, comm_size=8)),
                file_of(node(1, "a", COLL, comm_type=2, comm_size=8)),
            ],
            r"x\.1\.et: all-gather of 8 B \(\"a\"\); allowed: all-reduce of 8 B",
        ),
        ([file_of(node(5, "g", 1, said="pg_name?"))], "node 5 has no process groups; allowed: JSON"),
    ],
)  # fmt: skip
def test_bad_files_in_one_line(tmp_path, files, words):
    with pytest.raises(InputError, match=words) as refused:
        read_chakra(saved(tmp_path, *files))
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith("trace: ")


def test_files_that_cannot_be(tmp_path):
    (path,) = saved(tmp_path, file_of(A))
    for files, words in (
        (tmp_path / "y", "allowed: NAME of files"),
        ([], "no files given"),
        ([tmp_path / "a.eg"], "allowed: files called NAME.RANK.et"),
        ([tmp_path / "x.3.et"], "No such file"),
        ([path, path], "one file for each GPU"),
    ):
        with pytest.raises(InputError, match=words):
            read_chakra(files)
    with pytest.raises(InputError, match="arithmetic: "):
        read_chakra([path], arithmetic="fp4")
    with pytest.raises(InputError, match="precision: fp8 given; allowed: fp32, tf32, bf16 on a100"):
        read_chakra([path], DEVICES["a100"], "fp8")
    assert len(read_chakra(path)) == 1


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Files of GPUs, made by hand and written: all of a trace."""
    by_hand = file_of(A, node(2, "sum", COLL, [1], **REDUCE), node(3, "g", 1, said="['[]']"))
    paths = write_chakra(tmp_path_factory.mktemp("sound") / "x", pipeline(1))
    return [by_hand, by_hand], [path.read_bytes() for path in paths]


@given(st.booleans(), st.floats(0, 1, exclude_max=True), st.integers(0, 255), st.booleans())
@settings(max_examples=100)
@pytest.mark.filterwarnings("ignore:.*nodes wait")
def test_damaged_files_are_refused_or_read(sound, tmp_path_factory, own, fraction, byte, cut):
    first, *others = sound[own]
    position = int(fraction * len(first))
    damaged = first[:position] + bytes([byte]) + (b"" if cut else first[position + 1 :])
    paths = saved(tmp_path_factory.mktemp("damaged"), damaged, *others)
    said = ""
    try:
        run(read_chakra(paths), Wire())
    except InputError as error:
        said = str(error)
    assert "\n" not in said


# --- Files ----------------------------------------------------------------------------------------------


def test_all_files_or_none(tmp_path):
    graph = pipeline(1)
    (tmp_path / "x.2.et").write_text("mine")
    with pytest.raises(InputError, match=r"x\.2\.et exists; allowed: another name, or --force"):
        write_chakra(tmp_path / "x", graph)
    assert [path.name for path in tmp_path.iterdir()] == ["x.2.et"]
    assert len(write_chakra(tmp_path / "x", graph, force=True)) == 4
    (tmp_path / "x.4.et").write_text("of another")
    with pytest.raises(InputError, match=r"x\.4\.et is of a trace of other GPUs"):
        write_chakra(tmp_path / "x", graph, force=True)
    with pytest.raises(InputError, match="cannot be written"):
        write_chakra(tmp_path / "no" / "x", graph)


def test_tasks_that_cannot_be_written(tmp_path):
    graph = TaskGraph(2, program=[[0], [1]])
    graph.compute("forward", "a", 0, 1.0, [], -1)
    graph.compute("forward", "b", 1, 1.0, [0], -1)
    with pytest.raises(InputError, match="tasks: b waits for a of other GPUs"):
        write_chakra(tmp_path / "x", graph)
    graph = TaskGraph(1, program=[[1, 0]])
    graph.compute("forward", "a", 0, 1.0, [], -1)
    graph.compute("forward", "b", 0, 1.0, [0], -1)
    with pytest.raises(InputError, match="never begins"):
        write_chakra(tmp_path / "x", graph)
    graph = pipeline(1)
    with pytest.raises(InputError, match="gpus: 2 GPUs of 1 workers given"):
        write_chakra(tmp_path / "x", graph, gpus=[(0, 1)])
    with pytest.raises(InputError, match="has GPU 2, not of its workers"):
        write_chakra(tmp_path / "x", graph, gpus=[(0, 1), (3, 4)])
    assert not list(tmp_path.iterdir())


def test_the_package_is_optional(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    messages.schema.cache_clear()
    try:
        with pytest.raises(MissingExtra, match=r"wavefabric\[chakra\]"):
            write_chakra(tmp_path / "x", pipeline(1))
    finally:
        messages.schema.cache_clear()
