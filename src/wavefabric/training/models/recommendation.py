"""Build recommendation models: NeuMF (arXiv:1708.05031) and DLRM (arXiv:1906.00091).

NeuMF is matrix factorisation beside a perceptron; DLRM has embedding tables, two perceptrons and dot products
between features.
"""

from wavefabric.base.arguments import whole
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.models.layers import GraphBuilder

#: Users and items of MovieLens-20M, as MLPerf counts them.
MOVIELENS_20M = (138_493, 26_744)

MOST_FACTORS = 4096

#: Rows of the 26 tables: Criteo Terabyte, hashed to at most 40 million as in MLPerf, and Criteo Kaggle.
TERABYTE = (
    39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10, 2208, 11938, 155,
    4, 976, 14, 39979771, 25641295, 39664984, 585935, 12972, 108, 36,
)  # fmt: skip
KAGGLE = (
    1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10,
    5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572,
)  # fmt: skip
#: DLRM as MLPerf trains it on Terabyte (187.8 million rows of 128, 24.0 G parameters), and on Kaggle
#: (33 762 577 rows of 16, 540.7 M parameters): table rows, widths of both perceptrons, batch and its source.
DLRM = {
    "dlrm": (
        TERABYTE, (512, 256, 128), (1024, 1024, 512, 256, 1), 6912,
        "batch: 55 296 on 8 GPUs, SGD (NVIDIA's entry, MLPerf Training v1.0; arXiv:1906.00091)",
    ),
    "dlrm-kaggle": (
        KAGGLE, (512, 256, 64, 16), (512, 256, 1), 128,
        "batch: 128 on one GPU, SGD (the paper's bench/dlrm_s_criteo_kaggle.sh; arXiv:1906.00091)",
    ),
}  # fmt: skip
#: Continuous features per sample.
DENSE = 13


def ncf(name: str, factors: int = 64) -> ModelGraph:
    """Build NeuMF on MovieLens-20M as MLPerf trains it: 31 832 577 parameters with 64 factors.

    With F = ``factors``, the perceptron has 4F inputs and layers of 4F, 2F and F features. The tables have
    the `Layer.split` ``column``, by features: a GPU with a part of the features looks up the rows of all
    samples, and an exchange brings the features to the samples' GPUs.
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
        name,
        tuple(graph.layers),
        "pair of a user and an item",
        batch=131_072,
        description=f"NeuMF of {factors} factors, {users} users and {items} items",
        source="batch: 1 048 576 on 8 GPUs, Adam (NVIDIA DeepLearningExamples, PyTorch/Recommendation/NCF; "
        "model of arXiv:1708.05031)",
    )


def dlrm(name: str) -> ModelGraph:
    """Build the DLRM model ``name``, a key of `DLRM`; all embedding tables form one layer.

    A sample reads one row of each table. The layer's `Layer.split` is ``column``: it can be divided by whole
    tables or by features, with equal bytes to exchange. The interaction needs all features of a sample, so
    an all-to-all connects tables divided among GPUs with data-parallel perceptrons.
    """
    rows, bottom, top, batch, source = DLRM[name]
    graph = GraphBuilder()
    graph.block = "tables"
    width = bottom[-1]
    tables = graph.embedding("rows", (len(rows),), sum(rows), width, split="column")
    graph.block = "bottom"
    dense = graph.stack("perceptron", (DENSE,), bottom)
    graph.block = "interaction"
    vectors = len(rows) + 1
    pairs = vectors * (vectors - 1) // 2
    flops, both = 2.0 * vectors * vectors * width, [dense, tables]
    dots = graph.add("dot products", "matmul", both, (pairs + width,), flops=flops, keep=both)
    graph.block = "top"
    graph.stack("perceptron", dots, top, last="sigmoid")
    return ModelGraph(
        name,
        tuple(graph.layers),
        f"{DENSE} numbers and {len(rows)} categories",
        optimizer="sgd",
        description=f"{len(rows)} tables of {sum(rows)} rows of {width}",
        batch=batch,
        source=source,
    )
