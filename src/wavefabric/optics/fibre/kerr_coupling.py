"""Kerr coupling between modes: overlap integrals and the coefficients κ of the Manakov equations."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wavefabric.optics.fibre.modes import Array, ModeSet, spatial_modes


@dataclass(frozen=True, eq=False)
class Overlaps:
    """Overlaps of all M spatial modes, ordered as fields are: by group, inside it by l, cos before sin."""

    f: Array  # f_nm = ∫F_n² F_m² dA with ∫F² dA = 1, in 1/m², (M, M)
    labels: tuple[str, ...]  # "LP01", "LP11a" (cos), "LP11b" (sin), …
    groups: NDArray[np.int64]  # mode group of each spatial mode, (M,)
    lp: NDArray[np.int64]  # index of the LP mode in the mode set, (M,)

    @property
    def a_eff(self) -> Array:
        """Effective areas 1/f_nn in m², (M,)."""
        return 1 / np.diagonal(self.f)

    def take(self, keep) -> "Overlaps":
        """Those of the spatial modes that an index or mask of shape (M,) picks, in its order."""
        rows = np.arange(len(self.f))[keep]
        labels = tuple(self.labels[row] for row in rows)
        return Overlaps(self.f[np.ix_(rows, rows)], labels, self.groups[rows], self.lp[rows])


def angular_overlap(l_n: ArrayLike, parity_n: ArrayLike, l_m: ArrayLike, parity_m: ArrayLike) -> Array:
    """∫Φ_n² Φ_m² dφ over a full turn for Φ = cos(lφ)/√π or sin(lφ)/√π (1/√(2π) for l = 0).

    From Φ² = (1 + p cos 2lφ)/2π follows (1 + p_n p_m δ_{l_n l_m}/2)/2π: 3/4π for equal modes, 1/4π for the
    cos and sin of one l, 1/2π otherwise. The parity p is +1 for cos, −1 for sin, 0 for l = 0.
    """
    same = np.asarray(l_n) == np.asarray(l_m)
    return (1 + 0.5 * same * np.asarray(parity_n) * np.asarray(parity_m)) / (2 * math.pi)


def overlaps(modes: ModeSet) -> Overlaps:
    """f_nm = ∫F_n² F_m² dA of all spatial modes: radial sum over the rings, angular part in closed form."""
    squares = modes.radial**2
    radial = (squares * modes.ring) @ squares.T
    lp, parity, labels = spatial_modes(modes.l, modes.m)
    order = modes.l[lp]
    f = radial[np.ix_(lp, lp)] * angular_overlap(order[:, None], parity[:, None], order, parity)
    return Overlaps((f + f.T) / 2, labels, modes.group[lp], lp)


def kappa_weak(f: Array, a_ref: float) -> Array:
    """κ (M, M) of weakly coupled modes: κ_aa = 8/9 A_ref f_aa, κ_ab = 4/3 A_ref f_ab.

    It multiplies |A_bx|² + |A_by|², the total power of mode b: polarisations mix at random within a mode,
    modes do not mix. ``f`` (M, M) in 1/m²; ``a_ref`` is the effective area in γ = n₂ω₀/(c₀A_ref), m².
    Source: S. Mumtaz, R.-J. Essiambre, G. P. Agrawal, J. Lightwave Technol. 31, 398 (2013).
    """
    kappa = 4 / 3 * a_ref * f
    np.fill_diagonal(kappa, 8 / 9 * a_ref * np.diagonal(f))
    return kappa


def kappa_strong_groups(f: Array, groups: NDArray[np.int64], a_ref: float) -> Array:
    """κ (G, G) of groups whose N_a modes mix at random (strong coupling inside a group, none between groups).

    κ_aa = 4/3 · 2N_a/(2N_a+1) · A_ref/N_a² Σ_{n,m∈a} f_nm and κ_ab = 4/3 · A_ref/(N_a N_b) Σ_{n∈a,m∈b} f_nm.
    It multiplies the total power of group b and turns every row of group a alike. ``groups`` (M,) is
    non-decreasing; f and ``a_ref`` as in `kappa_weak`. Source: A. Mecozzi, C. Antonelli, M. Shtaif, "Coupled
    Manakov equations in multimode fibers with strongly coupled groups of modes", Opt. Express 20, 23436
    (2012), doi 10.1364/OE.20.023436.
    """
    _, starts, sizes = np.unique(groups, return_index=True, return_counts=True)
    sums = np.add.reduceat(np.add.reduceat(f, starts, axis=0), starts, axis=1)
    kappa = 4 / 3 * a_ref * sums / np.multiply.outer(sizes, sizes)
    kappa[np.diag_indices(len(sizes))] *= 2 * sizes / (2 * sizes + 1)
    return kappa
