"""Exact steady fields of a bowl or disc in water, in front of and behind flat layers of absorbing fluids.

The angular spectrum of the source's Rayleigh integral goes through the layers by transfer matrices; fields
are p/p₀ by the source's surface pressure p₀ = ρcu, with exp(−iωt).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import j0

#: Samples of the propagating part of the spectrum, and of the evanescent one.
_ANGLES, _EVANESCENT = 4000, 800


@dataclass(frozen=True)
class Layer:
    """A fluid from ``start`` on: phase speed c, m/s, density, kg/m³, and attenuation, Np/m."""

    start: float
    sound_speed: float
    density: float
    attenuation: float = 0.0


@dataclass(frozen=True)
class Piston:
    """A bowl of this radius of curvature, or a disc (None), its apex at x = 0, facing +x; m."""

    diameter: float
    radius: float | None = None

    def rings(self, count: int = 2000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """x, r and area of rings that the surface consists of."""
        if self.radius is None:
            edges = np.linspace(0, self.diameter / 2, count + 1)
            r = 0.5 * (edges[1:] + edges[:-1])
            return 0 * r, r, math.pi * np.diff(edges**2)
        edges = np.linspace(0, math.asin(self.diameter / (2 * self.radius)), count + 1)
        angle = 0.5 * (edges[1:] + edges[:-1])
        area = 2 * math.pi * self.radius**2 * -np.diff(np.cos(edges))
        return self.radius * (1 - np.cos(angle)), self.radius * np.sin(angle), area


def field(
    piston: Piston, layers: Sequence[Layer], frequency: float, x: np.ndarray, r: np.ndarray
) -> np.ndarray:
    """p/p₀ (x, r) at points beyond the source's rim; the first layer holds the source.

    Its real k gives p₀: a source of Rayleigh's integral with a volume velocity u dS.
    """
    omega = 2 * math.pi * frequency
    k = np.array([omega / layer.sound_speed + 1j * layer.attenuation for layer in layers])
    k0 = k[0].real
    # k_r = k sin θ up to k, then k cosh s: dk_r/k_z has no pole in either.
    theta = _gauss(_ANGLES, 0, math.pi / 2)
    s = _gauss(_EVANESCENT, 0, math.acosh(1.6))
    k_r = np.concatenate([k0 * np.sin(theta[0]), k0 * np.cosh(s[0])])
    d_k_r = np.concatenate([k0 * np.cos(theta[0]) * theta[1], k0 * np.sinh(s[0]) * s[1]])
    k_z: Any = np.sqrt(k[:, None] ** 2 - k_r**2 + 0j)
    k_z = np.where(k_z.imag < 0, -k_z, k_z)

    ring_x, ring_r, area = piston.rings()
    source = np.zeros(k_r.size, complex)
    for first in range(0, ring_x.size, 200):
        part = slice(first, first + 200)
        phase = np.exp(-1j * k_z[0] * ring_x[part, None])
        source += area[part] @ (j0(np.outer(ring_r[part], k_r)) * phase)
    # p = −iωρu/(2π) ∫ e^{ikR}/R dS, and e^{ikR}/R = i ∫ J₀(k_r r) e^{ik_z x} k_r/k_z dk_r.
    spectrum = k0 / (2 * math.pi) * source * k_r / k_z[0] * d_k_r

    down, up = _amplitudes(layers, omega, k_z)
    starts = np.array([layer.start for layer in layers])
    number = np.searchsorted(starts[1:], x, side="right")
    bessel = j0(np.outer(k_r, r))
    result = np.empty((x.size, r.size), complex)
    for i, (at, n) in enumerate(zip(x, number, strict=True)):
        wave = down[n] * np.exp(1j * k_z[n] * (at - (starts[n] if n else 0.0)))
        if n + 1 < len(layers):
            wave = wave + up[n] * np.exp(1j * k_z[n] * (starts[n + 1] - at))
        result[i] = (spectrum * wave) @ bessel
    return result


def _amplitudes(layers: Sequence[Layer], omega: float, k_z: np.ndarray) -> tuple[list, list]:
    """Of the waves to +x at the start and to −x at the end of each layer, for one of 1 at x = 0."""
    impedance = [omega * layer.density / each for layer, each in zip(layers, k_z, strict=True)]
    count = len(layers)
    # The impedance that each layer sees at its end, from the last one back.
    seen: list = [None] * count
    reflection: list = [np.zeros_like(k_z[0])] * count
    after = impedance[-1]
    thickness = [0.0, *np.diff([layer.start for layer in layers[1:]]), 0.0]
    for n in range(count - 2, -1, -1):
        seen[n] = after
        reflection[n] = (after - impedance[n]) / (after + impedance[n])
        there = reflection[n] * np.exp(2j * k_z[n] * thickness[n])
        after = impedance[n] * (1 + there) / (1 - there)
    down: list = [np.ones_like(k_z[0])]
    up: list = []
    for n in range(count):
        length = layers[1].start if n == 0 and count > 1 else thickness[n]
        end = down[n] * np.exp(1j * k_z[n] * length)
        up.append(reflection[n] * end)
        if n + 1 < count:
            pressure = end * (1 + reflection[n])
            there = reflection[n + 1] * np.exp(2j * k_z[n + 1] * thickness[n + 1])
            down.append(pressure / (1 + there))
    return down, up


def _gauss(count: int, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return low + (high - low) * (nodes + 1) / 2, weights * (high - low) / 2
