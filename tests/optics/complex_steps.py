"""Derivatives of the propagation in plain NumPy by complex steps, which cancel no digits.

A field x + iy is kept as its parts (x, y). Each may have an imaginary part of its own: a step of
1e-30, whose effect on the imaginary part of a result is the derivative. Nothing here knows an adjoint.
"""

import numpy as np

from wavefabric.optics.propagation.integrators import KERR, LINEAR

STEP = 1e-30


def stepped(field, direction):
    """The parts of ``field``, with a step along ``direction``."""
    return field.real + 1j * STEP * direction.real, field.imag + 1j * STEP * direction.imag


def value(parts):
    return parts[0].real + 1j * parts[1].real


def tangent(parts):
    return (parts[0].imag + 1j * parts[1].imag) / STEP


def add(a, b, factor):
    return a[0] + factor * b[0], a[1] + factor * b[1]


def times_i(a, rate):
    return -rate * a[1], rate * a[0]


def rate(a, kappa):
    """γκ|A|², rad/m, of each row."""
    return kappa @ (a[0] ** 2 + a[1] ** 2)


def turn(a, phase):
    c, s = np.cos(phase), np.sin(phase)
    return c * a[0] - s * a[1], s * a[0] + c * a[1]


def kerr(a, kappa, h):
    """h N̂(A)A."""
    return times_i(a, h * rate(a, kappa))


def rk4(a, kappa, h):
    k1 = kerr(a, kappa, h)
    k2 = kerr(add(a, k1, 0.5), kappa, h)
    k3 = kerr(add(a, k2, 0.5), kappa, h)
    k4 = kerr(add(a, k3, 1), kappa, h)
    for k, weight in zip((k1, k2, k3, k4), (1 / 6, 1 / 3, 1 / 3, 1 / 6), strict=True):
        a = add(a, k, weight)
    return a


class Written:
    """Steps of the integrators written out, for row κ times γ, and L̂(ω) of each row (rows, N)."""

    def __init__(self, integrator, kappa, operator):
        self.step, self.kappa, self.operator = getattr(self, integrator), kappa, operator

    def linear(self, a, z, phase=0.0):
        """exp(z L̂ + i phase); ``phase`` (rows, N) may have a step."""
        phase = np.broadcast_to(phase, self.operator.shape)
        factor = np.exp(z * self.operator + 1j * phase.real)
        field, change = (np.fft.fft(part(a)) for part in (value, tangent))
        moved = np.fft.ifft(factor * field)
        change = np.fft.ifft(factor * (change + 1j * phase.imag / STEP * field))
        return stepped(moved, change)

    def strang(self, a, h, c, psi, nonlinear=None):
        a = self.linear(a, h / 2)
        a = nonlinear(a, c * self.kappa, h) if nonlinear else turn(a, h * rate(a, c * self.kappa))
        return self.linear(a, h / 2, psi)

    def ssfm_rk4(self, a, h, c, psi):
        return self.strang(a, h, c, psi, rk4)

    def blanes_moan(self, a, h, c, psi):
        for z, w in zip(LINEAR[:-1], KERR, strict=True):
            a = self.linear(a, z * h)
            a = turn(a, w * h * rate(a, c * self.kappa))
        return self.linear(a, LINEAR[-1] * h, psi)

    def ssfm_agrawal(self, a, h, c, psi):
        after = a
        for _ in range(2):
            mean = rate(a, c * self.kappa) + rate(after, c * self.kappa)
            after = self.linear(turn(self.linear(a, h / 2), 0.5 * h * mean), h / 2)
        return after

    def rk4ip(self, a, h, c, psi):
        kappa = c * self.kappa
        moved, k1 = self.linear(a, h / 2), self.linear(kerr(a, kappa, h), h / 2)
        k2 = kerr(add(moved, k1, 0.5), kappa, h)
        k3 = kerr(add(moved, k2, 0.5), kappa, h)
        k4 = kerr(self.linear(add(moved, k3, 1), h / 2), kappa, h)
        total = add(add(add(moved, k1, 1 / 6), k2, 1 / 3), k3, 1 / 3)
        return add(self.linear(total, h / 2), k4, 1 / 6)
