"""Multiply matrices in the arithmetic of neural networks; on a CPU always in fp32."""

import numpy as np


def random_matrix(shape: tuple[int, int], arithmetic: str):
    """Return a fixed matrix of Gaussian random numbers for timing; GPUs would multiply zeros faster."""
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def multiply(a, b, out, arithmetic: str, transpose_a: bool = False, transpose_b: bool = False) -> None:
    """Compute the matrix product ``out`` = a b, where a or b may be stored as its transpose.

    ``a`` is (m, k), or (k, m) with ``transpose_a``; ``b`` is (k, n), or (n, k) with ``transpose_b``; ``out``
    is (m, n). All are C-contiguous. A GPU multiplies in ``arithmetic``: ``"fp32"``, ``"tf32"`` (fp32 numbers
    with 10 bits of mantissa) or ``"bf16"`` (added in fp32).
    """
    np.matmul(a.T if transpose_a else a, b.T if transpose_b else b, out=out)
