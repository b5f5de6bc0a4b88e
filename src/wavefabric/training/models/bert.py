"""BERT: a stack of transformer encoders with its two pre-training heads (arXiv:1810.04805)."""

from __future__ import annotations

from math import ceil

from wavefabric.collectives.arguments import whole
from wavefabric.training.models.gpt import attention, wide_gelu
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.models.layers import GraphBuilder

#: Tokens of the uncased vocabulary and positions of the published checkpoints.
VOCABULARY, POSITIONS = 30522, 512
#: Share of the tokens that are masked and predicted.
MASKED = 0.15


def bert_base(tokens: int = 128) -> ModelGraph:
    """BERT-base: 12 encoders of width 768; 110 106 428 parameters with both heads (109 482 240 without)."""
    return _bert("bert-base", tokens, blocks=12, width=768, heads=12, batch=16)


def bert_large(tokens: int = 128) -> ModelGraph:
    """BERT-large: 24 encoders of width 1024; 336 226 108 parameters with both heads (335 141 888 without)."""
    return _bert("bert-large", tokens, blocks=24, width=1024, heads=16, batch=4)


def _bert(name: str, tokens: int, *, blocks: int, width: int, heads: int, batch: int) -> ModelGraph:
    whole("tokens", tokens, 1, POSITIONS)
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
    word = graph.embedding("word", (tokens,), VOCABULARY, width)
    position = graph.embedding("position", (tokens,), POSITIONS, width, split="none")
    kind = graph.embedding("type", (tokens,), 2, width, split="none")
    return graph.normalisation("norm", graph.sum("sum", [word, position, kind]))


def encoder(graph: GraphBuilder, hidden: str, heads: int) -> str:
    """One encoder: attention and a feed-forward network, normalisation after each sum."""
    projected = attention(graph, hidden, heads, heads, bias=True, fused=False)
    middle = graph.normalisation("attention norm", graph.sum("attention sum", [hidden, projected]))
    narrow = wide_gelu(graph, middle, 4 * graph.shape(hidden)[-1])
    return graph.normalisation("ffn norm", graph.sum("ffn sum", [middle, narrow]))


def _heads(graph: GraphBuilder, hidden: str, width: int) -> None:
    """Masked tokens, against the word embedding again, and next sentence, from the first token."""
    tokens = graph.shape(hidden)[0]
    masked = ceil(MASKED * tokens)
    graph.block = "heads"
    gathered = graph.add(
        "masked tokens", "elementwise", [hidden], (masked, width), elements=2.0 * masked * width, backward=1.0
    )
    changed = graph.function("transform gelu", graph.linear("transform", gathered, width), "gelu")
    logits = graph.linear(
        "decoder", graph.normalisation("transform norm", changed), VOCABULARY, split="column", tied=True
    )
    graph.loss("masked loss", logits, split="local")
    first = graph.add("first token", "elementwise", [hidden], (width,), elements=2.0 * width, backward=1.0)
    pooled = graph.function("pooler tanh", graph.linear("pooler", first, width), "tanh")
    graph.loss("sentence loss", graph.linear("next sentence", pooled, 2))
