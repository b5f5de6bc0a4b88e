"""Kernels of the Kerr operator when rows are split over ranks: Numba, the reference.

The same names with the same argument order exist for CUDA (``cells_cuda.py``, ``cells.cu``); one
parametrised test compares the two. ``kernels.py`` explains fields and cells.

A sweep of ``kernels.py`` is cut here where ranks exchange cell powers: sums over the rows of each own
cell, phase rates from the sums of all ranks (`mix_part`), and the update of the rows. All work on one
*chunk* of the field, samples ``t0`` to ``t0 + m``; cell arrays are (own cells, m), C-contiguous, real.
A cell cut between ranks has a part on each; its sums are those of the rows that are here, and add up
where the phases are formed. Phase rates are in rad/m, steps ``h`` in m.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from wavefabric.device.fma import fma
from wavefabric.optics.propagation.kernels.kerr import (
    _TILE_BYTES,
    _bounds,
    _parallel,
    _power,
    _real,
    _rotation,
    _serial,
)
from wavefabric.system.numba_cache import njit


class Cells:
    """Rows of the own cells, laid out for the kernels.

    Parameters
    ----------
    device : Device
        The device whose kernels will use it.
    start : array_like of int, (own cells + 1,)
        First local row of each own cell, and the number of local rows last.
    n : int
        Samples a row.
    dtype : dtype
        complex64 or complex128.
    """

    def __init__(self, device, start, n: int, dtype):
        self.start = np.ascontiguousarray(start, np.int64)
        tile = _TILE_BYTES // (int(self.start[-1]) * np.dtype(dtype).itemsize) // 16 * 16
        self.tile = int(min(max(tile, 16), 1024))
        self.scratch = device.empty((device.threads, 3, self.tile), np.finfo(dtype).dtype)
        self.errors = np.zeros(-(-n // self.tile))

    @property
    def args(self):
        """What every kernel over rows takes last."""
        return self.start, self.tile


# --- sums over the rows of a cell ----------------------------------------------------------------


def cell_power(A, t0, p, layout):
    """p[c] = Σ |A|² over the rows of cell c, W."""
    _cell_power(_real(A), t0, p, *layout.args)


@njit(**_parallel)
def _cell_power(A, t0, p, start, tile):
    m = p.shape[1]
    for b in prange((m + tile - 1) // tile):
        lo, hi = b * tile, min((b + 1) * tile, m)
        _power(A[:, 2 * (t0 + lo) : 2 * (t0 + hi)], start, p[:, lo:hi])


def cell_sums_middle(A, K, t0, h, saa, sbb, sab, layout):
    """Sums of |A|², |B|² and Im A*B over the rows of each cell, with B = A + h/2 K."""
    half = saa.dtype.type(0.5 * h)
    _cell_sums(_real(A), _real(K), t0, half, saa, sbb, sab, True, *layout.args)


def cell_sums_last(A, K, t0, scc, sss, ssc, layout):
    """Sums of |C|², |S|² and Im S*C over the rows of each cell; A holds C, K holds S."""
    _cell_sums(_real(K), _real(A), t0, scc.dtype.type(0), sss, scc, ssc, False, *layout.args)


@njit(**_parallel)
def _cell_sums(A, K, t0, half, saa, sbb, sab, add, start, tile):
    m = saa.shape[1]
    for b in prange((m + tile - 1) // tile):
        lo, hi = b * tile, min((b + 1) * tile, m)
        a, k = A[:, 2 * (t0 + lo) : 2 * (t0 + hi)], K[:, 2 * (t0 + lo) : 2 * (t0 + hi)]
        for c in range(start.size - 1):
            aa, bb, ab = saa[c, lo:hi], sbb[c, lo:hi], sab[c, lo:hi]
            aa[:], bb[:], ab[:] = 0, 0, 0
            for r in range(start[c], start[c + 1]):
                x, y = a[r], k[r]
                for t in range(hi - lo):
                    ar, ai = x[2 * t], x[2 * t + 1]
                    br, bi = y[2 * t], y[2 * t + 1]
                    if add:
                        br, bi = fma(half, br, ar), fma(half, bi, ai)
                    aa[t] = fma(ar, ar, fma(ai, ai, aa[t]))
                    bb[t] = fma(br, br, fma(bi, bi, bb[t]))
                    ab[t] = fma(ar, bi, fma(-ai, br, ab[t]))


# --- phase rates and powers of cells -------------------------------------------------------------


def mix_part(out, part, matrix, first):
    """out = matrix @ part if ``first``, else out += matrix @ part.

    ``out`` (own cells, m) in rad/m, ``part`` (cells of one rank, m) in W, ``matrix`` (own cells, cells
    of that rank): γκ, rad/(W m).
    """
    tile = max(16, min(1024, _TILE_BYTES // (out.itemsize * sum(matrix.shape)) // 16 * 16))
    _mix_part(out, part, matrix, first, tile)


@njit(**_parallel)
def _mix_part(out, part, matrix, first, tile):
    m = out.shape[1]
    for b in prange((m + tile - 1) // tile):
        lo, hi = b * tile, min((b + 1) * tile, m)
        for c in range(matrix.shape[0]):
            acc = out[c, lo:hi]
            if first:
                acc[:] = 0
            for d in range(matrix.shape[1]):
                g = matrix[c, d]
                row = part[d, lo:hi]
                for t in range(hi - lo):
                    acc[t] = fma(g, row[t], acc[t])


def power_middle(saa, sbb, sab, theta, h):
    """saa ← power of A + k2/2 with k2 = i u B, u = h theta: saa + u (u sbb/4 − sab)."""
    real = saa.dtype.type
    _power_of_sum(saa, sbb, sab, theta, real(h), real(0.25), real(1))


def power_last(sss, scc, ssc, theta, h):
    """sss ← power of S + k4/6 with k4/6 = i u C, u = h/6 theta: sss + u (u scc − 2 ssc)."""
    real = sss.dtype.type
    _power_of_sum(sss, scc, ssc, theta, real(h) * real(1 / 6), real(1), real(2))


def mix_middle(theta, part, matrix, saa, sbb, sab, h):
    """`mix_part` of all ranks' cells at once, then `power_middle`."""
    mix_part(theta, part, matrix, True)
    power_middle(saa, sbb, sab, theta, h)


def mix_last(theta, part, matrix, sss, scc, ssc, h):
    """`mix_part` of all ranks' cells at once, then `power_last`."""
    mix_part(theta, part, matrix, True)
    power_last(sss, scc, ssc, theta, h)


@njit(**_parallel)
def _power_of_sum(saa, sbb, sab, theta, h, square, cross):
    for c in prange(saa.shape[0]):
        for t in range(saa.shape[1]):
            u = h * theta[c, t]
            saa[c, t] = fma(u, fma(square * u, sbb[c, t], -(cross * sab[c, t])), saa[c, t])


def stage_power(q, p, f, mr, mi):
    """q = p |1 + f m|²: the power of A + f k when k = m A, m = mr + i mi."""
    _stage_power(q, p, p.dtype.type(f), mr, mi)


@njit(**_parallel)
def _stage_power(q, p, f, mr, mi):
    one = p.dtype.type(1)
    for c in prange(p.shape[0]):
        for t in range(p.shape[1]):
            x, y = one + f * mr[c, t], f * mi[c, t]
            q[c, t] = p[c, t] * (x * x + y * y)


def stage_multiplier(theta, h, f, weight, mr, mi, sr, si):
    """m ← i h theta (1 + f m) and s ← s + weight m: one stage of RK4 (rotation of a cell)."""
    real = theta.dtype.type
    _stage_multiplier(theta, real(h), real(f), real(weight), mr, mi, sr, si)


@njit(**_parallel)
def _stage_multiplier(theta, h, f, weight, mr, mi, sr, si):
    one = theta.dtype.type(1)
    for c in prange(theta.shape[0]):
        for t in range(theta.shape[1]):
            u, x, y = h * theta[c, t], one + f * mr[c, t], f * mi[c, t]
            mr[c, t], mi[c, t] = -u * y, u * x
            sr[c, t] += weight * mr[c, t]
            si[c, t] += weight * mi[c, t]


def rate_max(theta) -> float:
    """Largest |theta|, rad/m (NaN if there is one)."""
    return float(_rate_max(theta))


@njit(**_serial)
def _rate_max(theta):
    most = theta.dtype.type(0)
    for c in range(theta.shape[0]):
        for t in range(theta.shape[1]):
            v = abs(theta[c, t])
            if v > most or v != v:  # nothing is above a NaN: it stays
                most = v
    return most


# --- update of the rows --------------------------------------------------------------------------


def finish_derivative(A, K, t0, rate, layout):
    """K = i rate A."""
    _finish_derivative(_real(A), _real(K), t0, rate, *layout.args)


@njit(**_parallel)
def _finish_derivative(A, K, t0, rate, start, tile):
    m = rate.shape[1]
    for b in prange((m + tile - 1) // tile):
        lo, hi = b * tile, min((b + 1) * tile, m)
        for c in range(start.size - 1):
            v = rate[c, lo:hi]
            for r in range(start[c], start[c + 1]):
                x, y = A[r, 2 * (t0 + lo) : 2 * (t0 + hi)], K[r, 2 * (t0 + lo) : 2 * (t0 + hi)]
                for t in range(hi - lo):
                    re, im = x[2 * t], x[2 * t + 1]
                    y[2 * t] = -v[t] * im
                    y[2 * t + 1] = v[t] * re


def finish_rotate(A, t0, rate, h, layout):
    """A ← exp(i h rate) A, as A + A (cos − 1 + i sin): small phases keep their precision."""
    _finish_rotate(_real(A), t0, rate, rate.dtype.type(h), layout.scratch, *layout.args)


@njit(**_parallel)
def _finish_rotate(A, t0, rate, h, scratch, start, tile):
    m, workers = rate.shape[1], scratch.shape[0]
    for w in prange(workers):
        count, _, _ = _bounds(w, workers, m, tile, 0)
        for b in range(count):
            _, lo, hi = _bounds(w, workers, m, tile, b)
            phase, re, im = scratch[w, 0, : hi - lo], scratch[w, 1, : hi - lo], scratch[w, 2, : hi - lo]
            for c in range(start.size - 1):
                for t in range(hi - lo):
                    phase[t] = h * rate[c, lo + t]
                _rotation(phase, re, im)
                for r in range(start[c], start[c + 1]):
                    _add_product(A[r, 2 * (t0 + lo) : 2 * (t0 + hi)], re, im)


def finish_multiply(A, t0, sr, si, layout):
    """A ← A + A (sr + i si), one multiplier a cell."""
    _finish_multiply(_real(A), t0, sr, si, *layout.args)


@njit(**_parallel)
def _finish_multiply(A, t0, sr, si, start, tile):
    m = sr.shape[1]
    for b in prange((m + tile - 1) // tile):
        lo, hi = b * tile, min((b + 1) * tile, m)
        for c in range(start.size - 1):
            for r in range(start[c], start[c + 1]):
                _add_product(A[r, 2 * (t0 + lo) : 2 * (t0 + hi)], sr[c, lo:hi], si[c, lo:hi])


@njit(**_serial)
def _add_product(row, re, im):
    for t in range(re.size):
        x, y = row[2 * t], row[2 * t + 1]
        row[2 * t] = x + fma(x, re[t], -(y * im[t]))
        row[2 * t + 1] = y + fma(x, im[t], y * re[t])


def finish_middle(A, K, t0, theta2, theta3, h, layout):
    """k2 and k3 of RK4IP, eq. (6c, 6d), from their phase rates.

    In: A = A_I and K = k1/h. Out: A ← A_I + k3 and K ← A_I + k1/6 + k2/3 + k3/3.
    """
    _finish_middle(_real(A), _real(K), t0, theta2, theta3, float(h), *layout.args)


@njit(**_parallel)
def _finish_middle(A, K, t0, theta2, theta3, h, start, tile):
    m, real = theta2.shape[1], theta2.dtype.type
    step, half, third = real(h), real(0.5 * h), real(1 / 3)
    for b in prange((m + tile - 1) // tile):
        lo, hi = b * tile, min((b + 1) * tile, m)
        for c in range(start.size - 1):
            u, v = theta2[c, lo:hi], theta3[c, lo:hi]
            for r in range(start[c], start[c + 1]):
                x, y = A[r, 2 * (t0 + lo) : 2 * (t0 + hi)], K[r, 2 * (t0 + lo) : 2 * (t0 + hi)]
                for t in range(hi - lo):
                    p2, p3 = step * u[t], step * v[t]
                    ar, ai = x[2 * t], x[2 * t + 1]
                    dr, di = half * y[2 * t], half * y[2 * t + 1]
                    k2r, k2i = -p2 * (ai + di), p2 * (ar + dr)
                    k3r = -p3 * fma(real(0.5), k2i, ai)
                    k3i = p3 * fma(real(0.5), k2r, ar)
                    y[2 * t] = fma(third, dr + k2r + k3r, ar)
                    y[2 * t + 1] = fma(third, di + k2i + k3i, ai)
                    x[2 * t] = ar + k3r
                    x[2 * t + 1] = ai + k3i


def finish_last(A, K, t0, theta, rate, h, layout, error=None):
    """k4 of RK4IP, eq. (6e, 6f), and N̂(A)A of the new field, from their phase rates.

    In: A = the argument of k4, K = the propagated sum of (6f). Out: A ← K + k4/6, K ← N̂(A)A.
    ``error`` (float64, one element) receives Σ|h (k4/h − N̂(A)A)/10|² of this chunk's own rows.
    """
    parts = layout.errors[: -(-theta.shape[1] // layout.tile)]
    _finish_last(_real(A), _real(K), t0, theta, rate, float(h), error is not None, parts, *layout.args)
    if error is not None:
        # By tiles, not by threads: their number leaves the sum alone.
        error[0] = parts.sum()


@njit(**_parallel)
def _finish_last(A, K, t0, theta, rate, h, measure, errors, start, tile):
    m, real = theta.shape[1], theta.dtype.type
    step, inverse = real(h) * real(1 / 6), real(1 / h)
    for b in prange((m + tile - 1) // tile):
        lo, hi = b * tile, min((b + 1) * tile, m)
        total = 0.0
        for c in range(start.size - 1):
            u, v = theta[c, lo:hi], rate[c, lo:hi]
            for r in range(start[c], start[c + 1]):
                x, y = A[r, 2 * (t0 + lo) : 2 * (t0 + hi)], K[r, 2 * (t0 + lo) : 2 * (t0 + hi)]
                for t in range(hi - lo):
                    p4 = step * u[t]
                    k4r, k4i = -p4 * x[2 * t + 1], p4 * x[2 * t]
                    re, im = y[2 * t] + k4r, y[2 * t + 1] + k4i
                    x[2 * t], x[2 * t + 1] = re, im
                    y[2 * t], y[2 * t + 1] = -v[t] * im, v[t] * re
                    if measure:
                        er = real(6) * inverse * k4r + v[t] * im
                        ei = real(6) * inverse * k4i - v[t] * re
                        total += er * er + ei * ei
        errors[b] = total * 0.01 * h * h
