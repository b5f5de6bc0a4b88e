"""Work and memory of layers that are counted by hand."""

from dataclasses import replace

import pytest

from wavefabric.base.errors import InputError
from wavefabric.training.gpu.device_model import DEVICES
from wavefabric.training.gpu.precision import PRECISIONS
from wavefabric.training.gpu.work import backward_work, forward_work, parameters_held, update_work
from wavefabric.training.iteration.memory import MemoryNeed, check_memory, strategy_needs
from wavefabric.training.iteration.workload import Workload
from wavefabric.training.models import load_model
from wavefabric.training.models.graph import OPTIMIZERS, Layer, ModelGraph
from wavefabric.training.strategies.strategy import LayerLayout, Strategy

FP32, BF16 = PRECISIONS["fp32"], PRECISIONS["bf16"]

# 128 tokens, from 100 features to 200, with bias.
LINEAR = Layer(
    "linear",
    "matmul",
    output=(128, 200),
    flops=2 * 128 * 100 * 200,
    parameters=100 * 200 + 200,
    elements=128 * 300,
    saved=128 * 100,
)
NORM = Layer("norm", "normalisation", parameters=200, elements=400, flops=1600, saved=200, backward=1.5)
# A table of 1000 rows of 8, of which a sample reads 10.
TABLE = Layer("table", "embedding", parameters=8000, elements=160, used=0.01, backward=1.0)
# 8 experts, each 50 parameters; a sample is given to 2.
EXPERTS = Layer("experts", "matmul", parameters=400, flops=200, elements=30, saved=10, experts=8, used=0.25)


def split(layer, how):
    return replace(layer, split=how)


def test_a_linear_layer():
    # 4 samples: inputs, outputs and weights of 4 B; twice the products backward, gradients written.
    assert forward_work(LINEAR, 4, 1, FP32) == ("matmul", 20_480_000, 4 * (4 * 38_400 + 20_200))
    assert backward_work(LINEAR, 4, 1, FP32) == ("matmul", 40_960_000, 4 * (8 * 38_400 + 2 * 20_200))
    assert forward_work(LINEAR, 4, 1, BF16).nbytes == 2 * (4 * 38_400 + 20_200)
    assert backward_work(NORM, 2, 1, FP32) == ("normalisation", 4800, 4 * (1.5 * 800 + 400))


@pytest.mark.parametrize(
    ("how", "flops", "parameters", "elements"),
    [
        ("none", 20_480_000, 20_200, 153_600),
        ("column", 5_120_000, 5_050, 96_000),  # half of the elements whole, half in four parts
        ("row", 5_120_000, 5_050, 96_000),
        ("local", 5_120_000, 5_050, 38_400),
    ],
)
def test_tensor_parallelism(how, flops, parameters, elements):
    layer = split(LINEAR, how)
    assert parameters_held(layer, 4) == parameters
    assert forward_work(layer, 4, 4, FP32) == ("matmul", flops, 4 * (elements + parameters))
    assert backward_work(layer, 4, 4, FP32) == ("matmul", 2 * flops, 8 * (elements + parameters))


def test_tables_are_read_where_the_samples_need_them():
    assert forward_work(TABLE, 5, 1, FP32).nbytes == 4 * (5 * 160 + 400)
    assert backward_work(TABLE, 5, 1, FP32).nbytes == 4 * (5 * 160 + 2 * 400)
    assert forward_work(TABLE, 500, 1, FP32).nbytes == 4 * (500 * 160 + 8000)


@pytest.mark.parametrize(("gpus", "held"), [(1, 400), (2, 200), (8, 50)])
def test_experts_are_divided(gpus, held):
    # Tokens of a sample go to different experts, so that all are read.
    assert parameters_held(EXPERTS, 1, gpus) == held
    assert forward_work(EXPERTS, 3, 1, FP32, gpus) == ("matmul", 600, 4 * (90 + held))
    assert backward_work(EXPERTS, 3, 1, FP32, gpus) == ("matmul", 1200, 4 * (180 + 2 * held))
    assert parameters_held(LINEAR, 1, gpus) == LINEAR.parameters


@pytest.mark.parametrize(
    ("optimizer", "precision", "nbytes"),
    [
        ("sgd", FP32, 12),  # gradient read, parameter read and written
        ("momentum", FP32, 20),  # and one state
        ("adam", FP32, 28),
        ("adam", BF16, 28),  # 2 gradient, 2 parameter, 8 copy in fp32, 16 states
        ("sgd", BF16, 12),
    ],
)
def test_update(optimizer, precision, nbytes):
    operator, flops, moved = update_work(1000, optimizer, precision)
    assert (operator, moved) == ("elementwise", 1000 * nbytes)
    assert flops >= 1000 * 2 * (1 + OPTIMIZERS[optimizer])


def memory_bytes(
    layers, samples, in_flight, tensor, precision, optimizer, recompute=False, sharded=1, experts=1
):
    """What one GPU holds for layers that share all numbers."""
    later = [Layer(f"stage {k}", "elementwise") for k in range(1, in_flight)]
    model = ModelGraph("by hand", (*layers, *later), optimizer=optimizer)
    data = sharded * experts
    layouts = tuple(LayerLayout(data, tensor, experts if layer.experts else 1) for layer in model.layers)
    stage = (0,) * len(layers) + tuple(range(1, in_flight))
    batch = samples * data * in_flight
    strategy = Strategy(
        data * tensor * in_flight, batch, in_flight, stage, layouts, 3 * (sharded > 1), 0.0, recompute
    )
    return strategy_needs(Workload(model, strategy, DEVICES["a100"], precision))[0]


def test_memory_by_hand():
    # Adam in bf16: 2 + 2 + 4 + 8 = 16 B a parameter (ZeRO, arXiv:1910.02054, section 3.1).
    need = memory_bytes([LINEAR, NORM], 4, 3, 1, BF16, "adam")
    held, saved = 20_200 + 200, (12_800 + 200) * 4 * 3
    assert need == MemoryNeed(2 * held, 2 * held, 12 * held, 2 * saved)
    assert need.total == 16 * held + 2 * saved


def test_sharded_states_and_the_layers_in_use():
    layers = [LINEAR, NORM, replace(NORM, name="last")]
    need = memory_bytes(layers, 4, 1, 1, BF16, "adam")
    sharded = memory_bytes(layers, 4, 1, 1, BF16, "adam", sharded=4)
    assert sharded.states == need.states / 4
    assert sharded.parameters == 2 * (20_600 / 4 + 20_400 * 3 / 4) == sharded.gradients
    assert sharded.activations == need.activations


def test_recomputed_activations():
    # Two blocks keep their first layer's input for both microbatches; one block has its others once.
    layers = [
        replace(layer, name=f"{layer.name} {b}", block=b) for b in ("a", "b") for layer in (LINEAR, NORM)
    ]
    layers.append(replace(NORM, name="after"))
    need = memory_bytes(layers, 3, 2, 1, FP32, "sgd", recompute=True)
    assert need.activations == 4 * 3 * (2 * (2 * 12_800 + 200) + 200)


def test_memory_of_tensor_and_expert_parallelism():
    column = memory_bytes([split(LINEAR, "column")], 1, 1, 4, FP32, "momentum")
    row = memory_bytes([split(LINEAR, "row")], 1, 1, 4, FP32, "momentum")
    assert column == MemoryNeed(4 * 5050, 4 * 5050, 4 * 5050, 4 * 12_800)
    assert row.activations == 12_800
    assert memory_bytes([EXPERTS], 3, 1, 1, FP32, "sgd", experts=4) == MemoryNeed(400, 400, 0, 120)


@pytest.mark.parametrize("tensor", [1, 2, 4])
def test_activations_of_a_transformer_block(tensor):
    # Korthikanti et al., arXiv:2205.05198, equation 2, without dropout: s h (8 + 24/t + 2 a s/(h t)) B.
    model, tokens, width, heads = load_model("bert-base"), 128, 768, 12
    block = [layer for layer in model.layers if layer.block == "encoder 3"]
    names = {layer.name for layer in block}
    block = [replace(layer, inputs=tuple(n for n in layer.inputs if n in names)) for layer in block]
    need = memory_bytes(block, 1, 1, tensor, BF16, "adam")
    published = tokens * width * (8 + 24 / tensor + 2 * heads * tokens / width / tensor)
    assert need.activations == pytest.approx(published)


def test_memory_that_does_not_suffice():
    need = MemoryNeed(1e9, 1e9, 2e9, 0.5e9)
    check_memory(need, 4.5e9)
    with pytest.raises(InputError) as caught:
        check_memory(need, 4e9, "stage 3")
    assert str(caught.value) == (
        "stage 3: 4.5 GB needed per GPU (parameters 1, gradients 1, states 2, activations 0.5); "
        "allowed: up to 4 GB"
    )


def test_unknown_optimizers_are_refused():
    with pytest.raises(InputError, match=r'^optimizer: "lion" given; allowed: sgd, momentum, rmsprop, adam$'):
        update_work(1, "lion", FP32)
