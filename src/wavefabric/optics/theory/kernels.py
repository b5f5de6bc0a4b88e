"""Sums over frequencies of four-wave mixing, compiled.

For frequencies f of row i and f1 = f + x the mismatch Δβ changes with f2 along row j, f3 = f2 + x. Between
knots the product of spectra g and Δβ are taken as linear in f2. Then with the integrals M of |μ|² and N of M
over Δβ

    ∫ g |μ|² df2 = h ([g M]/ΔD − (Δg/ΔD²) [N]),    ΔD, Δg the differences between the knots, h apart,

is exact however narrow the resonances of |μ|² are against h.
"""

import math
from typing import NamedTuple

import numba
import numpy as np

from wavefabric.system.numba_cache import njit

#: Knots on a rounded edge of a spectrum, from its foot to the flat part.
EDGE = 2
# Channel pairs whose mismatch is this many times its change over the pair are taken as rectangles.
_FAR = 1.0
# Knots on the flat part where the mismatch is a parabola.
_BENT = 16


class Table(NamedTuple):
    """A response from Δβ = 0 on in steps of ``step`` (1/m): values, their integral, and its integral.

    ``period`` in Δβ, or 0. Without one |μ|² is ``tail``/Δβ² beyond the table. Beyond ``negligible`` no mixing
    counts.
    """

    values: np.ndarray
    once: np.ndarray
    twice: np.ndarray
    step: float
    period: float
    tail: float
    negligible: float


class Row(NamedTuple):
    """A row as the sums see it: β1 … β4, power over symbol rate, phase, delay and β2 by channel (SI)."""

    beta: np.ndarray
    density: np.ndarray
    phases: np.ndarray
    delays: np.ndarray
    curvatures: np.ndarray


class Comb(NamedTuple):
    """Channels in ascending order: ``centres`` (C,) in Hz from the fibre's centre, symbol rate, roll-off."""

    centres: np.ndarray
    rate: float
    rolloff: float


@njit(inline="always")
def phase(beta, f):
    """β1ω + β2ω²/2 + β3ω³/6 + β4ω⁴/24 of the optical offset f in Hz."""
    w = 2 * math.pi * f
    return w * (beta[0] + w * (beta[1] / 2 + w * (beta[2] / 6 + w * (beta[3] / 24))))


@njit()
def raised_cosine(f, comb):
    """Spectrum of a channel at f Hz from its centre, 1 in its flat part."""
    if comb.rolloff == 0:
        return 1.0 if abs(f) <= comb.rate / 2 else 0.0
    roll = (abs(f) / comb.rate - (1 - comb.rolloff) / 2) / comb.rolloff
    return 1.0 if roll <= 0 else (0.0 if roll >= 1 else 0.5 + 0.5 * math.cos(math.pi * roll))


@njit()
def _power(table, mismatch):
    """|μ|², M and N at a mismatch."""
    turns = np.rint(mismatch / table.period) if table.period > 0 else 0.0
    inner = mismatch - turns * table.period
    size, last = abs(inner), len(table.values) - 1
    cell = int(size / table.step)
    if cell >= last and table.period == 0:
        edge = last * table.step
        once = table.once[last] + table.tail * (1 / edge - 1 / size)
        far = (table.once[last] + table.tail / edge) * (size - edge) - table.tail * math.log(size / edge)
        return table.tail / size**2, math.copysign(once, inner), table.twice[last] + far
    cell = min(cell, last - 1)
    t, step = size / table.step - cell, table.step
    value, slope, bend = table.values[cell], 0.0, 0.0
    # Cubic between the integral and its derivative at both ends, for both integrals.
    rise = (table.once[cell + 1] - table.once[cell]) / step
    slope = 3 * rise - 2 * value - table.values[cell + 1]
    bend = value + table.values[cell + 1] - 2 * rise
    once = table.once[cell] + step * t * (value + t * (slope + t * bend))
    value += t * (2 * slope + 3 * t * bend)
    rise = (table.twice[cell + 1] - table.twice[cell]) / step
    slope = 3 * rise - 2 * table.once[cell] - table.once[cell + 1]
    bend = table.once[cell] + table.once[cell + 1] - 2 * rise
    twice = table.twice[cell] + step * t * (table.once[cell] + t * (slope + t * bend))
    once = math.copysign(once, inner)
    if turns != 0:
        whole = 2 * table.once[last]
        # M grows by the integral of a period, N by the integral of M over the periods between.
        twice += turns * whole * inner + whole * table.period * turns * turns / 2
        once += turns * whole
    return value, once, twice


@njit()
def _amplitude(table, mismatch):
    """μ and its two integrals at a mismatch, complex: linear, square and cubic within a cell."""
    last = table.step * (len(table.values) - 1)
    beyond = max(0.0, abs(mismatch) - last)
    size = min(abs(mismatch), last)
    cell = min(int(size / table.step), len(table.values) - 2)
    t = size - cell * table.step
    value, slope = table.values[cell], (table.values[cell + 1] - table.values[cell]) / table.step
    # Continuous in the integrals: what a straight line misses of the cell is spread over it.
    rest = (table.once[cell + 1] - table.once[cell]) - table.step * (value + table.values[cell + 1]) / 2
    part = t / table.step
    once = table.once[cell] + t * (value + t * slope / 2) + rest * part * part * (3 - 2 * part)
    rise = (table.twice[cell + 1] - table.twice[cell]) / table.step
    low, high = table.once[cell], table.once[cell + 1]
    twice = table.twice[cell] + t * (
        low + part * (3 * rise - 2 * low - high + part * (low + high - 2 * rise))
    )
    twice += once * beyond
    value = value + t * slope if beyond == 0 else 0j
    if mismatch < 0:
        return value.conjugate(), -once.conjugate(), twice.conjugate()
    return value, once, twice


@njit()
def _knot(k, low, high, edge, inner):
    """Knot k of a band from ``low`` to ``high``: EDGE steps up, ``inner`` along the flat part, EDGE down."""
    if k <= EDGE:
        return low + edge * k / EDGE
    if k >= EDGE + inner:
        return high - edge * (2 * EDGE + inner - k) / EDGE
    return low + edge + (high - low - 2 * edge) * (k - EDGE) / inner


@njit()
def _rectangle(middle, change, area, table):
    """A rectangle of that area whose mismatch changes by ``change`` about ``middle``."""
    reach = 0.5 * abs(change)
    if table.period == 0 and abs(middle) - reach > table.step * len(table.values):
        return area * table.tail / (middle * middle - reach * reach)
    if reach < table.step:
        return area * _power(table, middle)[0]
    return area * (_power(table, middle + reach)[1] - _power(table, middle - reach)[1]) / (2 * reach)


@njit()
def _pair(x, base, f2, d, comb, beta, table, area):
    """∫ g |μ|² df2 over one channel at f2, where f2 + x lies d Hz from the centre of the channel of f3."""
    wide = comb.rate * (1 + comb.rolloff) / 2
    low, high = max(-wide, -wide - d), min(wide, wide - d)
    at = base + phase(beta, f2 + low) - phase(beta, f2 + low + x)
    slope = (base + phase(beta, f2 + high) - phase(beta, f2 + high + x) - at) / (high - low)
    if table.period > 0:
        at -= np.rint((at + slope * (high - low) / 2) / table.period) * table.period
    edge = min(comb.rolloff * comb.rate, (high - low) / 2)
    total = mass = 0.0
    v, g = low, 1.0 if comb.rolloff == 0 else 0.0
    _, once, twice = _power(table, at)
    for k in range(1, 2 * EDGE + 2):
        v1 = _knot(k, low, high, edge, 1)
        h = v1 - v
        if h <= 0:
            continue
        g1 = 1.0 if comb.rolloff == 0 else raised_cosine(v1, comb) * raised_cosine(v1 + d, comb)
        step = slope * h
        _, once1, twice1 = _power(table, at + step)
        mass += h * (g + g1) / 2
        if abs(step) < 2 * table.step:
            total += h * (g + g1) / 2 * _power(table, at + step / 2)[0]
        else:
            total += ((g1 * once1 - g * once) - (g1 - g) * (twice1 - twice) / step) / slope
        v, g, at, once, twice = v1, g1, at + step, once1, twice1
    return total * area / mass if mass > 0 else 0.0


@njit()
def _overlap(d, comb, areas):
    """∫ of two channels' spectra d Hz apart, by linear interpolation of ``areas`` over 0 … (1 + roll-off)
    rate.
    """
    t = abs(d) / (comb.rate * (1 + comb.rolloff)) * (len(areas) - 1)
    cell = min(int(t), len(areas) - 2)
    return areas[cell] + (t - cell) * (areas[cell + 1] - areas[cell])


@njit()
def _act(x, base, comb, areas, row, table):
    """∫ P_j(f2) P_j(f2 + x) |μ|² df2 over all channels."""
    width, count, total, low = comb.rate * (1 + comb.rolloff), len(comb.centres), 0.0, 0
    for c2 in range(count):
        third = comb.centres[c2] + x
        while low < count and comb.centres[low] <= third - width:
            low += 1
        c3 = low
        while c3 < count and comb.centres[c3] < third + width:
            both, d = row.density[c2] * row.density[c3], third - comb.centres[c3]
            # Near enough to tell where the pair lies: its mean mismatch, and the change across it.
            middle = base + row.phases[c2] - row.phases[c3] - math.pi * d * (row.delays[c2] + row.delays[c3])
            slope = row.delays[c2] - row.delays[c3] - math.pi * d * (row.curvatures[c2] + row.curvatures[c3])
            slope *= 2 * math.pi
            change = slope * (width - abs(d))
            wraps = table.period > 0 and abs(middle) + abs(change) > table.period / 2
            if wraps and abs(change) < table.period / 2:
                middle -= np.rint(middle / table.period) * table.period
                wraps = abs(middle) + abs(change) > table.period / 2
            c3 += 1
            if both == 0 or (not wraps and abs(middle) - abs(change) > table.negligible):
                continue
            area = _overlap(d, comb, areas)
            if (not wraps and abs(middle) > _FAR * abs(change)) or (wraps and abs(change) > 8 * table.period):
                total += both * _rectangle(middle, slope * area, area, table)
            else:
                total += both * _pair(x, base, comb.centres[c2], d, comb, row.beta, table, area)
    return total


@njit(parallel=True)
def interference(nodes, alias, comb, areas, row_i, row_j, table):
    """Σ over x of weight · P_i(f1) ∫ P_j(f2) P_j(f2 + x) |μ|² df2 for each f: (2, F), all, and times
    ``slow``.

    f1 = f + alias + x: light at f + ``alias`` (Hz), 0 or a sampling rate off, counts as light at f.
    """
    f, x, weight, slow, channel = nodes
    out = np.zeros((2, len(f)))
    for n in numba.prange(len(f)):
        here = phase(row_i.beta, f[n])
        for k in range(x.shape[1]):
            scale = weight[n, k] * row_i.density[channel[n, k]]
            if scale > 0:
                base = phase(row_i.beta, f[n] + alias + x[n, k]) - here
                value = scale * _act(x[n, k], base, comb, areas, row_j, table)
                out[0, n] += value
                out[1, n] += value * slow[n, k]
    return out


@njit()
def _piece(g, g1, first, final, h, table):
    """∫ g μ over h Hz between two knots of (mismatch, ∫μ, ∫∫μ)."""
    step = final[0] - first[0]
    if abs(step) < 0.5 * table.step:
        return h / 2 * (g + g1) * _amplitude(table, (first[0] + final[0]) / 2)[0]
    return h * ((g1 * final[1] - g * first[1]) - (g1 - g) * (final[2] - first[2]) / step) / step


@njit()
def _difference(d, middle, slope, comb, table, area):
    """∫ √g μ df2, f2 and f3 = f2 + d in one channel; the mismatch in their middle, and how it rises, 1/(m
    Hz).
    """
    width = comb.rate * (1 + comb.rolloff) - abs(d)
    if abs(slope) * width < 2 * table.step:  # a sixth of the fastest oscillation
        return area * _amplitude(table, middle)[0]
    edge = min(comb.rolloff * comb.rate, width / 2)
    total, u, g = 0j, -width / 2, 1.0 if comb.rolloff == 0 else 0.0
    _, once, twice = _amplitude(table, middle + slope * u)
    knot = (middle + slope * u, once, twice)
    for k in range(1, 2 * EDGE + 2):
        u1 = _knot(k, -width / 2, width / 2, edge, 1)
        if u1 <= u:
            continue
        g1 = 1.0
        if comb.rolloff > 0:
            g1 = math.sqrt(raised_cosine(u1 - d / 2, comb) * raised_cosine(u1 + d / 2, comb))
        _, once, twice = _amplitude(table, middle + slope * u1)
        knot1 = (middle + slope * u1, once, twice)
        total += _piece(g, g1, knot, knot1, u1 - u, table)
        u, g, knot = u1, g1, knot1
    return total


@njit()
def _sum(both, base, centre, comb, beta, table):
    """∫ √g μ df1, f1 and f2 = ``both`` − f1 in one channel; ``base`` of the mismatch belongs to f3 and f."""
    wide, d = comb.rate * (1 + comb.rolloff) / 2, both - 2 * centre
    low, high = max(-wide, d - wide), min(wide, d + wide)
    if high <= low:
        return 0j
    edge = min(comb.rolloff * comb.rate, (high - low) / 2)
    total, v, g, knot = 0j, low, 0.0, (0.0, 0j, 0j)
    for k in range(2 * EDGE + _BENT + 1):
        v1 = _knot(k, low, high, edge, _BENT)
        g1 = 1.0
        if comb.rolloff > 0:
            g1 = math.sqrt(raised_cosine(v1, comb) * raised_cosine(d - v1, comb))
        at = base + phase(beta, centre + v1) + phase(beta, both - centre - v1)
        _, once, twice = _amplitude(table, at)
        if k > 0 and v1 > v:
            total += _piece(g, g1, knot, (at, once, twice), v1 - v, table)
        v, g, knot = v1, g1, (at, once, twice)
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
                value = _difference(d, middle, slope, comb, table, _overlap(d, comb, roots))
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
                value = _difference(d, middle, slope, comb, table, _overlap(d, comb, roots))
                out[1, n] += weight[n, k] / root * value
    return out
