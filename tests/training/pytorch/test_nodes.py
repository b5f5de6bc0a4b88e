"""Traced nodes as layers, with fake nodes and modules of PyTorch, of which only names are read."""

import operator
from math import prod
from types import SimpleNamespace

import pytest

from wavefabric.base.errors import InputError
from wavefabric.training.pytorch.export import GraphReader


class Weight:
    def __init__(self, *shape, requires_grad=True):
        self.shape, self.requires_grad = shape, requires_grad

    def numel(self):
        return prod(self.shape)


class Module:
    def __init__(self, *weights, **values):
        self.weights = weights
        if weights:
            self.weight = weights[0]
        self.__dict__.update(values)

    def parameters(self):
        return iter(self.weights)


def module(name, *shapes, **values):
    """A module of a class of this name with parameters of these shapes."""
    return type(name, (Module,), {})(*(Weight(*shape) for shape in shapes), **values)


class Trace:
    """Nodes as ``torch.fx`` gives them, for two samples."""

    def __init__(self, **modules):
        self.modules = {"": SimpleNamespace(), **{k.replace("__", "."): m for k, m in modules.items()}}
        self.nodes = []

    def node(self, op, target, args, shape, stack=(), **kwargs):
        name = getattr(target, "__name__", str(target)).replace(".", "_")
        meta = {"nn_module_stack": dict.fromkeys(stack)} if stack is not None else {}
        if shape is not None:
            meta["tensor_meta"] = SimpleNamespace(shape=shape)
        node = Node(op, f"{name}_{len(self.nodes)}", target, args, kwargs, meta)
        self.nodes.append(node)
        return node

    def input(self, *shape):
        return self.node("placeholder", "x", (), shape)

    def module(self, target, *args, shape):
        return self.node("call_module", target, args, shape)

    def function(self, target, *args, shape, **kwargs):
        return self.node("call_function", named(target), args, shape, **kwargs)

    def layers(self):
        reader = GraphReader(self.modules, 2)
        reader.read(self.nodes)
        return reader.builder.layers


class Node(SimpleNamespace):
    def __init__(self, op, name, target, args, kwargs, meta):
        inputs = [a for a in args if isinstance(a, Node)]
        super().__init__(
            op=op, name=name, target=target, args=args, kwargs=kwargs, meta=meta, all_input_nodes=inputs
        )

    __hash__ = object.__hash__
    __eq__ = object.__eq__


def named(name):
    function = SimpleNamespace(__name__=name) if isinstance(name, str) else name
    return function


def test_a_perceptron():
    trace = Trace(net__0=module("Linear", (8, 4), (8,)), net__2=module("Linear", (3, 8), (3,)))
    x = trace.input(2, 5, 4)
    hidden = trace.module("net.0", x, shape=(2, 5, 8))
    active = trace.function("relu", hidden, shape=(2, 5, 8))
    trace.module("net.2", trace.function("dropout", active, shape=(2, 5, 8)), shape=(2, 5, 3))
    first, relu, last = trace.layers()
    assert (first.operator, first.inputs, first.output, first.parameters) == ("matmul", (), (5, 8), 40)
    assert (first.flops, first.elements, first.saved, first.backward) == (2 * 5 * 4 * 8, 20 + 40, 20, 1)
    assert (relu.operator, relu.flops, relu.saved, relu.inputs) == ("elementwise", 40, 40, (first.name,))
    assert (last.flops, last.saved, last.backward, last.block) == (2 * 5 * 8 * 3, 0, 2, "net.2")
    assert last.inputs == (relu.name,)


def test_convolution_normalisation_and_pooling():
    trace = Trace(
        conv=module("Conv2d", (8, 3, 3, 5), (8,)),
        up=module("ConvTranspose2d", (8, 6, 2, 2)),
        norm=module("BatchNorm2d", (8,), (8,)),
        pool=module("MaxPool2d"),
    )
    x = trace.input(2, 3, 16, 16)
    conv = trace.module("conv", x, shape=(2, 8, 14, 12))
    norm = trace.module("norm", conv, shape=(2, 8, 14, 12))
    pool = trace.module("pool", norm, shape=(2, 8, 7, 6))
    trace.module("up", pool, shape=(2, 6, 14, 12))
    first, normed, pooled, up = trace.layers()
    assert first.flops == 2 * 8 * 14 * 12 * 3 * 3 * 5
    assert first.parameters == 8 * 3 * 3 * 5 + 8
    assert (normed.elements, normed.saved, normed.parameters) == (3 * 8 * 14 * 12, 8 * 14 * 12, 16)
    assert (pooled.operator, pooled.saved) == ("pooling", 8 * 14 * 12 + 8 * 7 * 6)
    assert up.flops == 2 * (8 * 7 * 6) * 6 * 2 * 2


def test_attention_in_three_ways():
    trace = Trace(mha=module("MultiheadAttention", (12, 4), embed_dim=4, num_heads=2, batch_first=True))
    x = trace.input(2, 5, 4)
    trace.module("mha", x, x, x, shape=(2, 5, 4))
    heads = [trace.input(2, 2, 5, 2) for _ in range(3)]
    trace.function("scaled_dot_product_attention", *heads, shape=(2, 2, 5, 2))
    scores = trace.function("matmul", heads[0], heads[1], shape=(2, 2, 5, 5))
    trace.function(operator.matmul, trace.function("softmax", scores, shape=(2, 2, 5, 5)), heads[2],
                   shape=(2, 2, 5, 2))  # fmt: skip
    trace.function("einsum", "bhqd,bhkd->bhqk", heads[0], heads[1], shape=(2, 2, 5, 5))
    projected, fused, first, softmax, second, einsum = trace.layers()
    inside = 4 * 5 * 5 * 4 + 5 * 2 * 5 * 5
    assert projected.flops == 4 * 2 * 5 * 4 * 4 + inside
    assert (projected.parameters, projected.saved) == (48, 5 * 4 + 4 * 5 * 4 + 2 * 5 * 5)
    assert (fused.flops, fused.operator, fused.backward) == (inside, "attention", 2.5)
    assert first.flops + softmax.flops + second.flops == inside
    assert einsum.flops == first.flops


def test_tables_and_shared_parameters():
    table = module("Embedding", (100, 4))
    trace = Trace(table=table)
    trace.modules[""].position = Weight(1, 5, 4)
    trace.modules[""].constant = Weight(1, 5, 4, requires_grad=False)
    trace.modules[""].head = table.weight
    ids = trace.input(2, 5)
    result = trace.module("table", ids, shape=(2, 5, 4))
    position = trace.node("get_attr", "position", (), (1, 5, 4))
    constant = trace.node("get_attr", "constant", (), (1, 5, 4))
    total = trace.function(operator.add, result, position, shape=(2, 5, 4))
    total = trace.function(operator.add, total, constant, shape=(2, 5, 4))
    weight = trace.node("get_attr", "head", (), (100, 4))
    trace.function("linear", total, weight, shape=(2, 5, 100))
    looked_up, first, second, tied = trace.layers()
    assert (looked_up.operator, looked_up.parameters, looked_up.used) == ("embedding", 400, 0.05)
    assert (first.parameters, second.parameters) == (20, 0)
    assert (tied.parameters, tied.flops) == (0, 2 * 5 * 4 * 100)


def test_views_and_numbers_are_no_layers():
    trace = Trace()
    x = trace.input(2, 6)
    size = trace.node("call_method", "size", (x, 0), None)
    seen = trace.node("call_method", "view", (x, size, 2, 3), (2, 2, 3))
    halves = trace.node("call_method", "chunk", (seen, 2), None)
    halves.meta["tensor_meta"] = [SimpleNamespace(shape=(2, 1, 3))] * 2
    half = trace.function(operator.getitem, halves, 0, shape=(2, 1, 3))
    trace.function("cat", [half, half], 1, shape=(2, 2, 3))
    (layer,) = trace.layers()
    assert (layer.operator, layer.inputs, layer.output) == ("elementwise", (), (2, 3))


def test_blocks_are_numbered_modules():
    trace = Trace(encoder__layers__3__ffn=module("Linear", (4, 4)), head=module("Linear", (4, 4)))
    x = trace.input(2, 4)
    y = trace.module("encoder.layers.3.ffn", x, shape=(2, 4))
    z = trace.node("call_function", named("gelu"), (y,), (2, 4), stack=("encoder", "encoder.layers.3@1"))
    z = trace.node("call_function", named("gelu"), (z,), (2, 4), stack=None)
    trace.module("head", z, shape=(2, 4))
    assert [layer.block for layer in trace.layers()] == ["encoder.layers.3"] * 3 + [""]


def test_unknown_functions_warn_and_unknown_modules_are_refused():
    trace = Trace(cell=module("LSTM", (4, 4)))
    x = trace.input(2, 4)
    trace.function("fold_twice", x, shape=(2, 4))
    with pytest.warns(UserWarning, match="fold_twice_1: foldtwice is not known and taken as elementwise"):
        (layer,) = trace.layers()
    assert (layer.operator, layer.elements) == ("elementwise", 8)
    trace.nodes.pop()
    trace.module("cell", x, shape=(2, 4))
    with pytest.raises(InputError, match="module: cell of the class LSTM given; allowed: "):
        trace.layers()


def test_einsum_with_dots_is_refused():
    trace = Trace()
    x = trace.input(2, 4, 4)
    trace.function("einsum", "...ab,...bc->...ac", x, x, shape=(2, 4, 4))
    with pytest.raises(InputError, match=r"einsum_1: einsum of .* given; allowed: a letter for each dim"):
        trace.layers()
