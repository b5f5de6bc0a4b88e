"""Model multicore fibres: coupling of round cores from their positions, supermodes, and the `Fibre` of them.

Coupled-mode theory of weakly guiding cores (A. W. Snyder and J. D. Love, Optical Waveguide Theory, 1983, ch.
18 and 29): the amplitudes a_p of the cores' LP01 modes F_p obey da/dz = i M a, where M_pp = β_p and

    M_pq = κ_pq = k²/(2β) ∫ (n_p² − n_cladding²) F_p F_q dA,  n_p the index with core p alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy  # its submodules load when first used
from numpy.typing import ArrayLike

from wavefabric.base.arguments import instance, number, numbers, per_axis, within
from wavefabric.base.errors import InputError, choice, ensure
from wavefabric.base.files.output import save_figure
from wavefabric.base.results.figure_style import GREY, style
from wavefabric.base.units import SPEED_OF_LIGHT
from wavefabric.optics.fibre import modes
from wavefabric.optics.fibre.fibre import ATTENUATION, N2_SILICA, Fibre, gamma_of
from wavefabric.optics.fibre.profile import Array, IndexProfile, Profile
from wavefabric.optics.fibre.sources import average_over_groups, kappa_strong_groups, kappa_weak

#: Largest number of cores. Width of the cladding around the outermost profiles in a grid, and its spacing, m.
MOST_CORES, _MARGIN, _SPACING = 37, 10e-6, 0.4e-6


class Multicore:
    """Solves for the supermodes of N round cores in one cladding; arrays are in the order of falling β.

    ``positions`` (N, 2) are x and y of the centres, in m or text with a unit, ``profiles`` one `Profile` or
    one for each core. Only the LP01 mode of each core takes part. The meshes are those that modes need at the
    wavelength ``longest`` (m). `InputError` if profiles overlap or have unlike claddings.

    - ``coupling`` (N, N): κ between cores, 1/m, 0 on the diagonal; ``core_beta`` (N,): β of each core, 1/m.
    - ``beta`` (N,): β of each supermode; ``groups`` (N,): number of its group of degenerate ones, from 1.
    - ``vectors`` (N, N): amplitude in each core (row) of each supermode (column), orthogonal.
    """

    def __init__(
        self,
        positions: ArrayLike,
        profiles: Profile | Sequence[Profile],
        wavelength: float | str = 1550e-9,
        longest: float | None = None,
    ):
        self.positions = at = numbers(positions, "m", "positions")
        right = at.ndim == 2 and at.shape[1] == 2 and 2 <= len(at) <= MOST_CORES and np.isfinite(at).all()
        ensure(right, "positions", f"shape {at.shape} given", f"finite x and y of 2 to {MOST_CORES} cores")
        self.wavelength = within(wavelength, "m", "wavelength", 1e-7, 1e-5)
        self.profiles: tuple[Profile, ...] = per_axis(profiles, len(self.positions))
        actual = f"{len(self.profiles)} given for {len(self.positions)} cores"
        ensure(len(self.profiles) == len(self.positions), "profiles", actual, "one, or one for each core")
        for profile in self.profiles:
            instance("profiles", profile, Profile)
            same = profile.cladding == self.profiles[0].cladding
            ensure(same, "profiles", "unlike claddings given", "one cladding")
        self.radii = np.array([profile.interfaces()[-1] for profile in self.profiles])
        distances = np.hypot(*(self.positions[:, None] - self.positions).T)
        least = np.add.outer(self.radii, self.radii)
        for p, q in np.argwhere(np.triu(distances < least * (1 - 1e-9), 1))[:1]:
            actual = f"cores {p + 1} and {q + 1} are {distances[p, q] * 1e6:.4g} um apart"
            allowed = f"{least[p, q] * 1e6:.4g} um or more, so that their profiles do not overlap"
            raise InputError(f"positions: {actual}; allowed: {allowed}")
        solved = {}
        for profile in set(self.profiles):
            outer = modes.outer_of(modes.solve_modes(profile, longest or self.wavelength, modes.STEP, (0,)))
            solved[profile] = modes.solve_mesh(profile, self.wavelength, modes.STEP, outer, orders=(0,))
        self._cores = [solved[profile][0] for profile in self.profiles]
        w = np.array([solved[profile][1][0] for profile in self.profiles])
        self.core_beta = beta = np.array([core.beta[0] for core in self._cores])
        kappa = np.zeros_like(distances)
        for p, q in np.argwhere(distances > 0):
            overlap = self._index_overlap(p, q, w) * scipy.special.k0(w[q] * distances[p, q])
            kappa[p, q] = overlap / (2 * beta[p])
        self.coupling = (kappa + kappa.T) / 2  # of unlike cores the mean, which conserves the power
        values, vectors = np.linalg.eigh(np.diag(beta - beta.mean()) + self.coupling)
        values, self.vectors = values[::-1], vectors[:, ::-1]
        resolution = 1e-6 * np.ptp(values) + 1e-15 * beta.mean()
        self.beta = values + beta.mean()
        self.groups = 1 + np.cumsum(-np.diff(values, prepend=values[0]) > resolution)
        for alike in (self.groups == group for group in np.unique(self.groups)):
            self.vectors[:, alike] = _from_first_core(self.vectors[:, alike])

    def _index_overlap(self, p: int, q: int, w: Array) -> float:
        """Return ∫ k²(n_p² − n_cladding²) F_p F_q dA/K0(w_q d), 1/m²: distance d, decay constants ``w``.

        In core p, F_q ∝ K0(w_q r_q), whose mean over a circle about p is I0(w_q r) K0(w_q d) (Graf's addition
        theorem). Green's theorem then gives the integral from the mode at the edge of the profile, and a rest
        that is 0 for equal w. For step-index cores this is the published closed form.
        """
        special, b, core = scipy.special, self.radii[p], self._cores[p]
        tails = []  # beyond its profile a mode is R(r) = tail K0(w r)
        for k in (p, q):
            ring = int(np.argmax(self._cores[k].r > self.radii[k]))
            tails.append(self._cores[k].radial[0, ring] / special.k0(w[k] * self._cores[k].r[ring]))
        edge = w[p] * special.k1(w[p] * b) * special.i0(w[q] * b)
        edge += w[q] * special.k0(w[p] * b) * special.i1(w[q] * b)
        rest = (core.ring * core.radial[0] * special.i0(w[q] * core.r))[core.r < b].sum()
        return tails[1] * (tails[0] * b * edge + (w[p] ** 2 - w[q] ** 2) * rest)

    def transfer(self, length: float | str) -> np.ndarray:
        """Return the amplitudes in the cores (rows) after ``length`` (m) for unit light in each (columns).

        The phase is relative to the mean β of the cores.
        """
        turn = np.exp(1j * (self.beta - self.core_beta.mean()) * number(length, "m", "length"))
        return (self.vectors * turn) @ self.vectors.T

    def fields(self, vectors: Array | None = None) -> tuple[Array, Array, Array]:
        """Return x and y of a grid (m), and fields there of supermodes, or of ``vectors``, 1/m, (N, Y, X)."""
        margin = self.radii.max() + _MARGIN
        x, y = (np.arange(a.min() - margin, a.max() + margin, _SPACING) for a in self.positions.T)
        r = (np.hypot(x - at[0], y[:, None] - at[1]) for at in self.positions)
        alone = [np.interp(a, c.r, c.radial[0], right=0.0) for a, c in zip(r, self._cores, strict=True)]
        vectors = self.vectors if vectors is None else vectors
        return x, y, np.tensordot(vectors.T, np.stack(alone), 1) / math.sqrt(2 * math.pi)

    def draw(self, path: str | Path) -> Path:
        """Draw the cores and the field of each supermode to a picture file, axes in µm; return its path."""
        from matplotlib.figure import Figure
        from matplotlib.patches import Circle

        x, y, fields = self.fields()
        columns = math.ceil(math.sqrt(len(fields)))
        rows = math.ceil(len(fields) / columns)
        with style(**{"axes.grid": False, "axes.titlepad": 6}):
            figure: Any = Figure(figsize=(3.2 * columns, 3 * rows), layout="constrained")
            for k, field in enumerate(fields):
                axes, top = figure.add_subplot(rows, columns, k + 1), abs(field).max()
                axes.pcolormesh(x * 1e6, y * 1e6, field, cmap="RdBu_r", vmin=-top, vmax=top, rasterized=True)
                for at, radius in zip(self.positions, self.radii, strict=True):
                    axes.add_patch(Circle(at * 1e6, radius * 1e6, fill=False, edgecolor=GREY))
                title = f"SM{k + 1}, {self.beta[k] - self.core_beta.mean():+.3g}/m"
                axes.set(xlabel="x (µm)", ylabel="y (µm)", aspect="equal", title=title)
            return save_figure(figure, path, dpi=160)

    def fibre(
        self,
        coupling: str = "supermodes",
        attenuation: ArrayLike | str = ATTENUATION,
        n2: float | str = N2_SILICA,
        name: str = "multicore",
    ) -> Fibre:
        """Create the `Fibre`; β1 … β4 are derivatives of a polynomial through β over ±8 THz.

        - "supermodes": its modes are the supermodes, weakly coupled, as in a short, straight fibre.
        - "strong": all supermodes are one group; bends and twists mix them, as in a coupled-core fibre.
        - "cores": its modes are the cores, between which bends and twists prevent linear coupling.

        Quantities may be text with a unit. `InputError` if supermodes change within ±8 THz.
        """
        choice("coupling", coupling, ("supermodes", "strong", "cores"))
        count, half = len(self.profiles), modes.HALF_SPANS[0]
        hertz = SPEED_OF_LIGHT / self.wavelength + half / (2 * math.pi) * modes.CHEBYSHEV
        waves = (SPEED_OF_LIGHT / hertz).tolist()
        points = [Multicore(self.positions, self.profiles, wave, max(waves)) for wave in waves]
        apart, single = coupling == "supermodes", coupling == "cores"
        beta = np.stack([self._in_order(each) if apart else each.core_beta for each in points])
        taylor = modes.taylor_and_error(modes.CHEBYSHEV, beta, half)[0]
        alike = [self.profiles.index(profile) for profile in self.profiles] if single else [1] * count
        average_over_groups(taylor, self.groups if apart else np.array(alike))
        square = self.fields(np.eye(count) if single else None)[2].reshape(count, -1) ** 2
        square /= square.sum(axis=1, keepdims=True)
        f = square @ square.T / _SPACING**2  # ∫F_n² F_m² dA with ∫F² dA = 1
        groups = self.groups if apart else np.arange(1, count + 1) if single else np.array(alike)
        area, strong = 1 / float(f[0, 0]), coupling == "strong"
        gamma = gamma_of(area, self.wavelength, number(n2, "m^2/W", "n2"))
        kappa = kappa_strong_groups(f, groups, area) if strong else kappa_weak(f, area)
        about: Any = {"labels": [f"{'core ' if single else 'SM'}{k + 1}" for k in range(count)], "name": name}
        about |= {"groups": groups, "a_eff": 1 / np.diagonal(f), "wavelength": self.wavelength}
        moving = taylor[:, 1:] - taylor[0, 1] * np.array([1, 0, 0, 0])
        return Fibre.from_coefficients(
            moving, kappa, gamma, numbers(attenuation, "1/m", "attenuation"), **about
        )

    def _in_order(self, other: Multicore) -> Array:
        """Return β of the supermodes at another frequency in the order of those of this object."""
        overlap = (self.vectors.T @ other.vectors) ** 2
        rows, order = scipy.optimize.linear_sum_assignment(-overlap)
        actual = "supermodes given, but unlike cores change them within 8 THz"
        ensure(overlap[rows, order].min() > 0.9, "coupling", actual, "strong, cores")
        return other.beta[order]


def multicore(
    positions: ArrayLike,
    core_diameter: Any,
    numerical_aperture: Any,
    wavelength: Any = 1550e-9,
    **options: Any,
) -> Fibre:
    """Create the fibre of alike step-index cores at ``positions`` (N, 2), the centres' x and y in m, or text.

    >>> fibre = multicore([["-10 um", "0 um"], ["10 um", "0 um"]], "8 um", 0.12)

    ``options`` are those of `Multicore.fibre`. For unlike cores, or other profiles, use `Multicore`.
    """
    aperture = within(numerical_aperture, "", "numerical_aperture", 1e-4, 1)
    profile = IndexProfile(core_diameter, aperture, math.inf, design_wavelength=wavelength)
    return Multicore(positions, profile, wavelength).fibre(**options)


def _from_first_core(vectors: Array) -> Array:
    """Return the basis of the span of ``vectors`` (N, k) in which cores, in their order, appear one by one.

    Supermodes of equal β, and signs, then do not depend on round-off.
    """
    basis: list[Array] = []
    for core in vectors:
        rest = core - sum((core @ each) * each for each in basis)
        if (norm := float(np.linalg.norm(rest))) > 1e-3 and len(basis) < vectors.shape[1]:
            basis.append(rest / norm)
    return vectors @ np.array(basis).T
