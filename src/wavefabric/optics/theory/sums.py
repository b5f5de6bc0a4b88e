"""Four-wave mixing between kinds of rows: rows that propagate and are launched alike have the same sums.

``interference.cpp`` and ``correlation.cpp`` of `wavefabric.kernels` explain how they integrate; sums run in a
fixed order, whatever the number of threads.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.polynomial import Polynomial
from scipy.interpolate import CubicSpline

from wavefabric.kernels.cpu_launch import call_kernel
from wavefabric.optics.fibre.fibre import Array
from wavefabric.optics.signal.transmitter import root_raised_cosine
from wavefabric.optics.theory.quadrature import Comb, Nodes
from wavefabric.optics.theory.response import CORRELATED, Accumulation, Table
from wavefabric.system.machine import usable_threads

#: Delays between two channels for which their correlated mixing is evaluated.
_WALKS = 121


class Row(NamedTuple):
    """A row as the sums see it: β1 … β4, power over symbol rate, phase, delay and β2 by channel (SI)."""

    beta: np.ndarray
    density: np.ndarray
    phases: np.ndarray
    delays: np.ndarray
    curvatures: np.ndarray


@dataclass(frozen=True, eq=False)
class RowKind:
    """Rows of the field with the same β, power by channel, attenuation (1/m) and net gain of a span."""

    row: Row
    alpha: float
    gain: float
    rows: np.ndarray


def dispersion(beta: Array, f) -> list[Array]:
    """Phase (1/m), group delay (s/m) and β2 (s²/m) of β1 … β4 at optical offsets f in Hz."""
    phase = Polynomial(np.append(0.0, beta) / [1, 1, 2, 6, 24])
    return [phase.deriv(order)(2 * math.pi * f) for order in range(3)]


def _sum(kernel: str, *arguments) -> None:
    call_kernel(kernel, *arguments, threads=usable_threads())


def walk_off(kinds: list[RowKind], comb: Comb) -> float:
    """Largest difference of group delay between any two frequencies of any two rows, s/m."""
    wide = comb.rate * (1 + comb.rolloff)
    f = np.linspace(comb.centres[0] - wide, comb.centres[-1] + wide, 129)
    return float(np.ptp([dispersion(kind.row.beta, f)[1] for kind in kinds]))


def overlap_areas(comb: Comb) -> Array:
    """∫ of two raised cosines, and of their roots, 0 to their full width apart, Hz: (2, 1025)."""
    width = 1 + comb.rolloff
    root = root_raised_cosine(((np.arange(8192) + 0.5) / 8192 - 0.5) * width, comb.rolloff)
    areas = [[g[8 * k :] @ g[: 8192 - 8 * k] for k in range(1025)] for g in (root**2, root)]
    return comb.rate * width / 8192 * np.array(areas)


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over f1 and f2 for rows i that rows ``j`` act on, at the nodes of the received channels.

    Results are integrals over the channels' raised-cosine spectra, W, (received channels,), launch referred,
    of a row with γκ = 1. ``spread`` is the walk-off of all rows, ``areas`` those of `overlap_areas`.
    """

    comb: Comb
    nodes: Nodes
    j: RowKind
    accumulation: Accumulation
    spread: float
    areas: Array

    @cached_property
    def _amplitude(self) -> list[Table]:
        most = 2 * math.pi * self.comb.rate * (1 + self.comb.rolloff) * self.spread
        floor = self.accumulation.matched
        return self.accumulation.amplitude_tables(min(max(most, floor), 2 * CORRELATED * floor))

    def _received(self, values: Array) -> Array:
        """Sums over the nodes f of each channel; ``values`` (…, F)."""
        weighted = values * self.nodes.weights
        return weighted.reshape(*values.shape[:-1], -1, self.nodes.each).sum(axis=-1)

    @cached_property
    def _power(self) -> Table:
        return self.accumulation.power_table()

    def gaussian(self, i: RowKind) -> Array:
        """∬ G_i G_j G_j |μ|², and the part of it that is slow phase noise."""
        rows, sums = (i.row, self.j.row), np.zeros((2, len(self.nodes.f)))
        _sum("interference_double", self.nodes, self.comb, self.areas[0], rows, self._power, sums)
        return self._received(sums)

    def correlated(self, i: RowKind) -> Array:
        """∫ G_i |∫ √(G_j G_j) μ|²/R over pairs in one channel, less slow phase noise.

        f1 in the received channel. The integrals depend on the delay between the two channels, and hardly on
        which they are: they are interpolated in it, with β2 of the middle of all channels.
        """
        comb, mine = self.comb, self.nodes.received[:: self.nodes.each]
        walks = np.subtract.outer(i.row.delays[mine], self.j.row.delays)
        curvatures = np.array([dispersion(k.row.beta, comb.centres.mean())[2] for k in (i, self.j)])
        within = max(abs(curvatures[0]), abs(curvatures[1])) * 2 * math.pi * comb.rate / 4
        scale = max(within, float(abs(walks).max()) / 1e3, 1e-24)
        at = np.linspace(np.arcsinh(walks.min() / scale) - 0.1, np.arcsinh(walks.max() / scale) + 0.1, _WALKS)
        rest = self.nodes, comb, self.areas[1], curvatures
        parts = np.zeros((len(self._amplitude), _WALKS))
        for part, table in zip(parts, self._amplitude, strict=True):
            _sum("correlation_double", scale * np.sinh(at), *rest, table, part)
        mixed = CubicSpline(at, parts.sum(axis=0))(np.arcsinh(walks / scale))
        return i.row.density[mine] / comb.rate * (mixed @ self.j.row.density**2)

    def self_correlated(self) -> tuple[Array, Array, Array]:
        """Of the received channel on itself, W for Φ4, Φ6 and Φ4² of `gaussian_noise`.

        ∫ G |∫ √(G G) μ df1|²/R over f3; |∬ √(G G G) μ|²/R²; of the latter what is in step with the symbol.
        """
        row, comb, n = self.j.row, self.comb, self.nodes
        root = root_raised_cosine((n.f - comb.centres[n.received]) / comb.rate, comb.rolloff)
        pairs = triples = mean = 0.0
        for table in self._amplitude:
            sums: Array = np.zeros((2, len(n.f)), complex)
            _sum("channel_correlation_double", n, comb, self.areas[1], row, table, sums)
            pairs += self._received(sums[0].real)
            triples += self._received(abs(sums[1]) ** 2)
            mean += abs(self._received(sums[1] / root)) ** 2
        cube = row.density[n.received[:: n.each]] ** 3
        return cube * pairs / comb.rate, cube * triples / comb.rate**2, cube * mean / comb.rate**3
