"""Sums over symbols that mix with themselves, compiled: ∫ √g μ over one channel, as in `kernels`."""

import math

import numba
import numpy as np

from wavefabric.optics.theory.kernels import EDGE, knot, overlap, phase, raised_cosine, within
from wavefabric.system.numba_cache import njit

# Knots on the flat part where the mismatch is a parabola.
_BENT = 16


@njit()
def amplitude(table, mismatch):
    """μ and its two integrals at a mismatch, complex; none beyond the table."""
    size = min(abs(mismatch), table.step * (len(table.values) - 1))
    value, once, twice = within(table, size)
    twice += once * (abs(mismatch) - size)
    if mismatch < 0:
        return value.conjugate(), -once.conjugate(), twice.conjugate()
    return value, once, twice


@njit()
def _piece(g, g1, first, final, h, table):
    """∫ g μ over h Hz between two knots of (mismatch, ∫μ, ∫∫μ)."""
    step = final[0] - first[0]
    if abs(step) < 0.5 * table.step:
        return h / 2 * (g + g1) * amplitude(table, (first[0] + final[0]) / 2)[0]
    return h * ((g1 * final[1] - g * first[1]) - (g1 - g) * (final[2] - first[2]) / step) / step


@njit()
def _difference(d, middle, slope, comb, table, area):
    """∫ √g μ df2, f2 and f3 = f2 + d in one channel; the mismatch in their middle, and how it rises, 1/(m
    Hz).
    """
    width = comb.rate * (1 + comb.rolloff) - abs(d)
    if abs(slope) * width < 2 * table.step:  # a sixth of the fastest oscillation
        return area * amplitude(table, middle)[0]
    edge = min(comb.rolloff * comb.rate, width / 2)
    total, u, g = 0j, -width / 2, 1.0 if comb.rolloff == 0 else 0.0
    _, once, twice = amplitude(table, middle + slope * u)
    before = (middle + slope * u, once, twice)
    for k in range(1, 2 * EDGE + 2):
        u1 = knot(k, -width / 2, width / 2, edge, 1)
        if u1 <= u:
            continue
        g1 = 1.0
        if comb.rolloff > 0:
            g1 = math.sqrt(raised_cosine(u1 - d / 2, comb) * raised_cosine(u1 + d / 2, comb))
        _, once, twice = amplitude(table, middle + slope * u1)
        after = (middle + slope * u1, once, twice)
        total += _piece(g, g1, before, after, u1 - u, table)
        u, g, before = u1, g1, after
    return total


@njit()
def _sum(both, base, centre, comb, beta, table):
    """∫ √g μ df1, f1 and f2 = ``both`` − f1 in one channel; ``base`` of the mismatch belongs to f3 and f."""
    wide, d = comb.rate * (1 + comb.rolloff) / 2, both - 2 * centre
    low, high = max(-wide, d - wide), min(wide, d + wide)
    if high <= low:
        return 0j
    edge = min(comb.rolloff * comb.rate, (high - low) / 2)
    total, v, g, before = 0j, low, 0.0, (0.0, 0j, 0j)
    for k in range(2 * EDGE + _BENT + 1):
        v1 = knot(k, low, high, edge, _BENT)
        g1 = 1.0
        if comb.rolloff > 0:
            g1 = math.sqrt(raised_cosine(v1, comb) * raised_cosine(d - v1, comb))
        at = base + phase(beta, centre + v1) + phase(beta, both - centre - v1)
        _, once, twice = amplitude(table, at)
        if k > 0 and v1 > v:
            total += _piece(g, g1, before, (at, once, twice), v1 - v, table)
        v, g, before = v1, g1, (at, once, twice)
    return total


@njit(parallel=True)
def correlation(walks, pulse, comb, roots, curvatures, table):
    """∫ over f and f1 of one channel, |∫ √g μ df2|², f2 and f3 in another that walks off: (2, walks).

    ``walks`` (s/m) are delays of the centre of the one less that of the other, ``curvatures`` their β2;
    ``pulse`` holds f from the centre and its weights (F,), x, weights and slow part (F, X). With β2 alone, as
    over a channel.
    """
    u, weights, x, weight, slow = pulse
    out = np.zeros((2, len(walks)))
    for t in numba.prange(len(walks)):
        for n in range(len(u)):
            for k in range(x.shape[1]):
                d, scale = x[n, k], weights[n] * weight[n, k]
                middle = 2 * math.pi * d * (walks[t] + 2 * math.pi * curvatures[0] * (u[n] + d / 2))
                slope = -4 * math.pi**2 * d * curvatures[1]
                value = _difference(d, middle, slope, comb, table, overlap(d, comb, roots))
                out[0, t] += scale * abs(value) ** 2
                out[1, t] += scale * abs(value) ** 2 * slow[n, k]
    return out


@njit(parallel=True)
def own_correlation(nodes, own, comb, roots, row, table):
    """For one row and channel ``own`` (F,) of f: Σ over f3 of |∫ √g μ df1|² g(f3), and ∬ √g μ: (2, F),
    complex.
    """
    f, x, weight, _, channel = nodes
    out = np.zeros((2, len(f)), np.complex128)
    for n in numba.prange(len(f)):
        here, centre = phase(row.beta, f[n]), comb.centres[own[n]]
        for k in range(x.shape[1]):
            if weight[n, k] == 0 or channel[n, k] != own[n]:
                continue
            d, f3 = x[n, k], f[n] + x[n, k]
            value = _sum(f[n] + f3, -phase(row.beta, f3) - here, centre, comb, row.beta, table)
            out[0, n] += weight[n, k] * abs(value) ** 2
            root = math.sqrt(raised_cosine(f3 - centre, comb))
            if root > 0:
                middle = phase(row.beta, f3) - here - 2 * math.pi * d * row.delays[own[n]]
                slope = -4 * math.pi**2 * d * row.curvatures[own[n]]
                value = _difference(d, middle, slope, comb, table, overlap(d, comb, roots))
                out[1, n] += weight[n, k] / root * value
    return out
