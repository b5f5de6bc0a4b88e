"""The fibre as the propagation sees it: modes, groups, dispersion, loss and Kerr coupling."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wavefabric.errors import InputError
from wavefabric.optics import coupling as kerr
from wavefabric.optics import profile as profiles
from wavefabric.optics.modes import STEP, ModeSet, dispersion, lp_label, solve_modes

Array = NDArray[np.float64]

#: Nonlinear refractive index of silica in m²/W (Brehler et al., section 6).
N2_SILICA = 2.6e-20
#: 0.23 dB/km as power attenuation in 1/m (Brehler et al., section 6).
ATTENUATION = 0.23e-3 * math.log(10) / 10


@dataclass(frozen=True, eq=False)
class Fibre:
    """A fibre of M spatial modes, 2M field rows (x and y of a mode adjacent). Arrays are read-only.

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
        Effective areas, m².
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
        alpha = np.array(self.alpha, dtype=float)
        _freeze(self, "alpha", np.full(m, alpha) if alpha.ndim == 0 else alpha)
        for key in ("beta", "kappa", "a_eff"):
            _freeze(self, key, np.array(getattr(self, key), dtype=float))
        sizes = {"group": len(np.unique(groups)), "mode": m, "row": 2 * m}
        if self.kappa_of not in sizes:
            raise InputError(f"kappa_of: {self.kappa_of!r}; allowed: group, mode, row")
        k = sizes[self.kappa_of]
        for key, shape in (("alpha", (m,)), ("beta", (m, 4)), ("kappa", (k, k)), ("a_eff", (m,))):
            value = getattr(self, key)
            if value.shape != shape:
                raise InputError(f"{key}: shape {value.shape}; needs {shape} for {m} modes")
            if not np.all(np.isfinite(value)):
                raise InputError(
                    f"{key}: holds values that are not finite; every entry must be a finite number"
                )
        if self.alpha.min() < 0:
            raise InputError(f"alpha: {self.alpha.min()!r} 1/m; attenuation must be 0 or more")
        if self.a_eff.min() <= 0:
            raise InputError(f"a_eff: {self.a_eff.min()!r} m²; effective areas must be positive")
        if not (math.isfinite(self.gamma) and self.gamma >= 0):
            raise InputError(f"gamma: {self.gamma!r} 1/(W m); must be finite and 0 or more")
        if not (math.isfinite(self.wavelength) and self.wavelength > 0):
            raise InputError(f"wavelength: {self.wavelength!r} m; give a positive length, e.g. 1550e-9")

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
    wavelength: float,
    groups: int | Iterable[int] | None = None,
    attenuation: ArrayLike = ATTENUATION,
    n2: float = N2_SILICA,
    coupling: Literal["groups", "modes"] = "groups",
    *,
    name: str = "fibre",
    step: float = STEP,
) -> Fibre:
    """Everything from an index profile: modes, β, A_eff and κ of our own solver.

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
    _check_choice("coupling", coupling, ("groups", "modes"))
    modes, lap = _overlaps(profile, float(wavelength), float(step))
    wanted = _whole_groups(modes) if groups is None else _group_list(groups)
    modes.select(wanted)  # says which groups there are
    taylor = _taylor(profile, float(wavelength), tuple(wanted), float(step))
    keep = np.isin(lap.groups, wanted)
    beta = taylor[np.unique(lap.lp[keep], return_inverse=True)[1]]
    if coupling == "groups":
        for g in wanted:
            inside = lap.groups[keep] == g
            beta[inside] = beta[inside].mean(axis=0)
    a_ref = float(lap.a_eff[0])
    kappa, kappa_of = _kappa(lap, keep, coupling, a_ref)
    return Fibre(
        name=name,
        labels=tuple(label for label, kept in zip(lap.labels, keep, strict=True) if kept),
        groups=lap.groups[keep],
        alpha=np.asarray(attenuation, dtype=float),
        beta=beta,
        gamma=gamma_of(a_ref, wavelength, n2),
        kappa=kappa,
        kappa_of=kappa_of,
        a_eff=lap.a_eff[keep],
        wavelength=float(wavelength),
    )


def graded_index_62_5(
    groups: int | Iterable[int] = 15,
    coupling: Literal["groups", "modes"] = "groups",
    dispersion: Literal["paper", "solver"] = "paper",
    attenuation: ArrayLike = ATTENUATION,
    *,
    n2: float = N2_SILICA,
    wavelength: float = 1550e-9,
    step: float = STEP,
) -> Fibre:
    """The preset ``graded-index-62.5``: the 62.5 µm fibre of Brehler et al., section 6.

    Parameters
    ----------
    groups : int or iterable of int
        Groups 1 to g, or the group numbers; up to 15 (120 spatial modes), with "solver" up to 17 (153).
    coupling : {"groups", "modes"}
        κ per strongly coupled group (the paper's case) or per weakly coupled mode.
    dispersion : {"paper", "solver"}
        "paper": β2 and DMGD of table 3, A_eff (and with it γ) of table 2, β3 = β4 = 0. "solver": all from the
        index profile, as `fibre_from_profile`. κ comes from the solver's overlaps either way.
    attenuation : float or array_like, shape (M,)
        Power attenuation, 1/m; default 0.23 dB/km.
    n2 : float
        Nonlinear refractive index, m²/W.
    wavelength : float
        Vacuum wavelength, m. The tables hold for 1550 nm; ω₀ of γ, and κ, follow it.
    step : float
        Radial step of the solver, m.

    Returns
    -------
    Fibre

    Raises
    ------
    InputError
        If a group is not in the tables or not guided, or a choice is unknown.
    """
    _check_choice("dispersion", dispersion, ("paper", "solver"))
    name = "graded-index-62.5"
    profile = profiles.graded_index_62_5()
    if dispersion == "solver":
        return fibre_from_profile(
            profile, wavelength, groups, attenuation, n2, coupling, name=name, step=step
        )
    data = files("wavefabric.optics") / "data"
    with as_file(data / "fibre62_modes.csv") as modes_csv, as_file(data / "fibre62_groups.csv") as groups_csv:
        fibre = fibre_from_csv(
            modes_csv,
            groups_csv,
            profile=profile,
            coupling=coupling,
            attenuation=0.0,
            n2=n2,
            wavelength=wavelength,
            name=name,
            step=step,
        ).select_groups(groups)
    return replace(fibre, alpha=np.asarray(attenuation, dtype=float))


def fibre_from_csv(
    modes_csv: str | Path,
    groups_csv: str | Path,
    kappa_csv: str | Path | None = None,
    *,
    profile: profiles.Profile | None = None,
    coupling: Literal["groups", "modes"] = "groups",
    attenuation: ArrayLike | None = None,
    n2: float = N2_SILICA,
    gamma: float | None = None,
    wavelength: float = 1550e-9,
    name: str = "fibre",
    step: float = STEP,
) -> Fibre:
    """A fibre from tables.

    Parameters
    ----------
    modes_csv : path
        Columns ``mode_group,l,m,a_eff_um2`` (µm²) and optionally ``spatial_modes``; one line per LP mode,
        which stands for its cos and sin mode if l > 0.
    groups_csv : path
        Columns ``mode_group,dmgd_ps_per_km,beta2_ps2_per_km`` and optionally ``beta3_ps3_per_km``,
        ``beta4_ps4_per_km``, ``attenuation_db_per_km``.
    kappa_csv : path, optional
        κ as a square matrix of numbers without a header: one row per group, spatial mode, or field row,
        in the order of `Fibre`. If groups and modes are equally many, per mode.
    profile : Profile, optional
        Without `kappa_csv`: the profile whose modes give the overlaps for κ.
    coupling : {"groups", "modes"}
        With `profile`: κ per strongly coupled group or per weakly coupled mode.
    attenuation : float or array_like, shape (M,), optional
        Power attenuation, 1/m; default the table's column, or 0.23 dB/km without one.
    n2 : float
        Nonlinear refractive index, m²/W.
    gamma : float, optional
        1/(W m); default n₂ω₀/(c₀A_eff) with the table's A_eff of LP01.
    wavelength : float
        Vacuum wavelength of the tables, m.
    name : str
        Name of the fibre.
    step : float
        With `profile`: radial step of the solver, m.

    Returns
    -------
    Fibre

    Raises
    ------
    InputError
        If a file cannot be read or a column, cell, group or mode does not fit; if κ has no source.
    """
    _check_choice("coupling", coupling, ("groups", "modes"))
    table = _mode_table(modes_csv)
    lines = _group_table(groups_csv)
    for group, *_ in table:
        if group not in lines:
            raise InputError(f"{groups_csv}: mode_group {group} of {modes_csv} is missing")
    spatial = [(*line, mark) for line in table for mark in (("",) if line[1] == 0 else ("a", "b"))]
    labels = tuple(lp_label(l, m) + mark for _, l, m, _, mark in spatial)  # noqa: E741
    groups = np.array([line[0] for line in spatial])
    beta = np.array([[lines[g][key] for key in _BETA_COLUMNS] for g in groups.tolist()]) * _BETA_UNITS
    if attenuation is None:
        per_km = [lines[g].get("attenuation_db_per_km") for g in groups.tolist()]
        attenuation = ATTENUATION if per_km[0] is None else np.array(per_km) * (math.log(10) / 1e4)
    if gamma is None:
        fundamental = [area for _, l, m, area in table if (l, m) == (0, 1)]  # noqa: E741
        if not fundamental:
            raise InputError(
                f"{modes_csv}: no LP01 (l = 0, m = 1), from which γ follows; add it or give gamma"
            )
        gamma = gamma_of(fundamental[0], wavelength, n2)

    if (kappa_csv is None) == (profile is None):
        given = "neither" if profile is None else "both"
        raise InputError(
            f"kappa_csv: {given} it and a profile given; effective areas alone do not give κ, give one"
        )
    if kappa_csv is not None:
        kappa = _matrix(kappa_csv)
        sizes = {len(labels): "mode", 2 * len(labels): "row", len(np.unique(groups)): "group"} | {
            len(labels): "mode"
        }
        if len(kappa) not in sizes:
            raise InputError(
                f"{kappa_csv}: {len(kappa)} rows; needs {len(np.unique(groups))} (groups), "
                f"{len(labels)} (modes) or {2 * len(labels)} (field rows)"
            )
        kappa_of = sizes[len(kappa)]
    else:
        assert profile is not None
        _, lap = _overlaps(profile, float(wavelength), float(step))
        place = {label: i for i, label in enumerate(lap.labels)}
        for label in labels:
            if label not in place:
                raise InputError(f"{modes_csv}: {label} is not guided by the profile at {wavelength!r} m")
        rows = np.array([place[label] for label in labels])
        picked = replace(lap, f=lap.f[np.ix_(rows, rows)], labels=labels, groups=groups, lp=lap.lp[rows])
        kappa, kappa_of = _kappa(picked, np.ones(len(labels), bool), coupling, float(lap.a_eff[0]))
    return Fibre(
        name=name,
        labels=labels,
        groups=groups,
        alpha=np.asarray(attenuation, dtype=float),
        beta=beta,
        gamma=gamma,
        kappa=kappa,
        kappa_of=kappa_of,  # type: ignore[arg-type]
        a_eff=np.array([line[3] for line in spatial]),
        wavelength=float(wavelength),
    )


def single_mode(
    beta2: float = -21.7e-27,
    gamma: float = 1.3e-3,
    alpha: float = 0.0,
    beta3: float = 0.0,
    *,
    beta1: float = 0.0,
    beta4: float = 0.0,
    kappa: float = 8 / 9,
    a_eff: float = 80e-12,
    wavelength: float = 1550e-9,
    name: str = "single-mode",
) -> Fibre:
    """One spatial mode, two polarisations that mix at random (Manakov, κ = 8/9).

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
    return Fibre(
        name=name,
        labels=("LP01",),
        groups=np.array([1]),
        alpha=np.asarray(alpha, dtype=float),
        beta=np.array([[beta1, beta2, beta3, beta4]]),
        gamma=gamma,
        kappa=np.array([[kappa]]),
        kappa_of="mode",
        a_eff=np.array([a_eff]),
        wavelength=wavelength,
    )


def coupled_group(
    modes: int,
    beta2: float = -21.7e-27,
    gamma: float = 1.3e-3,
    alpha: float = 0.0,
    beta3: float = 0.0,
    *,
    kappa: float | None = None,
    a_eff: float = 80e-12,
    wavelength: float = 1550e-9,
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
    return Fibre(
        name=name,
        labels=tuple(f"M{i + 1}" for i in range(modes)),
        groups=np.ones(modes, dtype=np.int64),
        alpha=np.asarray(alpha, dtype=float),
        beta=np.tile([0.0, beta2, beta3, 0.0], (modes, 1)),
        gamma=gamma,
        kappa=np.array([[kappa]]),
        kappa_of="group",
        a_eff=np.full(modes, a_eff),
        wavelength=wavelength,
    )


def presets() -> dict[str, Callable[..., Fibre]]:
    """Constructors by the name used in run files; each works without arguments except ``coupled-group``."""
    return {
        "graded-index-62.5": graded_index_62_5,
        "single-mode": single_mode,
        "coupled-group": coupled_group,
    }


_BETA_COLUMNS = ("dmgd_ps_per_km", "beta2_ps2_per_km", "beta3_ps3_per_km", "beta4_ps4_per_km")
_BETA_UNITS = np.array([1e-15, 1e-27, 1e-39, 1e-51])


def _mode_table(path: str | Path) -> list[tuple[int, int, int, float]]:
    """(group, l, m, A_eff in m²) of each LP mode, in the order of fields."""
    columns = profiles.read_columns(path, ("mode_group", "l", "m", "a_eff_um2"), ("spatial_modes",))
    for key, least in (("mode_group", 1), ("l", 0), ("m", 1), ("spatial_modes", 1)):
        for value in columns.get(key, ()):
            if value != int(value) or value < least:
                raise InputError(f"{path}: {key} {value:g}; needs whole numbers of at least {least}")
    for order, count in zip(columns["l"], columns.get("spatial_modes", ()), strict=False):
        if count != (1 if order == 0 else 2):
            raise InputError(
                f"{path}: spatial_modes {count:g} for l = {order:g}; an LP mode has 1 if l is 0, else 2"
            )
    lines = sorted(
        (int(g), int(l), int(m), area * 1e-12)
        for g, l, m, area in zip(*(columns[k] for k in ("mode_group", "l", "m", "a_eff_um2")), strict=True)  # noqa: E741
    )
    if len({line[1:3] for line in lines}) != len(lines):
        raise InputError(f"{path}: a mode (l, m) stands in more than one line; each may stand once")
    return lines


def _group_table(path: str | Path) -> dict[int, dict[str, float]]:
    """The columns of each group, by its number; β3 and β4 are 0 unless given."""
    columns = profiles.read_columns(
        path, ("mode_group", *_BETA_COLUMNS[:2]), (*_BETA_COLUMNS[2:], "attenuation_db_per_km")
    )
    numbers = columns.pop("mode_group")
    if any(n != int(n) or n < 1 for n in numbers) or len(set(numbers)) != len(numbers):
        raise InputError(f"{path}: mode_group must be whole numbers from 1, each once")
    zero = dict.fromkeys(_BETA_COLUMNS, 0.0)
    return {int(n): zero | {k: v[i] for k, v in columns.items()} for i, n in enumerate(numbers)}


def _matrix(path: str | Path) -> Array:
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
        rows = [[float(cell) for cell in line.split(",")] for line in lines if line.strip()]
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as a matrix of numbers ({error})") from None
    if not rows or any(len(row) != len(rows) for row in rows):
        raise InputError(
            f"{path}: {len(rows)} rows of {len(rows[0]) if rows else 0} numbers; needs a square matrix"
        )
    return np.array(rows)


@lru_cache(maxsize=4)
def _overlaps(profile: profiles.Profile, wavelength: float, step: float) -> tuple[ModeSet, kerr.Overlaps]:
    modes = solve_modes(profile, wavelength, step)
    return modes, kerr.overlaps(modes)


@lru_cache(maxsize=4)
def _taylor(profile: profiles.Profile, wavelength: float, groups: tuple[int, ...], step: float) -> Array:
    """β1 (relative to LP01) … β4 of the LP modes of some groups, shape (P, 4)."""
    result = dispersion(profile, wavelength, groups={1, *groups}, step=step)
    beta = result.beta[:, 1:] - np.array([result.beta[0, 1], 0, 0, 0])
    return beta[np.isin(result.modes.group, groups)]


def _kappa(lap: kerr.Overlaps, keep: NDArray[np.bool_], coupling: str, a_ref: float) -> tuple[Array, Any]:
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


def _check_choice(key: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InputError(f"{key}: {value!r}; allowed: {', '.join(allowed)}")


def _freeze(fibre: Fibre, key: str, value: np.ndarray) -> None:
    value.setflags(write=False)
    object.__setattr__(fibre, key, value)
