"""Fibres from tables: CSV files of modes, of mode groups and of the Kerr coupling."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wavefabric.errors import InputError
from wavefabric.optics import profile as profiles
from wavefabric.optics.fibre import (
    ATTENUATION,
    N2_SILICA,
    Fibre,
    check_choice,
    gamma_of,
    kappa_from,
    solved_overlaps,
)
from wavefabric.optics.modes import STEP, lp_label

Array = NDArray[np.float64]

_BETA_COLUMNS = ("dmgd_ps_per_km", "beta2_ps2_per_km", "beta3_ps3_per_km", "beta4_ps4_per_km")
_BETA_UNITS = np.array([1e-15, 1e-27, 1e-39, 1e-51])


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
    check_choice("coupling", coupling, ("groups", "modes"))
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
        _, lap = solved_overlaps(profile, float(wavelength), float(step))
        place = {label: i for i, label in enumerate(lap.labels)}
        for label in labels:
            if label not in place:
                raise InputError(f"{modes_csv}: {label} is not guided by the profile at {wavelength!r} m")
        rows = np.array([place[label] for label in labels])
        picked = replace(lap, f=lap.f[np.ix_(rows, rows)], labels=labels, groups=groups, lp=lap.lp[rows])
        kappa, kappa_of = kappa_from(picked, np.ones(len(labels), bool), coupling, float(lap.a_eff[0]))
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
