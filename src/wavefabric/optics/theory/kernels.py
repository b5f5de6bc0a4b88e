"""Sums over frequencies of four-wave mixing, compiled.

For frequencies f of row i and f1 = f + x the mismatch Δβ changes with f2 along row j, f3 = f2 + x. Between
knots the product of spectra g and Δβ are taken as linear in f2. Then with the integrals M of |μ|² and N of M
over Δβ

    ∫ g |μ|² df2 = h ([g M]/ΔD − (Δg/ΔD²) [N]),    ΔD, Δg the differences between the knots, h apart,

is exact however narrow the resonances of |μ|² are against h.
"""

import math
from typing import NamedTuple

import numpy as np

from wavefabric.device.parallel_kernels import parallel_kernel, thread_range
from wavefabric.system.numba_cache import njit

#: Knots on a rounded edge of a spectrum, from its foot to the flat part.
EDGE = 2


class Table(NamedTuple):
    """A response from Δβ = 0 on in steps of ``step`` (1/m)."""

    values: np.ndarray
    once: np.ndarray  # integral of the values, and its integral
    twice: np.ndarray
    step: float
    period: float  # in Δβ, or 0
    tail: float  # without a period |μ|² is tail/Δβ² beyond the table
    negligible: float  # Δβ beyond which no mixing counts


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
    own: int  # columns of x in the received channel itself


@njit(inline="always")
def phase(beta, f):
    """β1ω + β2ω²/2 + β3ω³/6 + β4ω⁴/24 of the optical offset f in Hz."""
    w = 2 * math.pi * f
    return w * (beta[0] + w * (beta[1] / 2 + w * (beta[2] / 6 + w * (beta[3] / 24))))


@njit()
def raised_cosine(f, comb):
    """Spectrum of a channel at f Hz from its centre, 1 in its flat part, which has its ends without edges."""
    roll = (abs(f) / comb.rate - (1 - comb.rolloff) / 2) / max(comb.rolloff, 1e-9)
    return 1.0 if roll <= 0 else (0.0 if roll >= 1 else 0.5 + 0.5 * math.cos(math.pi * roll))


@njit()
def within(table, size):
    """Value, integral and its integral ``size`` from the table's start, by cubics of known slopes."""
    step, cell = table.step, min(int(size / table.step), len(table.values) - 2)
    t = size / step - cell
    first, final = table.values[cell], table.values[cell + 1]
    low, high = table.once[cell], table.once[cell + 1]
    rise = (high - low) / step
    bend, end = 3 * rise - 2 * first - final, first + final - 2 * rise
    once = low + step * t * (first + t * (bend + t * end))
    rise = (table.twice[cell + 1] - table.twice[cell]) / step
    twice = low + t * (3 * rise - 2 * low - high + t * (low + high - 2 * rise))
    return first + t * (2 * bend + 3 * t * end), once, table.twice[cell] + step * t * twice


@njit()
def power(table, mismatch):
    """|μ|², its integral M from Δβ = 0, and the integral N of M, at a mismatch."""
    turns = np.rint(mismatch / table.period) if table.period > 0 else 0.0
    inner = mismatch - turns * table.period
    size, edge = abs(inner), table.step * (len(table.values) - 1)
    if size > edge and table.period == 0:
        tail, limit = table.tail, table.once[-1] + table.tail / edge
        twice = table.twice[-1] + limit * (size - edge) - tail * math.log(size / edge)
        return tail / size**2, math.copysign(limit - tail / size, inner), twice
    value, once, twice = within(table, size)
    # M grows by the integral over a period, N by that of M over the periods between.
    whole = 2 * table.once[-1]
    twice += turns * whole * (inner + table.period * turns / 2)
    return value, math.copysign(once, inner) + turns * whole, twice


@njit()
def knot(k, low, high, edge, inner):
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
        return area * power(table, middle)[0]
    return area * (power(table, middle + reach)[1] - power(table, middle - reach)[1]) / (2 * reach)


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
    _, once, twice = power(table, at)
    for k in range(1, 2 * EDGE + 2):
        v1 = knot(k, low, high, edge, 1)
        h = v1 - v
        if h <= 0:
            continue
        g1 = raised_cosine(v1, comb) * raised_cosine(v1 + d, comb)
        step = slope * h
        _, once1, twice1 = power(table, at + step)
        mass += h * (g + g1) / 2
        if abs(step) < 2 * table.step:
            total += h * (g + g1) / 2 * power(table, at + step / 2)[0]
        else:
            total += ((g1 * once1 - g * once) - (g1 - g) * (twice1 - twice) / step) / slope
        v, g, at, once, twice = v1, g1, at + step, once1, twice1
    return total * area / mass if mass > 0 else 0.0


@njit()
def overlap(d, comb, areas):
    """∫ of two channels' spectra d Hz apart, from ``areas`` at 0 … their full width."""
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
            area = overlap(d, comb, areas)
            # Pairs whose mismatch is more than its change over the pair are taken as rectangles.
            if (not wraps and abs(middle) > abs(change)) or (wraps and abs(change) > 8 * table.period):
                total += both * _rectangle(middle, slope * area, area, table)
            else:
                total += both * _pair(x, base, comb.centres[c2], d, comb, row.beta, table, area)
    return total


@parallel_kernel
def interference(thread, nodes, comb, areas, row_i, row_j, table, out):
    """``out`` (2, F) += Σ over x of weight P_i(f1) ∫ P_j(f2) P_j(f2 + x) |μ|² df2, and times ``slow``."""
    for n in thread_range(thread, len(nodes.f)):
        here = phase(row_i.beta, nodes.f[n])
        for k in range(nodes.x.shape[1]):
            x, scale = nodes.x[n, k], nodes.weight[n, k] * row_i.density[nodes.channel[n, k]]
            if scale > 0:
                base = phase(row_i.beta, nodes.f[n] + nodes.alias + x) - here
                value = scale * _act(x, base, comb, areas, row_j, table)
                out[0, n] += value
                out[1, n] += value * nodes.slow[n, k]
