"""Adjoints of the Kerr operators on a CPU: Numba, the reference of ``kerr_adjoint.cu``.

An operator multiplies the rows of phase group g by one complex number, A′_r = m_g A_r, and m_g follows from
the powers P of all groups. The gradient of a real function f with respect to a field A is ∂f/∂Re A + i ∂f/∂Im
A. Let y be that with respect to A′. With C_g = Σ_r A_r* y_r, which is the gradient with respect to m_g, that
with respect to A_r is m_g* y_r + 2 (∂f/∂P_g) A_r. Phase rates are θ = c γκP, with a factor c for each group.
"""

import numpy as np
from numba import prange

from wavefabric.device.fma import fma
from wavefabric.optics.propagation.kernels import kerr_formulas as formulas
from wavefabric.optics.propagation.kernels.kerr import KerrLayout, _phase_rates
from wavefabric.optics.propagation.kernels.kerr_formulas import SERIAL, field_kernel
from wavefabric.system.numba_cache import njit

_NUMBER = {"derivative": 0, "rotate": 1, "rotate_rk4": 2, "phase_rate": 3, "turn": 4}
_DERIVATIVE, _ROTATE, _ROTATE_RK4, _PHASE_RATE, _TURN = _NUMBER.values()


class KerrAdjointLayout:
    """γκ of a `PhaseGroupCoupling` and its transpose as the adjoint kernels read them, and their scratch."""

    def __init__(self, device, coupling, n: int, dtype):
        forth, back = (KerrLayout(device, each, n, dtype) for each in (coupling, coupling.transposed))
        tallest = max(coupling.groups, coupling.rank)
        self._scratch = device.empty((device.threads, 13, tallest, forth.tile), np.finfo(dtype).dtype)
        self.args = forth.start, *forth.matrices, *back.matrices, self._scratch, forth.tile


def kerr_adjoint(operator, A, Y, h, factors, rates, layout):
    """``Y``, the gradient with respect to the output of an operator on ``A``, becomes that for ``A``; in
    place.

    ``A`` and ``Y`` (rows, N); ``factors`` (groups,), real, multiply the phase rates γκP. By
    ``operator.name``:

    - ``derivative``: of h N̂(A)A.
    - ``rotate``: of exp(h N̂(A)) A.
    - ``rotate_rk4``: of one RK4 step over h of A' = N̂(A)A.
    - ``phase_rate``: of the phase rates; ``rates`` holds the gradient with respect to them, and ``Y`` is
      added to.
    - ``turn``: of exp(i φ) A, φ of each group: ``rates`` ← the gradient with respect to φ; ``Y`` is that with
      respect to A already, and stays.

    ``rates`` (groups, N), real: of all but ``turn`` it becomes the gradient with respect to ``factors`` at
    each sample, which is to be summed over the samples.
    """
    _kerr_adjoint(_NUMBER[operator.name], A, Y, float(h), factors, rates, layout)


@field_kernel
def _kerr_adjoint(
    op, A, Y, h, factors, slope, start, dense, left, right, dense_t, left_t, right_t, scratch, tile
):
    n, workers = A.shape[1] // 2, scratch.shape[0]
    for worker in prange(workers):
        first, last = formulas.worker_samples(worker, workers, n, tile)
        for lo in range(first, last, tile):
            hi = min(lo + tile, n)
            s, low = scratch[worker, :, : start.size - 1, : hi - lo], scratch[worker, 12, :, : hi - lo]
            a, y, out = A[:, 2 * lo : 2 * hi], Y[:, 2 * lo : 2 * hi], slope[:, lo:hi]
            power, cr, ci, bar, total = s[0], s[1], s[2], s[3], s[4]
            _sums(a, y, start, power, cr, ci)
            if op == _TURN:
                out[:] = ci
                continue
            if op == _ROTATE_RK4:
                thetas, by_power = s[5:9], s[9]
                bar[:] = power
                for stage in range(4):
                    _phase_rates(bar, dense, left, right, low, thetas[stage])
                    if stage < 3:
                        _stage_power(stage + 1, power, thetas, h, factors, bar)
                out[:], total[:] = 0, 0
                for stage in range(3, -1, -1):
                    _stage_rate(stage, thetas, h, factors, cr, ci, s[10], s[11], bar, out)
                    _phase_rates(bar, dense_t, left_t, right_t, low, by_power)
                    _stage_field(stage, thetas, h, factors, power, by_power, s[10], s[11], total)
                _multiplier(thetas, h, factors, cr, ci)
            else:
                _phase_rates(power, dense, left, right, low, s[5])
                _one_rate(op, s[5], h, factors, cr, ci, bar, out, s[6], s[7])
                _phase_rates(bar, dense_t, left_t, right_t, low, total)
            _rows(a, y, start, op != _DERIVATIVE, cr, ci, total)


@njit(**SERIAL)
def _sums(a, y, start, power, cr, ci):
    """Σ |a|² and the real and imaginary part of Σ a* y over the rows of each group."""
    formulas.group_powers(a, start, power)
    cr[:], ci[:] = 0, 0
    for g in range(start.size - 1):
        re, im = cr[g], ci[g]
        for r in range(start[g], start[g + 1]):
            p, q = a[r], y[r]
            for t in range(re.size):
                ar, ai, yr, yi = p[2 * t], p[2 * t + 1], q[2 * t], q[2 * t + 1]
                re[t] = fma(ar, yr, fma(ai, yi, re[t]))
                im[t] = fma(ar, yi, fma(-ai, yr, im[t]))


@njit(**SERIAL)
def _one_rate(op, theta, h, factors, cr, ci, bar, out, re, im):
    """Operators of one phase rate: ``bar`` ← ∂f/∂γκP, ``out`` ← ∂f/∂c; ``cr`` + i ``ci`` ← m*, less 1 if it
    turns."""
    for g in range(theta.shape[0]):
        c, length = factors[g], theta.dtype.type(h) * factors[g]
        if op == _ROTATE:
            formulas.rotation(theta[g], length, re[g], im[g])
        for t in range(theta.shape[1]):
            if op == _PHASE_RATE:
                slope = out[g, t]
                cr[g, t], ci[g, t] = 0, 0
            elif op == _DERIVATIVE:
                slope = theta.dtype.type(h) * ci[g, t]
                cr[g, t], ci[g, t] = 0, -length * theta[g, t]
            else:
                u, v = re[g, t], im[g, t]
                slope = theta.dtype.type(h) * (ci[g, t] + fma(ci[g, t], u, -(cr[g, t] * v)))
                cr[g, t], ci[g, t] = u, -v
            out[g, t] = slope * theta[g, t]
            bar[g, t] = c * slope


@njit(**SERIAL)
def _chain(thetas, g, t, length, stages):
    """Of the RK4 stages up to ``stages``: the multiplier of A in the last increment, and their weighted
    sum."""
    mr = mi = sr = si = 0.0
    for stage in range(stages):
        u, before = length * thetas[stage, g, t], formulas._before(stage)
        mr, mi = -u * (before * mi), u * (1 + before * mr)
        weight = (1 if stage in (0, 3) else 2) / 6
        sr += weight * mr
        si += weight * mi
    return mr, mi, sr, si


@njit(**SERIAL)
def _stage_power(stage, power, thetas, h, factors, out):
    """``out`` ← the powers of the argument of an RK4 stage."""
    before = formulas._before(stage)
    for g in range(power.shape[0]):
        for t in range(power.shape[1]):
            mr, mi, _, _ = _chain(thetas, g, t, h * factors[g], stage)
            x, y = 1 + before * mr, before * mi
            out[g, t] = power[g, t] * (x * x + y * y)


@njit(**SERIAL)
def _stage_rate(stage, thetas, h, factors, cr, ci, nr, ni, bar, out):
    """From the gradient ``nr`` + i ``ni`` with respect to a stage's argument factor: that of the stage
    before.

    ``bar`` ← ∂f/∂γκP of the stage, ``out`` += its ∂f/∂c; ``nr``, ``ni`` ← gradient with respect to the factor
    x of A in the argument of the stage, but for the power.
    """
    after, weight, before = (
        formulas._before(stage + 1),
        (1 if stage in (0, 3) else 2) / 6,
        formulas._before(stage),
    )
    for g in range(bar.shape[0]):
        length = h * factors[g]
        for t in range(bar.shape[1]):
            yr, yi = weight * cr[g, t], weight * ci[g, t]
            if stage < 3:
                yr, yi = yr + after * nr[g, t], yi + after * ni[g, t]
            mr, mi, _, _ = _chain(thetas, g, t, length, stage)
            slope = h * ((1 + before * mr) * yi - before * mi * yr)
            u = length * thetas[stage, g, t]
            nr[g, t], ni[g, t] = u * yi, -u * yr
            out[g, t] += slope * thetas[stage, g, t]
            bar[g, t] = factors[g] * slope


@njit(**SERIAL)
def _stage_field(stage, thetas, h, factors, power, by_power, nr, ni, total):
    """``total`` += ∂f/∂P through the power of a stage's argument, P |x|²; ``nr`` + i ``ni`` += that for x."""
    before = formulas._before(stage)
    for g in range(power.shape[0]):
        for t in range(power.shape[1]):
            mr, mi, _, _ = _chain(thetas, g, t, h * factors[g], stage)
            x, y, w = 1 + before * mr, before * mi, by_power[g, t]
            total[g, t] += w * (x * x + y * y)
            nr[g, t] += 2 * power[g, t] * w * x
            ni[g, t] += 2 * power[g, t] * w * y


@njit(**SERIAL)
def _multiplier(thetas, h, factors, re, im):
    """re + i im ← m* − 1 of an RK4 step."""
    for g in range(re.shape[0]):
        for t in range(re.shape[1]):
            _, _, sr, si = _chain(thetas, g, t, h * factors[g], 4)
            re[g, t], im[g, t] = sr, -si


@njit(**SERIAL)
def _rows(a, y, start, turns, re, im, by_power):
    """y ← (re + i im) y + 2 by_power a, and y more if the operator turns."""
    keep = a.dtype.type(1 if turns else 0)
    for g in range(start.size - 1):
        for r in range(start[g], start[g + 1]):
            p, q = a[r], y[r]
            for t in range(re.shape[1]):
                u, v, w = q[2 * t], q[2 * t + 1], by_power[g, t] + by_power[g, t]
                q[2 * t] = fma(keep, u, fma(w, p[2 * t], fma(u, re[g, t], -(v * im[g, t]))))
                q[2 * t + 1] = fma(keep, v, fma(w, p[2 * t + 1], fma(u, im[g, t], v * re[g, t])))
