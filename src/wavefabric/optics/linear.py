"""Linear part and norms on the CPU: Numba, the reference of ``linear.cu``.

`wavefabric.optics.kernels` offers these names beside its own; shapes and units are explained there.
"""

from __future__ import annotations

import math

from numba import njit, prange


@njit(parallel=True, cache=True, error_model="numpy")
def transfer_table(table, coefficients, domega, h):
    """exp(h L̂(ω))/N, so that it follows an unscaled inverse transform.

    ``table`` (cells, N) complex128; ``coefficients`` (cells, 5): α, β1…β4 in SI; ``domega`` in
    rad/s. L̂ = −α/2 − iβ1ω + iβ2ω²/2 − iβ3ω³/6 + iβ4ω⁴/24 (∂/∂t → +iω).
    """
    cells, n = table.shape
    for i in prange(n):
        w = domega * (i if 2 * i < n else i - n)
        for c in range(cells):
            a, b1, b2 = coefficients[c, 0], coefficients[c, 1], coefficients[c, 2]
            b3, b4 = coefficients[c, 3], coefficients[c, 4]
            phase = h * w * (-b1 + w * (b2 / 2 + w * (-b3 / 6 + w * b4 / 24)))
            size = math.exp(-0.5 * a * h) / n
            table[c, i] = complex(size * math.cos(phase), size * math.sin(phase))


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "nsz"})
def apply_transfer(spectrum, table, cell_of_row):
    """Multiply each row of ``spectrum`` (rows, N) by its cell's row of ``table``, in place.

    The product is formed in double precision and rounded once: a table rounded to single would
    bias every step the same way.
    """
    rows, n = spectrum.shape
    for r in range(rows):
        c = cell_of_row[r]
        for i in range(n):
            spectrum[r, i] = spectrum[r, i] * table[c, i]


@njit(parallel=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
def row_energy(A, out):
    """out[r] = Σ_t |A[r, t]|², W × samples, float64; NaN where the row holds one."""
    for r in prange(A.shape[0]):
        total = 0.0
        for t in range(A.shape[1]):
            x, y = A[r, t].real, A[r, t].imag
            total += x * x + y * y
        out[r] = total


@njit(parallel=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
def row_distance(A, B, out):
    """out[r] = Σ_t |A[r, t] − B[r, t]|², float64."""
    for r in prange(A.shape[0]):
        total = 0.0
        for t in range(A.shape[1]):
            x, y = A[r, t].real - B[r, t].real, A[r, t].imag - B[r, t].imag
            total += x * x + y * y
        out[r] = total
