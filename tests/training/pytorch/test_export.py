"""Modules of PyTorch as layer graphs, where it is installed; nodes alone are tested in test_nodes."""

import sys
from itertools import pairwise

import pytest

from wavefabric.base.errors import InputError, MissingExtra
from wavefabric.training.models import load_model
from wavefabric.training.pytorch import from_torch


def test_without_pytorch_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"a model from PyTorch needs .*wavefabric\[torch\]"):
        from_torch(None, None)


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def neumf(torch, users, items, factors):
    nn = torch.nn

    class NeuMF(nn.Module):
        def __init__(self):
            super().__init__()
            self.factors = nn.ModuleList([nn.Embedding(n, factors) for n in (users, items)])
            self.tables = nn.ModuleList([nn.Embedding(n, 2 * factors) for n in (users, items)])
            widths = [4 * factors, 4 * factors, 2 * factors, factors]
            pairs = pairwise(widths)
            self.tower = nn.Sequential(*(part for a, b in pairs for part in (nn.Linear(a, b), nn.ReLU())))
            self.prediction = nn.Linear(2 * factors, 1)

        def forward(self, user, item):
            product = self.factors[0](user) * self.factors[1](item)
            joined = torch.cat([self.tables[0](user), self.tables[1](item)], dim=-1)
            return torch.sigmoid(self.prediction(torch.cat([product, self.tower(joined)], dim=-1)))

    return NeuMF()


def test_neumf_equals_the_built_in_one(torch):
    ids = torch.zeros(3, dtype=torch.long)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wavefabric.training.models.recommendation.MOVIELENS_20M", (50, 40))
        built = load_model("ncf:8")
    graph = from_torch(neumf(torch, 50, 40, 8), (ids, ids), batch=7, optimizer="sgd")
    assert graph.parameters == built.parameters
    assert graph.flops == built.flops
    assert sum(n.saved for n in graph.layers) == sum(n.saved for n in built.layers)
    assert sum(n.elements for n in graph.layers) == sum(n.elements for n in built.layers)
    assert (graph.name, graph.batch, graph.optimizer) == ("NeuMF", 7, "sgd")


def encoder(torch, width, heads):
    nn, functional = torch.nn, torch.nn.functional

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.ffn1, self.ffn2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def heads(self, x):
            return x.view(x.shape[0], x.size(1), heads, width // heads).transpose(1, 2)

        def forward(self, x):
            q, k, v = self.heads(self.q(x)), self.heads(self.k(x)), self.heads(self.v(x))
            p = functional.softmax(q @ k.transpose(-1, -2) * (width // heads) ** -0.5, dim=-1)
            a = (functional.dropout(p, 0.1, self.training) @ v).transpose(1, 2).reshape(x.shape)
            x = self.norm1(x + self.o(a))
            return self.norm2(x + self.ffn2(functional.gelu(self.ffn1(x))))

    return nn.Sequential(*(Encoder() for _ in range(2)))


def test_bert_encoders_equal_the_built_in_ones(torch):
    module = encoder(torch, 768, 12)
    graph = from_torch(module, torch.zeros(2, 128, 768))
    built = load_model("bert-base")
    blocks = [n for n in built.layers if n.block in ("encoder 0", "encoder 1")]
    scores = 12 * 128 * 128  # the scaling of scores is an operation of its own here
    assert graph.parameters == sum(n.parameters for n in blocks)
    assert graph.flops == sum(n.flops for n in blocks) + 2 * scores
    second = [n for n in graph.layers if n.block == "1"]
    assert sum(n.saved for n in second) == sum(n.saved for n in blocks if n.block == "encoder 1")
    assert module.training
    assert [len(block) for block in graph.blocks] == [15, 15]


def test_a_convolutional_network_keeps_its_statistics(torch):
    nn = torch.nn
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 4, 1, groups=4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10),
    )  # fmt: skip
    before = module[1].running_mean.clone()
    graph = from_torch(module, torch.ones(2, 3, 17, 17))
    assert torch.equal(module[1].running_mean, before)
    assert graph.parameters == sum(p.numel() for p in module.parameters())
    products = [n.flops for n in graph.layers if n.operator in ("convolution", "matmul")]
    assert products == [2 * 8 * 64 * 27, 2 * 4 * 16 * 2, 2 * 40]
    assert graph.layers[0].output == (8, 8, 8)
    assert graph.layers[-1].output == (10,)


def test_a_module_without_memory(torch):
    module = torch.nn.Linear(4, 10**7, device="meta")
    graph = from_torch(module, torch.zeros(1, 4, device="meta"))
    assert (graph.parameters, graph.flops) == (5 * 10**7, 8e7)


def test_bad_modules_take_one_line(torch):
    nn = torch.nn

    class Branches(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    linear = nn.Linear(4, 4)
    cases = [
        (Branches(), torch.ones(1, 4), "module: cannot be traced (symbolically traced variables"),
        (linear, torch.ones(1, 5), "example_inputs: the module fails ("),
        (linear, 3, "example_inputs: no batch of samples first; allowed: a tensor, or a tuple"),
        (nn.Sequential(nn.LSTM(4, 4)), torch.ones(1, 2, 4), "module: 0 of the class LSTM given; allowed: "),
        (nn.Identity(), torch.ones(1, 4), "layers: none given; allowed: at least one"),
    ]
    for module, inputs, message in cases:
        with pytest.raises(InputError) as caught:
            from_torch(module, inputs)
        assert str(caught.value).startswith(message), str(caught.value)
        assert "\n" not in str(caught.value)
