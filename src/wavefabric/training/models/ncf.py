"""Neural collaborative filtering: NeuMF, matrix factorisation beside a perceptron (arXiv:1708.05031)."""

from __future__ import annotations

from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.models.layers import GraphBuilder, check_whole

#: Users and items of MovieLens-20M, as MLPerf counts them, and of MovieLens-1M, as the paper does.
MOVIELENS_20M, MOVIELENS_1M = (138_493, 26_744), (6040, 3706)

MOST_FACTORS = 4096


def ncf(factors: int = 64) -> ModelGraph:
    """NeuMF on MovieLens-20M as MLPerf trains it: 31 832 577 parameters with 64 factors.

    The perceptron is 4F-4F-2F-F wide. A table's features are divided by ``column``: whoever holds a part of
    the features looks up the rows of all samples, and an exchange brings them to the samples.
    """
    widths = (4 * factors, 2 * factors, factors)
    return _neumf(
        "ncf",
        MOVIELENS_20M,
        factors,
        widths,
        batch=131_072,
        source="batch: 1 048 576 on 8 GPUs, Adam (NVIDIA DeepLearningExamples, PyTorch/Recommendation/NCF; "
        "model of arXiv:1708.05031)",
    )


def ncf_movielens_1m(factors: int = 64) -> ModelGraph:
    """NeuMF on MovieLens-1M as He et al. train it (section 4.1): tables of 2F, tower 4F-2F-F."""
    return _neumf(
        "ncf-1m",
        MOVIELENS_1M,
        factors,
        (2 * factors, factors),
        batch=256,
        source="batch: 256, of the 128 to 1024 tried, on one GPU, Adam (arXiv:1708.05031, section 4.1)",
    )


def _neumf(
    name: str, counts: tuple[int, int], factors: int, widths: tuple[int, ...], *, batch: int, source: str
) -> ModelGraph:
    check_whole("factors", factors, MOST_FACTORS)
    graph = GraphBuilder()
    graph.block = "tables"
    flat = {}
    for kind, features in (("factors", factors), ("perceptron", 2 * factors)):
        for who, rows in zip(("user", "item"), counts, strict=True):
            table = graph.embedding(f"{who} {kind}", (1,), rows, features, split="column")
            flat[who, kind] = table
    graph.block = "interaction"
    pair = [flat["user", "factors"], flat["item", "factors"]]
    factored = graph.product("factorisation", pair, split="local")
    joined = graph.concatenation(
        "join", [flat["user", "perceptron"], flat["item", "perceptron"]], split="local"
    )
    tower = graph.stack("perceptron", joined, widths, first="row")
    both = graph.concatenation("both", [factored, tower])
    graph.function("probability", graph.linear("prediction", both, 1), "sigmoid")
    return ModelGraph(
        name,
        tuple(graph.layers),
        sample="pair of a user and an item",
        batch=batch,
        optimizer="adam",
        description=f"NeuMF of {factors} factors, {counts[0]} users and {counts[1]} items",
        source=source,
    )
