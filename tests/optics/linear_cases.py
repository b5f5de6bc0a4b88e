"""Fields, coefficients and the reference that the tests of linear propagation share."""

from __future__ import annotations

import math

import numpy as np
from emulated_device import EmulatedDevice

from wavefabric.optics.propagation.kernels.fused_linear_cuda import FusedSteps
from wavefabric.runtime.device import get_device

DOUBLE, SINGLE = np.complex128, np.complex64
TOLERANCE = {DOUBLE: 4e-15, SINGLE: 3e-7}
#: α and β1…β4 of three kinds of rows, for a sample rate and a length of 1: phases of tens of radians at the
#: highest frequencies, loss and gain.
COEFFICIENTS = np.array(
    [[0.3, 2.0, -0.8, 0.2, -0.1], [-0.2, -1.0, 2.5, 0.3, 0.4], [0.0, 3.0, 0.0, -1.4, 0.0]]
)
#: Which of them each of two and of six rows has.
ROWS = {2: [1, 1], 6: [2, 2, 0, 0, 1, 1]}


def device_named(name, seed=0):
    return EmulatedDevice(seed) if name == "emulated" else get_device(name, threads=1)


def draw(rows, n, dtype):
    """White noise, rounded to ``dtype``."""
    rng = np.random.default_rng(n)
    return (rng.standard_normal((rows, n, 2)).view(complex)[..., 0]).astype(dtype)


def to_device(device, field):
    A = device.empty(field.shape, field.dtype)
    A[...] = device.asarray(field)
    return A


def reference(field, length, rate=1.0, coefficients=COEFFICIENTS):
    """F⁻¹ exp(length L̂) F of every row, L̂ = −α/2 + i Σ iⁿ/n! βₙ (iω)ⁿ."""
    omega = 2 * np.pi * np.fft.fftfreq(field.shape[1], 1 / rate)
    spectrum = np.fft.fft(field.astype(complex))
    for row, kind in zip(spectrum, ROWS[len(field)], strict=True):
        alpha, *beta = coefficients[kind]
        operator = sum(1j * 1j**m / math.factorial(m) * b * (1j * omega) ** m for m, b in enumerate(beta, 1))
        row *= np.exp(length * (operator - alpha / 2))
    return np.fft.ifft(spectrum)


def fused_of(device, plan, rows):
    return FusedSteps(device, plan, COEFFICIENTS, np.array(ROWS[rows], np.int32), 1.0)
