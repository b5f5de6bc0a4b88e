"""Integrate four-wave mixing over frequency between kinds of field rows; choose quadrature nodes and weights.

Rows with equal propagation and launch have equal sums. ``interference.cpp`` and ``correlation.cpp`` of
`runtime.kernels` describe the integration; sums run in a fixed order, whatever the number of threads.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import scipy  # its submodules load when first used
from numpy.polynomial import Polynomial

from wavefabric.base.system.machine import usable_threads
from wavefabric.optics.fibre.fibre import Array
from wavefabric.optics.signal.recovery import sliding_sum
from wavefabric.optics.signal.transmitter import root_raised_cosine
from wavefabric.optics.theory.response import CORRELATED, Accumulation, Stretch, Table
from wavefabric.runtime.kernels.cpu_launch import call_kernel

#: Number of delays between two channels at which their correlated mixing is evaluated.
_WALKS = 121
#: Nodes over the flat part of a spectrum: of f, received channel; of f1, an adjacent channel, a far channel.
RECEIVED, BESIDE, FAR = 3, 5, 3
#: Nodes of f1 in the received channel, per side: offsets slower than the sequence, slower than the carrier
#: phase, the rest of the flat part, a rounded edge.
OWN = (3, 16, 12, 3)
#: Gauss–Legendre nodes and weights on −1 … 1.
legendre = lru_cache(64)(np.polynomial.legendre.leggauss)


class Comb(NamedTuple):
    """Describes channels: ``centres`` (C,), ascending, in Hz from the fibre's centre, and their pulses."""

    centres: np.ndarray
    kinds: np.ndarray  # kind of each channel's pulse, (C,)
    rates: np.ndarray  # symbol rate of each kind, Hz
    rolloffs: np.ndarray  # roll-off of each kind

    @classmethod
    def of(cls, centres: Array, rates: Array, rolloffs: Array) -> "Comb":
        """Return the comb of channels with these symbol rates (Hz) and roll-offs, each (C,)."""
        pulses, kinds = np.unique(np.stack([rates, rolloffs]), axis=1, return_inverse=True)
        return cls(centres, kinds.reshape(-1), *map(np.ascontiguousarray, pulses))

    @property
    def widest(self) -> float:
        """Return the width of the widest spectrum, Hz."""
        return float((self.rates * (1 + self.rolloffs)).max())


class Nodes(NamedTuple):
    """Holds quadrature nodes for the interference at frequencies f due to light at frequencies f1.

    ``f`` (F,) is in Hz. For each f, ``x`` (F, X) has the offsets f1 − f in Hz.
    """

    f: np.ndarray
    weights: np.ndarray  # weight of each f, Hz
    received: np.ndarray  # channel of each f
    x: np.ndarray
    weight: np.ndarray  # weight of each f1, Hz, including the spectrum there
    slow: np.ndarray  # fraction that carrier-phase tracking removes
    channel: np.ndarray  # channel of each f1
    alias: float  # 0 or ± the sampling rate, Hz: light at f + alias appears at f
    each: int  # number of nodes f per channel
    inside: int  # number of columns of x in the received channel itself


def spectral_nodes(count: int, rolloff: float) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes u and weights for integrals of the form ∫ g(u) … du, with a raised cosine g.

    u is in symbol rates from the centre; the weights add up to 1. ``count`` nodes lie in the flat part. Those
    on the edges are Gauss nodes in the height of g (Chebyshev's of the third kind), so that powers of g are
    integrated exactly: mixing multiplies up to four of them.
    """
    u, w = legendre(count)
    edge = (rolloff > 0) + (rolloff > 0.2) + (rolloff > 0.5)
    t = np.arange(1, 2 * edge, 2) / (2 * edge + 1)
    at, part = (1 - rolloff) / 2 + rolloff * t, 2 * rolloff / (2 * edge + 1) * np.cos(np.pi / 2 * t) ** 2
    half = (1 - rolloff) / 2
    return np.concatenate([half * u, at, -at]), np.concatenate([half * w, part, part])


def window_weights(window: int, centre_weight: float | None = None) -> np.ndarray:
    """Return the weights, of sum 1, of lags −window … window + 1 in a `sliding_sum` of ``window`` symbols."""
    weights = sliding_sum(np, np.eye(1, 2 * window + 2, window)[0], window, centre_weight)
    return weights / weights.sum()


def _self_nodes(
    offset: float, pulse: tuple[float, float], scale: float, window: int | None, symbols: float | None
) -> Array:
    """Return the nodes for light in the same channel: offsets f1 − f, weights, slow fractions, (3, X).

    f is ``offset`` Hz above the channel's centre; ``pulse`` is its symbol rate and roll-off. A slow fraction
    is that of slow phase noise, which carrier-phase recovery removes. Nodes are Gauss–Legendre in
    asinh(x/scale), with x = f1 − f: dense at x = 0.
    """
    rate, rolloff = pulse
    slowest = rate / symbols / 2 if symbols else 0.0
    # Beyond two zeros of the window's response its side lobes cancel.
    slower = max(slowest, 2 * rate / (window or 64))
    parts = []
    for sign in (-1, 1):
        corner, edge = (rate * (1 + end) / 2 - sign * offset for end in (-rolloff, rolloff))
        bounds = np.maximum.accumulate([0.0, *np.clip([slowest, slower, corner], 0, edge), edge])
        ends = np.arcsinh(bounds / scale)
        for k, count in enumerate(OWN):
            t, w = legendre(count)
            half = (ends[k + 1] - ends[k]) / 2
            u = (ends[k] + ends[k + 1]) / 2 + half * t
            nodes, weights = scale * np.sinh(u), scale * np.cosh(u) * w * half
            tracked = np.full(count, float(k == 0))
            if k == 1 and window and window < (symbols or math.inf):
                # The carrier-phase estimate removes 1 − |1 − W(x)|², W the response of its sliding window.
                lags = np.multiply.outer(nodes / rate, np.arange(-window, window + 2))
                tracked = 1 - abs(1 - np.exp(-2j * np.pi * lags) @ window_weights(window)) ** 2
            parts.append((sign * nodes, weights, tracked))
    products = np.concatenate(parts, axis=1)
    products[1] *= root_raised_cosine((offset + products[0]) / rate, rolloff) ** 2
    products[1] *= rate / products[1].sum()
    return products


def nodes_of(
    comb: Comb, channels: np.ndarray, scale: float, window: int | None, symbols: float | None, alias: float
) -> Nodes:
    """Return the quadrature nodes for the interference in ``channels`` (indices), of one kind of pulse.

    ``scale`` (Hz) is the width of the finest structure of the mixing strength |μ|² over x = f1 − f.
    ``window`` is the number of symbols of the carrier-phase estimate, None for one phase over the sequence.
    ``symbols`` is the length of the sequence, whose mean phase is known, None if endless. By aliasing, light
    at f + ``alias`` (Hz) appears at f.
    """
    pulses = list(zip(comb.rates.tolist(), comb.rolloffs.tolist(), strict=True))
    rate, rolloff = pulse = pulses[comb.kinds[channels[0]]]
    offset, fraction = spectral_nodes(RECEIVED, rolloff)
    beside, far = ([spectral_nodes(count, end) for _, end in pulses] for count in (BESIDE, FAR))
    inside = [(u, _self_nodes(u, pulse, scale, window, symbols)) for u in offset * rate]
    rows = []
    for c in channels:
        offsets = comb.centres - comb.centres[c] - alias
        for u, own in inside:
            parts = [] if alias else [np.vstack([own, np.full(own.shape[1], c)])]
            for other in np.flatnonzero(offsets):
                kind = comb.kinds[other]
                other_rate = pulses[kind][0]
                near = abs(offsets[other]) < 1.25 * (rate + other_rate)
                v, part = beside[kind] if near else far[kind]
                x = offsets[other] - u + other_rate * v
                parts.append(np.stack([x, part * other_rate, 0 * v, 0 * v + other]))
            rows.append(np.concatenate(parts, axis=1))
    longest = max(row.shape[1] for row in rows)
    padded = [np.pad(row, ((0, 0), (0, longest - row.shape[1]))) for row in rows]
    x, weight, slow, channel = np.stack(padded, axis=1)
    f = np.add.outer(comb.centres[channels], offset * rate).reshape(-1)
    weights, received = np.tile(fraction * rate, len(channels)), np.repeat(channels, len(offset))
    return Nodes(f, weights, received, x, weight, slow, channel.astype(int), alias, len(offset), 2 * sum(OWN))


class Row(NamedTuple):
    """Describes a field row in SI: β1, β2, …; for each channel power over rate, phase, delay and β2."""

    beta: np.ndarray
    density: np.ndarray
    phases: np.ndarray
    delays: np.ndarray
    curvatures: np.ndarray


@dataclass(frozen=True, eq=False)
class RowKind:
    """Describes a set of field rows of equal β and channel powers, with equal ``stretches`` of fibre."""

    row: Row
    stretches: tuple[Stretch, ...]
    rows: np.ndarray


def dispersion(beta: Array, f) -> list[Array]:
    """Return phase (1/m), group delay (s/m) and β2 (s²/m) of β1, β2, … at optical offsets f in Hz."""
    phase = Polynomial(np.append(0.0, beta) / [math.factorial(n) for n in range(len(beta) + 1)])
    return [phase.deriv(order)(2 * math.pi * f) for order in range(3)]


def _sum(kernel: str, *arguments) -> None:
    call_kernel(kernel, *arguments, threads=usable_threads())


def walk_off(kinds: list[RowKind], comb: Comb) -> float:
    """Return the largest difference of group delay between any two frequencies of any two rows, s/m."""
    wide = comb.widest
    f = np.linspace(comb.centres[0] - wide, comb.centres[-1] + wide, 129)
    return float(np.ptp([dispersion(kind.row.beta, f)[1] for kind in kinds]))


def overlap_areas(comb: Comb) -> Array:
    """Return the overlap integral (Hz) of two channels' spectra for 1025 distances: (2, kinds, kinds, 1025).

    The first is that of two raised cosines, the second that of two roots of them. Distances are from 0 to
    the width of the wider spectrum.
    """
    count, middles = len(comb.rates), (np.arange(8192) + 0.5) / 8192 - 0.5
    areas = np.zeros((2, count, count, 1025))
    for a, b in np.ndindex(count, count):
        ratio = comb.rates[b] / comb.rates[a]
        width = max(1 + comb.rolloffs[a], (1 + comb.rolloffs[b]) * ratio)
        one = root_raised_cosine(middles * width, float(comb.rolloffs[a]))
        other = root_raised_cosine(middles * width / ratio, float(comb.rolloffs[b]))
        for power, out in ((2, areas[0]), (1, areas[1])):
            f, g = one**power, other**power
            sums = np.array([f[8 * k :] @ g[: 8192 - 8 * k] for k in range(1025)])
            out[a, b] = comb.rates[a] * width / 8192 * sums
    return areas


@dataclass(frozen=True, eq=False)
class Sums:
    """Computes the interference that rows ``j`` of the field cause in rows i, as integrals over f1 and f2.

    Results are powers in the received channels, W, (received channels,), at the launch, for γκ = 1.
    ``spread`` is the `walk_off` of all rows, ``areas`` are `overlap_areas`.
    """

    comb: Comb
    nodes: Nodes
    j: RowKind
    accumulation: Accumulation
    spread: float
    areas: Array

    @cached_property
    def _amplitude(self) -> list[Table]:
        most = float((2 * math.pi * self.comb.rates * (1 + self.comb.rolloffs)).max()) * self.spread
        floor = self.accumulation.matched
        return self.accumulation.amplitude_tables(min(max(most, floor), 2 * CORRELATED * floor))

    def _received(self, values: Array) -> Array:
        """Sum ``values`` (…, F), with their weights, over the nodes f of each channel."""
        weighted = values * self.nodes.weights
        return weighted.reshape(*values.shape[:-1], -1, self.nodes.each).sum(axis=-1)

    @cached_property
    def _power(self) -> Table:
        return self.accumulation.power_table()

    def gaussian(self, i: RowKind) -> Array:
        """Return the interference of Gaussian symbols, W, and the part of it that is slow phase noise.

        The interference is ∬ G_i(f1) G_j(f2) G_j(f3) |μ|² in each received channel, with the spectra G of
        rows i and j and f3 = f1 + f2 − f.
        """
        rows, sums = (i.row, self.j.row), np.zeros((2, len(self.nodes.f)))
        _sum("interference_double", self.nodes, self.comb, self.areas[0], rows, self._power, sums)
        return self._received(sums)

    def correlated(self, i: RowKind, excess: Array) -> Array:
        """Return the part of the interference, W, due to pairs of fields from the same symbols.

        It is the sum over channels of Φ4 ∫ G_i |∫ √(G_j G_j) μ|²/R, less slow phase noise, with Φ4 of each
        channel in ``excess`` and its symbol rate R. The inner integral is over pairs f2, f3 in one channel of
        j, and f1 is in the received channel. The integral depends on the delay between the two channels, and
        hardly on the channels themselves: it is interpolated over delay, with β2 at the middle of all
        channels.
        """
        comb, channel_nodes = self.comb, self.nodes.received[:: self.nodes.each]
        walks = np.subtract.outer(i.row.delays[channel_nodes], self.j.row.delays)
        curvatures = np.array([dispersion(k.row.beta, comb.centres.mean())[2] for k in (i, self.j)])
        within = max(abs(curvatures[0]), abs(curvatures[1])) * 2 * math.pi * float(comb.rates.max()) / 4
        scale = max(within, float(abs(walks).max()) / 1e3, 1e-24)
        low, high = np.arcsinh(walks.min() / scale), np.arcsinh(walks.max() / scale)
        grid, total = np.linspace(low - 0.1, high + 0.1, _WALKS), 0.0
        for kind, rate in enumerate(comb.rates):
            rest = self.nodes, int(np.argmax(comb.kinds == kind)), comb, self.areas[1], curvatures
            parts = np.zeros((len(self._amplitude), _WALKS))
            for part, table in zip(parts, self._amplitude, strict=True):
                _sum("correlation_double", scale * np.sinh(grid), *rest, table, part)
            curve = scipy.interpolate.CubicSpline(grid, parts.sum(axis=0))
            for fourth in np.unique(excess[comb.kinds == kind]):
                alike = np.flatnonzero((comb.kinds == kind) & (excess == fourth))
                mixed = curve(np.arcsinh(walks.take(alike, axis=1) / scale)) @ self.j.row.density[alike] ** 2
                total = total + fourth * (i.row.density[channel_nodes] / rate * mixed)
        return np.asarray(total)

    def self_correlated(self) -> tuple[Array, Array, Array]:
        """Return the terms of the received channel on itself, W, by which Φ4, Φ6 and Φ4² are multiplied.

        `gaussian_noise` defines these. With the symbol rate R: ∫ G |∫ √(G G) μ df1|²/R over f3;
        |∬ √(G G G) μ|²/R²; and the part of the latter that is in phase with the symbol.
        """
        row, comb, n = self.j.row, self.comb, self.nodes
        kind = comb.kinds[n.received[0]]
        rate = comb.rates[kind]
        root = root_raised_cosine((n.f - comb.centres[n.received]) / rate, float(comb.rolloffs[kind]))
        pairs = triples = mean = 0.0
        for table in self._amplitude:
            sums: Array = np.zeros((2, len(n.f)), complex)
            _sum("channel_correlation_double", n, comb, self.areas[1], row, table, sums)
            pairs += self._received(sums[0].real)
            triples += self._received(abs(sums[1]) ** 2)
            mean += abs(self._received(sums[1] / root)) ** 2
        cube = row.density[n.received[:: n.each]] ** 3
        return cube * pairs / rate, cube * triples / rate**2, cube * mean / rate**3
