"""Mixtures of experts: Mixtral 8x7B (arXiv:2401.04088) and Switch-Base (arXiv:2101.03961)."""

from functools import partial

from wavefabric.quantities import whole
from wavefabric.training.models import transformers
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.models.layers import GraphBuilder

SWITCH_VOCABULARY = 32_128
#: Tokens that the decoder predicts of a sequence of 512: 15 % in spans of 3, with a mark for each span and an
#: end (T5, arXiv:1910.10683, section 3.1.4).
SWITCH_TARGETS = 114


def mixtral(tokens: int = 4096) -> ModelGraph:
    """Mixtral 8x7B: 32 blocks of 8 experts, 2 a token; 46 702 792 704 parameters, 12.9 G of them a token."""
    return transformers.llama(
        "mixtral-8x7b", tokens, 32, 4096, (32, 8), partial(experts, inner=14336, count=8, each=2),
        description="decoder of 32 blocks, 8 experts each, 2 a token",
        source="arXiv:2401.04088; how it was trained is not published: 1 sequence a GPU is ours",
    )  # fmt: skip


def switch_base(tokens: int = 512) -> ModelGraph:
    """Switch-Base: T5 encoder and decoder, 12 layers each, 128 experts in every other; 7.4 G parameters."""
    whole("tokens", tokens, 1, transformers.MOST_TOKENS)
    width = 768
    targets = max(1, round(SWITCH_TARGETS * tokens / 512))
    graph = GraphBuilder()
    graph.block = "embedding"
    encoded = graph.embedding("word", (tokens,), SWITCH_VOCABULARY, width)
    for number in range(12):
        graph.block = f"encoder {number}"
        encoded = _switch_block(graph, encoded, "", mixture=number % 2 == 1)
    encoded = graph.normalisation("norm", encoded, scales=1)
    graph.block = "decoder embedding"
    hidden = graph.embedding("word", (targets,), SWITCH_VOCABULARY, width, trained=False)
    for number in range(12):
        graph.block = f"decoder {number}"
        hidden = _switch_block(graph, hidden, encoded, mixture=number % 2 == 1)
    transformers.vocabulary_head(graph, hidden, SWITCH_VOCABULARY)
    return ModelGraph(
        "switch-base",
        tuple(graph.layers),
        f"sequence of {tokens} tokens with {targets} targets",
        batch=64,
        description="12 encoders and 12 decoders of width 768, 128 experts in every other, 1 a token",
        source="batch: 1 048 576 tokens in sequences of 512 on 32 TPU cores (arXiv:2101.03961, section 2.2 "
        "and table 1); its optimizer, Adafactor, is taken as Adam",
    )


def _switch_block(graph: GraphBuilder, hidden: str, encoded: str, *, mixture: bool) -> str:
    """Attention, attention to the encoder's output if there is one, feed-forward network; sums after each."""
    hidden = transformers.attend(graph, hidden, 12, 12)
    if encoded:
        hidden = transformers.attend(graph, hidden, 12, 12, encoded=encoded)

    def product(gate: str, up: str) -> str:
        active = graph.function("gelu", gate, "gelu", split="local")
        return graph.product("gated", [active, up], split="local")

    def network(source: str) -> str:
        if mixture:
            return experts(graph, source, 2048, count=128, each=1)
        return transformers.gated(graph, source, 2048, product)

    return transformers.feed(graph, hidden, network)


def experts(graph: GraphBuilder, source: str, inner: int, *, count: int, each: int) -> str:
    """A router and its experts: gated networks of which each token goes to ``each`` of ``count``.

    The experts are one layer, so that their inputs are sent once and their outputs once. ``used`` is
    each/count: times ``experts`` it is how many experts a token is sent to. Tokens are taken as spread
    evenly, and none as dropped. Tensor parallelism divides every expert by columns and then rows, hence
    ``row``.
    """
    tokens, width = graph.shape(source)
    router = graph.linear("router", source, count, bias=False)
    copies = float(each * tokens)
    size = 3 * width * inner
    # Dispatch, products with gate and up, SiLU times up, product with down, weighted sum.
    elements = tokens * width + copies * width + 2 * copies * (width + inner) + 3 * copies * inner
    elements += copies * (inner + width) + copies * width + tokens * width
    return graph.add(
        "experts",
        "matmul",
        [source, router],
        (tokens, width),
        flops=2.0 * copies * size + copies * (transformers.SWIGLU_FLOPS * inner + 2 * width),
        parameters=count * size,
        elements=elements,
        keep=[router],
        saved=copies * (2 * width + 3 * inner),
        split="row",
        experts=count,
        used=each / count,
    )
