"""LP modes of a round fibre: radial finite-volume solution of the scalar Helmholtz equation.

For each azimuthal order l the radial field R(r) of F(r,φ) = R(r) Φ(φ) obeys

    (1/r) d/dr (r dR/dr) + (k² n²(r) − l²/r²) R = β² R,

discretised on rings whose edges fall on the profile's interfaces (D. Marcuse, Theory of Dielectric Optical
Waveguides, ch. 2, for the equation). The scheme is of second order; the matrix is symmetric tridiagonal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal

from wavefabric.errors import InputError
from wavefabric.optics.arguments import positive
from wavefabric.optics.fibre.profile import Profile

Array = NDArray[np.float64]

#: Default radial step in m.
STEP = 0.02e-6
# The wall is far enough where a mode's power has fallen to this share of that at the cladding's start.
_WALL = 1e-8
_FARTHEST = 200e-6
#: Most guided LP modes, and most rings: bounds on absurd input, far above any fibre for signals.
MOST_MODES, MOST_RINGS = 1024, 200_000


@dataclass(frozen=True, eq=False)
class ModeSet:
    """The guided LP(l,m) modes of a fibre, ordered by group, inside a group by l. One entry per LP mode.

    Attributes
    ----------
    wavelength : float
        Vacuum wavelength, m.
    l, m, group : ndarray of int, shape (P,)
        Azimuthal and radial order (l ≥ 0, m ≥ 1) and group number 2m + l − 1.
    n_eff, beta : ndarray, shape (P,)
        Effective index; propagation constant in 1/m.
    r, ring : ndarray, shape (N,)
        Ring centres in m, and r dr of each ring in m².
    radial : ndarray, shape (P, N)
        Radial fields in 1/m with Σ R² ring = 1, positive next to the axis.
    """

    wavelength: float
    l: NDArray[np.int64]  # noqa: E741
    m: NDArray[np.int64]
    group: NDArray[np.int64]
    n_eff: Array
    beta: Array
    r: Array
    ring: Array
    radial: Array

    @property
    def degeneracy(self) -> NDArray[np.int64]:
        """Spatial modes of each LP mode: 1 for l = 0, otherwise 2 (cos and sin). Shape (P,)."""
        return np.where(self.l == 0, 1, 2)

    @property
    def spatial_modes(self) -> int:
        """Number of spatial modes, cos and sin counted apart."""
        return int(self.degeneracy.sum())

    @property
    def a_eff(self) -> Array:
        """Effective areas 1/∫F⁴dA in m² of the real cos or sin modes, shape (P,)."""
        angular = np.where(self.l == 0, 1 / (2 * math.pi), 3 / (4 * math.pi))
        return 1 / (angular * (self.radial**4 @ self.ring))

    @property
    def labels(self) -> tuple[str, ...]:
        """``"LP01"``, ``"LP11"``, …; beyond 9 the orders stand apart: ``"LP10,1"``."""
        return tuple(lp_label(int(a), int(b)) for a, b in zip(self.l, self.m, strict=True))

    def select(self, groups) -> ModeSet:
        """Only the modes of these group numbers; InputError if one is not guided, or only in part."""
        groups = sorted({int(g) for g in groups})
        for g in groups:
            have = int(self.degeneracy[self.group == g].sum())
            if g < 1 or have != g:
                whole = [int(a) for a in np.unique(self.group) if self.degeneracy[self.group == a].sum() == a]
                raise InputError(
                    f"groups: {g} has {have} of its {g} spatial modes guided; "
                    f"allowed: {whole[0]} to {whole[-1]}"
                    if whole
                    else f"groups: {g} is not guided; the fibre guides no whole group"
                )
        return self.take(np.isin(self.group, groups))

    def take(self, keep) -> ModeSet:
        """The LP modes that an index or mask of shape (P,) picks, in its order."""
        names = ("l", "m", "group", "n_eff", "beta", "radial")
        return replace(self, **{name: getattr(self, name)[keep] for name in names})


def lp_label(l: int, m: int) -> str:  # noqa: E741
    """Name of LP(l,m); orders above 9 are set apart by a comma."""
    return f"LP{l}{m}" if l < 10 and m < 10 else f"LP{l},{m}"


class _Mesh(NamedTuple):
    edges: Array
    centres: Array
    ring: Array


def _mesh(profile: Profile, step: float, outer: float, refine: int) -> _Mesh:
    """Rings of about `step`, with an edge on every interface; `refine` splits each into equal parts."""
    stops = (0.0, *profile.interfaces(), outer)
    if (rings := refine * outer / step) > MOST_RINGS:
        raise InputError(
            f"profile: {rings:.3g} rings of {step / refine:g} m to a radius of {outer:g} m; "
            f"allowed: up to {MOST_RINGS}, so a smaller core_diameter (and trench)"
        )
    parts = [
        np.linspace(a, b, refine * math.ceil((b - a) / step * (1 - 1e-9)) + 1) for a, b in pairwise(stops)
    ]
    edges = np.concatenate([part[:-1] for part in parts] + [np.array([outer])])
    centres = (edges[1:] + edges[:-1]) / 2
    return _Mesh(edges, centres, centres * np.diff(edges))


def _ring_averages(profile: Profile, mesh: _Mesh, wavelength: float) -> Array:
    """n² − n²_cladding averaged over the area of each ring (two-point Gauss), shape (N,)."""
    half = np.diff(mesh.edges) / 2
    shift = half / math.sqrt(3)
    inner, outer = mesh.centres - shift, mesh.centres + shift
    weight = np.stack([inner, outer]) / (2 * mesh.centres)
    n2 = profile.index(np.stack([inner, outer]), wavelength) ** 2
    return (weight * n2).sum(axis=0) - profile.cladding.index(wavelength) ** 2


@lru_cache(maxsize=8)
def solve_modes(
    profile: Profile, wavelength: float, step: float = STEP, outer: float | None = None, refine: int = 1
) -> ModeSet:
    """All guided LP modes, n_cladding < n_eff.

    Parameters
    ----------
    profile : Profile
        Index profile.
    wavelength : float
        Vacuum wavelength, m.
    step : float
        Largest radial step, m; each piece between two interfaces is divided evenly.
    outer : float, optional
        Radius of the outer wall, where the field is zero, m. By default far enough that every mode has
        fallen there to 1e-8 of its power at the cladding's start (at most 200 µm into the cladding).
    refine : int
        Divide every ring into this many (for convergence studies on nested meshes).

    Returns
    -------
    ModeSet
        Results are cached; its arrays are read-only.

    Raises
    ------
    InputError
        If step, wavelength or outer are out of range, or no mode is guided.
    """
    positive(wavelength, "m", "wavelength")
    last = profile.interfaces()[-1]
    if not (0 < step <= last / 8):
        raise InputError(
            f"step: {step!r} m; allowed: above 0, at most {last / 8:.3g} m (an eighth of the profile)"
        )
    if outer is not None:
        if not last < outer < math.inf:
            raise InputError(f"outer: {outer!r} m; must lie beyond the cladding's start at {last!r} m")
        modes, _ = solve_mesh(profile, wavelength, step, outer, refine)
    else:
        depth = 10e-6
        while True:
            modes, slowest = solve_mesh(profile, wavelength, step, last + depth, refine)
            needed = min(-math.log(_WALL) / (2 * slowest), _FARTHEST) if slowest > 0 else 2 * depth
            if depth >= min(needed, _FARTHEST):
                break
            depth = min(max(1.1 * needed, 1.2 * depth), _FARTHEST)
    if not len(modes.l):
        raise InputError(
            f"wavelength: no mode is guided at {wavelength!r} m; is the core's index above the cladding's?"
        )
    return modes


def solve_mesh(profile: Profile, wavelength: float, step: float, outer: float, refine: int = 1):
    """The modes, and the smallest decay constant √(β² − k² n²_cladding) in 1/m."""
    mesh = _mesh(profile, step, outer, refine)
    k = 2 * math.pi / wavelength
    clad = profile.cladding.index(wavelength)
    excess = k**2 * _ring_averages(profile, mesh, wavelength)
    _check_count(excess, mesh, wavelength)

    # Flux through the edge between rings i and i+1 is conductance (R[i+1] − R[i]); the wall has R = 0.
    gaps = np.append(np.diff(mesh.centres), mesh.edges[-1] - mesh.centres[-1])
    conductance = mesh.edges[1:] / gaps
    outflow = conductance + np.concatenate(([0.0], conductance[:-1]))
    root = np.sqrt(mesh.ring)
    off = conductance[:-1] / (root[1:] * root[:-1])

    modes = []
    top = float(excess.max())
    order = 0
    while top > 0:
        diagonal = excess - (order / mesh.centres) ** 2 - outflow / mesh.ring
        _, vectors = eigh_tridiagonal(diagonal, off, select="v", select_range=(0.0, 1.001 * top))
        if vectors.shape[1] == 0:
            break
        fields = (vectors[:, ::-1] / root[:, None]).T
        # The Rayleigh quotient in differences loses no digits to 1/step², unlike the eigenvalue itself.
        inside = (fields**2 * (mesh.ring * (excess - (order / mesh.centres) ** 2))).sum(axis=1)
        jumps = np.diff(fields, axis=1, append=0.0)
        lam = inside - (jumps**2 * conductance).sum(axis=1)
        for m, (value, field) in enumerate(zip(lam, fields, strict=True), start=1):
            if value > 0:
                start = field[np.argmax(np.abs(field) > 1e-3 * np.abs(field).max())]
                modes.append((2 * m + order - 1, order, m, value, field * np.sign(start)))
        order += 1

    modes.sort(key=lambda mode: mode[:2])
    group, l, m = (np.array([mode[i] for mode in modes], dtype=np.int64) for i in range(3))  # noqa: E741
    lam = np.array([mode[3] for mode in modes], dtype=float)
    beta = np.sqrt((k * clad) ** 2 + lam)
    radial = np.array([mode[4] for mode in modes]).reshape(len(modes), len(mesh.centres))
    arrays = (l, m, group, beta / k, beta, mesh.centres, mesh.ring, radial)
    for array in arrays:
        array.setflags(write=False)
    slowest = math.sqrt(float(lam.min())) if len(lam) else 0.0
    return ModeSet(wavelength, *arrays), slowest


def _check_count(excess: Array, mesh: _Mesh, wavelength: float) -> None:
    """Refuse a profile with far too many modes before any is solved for.

    A mode (l, m) takes an area of 2π of phase space in r and k_r; summed over l ≥ 0 that leaves
    ¼ ∫ k² (n² − n²_cladding) r dr modes (D. Gloge and E. A. J. Marcatili, Bell Syst. Tech. J. 52, 1973).
    """
    count = float(np.maximum(excess, 0) @ mesh.ring) / 4
    if not count <= MOST_MODES:
        raise InputError(
            f"profile: about {count:.3g} LP modes are guided at {wavelength:g} m; "
            f"allowed: up to {MOST_MODES}, so a smaller core_diameter or numerical_aperture"
        )


def extrapolate(profile: Profile, wavelength: float, step: float = STEP) -> Array:
    """n_eff of the modes of `solve_modes` by Richardson's rule from `step` and half of it: fourth order.

    InputError if a mode so near cutoff exists on only one of the meshes.
    """
    coarse = solve_modes(profile, wavelength, step)
    fine = solve_modes(profile, wavelength, step, outer=outer_of(coarse), refine=2)
    if len(fine.l) != len(coarse.l):
        raise InputError(
            f"step: {step!r} m is too coarse, a mode at cutoff comes or goes; give a smaller one"
        )
    return (4 * fine.n_eff - coarse.n_eff) / 3


def convergence(profile: Profile, wavelength: float, steps: tuple[float, ...]) -> dict[float, Array]:
    """n_eff(step) − n_eff(extrapolated from the finest step), shape (P,), for each radial step in m."""
    reference = extrapolate(profile, wavelength, min(steps))
    errors = {}
    for step in steps:
        n_eff = solve_modes(profile, wavelength, step).n_eff
        if n_eff.shape != reference.shape:
            raise InputError(
                f"steps: {step!r} m is too coarse, a mode at cutoff comes or goes; give smaller ones"
            )
        errors[step] = n_eff - reference
    return errors


def outer_of(modes: ModeSet) -> float:
    """Radius of the wall of the mesh the modes were solved on, m."""
    return float(modes.r[-1] + modes.ring[-1] / (2 * modes.r[-1]))
