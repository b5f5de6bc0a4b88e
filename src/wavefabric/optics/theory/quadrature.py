"""Frequencies at which the Gaussian-noise integrals are evaluated, and their weights."""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from wavefabric.optics.signal.carrier import sliding_sum
from wavefabric.optics.signal.transmitter import root_raised_cosine

#: Nodes over the flat part of the received channel; of f1 over that of a channel beside it, of one far off.
RECEIVED, BESIDE, FAR = 3, 5, 3
#: Nodes of f1 in the received channel, each side: slower than the sequence, than the carrier phase, the rest
#: of the flat part, a rounded edge.
OWN = (3, 16, 12, 3)
#: Gauss–Legendre nodes and weights on −1 … 1.
legendre = lru_cache(64)(np.polynomial.legendre.leggauss)


class Comb(NamedTuple):
    """Channels in ascending order: ``centres`` (C,) in Hz from the fibre's centre, symbol rate, roll-off."""

    centres: np.ndarray
    rate: float
    rolloff: float


class Nodes(NamedTuple):
    """Frequencies f (F,), Hz, and for each the offsets x = f1 − f (F, X), with all that belongs to them."""

    f: np.ndarray
    weights: np.ndarray  # of f, Hz
    received: np.ndarray  # channel of f
    x: np.ndarray
    weight: np.ndarray  # of f1, Hz, with the spectrum there
    slow: np.ndarray  # the part that is tracked phase
    channel: np.ndarray  # of f1
    alias: float  # light at f + alias (Hz), 0 or a sampling rate off, counts as light at f
    each: int  # nodes f of a channel
    inside: int  # columns of x in the received channel itself


def spectral_nodes(count: int, rolloff: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes u (in symbol rates from the centre) and weights (sum 1) for ∫ g(u) … du, g a raised cosine.

    ``count`` lie in the flat part. Those on the edges are Gauss nodes in the height of g (Chebyshev's of the
    third kind), so that powers of it are integrated exactly: mixing brings up to four of them together.
    """
    u, w = legendre(count)
    edge = (rolloff > 0) + (rolloff > 0.2) + (rolloff > 0.5)
    t = np.arange(1, 2 * edge, 2) / (2 * edge + 1)
    at, part = (1 - rolloff) / 2 + rolloff * t, 2 * rolloff / (2 * edge + 1) * np.cos(np.pi / 2 * t) ** 2
    half = (1 - rolloff) / 2
    return np.concatenate([half * u, at, -at]), np.concatenate([half * w, part, part])


def window_weights(window: int, own: float | None = None) -> np.ndarray:
    """Weights of a `sliding_sum` of ``window`` symbols at lags −window … window + 1, together 1."""
    weights = sliding_sum(np, np.eye(1, 2 * window + 2, window)[0], window, own)
    return weights / weights.sum()


def _own(offset: float, comb: Comb, scale: float, window: int | None, symbols: int | None) -> np.ndarray:
    """x, weights and slow part over the channel whose centre is ``offset`` Hz below f, (3, X).

    Gauss–Legendre nodes in asinh(x/scale): dense about x = 0.
    """
    slowest = comb.rate / symbols / 2 if symbols else 0.0
    # Beyond two zeros of the window's response its side lobes cancel.
    slower = max(slowest, 2 * comb.rate / (window or 64))
    parts = []
    for sign in (-1, 1):
        corner, edge = (comb.rate * (1 + end) / 2 - sign * offset for end in (-comb.rolloff, comb.rolloff))
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
                lags = np.multiply.outer(nodes / comb.rate, np.arange(-window, window + 2))
                tracked = 1 - abs(1 - np.exp(-2j * np.pi * lags) @ window_weights(window)) ** 2
            parts.append((sign * nodes, weights, tracked))
    own = np.concatenate(parts, axis=1)
    own[1] *= root_raised_cosine((offset + own[0]) / comb.rate, comb.rolloff) ** 2
    own[1] *= comb.rate / own[1].sum()
    return own


def nodes_of(
    comb: Comb, channels: np.ndarray, scale: float, window: int | None, symbols: int | None, alias: float
) -> Nodes:
    """Nodes to receive ``channels`` (indices).

    ``scale`` (Hz) is the least frequency that |μ|² resolves in x; ``window`` the symbols of the carrier-phase
    estimate, None for one phase over the sequence; ``symbols`` the length of that, whose mean phase is known,
    None if endless; ``alias`` (Hz) a sampling rate, or 0.
    """
    at, fraction = spectral_nodes(RECEIVED, comb.rolloff)
    beside, far = (spectral_nodes(count, comb.rolloff) for count in (BESIDE, FAR))
    inside = [(u, _own(u, comb, scale, window, symbols)) for u in at * comb.rate]
    rows = []
    for c in channels:
        offsets = comb.centres - comb.centres[c] - alias
        for u, own in inside:
            parts = [] if alias else [np.vstack([own, np.full(own.shape[1], c)])]
            for other in np.flatnonzero(offsets):
                v, part = beside if abs(offsets[other]) < 2.5 * comb.rate else far
                x = offsets[other] - u + comb.rate * v
                parts.append(np.stack([x, part * comb.rate, 0 * v, 0 * v + other]))
            rows.append(np.concatenate(parts, axis=1))
    longest = max(row.shape[1] for row in rows)
    padded = [np.pad(row, ((0, 0), (0, longest - row.shape[1]))) for row in rows]
    x, weight, slow, channel = np.stack(padded, axis=1)
    f = np.add.outer(comb.centres[channels], at * comb.rate).reshape(-1)
    weights, received = np.tile(fraction * comb.rate, len(channels)), np.repeat(channels, len(at))
    return Nodes(f, weights, received, x, weight, slow, channel.astype(int), alias, len(at), 2 * sum(OWN))
