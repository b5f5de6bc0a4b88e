"""Operators timed on this machine: every one of a model has a row, and the rows are what is simulated."""

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.training.gpu import operator_times as module
from wavefabric.training.gpu.device_file import device_from_toml, device_to_toml
from wavefabric.training.gpu.operator_times import measure, product_shape
from wavefabric.training.gpu.precision import PRECISIONS
from wavefabric.training.gpu.work import backward_work, forward_work, update_work
from wavefabric.training.models.graph import Layer, ModelGraph

MODEL = ModelGraph(
    "small",
    (
        Layer("table", "embedding", (), (8, 16), parameters=1600, elements=256, used=0.08, backward=1),
        Layer("linear", "matmul", ("table",), (8, 32), 2 * 8 * 16 * 32, 544, 8 * 48),
        Layer("same", "matmul", ("linear",), (8, 32), 2 * 8 * 16 * 32, 544, 8 * 48),
        Layer("gelu", "elementwise", ("same",), (8, 32), 1024, 0, 512, backward=1.5),
        Layer("pick", "elementwise", ("gelu",), (8, 32)),
    ),
)
PICTURE = Layer("conv", "convolution", output=(64, 56, 48), flops=2 * 64 * 56 * 48 * 9 * 32)


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(module, "_SAMPLE", 0.0)
    monkeypatch.setattr(module, "_SIDE", {"cpu": 16, "cuda": 16})
    monkeypatch.setattr(module, "_COPY", {"cpu": 1 << 12, "cuda": 1 << 12})


def test_shapes_of_products():
    # A convolution of 3 x 3 from 32 channels to 64; a layer from 16 features to 32 at 8 positions.
    assert product_shape(PICTURE, 4) == (4 * 56 * 48, 64, 9 * 32)
    assert product_shape(MODEL.layers[1], 4) == (32, 32, 16)


@pytest.mark.parametrize("arithmetic", ["fp32", "bf16"])
def test_every_operator_has_its_row(quick, device, arithmetic):
    said = []
    result = measure(MODEL, 4, arithmetic, device, repeats=1, say=said.append)
    precision = PRECISIONS[arithmetic]
    works = [update_work(n, "adam", precision) for n in (544, 1600)]
    for layer in MODEL.layers[:4]:
        works += [work(layer, 4, 1, precision) for work in (forward_work, backward_work)]
    rows = {(row.operator, row.flops, row.bytes): row for row in result.measured}
    assert set(rows) == set(works)  # that is, each once
    for key, row in rows.items():
        assert row.arithmetic == (arithmetic if row.operator == "matmul" else "fp32")
        assert 0 < row.seconds == result.seconds(*key, arithmetic)
    assert said[1:] == [f"{i + 1} of 8: {name}" for i, name in enumerate(
        ("table", "table", "update", "linear", "linear", "update", "gelu", "gelu"))]  # fmt: skip
    assert device_from_toml(device_to_toml(result)) == result


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize(("arithmetic", "error"), [("fp32", 1e-5), ("tf32", 2e-2), ("bf16", 5e-2)])
def test_products(device, arithmetic, error, transpose_a, transpose_b):
    products = device.kernels("wavefabric.runtime.device.products")
    a = products.random_matrix((7, 5) if transpose_a else (5, 7), arithmetic)
    b = products.random_matrix((3, 7) if transpose_b else (7, 3), arithmetic)
    out = device.empty((5, 3), a.dtype)
    products.multiply(a, b, out, arithmetic, transpose_a, transpose_b)
    a, b, out = (_values(device.to_host(array)) for array in (a, b, out))
    expected = (a.T if transpose_a else a) @ (b.T if transpose_b else b)
    assert out == pytest.approx(expected, rel=error, abs=error)


def _values(array):
    """fp32 of an array, which holds the bits of bf16 where it is one of uint16."""
    return (array.astype(np.uint32) << 16).view(np.float32) if array.dtype == np.uint16 else array


@pytest.mark.parametrize(
    ("operator", "backward", "expected"),
    [
        ("matmul", 0, {"output": 1}),
        ("matmul", 1, {"weights": 1}),  # of the model's input there is no gradient
        ("matmul", 2, {"weights": 1, "inputs": 1}),
        ("matmul", 2.5, {"weights": 1, "inputs": 1.5}),
        ("attention", 2, {"weights": 1, "inputs": 1, "copy": 1}),
    ],
)
def test_what_is_timed_for_a_pass(cpu, operator, backward, expected):
    # 5 positions, from 7 features to 3; a time of its own for each shape.
    layer = Layer("a", operator, output=(5, 3), flops=2 * 5 * 7 * 3, elements=50, backward=backward)
    work = (backward_work if backward else forward_work)(layer, 1, 1, PRECISIONS["bf16"])
    bench, times = module._Bench(cpu, 1), {"output": 1, "weights": 10, "inputs": 100, "copy": 1000}
    shapes = {(5, 3, 7, False, True): "output", (3, 7, 5, True, False): "weights"}
    shapes[5, 7, 3, False, False] = "inputs"
    bench.product = lambda m, n, k, arithmetic, transpose_a=False, transpose_b=False: times[
        shapes[m, n, k, transpose_a, transpose_b]
    ]
    bench.copy = lambda nbytes: times["copy"] * nbytes / work.nbytes
    result = bench.seconds(module._Case(work, layer, backward > 0), 1, "bf16")
    assert result == sum(times[name] * fraction for name, fraction in expected.items())


def test_gathers_read_all_of_a_table(cpu):
    bench = module._Bench(cpu, 1)
    seen = {}
    bench._time = lambda work: seen.update(rows=work()) or 1.0
    # 6400 B: 3200 B in rows of 64 B, written as often.
    assert bench.gather(6400, MODEL.layers[0]) == 1.0
    assert seen["rows"].shape == (50, 16)


@pytest.mark.parametrize(
    ("samples", "arithmetic", "error"),
    [
        (0, "fp32", "samples: 0; allowed: whole numbers from 1"),
        (1, "fp8", 'arithmetic: "fp8" given; allowed: fp32, tf32, bf16'),
        (10**12, "bf16", "samples: 1000000000000 given, table needs"),
    ],
)
def test_faults_in_one_line(cpu, samples, arithmetic, error):
    with pytest.raises(InputError) as caught:
        measure(MODEL, samples, arithmetic, cpu)
    assert str(caught.value).startswith(error)
