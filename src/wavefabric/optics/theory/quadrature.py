"""Frequencies at which the Gaussian-noise integrals are evaluated, and their weights."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from wavefabric.optics.signal.carrier import sliding_sum
from wavefabric.optics.signal.transmitter import root_raised_cosine
from wavefabric.optics.theory.kernels import Comb

#: Nodes over the flat part of the received channel; of f1 over that of a channel beside it, of one farther
#: off.
RECEIVED, BESIDE, FAR = 3, 5, 3
#: Nodes of f1 in the received channel, each side: slower than the sequence, than the carrier phase, the rest
#: of the flat part, a rounded edge.
OWN = (3, 16, 12, 3)


@dataclass(frozen=True)
class Nodes:
    """f (F,) in Hz with weights (F,) in Hz, and for each f the offsets x = f1 − f with all that belongs to
    them.

    ``x``, ``weight`` (Hz, with the spectrum at f1), ``slow`` (the part that is tracked phase) and ``channel``
    of f1 are (F, X); ``received`` (F,) is the channel of f.
    """

    f: NDArray[np.float64]
    weights: NDArray[np.float64]
    received: NDArray[np.int64]
    x: NDArray[np.float64]
    weight: NDArray[np.float64]
    slow: NDArray[np.float64]
    channel: NDArray[np.int64]
    #: What counts as light at f is at f + alias, Hz.
    alias: float = 0.0
    #: Nodes f of a channel.
    each: int = 1

    #: Columns of x in the received channel itself, the same for all channels.
    own: int = 2 * sum(OWN)

    @property
    def compiled(self) -> tuple:
        """For the kernels."""
        return self.f, self.x, self.weight, self.slow, self.channel


#: Gauss–Legendre nodes and weights on −1 … 1.
legendre = lru_cache(64)(np.polynomial.legendre.leggauss)


def gauss_rule(x: np.ndarray, w: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss nodes and weights for the measure of masses ``w`` at points ``x``, from its Jacobi matrix.

    G. H. Golub, J. H. Welsch, "Calculation of Gauss quadrature rules", Math. Comp. 23 (1969), doi
    10.1090/S0025-5718-69-99647-1.
    """
    before, now, off = np.zeros_like(x), np.full_like(x, 1 / np.sqrt(w.sum())), np.zeros(count + 1)
    middle = np.zeros(count)
    for k in range(count):
        middle[k] = (w * x * now**2).sum()
        after = (x - middle[k]) * now - off[k] * before
        off[k + 1] = np.sqrt((w * after**2).sum())
        before, now = now, after / off[k + 1]
    jacobi = np.diag(middle) + np.diag(off[1:count], 1) + np.diag(off[1:count], -1)
    nodes, vectors = np.linalg.eigh(jacobi)
    return nodes, w.sum() * vectors[0] ** 2


def spectral_nodes(count: int, rolloff: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes u (in symbol rates from the centre) and weights (sum 1) for ∫ g(u) … du, g a raised cosine.

    ``count`` lie in the flat part. Those on the edges are Gauss nodes in the height of g, so that powers of
    it are integrated exactly: mixing brings up to four of them together.
    """
    u, w = legendre(count)
    u, w = u * (1 - rolloff) / 2, w * (1 - rolloff) / 2
    if rolloff:
        t, part = legendre(64)
        t = (t + 1) / 2
        height = np.cos(np.pi / 2 * t) ** 2
        r, edge = gauss_rule(height, part / 2 * rolloff * height, 1 + (rolloff > 0.2) + (rolloff > 0.5))
        at = (1 - rolloff) / 2 + rolloff * 2 / np.pi * np.arccos(np.sqrt(r))
        u, w = np.concatenate([u, at, -at]), np.concatenate([w, edge, edge])
    return u, w / w.sum()


def slow_phase(x, rate: float, window: int) -> np.ndarray:
    """Fraction 1 − |1 − W(x)|² of phase noise at x Hz that the carrier-phase estimate removes.

    W is the response of the receiver's sliding window (`sliding_sum`) of ``window`` symbols.
    """
    pulse = np.zeros(2 * window + 2)
    pulse[window] = 1.0
    weights = sliding_sum(np, pulse, window)
    lags = np.flatnonzero(weights) - window
    response = np.exp(-2j * np.pi * np.multiply.outer(x / rate, lags)) @ weights[lags + window]
    return 1 - abs(1 - response / weights.sum()) ** 2


def graded(low: float, high: float, scale: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss–Legendre nodes and weights from ``low`` to ``high``, in asinh(x/scale): dense about x = 0."""
    if high <= low:
        return np.zeros(count), np.zeros(count)
    a, b = np.arcsinh(low / scale), np.arcsinh(high / scale)
    t, w = legendre(count)
    u = (a + b) / 2 + (b - a) / 2 * t
    return scale * np.sinh(u), scale * np.cosh(u) * w * (b - a) / 2


@dataclass(frozen=True)
class Sampling:
    """What nodes depend on.

    ``scale`` (Hz) is the least frequency that |μ|² resolves in x; ``window`` the symbols of the carrier-phase
    estimate, None for one phase over the sequence; ``symbols`` the length of that, whose mean phase is known,
    None if endless; ``alias`` (Hz) a sampling rate, or 0.
    """

    scale: float
    window: int | None = None
    symbols: int | None = None
    alias: float = 0.0


def _own(offset: float, comb: Comb, sampling: Sampling) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, weights and slow part over the channel whose centre is ``offset`` Hz below f."""
    flat, end = comb.rate * (1 - comb.rolloff) / 2, comb.rate * (1 + comb.rolloff) / 2
    # Beyond two zeros of the window's response its side lobes cancel.
    slowest = comb.rate / sampling.symbols / 2 if sampling.symbols else 0.0
    slower = max(slowest, 2 * comb.rate / (sampling.window or 64))
    x, w, slow = [], [], []
    for sign in (-1, 1):
        corner, edge = max(0.0, flat - sign * offset), end - sign * offset
        bounds = [0.0, *np.clip([slowest, slower, corner], 0, edge), edge]
        bounds = np.maximum.accumulate(bounds)
        for k, count in enumerate(OWN):
            nodes, weights = graded(bounds[k], bounds[k + 1], sampling.scale, count)
            tracked = np.full(count, float(k == 0))
            if k == 1 and sampling.window and (not sampling.symbols or sampling.window < sampling.symbols):
                tracked = slow_phase(nodes, comb.rate, sampling.window)
            x, w, slow = [*x, sign * nodes], [*w, weights], [*slow, tracked]
    at, weight = np.concatenate(x), np.concatenate(w)
    if comb.rolloff:
        weight = weight * root_raised_cosine((offset + at) / comb.rate, comb.rolloff) ** 2
    return at, weight * comb.rate / weight.sum(), np.concatenate(slow)


def nodes_of(comb: Comb, channels, sampling: Sampling) -> Nodes:
    """Nodes to receive ``channels`` (indices)."""
    at, fraction = spectral_nodes(RECEIVED, comb.rolloff)
    sets = {count: spectral_nodes(count, comb.rolloff) for count in (BESIDE, FAR)}
    rows, f, received = [], [], []
    for c in channels:
        gap = abs(comb.centres - comb.centres[c] - sampling.alias)
        for u in at * comb.rate:
            parts = []
            if not sampling.alias:
                x, w, slow = _own(u, comb, sampling)
                parts = [(x, w, slow, np.full(len(x), c))]
            for other in np.flatnonzero(gap > 0):
                v, part = sets[BESIDE if gap[other] < 2.5 * comb.rate else FAR]
                x = comb.centres[other] - comb.centres[c] - sampling.alias - u + comb.rate * v
                parts.append((x, part * comb.rate, np.zeros(len(x)), np.full(len(x), other)))
            rows.append([np.concatenate(column) for column in zip(*parts, strict=True)])
            f.append(comb.centres[c] + u)
            received.append(c)
    longest = max(len(row[0]) for row in rows)
    x, weight, slow, channel = (
        np.stack([np.pad(row[k], (0, longest - len(row[k]))) for row in rows]) for k in range(4)
    )
    weights = np.tile(fraction * comb.rate, len(channels))
    return Nodes(np.array(f), weights, np.array(received), x, weight, slow, channel, sampling.alias, len(at))
