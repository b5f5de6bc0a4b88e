"""Kerr operators on a CPU: Numba, the reference of the CUDA kernels of the same names and argument order.

A field ``A`` is (rows, N), C-contiguous, complex64 or complex128, √W; kernels see its real view. Rows of one
*phase group* are contiguous and share a Kerr phase: the phase rate of group g is Σ_d γκ_gd P_d in rad/m, P_d
the power of all rows of group d. Steps ``h`` are in metres. `kerr_formulas` works on one tile of samples.

On one rank an operator is one kernel (`kerr`). Over ranks it is cut where powers of groups are exchanged:
`kerr_begin`, `couple`, `kerr_advance` and `kerr_update` do one part each, for samples ``t0`` to ``t0 + m`` of
the field (a *chunk*); numbers of groups are then (own groups, m), C-contiguous, real. A group cut between
ranks has a part on each; its sums are those of the rows that are here; they add up where phases are formed.
"""

from typing import Any

import numpy as np

from wavefabric.device.fma import fma
from wavefabric.device.parallel_kernels import parallel_kernel, thread_range
from wavefabric.optics.propagation.kernels import ADJOINTS, KerrOperator
from wavefabric.optics.propagation.kernels import kerr_formulas as formulas
from wavefabric.optics.propagation.kernels.kerr_formulas import SERIAL, field_kernel

# A device hands out this module as a whole.
from wavefabric.optics.propagation.kernels.linear import (  # noqa: F401
    apply_transfer,
    row_distance,
    row_energy,
    transfer_table,
)
from wavefabric.optics.propagation.phase_groups import PhaseGroupCoupling
from wavefabric.system.numba_cache import njit

#: Of the scratch of one rank: power, phase rate and low-rank product of groups, then what an operator keeps.
_KEPT = 3


class KerrLayout:
    """γκ between phase groups as the kernels of one rank read it, and their scratch, for rows of ``n``."""

    def __init__(self, device, coupling: PhaseGroupCoupling, n: int, dtype):
        real = np.finfo(dtype).dtype
        self.start = coupling.start.astype(np.int64)
        self.tile = formulas.tile_samples(int(self.start[-1]) * np.dtype(dtype).itemsize)
        matrices = *coupling.blocks, coupling.left, coupling.right
        self.matrices = [np.array(matrix, real, order="C") for matrix in matrices]
        tallest = max(coupling.groups, coupling.rank)
        self.scratch = device.empty((device.threads, _KEPT + 5, tallest, self.tile), real)

    @property
    def args(self) -> tuple[Any, ...]:
        """What every kernel takes in its place."""
        return self.start, *self.matrices, self.scratch, self.tile


class KerrChunkLayout:
    """Rows of the own phase groups as the kernels of chunks read them; ``start`` as in the coupling."""

    def __init__(self, device, start, n: int, dtype):
        self.start = np.ascontiguousarray(start, np.int64)
        self.tile = formulas.tile_samples(int(self.start[-1]) * np.dtype(dtype).itemsize)
        self.scratch = device.empty((device.threads, 2, self.tile), np.finfo(dtype).dtype)
        self.errors = np.zeros(-(-n // self.tile))

    @property
    def args(self) -> tuple[Any, ...]:
        """What every kernel takes in its place."""
        return self.start, self.scratch, self.tile


@njit(**SERIAL)
def _phase_rates(p, dense, left, right, low, out):
    """out = γκ p, through the low-rank factors where they are given."""
    if left.shape[1] == 0:
        formulas.add_product(dense, p, True, out)
    else:
        formulas.add_product(right, p, True, low)
        formulas.add_product(left, low, True, out)


def kerr(operator: KerrOperator, A, K, h, layout, error=None):
    """Apply an operator to fields ``A`` and ``K`` (``A`` again where it has one), in place.

    - ``derivative``: K = N̂(A) A = i (γκ|A|²) A, √W/m.
    - ``rotate``: A ← exp(i h γκ|A|²) A: the exact flow of N̂ over h, since |A|² is invariant under it.
    - ``rotate_rk4``: A ← the classical Runge–Kutta (RK4) approximation of that flow. Every stage is A times
      one complex number a group, so it needs only the powers of groups.
    - ``rk4ip_middle``: stages k2 and k3 of RK4IP, eq. (6c, 6d), and the sums that the last transforms need.
      In: A = A_I and K = k1/h. Out: A ← A_I + k3 and K ← A_I + k1/6 + k2/3 + k3/3.
    - ``rk4ip_last``: stage k4 of RK4IP, eq. (6e, 6f), and the first stage of the next step. In: A = the
      argument of k4, K = the propagated sum of (6f). Out: A ← K + k4/6, the new field; K ← N̂(A)A. ``error``
      (float64, one element) receives Σ|h (k4/h − N̂(A)A)/10|², the squared local error of the embedded
      third-order solution (Balac & Mahé 2013, doi 10.1016/j.cpc.2012.12.020).
    """
    _kerr(operator, operator.stages, A, K, float(h), error is not None, layout)
    if error is not None:
        error[0] = layout.scratch[:, 2, 0, 0].sum(dtype=np.float64)


@field_kernel
def _kerr(thread, op, stages, A, K, h, measure, start, dense, left, right, scratch, tile):
    n, workers = A.shape[1] // 2, scratch.shape[0]
    for worker in thread_range(thread, workers):
        total = 0.0
        first, last = formulas.worker_samples(worker, workers, n, tile)
        for lo in range(first, last, tile):
            hi = min(lo + tile, n)
            s = scratch[worker, :, : start.size - 1, : hi - lo]
            a, k = A[:, 2 * lo : 2 * hi], K[:, 2 * lo : 2 * hi]
            power, rate, numbers = s[0], s[1], s[3:]
            low = scratch[worker, 2, :, : hi - lo]
            formulas.begin(op, a, k, start, h, power, numbers)
            for stage in range(stages):
                rates = numbers[0] if stages == 2 and stage == 0 else rate
                _phase_rates(power, dense, left, right, low, rates)
                if stage + 1 < stages:
                    formulas.advance(op, stage, rates, h, power, numbers, power)
            total = formulas.update(op, a, k, start, rate, h, numbers, power[0], low[0], measure, total)
        scratch[worker, 2, 0, 0] = A.dtype.type(total * 0.01 * h * h)


def kerr_adjoint(name: str, A, Y, h, factors, slope, layout, transposed):
    """``Y``, the gradient for the output of an operator on ``A``, becomes that for ``A`` itself, in place.

    The gradient of a real f for a complex field A is ∂f/∂Re A + i ∂f/∂Im A. Phase rates are θ = c γκP with a
    factor c of each group, ``factors`` (groups,), real. An operator multiplies the rows of a group by one
    number m(θ), so ``Y`` becomes m* Y + 2 (∂f/∂P) A with ∂f/∂P = (γκ)ᵀ c ∂f/∂θ. By ``name`` of `ADJOINTS`:

    - ``derivative``: of h N̂(A) A. ``rotate``: of exp(h N̂(A)) A.
    - ``phase_rate``: of θ; ``slope`` holds ∂f/∂θ, and ``Y`` is added to.
    - ``turn``: of exp(i h φ) A for φ: ``slope`` ← ∂f/∂φ of each group from ``Y``, that for A, which stays.

    ``slope`` (groups, N), real: ← ∂f/∂c at each sample, to be summed over them, but for ``turn``.
    ``transposed`` is the layout of (γκ)ᵀ.
    """
    _kerr_adjoint(ADJOINTS.index(name), A, Y, float(h), factors, slope, layout, transposed.args)


@field_kernel
def _kerr_adjoint(thread, op, A, Y, h, factors, slope, start, dense, left, right, scratch, tile, transposed):
    n, workers, groups, real = A.shape[1] // 2, scratch.shape[0], start.size - 1, A.dtype.type
    for worker in thread_range(thread, workers):
        first, last = formulas.worker_samples(worker, workers, n, tile)
        for lo in range(first, last, tile):
            hi = min(lo + tile, n)
            s, low = scratch[worker, :, :groups, : hi - lo], scratch[worker, 2, :, : hi - lo]
            a, y, out = A[:, 2 * lo : 2 * hi], Y[:, 2 * lo : 2 * hi], slope[:, lo:hi]
            power, rate, q, re, im = s[0], s[1], s[3], s[4, 0], s[5, 0]
            formulas.group_powers(a, start, power)
            _phase_rates(power, dense, left, right, low, rate)
            if op == 1:
                for g in range(groups):
                    formulas.rotation(rate[g], -real(h) * factors[g], re, im)
                    for r in range(start[g], start[g + 1]):
                        formulas.multiply(y[r], re, im)
            formulas._group_sums(a, y, start, real(0), False, power, s[6], q)
            for g in range(groups):
                for t in range(hi - lo):
                    by_rate = out[g, t] if op == 2 else real(h) * q[g, t]
                    out[g, t] = by_rate if op == 3 else by_rate * rate[g, t]
                    power[g, t] = factors[g] * by_rate
            if op == 3:
                continue
            _phase_rates(power, transposed[1], transposed[2], transposed[3], low, q)
            for g in range(groups):
                turn = -real(h) * factors[g]
                for r in range(start[g], start[g + 1]):
                    for t in range(hi - lo):
                        u, v, w = y[r, 2 * t], y[r, 2 * t + 1], q[g, t] + q[g, t]
                        if op == 0:
                            u, v = -turn * rate[g, t] * v, turn * rate[g, t] * u
                        y[r, 2 * t] = fma(w, a[r, 2 * t], u)
                        y[r, 2 * t + 1] = fma(w, a[r, 2 * t + 1], v)


@field_kernel
def kerr_phase_rate(thread, A, rate, start, dense, left, right, scratch, tile):
    """rate[g, t] = Σ_d γκ_gd P_d, rad/m, for every group; ``rate`` is (groups, N), real."""
    n, workers = A.shape[1] // 2, scratch.shape[0]
    for worker in thread_range(thread, workers):
        first, last = formulas.worker_samples(worker, workers, n, tile)
        for lo in range(first, last, tile):
            hi = min(lo + tile, n)
            s = scratch[worker, :, :, : hi - lo]
            formulas.group_powers(A[:, 2 * lo : 2 * hi], start, s[0])
            _phase_rates(s[0], dense, left, right, s[2], rate[:, lo:hi])


@field_kernel
def rotate_mean(thread, H, A, rate0, rate1, h, start, dense, left, right, scratch, tile):
    """A = exp(i h (rate0 + rate1)/2) H, with rates from `kerr_phase_rate`."""
    n, workers = A.shape[1] // 2, scratch.shape[0]
    half = A.dtype.type(0.5 * h)
    for worker in thread_range(thread, workers):
        first, last = formulas.worker_samples(worker, workers, n, tile)
        for lo in range(first, last, tile):
            hi = min(lo + tile, n)
            s = scratch[worker, :, 0, : hi - lo]
            a, before = A[:, 2 * lo : 2 * hi], H[:, 2 * lo : 2 * hi]
            for g in range(start.size - 1):
                for t in range(hi - lo):
                    s[1, t] = rate0[g, lo + t] + rate1[g, lo + t]
                formulas.rotation(s[1], half, s[0], s[2])
                for r in range(start[g], start[g + 1]):
                    # Not a[r] = before[r]: the message for unequal lengths would take seconds to compile.
                    for t in range(2 * (hi - lo)):
                        a[r, t] = before[r, t]
                    formulas.multiply(a[r], s[0], s[2])


def max_phase_rate(A, layout):
    """Largest |phase rate| over groups and time, rad/m (NaN if the field holds one)."""
    _max_phase_rate(A, layout)
    return float(layout.scratch[:, 2, 0, 0].max())


@field_kernel
def _max_phase_rate(thread, A, start, dense, left, right, scratch, tile):
    n, workers = A.shape[1] // 2, scratch.shape[0]
    for worker in thread_range(thread, workers):
        most = A.dtype.type(0)
        first, last = formulas.worker_samples(worker, workers, n, tile)
        for lo in range(first, last, tile):
            hi = min(lo + tile, n)
            s = scratch[worker, :, :, : hi - lo]
            formulas.group_powers(A[:, 2 * lo : 2 * hi], start, s[0])
            _phase_rates(s[0], dense, left, right, s[2], s[1])
            for g in range(start.size - 1):
                most = formulas.largest(s[1, g], most)
        scratch[worker, 2, 0, 0] = most


@field_kernel
def kerr_begin(thread, op, A, K, t0, h, power, numbers, start, scratch, tile):
    """``power`` ← the first powers of the own groups, W; ``numbers`` ← what is kept (`formulas.begin`)."""
    m = power.shape[1]
    for b in thread_range(thread, (m + tile - 1) // tile):
        lo, hi = b * tile, min((b + 1) * tile, m)
        a, k = A[:, 2 * (t0 + lo) : 2 * (t0 + hi)], K[:, 2 * (t0 + lo) : 2 * (t0 + hi)]
        formulas.begin(op, a, k, start, h, power[:, lo:hi], numbers[:, :, lo:hi])


def couple(out, part, matrix, first):
    """out = matrix @ part if ``first``, else out += matrix @ part.

    ``out`` (own groups, m) in rad/m, ``part`` (groups of one rank, m) in W, ``matrix`` γκ between them,
    rad/(W m).
    """
    _couple(out, part, matrix, first, formulas.tile_samples(out.itemsize * sum(matrix.shape)))


@parallel_kernel
def _couple(thread, out, part, matrix, first, tile):
    m = out.shape[1]
    for b in thread_range(thread, (m + tile - 1) // tile):
        lo, hi = b * tile, min((b + 1) * tile, m)
        formulas.add_product(matrix, part[:, lo:hi], first, out[:, lo:hi])


@field_kernel
def kerr_advance(thread, op, stage, rate, h, power, numbers, out):
    """``out`` ← the powers of the next stage of the own groups, from the phase rate of this one."""
    for g in thread_range(thread, rate.shape[0]):
        own = slice(g, g + 1)
        formulas.advance(op, stage, rate[own], h, power[own], numbers[:, own], out[own])


def couple_advance(operator: KerrOperator, stage, rate, part, matrix, h, power, numbers, out):
    """`couple` of all ranks' groups at once, then `kerr_advance`."""
    couple(rate, part, matrix, True)
    kerr_advance(operator, stage, rate, h, power, numbers, out)


def kerr_update(operator: KerrOperator, A, K, t0, rate, h, numbers, layout, error=None):
    """The rows of a chunk from the phase rate of the last stage, as `kerr`; ``error`` is that of own rows."""
    errors = layout.errors[: -(-rate.shape[1] // layout.tile)]
    _kerr_update(operator, A, K, t0, rate, float(h), numbers, error is not None, errors, layout)
    if error is not None:
        # By tiles, not by threads: their number leaves the sum alone.
        error[0] = errors.sum()


@field_kernel
def _kerr_update(thread, op, A, K, t0, rate, h, numbers, measure, errors, start, scratch, tile):
    m, workers = rate.shape[1], scratch.shape[0]
    for worker in thread_range(thread, workers):
        first, last = formulas.worker_samples(worker, workers, m, tile)
        for lo in range(first, last, tile):
            hi = min(lo + tile, m)
            a, k = A[:, 2 * (t0 + lo) : 2 * (t0 + hi)], K[:, 2 * (t0 + lo) : 2 * (t0 + hi)]
            re, im = scratch[worker, 0, : hi - lo], scratch[worker, 1, : hi - lo]
            kept = numbers[:, :, lo:hi]
            total = formulas.update(op, a, k, start, rate[:, lo:hi], h, kept, re, im, measure, 0.0)
            errors[lo // tile] = total * 0.01 * h * h


def max_rate(theta) -> float:
    """Largest |theta|, rad/m (NaN if there is one)."""
    return float(formulas.largest(theta.ravel(), theta.dtype.type(0)))
