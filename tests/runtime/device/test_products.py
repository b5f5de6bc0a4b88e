"""Matrix products on the CPU and the GPU against products in double precision."""

import numpy as np
import pytest

#: Relative error of a sum of products of numbers with so many bits, with space for the sum itself.
TOLERANCE = {"fp32": 2e-6, "tf32": 2e-3, "bf16": 1e-2}


def as_double(device, array):
    """Values of what `random_matrix` makes: bf16 is stored as the upper half of a float's bits."""
    array = device.to_host(array)
    if array.dtype == np.uint16:
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float64)


@pytest.mark.parametrize("arithmetic", sorted(TOLERANCE))
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_multiply(device, arithmetic, transpose_a, transpose_b):
    products = device.kernels("wavefabric.runtime.device.products")
    m, n, k = 96, 40, 64
    a = products.random_matrix((k, m) if transpose_a else (m, k), arithmetic)
    b = products.random_matrix((n, k) if transpose_b else (k, n), arithmetic)
    out = device.empty((m, n), a.dtype)
    products.multiply(a, b, out, arithmetic, transpose_a, transpose_b)
    x, y = as_double(device, a), as_double(device, b)
    expected = (x.T if transpose_a else x) @ (y.T if transpose_b else y)
    error = np.linalg.norm(as_double(device, out) - expected) / np.linalg.norm(expected)
    assert error < TOLERANCE[arithmetic]


@pytest.mark.parametrize("arithmetic", sorted(TOLERANCE))
def test_random_matrix(device, arithmetic):
    products = device.kernels("wavefabric.runtime.device.products")
    once, again = (as_double(device, products.random_matrix((200, 300), arithmetic)) for _ in range(2))
    assert np.array_equal(once, again)
    assert abs(once.mean()) < 0.02
    assert abs(once.std() - 1) < 0.02
