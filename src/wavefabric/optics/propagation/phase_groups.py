"""The Kerr coupling κ as the kernels want it: cells of rows that share a phase, and a small matrix.

κ of a coupled group, or of the two polarisations of a mode, repeats itself: rows of one *cell* turn
by the same phase and count only through their total power. With C cells the Kerr operator costs C²
products a time sample instead of (2M)²; a factor κ = U V of rank r over the cells costs 2Cr.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from wavefabric.errors import InputError

FORMS = ("auto", "dense", "factored", "svd")


@dataclass(frozen=True)
class Mixing:
    """γκ between cells of contiguous rows.

    Attributes
    ----------
    cell_of_row : ndarray of int, (rows,)
        Cell of each row, non-decreasing from 0.
    dense : ndarray, (C, C)
        γκ between cells, rad/(W m).
    left, right : ndarray, (C, r) and (r, C)
        Low-rank factors of ``dense``; r = 0 if it is used as it is.
    form : str
        ``"dense"`` (one cell a row), ``"factored"`` (exact cells) or ``"svd"``.
    dropped : ndarray
        Singular values dropped by the factors, rad/(W m).
    """

    cell_of_row: np.ndarray
    dense: np.ndarray
    left: np.ndarray
    right: np.ndarray
    form: str
    dropped: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def cells(self) -> int:
        return self.dense.shape[0]

    @property
    def rank(self) -> int:
        return self.left.shape[1]

    @property
    def cell_start(self) -> np.ndarray:
        """First row of each cell, and the number of rows last: (C + 1,)."""
        return np.searchsorted(self.cell_of_row, np.arange(self.cells + 1))

    @property
    def products(self) -> int:
        """Multiplications a time sample of one evaluation of the phases."""
        return 2 * self.cells * self.rank if self.rank else self.cells**2


def find_cells(kappa_rows: np.ndarray) -> np.ndarray:
    """Coarsest cells of *adjacent* rows whose κ rows and columns are equal, exactly. (rows,) int."""
    same = (kappa_rows[1:] == kappa_rows[:-1]).all(axis=1)
    same &= (kappa_rows[:, 1:] == kappa_rows[:, :-1]).all(axis=0)
    return np.concatenate(([0], np.cumsum(~same)))


def make_mixing(kappa_rows, gamma: float, form: str = "auto", tolerance: float = 1e-12) -> Mixing:
    """Lay out γκ in the cheapest form, or the one asked for.

    Parameters
    ----------
    kappa_rows : array_like, (2M, 2M)
        κ between rows, dimensionless.
    gamma : float
        Nonlinear coefficient γ, 1/(W m).
    form : {"auto", "dense", "factored", "svd"}
        ``dense``: the paper's form, every row by itself. ``factored``: exact, by cells. ``svd``:
        low rank over the cells, dropping singular values below ``tolerance`` times the largest.
        ``auto``: the cheapest that is exact to round-off.
    tolerance : float
        Relative size of the singular values dropped by ``svd``.

    Raises
    ------
    InputError
        If κ is not square and finite, or the form is unknown.
    """
    kappa = np.asarray(kappa_rows, float)
    if form not in FORMS:
        raise InputError(f"kerr: {form!r} is unknown; allowed: {', '.join(FORMS)}")
    if kappa.ndim != 2 or kappa.shape[0] != kappa.shape[1] or not np.isfinite(kappa).all():
        raise InputError(f"kappa: shape {kappa.shape} given; allowed: a square matrix of finite numbers")
    if not 0 <= tolerance < 1:
        raise InputError(f"svd_tolerance: {tolerance} given; allowed: 0 to 1")
    rows = kappa.shape[0]
    none = np.zeros((rows, 0)), np.zeros((0, rows))
    dense = Mixing(np.arange(rows), gamma * kappa, *none, form="dense")
    if form == "dense":
        return dense
    cell = find_cells(kappa)
    first = np.searchsorted(cell, np.arange(cell[-1] + 1))
    small = gamma * kappa[np.ix_(first, first)]
    none = np.zeros((first.size, 0)), np.zeros((0, first.size))
    factored = Mixing(cell, small, *none, form="factored")
    if form == "factored":
        return factored
    # "auto" keeps what is above round-off only, so that all its choices agree to 1e-12.
    u, s, v = np.linalg.svd(small)
    floor = tolerance if form == "svd" else 8 * np.finfo(float).eps
    keep = max(1, int((s > floor * s[0]).sum()))
    low = Mixing(cell, small, u[:, :keep] * s[:keep], v[:keep], "svd", s[keep:])
    if form == "svd":
        return low
    return min((factored, low, dense), key=lambda mixing: mixing.products)
