"""Fibres from tables: CSV files of modes, of mode groups and of the Kerr coupling."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wavefabric.errors import InputError
from wavefabric.optics.arguments import choice
from wavefabric.optics.fibre.csv_files import read_columns, read_square_matrix
from wavefabric.optics.fibre.fibre import ATTENUATION, N2_SILICA, Fibre, gamma_of
from wavefabric.optics.fibre.from_profile import average_over_groups, kappa_from, solved_overlaps
from wavefabric.optics.fibre.modes import STEP, lp_label
from wavefabric.optics.fibre.profile import Profile
from wavefabric.quantities import number, numbers

Array = NDArray[np.float64]

_BETA_COLUMNS = ("dmgd_ps_per_km", "beta2_ps2_per_km", "beta3_ps3_per_km", "beta4_ps4_per_km")
_BETA_UNITS = np.array([1e-15, 1e-27, 1e-39, 1e-51])
_LOSS_COLUMN = "attenuation_db_per_km"
_LINEAR = (*_BETA_COLUMNS, _LOSS_COLUMN)
#: Effective areas of a table and of a profile's modes may be so far apart, as a part, before it is said.
_AREA_TOLERANCE = 0.03


def fibre_from_csv(
    modes_csv: str | Path,
    groups_csv: str | Path | None = None,
    kappa_csv: str | Path | None = None,
    *,
    profile: Profile | None = None,
    coupling: Literal["groups", "modes"] = "groups",
    attenuation: ArrayLike | str | None = None,
    n2: float | str = N2_SILICA,
    gamma: float | str | None = None,
    wavelength: float | str = 1550e-9,
    name: str = "fibre",
    step: float | str = STEP,
    warn: Callable[[str], None] | None = None,
) -> Fibre:
    """A fibre from tables. Quantities may be text with a unit.

    Parameters
    ----------
    modes_csv : path
        Columns ``mode_group,l,m,a_eff_um2`` (µm²) and optionally ``spatial_modes``; one line per LP mode,
        which stands for its cos and sin mode if l > 0. Instead of `groups_csv`, its columns but the first may
        stand here: dispersion and loss by LP mode. Where κ is per strongly coupled group, they are averaged
        over the group's spatial modes, since light there sees all of them.
    groups_csv : path, optional
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
        Vacuum wavelength at which the tables hold, m; see `wavefabric.optics.fibre.fibre.at_frequency`.
    name : str
        Name of the fibre.
    step : float
        With `profile`: radial step of the solver, m.
    warn : callable, optional
        Called with a line if effective areas of the table and of the profile's modes are more than 3 % apart:
        γ comes from the one, κ from the other. By default a `UserWarning`.

    Returns
    -------
    Fibre

    Raises
    ------
    InputError
        If a file cannot be read or a column, cell, group or mode does not fit; if κ has no source.
    """
    choice("coupling", coupling, ("groups", "modes"))
    wavelength, step = number(wavelength, "m", "wavelength"), number(step, "m", "step")
    if (kappa_csv is None) == (profile is None):
        sources = "neither" if profile is None else "both"
        raise InputError(
            f"kappa_csv: {sources} it and a profile given; effective areas alone do not give κ, give one"
        )
    table = _mode_table(modes_csv)
    linear = _linear_columns(table, modes_csv, groups_csv)
    labels, lp = _spatial_modes(table)
    groups, a_eff = np.array([mode.group for mode in table])[lp], np.array([mode.area for mode in table])[lp]
    beta = np.array([[columns[key] for key in _BETA_COLUMNS] for columns in linear])[lp] * _BETA_UNITS
    if attenuation is None:
        per_km = np.array([columns.get(_LOSS_COLUMN, math.nan) for columns in linear])[lp]
        attenuation = ATTENUATION if np.isnan(per_km[0]) else per_km * (math.log(10) / 1e4)
    alpha = np.array(numbers(attenuation, "1/m", "attenuation"), dtype=float)
    lp01 = next((mode.area for mode in table if (mode.l, mode.m) == (0, 1)), None)
    if gamma is None:
        if lp01 is None:
            raise InputError(
                f"{modes_csv}: no LP01 (l = 0, m = 1), from which γ follows; add it or give gamma"
            )
        gamma_value = gamma_of(lp01, wavelength, number(n2, "m^2/W", "n2"))
    else:
        gamma_value, lp01 = number(gamma, "1/W/m", "gamma"), None
    if profile is None:
        kappa, kappa_of = _kappa_from_file(kappa_csv, len(labels), len(np.unique(groups)))
    else:
        _, overlap = solved_overlaps(profile, wavelength, step)
        index = {label: i for i, label in enumerate(overlap.labels)}
        if missing := [label for label in labels if label not in index]:
            raise InputError(f"{modes_csv}: {missing[0]} is not guided by the profile at {wavelength!r} m")
        taken, solved_lp01 = overlap.take([index[label] for label in labels]), float(overlap.a_eff[0])
        kappa, kappa_of = kappa_from(taken, coupling, solved_lp01)
        _compare_areas(modes_csv, labels, (a_eff, taken.a_eff), (lp01, solved_lp01), warn)
    if kappa_of == "group" and groups_csv is None:
        average_over_groups(beta, groups)
        if alpha.shape == groups.shape:
            average_over_groups(alpha, groups)
    return Fibre(
        name=name,
        labels=labels,
        groups=groups,
        alpha=alpha,
        beta=beta,
        gamma=gamma_value,
        kappa=kappa,
        kappa_of=kappa_of,
        a_eff=a_eff,
        wavelength=wavelength,
    )


class _ModeLine(NamedTuple):
    """An LP mode of the table: its A_eff in m², and its dispersion and loss by column name if given."""

    group: int
    l: int  # noqa: E741
    m: int
    area: float
    linear: dict[str, float]


def _spatial_modes(table: list[_ModeLine]) -> tuple[tuple[str, ...], list[int]]:
    """Labels of the spatial modes, cos before sin, and the line of the LP mode of each."""
    marks = [("",) if mode.l == 0 else ("a", "b") for mode in table]
    labels = [lp_label(mode.l, mode.m) + mark for mode, own in zip(table, marks, strict=True) for mark in own]
    return tuple(labels), [line for line, own in enumerate(marks) for _ in own]


def _kappa_from_file(path, modes: int, groups: int) -> tuple[Array, Any]:
    """κ of a CSV file and its `Fibre.kappa_of`."""
    kappa = read_square_matrix(path)
    kinds = {groups: "group", 2 * modes: "row", modes: "mode"}  # the last wins where sizes are equal
    if len(kappa) not in kinds:
        raise InputError(
            f"{path}: {len(kappa)} rows; needs {groups} (groups), {modes} (modes) or {2 * modes} (field rows)"
        )
    return kappa, kinds[len(kappa)]


def _compare_areas(path, labels, areas: tuple[Array, Array], lp01: tuple[float | None, float], warn) -> None:
    """Say so if effective areas (m²) of the table are not those of the modes that κ comes from.

    Both pairs are (table, solved); the table's LP01 is the area from which γ was made, None if γ was given.
    """
    table, solved = areas
    apart = table / solved - 1
    worst = int(np.argmax(np.abs(apart)))
    if abs(apart[worst]) <= _AREA_TOLERANCE:
        return
    text = (
        f"{path}: A_eff of {labels[worst]} is {table[worst] * 1e12:.4g} um^2, that of the profile's mode "
        f"{solved[worst] * 1e12:.4g} um^2 ({apart[worst]:+.1%})"
    )
    if lp01[0] is None:
        text += "; kappa comes from the profile"
    else:
        text += (
            f"; kappa (with {lp01[1] * 1e12:.4g} um^2 for LP01) comes from the profile, gamma from the "
            f"table's {lp01[0] * 1e12:.4g} um^2, {lp01[1] / lp01[0] - 1:+.1%} off for kappa"
        )
    if warn is None:
        warnings.warn(text, stacklevel=3)
    else:
        warn(text)


def _linear_columns(table: list[_ModeLine], modes_csv, groups_csv) -> list[dict[str, float]]:
    """Dispersion and loss of each LP mode, from its own columns or from those of its group."""
    own = set(table[0].linear)
    zero = dict.fromkeys(_BETA_COLUMNS, 0.0)
    if groups_csv is not None:
        if own:
            raise InputError(
                f"{modes_csv}: column {min(own)} by mode, and groups_csv given too; allowed: one of the two"
            )
        lines = _group_table(groups_csv)
        for mode in table:
            if mode.group not in lines:
                raise InputError(f"{groups_csv}: mode_group {mode.group} of {modes_csv} is missing")
        return [zero | lines[mode.group] for mode in table]
    if missing := [name for name in _BETA_COLUMNS[:2] if name not in own]:
        raise InputError(
            f"groups_csv: missing, and {modes_csv} has no column {missing[0]}; allowed: groups_csv, or "
            f"{' and '.join(_BETA_COLUMNS[:2])} by mode"
        )
    return [zero | mode.linear for mode in table]


def _mode_table(path: str | Path) -> list[_ModeLine]:
    """The LP modes of the table in the order of fields."""
    needed = ("mode_group", "l", "m", "a_eff_um2")
    columns = read_columns(path, needed, ("spatial_modes", *_LINEAR))
    for key, least in (("mode_group", 1), ("l", 0), ("m", 1), ("spatial_modes", 1)):
        for value in columns.get(key, ()):
            if value != int(value) or value < least:
                raise InputError(f"{path}: {key} {value:g}; needs whole numbers of at least {least}")
    for order, count in zip(columns["l"], columns.get("spatial_modes", ()), strict=False):
        if count != (1 if order == 0 else 2):
            raise InputError(
                f"{path}: spatial_modes {count:g} for l = {order:g}; an LP mode has 1 if l is 0, else 2"
            )
    modes = [
        _ModeLine(int(g), int(l), int(m), area * 1e-12, {k: columns[k][i] for k in _LINEAR if k in columns})
        for i, (g, l, m, area) in enumerate(zip(*(columns[k] for k in needed), strict=True))  # noqa: E741
    ]
    if len({(mode.l, mode.m) for mode in modes}) != len(modes):
        raise InputError(f"{path}: a mode (l, m) stands in more than one line; each may stand once")
    return sorted(modes, key=lambda mode: mode[:3])


def _group_table(path: str | Path) -> dict[int, dict[str, float]]:
    """The columns of each group, by its number."""
    columns = read_columns(path, ("mode_group", *_BETA_COLUMNS[:2]), _LINEAR[2:])
    groups = columns.pop("mode_group")
    if any(n != int(n) or n < 1 for n in groups) or len(set(groups)) != len(groups):
        raise InputError(f"{path}: mode_group must be whole numbers from 1, each once")
    return {int(n): {k: v[i] for k, v in columns.items()} for i, n in enumerate(groups)}
