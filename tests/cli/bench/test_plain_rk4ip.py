"""The plain RK4IP and this package's agree, though they share no line."""

import numpy as np
import pytest

from benchmarks.fibre_step import PlainRK4IP, relative_error
from wavefabric.base.errors import InputError
from wavefabric.optics.fibre.presets import graded_index_62_5
from wavefabric.optics.propagation.integrators import INTEGRATORS
from wavefabric.optics.propagation.operators import FibreOperators
from wavefabric.runtime.device import get_device

N, RATE, H = 512, 1e12, 150.0


def field(rows, dtype):
    rng = np.random.default_rng(3)
    t = np.arange(N) / N * 2 * np.pi
    A = sum(
        rng.normal(size=(rows, 1)) * np.exp(1j * (k * t + rng.normal(size=(rows, 1)))) for k in range(-9, 9)
    )
    return (0.05 * A).astype(dtype)


@pytest.mark.parametrize("coupling", ["groups", "modes"])
@pytest.mark.parametrize(("dtype", "limit"), [("complex128", 1e-12), ("complex64", 1e-5)])
def test_peer_equals_the_stages(coupling, dtype, limit):
    device, fibre = get_device("cpu"), graded_index_62_5(3, coupling)
    operators = FibreOperators(device, fibre, N, RATE, dtype)
    A = operators.empty()
    A[...] = field(fibre.rows, dtype)
    B = A.copy()
    INTEGRATORS["rk4ip"](operators).advance(A, H, 12)
    peer = PlainRK4IP(device, fibre, N, RATE, dtype, H)
    for _ in range(12):
        B = peer.step(B)
    assert B.dtype == np.dtype(dtype)
    start = field(fibre.rows, dtype)
    assert relative_error(device, A, start) > 0.1, "the test must do something"
    assert relative_error(device, A, B) < limit


def test_peer_refuses_what_it_cannot_do():
    fibre, device = graded_index_62_5(1), get_device("cpu")
    with pytest.raises(InputError, match="complex64"):
        PlainRK4IP(device, fibre, N, RATE, "float64", H)
    with pytest.raises(InputError, match="positive"):
        PlainRK4IP(device, fibre, N, RATE, "complex128", 0.0)
