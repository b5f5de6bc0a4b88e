"""Kerr operator when rows are split over ranks: Numba, the reference of ``kerr_ranks.cu``, same names.

A sweep of ``kerr.py`` is cut here where ranks exchange the powers of phase groups: sums over the rows of each
own group, phase rates from the sums of all ranks (`couple`), and the update of the rows. All work on one
*chunk* of the field, samples ``t0`` to ``t0 + m``; group arrays are (own groups, m), C-contiguous, real. A
group cut between ranks has a part on each; its sums are those of the rows that are here, and add up where the
phases are formed. Kernels of fields take a `RankKerrLayout` last.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from wavefabric.optics.propagation.kernels import tiles
from wavefabric.optics.propagation.kernels.tiles import PARALLEL, field_kernel
from wavefabric.system.numba_cache import njit


class RankKerrLayout:
    """Rows of the own phase groups as these kernels read them; ``start`` as in the coupling."""

    def __init__(self, device, start, n: int, dtype):
        self.start = np.ascontiguousarray(start, np.int64)
        self.tile = tiles.tile_samples(int(self.start[-1]) * np.dtype(dtype).itemsize)
        self.scratch = device.empty((device.threads, 2, self.tile), np.finfo(dtype).dtype)
        self.errors = np.zeros(-(-n // self.tile))

    @property
    def args(self) -> tuple[Any, ...]:
        """What every kernel of fields takes in its place."""
        return self.start, self.scratch, self.tile


@field_kernel
def group_power(A, t0, p, start, scratch, tile):
    """p[g] = Σ |A|² over the rows of group g, W."""
    m = p.shape[1]
    for b in prange((m + tile - 1) // tile):
        lo, hi = b * tile, min((b + 1) * tile, m)
        tiles.group_powers(A[:, 2 * (t0 + lo) : 2 * (t0 + hi)], start, p[:, lo:hi])


def group_sums_middle(A, K, t0, h, saa, sbb, sab, layout):
    """Sums of |A|², |B|² and Im A*B over the rows of each group, with B = A + h/2 K."""
    _group_sums(A, K, t0, saa.dtype.type(0.5 * h), saa, sbb, sab, True, layout)


def group_sums_last(A, K, t0, scc, sss, ssc, layout):
    """Sums of |C|², |S|² and Im S*C over the rows of each group; A holds C, K holds S."""
    _group_sums(K, A, t0, scc.dtype.type(0), sss, scc, ssc, False, layout)


@field_kernel
def _group_sums(A, K, t0, half, saa, sbb, sab, add, start, scratch, tile):
    m = saa.shape[1]
    for b in prange((m + tile - 1) // tile):
        lo, hi = b * tile, min((b + 1) * tile, m)
        a, k = A[:, 2 * (t0 + lo) : 2 * (t0 + hi)], K[:, 2 * (t0 + lo) : 2 * (t0 + hi)]
        tiles.group_sums(a, k, start, half, add, saa[:, lo:hi], sbb[:, lo:hi], sab[:, lo:hi])


def couple(out, part, matrix, first):
    """out = matrix @ part if ``first``, else out += matrix @ part.

    ``out`` (own groups, m) in rad/m, ``part`` (groups of one rank, m) in W, ``matrix`` γκ between them,
    rad/(W m).
    """
    _couple(out, part, matrix, first, tiles.tile_samples(out.itemsize * sum(matrix.shape)))


@njit(**PARALLEL)
def _couple(out, part, matrix, first, tile):
    m = out.shape[1]
    for b in prange((m + tile - 1) // tile):
        lo, hi = b * tile, min((b + 1) * tile, m)
        tiles.add_product(matrix, part[:, lo:hi], first, out[:, lo:hi])


def power_middle(saa, sbb, sab, theta, h):
    """saa ← power of A + k2/2 with k2 = i u B, u = h theta: saa + u (u sbb/4 − sab)."""
    real = saa.dtype.type
    _add_power(saa, sbb, sab, theta, real(h), real(0.25), real(1))


def power_last(sss, scc, ssc, theta, h):
    """sss ← power of S + k4/6 with k4/6 = i u C, u = h/6 theta: sss + u (u scc − 2 ssc)."""
    real = sss.dtype.type
    _add_power(sss, scc, ssc, theta, real(h) * real(1 / 6), real(1), real(2))


def couple_middle(theta, part, matrix, saa, sbb, sab, h):
    """`couple` of all ranks' groups at once, then `power_middle`."""
    couple(theta, part, matrix, True)
    power_middle(saa, sbb, sab, theta, h)


def couple_last(theta, part, matrix, sss, scc, ssc, h):
    """`couple` of all ranks' groups at once, then `power_last`."""
    couple(theta, part, matrix, True)
    power_last(sss, scc, ssc, theta, h)


@njit(**PARALLEL)
def _add_power(saa, sbb, sab, theta, h, square, cross):
    for g in prange(saa.shape[0]):
        tiles.add_power(saa[g], sbb[g], sab[g], theta[g], h, square, cross)


@njit(**PARALLEL)
def stage_power(q, p, f, mr, mi):
    """q = p |1 + f m|²: the power of A + f k when k = m A, m = mr + i mi."""
    factor = p.dtype.type(f)
    for g in prange(p.shape[0]):
        tiles.rk4_power(q[g], p[g], factor, mr[g], mi[g])


@njit(**PARALLEL)
def stage_multiplier(theta, h, f, weight, mr, mi, sr, si):
    """m ← i h theta (1 + f m) and s ← s + weight m: one stage of RK4 (rotation of a group)."""
    real = theta.dtype.type
    step, factor, share = real(h), real(f), real(weight)
    for g in prange(theta.shape[0]):
        tiles.rk4_multiplier(theta[g], step, factor, share, mr[g], mi[g], sr[g], si[g])


def max_rate(theta) -> float:
    """Largest |theta|, rad/m (NaN if there is one)."""
    return float(tiles.largest(theta.ravel(), theta.dtype.type(0)))


@field_kernel
def finish_derivative(A, K, t0, rate, start, scratch, tile):
    """K = i rate A."""
    m = rate.shape[1]
    for b in prange((m + tile - 1) // tile):
        lo, hi = b * tile, min((b + 1) * tile, m)
        a, k = A[:, 2 * (t0 + lo) : 2 * (t0 + hi)], K[:, 2 * (t0 + lo) : 2 * (t0 + hi)]
        for g in range(start.size - 1):
            for r in range(start[g], start[g + 1]):
                tiles.derivative(a[r], rate[g, lo:hi], k[r])


@field_kernel
def finish_rotate(A, t0, rate, h, start, scratch, tile):
    """A ← exp(i h rate) A, as A + A (cos − 1 + i sin): small phases keep their precision."""
    m, workers, step = rate.shape[1], scratch.shape[0], rate.dtype.type(h)
    for worker in prange(workers):
        first, last = tiles.worker_samples(worker, workers, m, tile)
        for lo in range(first, last, tile):
            hi = min(lo + tile, m)
            a = A[:, 2 * (t0 + lo) : 2 * (t0 + hi)]
            re, im = scratch[worker, 0, : hi - lo], scratch[worker, 1, : hi - lo]
            for g in range(start.size - 1):
                tiles.rotation(rate[g, lo:hi], step, re, im)
                for r in range(start[g], start[g + 1]):
                    tiles.multiply(a[r], re, im)


@field_kernel
def finish_multiply(A, t0, sr, si, start, scratch, tile):
    """A ← A + A (sr + i si), one multiplier a group."""
    m = sr.shape[1]
    for b in prange((m + tile - 1) // tile):
        lo, hi = b * tile, min((b + 1) * tile, m)
        a = A[:, 2 * (t0 + lo) : 2 * (t0 + hi)]
        for g in range(start.size - 1):
            for r in range(start[g], start[g + 1]):
                tiles.multiply(a[r], sr[g, lo:hi], si[g, lo:hi])


@field_kernel
def finish_middle(A, K, t0, theta2, theta3, h, start, scratch, tile):
    """k2 and k3 of RK4IP, eq. (6c, 6d), from their phase rates; A and K as in `rk4ip_middle`."""
    m, real = theta2.shape[1], theta2.dtype.type
    step, half, third = real(h), real(0.5 * h), real(1 / 3)
    for b in prange((m + tile - 1) // tile):
        lo, hi = b * tile, min((b + 1) * tile, m)
        a, k = A[:, 2 * (t0 + lo) : 2 * (t0 + hi)], K[:, 2 * (t0 + lo) : 2 * (t0 + hi)]
        for g in range(start.size - 1):
            u, v = theta2[g, lo:hi], theta3[g, lo:hi]
            for r in range(start[g], start[g + 1]):
                tiles.update_middle(a[r], k[r], u, v, step, half, third)


def finish_last(A, K, t0, theta, rate, h, layout, error=None):
    """k4 of RK4IP, eq. (6e, 6f), and N̂(A)A of the new field, from their phase rates.

    A, K and ``error`` as in `rk4ip_last` of ``kerr.py``; the error is that of this chunk's own rows.
    """
    errors = layout.errors[: -(-theta.shape[1] // layout.tile)]
    _finish_last(A, K, t0, theta, rate, h, error is not None, errors, layout)
    if error is not None:
        # By tiles, not by threads: their number leaves the sum alone.
        error[0] = errors.sum()


@field_kernel
def _finish_last(A, K, t0, theta, rate, h, measure, errors, start, scratch, tile):
    m, real = theta.shape[1], theta.dtype.type
    step, inverse = real(h) * real(1 / 6), real(1 / h)
    for b in prange((m + tile - 1) // tile):
        lo, hi = b * tile, min((b + 1) * tile, m)
        a, k = A[:, 2 * (t0 + lo) : 2 * (t0 + hi)], K[:, 2 * (t0 + lo) : 2 * (t0 + hi)]
        total = 0.0
        for g in range(start.size - 1):
            u, v = theta[g, lo:hi], rate[g, lo:hi]
            for r in range(start[g], start[g + 1]):
                total = tiles.update_last(a[r], k[r], u, v, step, inverse, measure, total)
        errors[b] = total * 0.01 * h * h
