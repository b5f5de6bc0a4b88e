"""Fibres from tables: CSV files of modes, of mode groups and of the Kerr coupling."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wavefabric.errors import InputError, choice
from wavefabric.optics.fibre.csv_files import Array, read_columns, read_square_matrix
from wavefabric.optics.fibre.fibre import ATTENUATION, N2_SILICA, Fibre, gamma_of
from wavefabric.optics.fibre.from_profile import average_over_groups, kappa_from, solved_overlaps
from wavefabric.optics.fibre.modes import STEP, spatial_modes
from wavefabric.optics.fibre.profile import Profile
from wavefabric.quantities import number, numbers

#: Columns of β1 … β4 and of the loss: the factor to SI, and the value if there is no such column.
_LINEAR = {
    "dmgd_ps_per_km": (1e-15, 0.0),
    "beta2_ps2_per_km": (1e-27, 0.0),
    "beta3_ps3_per_km": (1e-39, 0.0),
    "beta4_ps4_per_km": (1e-51, 0.0),
    "attenuation_db_per_km": (math.log(10) / 1e4, math.nan),
}
_NEEDED = ("dmgd_ps_per_km", "beta2_ps2_per_km")
#: Effective areas of a table and of a profile's modes may be so far apart, as a part, before it is said.
_AREA_TOLERANCE = 0.03


@dataclass(frozen=True)
class TableValues:
    """What `fibre_from_csv` takes for the values of a fibre that stand in no table; see there."""

    attenuation: ArrayLike | str | None = None
    n2: float | str = N2_SILICA
    gamma: float | str | None = None
    wavelength: float | str = 1550e-9
    name: str = "fibre"


def fibre_from_csv(
    modes_csv: str | Path,
    groups_csv: str | Path | None = None,
    kappa_csv: str | Path | None = None,
    *,
    profile: Profile | None = None,
    coupling: Literal["groups", "modes"] = "groups",
    step: float | str = STEP,
    warn: Callable[[str], None] | None = None,
    **values: Any,
) -> Fibre:
    """A fibre from tables. Quantities may be text with a unit.

    `InputError` if a file cannot be read, a column, cell, group or mode does not fit, or κ has no source.

    - ``modes_csv``: columns ``mode_group,l,m,a_eff_um2`` (µm²) and optionally ``spatial_modes``; one line per
      LP mode, which stands for its cos and sin mode if l > 0. Instead of ``groups_csv``, its columns but the
      first may stand here: dispersion and loss by LP mode. Where κ is per strongly coupled group, they are
      averaged over the group's spatial modes, since light there sees all of them.
    - ``groups_csv``: columns ``mode_group,dmgd_ps_per_km,beta2_ps2_per_km`` and optionally
      ``beta3_ps3_per_km``, ``beta4_ps4_per_km``, ``attenuation_db_per_km``.
    - ``kappa_csv``: κ as a square matrix of numbers without a header: one row per group, spatial mode, or
      field row, in the order of `Fibre`. If groups and modes are equally many, per mode.
    - ``profile``, ``coupling``, ``step``: without ``kappa_csv``, the profile whose modes give the overlaps
      for κ, as in `fibre_from_profile`.
    - ``warn``: called with a line if effective areas of the table and of the profile's modes differ by more
      than 3 %: γ comes from the one, κ from the other. By default a `UserWarning`.
    - ``attenuation``, ``gamma``, ``wavelength``, by default: the table's column, or 0.23 dB/km without one;
      n₂ω₀/(c₀A_eff) with ``n2`` (m²/W) and the table's A_eff of LP01; 1550 nm, where the tables hold (see
      `wavefabric.optics.fibre.fibre.at_frequency`). ``name``.
    """
    choice("coupling", coupling, ("groups", "modes"))
    inputs = TableValues(**values)
    wavelength, step = number(inputs.wavelength, "m", "wavelength"), number(step, "m", "step")
    if (kappa_csv is None) == (profile is None):
        fault = f"{'neither' if profile is None else 'both'} it and a profile given"
        raise InputError(f"kappa_csv: {fault}; effective areas alone do not give κ, give one")
    table, linear = _mode_table(modes_csv, groups_csv)
    lp, _, labels = spatial_modes(table["l"], table["m"])
    groups, a_eff = table["mode_group"][lp], table["a_eff_um2"][lp] * 1e-12
    beta, loss = linear[lp, :4], linear[lp, 4]
    default = ATTENUATION if np.isnan(loss[0]) else loss
    alpha = numbers(default if inputs.attenuation is None else inputs.attenuation, "1/m", "attenuation")
    if inputs.gamma is not None:
        gamma = number(inputs.gamma, "1/W/m", "gamma")
    elif "LP01" in labels:
        gamma = gamma_of(a_eff[labels.index("LP01")], wavelength, number(inputs.n2, "m^2/W", "n2"))
    else:
        raise InputError(f"{modes_csv}: no LP01 (l = 0, m = 1), from which γ follows; add it or give gamma")
    if profile is None:
        assert kappa_csv is not None
        kappa, modes = read_square_matrix(kappa_csv), len(labels)
        # The last wins where sizes are equal.
        kinds: dict[int, Any] = {len(np.unique(groups)): "group", 2 * modes: "row", modes: "mode"}
        if (kappa_of := kinds.get(len(kappa))) is None:
            needs = f"{len(np.unique(groups))} (groups), {modes} (modes) or {2 * modes} (field rows)"
            raise InputError(f"{kappa_csv}: {len(kappa)} rows; needs {needs}")
    else:
        _, overlap = solved_overlaps(profile, wavelength, step)
        if missing := [label for label in labels if label not in overlap.labels]:
            raise InputError(f"{modes_csv}: {missing[0]} is not guided by the profile at {wavelength!r} m")
        taken = overlap.take([overlap.labels.index(label) for label in labels])
        lp01_area = float(overlap.a_eff[0])
        kappa, kappa_of = kappa_from(taken, coupling, lp01_area)
        if text := _areas_apart(labels, a_eff, taken.a_eff, lp01_area, inputs.gamma is None):
            (warn or partial(warnings.warn, stacklevel=2))(f"{modes_csv}: {text}")
    if kappa_of == "group" and groups_csv is None:
        average_over_groups(beta, groups)
        if alpha.shape == groups.shape:
            average_over_groups(alpha, groups)
    return Fibre(inputs.name, labels, groups, alpha, beta, gamma, kappa, kappa_of, a_eff, wavelength)


def _areas_apart(labels, table: Array, solved: Array, solved_lp01: float, gamma_from_table: bool) -> str:
    """What to say if effective areas (m²) of the table are not those of the modes that κ comes from."""
    apart = table / solved - 1
    worst = int(np.argmax(np.abs(apart)))
    if abs(apart[worst]) <= _AREA_TOLERANCE:
        return ""
    text = (
        f"A_eff of {labels[worst]} is {table[worst] * 1e12:.4g} um^2, that of the profile's mode "
        f"{solved[worst] * 1e12:.4g} um^2 ({apart[worst]:+.1%}); kappa "
    )
    if not gamma_from_table:
        return text + "comes from the profile"
    lp01 = table[labels.index("LP01")]
    return text + (
        f"(with {solved_lp01 * 1e12:.4g} um^2 for LP01) comes from the profile, gamma from the "
        f"table's {lp01 * 1e12:.4g} um^2, {solved_lp01 / lp01 - 1:+.1%} off for kappa"
    )


def _mode_table(path: str | Path, groups_csv: str | Path | None) -> tuple[dict[str, np.ndarray], Array]:
    """Columns of the LP modes in the order of fields, and their `_linear`, by mode or by group."""
    columns = read_columns(path, ("mode_group", "l", "m", "a_eff_um2"), ("spatial_modes", *_LINEAR))
    for key, least in (("mode_group", 1), ("l", 0), ("m", 1), ("spatial_modes", 1)):
        if key in columns:
            columns[key] = _whole(path, key, columns[key], least)
    degeneracy = np.where(columns["l"] == 0, 1, 2)
    counts = columns.pop("spatial_modes", degeneracy)
    if (wrong := counts != degeneracy).any():
        fault = f"spatial_modes {counts[wrong][0]} for l = {columns['l'][wrong][0]}"
        raise InputError(f"{path}: {fault}; an LP mode has 1 if l is 0, else 2")
    if len(set(zip(columns["l"], columns["m"], strict=True))) != len(counts):
        raise InputError(f"{path}: a mode (l, m) stands in more than one line; each may stand once")
    order = np.lexsort((columns["m"], columns["l"], columns["mode_group"]))
    columns = {key: values[order] for key, values in columns.items()}
    own = [key for key in _LINEAR if key in columns]
    if groups_csv is None:
        if missing := [key for key in _NEEDED if key not in own]:
            fault = f"missing, and {path} has no column {missing[0]}"
            raise InputError(f"groups_csv: {fault}; allowed: groups_csv, or {' and '.join(_NEEDED)} by mode")
        return columns, _linear(columns)
    if own:
        fault = f"column {own[0]} by mode, and groups_csv given too"
        raise InputError(f"{path}: {fault}; allowed: one of the two")
    lines = read_columns(groups_csv, ("mode_group", *_NEEDED), tuple(_LINEAR)[2:])
    groups = _whole(groups_csv, "mode_group", lines["mode_group"], 1).tolist()
    if len(set(groups)) != len(groups):
        raise InputError(f"{groups_csv}: mode_group must be whole numbers from 1, each once")
    if absent := [g for g in columns["mode_group"].tolist() if g not in groups]:
        raise InputError(f"{groups_csv}: mode_group {absent[0]} of {path} is missing")
    return columns, _linear(lines)[[groups.index(g) for g in columns["mode_group"].tolist()]]


def _whole(path, key: str, values: Array, least: int) -> NDArray[np.int64]:
    if (wrong := (values != np.rint(values)) | (values < least)).any():
        raise InputError(f"{path}: {key} {values[wrong][0]:g}; needs whole numbers of at least {least}")
    return values.astype(np.int64)


def _linear(columns: dict[str, np.ndarray]) -> Array:
    """β1 … β4 and loss of each line, SI, (lines, 5)."""
    size = len(columns["mode_group"])
    return np.stack([columns.get(k, np.full(size, x)) * si for k, (si, x) in _LINEAR.items()], axis=1)
