"""Decoders of the GPT kind: Llama 2 (arXiv:2307.09288) and GPT-3 (arXiv:2005.14165)."""

from __future__ import annotations

from math import prod

from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.models.layers import FUNCTION_FLOPS, GraphBuilder, check_whole

LLAMA_VOCABULARY, GPT_VOCABULARY = 32_000, 50_257
#: Positions that GPT-3 learns.
POSITIONS = 2048
MOST_TOKENS = 2**20


def gpt_7b(tokens: int = 4096) -> ModelGraph:
    """Llama 2 7B: 32 blocks of width 4096; 6 738 415 616 parameters."""
    return _llama("gpt-7b", tokens, blocks=32, width=4096, inner=11008, heads=32, groups=32)


def gpt_70b(tokens: int = 4096) -> ModelGraph:
    """Llama 2 70B: 80 blocks of width 8192, 8 heads of keys and values; 68 976 648 192 parameters."""
    return _llama("gpt-70b", tokens, blocks=80, width=8192, inner=28672, heads=64, groups=8)


def gpt3_7b(tokens: int = POSITIONS) -> ModelGraph:
    """GPT-3 6.7B: 32 blocks of width 4096; 6.66 G parameters."""
    return gpt3("gpt3-6.7b", tokens, blocks=32, width=4096, heads=32, batch="2 M tokens")


def gpt3_175b(tokens: int = POSITIONS) -> ModelGraph:
    """GPT-3 175B: 96 blocks of width 12288; 174.6 G parameters."""
    return gpt3("gpt3-175b", tokens, blocks=96, width=12288, heads=96, batch="3.2 M tokens")


def attention(graph: GraphBuilder, hidden: str, heads: int, groups: int, *, bias: bool = False) -> str:
    """Projections, fused causal attention and projection of what it gives; all of it without the sum.

    ``groups`` heads of keys and values. Rotary positions are not counted: 6 FLOPs an element of two tensors.
    """
    width = graph.shape(hidden)[-1]
    narrow = width // heads * groups
    query = graph.linear("query", hidden, width, bias=bias, split="column")
    key = graph.linear("key", hidden, narrow, bias=bias, split="column")
    value = graph.linear("value", hidden, narrow, bias=bias, split="column")
    attended = graph.attention("attention", query, key, value, heads, fused=True)
    return graph.linear("output", attended, width, bias=bias, split="row")


def gated(graph: GraphBuilder, gate: str, up: str) -> str:
    """SiLU of one tensor times another, in one kernel (SwiGLU, arXiv:2002.05202)."""
    shape = graph.shape(gate)
    flops = float((FUNCTION_FLOPS["silu"] + 1) * prod(shape))
    return graph.add(
        "silu", "elementwise", [gate, up], shape, flops=flops, keep=[gate, up], split="local", backward=5 / 3
    )


def _llama(
    name: str, tokens: int, *, blocks: int, width: int, inner: int, heads: int, groups: int
) -> ModelGraph:
    check_whole("tokens", tokens, MOST_TOKENS)
    graph = GraphBuilder()
    graph.block = "embedding"
    hidden = graph.embedding("word", (tokens,), LLAMA_VOCABULARY, width)
    for number in range(blocks):
        graph.block = f"block {number}"
        projected = attention(graph, graph.normalisation("attention norm", hidden, scales=1), heads, groups)
        middle = graph.sum("attention sum", [hidden, projected])
        normed = graph.normalisation("ffn norm", middle, scales=1)
        gate, up = (graph.linear(kind, normed, inner, bias=False, split="column") for kind in ("gate", "up"))
        down = graph.linear("down", gated(graph, gate, up), width, bias=False, split="row")
        hidden = graph.sum("ffn sum", [middle, down])
    graph.block = "head"
    vocabulary_head(graph, graph.normalisation("norm", hidden, scales=1), LLAMA_VOCABULARY)
    return ModelGraph(
        name,
        tuple(graph.layers),
        sample=f"sequence of {tokens} tokens",
        batch=1,
        optimizer="adam",
        description=f"Llama 2: {blocks} blocks of width {width}",
        source="batch: 4 M tokens, which is 1024 sequences of 4096, AdamW (arXiv:2307.09288, section 2.2); "
        "the number of GPUs is not published, 1 a GPU is ours",
    )


def gpt3(
    name: str,
    tokens: int,
    *,
    blocks: int,
    width: int,
    heads: int,
    batch: str = "1 sequence",
    vocabulary: int = GPT_VOCABULARY,
) -> ModelGraph:
    """GPT-3 of any size, fused attention; ``batch`` is what the source of its batch says."""
    check_whole("tokens", tokens, POSITIONS)
    graph = GraphBuilder()
    graph.block = "embedding"
    word = graph.embedding("word", (tokens,), vocabulary, width)
    position = graph.embedding("position", (tokens,), POSITIONS, width, split="none")
    hidden = graph.sum("sum", [word, position])
    for number in range(blocks):
        graph.block = f"block {number}"
        normed = graph.normalisation("attention norm", hidden)
        middle = graph.sum("attention sum", [hidden, attention(graph, normed, heads, heads, bias=True)])
        wide = graph.linear("ffn1", graph.normalisation("ffn norm", middle), 4 * width, split="column")
        down = graph.linear("ffn2", graph.function("gelu", wide, "gelu", split="local"), width, split="row")
        hidden = graph.sum("ffn sum", [middle, down])
    graph.block = "head"
    vocabulary_head(graph, graph.normalisation("norm", hidden), vocabulary, tied=True)
    return ModelGraph(
        name,
        tuple(graph.layers),
        sample=f"sequence of {tokens} tokens",
        batch=1,
        optimizer="adam",
        description=f"GPT-3: {blocks} blocks of width {width}",
        source=f"batch: {batch} in sequences of 2048, Adam (arXiv:2005.14165, table 2.1); "
        "the number of GPUs is not published, 1 a GPU is ours",
    )


def vocabulary_head(graph: GraphBuilder, hidden: str, vocabulary: int, *, tied: bool = False) -> None:
    """Logits, a part of the vocabulary on each GPU, and the loss; its sums over parts are not counted."""
    logits = graph.linear("logits", hidden, vocabulary, bias=False, split="column", tied=tied)
    graph.loss("loss", logits, split="local")
