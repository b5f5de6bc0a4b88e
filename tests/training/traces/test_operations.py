"""FLOPs and bytes of tasks are those of the layers that they are named after, however those are joined."""

import pytest
from strategy_models import AffineTimes, chain

from wavefabric.training.gpu.device_model import DEVICES
from wavefabric.training.gpu.precision import PRECISIONS
from wavefabric.training.iteration.simulate import simulate
from wavefabric.training.iteration.workload import Workload
from wavefabric.training.strategies.strategy import uniform
from wavefabric.training.traces.chakra import read_chakra, write_chakra
from wavefabric.training.traces.order import gpus_of_workers, worker_names


def iteration(merge=True, **options):
    model = chain("none", "column", "row", "none")
    strategy = uniform(model, 4, **options)
    workload = Workload(model, strategy, DEVICES["a100"], PRECISIONS["bf16"])
    return simulate(workload, AffineTimes(), merge=merge)


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("recompute", [True, False])
def test_flops_of_all_tasks_are_those_of_the_model(merge, recompute):
    result = iteration(merge, data=2, pipeline=2, recompute=recompute)
    model, strategy = result.workload.model, result.workload.strategy
    total = {kind: 0.0 for kind in result.graph.kind}
    for kind, (flops, _) in zip(result.graph.kind, result.graph.operations, strict=True):
        total[kind] += flops
    # A stage's GPUs share the samples of a batch; a task is what one of them does.
    forward = sum(layer.flops for layer in model.layers) * strategy.batch / 2
    backward = sum(layer.flops * layer.backward for layer in model.layers) * strategy.batch / 2
    assert total["forward"] == pytest.approx(forward, rel=1e-12)
    assert total["call"] == 0
    assert total["backward"] == pytest.approx(backward + recompute * forward, rel=1e-12)


def test_operations_of_every_task_are_found():
    for options in ({}, {"tensor": 2}, {"tensor": 2, "zero": 3}, {"pipeline": 2, "bucket": 1e9}):
        result = iteration(**options)
        for call, (_, nbytes) in zip(result.graph.call, result.graph.operations, strict=True):
            assert (nbytes > 0) == (call is None), options


def test_a_roofline_of_a_written_trace_is_that_of_the_model(tmp_path):
    result = iteration(False)
    paths = write_chakra(tmp_path / "x", result)
    node = next(message for message in _messages(paths[0]) if message[0].name == "l0")
    flops, nbytes = node[1]["num_ops"], node[1]["tensor_size"]
    seconds = DEVICES["a100"].seconds("matmul", flops, nbytes, PRECISIONS["bf16"].arithmetic)
    assert seconds == pytest.approx(node[1]["duration_seconds"], rel=1e-9)
    assert read_chakra(paths).seconds == result.graph.seconds


def _messages(path):
    from wavefabric.training.traces.chakra.messages import decoded

    return list(decoded(path.read_bytes(), str(path)))[1:]


def test_gpus_are_those_of_the_stages():
    result = iteration(data=2, pipeline=2)
    assert gpus_of_workers(result.graph, result.workload) == [(0, 1), (2, 3)]
    assert worker_names(result) == ["stage 0, GPUs 0,1", "stage 1, GPUs 2,3"]
    assert worker_names(iteration()) == ["GPUs 0-3"]
