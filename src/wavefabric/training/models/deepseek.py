"""Build DeepSeek-V3 (arXiv:2412.19437): attention with low-rank keys and values, and a mixture of experts."""

from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.models.layers import SOFTMAX_FLOPS, GraphBuilder
from wavefabric.training.models.transformers import decoder, experts, feed, swiglu

VOCABULARY, BLOCKS, WIDTH = 129_280, 61, 7168
#: Blocks at the start with one wide network instead of experts, and its inner width.
DENSE, DENSE_INNER = 3, 18_432
#: Routed experts, experts of a token, and the inner width of each and of the shared expert.
EXPERTS, EXPERTS_OF_TOKEN, INNER = 256, 8, 2048
HEADS, QUERY_RANK, KEY_RANK = 128, 1536, 512
#: Features of a head: of queries and keys without and with rotary positions, and of values.
PLAIN, ROTARY, VALUE = 128, 64, 128


def deepseek_v3(name: str, tokens: int = 4096) -> ModelGraph:
    """Build DeepSeek-V3 without multi-token prediction: 671 026 404 352 parameters.

    A token uses some 37 · 10⁹ of them.
    """
    return decoder(
        name, tokens, (VOCABULARY, WIDTH), BLOCKS, _block,
        description=f"{BLOCKS} blocks of width {WIDTH}, {EXPERTS} experts and a shared one, 8 a token",
        source="batch: up to 15360 sequences of 4096 on 2048 GPUs, AdamW (arXiv:2412.19437, sections 3.1 and "
        "4.2); 1 per GPU is ours",
    )  # fmt: skip


def _block(graph: GraphBuilder, hidden: str, number: int) -> str:
    """Add a block: attention, and a feed-forward network, each with a normalisation and a residual sum."""
    normed = graph.normalisation("attention norm", hidden, scales=1)
    hidden = graph.sum("attention sum", [hidden, _latent_attention(graph, normed)])
    return feed(graph, hidden, lambda source: _network(graph, source, number < DENSE))


def _latent_attention(graph: GraphBuilder, source: str) -> str:
    """Add multi-head latent attention (section 2.1.1), without the residual sum.

    Queries, and keys with values, are projected down, normalised and projected up; one rotary key serves all
    heads. Attention reads full keys and values, as in training; context parallelism exchanges these.
    """
    narrow = graph.linear("query down", source, QUERY_RANK, bias=False)
    narrow = graph.normalisation("query norm", narrow, scales=1)
    query = graph.linear("query up", narrow, HEADS * (PLAIN + ROTARY), bias=False, split="column")
    latent = graph.normalisation("key norm", graph.linear("key down", source, KEY_RANK, bias=False), scales=1)
    rotary = graph.linear("rotary key", source, ROTARY, bias=False)
    keys = graph.linear("key up", latent, HEADS * (PLAIN + VALUE), bias=False, split="column")
    tokens, each = graph.shape(query)[0], PLAIN + ROTARY + VALUE
    attended = graph.add(
        "attention", "attention", [query, keys, rotary], (tokens, HEADS * VALUE),
        flops=float(HEADS * tokens**2 * (2 * each + SOFTMAX_FLOPS)), keep=[query, keys, rotary],
        keep_output=True, elements=float(tokens * HEADS * (each + PLAIN + ROTARY + VALUE)),
        keys_values=float(tokens * HEADS * each), split="local", backward=2.5,
    )  # fmt: skip
    return graph.linear("output", attended, WIDTH, bias=False, split="row")


def _network(graph: GraphBuilder, source: str, dense: bool) -> str:
    """Add the feed-forward network of a block: one wide one, or routed experts and a shared one."""
    if dense:
        return swiglu(graph, source, DENSE_INNER)
    routed = experts(graph, source, INNER, count=EXPERTS, each=EXPERTS_OF_TOKEN)
    return graph.sum("experts sum", [routed, swiglu(graph, source, INNER)])
