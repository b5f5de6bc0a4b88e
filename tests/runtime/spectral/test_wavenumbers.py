"""Spectral operators against closed forms of plane waves."""

import numpy as np
import pytest

from wavefabric.runtime.spectral.wavenumbers import derivative, squared, translation, wavenumbers

SIZES = [1, 2, 3, 4, 7, 8, 15, 16, 27, 30]
D = 0.3


def waves(n):
    """Wavenumbers below the Nyquist of ``n`` points, as whole numbers of waves in the box."""
    return range((n - 1) // 2 + 1)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(
    "shift", [0.0, pytest.param(0.5, marks=pytest.mark.slow), pytest.param(-0.5, marks=pytest.mark.slow), 0.3]
)
def test_derivative_is_exact_for_plane_waves(n, shift):
    x = D * np.arange(n)
    for m in waves(n):
        k = 2 * np.pi * m / (n * D)
        for phase in (0.0, 0.7):
            spectrum = np.fft.fft(np.cos(k * x + phase))
            got = np.fft.ifft(derivative(n, D, shift * D) * spectrum)
            np.testing.assert_allclose(got.real, -k * np.sin(k * (x + shift * D) + phase), atol=2e-13)
            assert abs(got.imag).max() < 2e-13


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(
    "shift",
    [0.5, pytest.param(-0.5, marks=pytest.mark.slow), pytest.param(0.25, marks=pytest.mark.slow), 1.0],
)
def test_translation_is_exact_for_band_limited_data(n, shift):
    rng = np.random.default_rng(n)
    x = D * np.arange(n)
    inputs, wanted = np.zeros(n), np.zeros(n)
    for m in waves(n):
        k, amplitude, phase = 2 * np.pi * m / (n * D), *rng.random(2)
        inputs += amplitude * np.cos(k * x + phase)
        wanted += amplitude * np.cos(k * (x + shift * D) + phase)
    got = np.fft.ifft(translation(n, D, shift * D) * np.fft.fft(inputs))
    np.testing.assert_allclose(got.real, wanted, atol=1e-14 * n)
    assert abs(got.imag).max() < 1e-14 * n


@pytest.mark.parametrize("n", [2, 4, 8, 16])
def test_the_nyquist_wave(n):
    """cos(πx/Δ) is all that a grid of even length holds there: its interpolant's value and slope, moved."""
    sign = (-1.0) ** np.arange(n)
    nyquist = np.pi / D
    for shift in (0.5, -0.5):
        # Slope at the points between: ∓ k cos = 0 at the points, −k sin(±π/2) between them.
        got = np.fft.ifft(derivative(n, D, shift * D) * np.fft.fft(sign))
        np.testing.assert_allclose(got, -nyquist * np.sin(np.pi * shift) * sign, atol=1e-12)
        assert translation(n, D, shift * D)[n // 2] == 0  # the cosine's zeros, without round-off
    assert derivative(n, D)[n // 2] == 0
    assert translation(n, D, D)[n // 2] == pytest.approx(-1, abs=1e-15)


@pytest.mark.parametrize("n", SIZES)
def test_operators_keep_fields_real(n):
    for operator in (
        derivative(n, D, D / 2),
        derivative(n, D, -D / 2),
        translation(n, D, D / 2),
        derivative(n, D),
    ):
        mirrored = np.conj(operator[(-np.arange(n)) % n])
        np.testing.assert_allclose(operator, mirrored, atol=1e-15 * abs(operator).max())


def test_wavenumbers():
    np.testing.assert_allclose(wavenumbers(4, D), 2 * np.pi / (4 * D) * np.array([0, 1, -2, -1]), rtol=1e-15)
    np.testing.assert_allclose(wavenumbers(3, D), 2 * np.pi / (3 * D) * np.array([0, 1, -1]), rtol=1e-15)


@pytest.mark.parametrize("shape", [(8, 5, 6), (7, 4, 1), (1, 1, 1)])
def test_squared(shape):
    spacing = (0.1, 0.2, 0.3)
    kx, ky, kz = squared(shape, spacing)
    assert kx.size == shape[0] // 2 + 1
    assert (ky.size, kz.size) == shape[1:]
    for k2, n, d in zip((kx, ky, kz), shape, spacing, strict=True):
        assert k2[0] == 0
        if n > 1:
            assert k2[1] == pytest.approx((2 * np.pi / (n * d)) ** 2, rel=1e-14)
        assert k2.flags.c_contiguous
