"""Formulas of the Kerr operators on one tile of samples, for the kernels of one rank and of several.

A field tile is the real view (rows, 2m), real and imaginary parts interleaved; numbers of phase groups are
(groups, m). Sums over a group run in row order, so that answers do not depend on the number of threads.

A Runge–Kutta increment is i × (one real phase per group) × a field. Powers of intermediate fields therefore
follow from three sums per group (|A|², |B|², Im A*B), and a kernel reads each field once however many stages
its operator has.
"""

import math
from collections.abc import Callable
from functools import wraps
from itertools import chain
from typing import Any

import numpy as np

from wavefabric.device.fma import fma
from wavefabric.device.parallel_kernels import parallel_kernel
from wavefabric.optics.propagation.kernels import KerrOperator
from wavefabric.system.numba_cache import njit

SERIAL: dict[str, Any] = dict(nogil=True, error_model="numpy")
#: Operators as the functions below tell them apart, by the name of `KerrOperator`.
NUMBER = {"derivative": 0, "rotate": 1, "rotate_rk4": 2, "rk4ip_middle": 3, "rk4ip_last": 4}
_DERIVATIVE, _ROTATE, _ROTATE_RK4, _MIDDLE, _LAST = NUMBER.values()
#: Bytes of one tile of one field: two fields and the sums stay in a 2 MiB L2 cache.
TILE_BYTES = 1 << 18


def tile_samples(bytes_a_sample: int) -> int:
    """Samples of a tile: a multiple of 16 from 16 to 1024."""
    return int(min(max(TILE_BYTES // bytes_a_sample // 16 * 16, 16), 1024))


def field_kernel(function: Callable) -> Callable:
    """A parallel kernel, called with a `KerrOperator`, complex fields and a layout.

    It sees the operator's `NUMBER`, real views and `layout.args`.
    """

    kernel = parallel_kernel(function)

    @wraps(function)
    def launch(*arguments: Any) -> None:
        kernel(*chain.from_iterable(map(_as_seen, arguments)))

    return launch


def _as_seen(argument: Any) -> tuple[Any, ...]:
    if isinstance(argument, np.ndarray):
        return (argument.view(argument.real.dtype),)
    if isinstance(argument, KerrOperator):
        return (NUMBER[argument.name],)
    return getattr(argument, "args", (argument,))


@njit(**SERIAL)
def worker_samples(worker, workers, n, tile):
    """First sample of a worker's tiles, and the one after its last."""
    tiles = (n + tile - 1) // tile
    return worker * tiles // workers * tile, min((worker + 1) * tiles // workers * tile, n)


@njit(**SERIAL)
def group_powers(a, start, out):
    """out[g, t] = Σ |a|² over the rows of group g."""
    for g in range(start.size - 1):
        acc = out[g]
        acc[:] = 0
        for r in range(start[g], start[g + 1]):
            row = a[r]
            for t in range(row.size // 2):
                x, y = row[2 * t], row[2 * t + 1]
                acc[t] = fma(x, x, fma(y, y, acc[t]))


@njit(**SERIAL)
def _group_sums(a, k, start, half, add, saa, sbb, sab):
    """Sums of |a|², |b|² and Im a*b over the rows of each group; b is k, or a + half k if ``add``."""
    for g in range(start.size - 1):
        aa, bb, ab = saa[g], sbb[g], sab[g]
        aa[:], bb[:], ab[:] = 0, 0, 0
        for r in range(start[g], start[g + 1]):
            x, y = a[r], k[r]
            for t in range(aa.size):
                ar, ai = x[2 * t], x[2 * t + 1]
                br, bi = y[2 * t], y[2 * t + 1]
                if add:
                    br, bi = fma(half, br, ar), fma(half, bi, ai)
                aa[t] = fma(ar, ar, fma(ai, ai, aa[t]))
                bb[t] = fma(br, br, fma(bi, bi, bb[t]))
                ab[t] = fma(ar, bi, fma(-ai, br, ab[t]))


@njit(**SERIAL)
def add_product(matrix, p, first, out):
    """out = matrix @ p if ``first``, else out += matrix @ p."""
    for c in range(matrix.shape[0]):
        acc = out[c]
        if first:
            acc[:] = 0
        for d in range(matrix.shape[1]):
            factor = matrix[c, d]
            row = p[d]
            for t in range(acc.size):
                acc[t] = fma(factor, row[t], acc[t])


@njit(**SERIAL)
def _next_power(xx, yy, xy, rate, h, square, cross, out):
    """out = xx + u (square u yy − cross xy), u = h rate: the power after a Runge–Kutta increment, one group.

    |A + k2/2|² with k2 = iuB is |A|² − u Im A*B + u²|B|²/4; |S + k4/6|² with k4/6 = iuC is
    |S|² − 2u Im S*C + u²|C|².
    """
    for t in range(xx.size):
        u = h * rate[t]
        out[t] = fma(u, fma(square * u, yy[t], -(cross * xy[t])), xx[t])


@njit(**SERIAL)
def rotation(rate, h, c1, s):
    """c1 = cos(φ) − 1 and s = sin(φ), φ = h rate, without cancellation: −2 sin²(φ/2), 2 sin cos.

    Taylor series on [−π/2, π/2]; the remainders y²³/23! and y²⁴/24! are below 2e-18.
    """
    real = rate.dtype.type
    inv, hi, lo = real(0.15915494309189535), real(math.pi), real(math.pi - float(real(math.pi)))
    half, one, two = real(0.5), real(1), real(2)
    for t in range(rate.size):
        phase = h * rate[t]
        k = np.floor(fma(phase, inv, half))
        y = fma(-k, lo, fma(-k, hi, half * phase))
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


@njit(**SERIAL)
def multiply(row, re, im):
    """row += row (re + i im): rounds less than row ← row (1 + re + i im)."""
    for t in range(re.size):
        x, y = row[2 * t], row[2 * t + 1]
        row[2 * t] = x + fma(x, re[t], -(y * im[t]))
        row[2 * t + 1] = y + fma(x, im[t], y * re[t])


@njit(**SERIAL)
def _derivative(x, rate, y):
    """y = i rate x."""
    for t in range(rate.size):
        re, im = x[2 * t], x[2 * t + 1]
        y[2 * t] = -rate[t] * im
        y[2 * t + 1] = rate[t] * re


@njit(**SERIAL)
def _rk4_power(q, p, f, mr, mi):
    """q = p |1 + f m|²: the power of A + f k when k = m A."""
    one = p.dtype.type(1)
    for t in range(p.size):
        x, y = one + f * mr[t], f * mi[t]
        q[t] = p[t] * (x * x + y * y)


@njit(**SERIAL)
def _rk4_multiplier(theta, h, f, weight, mr, mi, sr, si):
    """m ← i h theta (1 + f m), and s += weight m."""
    one = theta.dtype.type(1)
    for t in range(theta.size):
        u, x, y = h * theta[t], one + f * mr[t], f * mi[t]
        mr[t], mi[t] = -u * y, u * x
        sr[t] += weight * mr[t]
        si[t] += weight * mi[t]


@njit(**SERIAL)
def _update_middle(x, y, theta2, theta3, h, half, third):
    """k2 and k3 of RK4IP, eq. (6c, 6d), in a row: x = A_I, y = k1/h become A_I + k3, A_I + k1/6 + k2/3 +
    k3/3.
    """
    real = theta2.dtype.type
    for t in range(theta2.size):
        p2, p3 = h * theta2[t], h * theta3[t]
        ar, ai = x[2 * t], x[2 * t + 1]
        dr, di = half * y[2 * t], half * y[2 * t + 1]
        k2r, k2i = -p2 * (ai + di), p2 * (ar + dr)
        k3r = -p3 * fma(real(0.5), k2i, ai)
        k3i = p3 * fma(real(0.5), k2r, ar)
        y[2 * t] = fma(third, dr + k2r + k3r, ar)
        y[2 * t + 1] = fma(third, di + k2i + k3i, ai)
        x[2 * t] = ar + k3r
        x[2 * t + 1] = ai + k3i


@njit(**SERIAL)
def _update_last(x, y, theta, rate, step, inverse, measure, total):
    """k4 of RK4IP, eq. (6e, 6f), in a row: x ← y + k4/6, y ← N̂(x)x; ``total`` plus |k4/h − N̂(x)x|².

    ``step`` is h/6, ``inverse`` 1/h.
    """
    real = theta.dtype.type
    for t in range(theta.size):
        p4 = step * theta[t]
        k4r, k4i = -p4 * x[2 * t + 1], p4 * x[2 * t]
        re, im = y[2 * t] + k4r, y[2 * t + 1] + k4i
        x[2 * t], x[2 * t + 1] = re, im
        y[2 * t], y[2 * t + 1] = -rate[t] * im, rate[t] * re
        if measure:
            er = real(6) * inverse * k4r + rate[t] * im
            ei = real(6) * inverse * k4i - rate[t] * re
            total += er * er + ei * ei
    return total


@njit(**SERIAL)
def largest(rate, most):
    """The larger of ``most`` and every |rate|; a NaN stays, since nothing is above it."""
    for t in range(rate.size):
        v = abs(rate[t])
        if v > most or v != v:
            most = v
    return most


@njit(**SERIAL)
def begin(op, a, k, start, h, power, numbers):
    """``power`` ← the powers that the first phase rate comes from; ``numbers`` ← what later rates need.

    ``numbers`` are (the operator's numbers, groups, m): of RK4IP, the first phase rate, |x|² and Im x*y,
    where x is the field that the increment goes to and ``power`` is |y|²; of ``rotate_rk4``, |A|², and real
    and imaginary parts of a stage's multiplier of A and of their weighted sum.
    """
    real = a.dtype.type
    if op == _MIDDLE:
        _group_sums(a, k, start, real(0.5 * h), True, numbers[1], power, numbers[2])
    elif op == _LAST:
        _group_sums(k, a, start, real(0), False, numbers[1], power, numbers[2])
    else:
        group_powers(a, start, power)
        if op == _ROTATE_RK4:
            # Not numbers[0] = power: the message for unequal shapes would take seconds to compile.
            for g in range(power.shape[0]):
                for t in range(power.shape[1]):
                    numbers[0, g, t] = power[g, t]
            numbers[1:5] = real(0)


@njit(**SERIAL)
def advance(op, stage, rate, h, power, numbers, out):
    """``out`` ← the power of the next stage, from rate and power of this one; ``out`` may be ``power``."""
    real = rate.dtype.type
    for g in range(rate.shape[0]):
        if op == _MIDDLE:
            _next_power(numbers[1, g], power[g], numbers[2, g], rate[g], real(h), real(0.25), real(1), out[g])
        elif op == _LAST:
            sixth = real(h) * real(1 / 6)
            _next_power(numbers[1, g], power[g], numbers[2, g], rate[g], sixth, real(1), real(2), out[g])
        elif op == _ROTATE_RK4:
            mr, mi, sr, si = numbers[1, g], numbers[2, g], numbers[3, g], numbers[4, g]
            weight = real((1 if stage == 0 else 2) / 6)
            _rk4_multiplier(rate[g], real(h), real(_before(stage)), weight, mr, mi, sr, si)
            _rk4_power(out[g], numbers[0, g], real(_before(stage + 1)), mr, mi)


@njit(**SERIAL)
def update(op, a, k, start, rate, h, numbers, re, im, measure, total):
    """The rows from the phase rate of the last stage; ``re`` and ``im`` are scratch of one number a sample.

    Returns ``total`` plus, if ``measure``, 100/h² times the squared local error.
    """
    real = a.dtype.type
    step = real(h)
    for g in range(start.size - 1):
        if op == _ROTATE:
            rotation(rate[g], step, re, im)
        elif op == _ROTATE_RK4:
            mr, mi, sr, si = numbers[1, g], numbers[2, g], numbers[3, g], numbers[4, g]
            _rk4_multiplier(rate[g], step, real(_before(3)), real(1 / 6), mr, mi, sr, si)
        for r in range(start[g], start[g + 1]):
            if op == _DERIVATIVE:
                _derivative(a[r], rate[g], k[r])
            elif op == _ROTATE:
                multiply(a[r], re, im)
            elif op == _ROTATE_RK4:
                multiply(a[r], numbers[3, g], numbers[4, g])
            elif op == _MIDDLE:
                _update_middle(a[r], k[r], numbers[0, g], rate[g], step, real(0.5 * h), real(1 / 3))
            elif op == _LAST:
                sixth, inverse = step * real(1 / 6), real(1 / h)
                total = _update_last(a[r], k[r], numbers[0, g], rate[g], sixth, inverse, measure, total)
    return total


@njit(**SERIAL)
def _before(stage):
    """How much of the increment before goes into the argument of a stage of RK4."""
    return 0.0 if stage == 0 else 1.0 if stage == 3 else 0.5
