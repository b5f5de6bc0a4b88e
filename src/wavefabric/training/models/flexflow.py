"""The networks that FlexFlow's simulator has for BERT, Inception and NCF, not those of the papers.

As in its copy for TopoOpt (arXiv:2202.00433; examples/cpp of its code), whose scripts give sizes and batches.
"""

from __future__ import annotations

from dataclasses import replace

from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.models.inception import inception_v3
from wavefabric.training.models.layers import GraphBuilder


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


def inception() -> ModelGraph:
    """Inception-v3 with biases instead of batch normalisation: 23 817 352 parameters.

    Taken with 1000 classes, ReLU after each convolution and sizes as published; FlexFlow's has 10 classes, no
    ReLU in its later blocks and pads one convolution more.
    """
    return replace(
        inception_v3(normalised=False),
        name="flexflow-inception",
        batch=64,
        optimizer="sgd",
        source="batch: 64, FlexFlow's default (src/runtime/model.cc of TopoOpt's copy, arXiv:2202.00433)",
    )


def ncf() -> ModelGraph:
    """4 x 64 tables of a million rows and 7 dense layers of 4096: 24.6 G parameters, 168 M in dense layers.

    Each looks up 100 rows and adds them. The first dense layer has 256 MiB in fp32, the next six 64 MiB each.
    """
    tables, rows, bag, factors, features = 64, 10**6, 100, 64, 128
    graph = GraphBuilder()
    graph.block = "tables"
    found = {}
    for kind, width in (("factors", factors), ("perceptron", features)):
        for who in ("user", "item"):
            found[who, kind] = graph.add(
                f"{who} {kind}",
                "embedding",
                [],
                (tables, width),
                flops=float(tables * width * bag),
                parameters=tables * rows * width,
                split="column",
                backward=1.0,
                used=bag / rows,
            )
    graph.block = "interaction"
    factored = graph.product(
        "factorisation", [found["user", "factors"], found["item", "factors"]], split="local"
    )
    pair = [found["user", "perceptron"], found["item", "perceptron"]]
    joined = graph.concatenation("join", pair, split="local")
    flat = graph.add(
        "flat", "elementwise", [joined], (2 * tables * features,), elements=0.0, split="local", backward=1.0
    )
    product = graph.add(
        "flat product",
        "elementwise",
        [factored],
        (tables * factors,),
        elements=0.0,
        split="local",
        backward=1.0,
    )
    single = graph.linear("factor dense", product, 1, bias=False, split="row")
    single = graph.function("factor sigmoid", single, "sigmoid")
    tower = graph.stack("dense", flat, (4096,) * 7, last="sigmoid", first="row")
    both = graph.concatenation("both", [single, tower])
    graph.function("probability", graph.linear("prediction", both, 1), "sigmoid")
    return ModelGraph(
        "flexflow-ncf",
        tuple(graph.layers),
        sample="100 users and items of each of 64 tables",
        batch=128,
        optimizer="sgd",
        description="FlexFlow's NCF: 256 tables of a million rows, 7 dense layers of 4096",
        source="batch: 128 a GPU (scripts of TopoOpt, arXiv:2202.00433)",
    )
