"""Matrix products in the arithmetic that neural networks use; on a CPU all of them in fp32."""

import numpy as np


def random_matrix(shape: tuple[int, int], arithmetic: str):
    """Return the same normal random values in each call, for timing: GPUs multiply zeros faster."""
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def multiply(a, b, out, arithmetic: str, transpose_a: bool = False, transpose_b: bool = False) -> None:
    """``out`` = a b, with a or b stored as its transpose; C-contiguous, made by `random_matrix`.

    Shapes are (m, k) or (k, m), (k, n) or (n, k), and (m, n). ``arithmetic`` is ``"fp32"``, ``"tf32"`` (fp32
    of which a GPU multiplies the first 10 bits) or ``"bf16"`` (sums in fp32).
    """
    np.matmul(a.T if transpose_a else a, b.T if transpose_b else b, out=out)
