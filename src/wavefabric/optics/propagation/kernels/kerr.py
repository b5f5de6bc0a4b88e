"""Kerr operator on one rank: Numba, the reference of ``kerr.cu``, same names and argument order.

A field ``A`` is (rows, N), C-contiguous, complex64 or complex128, √W; kernels see its real view. Rows of one
*phase group* are contiguous and share a Kerr phase: the phase rate of group g is Σ_d γκ_gd P_d in rad/m, P_d
the power of all rows of group d. Steps ``h`` are in metres. The last argument is a `KerrLayout`.

A Runge–Kutta increment is i × (one real phase per group) × a field. Powers of intermediate fields therefore
follow from three sums per group (|A|², |B|², Im A*B), and a sweep reads each field once however many stages
it holds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from wavefabric.optics.propagation.kernels import tiles

# A device hands out this module as a whole.
from wavefabric.optics.propagation.kernels.linear import (  # noqa: F401
    apply_transfer,
    row_distance,
    row_energy,
    transfer_table,
)
from wavefabric.optics.propagation.kernels.tiles import SERIAL, field_kernel
from wavefabric.optics.propagation.phase_groups import PhaseGroupCoupling
from wavefabric.system.numba_cache import njit


class KerrLayout:
    """γκ between phase groups as these kernels read it, and their scratch, for rows of ``n`` samples."""

    def __init__(self, device, coupling: PhaseGroupCoupling, n: int, dtype):
        real = np.finfo(dtype).dtype
        self.tile = tiles.tile_samples(coupling.group_of_row.size * np.dtype(dtype).itemsize)
        self.start = coupling.group_start.astype(np.int64)
        self.matrices = [
            np.ascontiguousarray(m, real) for m in (coupling.dense, coupling.left, coupling.right)
        ]
        tallest = max(coupling.groups, coupling.rank)
        self.scratch = device.empty((device.threads, 8, tallest, self.tile), real)

    @property
    def args(self) -> tuple[Any, ...]:
        """What every kernel takes in its place."""
        return self.start, *self.matrices, self.scratch, self.tile


@njit(**SERIAL)
def _phase_rates(p, dense, left, right, low, out):
    """out = γκ p, through the low-rank factors where they are given."""
    if left.shape[1] == 0:
        tiles.add_product(dense, p, True, out)
    else:
        tiles.add_product(right, p, True, low)
        tiles.add_product(left, low, True, out)


@field_kernel
def kerr_derivative(A, K, start, dense, left, right, scratch, tile):
    """K = N̂(A) A = i (γκ|A|²) A, √W/m."""
    n, workers = A.shape[1] // 2, scratch.shape[0]
    for worker in prange(workers):
        first, last = tiles.worker_samples(worker, workers, n, tile)
        for lo in range(first, last, tile):
            hi = min(lo + tile, n)
            s = scratch[worker, :, :, : hi - lo]
            a, k = A[:, 2 * lo : 2 * hi], K[:, 2 * lo : 2 * hi]
            tiles.group_powers(a, start, s[0])
            _phase_rates(s[0], dense, left, right, s[2], s[1])
            for g in range(start.size - 1):
                for r in range(start[g], start[g + 1]):
                    tiles.derivative(a[r], s[1, g], k[r])


@field_kernel
def kerr_rotate(A, h, start, dense, left, right, scratch, tile):
    """A ← exp(i h γκ|A|²) A: the exact flow of N̂ over h, since |A|² is invariant under it."""
    n, workers = A.shape[1] // 2, scratch.shape[0]
    step = A.dtype.type(h)
    for worker in prange(workers):
        first, last = tiles.worker_samples(worker, workers, n, tile)
        for lo in range(first, last, tile):
            hi = min(lo + tile, n)
            s = scratch[worker, :, :, : hi - lo]
            a = A[:, 2 * lo : 2 * hi]
            tiles.group_powers(a, start, s[0])
            _phase_rates(s[0], dense, left, right, s[2], s[1])
            for g in range(start.size - 1):
                tiles.rotation(s[1, g], step, s[0, g], s[2, g])
                for r in range(start[g], start[g + 1]):
                    tiles.multiply(a[r], s[0, g], s[2, g])


@field_kernel
def kerr_rotate_rk4(A, h, start, dense, left, right, scratch, tile):
    """A ← the classical Runge–Kutta (RK4) approximation of the flow of N̂ over h.

    Every stage is A times one complex number a group, so the sweep needs only the powers of groups.
    """
    n, workers, groups = A.shape[1] // 2, scratch.shape[0], start.size - 1
    real = A.dtype.type
    step = real(h)
    for worker in prange(workers):
        first, last = tiles.worker_samples(worker, workers, n, tile)
        for lo in range(first, last, tile):
            hi = min(lo + tile, n)
            s = scratch[worker, :, :, : hi - lo]
            a = A[:, 2 * lo : 2 * hi]
            p, q, theta, low, mr, mi, sr, si = s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]
            tiles.group_powers(a, start, p)
            mr[:], mi[:], sr[:], si[:] = real(0), real(0), real(0), real(0)
            for stage in range(4):
                f = real(0 if stage == 0 else (1 if stage == 3 else 0.5))
                weight = real((1 if stage in (0, 3) else 2) / 6)
                for g in range(groups):
                    tiles.rk4_power(q[g], p[g], f, mr[g], mi[g])
                _phase_rates(q, dense, left, right, low, theta)
                for g in range(groups):
                    tiles.rk4_multiplier(theta[g], step, f, weight, mr[g], mi[g], sr[g], si[g])
            for g in range(groups):
                for r in range(start[g], start[g + 1]):
                    tiles.multiply(a[r], sr[g], si[g])


@field_kernel
def kerr_phase_rate(A, rate, start, dense, left, right, scratch, tile):
    """rate[g, t] = Σ_d γκ_gd P_d, rad/m, for every group; ``rate`` is (groups, N), real."""
    n, workers = A.shape[1] // 2, scratch.shape[0]
    for worker in prange(workers):
        first, last = tiles.worker_samples(worker, workers, n, tile)
        for lo in range(first, last, tile):
            hi = min(lo + tile, n)
            s = scratch[worker, :, :, : hi - lo]
            tiles.group_powers(A[:, 2 * lo : 2 * hi], start, s[0])
            _phase_rates(s[0], dense, left, right, s[1], rate[:, lo:hi])


@field_kernel
def rotate_mean(H, A, rate0, rate1, h, start, dense, left, right, scratch, tile):
    """A = exp(i h (rate0 + rate1)/2) H, with rates from `kerr_phase_rate`."""
    n, workers = A.shape[1] // 2, scratch.shape[0]
    half = A.dtype.type(0.5 * h)
    for worker in prange(workers):
        first, last = tiles.worker_samples(worker, workers, n, tile)
        for lo in range(first, last, tile):
            hi = min(lo + tile, n)
            s = scratch[worker, :, :, : hi - lo]
            a = A[:, 2 * lo : 2 * hi]
            a[:] = H[:, 2 * lo : 2 * hi]
            for g in range(start.size - 1):
                for t in range(hi - lo):
                    s[1, g, t] = rate0[g, lo + t] + rate1[g, lo + t]
                tiles.rotation(s[1, g], half, s[0, g], s[2, g])
                for r in range(start[g], start[g + 1]):
                    tiles.multiply(a[r], s[0, g], s[2, g])


def max_phase_rate(A, layout):
    """Largest |phase rate| over groups and time, rad/m (NaN if the field holds one)."""
    _max_phase_rate(A, layout)
    return float(layout.scratch[:, 5, 0, 0].max())


@field_kernel
def _max_phase_rate(A, start, dense, left, right, scratch, tile):
    n, workers = A.shape[1] // 2, scratch.shape[0]
    for worker in prange(workers):
        most = A.dtype.type(0)
        first, last = tiles.worker_samples(worker, workers, n, tile)
        for lo in range(first, last, tile):
            hi = min(lo + tile, n)
            s = scratch[worker, :, :, : hi - lo]
            tiles.group_powers(A[:, 2 * lo : 2 * hi], start, s[0])
            _phase_rates(s[0], dense, left, right, s[2], s[1])
            for g in range(start.size - 1):
                most = tiles.largest(s[1, g], most)
        scratch[worker, 5, 0, 0] = most


@field_kernel
def rk4ip_middle(A, K, h, start, dense, left, right, scratch, tile):
    """Stages k2 and k3 of RK4IP, eq. (6c, 6d), and the sums that the last transforms need.

    In: A = A_I and K = k1/h. Out: A ← A_I + k3 and K ← A_I + k1/6 + k2/3 + k3/3.
    """
    n, workers, groups = A.shape[1] // 2, scratch.shape[0], start.size - 1
    real = A.dtype.type
    step, half, third = real(h), real(0.5 * h), real(1 / 3)
    for worker in prange(workers):
        first, last = tiles.worker_samples(worker, workers, n, tile)
        for lo in range(first, last, tile):
            hi = min(lo + tile, n)
            s = scratch[worker, :, :, : hi - lo]
            a, k = A[:, 2 * lo : 2 * hi], K[:, 2 * lo : 2 * hi]
            saa, sbb, sab, theta2, theta3, low = s[0], s[1], s[2], s[3], s[4], s[5]
            tiles.group_sums(a, k, start, half, True, saa, sbb, sab)
            _phase_rates(sbb, dense, left, right, low, theta2)
            for g in range(groups):
                tiles.add_power(saa[g], sbb[g], sab[g], theta2[g], step, real(0.25), real(1))
            _phase_rates(saa, dense, left, right, low, theta3)
            for g in range(groups):
                for r in range(start[g], start[g + 1]):
                    tiles.update_middle(a[r], k[r], theta2[g], theta3[g], step, half, third)


def rk4ip_last(A, K, h, layout, error=None):
    """Stage k4 of RK4IP, eq. (6e, 6f), and the first stage of the next step.

    In: A = the argument of k4, K = the propagated sum of (6f). Out: A ← K + k4/6, the new field; K ← N̂(A)A.
    ``error`` (float64, one element) receives Σ|h (k4/h − N̂(A)A)/10|², the squared local error of the
    embedded third-order solution (Balac & Mahé 2013, doi 10.1016/j.cpc.2012.12.020).
    """
    _rk4ip_last(A, K, h, error is not None, layout)
    if error is not None:
        error[0] = layout.scratch[:, 5, 0, 0].sum(dtype=np.float64)


@field_kernel
def _rk4ip_last(A, K, h, measure, start, dense, left, right, scratch, tile):
    n, workers, groups = A.shape[1] // 2, scratch.shape[0], start.size - 1
    real = A.dtype.type
    step, inverse = real(h) * real(1 / 6), real(1 / h)
    for worker in prange(workers):
        total = 0.0
        first, last = tiles.worker_samples(worker, workers, n, tile)
        for lo in range(first, last, tile):
            hi = min(lo + tile, n)
            s = scratch[worker, :, :, : hi - lo]
            a, k = A[:, 2 * lo : 2 * hi], K[:, 2 * lo : 2 * hi]
            scc, sss, ssc, theta, rate, low = s[0], s[1], s[2], s[3], s[4], s[5]
            tiles.group_sums(k, a, start, real(0), False, sss, scc, ssc)
            _phase_rates(scc, dense, left, right, low, theta)
            for g in range(groups):
                tiles.add_power(sss[g], scc[g], ssc[g], theta[g], step, real(1), real(2))
            _phase_rates(sss, dense, left, right, low, rate)
            for g in range(groups):
                for r in range(start[g], start[g + 1]):
                    total = tiles.update_last(a[r], k[r], theta[g], rate[g], step, inverse, measure, total)
        scratch[worker, 5, 0, 0] = real(total * 0.01 * h * h)
