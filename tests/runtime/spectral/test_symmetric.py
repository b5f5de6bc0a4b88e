"""Transforms of symmetric fields, on every device, against sums of sines and cosines in double precision."""

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.runtime.spectral.symmetric import order, symmetric_fft, wavenumbers

SHAPES = [(1, 12, 7), (1, 46, 33), (2, 8, 130), (1, 2, 1)]
TOLERANCE = {np.complex128: 1e-13, np.complex64: 2e-6}
#: Points at which a field of each symmetry is, in steps, and what it is a sum of.
FIELDS = {"even": (0.0, np.cos), "even_half": (0.5, np.cos), "odd_half": (0.5, np.sin), "odd": (0.0, np.sin)}


def waves(symmetry, n):
    """(points, wavenumbers): each wave at the points of a symmetry."""
    at, wave = FIELDS[symmetry]
    return wave(np.outer(np.arange(n) + at, wavenumbers(n, 1.0)))


def along_y(matrix, array):
    return np.einsum("ij,zjx->zix", matrix, array.astype(complex))


def close(got, wanted, dtype):
    assert np.abs(got - wanted).max() <= TOLERANCE[dtype] * np.abs(wanted).max()


def put(device, array):
    out = device.empty(array.shape, array.dtype)
    out[...] = device.asarray(array)
    return out


@pytest.mark.parametrize("dtype", TOLERANCE, ids=["double", "single"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("symmetry", FIELDS)
def test_fields_and_coefficients(kernel_device, shape, dtype, symmetry):
    n, rng = shape[1], np.random.default_rng(3)
    array = rng.standard_normal((*shape, 2)).view(complex)[..., 0].astype(dtype)
    fft = symmetric_fft(kernel_device, shape, dtype)
    numbers = order(kernel_device, n)
    spectrum = put(kernel_device, array[:, numbers])
    fft.backward(spectrum, symmetry)
    # The factor 2 is all that the inverse has beside the sum.
    close(kernel_device.to_host(spectrum), 2 * along_y(waves(symmetry, n), array), dtype)
    if symmetry == "odd":
        return
    fft.forward(spectrum, symmetry)
    close(kernel_device.to_host(spectrum), 2 * n * array[:, numbers].astype(complex), dtype)
    if symmetry == "even_half":
        factor = rng.uniform(0.5, 1.5, (1, n, 1)).astype(np.finfo(dtype).dtype)
        out = put(kernel_device, array)
        fft.forward_scaled(out, put(kernel_device, array), put(kernel_device, factor))
        wanted = 2 * along_y(waves(symmetry, n).T, array * factor.astype(float))
        close(kernel_device.to_host(out), wanted[:, numbers], dtype)


def test_the_derivative_of_an_even_field_is_odd(cpu):
    n, spacing = 40, 0.3
    k, fft = wavenumbers(n, spacing), symmetric_fft(cpu, (1, n, 1), np.complex128)
    j = np.arange(n)
    field = (np.cos(k[2] * j * spacing) - 0.4 * np.cos(k[7] * j * spacing)).astype(complex).reshape(1, n, 1)
    fft.forward(field, "even")
    field *= -k.reshape(1, n, 1) / (2 * n)
    fft.backward(field, "odd_half")
    r = (j + 0.5) * spacing
    np.testing.assert_allclose(
        field.ravel().real, -k[2] * np.sin(k[2] * r) + 0.4 * k[7] * np.sin(k[7] * r), atol=1e-12
    )


def test_an_odd_number_of_points_needs_a_cpu(cpu, kernel_device):
    spectrum = np.random.default_rng(1).standard_normal((1, 9, 4)).astype(complex)
    before = spectrum.copy()
    fft = symmetric_fft(cpu, (1, 9, 4), np.complex128)
    fft.backward(spectrum, "even")
    fft.forward(spectrum, "even")
    np.testing.assert_allclose(spectrum, 18 * before)
    if kernel_device.name != "cpu":
        with pytest.raises(InputError, match="9 radial points; allowed on a GPU: an even number"):
            symmetric_fft(kernel_device, (1, 9, 4), np.complex128)
