"""Create fibres by name: the 62.5 µm fibre of Brehler et al., a single mode, one group of coupled modes."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib.resources import as_file, files
from typing import Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike

from wavefabric.base.arguments import number, numbers, whole
from wavefabric.base.errors import choice
from wavefabric.optics.fibre.beta import BETA_UNITS
from wavefabric.optics.fibre.fibre import ATTENUATION, N2_SILICA, Fibre, Labelling
from wavefabric.optics.fibre.modes import STEP
from wavefabric.optics.fibre.profile import profile_62_5
from wavefabric.optics.fibre.sources import fibre_from_csv, fibre_from_profile


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
    beta2: float | str = -21.7e-27,
    gamma: float | str = 1.3e-3,
    alpha: float | str = 0.0,
    beta3: float | str = 0.0,
    *,
    beta1: float | str = 0.0,
    beta4: float | str = 0.0,
    kappa: float = 8 / 9,
    **labelling: Unpack[Labelling],
) -> Fibre:
    """Return a fibre of one spatial mode whose two polarisations mix at random (Manakov, κ = 8/9).

    Quantities may be text with a unit: ``single_mode(beta2="-21 ps^2/km", alpha="0.2 dB/km")``; numbers are
    in SI units, ``alpha`` attenuates the power. ``kappa`` multiplies the mode's total power: 1 gives the
    plain Manakov or, in one polarisation, the scalar nonlinear Schrödinger equation with γ. ``wavelength`` is
    1550 nm by default, ``name`` "single-mode"; propagation does not use ``a_eff``, by default 80 µm².
    """
    beta = {"beta1": beta1, "beta2": beta2, "beta3": beta3, "beta4": beta4}
    row = [number(value, unit, key) for (key, value), unit in zip(beta.items(), BETA_UNITS, strict=True)]
    labelling = {"name": "single-mode", "a_eff": 80e-12, **labelling}
    labelling["a_eff"] = [number(labelling["a_eff"], "m^2", "a_eff")]
    return Fibre.from_coefficients(np.array([row]), kappa, gamma, alpha, labels=("LP01",), **labelling)


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
