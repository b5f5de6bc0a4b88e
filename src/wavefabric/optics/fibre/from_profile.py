"""A fibre from its index profile: modes, dispersion, effective areas and κ of our own solver."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from wavefabric.optics.fibre.fibre import ATTENUATION, N2_SILICA, Array, Fibre, gamma_of, group_numbers
from wavefabric.optics.fibre.kerr_coupling import Overlaps, kappa_strong_groups, kappa_weak, overlaps
from wavefabric.optics.fibre.modes import STEP, ModeSet, dispersion, solve_modes
from wavefabric.optics.fibre.profile import Profile
from wavefabric.quantities import choice, instance, number, numbers, within


def fibre_from_profile(
    profile: Profile,
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

    Quantities may be text with a unit: wavelength in vacuum, m; power attenuation, 1/m, one for all modes or
    each; nonlinear refractive index n2, m²/W; radial step of the solver, m. Groups are 1 to g, or those of a
    list, by default every one guided in full (from 1 without a gap). `InputError` if a group is not guided.

    With coupling "groups" modes of a group mix strongly at random: κ is per group, and β averaged over the
    group's modes, since light there sees all of them. With "modes" κ and β are those of weakly coupled modes.
    """
    instance("profile", profile, Profile)
    within(wavelength, "m", "wavelength", 1e-8, 1e-3)
    choice("coupling", coupling, ("groups", "modes"))
    wavelength, step = number(wavelength, "m", "wavelength"), number(step, "m", "step")
    modes, overlap = solved_overlaps(profile, wavelength, step)
    wanted = _whole_groups(modes) if groups is None else group_numbers(groups)
    modes.select(wanted)  # says which groups there are
    taylor = _taylor(profile, wavelength, tuple(wanted), step)
    kept = overlap.take(np.isin(overlap.groups, wanted))
    beta = taylor[np.unique(kept.lp, return_inverse=True)[1]]
    if coupling == "groups":
        average_over_groups(beta, kept.groups)
    a_ref = float(overlap.a_eff[0])
    kappa, kappa_of = kappa_from(kept, coupling, a_ref)
    gamma = gamma_of(a_ref, wavelength, number(n2, "m^2/W", "n2"))
    alpha = numbers(attenuation, "1/m", "attenuation")
    return Fibre(name, kept.labels, kept.groups, alpha, beta, gamma, kappa, kappa_of, kept.a_eff, wavelength)


@lru_cache(maxsize=4)
def solved_overlaps(profile: Profile, wavelength: float, step: float) -> tuple[ModeSet, Overlaps]:
    """Modes of a profile at a wavelength (m), solved with a radial step (m), and their overlaps; cached."""
    modes = solve_modes(profile, wavelength, step)
    return modes, overlaps(modes)


def kappa_from(overlap: Overlaps, coupling: str, a_ref: float) -> tuple[Array, Any]:
    """κ of spatial modes, per "groups" or "modes", and its `Fibre.kappa_of`; a_ref in m²."""
    if coupling == "modes":
        return kappa_weak(overlap.f, a_ref), "mode"
    return kappa_strong_groups(overlap.f, overlap.groups, a_ref), "group"


def average_over_groups(values: Array, groups) -> None:
    """Replace the values of each mode by the mean over its group, in place."""
    for g in np.unique(groups):
        values[groups == g] = values[groups == g].mean(axis=0)


@lru_cache(maxsize=4)
def _taylor(profile: Profile, wavelength: float, groups: tuple[int, ...], step: float) -> Array:
    """β1 (relative to LP01) … β4 of the LP modes of some groups, shape (P, 4)."""
    result = dispersion(profile, wavelength, groups={1, *groups}, step=step)
    beta = result.beta[:, 1:] - np.array([result.beta[0, 1], 0, 0, 0])
    return beta[np.isin(result.modes.group, groups)]


def _whole_groups(modes: ModeSet) -> list[int]:
    """Groups 1, 2, … up to the first that is not guided in full."""
    g = 1
    while int(modes.degeneracy[modes.group == g].sum()) == g:
        g += 1
    return list(range(1, g))
