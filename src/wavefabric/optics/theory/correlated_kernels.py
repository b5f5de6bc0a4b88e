"""Sums over symbols that mix with themselves, compiled: ∫ √g μ over one channel, as in `kernels`."""

import math

from wavefabric.device.parallel_kernels import parallel_kernel, thread_range
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
def _product(d, mismatch, inner, comb, table):
    """∫ √g μ du, g the spectra of two fields of one channel at u ± d/2; ``inner`` knots on the flat part.

    ``mismatch`` holds the coefficients of 1, u, u² and u⁴.
    """
    c0, c1, c2, c4 = mismatch
    high = (comb.rate * (1 + comb.rolloff) - abs(d)) / 2
    edge = min(comb.rolloff * comb.rate, high)
    total, u, g, at, once, twice = 0j, -high, 0.0, 0.0, 0j, 0j
    for k in range(2 * EDGE + inner + 1):
        u1 = knot(k, -high, high, edge, inner)
        if k > 0 and u1 <= u:
            continue
        g1 = math.sqrt(raised_cosine(u1 - d / 2, comb) * raised_cosine(u1 + d / 2, comb))
        at1 = c0 + u1 * (c1 + u1 * (c2 + c4 * u1 * u1))
        _, once1, twice1 = amplitude(table, at1)
        h, step = u1 - u, at1 - at
        if k > 0 and abs(step) < 0.5 * table.step:
            total += h / 2 * (g + g1) * amplitude(table, at + step / 2)[0]
        elif k > 0:
            total += h * ((g1 * once1 - g * once) - (g1 - g) * (twice1 - twice) / step) / step
        u, g, at, once, twice = u1, g1, at1, once1, twice1
    return total


@njit()
def _difference(d, middle, slope, comb, roots, table):
    """∫ √g μ df2, f2 and f3 = f2 + d in one channel; the mismatch in their middle, and its rise, 1/(m Hz)."""
    if abs(slope) * (comb.rate * (1 + comb.rolloff) - abs(d)) < 2 * table.step:  # 1/6 of the fastest turn
        return overlap(d, comb, roots) * amplitude(table, middle)[0]
    return _product(d, (middle, slope, 0.0, 0.0), 1, comb, table)


@parallel_kernel
def correlation(thread, walks, nodes, comb, roots, curvatures, table, out):
    """``out`` += ∫ over f and f1 of one channel, |∫ √g μ df2|², f2 and f3 in another, less slow phase noise.

    ``walks`` (s/m) are delays of the centre of the one less that of the other, ``out`` has one sum of each;
    ``curvatures`` are their β2. With β2 alone, as over a channel.
    """
    for t in thread_range(thread, len(walks)):
        for n in range(nodes.each):
            u = nodes.f[n] - comb.centres[nodes.received[0]]
            for k in range(nodes.own):
                d = nodes.x[n, k]
                middle = 2 * math.pi * d * (walks[t] + 2 * math.pi * curvatures[0] * (u + d / 2))
                slope = -4 * math.pi**2 * d * curvatures[1]
                value = abs(_difference(d, middle, slope, comb, roots, table)) ** 2
                out[t] += nodes.weights[n] * nodes.weight[n, k] * (1 - nodes.slow[n, k]) * value


@parallel_kernel
def own_correlation(thread, nodes, comb, roots, row, table, out):
    """``out`` (2, F) += Σ over f3 of |∫ √g μ df1|² g(f3), and ∬ √g μ, complex, in the channel of f."""
    for n in thread_range(thread, len(nodes.f)):
        own = nodes.received[n]
        here, centre = phase(row.beta, nodes.f[n]), comb.centres[own]
        for k in range(nodes.x.shape[1]):
            if nodes.weight[n, k] == 0 or nodes.channel[n, k] != own:
                continue
            d = nodes.x[n, k]
            f3 = nodes.f[n] + d
            third = phase(row.beta, f3)
            # f1 and f2 = f + f3 − f1 lie u on either side of the middle of f and f3.
            middle = (nodes.f[n] + f3) / 2
            w = 2 * math.pi * middle
            bend = 4 * math.pi**2 * (row.beta[1] + w * (row.beta[2] + w * row.beta[3] / 2))
            even = (2 * phase(row.beta, middle) - third - here, 0.0, bend, 4 * math.pi**4 / 3 * row.beta[3])
            value = _product(2 * (middle - centre), even, _BENT, comb, table)
            out[0, n] += nodes.weight[n, k] * abs(value) ** 2
            root = math.sqrt(raised_cosine(f3 - centre, comb))
            if root > 0:
                walk, slope = 2 * math.pi * d * row.delays[own], -4 * math.pi**2 * d * row.curvatures[own]
                value = _difference(d, third - here - walk, slope, comb, roots, table)
                out[1, n] += nodes.weight[n, k] / root * value
