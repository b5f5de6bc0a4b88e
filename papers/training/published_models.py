"""Networks of published training runs, operator by operator as their programs ran them."""

from __future__ import annotations

from math import prod

from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.models.layers import SOFTMAX_FLOPS, GraphBuilder
from wavefabric.training.models.transformers import SWIGLU_FLOPS, gated, vocabulary_head

#: Elements that a mask of dropout takes, a byte beside two of an activation.
_MASK = 0.5


def gpt(name: str, size: tuple[int, int, int], tokens: int, vocabulary: int, fused: bool) -> ModelGraph:
    """A GPT of Megatron-LM: ``size`` is blocks, width and heads.

    Query, key and value are one product. ``fused``: FlashAttention, which skips what a causal mask hides, and
    no dropout. Else scores, softmax with its mask and scale, dropout and the sum of values are operators of
    their own, as up to 2022, and dropout is fused into sums.
    """
    blocks, width, heads = size
    graph = GraphBuilder()
    graph.block = "embedding"
    word = graph.embedding("word", (tokens,), vocabulary, width)
    hidden = graph.sum("sum", [word, graph.embedding("position", (tokens,), tokens, width, split="none")])
    for number in range(blocks):
        graph.block = f"block {number}"
        normed = graph.normalisation("attention norm", hidden)
        qkv = graph.linear("qkv", normed, 3 * width, split="column")
        attended = flash(graph, qkv, width) if fused else unfused(graph, qkv, width, heads)
        hidden = _residual(
            graph, "attention sum", hidden, graph.linear("output", attended, width, split="row"), fused
        )
        inner = graph.linear("ffn1", graph.normalisation("ffn norm", hidden), 4 * width, split="column")
        active = graph.function("gelu", inner, "gelu", split="local")
        hidden = _residual(graph, "ffn sum", hidden, graph.linear("ffn2", active, width, split="row"), fused)
    vocabulary_head(graph, hidden, vocabulary, tied=True, scales=2)
    return ModelGraph(name, tuple(graph.layers), f"sequence of {tokens} tokens")


def llama(
    name: str, size: tuple[int, int, int], tokens: int, vocabulary: int, inner: int, groups: int
) -> ModelGraph:
    """A Llama with ``groups`` heads of keys and values; fused attention as of `gpt`."""
    blocks, width, heads = size
    graph = GraphBuilder()
    graph.block = "embedding"
    hidden = graph.embedding("word", (tokens,), vocabulary, width)

    def silu(gate: str, up: str) -> str:
        shape = graph.shape(gate)
        return graph.add("silu", "elementwise", [gate, up], shape, flops=float(SWIGLU_FLOPS * prod(shape)),
                         keep=[gate, up], split="local", backward=5 / 3)  # fmt: skip

    for number in range(blocks):
        graph.block = f"block {number}"
        normed = graph.normalisation("attention norm", hidden, scales=1)
        kept = width + 2 * width // heads * groups
        attended = flash(graph, graph.linear("qkv", normed, kept, bias=False, split="column"), width)
        projected = graph.linear("output", attended, width, bias=False, split="row")
        middle = graph.sum("attention sum", [hidden, projected])
        network = gated(graph, graph.normalisation("ffn norm", middle, scales=1), inner, silu)
        hidden = graph.sum("ffn sum", [middle, network])
    vocabulary_head(graph, hidden, vocabulary)
    return ModelGraph(name, tuple(graph.layers), f"sequence of {tokens} tokens")


def flash(graph: GraphBuilder, qkv: str, width: int) -> str:
    """Causal attention in one kernel: half of the scores, computed again in the backward pass."""
    tokens, kept = graph.shape(qkv)
    return graph.add("attention", "attention", [qkv], (tokens, width), flops=2.0 * tokens**2 * width,
                     keep=[qkv], keep_output=True, elements=float(tokens * (kept + width)), split="local",
                     keys_values=float(tokens * (kept - width)), backward=2.5)  # fmt: skip


def unfused(graph: GraphBuilder, qkv: str, width: int, heads: int) -> str:
    """Attention as four operators; selective recomputation makes all of them again."""
    tokens = graph.shape(qkv)[0]
    shape, squares = (heads, tokens, tokens), float(heads * tokens**2)
    products = {"flops": 2.0 * tokens**2 * width, "split": "local"}
    scores = graph.add("scores", "attention", [qkv], shape, keep=[qkv], again=0.0,
                       elements=2.0 * tokens * width + squares, keys_values=1.0 * tokens * width,
                       **products)  # fmt: skip
    softmax = graph.add("softmax", "softmax", [scores], shape, flops=SOFTMAX_FLOPS * squares, split="local",
                        keep_output=True, again=squares, backward=1.5)  # fmt: skip
    mask = _MASK * squares
    dropped = graph.add("dropout", "elementwise", [softmax], shape, flops=squares, split="local",
                        backward=1.0, elements=2 * squares + mask, saved=mask, again=mask)  # fmt: skip
    return graph.add("context", "attention", [dropped, qkv], (tokens, width), keep=[dropped], again=squares,
                     elements=2.0 * tokens * width + squares, keys_values=1.0 * tokens * width,
                     **products)  # fmt: skip


def _residual(graph: GraphBuilder, name: str, hidden: str, added: str, fused: bool) -> str:
    """The sum of both, with dropout of the second in the same kernel unless ``fused``."""
    if fused:
        return graph.sum(name, [hidden, added])
    shape = graph.shape(hidden)
    size = float(prod(shape))
    return graph.add(name, "elementwise", [hidden, added], shape, flops=2 * size, elements=(3 + _MASK) * size,
                     saved=_MASK * size, backward=5 / 7)  # fmt: skip
