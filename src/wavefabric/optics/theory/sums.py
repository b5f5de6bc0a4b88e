"""Four-wave mixing between kinds of rows: rows that propagate and are launched alike have the same sums."""

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from wavefabric.optics.signal.transmitter import root_raised_cosine
from wavefabric.optics.theory import correlated_kernels, kernels
from wavefabric.optics.theory.kernels import Comb, Table
from wavefabric.optics.theory.quadrature import Nodes
from wavefabric.optics.theory.response import CORRELATED, Accumulation

Array = NDArray[np.float64]
#: Points of the table of overlaps of two channels.
_OVERLAPS = 1025
#: Delays between two channels for which their correlated mixing is evaluated.
_WALKS = 121


@dataclass(frozen=True, eq=False)
class RowKind:
    """Rows of the field with the same β (4,), attenuation and net gain of a span, and power by channel.

    ``density`` (channels ascending) is the power of a row over the symbol rate, W/Hz.
    """

    beta: Array
    alpha: float
    gain: float
    density: Array
    rows: list[int] = field(default_factory=list)

    def delays(self, f) -> Array:
        """Group delay at optical offsets f in Hz, s/m."""
        w = 2 * math.pi * f
        b1, b2, b3, b4 = self.beta
        return b1 + w * (b2 + w * (b3 / 2 + w * b4 / 6))

    def compiled(self, comb: Comb) -> kernels.Row:
        """For the kernels."""
        f, w = comb.centres, 2 * math.pi * comb.centres
        curvature = self.beta[1] + w * (self.beta[2] + w * self.beta[3] / 2)
        return kernels.Row(self.beta, self.density, kernels.phase(self.beta, f), self.delays(f), curvature)


def walk_off(kinds: list[RowKind], comb: Comb) -> float:
    """Largest difference of group delay between any two frequencies of any two rows, s/m."""
    wide = comb.rate * (1 + comb.rolloff)
    f = np.linspace(comb.centres[0] - wide, comb.centres[-1] + wide, 129)
    return float(np.ptp([kind.delays(f) for kind in kinds]))


@lru_cache(4)
def overlaps(rate: float, rolloff: float) -> Array:
    """∫ of two raised cosines, and of their roots, 0 to their full width apart, Hz: (2, points)."""
    d = np.linspace(0, 1 + rolloff, _OVERLAPS)
    if rolloff == 0:
        return np.stack([rate * (1 - d)] * 2)
    t = (np.arange(8192) + 0.5) / 8192 * (1 + rolloff) - (1 + rolloff) / 2
    root = root_raised_cosine(t, rolloff)
    sums = np.array([[np.interp(t + by, t, g, 0, 0) @ g for by in d] for g in (root**2, root)])
    return sums * rate * (1 + rolloff) / 8192


class Sums:
    """Sums over f1 and f2 for rows i that rows ``j`` act on, at the nodes of the received channels.

    Results are integrals over the channels' raised-cosine spectra, W, (received channels,), launch referred,
    of a row with γκ = 1.
    """

    def __init__(self, comb: Comb, nodes: Nodes, j: RowKind, accumulation: Accumulation, spread: float):
        self.comb, self.nodes, self.j, self.accumulation = comb, nodes, j, accumulation
        self._spread = spread
        self._areas = overlaps(comb.rate, comb.rolloff)

    @cached_property
    def _power(self) -> Table:
        return self.accumulation.power_table()

    @cached_property
    def _amplitude(self) -> list[Table]:
        most = 2 * math.pi * self.comb.rate * (1 + self.comb.rolloff) * self._spread
        floor = max(self.accumulation.alpha, 1 / self.accumulation.length)
        return self.accumulation.amplitude_tables(min(max(most, floor), 2 * CORRELATED * floor))

    def _received(self, values: Array) -> Array:
        """Sums over the nodes f of each channel; ``values`` (…, F)."""
        weighted = values * self.nodes.weights
        return weighted.reshape(*values.shape[:-1], -1, self.nodes.each).sum(axis=-1)

    def gaussian(self, i: RowKind) -> tuple[Array, Array]:
        """∬ G_i G_j G_j |μ|², and the part of it that is slow phase noise."""
        rows = i.compiled(self.comb), self.j.compiled(self.comb)
        values = kernels.interference(
            self.nodes.compiled, self.nodes.alias, self.comb, self._areas[0], *rows, self._power
        )
        whole, slow = self._received(values)
        return whole, slow

    def correlated(self, i: RowKind) -> tuple[Array, Array]:
        """∫ G_i |∫ √(G_j G_j) μ|²/R over pairs in one channel, and the part of it that is slow phase noise.

        f1 in the received channel. The integrals depend on the delay between the two channels, and hardly on
        which they are: they are interpolated in it, with β2 of the middle of all channels.
        """
        comb, n = self.comb, self.nodes
        mine = comb.centres[n.received[:: n.each]]
        walks = np.subtract.outer(i.delays(mine), self.j.delays(comb.centres))
        middle = 2 * math.pi * comb.centres.mean()
        curvatures = tuple(k.beta[1] + middle * (k.beta[2] + middle * k.beta[3] / 2) for k in (i, self.j))
        within = max(abs(curvatures[0]), abs(curvatures[1])) * 2 * math.pi * comb.rate / 4
        scale = max(within, float(abs(walks).max()) / 1e3, 1e-24)
        at = np.linspace(np.arcsinh(walks.min() / scale) - 0.1, np.arcsinh(walks.max() / scale) + 0.1, _WALKS)
        own = (v[: n.each, : n.own] for v in (n.x, n.weight, n.slow))
        pulse = n.f[: n.each] - mine[0], n.weights[: n.each], *own
        sums = np.zeros((2, _WALKS))
        for table in self._amplitude:
            sums += correlated_kernels.correlation(
                scale * np.sinh(at), pulse, comb, self._areas[1], curvatures, table
            )
        power = i.density[n.received[:: n.each]] / comb.rate
        whole, slow = (
            power * (CubicSpline(at, one)(np.arcsinh(walks / scale)) @ self.j.density**2) for one in sums
        )
        return whole, slow

    def self_correlated(self) -> tuple[Array, Array, Array]:
        """Of the received channel on itself, W (for Φ4, Φ6 and Φ4² of `modulation`).

        ∫ G |∫ √(G G) μ df1|²/R over f3; |∬ √(G G G) μ|²/R²; and of the latter what is in step with the
        symbol.
        """
        row, comb, n = self.j.compiled(self.comb), self.comb, self.nodes
        root = root_raised_cosine((n.f - comb.centres[n.received]) / comb.rate, comb.rolloff)
        pairs, triples, mean = np.zeros((3, len(n.f) // n.each))
        for table in self._amplitude:
            pair, triple = correlated_kernels.own_correlation(
                n.compiled, n.received, comb, self._areas[1], row, table
            )
            pairs += self._received(pair.real)
            triples += self._received(abs(triple) ** 2)
            mean += abs(self._received(triple / root)) ** 2
        cube = self.j.density[n.received[:: n.each]] ** 3
        return cube * pairs / comb.rate, cube * triples / comb.rate**2, cube * mean / comb.rate**3
