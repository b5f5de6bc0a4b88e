"""Pointwise kernels of the multimode nonlinear Schrödinger equation: Numba, the reference.

The same names with the same argument order exist for CUDA (``kernels_cuda.py``, ``kernels.cu``);
one parametrised test compares the two.

Shapes and units: a field ``A`` is (rows, N), C-contiguous, complex64 or complex128, √W. Rows of one
*cell* are contiguous and share a Kerr phase; the phase rate of cell c is Σ_d γκ_cd P_d in rad/m,
with P_d the power of all rows of cell d. Sums over a cell run in row order, so that answers do not
depend on the number of threads. Steps ``h`` are in metres.

The multipliers of a Runge–Kutta stage are i × (one real phase per cell). Powers of the intermediate
fields therefore follow from a few sums per cell (|A|², |B|², Im A*B), and a sweep reads each field
once however many stages it holds.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import prange

from wavefabric.device.fma import fma

# Offered here too: a device hands out this module as a whole.
from wavefabric.optics.propagation.kernels.linear import (  # noqa: F401
    apply_transfer,
    row_distance,
    row_energy,
    transfer_table,
)
from wavefabric.optics.propagation.phase_groups import Mixing
from wavefabric.system.numba_cache import njit

_serial: dict[str, Any] = dict(nogil=True, error_model="numpy")
_parallel: dict[str, Any] = dict(parallel=True, error_model="numpy")
# Bytes of one tile of one field: two fields and the sums stay in a 2 MiB L2 cache.
_TILE_BYTES = 1 << 18


class Coupling:
    """A Kerr coupling laid out for the kernels, with the scratch they need.

    Parameters
    ----------
    device : Device
        The device whose kernels will use it.
    mixing : Mixing
        Cells and γκ.
    n : int
        Samples a row.
    dtype : dtype
        complex64 or complex128.
    """

    def __init__(self, device, mixing: Mixing, n: int, dtype):
        real = np.finfo(dtype).dtype
        rows, cells = mixing.cell_of_row.size, mixing.cells
        tile = _TILE_BYTES // (rows * np.dtype(dtype).itemsize) // 16 * 16
        self.tile = int(min(max(tile, 16), 1024))
        self.mixing = mixing
        self.start = mixing.cell_start.astype(np.int64)
        self.dense = np.ascontiguousarray(mixing.dense, real)
        self.left = np.ascontiguousarray(mixing.left, real)
        self.right = np.ascontiguousarray(mixing.right, real)
        self.scratch = device.empty((device.threads, 8, max(cells, mixing.rank), self.tile), real)

    @property
    def args(self) -> tuple[Any, ...]:
        """What every Kerr kernel takes last."""
        return self.start, self.dense, self.left, self.right, self.scratch, self.tile


def _real(field):
    """The (rows, 2N) real view of a field, real and imaginary parts interleaved."""
    return field.view(field.real.dtype)


# --- sums and phases of one tile -----------------------------------------------------------------


@njit(**_serial)
def _power(a, start, out):
    """out[c, t] = Σ |a|² over the rows of cell c."""
    for c in range(start.size - 1):
        acc = out[c]
        acc[:] = 0
        for r in range(start[c], start[c + 1]):
            row = a[r]
            for t in range(row.size // 2):
                x, y = row[2 * t], row[2 * t + 1]
                acc[t] = fma(x, x, fma(y, y, acc[t]))


@njit(**_serial)
def _mix(p, dense, left, right, low, out):
    """out = γκ p, through the low-rank factors where they are given."""
    if left.shape[1] == 0:
        _product(dense, p, out)
    else:
        _product(right, p, low)
        _product(left, low, out)


@njit(**_serial)
def _product(matrix, p, out):
    for c in range(matrix.shape[0]):
        acc = out[c]
        acc[:] = 0
        for d in range(matrix.shape[1]):
            g = matrix[c, d]
            row = p[d]
            for t in range(acc.size):
                acc[t] = fma(g, row[t], acc[t])


@njit(**_serial)
def _rotation(phase, c1, s):
    """c1 = cos(phase) − 1 and s = sin(phase), without cancellation: −2 sin²(φ/2), 2 sin cos.

    Taylor series on [−π/2, π/2]; the remainders y²³/23! and y²⁴/24! are below 2e-18.
    """
    real = phase.dtype.type
    inv, hi, lo = real(0.15915494309189535), real(math.pi), real(math.pi - float(real(math.pi)))
    half, one, two = real(0.5), real(1), real(2)
    for t in range(phase.size):
        k = np.floor(fma(phase[t], inv, half))
        y = fma(-k, lo, fma(-k, hi, half * phase[t]))
        q = y * y
        sn = real(1.9572941063391263e-20)
        sn = fma(sn, q, real(-8.2206352466243295e-18))
        sn = fma(sn, q, real(2.8114572543455206e-15))
        sn = fma(sn, q, real(-7.6471637318198164e-13))
        sn = fma(sn, q, real(1.6059043836821613e-10))
        sn = fma(sn, q, real(-2.5052108385441720e-08))
        sn = fma(sn, q, real(2.7557319223985893e-06))
        sn = fma(sn, q, real(-1.9841269841269841e-04))
        sn = fma(sn, q, real(8.3333333333333332e-03))
        sn = fma(sn, q, real(-1.6666666666666666e-01))
        sn = fma(sn, q, one) * y
        cs = real(-8.8967913924505741e-22)
        cs = fma(cs, q, real(4.1103176233121648e-19))
        cs = fma(cs, q, real(-1.5619206968586225e-16))
        cs = fma(cs, q, real(4.7794773323873853e-14))
        cs = fma(cs, q, real(-1.1470745597729725e-11))
        cs = fma(cs, q, real(2.0876756987868100e-09))
        cs = fma(cs, q, real(-2.7557319223985888e-07))
        cs = fma(cs, q, real(2.4801587301587302e-05))
        cs = fma(cs, q, real(-1.3888888888888889e-03))
        cs = fma(cs, q, real(4.1666666666666664e-02))
        cs = fma(cs, q, real(-0.5))
        cs = fma(cs, q, one)
        c1[t] = -two * sn * sn
        s[t] = two * sn * cs


@njit(**_serial)
def _scale(p, factor):
    for c in range(p.shape[0]):
        row = p[c]
        for t in range(row.size):
            row[t] *= factor


@njit(**_serial)
def _multiply(a, start, m1, mi):
    """a += a (m1 + i mi), with one multiplier a cell: rounds less than a ← a (1 + m1 + i mi)."""
    for c in range(start.size - 1):
        re, im = m1[c], mi[c]
        for r in range(start[c], start[c + 1]):
            row = a[r]
            for t in range(row.size // 2):
                x, y = row[2 * t], row[2 * t + 1]
                row[2 * t] = x + fma(x, re[t], -(y * im[t]))
                row[2 * t + 1] = y + fma(x, im[t], y * re[t])


@njit(**_serial)
def _bounds(worker, workers, n, tile, b):
    tiles = (n + tile - 1) // tile
    first, last = worker * tiles // workers, (worker + 1) * tiles // workers
    lo = (first + b) * tile
    return last - first, lo, min(lo + tile, n)


# --- Kerr operator and exact flow ----------------------------------------------------------------


def kerr_derivative(A, K, coupling):
    """K = N̂(A) A = i (γκ|A|²) A, √W/m."""
    _kerr_derivative(_real(A), _real(K), *coupling.args)


@njit(**_parallel)
def _kerr_derivative(A, K, start, dense, left, right, scratch, tile):
    n, workers, cells = A.shape[1] // 2, scratch.shape[0], start.size - 1
    for w in prange(workers):
        count, _, _ = _bounds(w, workers, n, tile, 0)
        for b in range(count):
            _, lo, hi = _bounds(w, workers, n, tile, b)
            s = scratch[w, :, :, : hi - lo]
            a, k = A[:, 2 * lo : 2 * hi], K[:, 2 * lo : 2 * hi]
            _power(a, start, s[0])
            _mix(s[0], dense, left, right, s[2], s[1])
            for c in range(cells):
                rate = s[1, c]
                for r in range(start[c], start[c + 1]):
                    x, y = a[r], k[r]
                    for t in range(hi - lo):
                        re, im = x[2 * t], x[2 * t + 1]
                        y[2 * t] = -rate[t] * im
                        y[2 * t + 1] = rate[t] * re


def kerr_rotate(A, h, coupling):
    """A ← exp(i h γκ|A|²) A: the exact flow of N̂ over h, since |A|² is invariant under it."""
    _kerr_rotate(_real(A), h, *coupling.args)


@njit(**_parallel)
def _kerr_rotate(A, h, start, dense, left, right, scratch, tile):
    n, workers, cells = A.shape[1] // 2, scratch.shape[0], start.size - 1
    for w in prange(workers):
        count, _, _ = _bounds(w, workers, n, tile, 0)
        for b in range(count):
            _, lo, hi = _bounds(w, workers, n, tile, b)
            s = scratch[w, :, :, : hi - lo]
            a = A[:, 2 * lo : 2 * hi]
            _power(a, start, s[0])
            _mix(s[0], dense, left, right, s[2], s[1])
            _scale(s[1], scratch.dtype.type(h))
            for c in range(cells):
                _rotation(s[1, c], s[0, c], s[2, c])
            _multiply(a, start, s[0], s[2])


def kerr_rotate_rk4(A, h, coupling):
    """A ← the classical Runge–Kutta (RK4) approximation of the flow of N̂ over h.

    Every stage is A times one complex number a cell, so the sweep needs only the cell powers.
    """
    _kerr_rotate_rk4(_real(A), h, *coupling.args)


@njit(**_parallel)
def _kerr_rotate_rk4(A, h, start, dense, left, right, scratch, tile):
    n, workers = A.shape[1] // 2, scratch.shape[0]
    real = scratch.dtype.type
    for w in prange(workers):
        count, _, _ = _bounds(w, workers, n, tile, 0)
        for b in range(count):
            _, lo, hi = _bounds(w, workers, n, tile, b)
            s = scratch[w, :, :, : hi - lo]
            a = A[:, 2 * lo : 2 * hi]
            p, q, theta, low, mr, mi, sr, si = s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]
            _power(a, start, p)
            mr[:], mi[:], sr[:], si[:] = real(0), real(0), real(0), real(0)
            for stage in range(4):
                before = real(0 if stage == 0 else (1 if stage == 3 else 0.5))
                weight = real((1 if stage in (0, 3) else 2) / 6)
                _stage_power(p, before, mr, mi, q)
                _mix(q, dense, left, right, low, theta)
                _scale(theta, real(h))
                _stage_multiplier(theta, before, weight, mr, mi, sr, si)
            _multiply(a, start, sr, si)


@njit(**_serial)
def _stage_power(p, f, mr, mi, q):
    """q = p |1 + f m|²: the power of A + f k when k = m A."""
    one = p.dtype.type(1)
    for c in range(p.shape[0]):
        for t in range(p.shape[1]):
            x, y = one + f * mr[c, t], f * mi[c, t]
            q[c, t] = p[c, t] * (x * x + y * y)


@njit(**_serial)
def _stage_multiplier(theta, f, weight, mr, mi, sr, si):
    """m ← iθ (1 + f m), and its weighted sum over the stages."""
    one = theta.dtype.type(1)
    for c in range(theta.shape[0]):
        for t in range(theta.shape[1]):
            x, y = one + f * mr[c, t], f * mi[c, t]
            mr[c, t], mi[c, t] = -theta[c, t] * y, theta[c, t] * x
            sr[c, t] += weight * mr[c, t]
            si[c, t] += weight * mi[c, t]


def kerr_phase_rate(A, rate, coupling):
    """rate[c, t] = Σ_d γκ_cd P_d, rad/m, for every cell; ``rate`` is (cells, N), real."""
    _kerr_phase_rate(_real(A), rate, *coupling.args)


@njit(**_parallel)
def _kerr_phase_rate(A, rate, start, dense, left, right, scratch, tile):
    n, workers = A.shape[1] // 2, scratch.shape[0]
    for w in prange(workers):
        count, _, _ = _bounds(w, workers, n, tile, 0)
        for b in range(count):
            _, lo, hi = _bounds(w, workers, n, tile, b)
            s = scratch[w, :, :, : hi - lo]
            _power(A[:, 2 * lo : 2 * hi], start, s[0])
            _mix(s[0], dense, left, right, s[1], rate[:, lo:hi])


def rotate_mean(H, A, rate0, rate1, h, coupling):
    """A = exp(i h (rate0 + rate1)/2) H: the trapezoidal rule over N̂."""
    _rotate_mean(_real(H), _real(A), rate0, rate1, h, *coupling.args)


@njit(**_parallel)
def _rotate_mean(H, A, rate0, rate1, h, start, dense, left, right, scratch, tile):
    n, workers, cells = A.shape[1] // 2, scratch.shape[0], start.size - 1
    half = scratch.dtype.type(0.5 * h)
    for w in prange(workers):
        count, _, _ = _bounds(w, workers, n, tile, 0)
        for b in range(count):
            _, lo, hi = _bounds(w, workers, n, tile, b)
            s = scratch[w, :, :, : hi - lo]
            a = A[:, 2 * lo : 2 * hi]
            a[:] = H[:, 2 * lo : 2 * hi]
            for c in range(cells):
                for t in range(hi - lo):
                    s[1, c, t] = half * (rate0[c, lo + t] + rate1[c, lo + t])
                _rotation(s[1, c], s[0, c], s[2, c])
            _multiply(a, start, s[0], s[2])


def max_phase_rate(A, coupling):
    """Largest |phase rate| over cells and time, rad/m (NaN if the field holds one)."""
    _max_phase_rate(_real(A), *coupling.args)
    return float(coupling.scratch[:, 5, 0, 0].max())


@njit(**_parallel)
def _max_phase_rate(A, start, dense, left, right, scratch, tile):
    n, workers, cells = A.shape[1] // 2, scratch.shape[0], start.size - 1
    for w in prange(workers):
        most = scratch.dtype.type(0)
        count, _, _ = _bounds(w, workers, n, tile, 0)
        for b in range(count):
            _, lo, hi = _bounds(w, workers, n, tile, b)
            s = scratch[w, :, :, : hi - lo]
            _power(A[:, 2 * lo : 2 * hi], start, s[0])
            _mix(s[0], dense, left, right, s[2], s[1])
            for c in range(cells):
                for t in range(hi - lo):
                    v = abs(s[1, c, t])
                    if v > most or v != v:  # nothing is above a NaN: it stays
                        most = v
        scratch[w, 5, 0, 0] = most


# --- the two sweeps of RK4IP ---------------------------------------------------------------------


def rk4ip_middle(A, K, h, coupling):
    """Stages k2 and k3 of RK4IP, eq. (6c, 6d), and the sums that the last transforms need.

    In: A = A_I and K = k1/h. Out: A ← A_I + k3 and K ← A_I + k1/6 + k2/3 + k3/3.
    """
    _rk4ip_middle(_real(A), _real(K), h, *coupling.args)


@njit(**_parallel)
def _rk4ip_middle(A, K, h, start, dense, left, right, scratch, tile):
    n, workers, cells = A.shape[1] // 2, scratch.shape[0], start.size - 1
    real = scratch.dtype.type
    step, half, quarter, third = real(h), real(0.5 * h), real(0.25), real(1 / 3)
    for w in prange(workers):
        count, _, _ = _bounds(w, workers, n, tile, 0)
        for b in range(count):
            _, lo, hi = _bounds(w, workers, n, tile, b)
            s = scratch[w, :, :, : hi - lo]
            a, k = A[:, 2 * lo : 2 * hi], K[:, 2 * lo : 2 * hi]
            saa, sbb, sab, theta2, theta3, low = s[0], s[1], s[2], s[3], s[4], s[5]
            for c in range(cells):
                aa, bb, ab = saa[c], sbb[c], sab[c]
                aa[:], bb[:], ab[:] = real(0), real(0), real(0)
                for r in range(start[c], start[c + 1]):
                    x, y = a[r], k[r]
                    for t in range(hi - lo):
                        ar, ai = x[2 * t], x[2 * t + 1]
                        br, bi = fma(half, y[2 * t], ar), fma(half, y[2 * t + 1], ai)
                        aa[t] = fma(ar, ar, fma(ai, ai, aa[t]))
                        bb[t] = fma(br, br, fma(bi, bi, bb[t]))
                        ab[t] = fma(ar, bi, fma(-ai, br, ab[t]))
            _mix(sbb, dense, left, right, low, theta2)
            _scale(theta2, step)
            # |A_I + k2/2|² with k2 = iθ2 B is |A|² − θ2 Im A*B + θ2²|B|²/4.
            for c in range(cells):
                for t in range(hi - lo):
                    u = theta2[c, t]
                    saa[c, t] = fma(u, fma(quarter * u, sbb[c, t], -sab[c, t]), saa[c, t])
            _mix(saa, dense, left, right, low, theta3)
            _scale(theta3, step)
            for c in range(cells):
                u, v = theta2[c], theta3[c]
                for r in range(start[c], start[c + 1]):
                    x, y = a[r], k[r]
                    for t in range(hi - lo):
                        ar, ai = x[2 * t], x[2 * t + 1]
                        dr, di = half * y[2 * t], half * y[2 * t + 1]
                        k2r, k2i = -u[t] * (ai + di), u[t] * (ar + dr)
                        k3r = -v[t] * fma(real(0.5), k2i, ai)
                        k3i = v[t] * fma(real(0.5), k2r, ar)
                        y[2 * t] = fma(third, dr + k2r + k3r, ar)
                        y[2 * t + 1] = fma(third, di + k2i + k3i, ai)
                        x[2 * t] = ar + k3r
                        x[2 * t + 1] = ai + k3i


def rk4ip_last(A, K, h, coupling, error=None):
    """Stage k4 of RK4IP, eq. (6e, 6f), and the first stage of the next step.

    In: A = the argument of k4, K = the propagated sum of (6f). Out: A ← K + k4/6, the new field;
    K ← N̂(A)A. With ``error`` (a float64 array of one element) it receives Σ|h (k4/h − N̂(A)A)/10|²,
    the squared local error of the embedded third-order solution (Balac & Mahé 2013,
    doi 10.1016/j.cpc.2012.12.020).
    """
    _rk4ip_last(_real(A), _real(K), h, error is not None, *coupling.args)
    if error is not None:
        error[0] = coupling.scratch[:, 5, 0, 0].sum(dtype=np.float64)


@njit(**_parallel)
def _rk4ip_last(A, K, h, measure, start, dense, left, right, scratch, tile):
    n, workers, cells = A.shape[1] // 2, scratch.shape[0], start.size - 1
    real = scratch.dtype.type
    step, sixth, inverse = real(h), real(1 / 6), real(1 / h)
    for w in prange(workers):
        total = 0.0
        count, _, _ = _bounds(w, workers, n, tile, 0)
        for b in range(count):
            _, lo, hi = _bounds(w, workers, n, tile, b)
            s = scratch[w, :, :, : hi - lo]
            a, k = A[:, 2 * lo : 2 * hi], K[:, 2 * lo : 2 * hi]
            scc, sss, ssc, theta, rate, low = s[0], s[1], s[2], s[3], s[4], s[5]
            for c in range(cells):
                cc, ss, sc = scc[c], sss[c], ssc[c]
                cc[:], ss[:], sc[:] = real(0), real(0), real(0)
                for r in range(start[c], start[c + 1]):
                    x, y = a[r], k[r]
                    for t in range(hi - lo):
                        cr, ci = x[2 * t], x[2 * t + 1]
                        sr, si = y[2 * t], y[2 * t + 1]
                        cc[t] = fma(cr, cr, fma(ci, ci, cc[t]))
                        ss[t] = fma(sr, sr, fma(si, si, ss[t]))
                        sc[t] = fma(sr, ci, fma(-si, cr, sc[t]))
            _mix(scc, dense, left, right, low, theta)
            _scale(theta, step * sixth)
            # |S + k4/6|² with k4/6 = iθ C is |S|² − 2θ Im S*C + θ²|C|².
            for c in range(cells):
                for t in range(hi - lo):
                    u = theta[c, t]
                    sss[c, t] = fma(u, fma(u, scc[c, t], -(real(2) * ssc[c, t])), sss[c, t])
            _mix(sss, dense, left, right, low, rate)
            for c in range(cells):
                u, v = theta[c], rate[c]
                for r in range(start[c], start[c + 1]):
                    x, y = a[r], k[r]
                    for t in range(hi - lo):
                        k4r, k4i = -u[t] * x[2 * t + 1], u[t] * x[2 * t]
                        re, im = y[2 * t] + k4r, y[2 * t + 1] + k4i
                        x[2 * t], x[2 * t + 1] = re, im
                        y[2 * t], y[2 * t + 1] = -v[t] * im, v[t] * re
                        if measure:
                            er = real(6) * inverse * k4r + v[t] * im
                            ei = real(6) * inverse * k4i - v[t] * re
                            total += er * er + ei * ei
        scratch[w, 5, 0, 0] = real(total * 0.01 * h * h)
