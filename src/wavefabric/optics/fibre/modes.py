"""Solve for the LP modes of a round fibre and their dispersion: finite volumes, scalar Helmholtz equation.

For each azimuthal order l the radial field R(r) of F(r,φ) = R(r) Φ(φ) satisfies

    (1/r) d/dr (r dR/dr) + (k² n²(r) − l²/r²) R = β² R,

discretised on rings whose edges lie on the profile's interfaces (D. Marcuse, Theory of Dielectric Optical
Waveguides, ch. 2, for the equation). The scheme is of second order; the matrix is symmetric tridiagonal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count, groupby, pairwise

import numpy as np
import scipy  # its submodules load when first used
from numpy.typing import NDArray

from wavefabric.base.arguments import positive
from wavefabric.base.errors import InputError
from wavefabric.base.units import SPEED_OF_LIGHT
from wavefabric.optics.fibre.profile import Array, Profile

#: Default radial step in m.
STEP = 0.02e-6
#: Longest decay length (to 1/e) of a mode's field in the cladding, m; modes that reach further are omitted.
LONGEST_DECAY = 1e-3
# The mesh ends where a mode's power has fallen to this fraction of its value at the cladding's start.
_WALL = 1e-8
# Rings have equal widths up to this distance from the cladding's start (m), then grow with the distance.
_EVEN = 10e-6
#: Largest numbers of guided LP modes and of mesh rings, far above those of real fibres: a check of the input.
MOST_MODES, MOST_RINGS = 1024, 200_000
#: Number of Chebyshev points in ω, odd; the degree of the polynomial through the points is one less.
_POINTS = 9
#: The Chebyshev points, from high to low frequencies, relative to the half-width.
CHEBYSHEV = np.cos(math.pi * (np.arange(_POINTS) + 0.5) / _POINTS)
CHEBYSHEV[_POINTS // 2] = 0.0
#: Half-widths of the fitted band, rad/s (8 THz to 8 GHz); a mode uses the widest band in which it is guided.
HALF_SPANS = tuple(2 * math.pi * 8e12 / 2**k for k in range(11))


@dataclass(frozen=True, eq=False)
class ModeSet:
    """Holds the P guided LP(l,m) modes of a fibre on a radial mesh of N rings, sorted by group, then by l.

    A mode group consists of modes of equal 2m + l − 1, with no other mode's n_eff in between. Groups are
    numbered from 1 at the largest n_eff, so in graded-index fibres the group number equals 2m + l − 1.
    """

    wavelength: float  # in vacuum, m
    l: NDArray[np.int64]  # azimuthal order from 0, (P,)  # noqa: E741
    m: NDArray[np.int64]  # radial order from 1, (P,)
    group: NDArray[np.int64]  # number of the mode group, (P,)
    n_eff: Array  # effective index, (P,)
    beta: Array  # propagation constant, 1/m, (P,)
    r: Array  # ring centres, m, (N,)
    ring: Array  # r dr of each ring, m², (N,)
    radial: Array  # radial fields in 1/m with Σ R² ring = 1, positive next to the axis, (P, N)
    left_out: tuple[tuple[int, str], ...] = ()  # omitted guided modes: group, and label with the reason

    @property
    def degeneracy(self) -> NDArray[np.int64]:
        """Return the number of spatial modes of each LP mode, (P,): 1 for l = 0, else 2 (cos and sin)."""
        return np.where(self.l == 0, 1, 2)

    @property
    def spatial_modes(self) -> int:
        """Return the total number of spatial modes; the cos and the sin mode of an LP mode count as two."""
        return int(self.degeneracy.sum())

    @property
    def a_eff(self) -> Array:
        """Return the effective areas 1/∫F⁴dA in m² of the real cos or sin modes, (P,)."""
        angular = np.where(self.l == 0, 1 / (2 * math.pi), 3 / (4 * math.pi))
        return 1 / (angular * (self.radial**4 @ self.ring))

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the label of each LP mode, ``"LP01"``, ``"LP11"``, …; with orders above 9 ``"LP10,1"``."""
        return tuple(lp_label(int(a), int(b)) for a, b in zip(self.l, self.m, strict=True))

    def select(self, groups) -> ModeSet:
        """Return a `ModeSet` of the mode groups ``groups`` alone; InputError if a group has no modes."""
        groups = sorted({int(g) for g in groups})
        if missing := [g for g in groups if g not in self.group]:
            notes = ", ".join(note for group, note in self.left_out if group == missing[0])
            fault = f"is left out: {notes}" if notes else "is not guided"
            raise InputError(f"groups: {missing[0]} {fault}; allowed: 1 to {self.group.max()}")
        return self.take(np.isin(self.group, groups))

    def take(self, keep) -> ModeSet:
        """Return a `ModeSet` of the LP modes ``keep``: indices, in their order, or a mask of shape (P,)."""
        names = ("l", "m", "group", "n_eff", "beta", "radial")
        return replace(self, **{name: getattr(self, name)[keep] for name in names})

    def leave_out(self, mask, reason: str) -> ModeSet:
        """Return a `ModeSet` without the modes of ``mask`` (P,), listed in ``left_out`` with ``reason``."""
        rows = np.flatnonzero(mask).tolist()
        notes = tuple((int(self.group[row]), f"{self.labels[row]} ({reason})") for row in rows)
        return replace(self.take(~mask), left_out=self.left_out + notes)

    def rows(self, labels: Iterable[str]) -> list[int]:
        """Return the indices of the LP modes named in ``labels``; labels of unguided modes are skipped."""
        index = {label: row for row, label in enumerate(self.labels)}
        return [index[label] for label in labels if label in index]


def lp_label(l: int, m: int) -> str:  # noqa: E741
    """Return the label of the mode LP(l,m), such as ``"LP01"``; a comma separates orders above 9."""
    return f"LP{l}{m}" if l < 10 and m < 10 else f"LP{l},{m}"


def spatial_modes(l, m) -> tuple[NDArray[np.int64], NDArray[np.int64], tuple[str, ...]]:  # noqa: E741
    """Return for each spatial mode its LP mode's index, parity (1 cos, −1 sin, 0 for l = 0) and label."""
    lp = np.repeat(np.arange(len(l)), np.where(l == 0, 1, 2))
    sine = np.append(False, lp[1:] == lp[:-1])
    parity = np.where(l[lp] == 0, 0, np.where(sine, -1, 1))
    modes = zip(l[lp].tolist(), m[lp].tolist(), parity.tolist(), strict=True)
    return lp, parity, tuple(lp_label(a, b) + {0: "", 1: "a", -1: "b"}[p] for a, b, p in modes)


def _ring_edges(profile: Profile, step: float, outer: float, refine: int) -> Array:
    """Return the radii (m) of the edges between a mesh's rings, 0 to ``outer``; every interface is an edge.

    Rings are about ``step``/``refine`` wide; more than 10 µm outside the last interface their widths grow.
    """
    last = profile.interfaces()[-1]
    uniform_end = min(outer, last + _EVEN)
    stops = (0.0, *profile.interfaces(), uniform_end)
    growth = (outer - last) / (uniform_end - last)
    growing = refine * math.ceil(math.log(growth) * _EVEN / step)
    if (rings := refine * uniform_end / step + growing) > MOST_RINGS:
        fault = f"{rings:.3g} rings of {step / refine:g} m to a radius of {outer:g} m"
        allowed = f"up to {MOST_RINGS}, so a smaller core_diameter (and trench), or radii of a table"
        raise InputError(f"profile: {fault}; allowed: {allowed}")
    counts = [refine * math.ceil((b - a) / step * (1 - 1e-9)) for a, b in pairwise(stops)]
    parts = [np.linspace(a, b, n + 1)[:-1] for (a, b), n in zip(pairwise(stops), counts, strict=True)]
    growing_edges = last + (uniform_end - last) * growth ** np.linspace(0, 1, growing + 1)
    return np.concatenate([*parts, growing_edges])


@lru_cache(maxsize=8)
def solve_modes(
    profile: Profile, wavelength: float, step: float = STEP, orders: tuple[int, ...] | None = None
) -> ModeSet:
    """Solve for all guided LP modes, n_cladding < n_eff, at a vacuum wavelength (m).

    ``step`` (m) is the approximate ring width. Modes so close to cut-off that the decay length 1/√(β² − k²
    n²_cladding) exceeds 1 mm are omitted and listed in ``left_out``. The mesh ends where the power of every
    mode is at most 1e-8 of its value at the cladding's start. ``orders`` are the azimuthal orders to solve
    for, ascending, by default all; groups are numbered among these modes. Results are cached; `InputError` if
    an argument is out of range or no mode is guided.
    """
    positive(wavelength, "m", "wavelength")
    last = profile.interfaces()[-1]
    if step == STEP > last / 8:
        raise InputError(f"profile: a radius of {last:.3g} m given; allowed: {8 * STEP:.3g} m or more")
    if not (0 < step <= last / 8):
        allowed = f"above 0, at most {last / 8:.3g} m (an eighth of the profile)"
        raise InputError(f"step: {step!r} m; allowed: {allowed}")
    depth, lengths = _EVEN, -math.log(_WALL) / 2  # the wall's distance, in decay lengths
    while True:
        modes, decay = solve_mesh(profile, wavelength, step, last + depth, orders=orders)
        needed = lengths * min(LONGEST_DECAY, 1 / decay.min(initial=math.inf))
        if depth >= needed:
            break
        depth = min(max(1.1 * needed, 1.2 * depth), lengths * LONGEST_DECAY)
    reason = f"its field reaches more than {LONGEST_DECAY * 1e3:g} mm into the cladding"
    modes = modes.leave_out(decay * LONGEST_DECAY < 1, reason)
    if not len(modes.l):
        fault = f"no mode is guided at {wavelength!r} m" + "".join(f" but {n}" for _, n in modes.left_out)
        raise InputError(f"wavelength: {fault}; is the core's index above the cladding's?")
    return modes


def solve_mesh(
    profile: Profile, wavelength: float, step: float, outer: float, refine: int = 1, orders=None
) -> tuple[ModeSet, Array]:
    """Return the LP modes on a mesh of radius ``outer`` (m), and decay constants √(β² − k² n²_cladding), 1/m.

    Beyond ``outer`` fields continue as r^−l, as for a mode at cut-off, so exactly the guided modes are found,
    however small ``outer`` is. Each ring is divided into ``refine`` rings; ``orders`` as in `solve_modes`.
    """
    edges = _ring_edges(profile, step, outer, refine)
    centres = (edges[1:] + edges[:-1]) / 2
    ring = centres * np.diff(edges)
    k = 2 * math.pi / wavelength
    clad = profile.cladding.index(wavelength)
    # n² − n²_cladding averaged over the area of each ring, by two-point Gauss.
    shift = np.diff(edges) / 2 / math.sqrt(3)
    points = np.stack([centres - shift, centres + shift])
    n2 = (points / (2 * centres) * profile.index(points, wavelength) ** 2).sum(axis=0)
    excess = k**2 * (n2 - clad**2)
    _check_count(excess, ring, wavelength)

    # Flux through the edge between rings i and i+1 is conductance (R[i+1] − R[i]); beyond the wall R counts
    # as 0, with the conductance l.
    conductance = np.append(edges[1:-1] / np.diff(centres), 0.0)
    root = np.sqrt(ring)
    off_diagonal = conductance[:-1] / (root[1:] * root[:-1])

    modes = []
    top = float(excess.max())
    for order in (count() if orders is None else orders) if top > 0 else ():
        conductance[-1] = order
        outflow = conductance + np.append(0.0, conductance[:-1])
        diagonal = excess - (order / centres) ** 2 - outflow / ring
        bounds = {"select": "v", "select_range": (0.0, 1.001 * top)}
        _, vectors = scipy.linalg.eigh_tridiagonal(diagonal, off_diagonal, **bounds)
        if vectors.shape[1] == 0:
            break
        fields = (vectors[:, ::-1] / root[:, None]).T
        # The Rayleigh quotient in differences loses no digits to 1/step², unlike the eigenvalue itself.
        inside = (fields**2 * (ring * (excess - (order / centres) ** 2))).sum(axis=1)
        jumps = np.diff(fields, axis=1, append=0.0)
        lam = inside - (jumps**2 * conductance).sum(axis=1)
        for m, (value, field) in enumerate(zip(lam, fields, strict=True), start=1):
            if value > 0:
                start = field[np.argmax(np.abs(field) > 1e-3 * np.abs(field).max())]
                modes.append((2 * m + order - 1, order, m, value, field * np.sign(start)))

    modes.sort(key=lambda mode: -mode[3])
    runs = [sorted(run, key=lambda mode: mode[1]) for _, run in groupby(modes, lambda mode: mode[0])]
    modes = [(number, *mode[1:]) for number, run in enumerate(runs, start=1) for mode in run]
    group, l, m = (np.array([mode[i] for mode in modes], dtype=np.int64) for i in range(3))  # noqa: E741
    lam = np.array([mode[3] for mode in modes], dtype=float)
    beta = np.sqrt((k * clad) ** 2 + lam)
    radial = np.array([mode[4] for mode in modes]).reshape(len(modes), len(centres))
    arrays = (l, m, group, beta / k, beta, centres, ring, radial)
    for array in arrays:
        array.setflags(write=False)
    return ModeSet(wavelength, *arrays), np.sqrt(lam)


def _check_count(excess: Array, ring: Array, wavelength: float) -> None:
    """Raise InputError, before any mode is solved for, if a profile has far too many modes.

    A mode (l, m) occupies an area of 2π of phase space in r and k_r; the sum over l ≥ 0 gives
    ¼ ∫ k² (n² − n²_cladding) r dr modes (D. Gloge and E. A. J. Marcatili, Bell Syst. Tech. J. 52, 1973).
    """
    count = float(np.maximum(excess, 0) @ ring) / 4
    if not count <= MOST_MODES:
        fault = f"about {count:.3g} LP modes are guided at {wavelength:g} m"
        allowed = f"up to {MOST_MODES}, so a smaller core_diameter or numerical_aperture"
        raise InputError(f"profile: {fault}; allowed: {allowed}")


def extrapolate(profile: Profile, wavelength: float, step: float = STEP) -> Array:
    """Return the modes' n_eff, extrapolated to rings of width zero; the error is of fourth order in ``step``.

    The modes are solved for with rings about ``step`` and ``step``/2 (m) wide (Richardson extrapolation).
    """
    coarse = solve_modes(profile, wavelength, step)
    fine, _ = solve_mesh(profile, wavelength, step, outer_of(coarse), refine=2)
    rows = fine.rows(coarse.labels)
    if len(rows) != len(coarse.l):
        fault = f"{step!r} m is too coarse, a mode at cutoff comes or goes"
        raise InputError(f"step: {fault}; give a smaller one")
    return (4 * fine.n_eff[rows] - coarse.n_eff) / 3


def outer_of(modes: ModeSet) -> float:
    """Return the outer radius, in m, of the mesh on which ``modes`` were solved."""
    return float(modes.r[-1] + modes.ring[-1] / (2 * modes.r[-1]))


@dataclass(frozen=True, eq=False)
class Dispersion:
    """Holds the Taylor coefficients of β(ω) of P LP modes.

    ``beta`` (P, 5) holds β0 … β4 in 1/m, s/m, s²/m, s³/m, s⁴/m, absolute. ``error`` (P, 5), an upper estimate
    of the error, is the change of ``beta`` if the degree of the fit falls by two. ``modes`` are the LP modes.
    """

    modes: ModeSet
    beta: Array
    error: Array


def dispersion(profile: Profile, wavelength: float, *, groups=None, step: float = STEP) -> Dispersion:
    """Compute β0 … β4 of each LP mode from a polynomial through β at Chebyshev points in ω.

    ``groups`` are the group numbers to include, by default all. The points span ±8 THz, or ±4, ±2, … THz for
    modes that are cut off in the wider band. A mode cut off within 8 GHz is omitted and listed in
    ``left_out``. All points use the same mesh, of radial ``step`` (m), so that errors are smooth in ω.
    """
    omega0 = 2 * math.pi * SPEED_OF_LIGHT / positive(wavelength, "m", "wavelength")
    if HALF_SPANS[0] >= omega0 / 3:
        raise InputError(f"wavelength: {wavelength!r} m given; allowed: below 12 um")
    x = CHEBYSHEV
    centre = solve_modes(profile, wavelength, step)
    centre = centre if groups is None else centre.select(groups)
    labels = np.array(centre.labels)
    values, pending = np.empty((2, len(labels), 5)), np.ones(len(labels), bool)
    for half_span in HALF_SPANS:
        wavelengths = 2 * math.pi * SPEED_OF_LIGHT / (omega0 + half_span * x)
        orders = tuple(np.unique(centre.l[pending]).tolist())
        try:
            lowest = solve_modes(profile, float(wavelengths[-1]), step, orders)
        except InputError:  # no mode is pending, or guided there
            continue
        fitted = pending & np.isin(labels, lowest.labels)
        if not fitted.any():
            continue
        outer = max(outer_of(lowest), outer_of(centre))
        meshes = (solve_mesh(profile, float(each), step, outer, orders=orders)[0] for each in wavelengths)
        beta = np.stack([modes.beta[modes.rows(labels[fitted])] for modes in meshes])
        values[:, fitted] = taylor_and_error(x, beta, half_span)
        pending &= ~fitted
    return Dispersion(centre.leave_out(pending, "cut off less than 8 GHz below"), *values[:, ~pending])


def taylor_and_error(x: Array, beta: Array, half_span: float) -> tuple[Array, Array]:
    """Fit polynomials to β of each mode; return β0 … β4 and estimates of their errors, (P, 5) each.

    ``beta`` (points, P) holds β at the frequency offsets ``x`` · ``half_span``, in rad/s.
    """
    base = beta[_POINTS // 2]
    scale = np.array([math.factorial(n) / half_span**n for n in range(5)])
    taylor, coarser = (
        np.stack([np.polynomial.chebyshev.cheb2poly(c)[:5] for c in fit.T]) * scale
        for fit in (np.polynomial.chebyshev.chebfit(x, beta - base, _POINTS - less) for less in (1, 3))
    )
    error = np.abs(taylor - coarser)
    taylor[:, 0] += base
    return taylor, error
