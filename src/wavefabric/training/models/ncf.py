"""Neural collaborative filtering: NeuMF, matrix factorisation beside a perceptron (arXiv:1708.05031)."""

from __future__ import annotations

from wavefabric.collectives.arguments import whole
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.models.layers import GraphBuilder

#: Users and items of MovieLens-20M, as MLPerf counts them.
MOVIELENS_20M = (138_493, 26_744)

MOST_FACTORS = 4096


def ncf(factors: int = 64) -> ModelGraph:
    """NeuMF on MovieLens-20M as MLPerf trains it: 31 832 577 parameters with 64 factors.

    The perceptron is 4F-4F-2F-F wide. A table's features are divided by ``column``: whoever holds a part of
    the features looks up the rows of all samples, and an exchange brings them to the samples.
    """
    whole("factors", factors, 1, MOST_FACTORS)
    graph = GraphBuilder()
    graph.block = "tables"
    flat = {}
    for kind, features in (("factors", factors), ("perceptron", 2 * factors)):
        for who, rows in zip(("user", "item"), MOVIELENS_20M, strict=True):
            flat[who, kind] = graph.embedding(f"{who} {kind}", (1,), rows, features, split="column")
    graph.block = "interaction"
    pair = [flat["user", "factors"], flat["item", "factors"]]
    factored = graph.product("factorisation", pair, split="local")
    joined = graph.concatenation(
        "join", [flat["user", "perceptron"], flat["item", "perceptron"]], split="local"
    )
    tower = graph.stack("perceptron", joined, (4 * factors, 2 * factors, factors), first="row")
    both = graph.concatenation("both", [factored, tower])
    graph.function("probability", graph.linear("prediction", both, 1), "sigmoid")
    users, items = MOVIELENS_20M
    return ModelGraph(
        "ncf",
        tuple(graph.layers),
        "pair of a user and an item",
        batch=131_072,
        description=f"NeuMF of {factors} factors, {users} users and {items} items",
        source="batch: 1 048 576 on 8 GPUs, Adam (NVIDIA DeepLearningExamples, PyTorch/Recommendation/NCF; "
        "model of arXiv:1708.05031)",
    )
