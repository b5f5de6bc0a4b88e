"""Build Inception-v3 for images of 299 x 299 (arXiv:1512.00567): convolutions with batch normalisation."""

from collections.abc import Sequence

from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.models.layers import GraphBuilder

#: A convolution: output channels, kernel size, stride, and whether padding preserves the image size.
Step = tuple[int, tuple[int, int], int, bool]

IMAGE, CLASSES = (3, 299, 299), 1000


def inception_v3(name: str, auxiliary: bool = False) -> ModelGraph:
    """Build Inception-v3: 23 834 568 parameters (27 161 264 with ``auxiliary``), 5.7 G multiply-adds."""
    graph = GraphBuilder()
    hidden = _stem(graph)
    for number, pooled in enumerate((32, 64, 64)):
        hidden = _mixed(graph, f"mixed 5{'bcd'[number]}", hidden, _MIXED_A, pooled)
    hidden = _mixed(graph, "mixed 6a", hidden, _REDUCTION_A, 0)
    for number, channels in enumerate((128, 160, 160, 192)):
        hidden = _mixed(graph, f"mixed 6{'bcde'[number]}", hidden, _mixed_b(channels), 192)
    if auxiliary:
        _auxiliary(graph, hidden)
    hidden = _mixed(graph, "mixed 7a", hidden, _REDUCTION_B, 0)
    for letter in "bc":
        hidden = _mixed_c(graph, f"mixed 7{letter}", hidden)
    graph.block = "classifier"
    _classify(graph, graph.pooling("mean", hidden, (8, 8)))
    return ModelGraph(
        name + ("-auxiliary" if auxiliary else ""),
        tuple(graph.layers),
        sample="image of 299 x 299 pixels",
        batch=32,
        optimizer="rmsprop",
        description=f"{96 if auxiliary else 94} convolutions with ReLU",
        source="batch: 32 on each of 50 GPUs, RMSProp (arXiv:1512.00567, section 8)",
    )


def _unit(graph: GraphBuilder, name: str, source: str | tuple[int, ...], step: Step) -> str:
    """Add a convolution ``step`` (channels, kernel, stride, padded), a batch normalisation and a ReLU."""
    channels, kernel, stride, padded = step
    padding = (kernel[0] // 2, kernel[1] // 2) if padded else (0, 0)
    raw = graph.convolution(name, source, channels, kernel, stride=stride, padding=padding)
    normed = graph.batch_normalisation(f"{name} norm", raw)
    return graph.function(f"{name} relu", normed, "relu", split="local")


def _chain(graph: GraphBuilder, name: str, source: str | tuple[int, ...], steps: Sequence[Step]) -> str:
    for number, step in enumerate(steps):
        source = _unit(graph, f"{name}.{number}", source, step)
    assert isinstance(source, str)
    return source


def _same(channels: int, height: int = 1, width: int = 1) -> Step:
    return channels, (height, width), 1, True


def _halved(channels: int) -> Step:
    return channels, (3, 3), 2, False


def _stem(graph: GraphBuilder) -> str:
    graph.block = "stem"
    hidden = _chain(graph, "a", IMAGE, [_halved(32), (32, (3, 3), 1, False), _same(64, 3, 3)])
    hidden = graph.pooling("a pool", hidden, (3, 3), stride=2, maximum=True)
    hidden = _chain(graph, "b", hidden, [_same(80), (192, (3, 3), 1, False)])
    return graph.pooling("b pool", hidden, (3, 3), stride=2, maximum=True)


def _mixed(
    graph: GraphBuilder, block: str, source: str, branches: Sequence[Sequence[Step]], pooled: int
) -> str:
    """Add a block of parallel branches of convolutions and a pooling branch; return the name of the output.

    ``branches``: for each branch, its convolutions, one after the other. The pooling branch is a mean,
    projected to ``pooled`` channels; if ``pooled`` is 0, a maximum of stride 2.
    """
    graph.block = block
    ends = [_chain(graph, f"branch {number}", source, steps) for number, steps in enumerate(branches)]
    if pooled:
        mean = graph.pooling("pool", source, (3, 3), padding=(1, 1))
        ends.append(_unit(graph, "pool projection", mean, _same(pooled)))
    else:
        ends.append(graph.pooling("pool", source, (3, 3), stride=2, maximum=True))
    return graph.concatenation("join", ends, 0, split="local")


_MIXED_A = [[_same(64)], [_same(48), _same(64, 5, 5)], [_same(64), _same(96, 3, 3), _same(96, 3, 3)]]
_REDUCTION_A = [[_halved(384)], [_same(64), _same(96, 3, 3), _halved(96)]]


def _mixed_b(channels: int) -> list[list[Step]]:
    """Return the branches of a block whose 7 x 7 convolutions are factored into 1 x 7 and 7 x 1."""
    tall, wide = _same(channels, 7, 1), _same(channels, 1, 7)
    return [
        [_same(192)],
        [_same(channels), wide, _same(192, 7, 1)],
        [_same(channels), tall, wide, tall, _same(192, 1, 7)],
    ]


_REDUCTION_B = [[_same(192), _halved(320)], [_same(192), _same(192, 1, 7), _same(192, 7, 1), _halved(192)]]


def _mixed_c(graph: GraphBuilder, block: str, source: str) -> str:
    """Add a block of parallel branches, two of which fork into 1 x 3 and 3 x 1 convolutions."""
    graph.block = block
    ends = [_unit(graph, "branch 0", source, _same(320))]
    for number, steps in enumerate(([_same(384)], [_same(448), _same(384, 3, 3)]), 1):
        fork = _chain(graph, f"branch {number}", source, steps)
        ends += [_unit(graph, f"branch {number} wide", fork, _same(384, 1, 3))]
        ends += [_unit(graph, f"branch {number} tall", fork, _same(384, 3, 1))]
    mean = graph.pooling("pool", source, (3, 3), padding=(1, 1))
    ends.append(_unit(graph, "pool projection", mean, _same(192)))
    return graph.concatenation("join", ends, 0, split="local")


def _auxiliary(graph: GraphBuilder, source: str) -> None:
    """Add the auxiliary classifier after the last 17 x 17 block."""
    graph.block = "auxiliary"
    mean = graph.pooling("mean", source, (5, 5), stride=3)
    _classify(graph, _chain(graph, "unit", mean, [_same(128), (768, (5, 5), 1, False)]))


def _classify(graph: GraphBuilder, source: str) -> None:
    """Add the class scores and the loss; ``source`` has one pixel with many channels."""
    flat = graph.add("flat", "elementwise", [source], graph.shape(source)[:1], elements=0.0, backward=1.0)
    graph.loss("loss", graph.linear("logits", flat, CLASSES))
