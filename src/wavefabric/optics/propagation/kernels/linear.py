"""Linear part and norms: Numba, the reference of ``linear.cu``. ``kerr.py`` offers these names too."""

import math

import numpy as np

from wavefabric.device.fma import fma
from wavefabric.device.parallel_kernels import parallel_kernel, thread_range
from wavefabric.optics.propagation.kernels.kerr_formulas import SERIAL, field_kernel
from wavefabric.system.numba_cache import njit


@parallel_kernel
def transfer_table(thread, table, coefficients, domega, h):
    """exp(h L̂(ω))/N, so that it follows an unscaled inverse transform.

    ``table`` (table rows, N) complex128; ``coefficients`` (table rows, 5): α, β1…β4 in SI; ``domega`` in
    rad/s. L̂ = −α/2 − iβ1ω + iβ2ω²/2 − iβ3ω³/6 + iβ4ω⁴/24 (∂/∂t → +iω).
    """
    rows, n = table.shape
    for i in thread_range(thread, n):
        w = domega * (i if 2 * i < n else i - n)
        for c in range(rows):
            a, b1, b2 = coefficients[c, 0], coefficients[c, 1], coefficients[c, 2]
            b3, b4 = coefficients[c, 3], coefficients[c, 4]
            phase = h * w * (-b1 + w * (b2 / 2 + w * (-b3 / 6 + w * b4 / 24)))
            size = math.exp(-0.5 * a * h) / n
            table[c, i] = complex(size * math.cos(phase), size * math.sin(phase))


@njit(**SERIAL)
def apply_transfer(spectrum, table, table_row):
    """Multiply each row of ``spectrum`` (rows, N) by its row of ``table``, in place.

    The product is formed in double precision and rounded once: a table rounded to single would
    bias every step the same way.
    """
    rows, n = spectrum.shape
    for r in range(rows):
        c = table_row[r]
        for i in range(n):
            x, y = np.float64(spectrum[r, i].real), np.float64(spectrum[r, i].imag)
            a, b = table[c, i].real, table[c, i].imag
            spectrum[r, i] = complex(fma(x, a, -(y * b)), fma(x, b, y * a))


@field_kernel
def row_energy(thread, A, out):
    """out[r] = Σ_t |A[r, t]|², W × samples, float64; NaN where the row holds one."""
    for r in thread_range(thread, A.shape[0]):
        row, n = A[r], A.shape[1]
        # Sums side by side, in an order that no compiler may change. Unsigned indices are not below zero.
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
        for b in range(n // 8):
            t = np.uintp(8 * b)
            s0, s1 = _add_square(row[t], s0), _add_square(row[t + np.uintp(1)], s1)
            s2, s3 = _add_square(row[t + np.uintp(2)], s2), _add_square(row[t + np.uintp(3)], s3)
            s4, s5 = _add_square(row[t + np.uintp(4)], s4), _add_square(row[t + np.uintp(5)], s5)
            s6, s7 = _add_square(row[t + np.uintp(6)], s6), _add_square(row[t + np.uintp(7)], s7)
        for t in range(n - n % 8, n):
            s0 = _add_square(row[t], s0)
        out[r] = ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))


@field_kernel
def row_distance(thread, A, B, out):
    """out[r] = Σ_t |A[r, t] − B[r, t]|², float64."""
    for r in thread_range(thread, A.shape[0]):
        a, b, n = A[r], B[r], A.shape[1]
        s0 = s1 = s2 = s3 = 0.0
        for k in range(n // 4):
            t = np.uintp(4 * k)
            u, v, w = t + np.uintp(1), t + np.uintp(2), t + np.uintp(3)
            s0, s1 = _add_square(a[t] - b[t], s0), _add_square(a[u] - b[u], s1)
            s2, s3 = _add_square(a[v] - b[v], s2), _add_square(a[w] - b[w], s3)
        for t in range(n - n % 4, n):
            s0 = _add_square(a[t] - b[t], s0)
        out[r] = (s0 + s1) + (s2 + s3)


@njit(**SERIAL)
def _add_square(x, total):
    v = np.float64(x)
    return fma(v, v, total)
