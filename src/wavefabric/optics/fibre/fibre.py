"""The fibre as the propagation sees it: modes, groups, dispersion, loss and Kerr coupling."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wavefabric.errors import InputError
from wavefabric.optics.fibre import kerr_coupling as kerr
from wavefabric.optics.fibre import profile as profiles
from wavefabric.optics.fibre.dispersion import dispersion
from wavefabric.optics.fibre.modes import STEP, ModeSet, solve_modes
from wavefabric.quantities import BETA_UNITS, dispersion_coefficients, number, numbers

Array = NDArray[np.float64]

#: Nonlinear refractive index of silica in m²/W (Brehler et al., section 6).
N2_SILICA = 2.6e-20
#: 0.23 dB/km as power attenuation in 1/m (Brehler et al., section 6).
ATTENUATION = 0.23e-3 * math.log(10) / 10


@dataclass(frozen=True, eq=False)
class Fibre:
    """A fibre of M spatial modes, 2M field rows (x and y of a mode adjacent). Arrays are read-only.

    Quantities may be text with a unit (``"0.23 dB/km"``), also inside lists. `Fibre.from_coefficients` is
    the short way from β, κ and γ alone.

    Attributes
    ----------
    name : str
        For messages and results.
    labels : tuple of str, length M
        ``"LP01"``, ``"LP11a"``, ``"LP11b"``, …
    groups : ndarray of int, shape (M,)
        Mode-group number of each mode, from 1, non-decreasing; numbers may be missing (a selection).
    alpha : ndarray, shape (M,)
        Power attenuation, 1/m; a single number is spread over the modes.
    beta : ndarray, shape (M, 4)
        β1 … β4 in s/m, s²/m, s³/m, s⁴/m; β1 relative to the fundamental mode (the DMGD).
    gamma : float
        γ = n₂ω₀/(c₀A_eff,LP01), 1/(W m).
    kappa : ndarray, shape (K, K)
        Kerr coupling, dimensionless: the phase of row a turns by γ Σ_b κ_ab P_b per metre.
    kappa_of : {"group", "mode", "row"}
        What κ's rows stand for: K is the number of groups, M or 2M, and P_b the total power (W) of a group,
        of a mode, or of one row.
    a_eff : ndarray, shape (M,)
        Effective areas, m², for the record: γ and κ act. NaN where not known; None for none known.
    wavelength : float
        Vacuum wavelength to which β and γ belong, m.

    Raises
    ------
    InputError
        If a shape does not fit or a value is not finite or out of range.
    """

    name: str
    labels: tuple[str, ...]
    groups: NDArray[np.int64]
    alpha: Array
    beta: Array
    gamma: float
    kappa: Array
    kappa_of: Literal["group", "mode", "row"]
    a_eff: Array
    wavelength: float

    def __post_init__(self):
        m = len(self.labels)
        if m == 0:
            raise InputError("labels: empty; a fibre needs at least one mode")
        object.__setattr__(self, "labels", tuple(self.labels))
        groups = np.array(self.groups)
        if groups.shape != (m,) or not np.issubdtype(groups.dtype, np.integer):
            raise InputError(f"groups: {groups.dtype} of shape {groups.shape}; needs integers, shape ({m},)")
        if groups.min() < 1 or np.any(np.diff(groups) < 0):
            raise InputError("groups: group numbers must start at 1 or above and not decrease")
        _freeze(self, "groups", groups.astype(np.int64))
        alpha = numbers(self.alpha, "1/m", "alpha")
        _freeze(self, "alpha", np.full(m, alpha) if alpha.ndim == 0 else alpha)
        _freeze(self, "beta", dispersion_coefficients(self.beta))
        _freeze(self, "kappa", numbers(self.kappa, "", "kappa"))
        _freeze(
            self, "a_eff", np.full(m, np.nan) if self.a_eff is None else numbers(self.a_eff, "m^2", "a_eff")
        )
        for key, unit in (("gamma", "1/W/m"), ("wavelength", "m")):
            object.__setattr__(self, key, number(getattr(self, key), unit, key))
        sizes = {"group": len(np.unique(groups)), "mode": m, "row": 2 * m}
        if self.kappa_of not in sizes:
            raise InputError(f"kappa_of: {self.kappa_of!r}; allowed: group, mode, row")
        k = sizes[self.kappa_of]
        for key, shape in (("alpha", (m,)), ("beta", (m, 4)), ("kappa", (k, k)), ("a_eff", (m,))):
            value = getattr(self, key)
            if value.shape != shape:
                raise InputError(f"{key}: shape {value.shape}; needs {shape} for {m} modes")
            if not np.all(np.isfinite(value) | (np.isnan(value) & (key == "a_eff"))):
                raise InputError(
                    f"{key}: holds values that are not finite; every entry must be a finite number"
                )
        if self.alpha.min() < 0:
            raise InputError(f"alpha: {self.alpha.min()!r} 1/m; attenuation must be 0 or more")
        if np.any(self.a_eff <= 0):
            raise InputError(f"a_eff: {np.nanmin(self.a_eff)!r} m²; effective areas must be positive")
        if not (math.isfinite(self.gamma) and self.gamma >= 0):
            raise InputError(f"gamma: {self.gamma!r} 1/(W m); must be finite and 0 or more")
        if not (math.isfinite(self.wavelength) and self.wavelength > 0):
            raise InputError(f"wavelength: {self.wavelength!r} m; give a positive length, e.g. 1550e-9")

    @classmethod
    def from_coefficients(
        cls,
        beta: ArrayLike,
        kappa: ArrayLike,
        gamma: float | str,
        alpha: ArrayLike | str = 0.0,
        *,
        groups: ArrayLike | None = None,
        wavelength: float | str = 1550e-9,
        labels: Iterable[str] | None = None,
        a_eff: ArrayLike | None = None,
        name: str = "fibre",
    ) -> Fibre:
        """A fibre from a plain set of coefficients.

        >>> fibre = Fibre.from_coefficients(
        ...     beta=[["0 ps/km", "-21.7 ps^2/km"], ["8 ps/km", "-22.4 ps^2/km"]],
        ...     kappa=[[0.89, 0.62], [0.62, 0.71]],
        ...     gamma="1.3 1/W/km",
        ... )

        Parameters
        ----------
        beta : array_like, shape (M, 1) to (M, 4)
            β1, β2, … of each mode in s/m, s²/m, …, or text; those left out are 0.
        kappa : array_like, shape (K, K)
            As `Fibre.kappa`. K says what its rows are: M modes, 2M field rows, or the groups of `groups`.
            A single number will do for one mode.
        gamma : float or str
            1/(W m).
        alpha : float, str or array_like, shape (M,)
            Power attenuation, 1/m or such as ``"0.2 dB/km"``; default lossless.
        groups : array_like of int, shape (M,), optional
            Mode-group numbers; by default each mode is a group of its own.
        wavelength : float or str
            To which β and γ belong, m.
        labels : iterable of str, optional
            Names of the modes; default ``"M1"``, ``"M2"``, …
        a_eff : array_like, shape (M,), optional
            Effective areas, m², for the record.
        name : str
            Name of the fibre.

        Returns
        -------
        Fibre

        Raises
        ------
        InputError
            If shapes do not fit each other or a value is out of range.
        """
        taylor, coupling = dispersion_coefficients(beta), np.atleast_2d(numbers(kappa, "", "kappa"))
        if taylor.ndim != 2 or not (taylor.shape[0] and 1 <= taylor.shape[1] <= len(BETA_UNITS)):
            raise InputError(f"beta: shape {taylor.shape}; needs (modes, 1 to 4): β1 … β4 of each mode")
        m = len(taylor)
        sizes: dict[int, Any] = {2 * m: "row", m: "mode"}
        if groups is None:
            groups = np.arange(1, m + 1)
        else:
            sizes |= {len(np.unique(np.asarray(groups))): "group"}
        if len(coupling) not in sizes:
            allowed = ", ".join(f"{size} ({kind}s)" for size, kind in sorted(sizes.items()))
            raise InputError(f"kappa: shape {coupling.shape}; needs a square of {allowed}")
        return cls(
            name=name,
            labels=tuple(labels) if labels is not None else tuple(f"M{i + 1}" for i in range(m)),
            groups=np.asarray(groups),
            alpha=alpha,  # type: ignore[arg-type]
            beta=np.pad(taylor, [(0, 0), (0, len(BETA_UNITS) - taylor.shape[1])]),
            gamma=gamma,  # type: ignore[arg-type]
            kappa=coupling,
            kappa_of=sizes[len(coupling)],
            a_eff=a_eff,  # type: ignore[arg-type]
            wavelength=wavelength,  # type: ignore[arg-type]
        )

    @property
    def modes(self) -> int:
        """Number of spatial modes M."""
        return len(self.labels)

    @property
    def rows(self) -> int:
        """Number of field rows, 2M."""
        return 2 * self.modes

    @property
    def group_sizes(self) -> NDArray[np.int64]:
        """Spatial modes in each group present, in order. Shape (G,)."""
        return np.unique(self.groups, return_counts=True)[1]

    def cell_of_row(self) -> NDArray[np.int64]:
        """Row of κ that serves each field row, shape (2M,): kappa_rows()[a, b] == kappa[cell[a], cell[b]]."""
        if self.kappa_of == "row":
            return np.arange(self.rows)
        if self.kappa_of == "mode":
            return np.arange(self.rows) // 2
        return np.repeat(np.unique(self.groups, return_inverse=True)[1].reshape(-1), 2)

    def kappa_rows(self) -> Array:
        """κ between field rows, dense, shape (2M, 2M); it multiplies the power of single rows."""
        cell = self.cell_of_row()
        return self.kappa[np.ix_(cell, cell)]

    def select_groups(self, groups: int | Iterable[int]) -> Fibre:
        """The same fibre with only some groups; β1 stays relative to the fundamental mode.

        Parameters
        ----------
        groups : int or iterable of int
            A number g stands for groups 1 to g; otherwise the group numbers wanted.

        Raises
        ------
        InputError
            If a group is not in the fibre.
        """
        present = np.unique(self.groups)
        wanted = _group_list(groups)
        for g in wanted:
            if g not in present:
                raise InputError(f"groups: {g} is not in {self.name}; allowed: {present[0]} to {present[-1]}")
        keep = np.isin(self.groups, wanted)
        rows_kept = {"group": np.isin(present, wanted), "mode": keep, "row": np.repeat(keep, 2)}[
            self.kappa_of
        ]
        return replace(
            self,
            labels=tuple(label for label, kept in zip(self.labels, keep, strict=True) if kept),
            groups=self.groups[keep],
            alpha=self.alpha[keep],
            beta=self.beta[keep],
            kappa=self.kappa[np.ix_(rows_kept, rows_kept)],
            a_eff=self.a_eff[keep],
        )


def gamma_of(a_eff: float, wavelength: float, n2: float = N2_SILICA) -> float:
    """γ = n₂ω₀/(c₀A_eff) = 2πn₂/(λA_eff) in 1/(W m); a_eff in m², wavelength in m, n2 in m²/W."""
    return 2 * math.pi * n2 / (wavelength * a_eff)


def fibre_from_profile(
    profile: profiles.Profile,
    wavelength: float | str,
    groups: int | Iterable[int] | None = None,
    attenuation: ArrayLike | str = ATTENUATION,
    n2: float | str = N2_SILICA,
    coupling: Literal["groups", "modes"] = "groups",
    *,
    name: str = "fibre",
    step: float | str = STEP,
) -> Fibre:
    """Everything from an index profile: modes, β, A_eff and κ of our own solver.

    Quantities may be text with a unit.

    Parameters
    ----------
    profile : Profile
        Index profile.
    wavelength : float
        Vacuum wavelength, m.
    groups : int or iterable of int, optional
        Groups 1 to g, or the group numbers; by default every group guided in full (from 1 without a gap).
    attenuation : float or array_like, shape (M,)
        Power attenuation, 1/m.
    n2 : float
        Nonlinear refractive index, m²/W.
    coupling : {"groups", "modes"}
        "groups": strong random coupling inside each group; κ per group, and β averaged over the group's
        modes, since light there sees all of them. "modes": weakly coupled modes, κ and β per mode.
    name : str
        Name of the fibre.
    step : float
        Radial step of the solver, m.

    Returns
    -------
    Fibre

    Raises
    ------
    InputError
        If an argument is out of range or a group is not guided.
    """
    check_choice("coupling", coupling, ("groups", "modes"))
    wavelength, step = number(wavelength, "m", "wavelength"), number(step, "m", "step")
    modes, lap = solved_overlaps(profile, wavelength, step)
    wanted = _whole_groups(modes) if groups is None else _group_list(groups)
    modes.select(wanted)  # says which groups there are
    taylor = _taylor(profile, wavelength, tuple(wanted), step)
    keep = np.isin(lap.groups, wanted)
    beta = taylor[np.unique(lap.lp[keep], return_inverse=True)[1]]
    if coupling == "groups":
        for g in wanted:
            inside = lap.groups[keep] == g
            beta[inside] = beta[inside].mean(axis=0)
    a_ref = float(lap.a_eff[0])
    kappa, kappa_of = kappa_from(lap, keep, coupling, a_ref)
    return Fibre(
        name=name,
        labels=tuple(label for label, kept in zip(lap.labels, keep, strict=True) if kept),
        groups=lap.groups[keep],
        alpha=numbers(attenuation, "1/m", "attenuation"),
        beta=beta,
        gamma=gamma_of(a_ref, wavelength, number(n2, "m^2/W", "n2")),
        kappa=kappa,
        kappa_of=kappa_of,
        a_eff=lap.a_eff[keep],
        wavelength=wavelength,
    )


def single_mode(
    beta2: float | str = -21.7e-27,
    gamma: float | str = 1.3e-3,
    alpha: float | str = 0.0,
    beta3: float | str = 0.0,
    *,
    beta1: float | str = 0.0,
    beta4: float | str = 0.0,
    kappa: float = 8 / 9,
    a_eff: float | str = 80e-12,
    wavelength: float | str = 1550e-9,
    name: str = "single-mode",
) -> Fibre:
    """One spatial mode, two polarisations that mix at random (Manakov, κ = 8/9).

    Quantities may be text with a unit: ``single_mode(beta2="-21 ps^2/km", alpha="0.2 dB/km")``.

    Parameters
    ----------
    beta2, beta3, beta1, beta4 : float
        s²/m, s³/m, s/m, s⁴/m.
    gamma : float
        1/(W m).
    alpha : float
        Power attenuation, 1/m.
    kappa : float
        Kerr coefficient on the mode's total power; 1 gives the plain Manakov or, in one polarisation, the
        scalar nonlinear Schrödinger equation with γ.
    a_eff : float
        Effective area in m², for the record only: γ is given.
    wavelength : float
        m.
    name : str
        Name of the fibre.

    Returns
    -------
    Fibre
        M = 1, κ per mode.

    Raises
    ------
    InputError
        If a value is out of range.
    """
    taylor = _named_coefficients(beta1=beta1, beta2=beta2, beta3=beta3, beta4=beta4)
    return Fibre.from_coefficients(
        beta=taylor,
        kappa=[[kappa]],
        gamma=gamma,
        alpha=alpha,
        wavelength=wavelength,
        labels=("LP01",),
        a_eff=[number(a_eff, "m^2", "a_eff")],
        name=name,
    )


def coupled_group(
    modes: int,
    beta2: float | str = -21.7e-27,
    gamma: float | str = 1.3e-3,
    alpha: float | str = 0.0,
    beta3: float | str = 0.0,
    *,
    kappa: float | None = None,
    a_eff: float | str = 80e-12,
    wavelength: float | str = 1550e-9,
    name: str = "coupled-group",
) -> Fibre:
    """One group of N strongly coupled modes with equal overlaps f = 1/a_eff, e.g. of a coupled-core fibre.

    Parameters
    ----------
    modes : int
        N, at least 1.
    beta2, gamma, alpha, beta3
        As in `single_mode`, the same for all modes.
    kappa : float, optional
        Kerr coefficient on the group's total power; default 4/3 · 2N/(2N+1), which is 8/9 for N = 1.
    a_eff, wavelength, name
        As in `single_mode`.

    Returns
    -------
    Fibre
        M = N modes ``"M1"``, ``"M2"``, … of group 1, κ per group.

    Raises
    ------
    InputError
        If a value is out of range.
    """
    if isinstance(modes, bool) or not isinstance(modes, (int, np.integer)) or modes < 1:
        raise InputError(f"modes: {modes!r}; give a whole number of at least 1")
    if kappa is None:
        kappa = 4 / 3 * 2 * modes / (2 * modes + 1)
    taylor = _named_coefficients(beta1=0.0, beta2=beta2, beta3=beta3)
    return Fibre.from_coefficients(
        beta=np.tile(taylor, (modes, 1)),
        kappa=[[kappa]],
        gamma=gamma,
        alpha=alpha,
        groups=np.ones(modes, dtype=np.int64),
        wavelength=wavelength,
        a_eff=np.full(modes, number(a_eff, "m^2", "a_eff")),
        name=name,
    )


def _named_coefficients(**beta: float | str) -> Array:
    """A row of β1, β2, … from arguments of these names, which an error shows. Shape (1, count)."""
    return np.array([[number(value, BETA_UNITS[int(key[-1]) - 1], key) for key, value in beta.items()]])


@lru_cache(maxsize=4)
def solved_overlaps(
    profile: profiles.Profile, wavelength: float, step: float
) -> tuple[ModeSet, kerr.Overlaps]:
    """Modes of a profile at a wavelength (m), solved with a radial step (m), and their overlaps; cached."""
    modes = solve_modes(profile, wavelength, step)
    return modes, kerr.overlaps(modes)


@lru_cache(maxsize=4)
def _taylor(profile: profiles.Profile, wavelength: float, groups: tuple[int, ...], step: float) -> Array:
    """β1 (relative to LP01) … β4 of the LP modes of some groups, shape (P, 4)."""
    result = dispersion(profile, wavelength, groups={1, *groups}, step=step)
    beta = result.beta[:, 1:] - np.array([result.beta[0, 1], 0, 0, 0])
    return beta[np.isin(result.modes.group, groups)]


def kappa_from(lap: kerr.Overlaps, keep: NDArray[np.bool_], coupling: str, a_ref: float) -> tuple[Array, Any]:
    """κ of the kept spatial modes, per "groups" or "modes", and its `Fibre.kappa_of`; a_ref in m²."""
    f = lap.f[np.ix_(keep, keep)]
    if coupling == "modes":
        return kerr.kappa_weak(f, a_ref), "mode"
    return kerr.kappa_strong_groups(f, lap.groups[keep], a_ref), "group"


def _whole_groups(modes: ModeSet) -> list[int]:
    """Groups 1, 2, … up to the first that is not guided in full."""
    g = 1
    while int(modes.degeneracy[modes.group == g].sum()) == g:
        g += 1
    return list(range(1, g))


def _group_list(groups: int | Iterable[int]) -> list[int]:
    try:
        numbers = [groups] if isinstance(groups, (int, np.integer)) else list(groups)
        whole = bool(numbers) and all(isinstance(g, (int, np.integer)) and g >= 1 for g in numbers)
    except TypeError:
        numbers, whole = [], False
    if not whole or isinstance(groups, (bool, str)):
        raise InputError(f"groups: {groups!r}; give a whole number of at least 1, or a list of them")
    if isinstance(groups, (int, np.integer)):
        return list(range(1, int(groups) + 1))
    return sorted({int(g) for g in numbers})


def check_choice(key: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raise InputError unless the value is one of those allowed."""
    if value not in allowed:
        raise InputError(f"{key}: {value!r}; allowed: {', '.join(allowed)}")


def _freeze(fibre: Fibre, key: str, value: np.ndarray) -> None:
    value.setflags(write=False)
    object.__setattr__(fibre, key, value)
