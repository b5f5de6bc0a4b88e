"""The Kerr coupling κ as the kernels want it: phase groups of rows, and a small matrix between them.

κ of a coupled mode group, or of the two polarisations of a mode, repeats itself: rows of one *phase group*
turn by the same phase and count only through their total power. With G groups the Kerr operator costs G²
products a time sample instead of (2M)²; a factorisation κ = U V of rank r costs 2Gr.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from wavefabric.errors import InputError

#: Forms of the Kerr coupling, and those in which ranks may exchange powers.
KERR_FORMS = ("auto", "dense", "factored", "svd")
EXCHANGE_FORMS = ("auto", "dense", "factored")


@dataclass(frozen=True)
class PhaseGroupCoupling:
    """γκ between phase groups of contiguous rows.

    Attributes
    ----------
    group_of_row : ndarray of int, (rows,)
        Phase group of each row, non-decreasing from 0.
    dense : ndarray, (G, G)
        γκ between groups, rad/(W m).
    left, right : ndarray, (G, r) and (r, G)
        Low-rank factors of ``dense``; r = 0 if it is used as it is.
    form : str
        ``"dense"`` (every row is a group), ``"factored"`` (exact groups) or ``"svd"``.
    dropped : ndarray
        Singular values dropped by the factors, rad/(W m).
    """

    group_of_row: np.ndarray
    dense: np.ndarray
    left: np.ndarray
    right: np.ndarray
    form: str
    dropped: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def groups(self) -> int:
        return self.dense.shape[0]

    @property
    def own_groups(self) -> int:
        """Groups of the rows that are here: all."""
        return self.groups

    @property
    def rank(self) -> int:
        return self.left.shape[1]

    @property
    def group_start(self) -> np.ndarray:
        """First row of each group, and the number of rows last: (G + 1,)."""
        return np.searchsorted(self.group_of_row, np.arange(self.groups + 1))

    @property
    def products(self) -> int:
        """Multiplications a time sample of one evaluation of the phases."""
        return 2 * self.groups * self.rank if self.rank else self.groups**2


def find_phase_groups(kappa_rows: np.ndarray) -> np.ndarray:
    """Coarsest groups of *adjacent* rows whose κ rows and columns are equal, exactly. (rows,) int."""
    same = (kappa_rows[1:] == kappa_rows[:-1]).all(axis=1)
    same &= (kappa_rows[:, 1:] == kappa_rows[:, :-1]).all(axis=0)
    return np.concatenate(([0], np.cumsum(~same)))


def phase_group_coupling(
    kappa_rows, gamma: float, form: str = "auto", tolerance: float = 1e-12
) -> PhaseGroupCoupling:
    """Lay out γκ in the cheapest form, or the one asked for.

    Parameters
    ----------
    kappa_rows : array_like, (2M, 2M)
        κ between rows, dimensionless.
    gamma : float
        Nonlinear coefficient γ, 1/(W m).
    form : {"auto", "dense", "factored", "svd"}
        ``dense``: the paper's form, every row by itself. ``factored``: exact, by phase groups. ``svd``:
        low rank over the groups, dropping singular values below ``tolerance`` times the largest.
        ``auto``: the cheapest that is exact to round-off.
    tolerance : float
        Relative size of the singular values dropped by ``svd``.

    Raises
    ------
    InputError
        If κ is not square and finite, or the form is unknown.
    """
    kappa = np.asarray(kappa_rows, float)
    if form not in KERR_FORMS:
        raise InputError(f"kerr: {form!r} is unknown; allowed: {', '.join(KERR_FORMS)}")
    if kappa.ndim != 2 or kappa.shape[0] != kappa.shape[1] or not np.isfinite(kappa).all():
        raise InputError(f"kappa: shape {kappa.shape} given; allowed: a square matrix of finite numbers")
    if not 0 <= tolerance < 1:
        raise InputError(f"svd_tolerance: {tolerance} given; allowed: 0 to 1")

    def exact(group: np.ndarray, matrix: np.ndarray, name: str) -> PhaseGroupCoupling:
        size = len(matrix)
        return PhaseGroupCoupling(group, matrix, np.zeros((size, 0)), np.zeros((0, size)), name)

    dense = exact(np.arange(len(kappa)), gamma * kappa, "dense")
    if form == "dense":
        return dense
    group = find_phase_groups(kappa)
    first = np.searchsorted(group, np.arange(group[-1] + 1))
    small = gamma * kappa[np.ix_(first, first)]
    factored = exact(group, small, "factored")
    if form == "factored":
        return factored
    # "auto" keeps what is above round-off only, so that all its choices agree to 1e-12.
    u, s, v = np.linalg.svd(small)
    floor = tolerance if form == "svd" else 8 * np.finfo(float).eps
    keep = max(1, int((s > floor * s[0]).sum()))
    low = PhaseGroupCoupling(group, small, u[:, :keep] * s[:keep], v[:keep], "svd", s[keep:])
    if form == "svd":
        return low
    return min((factored, low, dense), key=lambda coupling: coupling.products)
