"""The layer graphs of papers/models: counts of their publications, and `wavefabric train` reads them."""

from pathlib import Path

import pytest

from wavefabric.training.gpu.device_model import DEVICES
from wavefabric.training.gpu.precision import PRECISIONS
from wavefabric.training.iteration.engine import FreeCommunication
from wavefabric.training.iteration.simulate import simulate
from wavefabric.training.iteration.tasks import Workload
from wavefabric.training.models import load_model
from wavefabric.training.strategies.strategy import uniform

FOLDER = Path(__file__).parents[2] / "papers" / "models"
MODELS = {path.stem: load_model(path) for path in sorted(FOLDER.glob("*.json"))}
MIB = 1 << 20


@pytest.mark.parametrize(
    ("name", "parameters", "batch"),
    [
        ("flexflow-inception", 21_788_842, 64),
        ("flexflow-ncf", 24_743_809_026, 128),
        ("flexflow-ncf-32", 12_422_252_546, 128),
        ("flexflow-ncf-32-replicated", 12_422_252_546, 128),
        ("flexflow-transformer", 201_376_769, 16),
        # arXiv:1708.05031: 6040 users, 3706 items, tables of 64 and 128 features, tower 256-128-64.
        ("ncf-1m", (6040 + 3706) * 192 + 257 * 128 + 129 * 64 + 129, 256),
    ],
)
def test_counts(name, parameters, batch):
    model = MODELS[name]
    assert (model.parameters, model.batch) == (parameters, batch)
    assert "arXiv:" in model.source
    assert model.tensor_calls == name.startswith("flexflow")


def test_no_graph_is_without_a_test():
    assert len(MODELS) == 6


@pytest.mark.parametrize("name", [name for name in MODELS if not name.startswith("flexflow-ncf")])
def test_an_iteration_is_simulated(name):
    workload = Workload(MODELS[name], uniform(MODELS[name], 4), DEVICES["a100"], PRECISIONS["tf32"])
    assert 0 < simulate(workload, FreeCommunication()).seconds < 1


def test_convolutions_have_biases_and_no_normalisation():
    plain, normalised = MODELS["flexflow-inception"], load_model("inception-v3")
    convolutions, others = (
        [layer for layer in model.layers if layer.operator == "convolution"] for model in (plain, normalised)
    )
    assert [layer.flops for layer in convolutions] == [layer.flops for layer in others]
    assert all(layer.tensors[1:] == layer.output[:1] for layer in convolutions)
    assert not any(layer.operator == "normalisation" for layer in plain.layers)


def test_attention_is_one_operator():
    graph = MODELS["flexflow-transformer"]
    sizes = sorted(layer.parameters for layer in graph.layers if layer.parameters)
    assert sizes == [1025] + [MIB + 1024] * 48 + [4 * MIB] * 36
    attention = graph.layers[graph.index["block 0 encoder attention"]]
    assert attention.flops == 4 * 2 * 64 * MIB + 2 * 2 * 64 * 64 * 1024


@pytest.mark.parametrize(("name", "width"), [("flexflow-ncf", 16384), ("flexflow-ncf-32", 8192)])
def test_dense_layers_follow_whole_tables(name, width):
    dense = [n for n in MODELS[name].layers if n.operator == "matmul" and n.output == (4096,)]
    assert [n.parameters for n in dense] == [width * 4096 + 4096] + [4096 * 4096 + 4096] * 6
    (tables,) = (layer for layer in MODELS[name].layers if layer.whole)
    assert tables.whole == len(tables.tensors) == width // 64
