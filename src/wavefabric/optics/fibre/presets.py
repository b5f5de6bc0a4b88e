"""Fibres by name: the 62.5 µm fibre of Brehler et al., and the registry of presets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib.resources import as_file, files
from typing import Literal

from numpy.typing import ArrayLike

from wavefabric.optics.fibre import profile as profiles
from wavefabric.optics.fibre.fibre import (
    ATTENUATION,
    N2_SILICA,
    Fibre,
    check_choice,
    coupled_group,
    fibre_from_profile,
    single_mode,
)
from wavefabric.optics.fibre.modes import STEP
from wavefabric.optics.fibre.tables import fibre_from_csv
from wavefabric.quantities import numbers


def graded_index_62_5(
    groups: int | Iterable[int] = 15,
    coupling: Literal["groups", "modes"] = "groups",
    dispersion: Literal["paper", "solver"] = "paper",
    attenuation: ArrayLike | str = ATTENUATION,
    *,
    n2: float | str = N2_SILICA,
    wavelength: float | str = 1550e-9,
    step: float | str = STEP,
) -> Fibre:
    """The preset ``graded-index-62.5``: the 62.5 µm fibre of Brehler et al., section 6.

    Quantities may be text with a unit.

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
        Vacuum wavelength, m: with "paper" where the tables are taken to hold (γ and κ follow it), with
        "solver" where the profile is solved. See also `wavefabric.optics.fibre.expansion.at_frequency`.
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
    check_choice("dispersion", dispersion, ("paper", "solver"))
    name = "graded-index-62.5"
    profile = profiles.graded_index_62_5()
    if dispersion == "solver":
        return fibre_from_profile(
            profile, wavelength, groups, attenuation, n2, coupling, name=name, step=step
        )
    data = files("wavefabric.optics.fibre") / "data"
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
    return replace(fibre, alpha=numbers(attenuation, "1/m", "attenuation"))


def presets() -> dict[str, Callable[..., Fibre]]:
    """Constructors by the name used in run files; each works without arguments except ``coupled-group``."""
    return {
        "graded-index-62.5": graded_index_62_5,
        "single-mode": single_mode,
        "coupled-group": coupled_group,
    }
