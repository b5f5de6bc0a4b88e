"""Perfetto traces: events at the right times, in threads where none overlap, with what they are."""

import json
from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import Wire, graphs

from wavefabric.base.errors import InputError
from wavefabric.fabric.draw.timeline import lanes
from wavefabric.training.iteration.simulate import simulate_tasks
from wavefabric.training.iteration.task_graph import Call, TaskGraph
from wavefabric.training.traces.order import ranges
from wavefabric.training.traces.perfetto import write_perfetto


@pytest.fixture
def chain():
    """10 µs on worker 0, an all-reduce of 1000 B (6 µs with `Wire`), 20 µs on worker 1."""
    graph = TaskGraph(2, program=[[0], [2]])
    first = graph.compute("forward", "a", 0, 10e-6, [], 3)
    call = Call("all-reduce", ((0, 1, 2, 3), (4, 5, 6, 7)), 1000.0, "tensor")
    between = graph.communicate("sum", call, (0, 1), [first], 3)
    graph.compute("backward", "b", 1, 20e-6, [between], -1)
    return simulate_tasks(graph, Wire())


def events(path):
    return json.loads(path.read_text("utf-8"))["traceEvents"]


def test_times_and_arguments(chain, tmp_path):
    path = write_perfetto(tmp_path / "x.json", chain)
    content = json.loads(path.read_text("utf-8"))
    assert content["otherData"]["iteration_us"] == pytest.approx(36)
    assert content["otherData"]["exposed_us"] == pytest.approx(6)
    names = {(e["pid"], e["tid"], e["name"]): e["args"] for e in events(path) if e["ph"] == "M"}
    processes = {pid: args["name"] for (pid, _, name), args in names.items() if name == "process_name"}
    threads = {(p, t): args["name"] for (p, t, name), args in names.items() if name == "thread_name"}
    result = {
        (processes[e["pid"]], threads[e["pid"], e["tid"]], e["name"]): e
        for e in events(path)
        if e["ph"] == "X"
    }
    assert {key: (round(e["ts"], 9), round(e["dur"], 9)) for key, e in result.items()} == {
        ("worker 0", "compute", "a"): (0, 10),
        ("worker 0", "calls", "sum"): (10, 6),
        ("worker 1", "calls", "sum"): (10, 6),
        ("fabric", "tensor", "sum"): (10, 6),
        ("worker 1", "compute", "b"): (16, 20),
    }
    assert result["worker 0", "compute", "a"]["args"] == {"task": 0, "microbatch": 3}
    assert result["worker 1", "compute", "b"]["args"] == {"task": 2}
    assert result["fabric", "tensor", "sum"]["args"] == {
        "task": 1,
        "microbatch": 3,
        "collective": "all-reduce",
        "purpose": "tensor",
        "bytes": 1000.0,
        "groups": ["0-3", "4-7"],
    }


def test_arrows_lead_from_what_let_a_task_begin(chain, tmp_path):
    arrows = [e for e in events(write_perfetto(tmp_path / "x.json", chain)) if e["ph"] in "sf"]
    assert [(e["ph"], e["id"], round(e["ts"], 9)) for e in arrows] == [
        ("s", 1, 5),
        ("f", 1, 10),
        ("s", 2, 13),
        ("f", 2, 16),
    ]


@given(graphs())
@settings(max_examples=15)
def test_all_tasks_are_there_and_none_overlap_in_a_thread(tmp_path_factory, drawn):
    graph, _ = drawn
    iteration = simulate_tasks(graph, Wire())
    path = write_perfetto(tmp_path_factory.mktemp("random") / "x.json", iteration)
    threads, seen = defaultdict(list), defaultdict(int)
    for event in events(path):
        if event["ph"] == "X":
            task = event["args"]["task"]
            seen[task] += 1
            threads[event["pid"], event["tid"]].append(
                (iteration.timeline.begin[task], iteration.timeline.end[task])
            )
    # A call is shown by the fabric and by each worker in it.
    assert dict(seen) == {task: 1 + len(ports) for task, ports in enumerate(graph.ports)}
    for spans in threads.values():
        assert all(one[1] <= other[0] for one, other in pairwise(sorted(spans)))


def test_messages_are_told_up_to_a_number(tmp_path):
    sent = tuple((0, gpu, 2.0) for gpu in range(1, 20))
    graph = TaskGraph(1, program=[[]])
    graph.communicate("m", Call("messages", (tuple(range(20)),), 8.0, "layer-to-layer", sent), (0,), [], -1)
    (event, _) = [
        e
        for e in events(write_perfetto(tmp_path / "x.json", simulate_tasks(graph, Wire())))
        if e["ph"] == "X"
    ]
    assert event["args"]["bytes"] == 19 * 16
    assert event["args"]["messages"][0] == "0 to 1: 16 B"
    assert event["args"]["messages"][16:] == ["and 3 more"]


def test_files(chain, tmp_path):
    path = write_perfetto(tmp_path / "x.json", chain)
    with pytest.raises(InputError, match=r"output: .* exists; allowed: another name, or --force"):
        write_perfetto(path, chain)
    assert write_perfetto(path, chain, force=True) == path
    with pytest.raises(InputError, match=r"allowed: names that end in \.json"):
        write_perfetto(tmp_path / "x.txt", chain)


@given(st.lists(st.integers(0, 40), max_size=12))
def test_numbers_in_few_words_are_all_there(numbers):
    words, result = ranges(numbers), []
    for part in words.split(",") if words else []:
        ends, _, step = part.partition(" by ")
        first, _, last = ends.partition("-")
        result += range(int(first), int(last or first) + 1, int(step or 1))
    assert result == numbers


def test_lanes_are_as_few_as_can_be():
    import numpy as np

    assert lanes(np.array([0.0, 1.0, 1.5, 2.0]), np.array([2.0, 1.5, 3.0, 4.0])) == [0, 1, 1, 0]
