"""Create fibres from an index profile (by the mode solver) or CSV tables; compute the Manakov κ."""

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wavefabric.base.arguments import instance, number, numbers, within
from wavefabric.base.errors import InputError, choice
from wavefabric.optics.fibre.chromatic import beta2_beta3
from wavefabric.optics.fibre.csv_files import Array, read_columns, read_square_matrix
from wavefabric.optics.fibre.fibre import ATTENUATION, N2_SILICA, Fibre, gamma_of, group_numbers
from wavefabric.optics.fibre.modes import STEP, ModeSet, dispersion, solve_modes, spatial_modes
from wavefabric.optics.fibre.profile import Profile

#: CSV columns of β1 … β4 and of the loss, each with the factor to SI and the value if the column is missing.
_LINEAR = {
    "dmgd_ps_per_km": (1e-15, 0.0),
    "beta2_ps2_per_km": (1e-27, 0.0),
    "beta3_ps3_per_km": (1e-39, 0.0),
    "beta4_ps4_per_km": (1e-51, 0.0),
    "attenuation_db_per_km": (math.log(10) / 1e4, math.nan),
}
_NEEDED = ("dmgd_ps_per_km", "beta2_ps2_per_km")
#: CSV columns of D and its slope, which may stand in place of β2 and β3.
_D, _SLOPE = "dispersion_ps_per_nm_km", "dispersion_slope_ps_per_nm2_km"
#: Largest relative difference between effective areas of a table and of a profile's modes without a warning.
_AREA_TOLERANCE = 0.03
_solved = lru_cache(maxsize=4)(dispersion)


@dataclass(frozen=True, eq=False)
class Overlaps:
    """Holds intensity overlaps of all pairs of M spatial modes, sorted by group, then l, cos before sin."""

    f: Array  # f_nm = ∫F_n² F_m² dA with ∫F² dA = 1, in 1/m², (M, M)
    labels: tuple[str, ...]  # "LP01", "LP11a" (cos), "LP11b" (sin), …
    groups: NDArray[np.int64]  # mode group of each spatial mode, (M,)
    lp: NDArray[np.int64]  # index of the LP mode in the mode set, (M,)

    @property
    def a_eff(self) -> Array:
        """Return the effective area of each mode, 1/∫F⁴ dA, in m², (M,)."""
        return 1 / np.diagonal(self.f)

    def take(self, keep) -> "Overlaps":
        """Return the overlaps of the spatial modes ``keep``: indices, in their order, or a mask (M,)."""
        rows = np.arange(len(self.f))[keep]
        labels = tuple(self.labels[row] for row in rows)
        return Overlaps(self.f[np.ix_(rows, rows)], labels, self.groups[rows], self.lp[rows])


def angular_overlap(l_n: ArrayLike, parity_n: ArrayLike, l_m: ArrayLike, parity_m: ArrayLike) -> Array:
    """Return ∫Φ_n² Φ_m² dφ over a full turn for Φ = cos(lφ)/√π or sin(lφ)/√π (1/√(2π) for l = 0).

    From Φ² = (1 + p cos 2lφ)/2π follows (1 + p_n p_m δ_{l_n l_m}/2)/2π: 3/4π for equal modes, 1/4π for the
    cos and sin of one l, 1/2π otherwise. The parity p is +1 for cos, −1 for sin, 0 for l = 0.
    """
    same = np.asarray(l_n) == np.asarray(l_m)
    return (1 + 0.5 * same * np.asarray(parity_n) * np.asarray(parity_m)) / (2 * math.pi)


def overlaps(modes: ModeSet) -> Overlaps:
    """Compute f_nm = ∫F_n² F_m² dA of all spatial modes: radial sum over rings, closed-form angular part."""
    squares = modes.radial**2
    radial = (squares * modes.ring) @ squares.T
    lp, parity, labels = spatial_modes(modes.l, modes.m)
    order = modes.l[lp]
    f = radial[np.ix_(lp, lp)] * angular_overlap(order[:, None], parity[:, None], order, parity)
    return Overlaps((f + f.T) / 2, labels, modes.group[lp], lp)


def kappa_weak(f: Array, a_ref: float) -> Array:
    """Return κ (M, M) of weakly coupled modes: κ_aa = 8/9 A_ref f_aa, κ_ab = 4/3 A_ref f_ab.

    κ multiplies |A_bx|² + |A_by|², the total power of mode b: polarisations mix at random within a mode,
    modes do not mix. ``f`` (M, M) in 1/m²; ``a_ref`` is the effective area in γ = n₂ω₀/(c₀A_ref), m². Source:
    S. Mumtaz, R.-J. Essiambre, G. P. Agrawal, J. Lightwave Technol. 31, 398 (2013).
    """
    kappa = 4 / 3 * a_ref * f
    np.fill_diagonal(kappa, 8 / 9 * a_ref * np.diagonal(f))
    return kappa


def kappa_strong_groups(f: Array, groups: NDArray[np.int64], a_ref: float) -> Array:
    """Return κ (G, G) of groups whose N_a modes mix at random (strong coupling only inside groups).

    κ_aa = 4/3 · 2N_a/(2N_a+1) · A_ref/N_a² Σ_{n,m∈a} f_nm and κ_ab = 4/3 · A_ref/(N_a N_b) Σ_{n∈a,m∈b} f_nm.
    κ multiplies the total power of group b and turns the phases of all rows of group a equally. ``groups``
    (M,) is non-decreasing; f and ``a_ref`` as in `kappa_weak`. Source: A. Mecozzi, C. Antonelli, M. Shtaif,
    "Coupled Manakov equations in multimode fibers with strongly coupled groups of modes", Opt. Express 20,
    23436 (2012), doi 10.1364/OE.20.023436.
    """
    _, starts, sizes = np.unique(groups, return_index=True, return_counts=True)
    sums = np.add.reduceat(np.add.reduceat(f, starts, axis=0), starts, axis=1)
    kappa = 4 / 3 * a_ref * sums / np.multiply.outer(sizes, sizes)
    kappa[np.diag_indices(len(sizes))] *= 2 * sizes / (2 * sizes + 1)
    return kappa


@dataclass(frozen=True)
class ProfileOptions:
    """Holds options of `fibre_from_profile`.

    ``step`` is the radial step of the solver, in m or text with a unit; ``name`` is the name of the fibre.
    ``warn`` is called with a line that lists guided modes omitted as too close to cut-off (see `dispersion`);
    without ``warn``, a `UserWarning` shows this line.
    """

    step: float | str = STEP
    name: str = "fibre"
    warn: Callable[[str], None] | None = None


def fibre_from_profile(
    profile: Profile,
    wavelength: float | str,
    groups: int | Iterable[int] | None = None,
    attenuation: ArrayLike | str = ATTENUATION,
    n2: float | str = N2_SILICA,
    coupling: Literal["groups", "modes"] = "groups",
    **options: Any,
) -> Fibre:
    """Create a fibre from an index profile: the mode solver computes modes, β, A_eff and κ.

    Quantities may be text with a unit: wavelength in vacuum, m; power attenuation, 1/m, one number or one per
    mode; nonlinear refractive index n2, m²/W. Groups (see `ModeSet`) are 1 to g, or a list of numbers, by
    default all. ``options`` are those of `ProfileOptions`. `InputError` if a group is not guided.

    With coupling "groups" the modes of a group mix strongly at random: κ is per group, and β averaged over
    the group's modes, since light passes through all of them. With "modes" κ and β are those of weakly
    coupled modes.
    """
    instance("profile", profile, Profile)
    within(wavelength, "m", "wavelength", 1e-8, 1e-3)
    choice("coupling", coupling, ("groups", "modes"))
    inputs = ProfileOptions(**options)
    wavelength, step = number(wavelength, "m", "wavelength"), number(inputs.step, "m", "step")
    selected = None if groups is None else group_numbers(groups)
    modes, overlap = solved_overlaps(profile, wavelength, step)
    needed = (1, *modes.select(selected).group) if selected else None
    fit = _solved(profile, wavelength, groups=needed, step=step)
    chosen = fit.modes if selected is None else fit.modes.select(selected)
    if notes := [note for group, note in fit.modes.left_out if selected is None or group in selected]:
        text = f"{inputs.name}: guided modes left out: {', '.join(notes)}"
        (inputs.warn or partial(warnings.warn, stacklevel=2))(text)
    coupled = overlap.take(np.isin(overlap.lp, modes.rows(chosen.labels)))
    taylor = fit.beta[fit.modes.rows(chosen.labels), 1:] - np.array([fit.beta[0, 1], 0, 0, 0])
    beta = taylor[np.unique(coupled.lp, return_inverse=True)[1]]
    if coupling == "groups":
        average_over_groups(beta, coupled.groups)
    a_ref = float(overlap.a_eff[0])
    kappa, kappa_of = kappa_from(coupled, coupling, a_ref)
    gamma = gamma_of(a_ref, wavelength, number(n2, "m^2/W", "n2"))
    alpha = numbers(attenuation, "1/m", "attenuation")
    values = coupled.labels, coupled.groups, alpha, beta, gamma, kappa, kappa_of, coupled.a_eff, wavelength
    return Fibre(inputs.name, *values)


@lru_cache(maxsize=4)
def solved_overlaps(profile: Profile, wavelength: float, step: float) -> tuple[ModeSet, Overlaps]:
    """Return a profile's modes at ``wavelength`` (m), from rings ``step`` (m) wide, and their overlaps."""
    modes = solve_modes(profile, wavelength, step)
    return modes, overlaps(modes)


def kappa_from(overlap: Overlaps, coupling: str, a_ref: float) -> tuple[Array, Any]:
    """Return κ, and what its rows stand for: "group" if ``coupling`` is "groups", "mode" if it is "modes"."""
    if coupling == "modes":
        return kappa_weak(overlap.f, a_ref), "mode"
    return kappa_strong_groups(overlap.f, overlap.groups, a_ref), "group"


def average_over_groups(values: Array, groups) -> None:
    """Replace the values of each mode by the mean over its group, in place."""
    for g in np.unique(groups):
        values[groups == g] = values[groups == g].mean(axis=0)


@dataclass(frozen=True)
class TableValues:
    """Holds the values that `fibre_from_csv` needs beyond its tables; `fibre_from_csv` describes them."""

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
    """Create a fibre from tables in CSV files. Quantities may be text with a unit.

    `InputError` if a file cannot be read, a column, cell, group or mode does not fit, or κ has no source.

    - ``modes_csv``: columns ``mode_group,l,m,a_eff_um2`` (µm²) and optionally ``spatial_modes``; one line per
      LP mode, which represents its cos and sin mode if l > 0. Without ``groups_csv``, this table also needs
      the columns of ``groups_csv`` except the first: dispersion and loss by LP mode. If κ is per strongly
      coupled group, both are averaged over the group's spatial modes, since light passes through all modes.
    - ``groups_csv``: columns ``mode_group,dmgd_ps_per_km,beta2_ps2_per_km`` and optionally
      ``beta3_ps3_per_km``, ``beta4_ps4_per_km``, ``attenuation_db_per_km``. In place of β2 and β3 they
      may be ``dispersion_ps_per_nm_km`` and ``dispersion_slope_ps_per_nm2_km``.
    - ``kappa_csv``: κ as a square matrix of numbers without a header: one row per group, spatial mode, or
      field row, in the order of `Fibre`. If there are as many groups as modes, κ is per mode.
    - ``profile``, ``coupling``, ``step``: needed without ``kappa_csv``. Then κ comes from the overlaps of
      the modes of this profile, as in `fibre_from_profile`.
    - ``warn``: called with a line if effective areas of the table and of the profile's modes differ by more
      than 3 %: γ comes from the table, κ from the profile. By default a `UserWarning`.
    - ``attenuation``: by default the table's column, or 0.23 dB/km without one. ``gamma``: by default
      n₂ω₀/(c₀A_eff) with ``n2`` (m²/W) and the table's A_eff of LP01. ``wavelength``: where the tables hold,
      by default 1550 nm (see `wavefabric.optics.fibre.fibre.at_frequency`). ``name``: of the fibre.
    """
    choice("coupling", coupling, ("groups", "modes"))
    inputs = TableValues(**values)
    wavelength, step = number(inputs.wavelength, "m", "wavelength"), number(step, "m", "step")
    if (kappa_csv is None) == (profile is None):
        fault = f"{'neither' if profile is None else 'both'} it and a profile given"
        raise InputError(f"kappa_csv: {fault}; effective areas alone do not give κ, give one")
    table, linear = _mode_table(modes_csv, groups_csv, wavelength)
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
        # If two kinds have equal sizes, the later entry replaces the earlier one.
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
    """Return a warning if effective areas of a mode table and of solved modes differ by over 3 %, else "".

    ``table`` (m²) are the areas of the table, ``solved`` (m²) those of the modes from which κ comes.
    """
    error = table / solved - 1
    worst = int(np.argmax(np.abs(error)))
    if abs(error[worst]) <= _AREA_TOLERANCE:
        return ""
    listed, own = (f"{areas[worst] * 1e12:.4g} um^2" for areas in (table, solved))
    text = f"A_eff of {labels[worst]} is {listed}, that of the profile's mode {own} ({error[worst]:+.1%})"
    if not gamma_from_table:
        return f"{text}; kappa comes from the profile"
    lp01 = table[labels.index("LP01")]
    text += f"; kappa (with {solved_lp01 * 1e12:.4g} um^2 for LP01) comes from the profile, gamma from the "
    return text + f"table's {lp01 * 1e12:.4g} um^2, {solved_lp01 / lp01 - 1:+.1%} off for kappa"


def _mode_table(path, groups_csv, wavelength: float) -> tuple[dict[str, np.ndarray], Array]:
    """Read a mode table; return a dictionary from column name to values, and β1 … β4 and loss, (P, 5).

    Both are sorted like field rows. β and loss are by LP mode, in SI units, from ``groups_csv`` or the table.
    """
    optional = "spatial_modes", *_LINEAR, _D, _SLOPE
    columns = _with_beta(
        path, read_columns(path, ("mode_group", "l", "m", "a_eff_um2"), optional), wavelength
    )
    for key, least in (("mode_group", 1), ("l", 0), ("m", 1), ("spatial_modes", 1)):
        if key in columns:
            columns[key] = _whole_numbers(path, key, columns[key], least)
    if (area := columns["a_eff_um2"].min()) < 0.1:
        raise InputError(f"{path}: a_eff_um2: {area:g} um^2 (the header says µm²); allowed: 0.1 um^2 or more")
    degeneracy = np.where(columns["l"] == 0, 1, 2)
    counts = columns.pop("spatial_modes", degeneracy)
    if (wrong := counts != degeneracy).any():
        fault = f"spatial_modes {counts[wrong][0]} for l = {columns['l'][wrong][0]}"
        raise InputError(f"{path}: {fault}; an LP mode has 1 if l is 0, else 2")
    if len(set(zip(columns["l"], columns["m"], strict=True))) != len(counts):
        raise InputError(f"{path}: a mode (l, m) stands in more than one line; each may stand once")
    order = np.lexsort((columns["m"], columns["l"], columns["mode_group"]))
    columns = {key: values[order] for key, values in columns.items()}
    mode_columns = [key for key in _LINEAR if key in columns]
    if groups_csv is None:
        if missing := [key for key in _NEEDED if key not in mode_columns]:
            fault = f"missing, and {path} has no column {missing[0]}"
            raise InputError(f"groups_csv: {fault}; allowed: groups_csv, or {' and '.join(_NEEDED)} by mode")
        return columns, _linear(columns)
    if mode_columns:
        fault = f"column {mode_columns[0]} by mode, and groups_csv given too"
        raise InputError(f"{path}: {fault}; allowed: one of the two")
    lines = read_columns(groups_csv, ("mode_group", _NEEDED[0]), (*_LINEAR, _D, _SLOPE))
    if _NEEDED[1] not in (lines := _with_beta(groups_csv, lines, wavelength)):
        raise InputError(f"{groups_csv}: columns {', '.join(lines)}; needs {_NEEDED[1]} or {_D}")
    groups = _whole_numbers(groups_csv, "mode_group", lines["mode_group"], 1).tolist()
    if len(set(groups)) != len(groups):
        raise InputError(f"{groups_csv}: mode_group must be whole numbers from 1, each once")
    if absent := [g for g in columns["mode_group"].tolist() if g not in groups]:
        raise InputError(f"{groups_csv}: mode_group {absent[0]} of {path} is missing")
    return columns, _linear(lines)[[groups.index(g) for g in columns["mode_group"].tolist()]]


def _with_beta(path, columns: dict[str, np.ndarray], wavelength: float) -> dict[str, np.ndarray]:
    """Return ``columns`` with β2 and β3 in place of D and its slope at ``wavelength`` (m)."""
    if not {_D, _SLOPE} & {*columns}:
        return columns
    if _D not in columns or {"beta2_ps2_per_km", "beta3_ps3_per_km"} & {*columns}:
        raise InputError(f"{path}: columns {', '.join(columns)}; needs {_D}, or β2 and β3, for dispersion")
    d, slope = columns.pop(_D), columns.pop(_SLOPE, np.zeros(()))
    beta2, beta3 = beta2_beta3(d * 1e-6, slope * 1e3, wavelength)
    return columns | {"beta2_ps2_per_km": beta2 * 1e27, "beta3_ps3_per_km": beta3 * 1e39}


def _whole_numbers(path, key: str, values: Array, least: int) -> NDArray[np.int64]:
    if (wrong := (values != np.rint(values)) | (values < least)).any():
        raise InputError(f"{path}: {key} {values[wrong][0]:g}; needs whole numbers of at least {least}")
    return values.astype(np.int64)


def _linear(columns: dict[str, np.ndarray]) -> Array:
    """Return β1 … β4 and loss in SI units from the columns of a table, for each of its lines: (lines, 5)."""
    size = len(columns["mode_group"])
    return np.stack([columns.get(k, np.full(size, x)) * si for k, (si, x) in _LINEAR.items()], axis=1)
