"""Chakra traces of the kinds that are public: archives, JSON, early and damaged ones: loaded or refused."""

import gzip
import io
import json
import tarfile
import zipfile

import pytest
from random_graphs import Wire

from tests.training.traces.test_chakra import COLL, COMP, REDUCE, file_of, integer, node, saved, text, varint
from wavefabric.errors import InputError
from wavefabric.training.iteration.engine import run
from wavefabric.training.traces.chakra import read_chakra
from wavefabric.training.traces.chakra.messages import COMM_TYPES

FILE = file_of(node(1, "a", COMP, micros=3), node(2, "sum", COLL, [1], **REDUCE))


def seconds(graph):
    return run(graph, Wire()).seconds


def archive(path, files):
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as made:
            for name, content in files.items():
                made.writestr(name, content)
        return path
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w") as made:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            made.addfile(info, io.BytesIO(content))
    return path


@pytest.mark.parametrize("name", ["t.zip", "t.tar", "t.tar.gz", "t.tgz"])
def test_an_archive_holds_what_its_files_do(tmp_path, name):
    files = {f"run/w.{rank}.et": FILE for rank in range(2)}
    files["run/w.1.et.gz"] = gzip.compress(files.pop("run/w.1.et"))
    files |= {"__MACOSX/run/._w.0.et": b"x", "run/.DS_Store": b"x", "readme.txt": b"x"}
    graph = read_chakra(archive(tmp_path / name, files))
    plain = read_chakra(saved(tmp_path, FILE, FILE))
    assert (graph.name, graph.waits, seconds(graph)) == (plain.name, plain.waits, seconds(plain))
    assert graph.gpus == [(0, 1)]


def test_groups_come_with_the_archive(tmp_path):
    one = file_of(node(1, "sum", COLL, **REDUCE, pg_name="7"))
    groups = json.dumps({"7": [0, 1]}).encode()
    graph = read_chakra(archive(tmp_path / "t.zip", {"a0.et": one, "a1.et": one, "comm_group.json": groups}))
    assert graph.call[0].groups == ((0, 1),)


@pytest.mark.parametrize(("files", "words"), [
    ({"a.txt": b""}, "has no traces in it"),
    ({"a0.et": FILE, "b0.et": FILE}, "one file for each GPU"),
    ({"a.et": FILE, "b.et": FILE}, "files called NAME.RANK.et"),
])  # fmt: skip
def test_archives_that_cannot_be(tmp_path, files, words):
    with pytest.raises(InputError, match=words):
        read_chakra(archive(tmp_path / "t.zip", files))
    for damaged in ("broken.zip", "broken.tgz"):
        (tmp_path / damaged).write_bytes(b"no archive")
        with pytest.raises(InputError, match=damaged) as refused:
            read_chakra(tmp_path / damaged)
        assert "\n" not in str(refused.value)


def test_the_jsonizers_json_is_what_the_file_is(tmp_path):
    """MLCommons Chakra, src/jsonizer: objects one after the other, in the names of protobuf's JSON."""
    parts = [{"version": "0.0.4"}, {"id": "1", "name": "a", "type": "COMP_NODE", "durationMicros": "3"}]
    attributes = [{"name": "comm_type", "int64Val": "0"}, {"name": "comm_size", "int64Val": str(1 << 20)}]
    parts.append({"id": "2", "name": "sum", "type": "COMM_COLL_NODE", "dataDeps": ["1"], "attr": attributes})
    for rank in range(2):
        (tmp_path / f"j.{rank}.json").write_text("".join(json.dumps(part, indent=2) for part in parts))
    assert seconds(read_chakra(tmp_path / "j")) == seconds(read_chakra(saved(tmp_path, FILE, FILE)))


def test_the_feeders_json_is_what_the_file_is(tmp_path):
    """The same, src/feeder/json_node.cpp."""
    nodes = [{"Id": 1, "Name": "a", "NodeType": 4, "runtime": 3, "data_deps": [], "is_cpu_op": False}]
    nodes.append(
        {"Id": 2, "Name": "sum", "NodeType": 7, "data_deps": [1], "comm_type": 0, "comm_size": 1 << 20}
    )
    for rank in range(2):
        (tmp_path / f"j.{rank}.json").write_text(json.dumps({"workload_graph": nodes}))
    assert seconds(read_chakra(tmp_path / "j")) == seconds(read_chakra(saved(tmp_path, FILE, FILE)))


@pytest.mark.parametrize(("content", "words"), [
    ('{"schema": "1.0.2", "nodes": []}', "is an execution trace of PyTorch, without times of its GPU"),
    ('{"version": "0.0.4"} {"type": "WRONG_NODE"}', "WRONG_NODE|WRONG"),
    ('{"version": "0.0.4"} {"id": 1', "is not JSON"),
])  # fmt: skip
def test_json_that_is_no_trace(tmp_path, content, words):
    (tmp_path / "j.0.json").write_text(content)
    with pytest.raises(InputError, match=words) as refused:
        read_chakra(tmp_path / "j.0.json")
    assert "\n" not in str(refused.value)


def test_a_file_without_metadata(tmp_path):
    """As early converters wrote: the first message is a node."""
    bodies = [node(1, "a", COMP, micros=3), node(2, "sum", COLL, [1], **REDUCE)]
    bare = b"".join(varint(len(body)) + body for body in bodies)
    assert seconds(read_chakra(saved(tmp_path, bare, bare))) == seconds(
        read_chakra(saved(tmp_path, FILE, FILE))
    )


def test_schemas_before_0_0_4_are_named(tmp_path):
    old = node(1, "a", COMP) + text(11, text(1, "num_ops") + integer(2, 2) + integer(6, 5))
    with pytest.raises(InputError, match=r"before 0\.0\.4; allowed: traces of schema 0\.0\.4 or later"):
        read_chakra(saved(tmp_path, file_of(old)))


def test_nodes_that_are_not_there_are_not_waited_for(tmp_path):
    paths = saved(tmp_path, file_of(node(1, "a", COMP, [5], 3)))
    with pytest.warns(UserWarning, match=r"not there \(1 times, such as node 1 for 5\)"):
        assert seconds(read_chakra(paths)) == pytest.approx(3e-6)


def test_a_circle_through_callers_is_cut(tmp_path):
    """PyTorch's control dependencies name the caller, which may wait for what it calls."""
    caller, called = node(1, "caller", COMP, [2], 1), node(2, "called", COMP, [], 2) + integer(4, 1)
    with pytest.warns(UserWarning, match="wait in a circle; without their control dependencies"):
        assert seconds(read_chakra(saved(tmp_path, file_of(caller, called)))) == pytest.approx(3e-6)


@pytest.mark.parametrize(("number", "like", "size"), [
    (1, "reduce-scatter", 8), (3, "all-gather", 16), (4, "reduce-scatter", 8), (5, "all-gather", 8),
    (8, "reduce-scatter", 8), (9, "all-reduce", 8),
])  # fmt: skip
def test_all_collectives_by_number_and_name(tmp_path, number, like, size):
    for named in (number, COMM_TYPES[number], COMM_TYPES[number].lower().replace("_", "")):
        one = file_of(node(1, "c", COLL, comm_type=named, comm_size=8))
        call = read_chakra(saved(tmp_path, one, one)).call[0]
        assert (call.collective, call.bytes) == (like, size)


def test_what_launches_a_collective_computes_on_the_cpu(tmp_path):
    launch = node(1, "c10d::allreduce_", COLL, micros=4, is_cpu_op=True)
    one = file_of(launch, node(2, "nccl", COLL, [1], **REDUCE))
    graph = read_chakra(saved(tmp_path, one, one))
    assert (graph.workers, graph.kind.count("call"), graph.gpus) == (2, 1, [(0, 1), ()])
