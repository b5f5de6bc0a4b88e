"""Chakra traces of the kinds that are public: archives, JSON, early and damaged ones: loaded or refused."""

import gzip
import json
import shutil

import pytest
from chakra_bytes import COLL, COMP, REDUCE, file_of, integer, node, saved, text, varint
from random_graphs import Wire

from wavefabric.base.errors import InputError
from wavefabric.training.iteration.engine import run
from wavefabric.training.traces.chakra import read_chakra
from wavefabric.training.traces.chakra.messages import COMM_TYPES

NODES = [node(1, "a", COMP, micros=3), node(2, "sum", COLL, [1], **REDUCE)]
FILE = file_of(*NODES)


def seconds(graph):
    return run(graph, Wire()).seconds


def plain(folder):
    return seconds(read_chakra(saved(folder, FILE, FILE)))


def archive(folder, kind, files):
    for name, content in files.items():
        (folder / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "in" / name).write_bytes(content)
    return shutil.make_archive(str(folder / "t"), kind, folder / "in")


@pytest.mark.parametrize("kind", ["zip", "tar", "gztar"])
def test_an_archive_holds_what_its_files_do(tmp_path, kind):
    files = {"w.0.et": FILE, "run/w.1.et.gz": gzip.compress(FILE), "__MACOSX/._w.0.et": b"x", "a.txt": b"x"}
    graph = read_chakra(archive(tmp_path, kind, files))
    assert (seconds(graph), graph.gpus) == (plain(tmp_path), [(0, 1)])


def test_groups_come_with_the_archive(tmp_path):
    one, groups = file_of(node(1, "sum", COLL, **REDUCE, pg_name="7")), json.dumps({"7": [0, 1]}).encode()
    graph = read_chakra(archive(tmp_path, "zip", {"a0.et": one, "a1.et": one, "comm_group.json": groups}))
    assert graph.call[0].groups == ((0, 1),)


def refused(files):
    with pytest.raises(InputError) as error:
        read_chakra(files)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_is_no_trace(tmp_path):
    cases = {"has no traces": ["a.txt"], "one file for": ["a0.et", "b0.et"], "NAME.RANK": ["a.et", "b.et"]}
    for number, (words, names) in enumerate(cases.items()):
        assert words in refused(archive(tmp_path / str(number), "zip", dict.fromkeys(names, FILE)))
    cases = {'{"nodes": []}': "of PyTorch, without times of its GPU", '{"attr": []}{"id": 1': "is not JSON"}
    for written, words in (cases | {'{"version": "1"} {"type": "WRONG_NODE"}': "WRONG"}).items():
        (tmp_path / "j.0.json").write_text(written)
        assert words in refused(tmp_path / "j.0.json")
        (tmp_path / "broken.tgz").write_text(written)
        assert "broken.tgz" in refused(tmp_path / "broken.tgz")


def test_json_of_both_kinds_is_what_the_file_is(tmp_path):
    """MLCommons Chakra: src/jsonizer, objects in the names of protobuf's JSON; src/feeder/json_node.cpp."""
    sizes = [{"name": "comm_type", "int64Val": "0"}, {"name": "comm_size", "int64Val": str(1 << 20)}]
    computed = {"id": "1", "name": "a", "type": "COMP_NODE", "durationMicros": "3"}
    summed = {"id": "2", "name": "s", "type": "COMM_COLL_NODE", "dataDeps": ["1"], "attr": sizes}
    jsonizer = "".join(json.dumps(part, indent=2) for part in ({"version": "0.0.4"}, computed, summed))
    nodes = [{"Id": 1, "Name": "a", "NodeType": 4, "runtime": 3, "data_deps": [], "is_cpu_op": False}]
    nodes += [{"Id": 2, "Name": "s", "NodeType": 7, "data_deps": [1], "comm_type": 0, "comm_size": 1 << 20}]
    for written in (jsonizer, json.dumps({"workload_graph": nodes})):
        for rank in range(2):
            (tmp_path / f"j.{rank}.json").write_text(written)
        assert seconds(read_chakra(tmp_path / "j")) == plain(tmp_path)


def test_early_schemas(tmp_path):
    """Files of early converters begin with a node; attributes of schemas before 0.0.4 are not read."""
    bare = b"".join(varint(len(body)) + body for body in NODES)
    assert seconds(read_chakra(saved(tmp_path, bare, bare))) == plain(tmp_path)
    old = node(1, "a", COMP) + text(11, text(1, "num_ops") + integer(2, 2) + integer(6, 5))
    assert "before 0.0.4; allowed: traces of schema 0.0.4 or later" in refused(saved(tmp_path, file_of(old)))


def test_dependencies_that_cannot_be_kept(tmp_path):
    """Nodes that are not there; circles by control dependencies, which name callers in PyTorch's traces."""
    caller, called = node(1, "caller", COMP, [2], 1), node(2, "called", COMP, [], 2) + integer(4, 1)
    alone = node(1, "a", COMP, [5], 3)
    for words, nodes in (("node 1 for 5", [alone]), ("wait in a circle; without", [caller, called])):
        with pytest.warns(UserWarning, match=words):
            assert seconds(read_chakra(saved(tmp_path, file_of(*nodes)))) == pytest.approx(3e-6)


def test_all_collectives_by_number_and_name(tmp_path):
    like = {1: "reduce-scatter", 3: "all-gather", 4: "reduce-scatter", 5: "all-gather", 9: "all-reduce"}
    for number, collective in like.items():
        for named in (number, COMM_TYPES[number], COMM_TYPES[number].lower().replace("_", "")):
            one = file_of(node(1, "c", COLL, comm_type=named, comm_size=8))
            call = read_chakra(saved(tmp_path, one, one)).call[0]
            assert (call.collective, call.bytes) == (collective, 16 if number == 3 else 8)


def test_what_launches_a_collective_computes_on_the_cpu(tmp_path):
    one = file_of(node(1, "c10d::sum", COLL, micros=4, is_cpu_op=True), node(2, "nccl", COLL, [1], **REDUCE))
    graph = read_chakra(saved(tmp_path, one, one))
    assert (graph.workers, graph.kind.count("call"), graph.gpus) == (2, 1, [(0, 1), ()])
