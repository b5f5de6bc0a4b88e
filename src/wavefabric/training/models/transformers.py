"""Build transformers: Llama 2 and 3, GPT-3 (arXiv:2005.14165), BERT, mixtures of experts.

Llama 2 (arXiv:2307.09288), Llama 3 (arXiv:2407.21783) and GPT-3 are decoders. BERT (arXiv:1810.04805) is a
stack of encoders with two pre-training heads. Mixtral 8x7B (arXiv:2401.04088) and Switch-Base
(arXiv:2101.03961) are mixtures of experts.
"""

from collections.abc import Callable
from functools import partial
from math import ceil, prod
from typing import Any

from wavefabric.base.arguments import whole
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.models.layers import FUNCTION_FLOPS, GraphBuilder

LLAMA_VOCABULARY, LLAMA3_VOCABULARY, GPT_VOCABULARY = 32_000, 128_256, 50_257
#: Number of learned position embeddings of GPT-3.
GPT_POSITIONS = 2048
MOST_TOKENS = 2**20
#: FLOPs per element of SwiGLU: SiLU of a tensor, times another tensor.
SWIGLU_FLOPS = FUNCTION_FLOPS["silu"] + 1
#: BERT: tokens of the uncased vocabulary, and positions, of the published checkpoints.
BERT_VOCABULARY, BERT_POSITIONS = 30522, 512
#: BERT: fraction of the tokens that are masked and predicted.
MASKED = 0.15
SWITCH_VOCABULARY = 32_128
#: Switch-Base: tokens that the decoder predicts per sequence of 512: 15 % in spans of 3, plus one mark per
#: span and an end (T5, arXiv:1910.10683, section 3.1.4).
SWITCH_TARGETS = 114


#: Llama 2: blocks, width, inner width, heads of queries, and of keys and values.
LLAMA = {
    "gpt-7b": (32, 4096, 11008, (32, 32)),  # 6 738 415 616 parameters
    "gpt-70b": (80, 8192, 28672, (64, 8)),  # 68 976 648 192 parameters
}
#: Llama 3: the same (arXiv:2407.21783, table 3).
LLAMA3 = {
    "llama3-8b": (32, 4096, 14336, (32, 8)),  # 8 030 261 248 parameters
    "llama3-70b": (80, 8192, 28672, (64, 8)),  # 70 553 706 496 parameters
    "llama3-405b": (126, 16384, 53248, (128, 8)),  # 405 853 388 800 parameters
}
#: GPT-3: blocks, width, heads, and the published batch.
GPT = {
    "gpt3-6.7b": (32, 4096, 32, "2 M tokens"),  # 6.66 G parameters
    "gpt3-175b": (96, 12288, 96, "3.2 M tokens"),  # 174.6 G parameters
}
#: BERT: encoders, width, heads, samples per chip.
BERT = {
    "bert-base": (12, 768, 12, 16),  # 110 106 428 parameters with both heads (109 482 240 without)
    "bert-large": (24, 1024, 16, 4),  # 336 226 108 parameters with both heads (335 141 888 without)
}


def attention(
    graph: GraphBuilder, hidden: str, heads: int, groups: int, *, bias=False, fused=True, encoded: str = ""
) -> str:
    """Add the query, key, value and output projections and the attention, without the residual sum.

    Queries have ``heads`` heads, computed from the layer ``hidden``. Keys and values have ``groups`` heads,
    computed from the layer ``encoded`` if given (cross-attention), else from ``hidden``. Rotary positions, 6
    FLOPs per element of two tensors, are not counted.
    """
    width, cross = graph.shape(hidden)[-1], "cross " if encoded else ""
    narrow, source = width // heads * groups, encoded or hidden
    query = graph.linear(f"{cross}query", hidden, width, bias=bias, split="column")
    key = graph.linear(f"{cross}key", source, narrow, bias=bias, split="column")
    value = graph.linear(f"{cross}value", source, narrow, bias=bias, split="column")
    attended = graph.attention(f"{cross}attention", query, key, value, heads, fused=fused)
    return graph.linear(f"{cross}output", attended, width, bias=bias, split="row")


def attend(
    graph: GraphBuilder, hidden: str, heads: int, groups: int, *, scales: int = 1, encoded: str = ""
) -> str:
    """Add a normalisation of the layer ``hidden``, the attention, and the residual sum.

    ``scales`` 2: layer norm, and projections with biases. 1: RMS norm, and projections without. ``groups``:
    heads of keys and values. ``encoded``: layer from which these are computed, if not from ``hidden``.
    """
    kind = "cross" if encoded else "attention"
    normed = graph.normalisation(f"{kind} norm", hidden, scales=scales)
    attended = attention(graph, normed, heads, groups, bias=scales > 1, encoded=encoded)
    return graph.sum(f"{kind} sum", [hidden, attended])


def feed(graph: GraphBuilder, hidden: str, network: Callable[[str], str], *, scales: int = 1) -> str:
    """Add normalisation, the feed-forward network that ``network(layer)`` adds, and the residual sum."""
    return graph.sum("ffn sum", [hidden, network(graph.normalisation("ffn norm", hidden, scales=scales))])


def gated(graph: GraphBuilder, source: str, inner: int, product: Callable[[str, str], str]) -> str:
    """Add a gated feed-forward network: projections ``gate`` and ``up``, their ``product``, and ``down``."""
    gate, up = (graph.linear(kind, source, inner, bias=False, split="column") for kind in ("gate", "up"))
    return graph.linear("down", product(gate, up), graph.shape(source)[-1], bias=False, split="row")


def llama(
    name: str, tokens: int, blocks: int, width: int, heads: tuple[int, int], network: Any,
    vocabulary: int = LLAMA_VOCABULARY, **recipe: Any,
) -> ModelGraph:  # fmt: skip
    """Build a decoder like Llama, without biases, for sequences of ``tokens`` tokens.

    ``width``: features of a token. ``heads``: number of query heads, and number of key/value heads.
    ``network(graph, source)`` adds the feed-forward network of a block. ``recipe``: batch, description and
    source of the `ModelGraph`.
    """

    def block(graph: GraphBuilder, hidden: str, _: int) -> str:
        return feed(graph, attend(graph, hidden, *heads), lambda source: network(graph, source))

    return decoder(name, tokens, (vocabulary, width), blocks, block, **recipe)


def decoder(
    name: str, tokens: int, words: tuple[int, int], blocks: int, block: Callable[..., str], **recipe: Any
) -> ModelGraph:
    """Build a decoder for sequences of ``tokens`` tokens: word embeddings, blocks and the head.

    ``words``: number of words, and features of each. ``block(graph, source, number)`` adds a block.
    ``recipe``: batch, description and source of the `ModelGraph`.
    """
    whole("tokens", tokens, 1, MOST_TOKENS)
    graph = GraphBuilder()
    graph.block = "embedding"
    hidden = graph.embedding("word", (tokens,), *words)
    for number in range(blocks):
        graph.block = f"block {number}"
        hidden = block(graph, hidden, number)
    vocabulary_head(graph, hidden, words[0])
    return ModelGraph(name, tuple(graph.layers), f"sequence of {tokens} tokens", **recipe)


def swiglu(graph: GraphBuilder, source: str, inner: int) -> str:
    """Add a gated feed-forward network with SiLU(gate) × up, counted as one kernel (arXiv:2002.05202)."""

    def product(gate: str, up: str) -> str:
        shape = graph.shape(gate)
        return graph.add(
            "silu", "elementwise", [gate, up], shape, flops=float(SWIGLU_FLOPS * prod(shape)),
            keep=[gate, up], split="local", backward=5 / 3,
        )  # fmt: skip

    return gated(graph, source, inner, product)


def llama2(name: str, tokens: int = 4096) -> ModelGraph:
    """Build the Llama 2 model ``name``, a key of `LLAMA`, with fused attention."""
    blocks, width, inner, heads = LLAMA[name]
    return llama(
        name, tokens, blocks, width, heads, partial(swiglu, inner=inner),
        description=f"Llama 2: {blocks} blocks of width {width}",
        source="batch: 4 M tokens, which is 1024 sequences of 4096, AdamW (arXiv:2307.09288, section 2.2); "
        "the number of GPUs is not published, 1 per GPU is ours",
    )  # fmt: skip


def llama3(name: str, tokens: int = 8192) -> ModelGraph:
    """Build the Llama 3 model ``name``, a key of `LLAMA3`, with fused attention; of 3.1 with more tokens."""
    blocks, width, inner, heads = LLAMA3[name]
    return llama(
        name, tokens, blocks, width, heads, partial(swiglu, inner=inner), LLAMA3_VOCABULARY,
        description=f"Llama 3: {blocks} blocks of width {width}",
        source="batch of the 405B: 4 to 16 M tokens in sequences of up to 8192, then up to 131072, AdamW "
        "(arXiv:2407.21783, section 3.4); 1 per GPU is ours",
    )  # fmt: skip


def gpt3(name: str, tokens: int = GPT_POSITIONS) -> ModelGraph:
    """Build the GPT-3 model ``name``, a key of `GPT`, with fused attention."""
    whole("tokens", tokens, 1, GPT_POSITIONS)
    blocks, width, heads, batch = GPT[name]
    graph = GraphBuilder()
    graph.block = "embedding"
    word = graph.embedding("word", (tokens,), GPT_VOCABULARY, width)
    position = graph.embedding("position", (tokens,), GPT_POSITIONS, width, split="none")
    hidden = graph.sum("sum", [word, position])
    for number in range(blocks):
        graph.block = f"block {number}"
        middle = attend(graph, hidden, heads, heads, scales=2)
        hidden = feed(graph, middle, lambda source: wide_gelu(graph, source, 4 * width), scales=2)
    vocabulary_head(graph, hidden, GPT_VOCABULARY, tied=True, scales=2)
    return ModelGraph(
        name,
        tuple(graph.layers),
        f"sequence of {tokens} tokens",
        description=f"GPT-3: {blocks} blocks of width {width}",
        source=f"batch: {batch} in sequences of 2048, Adam (arXiv:2005.14165, table 2.1); "
        "the number of GPUs is not published, 1 per GPU is ours",
    )


def wide_gelu(graph: GraphBuilder, source: str, inner: int) -> str:
    """Add a feed-forward network: linear to ``inner`` features, GELU, linear back."""
    active = graph.function(
        "gelu", graph.linear("ffn1", source, inner, split="column"), "gelu", split="local"
    )
    return graph.linear("ffn2", active, graph.shape(source)[-1], split="row")


def vocabulary_head(
    graph: GraphBuilder, hidden: str, vocabulary: int, *, tied: bool = False, scales: int = 1
) -> None:
    """Add the last normalisation, the logits and the loss; tensor parallelism divides the vocabulary.

    ``tied``: the logits use the matrix of the word embedding. ``scales``: as for `attend`. Summing the loss
    over the parts of the vocabulary is not counted as communication.
    """
    graph.block = "head"
    normed = graph.normalisation("norm", hidden, scales=scales)
    logits = graph.linear("logits", normed, vocabulary, bias=False, split="column", tied=tied)
    graph.loss("loss", logits, split="local")


def bert(name: str, tokens: int = 128) -> ModelGraph:
    """Build the BERT model ``name``, a key of `BERT`, with both heads and attention that is not fused."""
    whole("tokens", tokens, 1, BERT_POSITIONS)
    blocks, width, heads, batch = BERT[name]
    graph = GraphBuilder()
    hidden = _embeddings(graph, tokens, width)
    for number in range(blocks):
        graph.block = f"encoder {number}"
        hidden = encoder(graph, hidden, heads)
    _heads(graph, hidden, width)
    return ModelGraph(
        name,
        tuple(graph.layers),
        f"sequence of {tokens} tokens",
        batch,
        description=f"{blocks} encoders of width {width} with the heads for masked tokens and next sentence",
        source=f"batch: 256 sequences on {256 // batch} TPU chips, {batch} a chip (arXiv:1810.04805, section "
        "A.2); 128 tokens, the length of its first 90 % of steps",
    )


def _embeddings(graph: GraphBuilder, tokens: int, width: int) -> str:
    graph.block = "embeddings"
    word = graph.embedding("word", (tokens,), BERT_VOCABULARY, width)
    position = graph.embedding("position", (tokens,), BERT_POSITIONS, width, split="none")
    kind = graph.embedding("type", (tokens,), 2, width, split="none")
    return graph.normalisation("norm", graph.sum("sum", [word, position, kind]))


def encoder(graph: GraphBuilder, hidden: str, heads: int) -> str:
    """Add an encoder: attention and a feed-forward network, with normalisation after each sum."""
    projected = attention(graph, hidden, heads, heads, bias=True, fused=False)
    middle = graph.normalisation("attention norm", graph.sum("attention sum", [hidden, projected]))
    narrow = wide_gelu(graph, middle, 4 * graph.shape(hidden)[-1])
    return graph.normalisation("ffn norm", graph.sum("ffn sum", [middle, narrow]))


def _heads(graph: GraphBuilder, hidden: str, width: int) -> None:
    """Add BERT's two heads: masked tokens, and whether the second sentence follows the first.

    The first head shares the matrix of the word embedding. The second reads only the first token.
    """
    tokens = graph.shape(hidden)[0]
    masked = ceil(MASKED * tokens)
    graph.block = "heads"
    gathered = graph.add(
        "masked tokens", "elementwise", [hidden], (masked, width), elements=2.0 * masked * width, backward=1.0
    )
    changed = graph.function("transform gelu", graph.linear("transform", gathered, width), "gelu")
    logits = graph.linear(
        "decoder", graph.normalisation("transform norm", changed), BERT_VOCABULARY, split="column", tied=True
    )
    graph.loss("masked loss", logits, split="local")
    first = graph.add("first token", "elementwise", [hidden], (width,), elements=2.0 * width, backward=1.0)
    pooled = graph.function("pooler tanh", graph.linear("pooler", first, width), "tanh")
    graph.loss("sentence loss", graph.linear("next sentence", pooled, 2))


def mixtral(name: str, tokens: int = 4096) -> ModelGraph:
    """Build Mixtral 8x7B: 46 702 792 704 parameters, of which each token uses 12.9 G (2 of 8 experts)."""
    return llama(
        name, tokens, 32, 4096, (32, 8), partial(experts, inner=14336, count=8, each=2),
        description="decoder of 32 blocks, 8 experts each, 2 a token",
        source="arXiv:2401.04088; how it was trained is not published: 1 sequence a GPU is ours",
    )  # fmt: skip


def switch_base(name: str, tokens: int = 512) -> ModelGraph:
    """Build Switch-Base: T5 with 12 + 12 blocks, 128 experts in every other block; 7.4 G parameters."""
    whole("tokens", tokens, 1, MOST_TOKENS)
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
    vocabulary_head(graph, hidden, SWITCH_VOCABULARY)
    return ModelGraph(
        name,
        tuple(graph.layers),
        f"sequence of {tokens} tokens with {targets} targets",
        batch=64,
        description="12 encoders and 12 decoders of width 768, 128 experts in every other, 1 a token",
        source="batch: 1 048 576 tokens in sequences of 512 on 32 TPU cores (arXiv:2101.03961, section 2.2 "
        "and table 1); its optimizer, Adafactor, is taken as Adam",
    )


def _switch_block(graph: GraphBuilder, hidden: str, encoded: str, *, mixture: bool) -> str:
    """Add a block of Switch-Base to ``graph`` and return the name of the output.

    The block has self-attention, cross-attention to the layer ``encoded`` (empty: none), and a feed-forward
    network; with ``mixture``, experts instead of the network.
    """
    hidden = attend(graph, hidden, 12, 12)
    if encoded:
        hidden = attend(graph, hidden, 12, 12, encoded=encoded)

    def product(gate: str, up: str) -> str:
        active = graph.function("gelu", gate, "gelu", split="local")
        return graph.product("gated", [active, up], split="local")

    def network(source: str) -> str:
        if mixture:
            return experts(graph, source, 2048, count=128, each=1)
        return gated(graph, source, 2048, product)

    return feed(graph, hidden, network)


def experts(graph: GraphBuilder, source: str, inner: int, *, count: int, each: int) -> str:
    """Add a router and ``count`` experts, which are gated networks; each token goes to ``each`` experts.

    All experts form one layer, so that inputs are sent once and outputs once. `Layer.used` is each/count, so
    ``used`` × ``experts`` is the number of experts per token. Tokens are assumed evenly spread, and none are
    dropped. Tensor parallelism divides every expert by columns and then rows, hence the split ``row``.
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
        flops=2.0 * copies * size + copies * (SWIGLU_FLOPS * inner + 2 * width),
        parameters=count * size,
        elements=elements,
        keep=[router],
        saved=copies * (2 * width + 3 * inner),
        split="row",
        experts=count,
        used=each / count,
    )
