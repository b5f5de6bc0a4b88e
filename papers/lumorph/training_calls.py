"""How gradients of a model may be divided among all-reduces: by layer, tensor or operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from papers.lumorph.training import loaded, merged, workload
from wavefabric.training.iteration.task_graph import TaskGraph
from wavefabric.training.iteration.tasks import build_tasks
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.models.layers import GraphBuilder
from wavefabric.training.strategies.strategy import LayerLayout


@dataclass(frozen=True)
class Division:
    """A model of which the gradients are all-reduced in certain calls.

    Parameters
    ----------
    figure : str
        Of `papers.lumorph.training.CASES`.
    label : str
    make : callable
        Gives the model.
    bucket : float
        B of gradients in a call; 0: each layer's.
    tensors : bool
        Weights and biases, or the two of a normalisation, in calls of their own.
    tables : bool
        Features of NCF's tables are divided among up to 64 GPUs, which exchange them by all-to-alls.
    """

    figure: str
    label: str
    make: Callable[[], ModelGraph]
    bucket: float = 0.0
    tensors: bool = False
    tables: bool = False

    def tasks(self, ranks: int, batch: int) -> TaskGraph:
        """An iteration with so many samples a GPU."""
        model = replace(self.make(), tensor_calls=self.tensors)
        shared = min(64, ranks)
        own = {
            layer.name: LayerLayout(ranks // shared, shared)
            for layer in model.layers
            if self.tables and layer.block == "tables"
        }
        return build_tasks(workload(model, ranks, batch=batch, bucket=self.bucket, layers=own))


def attention_in_one(model: ModelGraph) -> ModelGraph:
    """BERT with the four products of an attention in one call, as an operator of FlexFlow or PyTorch is."""
    first = {}
    for layer in model.layers:
        part = layer.name.removeprefix(f"{layer.block} ")
        if layer.block.startswith("encoder") and part in ("key", "value", "output"):
            first[layer.name] = f"{layer.block} query"
    return merged(model, first)


def three_a_block(model: ModelGraph) -> ModelGraph:
    """BERT with three calls an encoder (attention, two linear layers) and one for the embeddings."""
    model = attention_in_one(model)
    first = {}
    for layer in model.layers:
        part = layer.name.removeprefix(f"{layer.block} ")
        if layer.block.startswith("encoder") and part in ("attention norm", "ffn norm"):
            first[layer.name] = f"{layer.block} {'query' if part == 'attention norm' else 'ffn2'}"
        elif layer.block == "embeddings" and layer.parameters and part != "word":
            first[layer.name] = "embeddings word"
    return merged(model, first)


def normalisation_with_convolution(model: ModelGraph) -> ModelGraph:
    """Inception-v3 with the scales of a batch normalisation in the call of the convolution before it."""
    norms = (layer for layer in model.layers if layer.operator == "normalisation")
    return merged(model, {layer.name: layer.inputs[0] for layer in norms})


def without_normalisation(model: ModelGraph) -> ModelGraph:
    """Inception-v3 as in FlexFlow's examples (examples/cpp/InceptionV3), which leave normalisations out."""
    gone = {layer.name: layer.inputs[0] for layer in model.layers if layer.operator == "normalisation"}
    layers = tuple(
        replace(layer, inputs=tuple(gone.get(name, name) for name in layer.inputs))
        for layer in model.layers
        if layer.name not in gone
    )
    return replace(model, layers=layers, batch=16, source="64 on 4 GPUs (scripts/osdi22ae/inception.sh)")


def flexflow_transformer() -> ModelGraph:
    """The Transformer that FlexFlow has for BERT in its examples and in its artifact of OSDI 2022.

    12 blocks of an attention and two linear layers 1024 wide, no biases, no sums, no normalisation; 512
    tokens; stochastic gradient descent; 8 samples on 4 GPUs (examples/cpp/Transformer/transformer.cc and
    scripts/osdi22ae/bert.sh of github.com/flexflow/FlexFlow).
    """
    graph, width = GraphBuilder(), 1024
    source: str | tuple[int, ...] = (512, width)
    for number in range(12):
        graph.block = f"encoder {number}"
        parts = [graph.linear(part, source, width, bias=False) for part in ("query", "key", "value")]
        attended = graph.attention("attention", *parts, heads=16)
        hidden = graph.linear("output", attended, width, bias=False)
        hidden = graph.function("relu", graph.linear("ffn1", hidden, width, bias=False), "relu")
        source = graph.linear("ffn2", hidden, width, bias=False)
    graph.block = ""
    graph.linear("last", source, 1, bias=False)
    sample = "sequence of 512 tokens"
    model = ModelGraph("flexflow", tuple(graph.layers), sample, 2, "sgd", source="8 samples on 4 GPUs")
    return attention_in_one(model)


def _of(name: str, change: Callable[[ModelGraph], ModelGraph] = lambda model: model):
    return lambda: change(loaded(name))


#: The first of each model is the fixed setting's.
DIVISIONS = (
    Division("Bert", "BERT-large, a layer", _of("bert-large")),
    Division("Bert", "BERT-large, a tensor", _of("bert-large"), tensors=True),
    Division("Bert", "BERT-large, attention in one", _of("bert-large", attention_in_one)),
    Division("Bert", "BERT-large, 25 MB", _of("bert-large"), bucket=25e6),
    Division("Bert", "BERT-base, a layer", _of("bert-base")),
    Division("Bert", "BERT-base, three a block", _of("bert-base", three_a_block)),
    Division("Bert", "FlexFlow's Transformer", flexflow_transformer),
    Division("Inception", "a layer", _of("inception-v3")),
    Division("Inception", "a tensor", _of("inception-v3"), tensors=True),
    Division(
        "Inception", "normalisation with convolution", _of("inception-v3", normalisation_with_convolution)
    ),
    Division("Inception", "25 MB", _of("inception-v3"), bucket=25e6),
    Division("Inception", "FlexFlow's, without norms", _of("inception-v3", without_normalisation)),
    Division("NCF", "a layer", _of("ncf")),
    Division("NCF", "a tensor", _of("ncf"), tensors=True),
    Division("NCF", "25 MB", _of("ncf"), bucket=25e6),
    Division("NCF", "a layer, tables divided", _of("ncf"), tables=True),
)
