"""Multiply matrices in the arithmetic of neural networks; on a CPU always in fp32."""

import numpy as np


def random_matrix(shape: tuple[int, int], arithmetic: str):
    """Return a matrix of Gaussian random numbers, always the same, for timing: zeros would be faster."""
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def multiply(a, b, out, arithmetic: str, transpose_a: bool = False, transpose_b: bool = False) -> None:
    """Compute the matrix product ``out`` = a b, where a or b may be stored as its transpose.

    Shapes are (m, k) or (k, m), (k, n) or (n, k), and (m, n); arrays are C-contiguous. ``arithmetic`` is
    ``"fp32"``, ``"tf32"`` (a GPU multiplies only the first 10 bits of fp32) or ``"bf16"`` (sums in fp32).
    """
    np.matmul(a.T if transpose_a else a, b.T if transpose_b else b, out=out)
