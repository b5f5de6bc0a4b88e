"""Iterations against closed forms, and what must hold for every model, strategy, fabric and policy."""

from itertools import pairwise
from time import process_time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import PlainFabric, chain, layer, workload, workloads

from wavefabric.training.gpu.device_model import DEVICES
from wavefabric.training.gpu.precision import PRECISIONS
from wavefabric.training.iteration.engine import POLICIES, FreeCommunication
from wavefabric.training.iteration.simulate import simulate, simulate_tasks
from wavefabric.training.iteration.task_graph import Call, TaskGraph
from wavefabric.training.iteration.workload import Workload
from wavefabric.training.models import load_model
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.strategies.strategy import LayerLayout, uniform

fabrics = st.builds(
    PlainFabric,
    st.integers(1, 9).map(float),
    st.sampled_from((0.0, 2.0**-6, 2.0**-3)),
    st.booleans(),
)
small = settings(max_examples=60)


def seconds(model, strategy, fabric, policy="batched", update=0.0, merge=True):
    return simulate(workload(model, strategy, update), fabric, policy, merge).seconds


# --- Closed forms -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("concurrent", [True, False])
def test_a_chain_on_one_gpu_takes_the_sum(policy, concurrent):
    model = chain([1, 2, 3], parameters=10)
    strategy = uniform(model, 1, batch=2)
    fabric = PlainFabric(100.0, concurrent=concurrent)
    # Two samples forward, and backward twice that; an update for each layer.
    assert seconds(model, strategy, fabric, policy, update=5.0) == 2 * 6 + 2 * 2 * 6 + 3 * 5


def test_fork_and_join_on_one_gpu_take_the_sum():
    model = ModelGraph(
        "fork",
        (layer("a"), layer("b", ["a"], 2), layer("c", ["a"], 3), layer("d", ["b", "c"], 4)),
    )
    assert seconds(model, uniform(model, 1), PlainFabric(1.0)) == 3 * (1 + 2 + 3 + 4)


def test_a_fork_across_stages_waits_for_the_longest_way():
    model = ModelGraph("fork", (layer("a"), layer("b", ["a"]), layer("c", ["a", "b"])))
    strategy = uniform(model, 3, pipeline=3, microbatches=1, batch=1)
    # Forward a, b and c in three stages: a→b, then a→c, since a's GPU is in one call at a time, which b→c
    # waits for on c's GPU. Backward c→b before c→a, since b runs first, and b→a last.
    assert seconds(model, strategy, PlainFabric(10.0)) == (1 + 3 * 10 + 1) + (2 + 3 * 10 + 2)
    assert seconds(model, strategy, PlainFabric(0.5)) == (1 + 0.5 + 1 + 0.5 + 1) + (2 + 0.5 + 2 + 0.5 + 2)


@pytest.mark.parametrize("concurrent", [True, False])
def test_data_parallel_with_one_all_reduce_at_the_end(concurrent):
    model = chain([1, 2, 3], parameters=64)
    strategy = uniform(model, 4, bucket=1e12)
    fabric = PlainFabric(7.0, 0.5, concurrent)
    assert seconds(model, strategy, fabric, update=5.0) == 3 * 6 + (7 + 0.5 * 3 * 64 * 2) + 5


@pytest.mark.parametrize("each", [1.0, 3.0, 5.0, 40.0])
@pytest.mark.parametrize("policy", POLICIES)
def test_data_parallel_with_an_all_reduce_for_each_layer(each, policy):
    times = [3, 1, 2, 4]
    model = chain(times, parameters=64)
    got = seconds(model, uniform(model, 4), PlainFabric(each), policy)
    # A layer's all-reduce begins when its backward pass, and the one before it, have ended.
    clock = end = sum(times)
    for time in reversed(times):
        clock += 2 * time
        end = max(end, clock) + each
    assert got == (3 * sum(times) + 4 * each if policy in ("end", "boundaries") else end)


@pytest.mark.parametrize("stages", [1, 2, 4])
@pytest.mark.parametrize("parts", [1, 3, 4, 8])
def test_the_bubble_of_a_pipeline(stages, parts):
    model = chain([2] * 4)
    strategy = uniform(model, 2 * stages, pipeline=stages, batch=2 * parts, microbatches=parts)
    iteration = simulate(workload(model, strategy), FreeCommunication())
    a_pass = 3 * 2 * 4 // stages  # forward and backward of one sample on one stage
    assert iteration.seconds == (parts + stages - 1) * a_pass
    assert iteration.bubble == pytest.approx((stages - 1) / (parts + stages - 1), abs=1e-15)
    assert iteration.exposed_seconds == 0


def test_a_pipeline_whose_transfers_take_time():
    # One microbatch goes through all stages and back: two transfers for each boundary.
    model = chain([2] * 4)
    strategy = uniform(model, 4, pipeline=4, batch=1, microbatches=1)
    assert seconds(model, strategy, PlainFabric(5.0)) == 3 * 8 + 2 * 3 * 5


def transformer(blocks):
    """Blocks with the layers of Megatron-LM that matter to calls."""
    layers, hidden = [layer("embedding")], "embedding"
    for n in range(blocks):
        name = f"{n} {{}}".format
        layers += [
            layer(name("norm"), [hidden], block=name("")),
            *(layer(name(q), [name("norm")], split="column", block=name("")) for q in "qkv"),
            layer(name("attention"), [name(q) for q in "qkv"], split="local", block=name("")),
            layer(name("out"), [name("attention")], split="row", block=name("")),
            layer(name("sum"), [hidden, name("out")], block=name("")),
            layer(name("wide"), [name("sum")], split="column", block=name("")),
            layer(name("narrow"), [name("wide")], split="row", block=name("")),
            layer(name("end"), [name("sum"), name("narrow")], block=name("")),
        ]
        hidden = name("end")
    return ModelGraph("transformer", tuple(layers))


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize(("recompute", "each"), [(False, 4), (True, 6)])
def test_tensor_parallel_has_the_all_reduces_of_megatron(parts, recompute, each):
    """arXiv:1909.08053: two forward and two backward for a block; two more to compute it again."""
    model = transformer(3)
    strategy = uniform(model, 2, tensor=2, batch=2 * parts, microbatches=parts, recompute=recompute)
    iteration = simulate(workload(model, strategy), PlainFabric(5.0))
    calls = [call for call in iteration.graph.call if call is not None]
    assert {(call.collective, call.purpose) for call in calls} == {("all-reduce", "tensor")}
    # Samples of a microbatch, features of 2 B.
    assert {call.bytes for call in calls} == {2 * 8 * 2}
    assert len(calls) == 3 * parts * each
    free = iteration.free_seconds
    assert iteration.seconds == free + 5 * len(calls)
    forward = parts * (2 * 10 + 2 * 21 / 2)  # two samples: 10 layers whole, 21 halved
    assert free == (3 + recompute) * forward


def test_sharded_gathers_before_use_and_scatters_after():
    model = chain([10, 10, 10], parameters=64)
    iteration = simulate(workload(model, uniform(model, 4, zero=3)), PlainFabric(3.0))
    graph, timeline = iteration.graph, iteration.timeline
    kinds = [(call.collective, call.bytes) for call in graph.call if call is not None]
    assert kinds.count(("all-gather", 128.0)) == 6  # once forward, once backward
    assert kinds.count(("reduce-scatter", 128.0)) == 3
    # Only the first gather and the last reduce-scatter are not behind computation.
    assert iteration.seconds == 3 + 90 + 3
    for task, call in enumerate(graph.call):
        if call is not None and call.collective == "all-gather":
            users = [t for t in range(len(graph)) if task in graph.waits[t]]
            assert len(users) == 1
            # No more than one use ahead.
            position = graph.program[0].index(users[0])
            earlier = graph.program[0][max(0, position - 2)]
            assert timeline.begin[task] >= timeline.begin[earlier] if position else True


def test_sharded_microbatches_each_reduce_their_gradients():
    model = chain([10], parameters=64)
    strategy = uniform(model, 2, zero=3, batch=6, microbatches=3)
    iteration = simulate(workload(model, strategy), PlainFabric(3.0))
    result = [call.collective for call in iteration.graph.call if call is not None]
    assert (result.count("all-gather"), result.count("reduce-scatter")) == (6, 3)


def test_experts_exchange_twice_forward_and_twice_backward():
    model = ModelGraph(
        "mixture",
        (
            layer("in"),
            layer("router", ["in"]),
            layer("experts", ["in", "router"], 4, 640, experts=4, used=0.5),
            layer("out", ["in", "experts"]),
        ),
    )
    strategy = uniform(model, 4, expert=4)
    iteration = simulate(workload(model, strategy), PlainFabric(5.0))
    calls = [call for call in iteration.graph.call if call is not None]
    assert [(c.collective, c.purpose) for c in calls] == [("all-to-all", "experts")] * 4
    # One sample of 8 features of 2 B, to two of four experts; nobody else has the same expert.
    assert {c.bytes for c in calls} == {2 * 8 * 2.0}
    assert iteration.seconds == 3 * (1 + 1 + 4 + 1) + 4 * 5


def test_layers_of_the_same_experts_exchange_nothing_between_them():
    names = ["in", "up", "down", "out"]
    some = [
        layer(n, names[k - 1 : k] if k else [], experts=4 * (n in ("up", "down")))
        for k, n in enumerate(names)
    ]
    model = ModelGraph("mixture", tuple(some))
    iteration = simulate(workload(model, uniform(model, 4, expert=2)), PlainFabric(5.0))
    assert sum(call is not None for call in iteration.graph.call) == 4
    assert iteration.seconds == 12 + 4 * 5


def test_samples_are_sent_to_experts_as_soon_as_they_are_there():
    model = ModelGraph(
        "mixture",
        (
            layer("in"),
            layer("side", ["in"]),
            layer("experts", ["in"], 4, experts=4),
            layer("out", ["side", "experts"]),
        ),
    )
    load, fabric = workload(model, uniform(model, 2, expert=2)), PlainFabric(10.0)
    # The side runs while samples are sent, both ways; `in` needs both gradients.
    expected = (1 + 10 + 4 + 10 + 1) + (2 + 10 + 8 + 10 + 2)
    assert [simulate(load, fabric, merge=merge).seconds for merge in (True, False)] == [expected] * 2


def test_other_experts_are_reached_from_home():
    layers = (layer("in"), layer("a", ["in"], experts=4), layer("b", ["a"], experts=8), layer("out", ["b"]))
    model = ModelGraph("mixtures", layers)
    iteration = simulate(workload(model, uniform(model, 4, expert=4)), PlainFabric(5.0))
    assert iteration.seconds == 12 + 8 * 5


def test_experts_send_their_share_of_the_features():
    some = layer("experts", ["in"], split="column", experts=2, used=0.5)
    layers = (layer("in"), some, layer("out", ["experts"]))
    model = ModelGraph("mixture", layers)
    iteration = simulate(workload(model, uniform(model, 4, tensor=2, expert=2)), PlainFabric(5.0))
    result = [(c.collective, c.bytes) for c in iteration.graph.call if c is not None]
    # 16 B a sample whole, of each of two GPUs; half of it after the experts, joined at home.
    whole, half = ("all-to-all", 16.0), ("all-to-all", 8.0)
    assert result == [whole, half, ("all-gather", 16.0), half, whole, ("all-reduce", 16.0)]


def test_a_last_layer_waits_for_the_sum_of_its_outputs():
    model = ModelGraph("row", (layer("a", split="row", seconds=2),))
    assert seconds(model, uniform(model, 2, tensor=2), PlainFabric(10.0)) == 1 + 10 + 2


def test_layers_are_computed_again_once_their_gradient_is_there():
    model = chain([1, 1])
    strategy = uniform(model, 2, pipeline=2, batch=1, microbatches=1, recompute=True)
    assert seconds(model, strategy, PlainFabric(10.0)) == (1 + 10 + 1) + (3 + 10 + 3)


def test_what_is_gathered_to_compute_a_block_again_stays():
    model = chain([10, 10], parameters=64)
    iteration = simulate(workload(model, uniform(model, 4, zero=3, recompute=True)), PlainFabric(3.0))
    assert iteration.communication()["parameters"][0] == 4
    assert iteration.seconds == 3 + 2 * 10 + 2 * 30 + 3


def test_tables_on_all_gpus_exchange_once_each_way():
    model = ModelGraph(
        "tables",
        (
            layer("tables", parameters=800, split="column", operator="embedding", seconds=8),
            layer("bottom", seconds=2),
            layer("top", ["tables", "bottom"], seconds=2),
        ),
    )
    strategy = uniform(model, 4, batch=4, layers={"tables": LayerLayout(1, 4)})
    iteration = simulate(workload(model, strategy), PlainFabric(5.0))
    calls = [call for call in iteration.graph.call if call is not None]
    assert [c.collective for c in calls] == ["all-to-all"] * 2
    assert {c.groups for c in calls} == {((0, 1, 2, 3),)}
    assert {c.bytes for c in calls} == {4 * 8 * 2 / 4}  # what each sends: the whole array / GPUs
    # Nobody has the same rows: nothing to reduce. The bottom runs while the tables' output is sent.
    assert iteration.seconds == (8 + 5 + 2) + (4 + 5 + 16)


# --- What an iteration tells --------------------------------------------------------------------------------


def test_what_is_told_of_an_iteration():
    model = chain([1, 3], parameters=64)
    strategy = uniform(model, 4, pipeline=2, batch=4, microbatches=2)
    iteration = simulate(workload(model, strategy), PlainFabric(10.0))
    # 2 samples for each of two GPUs; stage 1 alone has 2 × 9 s of work.
    assert iteration.free_seconds == 1 + 2 * 9 + 2
    assert iteration.exposed_seconds == iteration.seconds - 21
    assert iteration.samples_per_second == 4 / iteration.seconds
    assert iteration.compute_seconds.tolist() == [6, 18]
    assert iteration.bubble == 1 - 12 / 21
    # Two microbatches each way: 2 samples of 16 B in messages of half of them; a bucket for each stage.
    assert iteration.communication() == {"layer-to-layer": (4, 4 * 32.0), "gradients": (2, 256.0)}
    spent = iteration.critical_seconds
    assert list(spent.values()) == sorted(spent.values(), reverse=True)
    assert (
        iteration.bound_by
        == f"layer-to-layer transfers, {spent['layer-to-layer'] / iteration.seconds:.0%} of the critical path"
    )
    # Of two GPUs with the same outputs each sends all of them.
    twice = simulate(workload(model, uniform(model, 4, tensor=2, pipeline=2, batch=2)), PlainFabric(10.0))
    assert twice.communication() == {"layer-to-layer": (4, 4 * 2 * 16.0)}
    alone = simulate(workload(model, uniform(model, 1)), PlainFabric(10.0))
    assert alone.bound_by == "computation, 100% of the critical path"
    assert alone.communication() == {}


def traced(*lanes, calls=()):
    """A trace's tasks: of each lane its GPUs and times of computations, one after the other."""
    graph = TaskGraph(len(lanes))
    for worker, (gpus, times) in enumerate(lanes):
        graph.gpus.append(gpus)
        graph.program.append([graph.compute("forward", f"{worker}", worker, time, []) for time in times])
    for purpose, ports in calls:
        call = Call("all-reduce", (tuple(range(len(ports))),), 1.0, purpose)
        graph.communicate("call", call, ports, [])
    return simulate_tasks(graph, FreeCommunication())


@pytest.mark.parametrize(
    ("lanes", "calls", "idle", "bubble"),
    [
        ([((0,), [9.0]), ((), [10.0])], (), 0.1, 0.0),  # a GPU and its host
        ([((0,), [9.0])], (), 0.0, 0.0),
        ([((), [9.0])], (), 0.0, 0.0),  # a host alone
        ([((0,), [10.0]), ((1,), [5.0]), ((), [1.0]), ((), [2.0])], (), 0.25, 0.0),  # two GPUs, two hosts
        ([((0,), [10.0]), ((1,), [5.0])], [("gradients", (0, 1))], 0.25, 0.0),  # an uneven share of data
        ([((0,), [10.0]), ((1,), [5.0]), ((), [1.0])], [("layer-to-layer", (0, 1))], 0.25, 0.25),
        ([((0,), [10.0]), ((1, 2, 3), [5.0])], [("layer-to-layer", (0, 1))], 0.375, 0.375),  # three of four
        ([((0, 1), [10.0])], [("layer-to-layer", (0,))], 0.0, 0.0),  # halos within a worker
    ],
)
def test_gpus_that_idle_and_stages_that_wait(lanes, calls, idle, bubble):
    result = traced(*lanes, calls=calls)
    assert result.idle == pytest.approx(idle)
    assert result.bubble == pytest.approx(bubble)
    assert result.gpu_seconds.tolist() == [sum(times) for gpus, times in lanes if gpus]


def test_work_of_a_host_is_not_computation_of_gpus():
    result = traced(((0,), [1.0]), ((), [9.0]))
    assert result.critical_seconds == {"host": 9.0}
    assert result.bound_by == "work of the host, 100% of the critical path"


# --- Speed --------------------------------------------------------------------------------------------------


def test_bert_on_256_gpus_is_simulated_in_less_than_half_a_second():
    model = load_model("bert-large")
    load = Workload(model, uniform(model, 256), DEVICES["h100"], PRECISIONS["bf16"])
    begin = process_time()
    simulate(load, PlainFabric(1e-5, 1e-11))
    assert process_time() - begin < 0.5


@pytest.mark.slow
def test_a_decoder_of_70_billion_on_1024_gpus_is_simulated_in_seconds():
    model = load_model("gpt-70b")
    strategy = uniform(model, 1024, tensor=8, pipeline=8, batch=1024, microbatches=64)
    begin = process_time()
    iteration = simulate(
        Workload(model, strategy, DEVICES["h100"], PRECISIONS["bf16"]), PlainFabric(1e-5, 1e-11)
    )
    assert process_time() - begin < 15
    assert len(iteration.graph) > 40_000


# --- What always holds --------------------------------------------------------------------------------------


def longest_path(graph, fabric):
    """s of the longest path of dependencies, with every call alone."""
    followers = [list(waits) for waits in graph.waits]
    for program in graph.program:
        for before, task in pairwise(program):
            followers[task].append(before)
    ends = {}

    def end(task):
        stack = [task]
        while stack:
            top = stack[-1]
            missing = [t for t in followers[top] if t not in ends]
            if missing:
                stack += missing
                continue
            call = graph.call[top]
            own = graph.seconds[top] if call is None else fabric.seconds([call])
            ends[top] = own + max((ends[t] for t in followers[top]), default=0.0)
            stack.pop()
        return ends[task]

    return max(map(end, range(len(graph))))


@small
@given(workloads(), fabrics, st.sampled_from(POLICIES))
def test_bounds_order_and_critical_path(load, fabric, policy):
    iteration = simulate(load, fabric, policy)
    graph, timeline = iteration.graph, iteration.timeline
    begin, end = timeline.begin, timeline.end
    total = iteration.seconds
    own = [
        seconds if call is None else fabric.seconds([call])
        for seconds, call in zip(graph.seconds, graph.call, strict=True)
    ]
    assert sorted(task for program in graph.program for task in program) == [
        task for task, worker in enumerate(graph.worker) if worker >= 0
    ]
    # Every task ends before any that waits for it begins, and takes no less time than it takes alone.
    for task, waits in enumerate(graph.waits):
        assert all(end[other] <= begin[task] for other in waits)
        assert end[task] - begin[task] >= own[task]
    for program in graph.program:
        assert (end[program[:-1]] <= begin[program[1:]]).all()
    # No worker's GPUs are in two calls at once.
    calls = [task for task, call in enumerate(graph.call) if call is not None]
    for worker in range(graph.workers):
        mine = sorted((begin[t], end[t]) for t in calls if worker in graph.ports[t])
        assert all(a[1] <= b[0] for a, b in pairwise(mine))
    for task in calls:
        gpus = graph.call[task].gpus
        assert {gpu // load.strategy.stage_gpus for gpu in gpus} == set(graph.ports[task])
    # Batches of a controller do not overlap, and each ends as one.
    spans = sorted({(begin[t], end[t]) for t in calls})
    if not fabric.concurrent:
        assert all(a[1] <= b[0] for a, b in pairwise(spans))
        assert timeline.fabric_busy == sum(b - a for a, b in spans) <= total
    # Lower bounds: dependencies, and the busiest worker.
    assert total >= longest_path(graph, fabric)
    assert total >= iteration.compute_seconds.max()
    # The critical path leaves no gap.
    path = list(iteration.critical_path)
    assert begin[path[0]] == 0
    assert (begin[path[1:]] == end[path[:-1]]).all()
    assert end[path[-1]] == total == sum(iteration.critical_seconds.values())
    # The same again.
    again = simulate(load, fabric, policy)
    assert np.array_equal(again.timeline.begin, begin)
    assert again.timeline.released_by.tolist() == timeline.released_by.tolist()


@pytest.mark.slow
@small
@given(workloads(), fabrics, st.sampled_from(POLICIES))
def test_merged_layers_take_the_same_time(load, fabric, policy):
    merged, whole = (simulate(load, fabric, policy, merge) for merge in (True, False))
    assert merged.seconds == whole.seconds
    assert len(merged.graph) <= len(whole.graph)
    assert merged.compute_seconds.tolist() == whole.compute_seconds.tolist()
    assert merged.communication() == whole.communication()

    def calls(iteration):
        result = zip(iteration.graph.call, iteration.timeline.begin, strict=True)
        return [begin for call, begin in result if call is not None]

    assert calls(merged) == calls(whole)


@pytest.mark.slow
@small
@given(workloads())
def test_free_communication_is_no_slower_than_one_microbatch_after_the_other(load):
    """Somebody always computes: no later than all passes of all stages in turn."""
    iteration = simulate(load, FreeCommunication())
    assert iteration.seconds <= iteration.compute_seconds.sum()
    assert 0 <= iteration.bubble < 1


@pytest.mark.slow
@small
@given(workloads())
def test_equal_calls_are_costed_once(load):
    costed = []

    class Counted(FreeCommunication):
        def seconds(self, calls):
            costed.extend(calls)
            return 0.0

    simulate(load, Counted())
    assert len(costed) == len(set(costed))


def test_model_flops_are_the_models_alone():
    """Recomputation is no work of the model's; attention counts 12 s² h, products 6 a parameter."""
    model, precision = load_model("gpt3-6.7b"), PRECISIONS["bf16"]
    width, tokens, blocks, vocabulary = 4096, 2048, 32, 50_257
    products = 6 * tokens * (blocks * 12 * width**2 + vocabulary * width)
    scores = blocks * 12 * tokens**2 * width
    assert model.training_flops == pytest.approx(products + scores, rel=0.01)
    for recompute in (False, True):
        work = Workload(model, uniform(model, 8, recompute=recompute), DEVICES["h200"], precision)
        one = simulate(work, FreeCommunication())
        assert one.model_flops_per_second == pytest.approx(model.training_flops / one.seconds)
        assert one.model_flops_utilisation == pytest.approx(one.model_flops_per_second / 989e12)
        assert one.model_flops_utilisation < 0.75
