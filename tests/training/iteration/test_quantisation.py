"""FP8 and MXFP8: rates, casts, messages and memory of one block, counted by hand."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from wavefabric.base.errors import InputError
from wavefabric.training.gpu.device_model import ARITHMETIC, DEVICES, EIGHT_BIT
from wavefabric.training.gpu.precision import PRECISIONS
from wavefabric.training.iteration.memory import strategy_needs
from wavefabric.training.iteration.quantisation import Quantisation
from wavefabric.training.iteration.tasks import build_tasks
from wavefabric.training.iteration.workload import ModelPasses, Workload
from wavefabric.training.models.layers import GraphBuilder
from wavefabric.training.models.transformers import experts, llama
from wavefabric.training.strategies.strategy import uniform

TOKENS, WIDTH, KEYS, INNER = 512, 256, 64, 1024
SQUARE, NARROW, WIDE = WIDTH * WIDTH, WIDTH * KEYS, WIDTH * INNER
#: B read and written to cast an element: FP8 reads it twice and writes it twice; MXFP8 reads it once.
CAST = {"fp8": 6.0, "mxfp8": 2 + 2 * 33 / 32}
#: Parameters of the products of the block: query and output, key and value, up and down.
PRODUCTS = 2 * SQUARE + 2 * NARROW + 2 * WIDE


def decoder(mixture=False):
    """One block of a Llama, whose network is two products or a mixture of experts."""

    def network(graph: GraphBuilder, source: str) -> str:
        if mixture:
            return experts(graph, source, INNER, count=4, each=2)
        return graph.linear("down", graph.linear("up", source, INNER, bias=False, split="column"), WIDTH,
                            bias=False, split="row")  # fmt: skip

    return llama("block", TOKENS, 1, WIDTH, (4, 1), network)


def workload(precision, gpus=1, device="b200", model=None, **options):
    model = model or decoder()
    return Workload(model, uniform(model, gpus, **options), DEVICES[device], PRECISIONS[precision])


def quantisation(load):
    return Quantisation(load.model, load.strategy, load.precision)


def cast(load, backward):
    """B that a GPU moves for casts of one microbatch."""
    return sum(quantisation(load).cast(number, backward) for number in range(len(load.model.layers)))


@pytest.mark.parametrize("precision", EIGHT_BIT)
def test_every_operand_is_cast_once(precision):
    """Forward the inputs of query, output, up and down; backward the gradients of six outputs."""
    load = workload(precision)
    assert cast(load, False) == TOKENS * (3 * WIDTH + INNER) * CAST[precision]
    assert cast(load, True) == TOKENS * (3 * WIDTH + 2 * KEYS + INNER) * CAST[precision]
    assert cast(workload("bf16"), False) == cast(workload("bf16"), True) == 0
    model = decoder(mixture=True)
    router, tokens = (model.operands[model.index[f"block 0 {name}"]] for name in ("router", "experts"))
    assert (router, tokens) == (None, 2 * TOKENS * WIDTH)


@pytest.mark.parametrize("precision", EIGHT_BIT)
def test_gpus_that_split_layers_divide_casts(precision):
    plain, along = (workload(precision, 4, tensor=4, batch=1, sequence=on) for on in (False, True))
    whole, parts = TOKENS * 2 * WIDTH, TOKENS * (WIDTH + INNER)
    assert cast(plain, False) == (whole + parts / 4) * CAST[precision]
    assert cast(along, False) == (whole + parts) / 4 * CAST[precision]


@pytest.mark.parametrize("precision", EIGHT_BIT)
def test_products_run_at_the_rate_of_the_device(precision):
    device = replace(DEVICES["b200"], launch=0.0, half_flops=0.0, bandwidth=1e30)
    load = replace(workload(precision, batch=4), device=device)
    passes = ModelPasses(load)
    kinds = Counter()
    for layer, forward, back in zip(load.model.layers, passes.forward, passes.backward, strict=True):
        kinds["logits" if "logits" in layer.name else layer.operator] += forward.seconds + back.seconds
    scores = 4 * (4 * TOKENS**2 * WIDTH + 5 * 4 * TOKENS**2)
    fraction = device.efficiency[precision][0]
    assert kinds["matmul"] == pytest.approx(3 * 4 * 2 * TOKENS * PRODUCTS / (4500e12 * fraction))
    assert kinds["logits"] == pytest.approx(3 * 4 * 2 * TOKENS * WIDTH * 32_000 / (2250e12 * 0.67))
    assert kinds["attention"] == pytest.approx(3.5 * scores / (2250e12 * 0.45))


def test_casts_take_memory_traffic():
    """What FP8 takes longer than with free casts is their bytes at the streaming bandwidth, and launches."""
    load = workload("fp8", batch=4)
    free = replace(load, precision=replace(load.precision, cast=0.0))
    device = load.device
    more = sum(
        one.seconds - other.seconds
        for direction in ("forward", "backward")
        for one, other in zip(getattr(ModelPasses(load), direction), getattr(ModelPasses(free), direction),
                              strict=True)
    )  # fmt: skip
    launches = sum(quantisation(load).cast(n, back) > 0 for n in range(len(load.model.layers))
                   for back in (False, True))  # fmt: skip
    moved = cast(load, False) + cast(load, True)
    assert more == pytest.approx(moved / (device.bandwidth * 0.8) + launches * device.launch)


@pytest.mark.parametrize("zero", [1, 3])
def test_bytes_of_gathered_parameters(zero):
    """FP8 travels as a byte, MXFP8 and all other parameters as bf16."""
    others = 2 * WIDTH * 32_000 + 3 * WIDTH
    for precision, size in (("bf16", 2), ("fp8", 1), ("mxfp8", 2)):
        calls = build_tasks(workload(precision, 4, zero=zero)).call
        gathered = sum(call.bytes for call in calls if call and call.purpose == "parameters")
        assert gathered == (2 if zero == 3 else 1) * (PRODUCTS * size + 2 * others)
        reduced = sum(call.bytes for call in calls if call and call.purpose == "gradients")
        assert reduced == 2 * (PRODUCTS + others)


@pytest.mark.parametrize(("precision", "ratio"), [("bf16", 1.0), ("fp8", 1 / 2), ("mxfp8", 33 / 64)])
def test_operands_are_gathered_in_eight_bits(precision, ratio):
    """With sequence parallelism: forward before query, key and value, up; of gradients after output and down;
    again for the gradients of weights. What is reduced, and the logits' input, stays in bf16."""
    load = workload(precision, 4, tensor=4, sequence=True, batch=1)
    moved = Counter()
    for call in build_tasks(load).call:
        if call is not None:
            moved[call.collective] += call.bytes
    array = 2 * TOKENS * WIDTH
    others = 3 * array  # logits forward and again, and the gradient of the embedding
    assert moved["all-gather"] == pytest.approx(6 * array * ratio + others)
    assert moved["reduce-scatter"] == pytest.approx(6 * array)


@pytest.mark.parametrize("precision", EIGHT_BIT)
def test_memory(precision):
    """Inputs of products are stored in 8 bits, that of output besides the one that attention keeps."""
    need, plain = (strategy_needs(workload(name, batch=4))[0] for name in (precision, "bf16"))
    operand = 1 if precision == "fp8" else 33 / 32
    less = TOKENS * (2 * WIDTH + INNER) * (2 - operand) - TOKENS * WIDTH * operand
    assert plain.activations - need.activations == pytest.approx(4 * less)
    assert need.states == plain.states
    assert need.parameters == pytest.approx(plain.parameters * operand)


def test_parameters_are_cast_after_the_update():
    """FP8: those that a GPU updates; MXFP8: all, gathered in 16 bits, with ZeRO-3 after each gather."""
    for precision, gpus in (("fp8", 4), ("mxfp8", 1)):
        load = workload(precision, 4, zero=1)
        layers = load.model.layers
        moved = sum(
            quantisation(load).cast_parameters([n], layers[n].parameters / 4) for n in range(len(layers))
        )
        assert moved == PRODUCTS / gpus * CAST[precision]
    assert quantisation(workload("bf16", 4, zero=1)).cast_parameters(range(len(layers)), 1.0) == 0
    sharded = workload("mxfp8", 4, zero=3)
    assert quantisation(sharded).cast_parameters(range(len(sharded.model.layers)), 1.0) == 0
    more = [cast(sharded, back) - cast(workload("mxfp8", 4, zero=1), back) for back in (False, True)]
    assert more == pytest.approx([PRODUCTS * CAST["mxfp8"]] * 2)
    again = workload("mxfp8", 4, zero=3, recompute=True)  # what is gathered to compute a block again stays
    assert cast(sharded, False) == cast(again, False)
    assert cast(sharded, True) - cast(again, True) == PRODUCTS * CAST["mxfp8"]


def test_devices_without_eight_bits_refuse():
    lines = {("fp8", "a100"): "fp32, tf32, bf16 on a100", ("mxfp8", "h100"): "fp32, tf32, bf16, fp8 on h100"}
    for (precision, device), allowed in lines.items():
        with pytest.raises(InputError) as caught:
            workload(precision, device=device)
        assert str(caught.value) == f"precision: {precision} given; allowed: {allowed}"


def test_peaks_double_from_format_to_format():
    for name in ("h100", "h200", "b200", "gb200"):
        peaks = [DEVICES[name].peak[key] for key in (*ARITHMETIC, "fp8")][1:]
        assert all(2 * a == pytest.approx(b, rel=0.03) for a, b in pairwise(peaks))
