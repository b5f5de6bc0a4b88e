"""Real 3-D transforms of every device against numpy.fft."""

import numpy as np
import pytest

from wavefabric.runtime.device import get_device

DEVICES = ["cpu 1", "cpu 2", pytest.param("cuda", marks=pytest.mark.gpu)]
SHAPES = [(12, 10, 8), (5, 7, 9), (1, 12, 10), (1, 7, 9), (1, 1, 16), (11, 1, 6)]
TOLERANCE = {np.float64: 1e-14, np.float32: 1e-6}


@pytest.fixture(params=DEVICES)
def device(request):
    name, _, rest = request.param.partition(" ")
    try:
        return get_device(name, 2 if rest == "2" else 1)
    except ValueError:
        pytest.skip("this machine has one core")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["double", "single"])
def test_there_and_back(device, shape, dtype):
    """NumPy's sign and no scale; back without 1/N. Axes of one point are left out."""
    host = np.random.default_rng(1).standard_normal(shape).astype(dtype)
    real, plan = device.empty(shape, dtype), device.real_fft(shape, dtype)
    spectrum = device.empty((*shape[:2], shape[2] // 2 + 1), np.result_type(dtype, np.complex64))
    results = []
    for _ in range(2):
        real[...] = device.asarray(host)
        plan.forward(real, spectrum)
        wanted = np.fft.rfftn(host.astype(float))
        got = np.array(device.to_host(spectrum))
        assert got.dtype == spectrum.dtype
        assert abs(got - wanted).max() < TOLERANCE[dtype] * abs(wanted).max()
        assert (device.to_host(real) == host).all()
        real[...] = 0
        plan.backward(spectrum, real)
        back = np.array(device.to_host(real))
        assert abs(back - host.size * host).max() < TOLERANCE[dtype] * host.size * abs(host).max()
        results.append((got.tobytes(), back.tobytes()))
    assert results[0] == results[1]


def test_other_arrays_than_those_planned_for(device):
    """One plan serves all fields of a shape."""
    shape, rng = (6, 5, 9), np.random.default_rng(2)
    plan = device.real_fft(shape, np.float32)
    for _ in range(3):
        host = rng.standard_normal(shape).astype(np.float32)
        real, spectrum = device.empty(shape, np.float32), device.empty((6, 5, 5), np.complex64)
        real[...] = device.asarray(host)
        plan.forward(real, spectrum)
        wanted = np.fft.rfftn(host.astype(float))
        assert abs(device.to_host(spectrum) - wanted).max() < 1e-6 * abs(wanted).max()
