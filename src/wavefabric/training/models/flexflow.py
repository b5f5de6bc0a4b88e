"""The networks that FlexFlow's simulator has for BERT, Inception and NCF, not those of the papers.

As in its copy for TopoOpt (arXiv:2202.00433; examples/cpp of its code), whose scripts give sizes and batches.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wavefabric.errors import InputError, show
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.models.inception import inception_v3
from wavefabric.training.models.layers import GraphBuilder, check_whole


def transformer() -> ModelGraph:
    """12 encoders and 12 decoders of width 1024, feed-forward networks as wide: 201 376 769 parameters.

    The four matrices of an attention are one tensor of 16 MiB in fp32; there are no embeddings.
    """
    tokens, width = 64, 1024
    graph = GraphBuilder()
    encoded: str | tuple[int, ...] = (tokens, width)
    decoded: str | tuple[int, ...] = (tokens, width)
    for number in range(12):
        graph.block = f"block {number}"
        attended = _attention(graph, "encoder attention", encoded, encoded)
        encoded = _feed_forward(graph, "encoder", attended)
        attended = _attention(graph, "decoder attention", decoded, decoded)
        crossed = _attention(graph, "cross attention", attended, encoded)
        decoded = _feed_forward(graph, "decoder", crossed)
    graph.block = "head"
    graph.linear("dense", decoded, 1)
    return ModelGraph(
        "flexflow-transformer",
        tuple(graph.layers),
        sample=f"sequence of {tokens} vectors",
        batch=16,
        optimizer="sgd",
        tensor_calls=True,
        description="FlexFlow's Transformer: 36 attentions and 48 dense layers of width 1024",
        source="batch: 16 a GPU, 64 tokens, 12 layers, 16 heads (scripts of TopoOpt, arXiv:2202.00433)",
    )


def _attention(graph: GraphBuilder, name: str, source: str | tuple[int, ...], others: str | tuple) -> str:
    """FlexFlow's operator of query, key, value and output projections in one, and the sum after it."""
    tokens, width = graph.shape(source)
    keys, scores = graph.shape(others)[0], 16.0 * tokens * graph.shape(others)[0]
    projections = 4.0 * (tokens + keys) * width * width
    inside = float((tokens + 2 * keys + tokens) * width)
    attended = graph.add(
        name,
        "matmul",
        [source, others],
        (tokens, width),
        flops=projections + 4.0 * tokens * keys * width,
        parameters=4 * width * width,
        elements=float((tokens + keys) * width) + 2 * inside + 4 * scores + tokens * width,
        keep=dict.fromkeys([source, others]),
        saved=inside + scores,
        split="row",
    )
    return graph.sum(f"{name} sum", [attended, source])


def _feed_forward(graph: GraphBuilder, name: str, source: str) -> str:
    width = graph.shape(source)[-1]
    first = graph.linear(f"{name} dense 1", source, width, split="column")
    active = graph.function(f"{name} relu", first, "relu", split="local")
    return graph.linear(f"{name} dense 2", active, width, split="row")


def inception(classes: int = 1000) -> ModelGraph:
    """Inception-v3 with biases instead of batch normalisation: 23 817 352 parameters of 1000 classes.

    ReLU after each convolution and sizes are as published; FlexFlow's has 10 classes, no ReLU in its later
    blocks and pads one convolution more.
    """
    return replace(
        inception_v3(normalised=False, classes=classes),
        name="flexflow-inception",
        batch=64,
        optimizer="sgd",
        tensor_calls=True,
        source="batch: 64, FlexFlow's default (src/runtime/model.cc of TopoOpt's copy, arXiv:2202.00433)",
    )


def ncf(tables: int = 64, replicated: int = 0) -> ModelGraph:
    """4 x ``tables`` tables of a million rows and 7 dense layers of 4096: 24.7 G parameters of 64.

    Each looks up 100 rows and adds them. No table is divided: GPUs hold whole ones, half of them 64 and half
    128 features wide, each of which counts as 96. ``replicated`` of those 64 wide are on all GPUs. With 64
    the first dense layer has 256 MiB in fp32, the next six 64 MiB each.
    """
    check_whole("tables", tables, 10**4)
    if replicated not in range(tables):
        raise InputError(f"replicated: {show(replicated)} given; allowed: 0 to {tables - 1}")
    rows, bag, factors, features = 10**6, 100, 64, 128
    graph = GraphBuilder()
    graph.block = "tables"

    def looked_up(name: str, widths: list[int], **where: Any) -> str:
        """Rows of tables. Few of so many are in a cache: each is read, and its gradient added, by itself."""
        width = sum(widths)
        tensors = tuple(rows * each for each in widths)
        work = {"flops": float(width * bag), "elements": float(width * (bag + 1)), "used": 1 / (rows * width)}
        return graph.add(name, "embedding", [], (width,), tensors=tensors, backward=1.0, **work, **where)

    widths = [factors] * (2 * tables - replicated) + [features] * 2 * tables
    found = [looked_up("rows", widths, split="local", whole=len(widths))]
    graph.block = "interaction"
    if replicated:
        found.append(looked_up("replicated rows", [factors] * replicated))
    joined = (("user factors", factors), ("item factors", factors), ("flat", 2 * features))
    alone: dict[str, Any] = {"elements": 0.0, "split": "local", "backward": 1.0}
    pairs = {name: graph.add(name, "elementwise", found, (tables * size,), **alone) for name, size in joined}
    product = graph.product("factorisation", [pairs["user factors"], pairs["item factors"]], split="local")
    single = graph.linear("factor dense", product, 1, bias=False, split="row")
    single = graph.function("factor sigmoid", single, "sigmoid")
    tower = graph.stack("dense", pairs["flat"], (4096,) * 7, last="sigmoid", first="row")
    both = graph.concatenation("both", [single, tower])
    graph.function("probability", graph.linear("prediction", both, 1), "sigmoid")
    return ModelGraph(
        "flexflow-ncf",
        tuple(graph.layers),
        sample=f"100 users and items of each of {tables} tables",
        batch=128,
        optimizer="sgd",
        description=f"FlexFlow's NCF: {4 * tables} tables of a million rows, 7 dense layers of 4096",
        source="batch: 128 a GPU (scripts of TopoOpt, arXiv:2202.00433)",
        tensor_calls=True,
    )
