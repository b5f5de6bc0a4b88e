"""Fibres from tables: CSV files of modes, of mode groups and of the Kerr coupling."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wavefabric.errors import InputError
from wavefabric.files.input import read_bytes
from wavefabric.optics.fibre import profile as profiles
from wavefabric.optics.fibre.fibre import (
    ATTENUATION,
    N2_SILICA,
    Fibre,
    check_choice,
    gamma_of,
    kappa_from,
    solved_overlaps,
)
from wavefabric.optics.fibre.modes import STEP, lp_label
from wavefabric.quantities import number, numbers

Array = NDArray[np.float64]

_BETA_COLUMNS = ("dmgd_ps_per_km", "beta2_ps2_per_km", "beta3_ps3_per_km", "beta4_ps4_per_km")
_BETA_UNITS = np.array([1e-15, 1e-27, 1e-39, 1e-51])
_LOSS_COLUMN = "attenuation_db_per_km"
#: Effective areas of a table and of a profile's modes may be so far apart, as a part, before it is said.
_AREA_TOLERANCE = 0.03


def fibre_from_csv(
    modes_csv: str | Path,
    groups_csv: str | Path | None = None,
    kappa_csv: str | Path | None = None,
    *,
    profile: profiles.Profile | None = None,
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
        Vacuum wavelength at which the tables hold, m; see `wavefabric.optics.fibre.expansion.at_frequency`.
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
    check_choice("coupling", coupling, ("groups", "modes"))
    wavelength, step = number(wavelength, "m", "wavelength"), number(step, "m", "step")
    table = _mode_table(modes_csv)
    linear = _linear_columns(table, modes_csv, groups_csv)
    spatial = [
        (mode, mark) for mode in range(len(table)) for mark in (("",) if table[mode][1] == 0 else ("a", "b"))
    ]
    labels = tuple(lp_label(*table[mode][1:3]) + mark for mode, mark in spatial)
    groups = np.array([table[mode][0] for mode, _ in spatial])
    a_eff = np.array([table[mode][3] for mode, _ in spatial])
    beta = np.array([[linear[mode][key] for key in _BETA_COLUMNS] for mode, _ in spatial]) * _BETA_UNITS
    if attenuation is None:
        per_km = [linear[mode].get(_LOSS_COLUMN) for mode, _ in spatial]
        attenuation = ATTENUATION if per_km[0] is None else np.array(per_km) * (math.log(10) / 1e4)
    fundamental = None
    if gamma is None:
        fundamental = next((line[3] for line in table if line[1:3] == (0, 1)), None)
        if fundamental is None:
            raise InputError(
                f"{modes_csv}: no LP01 (l = 0, m = 1), from which γ follows; add it or give gamma"
            )
        gamma = gamma_of(fundamental, wavelength, number(n2, "m^2/W", "n2"))

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
        _, lap = solved_overlaps(profile, wavelength, step)
        place = {label: i for i, label in enumerate(lap.labels)}
        for label in labels:
            if label not in place:
                raise InputError(f"{modes_csv}: {label} is not guided by the profile at {wavelength!r} m")
        rows = np.array([place[label] for label in labels])
        picked = replace(lap, f=lap.f[np.ix_(rows, rows)], labels=labels, groups=groups, lp=lap.lp[rows])
        kappa, kappa_of = kappa_from(picked, np.ones(len(labels), bool), coupling, float(lap.a_eff[0]))
        _compare_areas(modes_csv, labels, a_eff, picked.a_eff, fundamental, float(lap.a_eff[0]), warn)
    alpha = np.array(numbers(attenuation, "1/m", "attenuation"), dtype=float)
    if kappa_of == "group" and groups_csv is None:
        for g in np.unique(groups):
            beta[groups == g] = beta[groups == g].mean(axis=0)
            if alpha.shape == groups.shape:
                alpha[groups == g] = alpha[groups == g].mean()
    return Fibre(
        name=name,
        labels=labels,
        groups=groups,
        alpha=alpha,
        beta=beta,
        gamma=number(gamma, "1/W/m", "gamma"),
        kappa=kappa,
        kappa_of=kappa_of,  # type: ignore[arg-type]
        a_eff=a_eff,
        wavelength=wavelength,
    )


def _compare_areas(
    path, labels, table: Array, solved: Array, fundamental: float | None, solved_lp01: float, warn
) -> None:
    """Say so if effective areas (m²) of the table are not those of the modes that κ comes from.

    ``fundamental`` is the area from which γ was made, None if γ was given.
    """
    apart = table / solved - 1
    worst = int(np.argmax(np.abs(apart)))
    if abs(apart[worst]) <= _AREA_TOLERANCE:
        return
    text = (
        f"{path}: A_eff of {labels[worst]} is {table[worst] * 1e12:.4g} um^2, that of the profile's mode "
        f"{solved[worst] * 1e12:.4g} um^2 ({apart[worst]:+.1%})"
    )
    if fundamental is None:
        text += "; kappa comes from the profile"
    else:
        text += (
            f"; kappa (with {solved_lp01 * 1e12:.4g} um^2 for LP01) comes from the profile, gamma from the "
            f"table's {fundamental * 1e12:.4g} um^2, {solved_lp01 / fundamental - 1:+.1%} off for kappa"
        )
    if warn is None:
        warnings.warn(text, stacklevel=3)
    else:
        warn(text)


def _linear_columns(table: list[_Line], modes_csv, groups_csv) -> list[dict[str, float]]:
    """Dispersion and loss of each LP mode, from its own columns or from those of its group."""
    own = set(table[0][4])
    if groups_csv is not None:
        if own:
            raise InputError(
                f"{modes_csv}: column {min(own)} by mode, and groups_csv given too; allowed: one of the two"
            )
        lines = _group_table(groups_csv)
        for group, *_ in table:
            if group not in lines:
                raise InputError(f"{groups_csv}: mode_group {group} of {modes_csv} is missing")
        return [lines[line[0]] for line in table]
    if missing := [name for name in _BETA_COLUMNS[:2] if name not in own]:
        raise InputError(
            f"groups_csv: missing, and {modes_csv} has no column {missing[0]}; allowed: groups_csv, or "
            f"{' and '.join(_BETA_COLUMNS[:2])} by mode"
        )
    zero = dict.fromkeys(_BETA_COLUMNS, 0.0)
    return [zero | line[4] for line in table]


#: (group, l, m, A_eff in m², dispersion and loss by column name) of an LP mode.
_Line = tuple[int, int, int, float, dict[str, float]]


def _mode_table(path: str | Path) -> list[_Line]:
    """The LP modes of the table in the order of fields; the last of each is empty unless it has columns."""
    linear = (*_BETA_COLUMNS, _LOSS_COLUMN)
    needed = ("mode_group", "l", "m", "a_eff_um2")
    columns = profiles.read_columns(path, needed, ("spatial_modes", *linear))
    for key, least in (("mode_group", 1), ("l", 0), ("m", 1), ("spatial_modes", 1)):
        for value in columns.get(key, ()):
            if value != int(value) or value < least:
                raise InputError(f"{path}: {key} {value:g}; needs whole numbers of at least {least}")
    for order, count in zip(columns["l"], columns.get("spatial_modes", ()), strict=False):
        if count != (1 if order == 0 else 2):
            raise InputError(
                f"{path}: spatial_modes {count:g} for l = {order:g}; an LP mode has 1 if l is 0, else 2"
            )
    cells = zip(*(columns[k] for k in needed), strict=True)
    lines: list[_Line] = [
        (int(g), int(l), int(m), area * 1e-12, {k: columns[k][i] for k in linear if k in columns})
        for i, (g, l, m, area) in enumerate(cells)  # noqa: E741
    ]
    lines.sort(key=lambda line: line[:3])
    if len({line[1:3] for line in lines}) != len(lines):
        raise InputError(f"{path}: a mode (l, m) stands in more than one line; each may stand once")
    return lines


def _group_table(path: str | Path) -> dict[int, dict[str, float]]:
    """The columns of each group, by its number; β3 and β4 are 0 unless given."""
    columns = profiles.read_columns(
        path, ("mode_group", *_BETA_COLUMNS[:2]), (*_BETA_COLUMNS[2:], _LOSS_COLUMN)
    )
    numbers = columns.pop("mode_group")
    if any(n != int(n) or n < 1 for n in numbers) or len(set(numbers)) != len(numbers):
        raise InputError(f"{path}: mode_group must be whole numbers from 1, each once")
    zero = dict.fromkeys(_BETA_COLUMNS, 0.0)
    return {int(n): zero | {k: v[i] for k, v in columns.items()} for i, n in enumerate(numbers)}


def _matrix(path: str | Path) -> Array:
    try:
        lines = read_bytes(path).decode("utf-8-sig").splitlines()
        rows = [[float(cell) for cell in line.split(",")] for line in lines if line.strip()]
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as a matrix of numbers ({error})") from None
    if not rows or any(len(row) != len(rows) for row in rows):
        raise InputError(
            f"{path}: {len(rows)} rows of {len(rows[0]) if rows else 0} numbers; needs a square matrix"
        )
    return np.array(rows)
