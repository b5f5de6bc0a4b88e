"""A trace is read only if the files of all its GPUs are there."""

import pytest

from wavefabric.base.errors import InputError
from wavefabric.training.iteration.task_graph import Call, TaskGraph
from wavefabric.training.traces.chakra import read_chakra, write_chakra


@pytest.fixture
def trace(tmp_path):
    graph = TaskGraph(1)
    graph.program.append([graph.compute("forward", "a", 0, 1e-3, [], -1)])
    graph.communicate("b", Call("all-reduce", ((0, 1, 2),), 8.0, "gradients"), (0,), [0], -1)
    return write_chakra(tmp_path / "t", graph, gpus=[(0, 1, 2)])


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_the_missing_rank_is_named(trace, lost):
    trace[lost].unlink()
    with pytest.raises(InputError, match=f"no file of rank {lost}; allowed: .* ranks 0 to 2"):
        read_chakra(trace[0].parent / "t")


def test_one_file_of_a_high_rank_is_no_trace(tmp_path):
    alone = tmp_path / "t.9999999.et"
    alone.write_bytes(b"\x00")
    with pytest.raises(InputError, match=r"no file of ranks 0, 1, 2, 3, 4, 5, 6, 7, …; allowed: .* 9999999"):
        read_chakra(tmp_path / "t")


def test_zeros_are_refused_at_the_first_empty_message(tmp_path):
    (tmp_path / "t.0.et").write_bytes(bytes(1 << 20))
    with pytest.raises(InputError, match="holds an empty message at byte 1; allowed: a Chakra"):
        read_chakra(tmp_path / "t")
