"""Tasks of an iteration: which calls there are, of what size, and what waits for what."""

from dataclasses import replace
from itertools import accumulate, product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import chain, layer, workload

from wavefabric.training.gpu.device_model import DEVICES
from wavefabric.training.gpu.precision import PRECISIONS
from wavefabric.training.iteration.layer_calls import ModelCalls
from wavefabric.training.iteration.tasks import build_tasks, pipeline_order
from wavefabric.training.iteration.workload import Workload
from wavefabric.training.models import load_model
from wavefabric.training.models.graph import SPLITS, ModelGraph
from wavefabric.training.strategies.strategy import LayerLayout, Strategy, uniform

BF16 = PRECISIONS["bf16"]


def calls_of(graph, purpose=None):
    return [call for call in graph.call if call is not None and purpose in (None, call.purpose)]


def named(graph, name):
    (task,) = [task for task, own in enumerate(graph.name) if own == name]
    return task


# --- 1F1B ---------------------------------------------------------------------------------------------------


def pipelined(stages, parts, interleave=1):
    chunks = stages * interleave
    layouts = (LayerLayout(1),) * chunks
    return Strategy(stages, parts, parts, tuple(range(chunks)), layouts, interleave=interleave)


def test_the_order_of_1f1b():
    """Figure 4 (top) of arXiv:2104.04473: 4 stages and 8 microbatches."""

    def words(stage, parts):
        order = pipeline_order(stage, pipelined(4, parts))
        return " ".join("FB"[variant] + str(part + 1) for variant, part, _ in order)

    assert words(0, 8) == "F1 F2 F3 F4 B1 F5 B2 F6 B3 F7 B4 F8 B5 B6 B7 B8"
    assert words(1, 8) == "F1 F2 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 F8 B6 B7 B8"
    assert words(3, 8) == "F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7 F8 B8"
    assert words(0, 2) == "F1 F2 B1 B2"


@pytest.mark.parametrize(("stages", "parts", "interleave"), [
    *((stages, parts, 1) for stages in (1, 3, 5) for parts in (1, 2, 7)), (2, 4, 2), (4, 8, 2), (4, 8, 3),
])  # fmt: skip
def test_every_stage_runs_each_pass_once(stages, parts, interleave):
    for stage in range(stages):
        order = pipeline_order(stage, pipelined(stages, parts, interleave))
        chunks = range(stage, stages * interleave, stages)
        every = [(variant, part, chunk) for variant in (0, 1) for part in range(parts) for chunk in chunks]
        assert sorted(order) == every
        for part, chunk in product(range(parts), chunks):
            assert order.index((0, part, chunk)) < order.index((1, part, chunk))
        # Activations of p - s microbatches are kept; interleaved, of the first stage 1 + (p - 1)/(p v) times
        # those of all its layers (arXiv:2205.05198, section 4.2.3).
        kept = np.cumsum([1 if variant == 0 else -1 for variant, *_ in order]).max()
        first = stages * interleave + stages - 1
        assert kept == (min(parts, stages - stage) if interleave == 1 else first - 2 * stage)


def test_the_order_of_interleaved_1f1b():
    """Figure 4 (bottom) of arXiv:2104.04473: 4 stages of 2 chunks; lower case is the second chunk."""
    order = pipeline_order(0, pipelined(4, 8, 2))
    words = [("FB" if chunk < 4 else "fb")[variant] + str(part + 1) for variant, part, chunk in order]
    assert " ".join(words[:15]) == "F1 F2 F3 F4 f1 f2 f3 f4 F5 F6 F7 b1 F8 b2 f5"


# --- Activations --------------------------------------------------------------------------------------------


def two_layers(first, second, **numbers):
    return ModelGraph("pair", (layer("a", split=first, **numbers), layer("b", ["a"], split=second)))


@pytest.mark.parametrize(
    ("first", "second", "forward", "backward"),
    [
        ("none", "none", [], []),
        ("none", "column", [], ["all-reduce"]),  # Megatron-LM's f
        ("none", "row", [], ["all-gather"]),  # each takes its part, and needs all of the gradient
        ("column", "none", ["all-gather"], []),
        ("column", "column", ["all-gather"], ["reduce-scatter"]),
        ("column", "row", [], []),
        ("column", "local", [], []),
        ("row", "none", [], []),  # the sum of partial outputs is the layer's own
        ("row", "column", [], ["all-reduce"]),
        ("local", "none", ["all-gather"], []),
    ],
)
def test_calls_between_layers_that_are_split(first, second, forward, backward):
    model = two_layers(first, second)
    plan = ModelCalls(model, uniform(model, 4, tensor=2, batch=6), BF16)
    (transfer,) = plan.layers[0].transfers
    assert [call.collective for call in transfer.forward] == forward
    assert [call.collective for call in transfer.backward] == backward
    assert {call.groups for call in transfer.forward + transfer.backward} <= {((0, 1), (2, 3))}
    # The 3 samples of each half, 8 features of 2 B: an array of one group.
    assert {call.bytes for call in transfer.forward + transfer.backward} <= {3 * 8 * 2}
    total = plan.layers[0].total
    assert (total is None) == (first != "row")
    if total is not None:
        assert (total.collective, total.groups, total.bytes) == ("all-reduce", ((0, 1), (2, 3)), 48)


SIDE, GPUS = 12, 12


def block(position, gpu):
    """Which samples and features a GPU has."""
    i, j = divmod(gpu - position.first, position.tensor)
    cells = np.zeros((SIDE, SIDE), bool)
    features = slice(j * SIDE // position.tensor, (j + 1) * SIDE // position.tensor)
    rows = slice(i * SIDE // position.data, (i + 1) * SIDE // position.data)
    cells[rows, features if position.shared else slice(None)] = True
    return cells


def execute(call, state, target):
    """Masks of the parts of a sum that GPUs have for each cell, after a call."""
    new = {gpu: mask.copy() for gpu, mask in state.items()}
    empty = np.zeros((SIDE, SIDE), int)
    if call.collective == "messages":
        for giver, taker, _ in call.messages:
            new[taker] = new.get(taker, empty) | state[giver] * block(target, taker)
        return new
    for group in call.groups:
        together = np.bitwise_or.reduce([state[gpu] for gpu in group])
        for gpu in group:
            cells = True if call.collective in ("all-reduce", "all-gather") else block(target, gpu)
            new[gpu] = together * cells
    return new


degrees = st.sampled_from([LayerLayout(data, GPUS // data) for data in (1, 2, 3, 4, 6, 12)])


@settings(max_examples=80)
@given(
    st.tuples(degrees, degrees),
    st.sampled_from(SPLITS),
    st.lists(st.sampled_from(SPLITS), min_size=1, max_size=3),
    st.booleans(),
)
def test_outputs_and_complete_gradients_are_where_they_are_needed(layouts, made, taken, stages):
    """Calls executed cell by cell: a gradient is there once it has the part of every GPU that adds one."""
    layers = [layer("a", split=made), *(layer(f"b{n}", ["a"], split=s) for n, s in enumerate(taken))]
    model = ModelGraph("some", tuple(replace(one, output=(SIDE,)) for one in layers))
    consumers = len(taken)
    strategy = Strategy(
        GPUS * (1 + stages), SIDE, 1, (0, *[int(stages)] * consumers), (layouts[0], *[layouts[1]] * consumers)
    )
    plan = ModelCalls(model, strategy, BF16)
    source = plan._placement(0, "column")
    for transfer in plan.layers[0].transfers:
        target = plan._placement(transfer.consumers[0], "row")
        state = {gpu: block(source, gpu).astype(int) for gpu in range(GPUS)}
        for call in transfer.forward:
            state = execute(call, state, target)
        takers = range(target.first, target.first + GPUS)
        assert all((state[gpu][block(target, gpu)] == 1).all() for gpu in takers)

        columns = target.tensor > 1 and any(taken[c - 1] == "column" for c in transfer.consumers)
        parts = target.tensor if columns else 1
        state = {
            gpu: block(target, gpu) * (1 << ((gpu - target.first) % target.tensor if columns else 0))
            for gpu in takers
        }
        for call in transfer.backward:
            state = execute(call, state, source)
        for gpu in range(GPUS):
            assert (state[gpu][block(source, gpu)] == (1 << parts) - 1).all()


def test_stages_hand_over_block_by_block():
    model = chain([1, 1])
    strategy = uniform(model, 8, tensor=2, pipeline=2, batch=4, microbatches=2)
    graph = build_tasks(workload(model, strategy))
    forward, backward = (graph.name.index(f"messages l0 {variant}") for variant in ("forward", "backward"))
    assert graph.ports[forward] == graph.ports[backward] == (0, 1)
    # The 2 samples of a microbatch, 16 B each; each GPU sends its half to the one at its place.
    assert graph.call[forward].bytes == 32
    assert graph.call[forward].messages == tuple((g, g + 4, 0.5) for g in range(4))
    assert graph.call[backward].messages == tuple((g + 4, g, 0.5) for g in range(4))
    assert graph.waits[forward] == [graph.program[0][0]]
    assert graph.waits[graph.program[1][0]] == [forward]


# --- Gradients and parameters -------------------------------------------------------------------------------


def test_buckets_hold_consecutive_gradients_of_the_same_gpus():
    model = chain([1] * 5, parameters=100)  # 200 B of gradients each
    strategy = uniform(model, 4, batch=4, bucket=300.0, layers={"l2": LayerLayout(2, 2)})
    graph = build_tasks(workload(model, strategy))
    buckets = {n: c.bytes for n, c in zip(graph.name, graph.call, strict=True) if n.startswith("gradients")}
    # From the last layer: two are enough; l2 is shared otherwise; two again.
    assert buckets == {"gradients l4 … l3": 400, "gradients l2": 200, "gradients l1 … l0": 400}
    assert graph.call[named(graph, "gradients l2")].groups == ((0, 2), (1, 3))
    updates = [graph.name[task] for task in graph.program[0] if graph.kind[task] == "update"]
    assert updates == ["l4 … l3", "l2", "l1 … l0"]
    for task in graph.program[0][-3:]:
        assert graph.waits[task] == [named(graph, f"gradients {graph.name[task]}")]


@pytest.mark.parametrize(("sharded", "collective"), [(False, "all-reduce"), (True, "reduce-scatter")])
def test_a_call_a_tensor_if_the_model_says_so(sharded, collective):
    """The update of a layer waits for all of its tensors; a bucket is reduced by one call."""
    layers = (layer("a", parameters=12, tensors=(8, 3, 1)), layer("b", inputs=("a",), parameters=5))
    model = ModelGraph("m", layers, tensor_calls=True)
    graph = build_tasks(workload(model, uniform(model, 4, zero=3 * sharded)))
    sizes = [call.bytes for call in calls_of(graph, "gradients")]
    assert {call.collective for call in calls_of(graph, "gradients")} == {collective}
    first = workload(model, uniform(model, 4)).precision.gradient
    assert sizes == pytest.approx([5 * first, 8 * first, 3 * first, first])
    update = next(t for t, kind in enumerate(graph.kind) if (kind, graph.name[t]) == ("update", "a"))
    assert sorted(graph.call[t].bytes for t in graph.waits[update]) == sorted(sizes[1:])
    together = uniform(model, 4, zero=3 * sharded, bucket=1e9)
    assert len(calls_of(build_tasks(workload(model, together)), "gradients")) == 1


def test_gradients_are_reduced_after_the_last_microbatch():
    model = chain([1, 1], parameters=100)
    graph = build_tasks(workload(model, uniform(model, 2, batch=8, microbatches=4)))
    reduced = [task for task, call in enumerate(graph.call) if call is not None]
    assert [graph.microbatch[task] for task in reduced] == [3, 3]
    assert [graph.microbatch[task] for task in graph.program[0]] == [0, 0, 1, 1, 2, 2, 3, 3, 3, -1, -1]


def test_shares_of_parameters():
    model = ModelGraph(
        "shares",
        (
            layer("none", parameters=96),
            layer("column", ["none"], parameters=96, split="column"),
            layer("local", ["column"], parameters=96, split="local"),
            layer("row", ["local"], parameters=96, split="row"),
            layer("experts", ["row"], parameters=96, experts=4),
        ),
    )
    graph = build_tasks(workload(model, uniform(model, 8, tensor=2, expert=2)))
    result = {n: c for n, c in zip(graph.name, graph.call, strict=True) if n.startswith("gradients")}
    # 2 B for each parameter that a GPU has.
    assert {name.split()[1]: call.bytes for name, call in result.items()} == {
        "none": 192, "column": 96, "local": 96, "row": 96, "experts": 96
    }  # fmt: skip
    assert result.pop("gradients experts").groups == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert {call.groups for call in result.values()} == {((0, 2, 4, 6), (1, 3, 5, 7))}


def test_sharded_updates_are_of_a_share():
    model = chain([1], parameters=4_000_000)
    h100 = DEVICES["h100"]
    plain, sharded = (
        build_tasks(Workload(model, uniform(model, 4, zero=3 * sharded), h100, BF16))
        for sharded in (False, True)
    )
    whole, part = (graph.seconds[graph.program[0][-1]] - h100.launch for graph in (plain, sharded))
    assert part == pytest.approx(whole / 4)


def test_recomputing_repeats_forward_passes_and_calls_inside_blocks():
    layers = [
        layer("a", split="column", block="one"),
        layer("b", ["a"], split="row", block="one"),
        layer("c", ["b"], block="one"),
        layer("d", ["c"], split="column", block="two"),
        layer("e", ["d"], split="row", block="two"),
    ]
    model = ModelGraph("blocks", tuple(layers))
    strategy = uniform(model, 2, tensor=2, batch=2, recompute=True)
    graph = build_tasks(workload(model, strategy), merge=False)
    names = [graph.name[task] for task in graph.program[0]]
    assert names == [*"abcde", *"de", *"ed", *"abc", *"cba"]
    calls = [name for name, call in zip(graph.name, graph.call, strict=True) if call is not None]
    # b's sum is needed in its block, e's is not; d's is the gradient of what c made.
    assert calls == ["all-reduce b", "all-reduce e", "all-reduce c backward", "all-reduce b"]


# --- Models -------------------------------------------------------------------------------------------------


def test_bert_has_the_calls_of_megatron():
    bert = load_model("bert-large")
    graph = build_tasks(Workload(bert, uniform(bert, 8, tensor=8, batch=4), DEVICES["h100"], BF16))
    blocks = [c for c in calls_of(graph) if c.bytes == 4 * 128 * 1024 * 2]
    # Four for each of 24 blocks, and the sum of rows of the divided vocabulary.
    assert len(blocks) == 4 * 24 + 1
    assert {call.collective for call in blocks} == {"all-reduce"}


def test_merging_makes_few_tasks():
    bert = load_model("bert-large")
    merged = build_tasks(Workload(bert, uniform(bert, 1), DEVICES["h100"], BF16))
    layers = sum(layer.parameters > 0 for layer in bert.layers)
    # One forward; one that ends with each gradient, and what comes after the last; the updates.
    assert len(merged) <= 1 + layers + 1 + layers
    assert len(build_tasks(Workload(bert, uniform(bert, 1), DEVICES["h100"], BF16), merge=False)) > 700


@pytest.mark.parametrize(("stages", "interleave"), [(1, 1), (4, 1), (3, 2), (4, 3)])
def test_four_periods_of_an_order_have_as_much_in_flight_as_all(stages, interleave):
    for stage in range(stages):
        strategy = SimpleNamespace(stages=stages, interleave=interleave, microbatches=9 * stages)
        orders = [pipeline_order(stage, strategy, few) for few in (None, 4 * stages)]
        kept = {stage + turn * stages: 1.0 + turn / 7 for turn in range(interleave)}
        signs = [[(1 - 2 * d) * kept[chunk] for d, _, chunk in order] for order in orders]
        assert max(accumulate(signs[0])) == pytest.approx(max(accumulate(signs[1])))
