"""Create fibres by name: kinds of the standards, the 62.5 µm fibre of Brehler et al., one mode, one group."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib.resources import as_file, files
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from wavefabric.base.arguments import number, numbers, positive, whole, within
from wavefabric.base.errors import InputError, choice
from wavefabric.optics.fibre.chromatic import KEYS, replaced, taylor_coefficients
from wavefabric.optics.fibre.fibre import ATTENUATION, N2_SILICA, Fibre, gamma_of
from wavefabric.optics.fibre.modes import STEP
from wavefabric.optics.fibre.profile import IndexProfile, profile_62_5
from wavefabric.optics.fibre.sources import fibre_from_csv, fibre_from_profile


def _values(parameter: float, slope: float, area: float, loss: float, nm: float = 1550) -> dict[str, float]:
    """Return arguments of `single_mode` from ps/(nm km), ps/(nm² km), µm², dB/km and nm."""
    dispersion = {"dispersion_parameter": parameter * 1e-6, "dispersion_slope": slope * 1e3}
    return {**dispersion, "a_eff": area * 1e-12, "alpha": loss * math.log(10) / 1e4, "wavelength": nm / 1e9}


#: Fibres of one mode: D, slope, A_eff and loss. docs/fibre.md cites the source of each number.
STANDARDS: dict[str, dict[str, Any]] = {
    "G.652": _values(17, 0.056, 80, 0.2),
    "G.652-1310": _values(-0.18, 0.09, 66.5, 0.35, 1310),
    "G.654.E": _values(20, 0.06, 125, 0.17),
    "G.655": _values(4, 0.06, 72, 0.2),
    "DCF": _values(-100, -100 * 0.056 / 17, 20, 0.5),
}
SINGLE_MODES: dict[str, dict[str, Any]] = {"single-mode": {"alpha": ATTENUATION}, **STANDARDS}
#: Graded-index fibres of 50 µm and NA 0.2. The exponent gives the smallest spread of group delays at 850 nm.
MULTIMODES = ("OM3", "OM4")
OM_WAVELENGTH, OM_EXPONENT = 850e-9, 2.04


def standard_fibre(name: str, **options: Any) -> Fibre:
    """Return a fibre of a standard: "G.652", "G.652-1310", "G.654.E", "G.655", "DCF", "OM3" or "OM4".

    ``options`` replace its values: those of `single_mode` except ``wavelength`` (see `at_frequency`), or for
    OM3 and OM4 those of `fibre_from_profile`, where ``wavelength`` is 850 nm by default.
    """
    choice("name", name, (*SINGLE_MODES, *MULTIMODES))
    if name in MULTIMODES:
        profile = IndexProfile(50e-6, 0.2, OM_EXPONENT, design_wavelength=OM_WAVELENGTH)
        values = {"wavelength": OM_WAVELENGTH, "attenuation": 2.5 * math.log(10) / 1e4, "name": name}
        return fibre_from_profile(profile, **{**values, **options})
    if name in STANDARDS and "wavelength" in options:
        raise InputError(f"wavelength: given with {name}; allowed: at_frequency(fibre, frequency)")
    values = {"name": name, **replaced(SINGLE_MODES[name], options)}
    if "a_eff" in values and "gamma" not in values:
        values.setdefault("n2", N2_SILICA)
    return single_mode(**values)


def graded_index_62_5(
    groups: int | Iterable[int] = 15,
    coupling: Literal["groups", "modes"] = "groups",
    dispersion: Literal["paper", "solver"] = "paper",
    attenuation: ArrayLike | str = ATTENUATION,
    *,
    n2: float | str = N2_SILICA,
    wavelength: float | str = 1550e-9,
    step: float | str = STEP,
    warn: Callable[[str], None] | None = None,
) -> Fibre:
    """Return the preset ``graded-index-62.5``: the 62.5 µm fibre of Brehler et al., section 6.

    Arguments are those of `fibre_from_profile`; groups go up to 15 (120 spatial modes), with "solver" up to
    17 (153). With dispersion "paper" β2 and DMGD come from table 3 of the paper, A_eff (hence γ) from table
    2, β3 = β4 = 0, and the tables are assumed to hold at ``wavelength``, which affects γ and κ (see also
    `wavefabric.optics.fibre.fibre.at_frequency`). With "solver" all values come from the index profile,
    solved at ``wavelength``. κ comes from the solver's overlaps in both cases.
    """
    choice("dispersion", dispersion, ("paper", "solver"))
    profile = profile_62_5()
    options: dict = {"name": "graded-index-62.5", "n2": n2, "coupling": coupling, "step": step, "warn": warn}
    if dispersion == "solver":
        return fibre_from_profile(profile, wavelength, groups, attenuation, **options)
    data = files("wavefabric.optics.fibre") / "data"
    with as_file(data / "fibre62_modes.csv") as modes_csv, as_file(data / "fibre62_groups.csv") as groups_csv:
        fibre = fibre_from_csv(modes_csv, groups_csv, profile=profile, wavelength=wavelength, **options)
    return replace(fibre.select_groups(groups), alpha=numbers(attenuation, "1/m", "attenuation"))


def single_mode(
    beta2: float | str | None = None,
    gamma: float | str | None = None,
    alpha: float | str = 0.0,
    beta3: float | str | None = None,
    *,
    beta1: float | str = 0.0,
    beta4: float | str | None = None,
    kappa: float = 8 / 9,
    **options: Any,
) -> Fibre:
    """Return a fibre of one spatial mode whose two polarisations mix at random (Manakov, κ = 8/9).

    Quantities may be text with a unit: ``single_mode(beta2="-21 ps^2/km", alpha="0.2 dB/km")``; numbers are
    in SI units, ``alpha`` attenuates the power. ``kappa`` multiplies the mode's total power: 1 gives the
    plain Manakov or, in one polarisation, the scalar nonlinear Schrödinger equation with γ.

    Dispersion is ``beta2`` (by default −21.7 ps²/km), ``beta3`` and ``beta4``; or ``betas``, a list β2, β3, …
    to any order up to 15; or ``dispersion_parameter`` D, s/m², and ``dispersion_slope``, s/m³, by default 0;
    or ``dispersion_csv``, see `wavefabric.optics.fibre.chromatic.table_coefficients`, which calls ``warn``.
    All hold at ``wavelength``, by default 1550 nm. ``gamma`` is 1.3 /(W km), or follows from ``n2`` (m²/W)
    and ``a_eff``, by default 80 µm². Further ``options`` are ``warn`` and ``name``, by default "single-mode".
    """
    keys = {"beta2": beta2, "beta3": beta3, "beta4": beta4}
    keys |= {key: options.pop(key, None) for key in KEYS if key not in keys}
    n2, warn = options.pop("n2", None), options.pop("warn", None)
    labelling = {"name": "single-mode", "a_eff": 80e-12, "wavelength": 1550e-9, **options}
    labelling["wavelength"] = wavelength = within(labelling["wavelength"], "m", "wavelength", 1e-8, 1e-3)
    labelling["a_eff"] = [area := number(labelling["a_eff"], "m^2", "a_eff")]
    row = np.append(number(beta1, "s/m", "beta1"), taylor_coefficients(keys, wavelength, warn))
    if n2 is not None and gamma is not None:
        raise InputError("n2: given together with gamma; allowed: one of the two")
    if n2 is not None:
        n2 = positive(n2, "m^2/W", "n2", zero=True)
        gamma = gamma_of(positive(area, "m^2", "a_eff"), wavelength, n2)
    gamma = 1.3e-3 if gamma is None else gamma
    return Fibre.from_coefficients(row[None], kappa, gamma, alpha, labels=("LP01",), **labelling)


def coupled_group(
    modes: int, *quantities, kappa: float | None = None, name: str = "coupled-group", **options
) -> Fibre:
    """Return a fibre of one group of N strongly coupled modes, whose intensity overlaps are all 1/``a_eff``.

    An example is a coupled-core fibre. All quantities except ``kappa`` are as in `single_mode`, equal for all
    ``modes``. ``kappa`` multiplies the group's total power, by default 4/3 · 2N/(2N+1), 8/9 for N = 1.
    """
    whole("modes", modes, 1, 10**6)
    kappa = 4 / 3 * 2 * modes / (2 * modes + 1) if kappa is None else kappa
    one = single_mode(*quantities, kappa=kappa, name=name, **options)
    alike = ("groups", "alpha", "beta", "a_eff")
    values = {key: np.repeat(getattr(one, key), modes, axis=0) for key in alike}
    return replace(one, labels=tuple(f"M{i + 1}" for i in range(modes)), kappa_of="group", **values)
