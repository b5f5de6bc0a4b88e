"""A fibre from its index profile: modes, dispersion, effective areas and κ of our own solver."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from wavefabric.errors import choice
from wavefabric.optics.fibre.fibre import ATTENUATION, N2_SILICA, Array, Fibre, gamma_of, group_numbers
from wavefabric.optics.fibre.kerr_coupling import Overlaps, kappa_strong_groups, kappa_weak, overlaps
from wavefabric.optics.fibre.modes import STEP, ModeSet, dispersion, solve_modes
from wavefabric.optics.fibre.profile import Profile
from wavefabric.quantities import instance, number, numbers, within

_solved = lru_cache(maxsize=4)(dispersion)


@dataclass(frozen=True)
class ProfileOptions:
    """Options of `fibre_from_profile`.

    ``step`` is the radial step of the solver, in m or text with a unit; ``name`` is the fibre's. ``warn`` is
    called with a line that names the guided modes left out as too near to cut-off (see `dispersion`); without
    it, that line is a `UserWarning`.
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
    """Everything from an index profile: modes, β, A_eff and κ of our own solver.

    Quantities may be text with a unit: wavelength in vacuum, m; power attenuation, 1/m, one for all modes or
    each; nonlinear refractive index n2, m²/W. Groups (see `ModeSet`) are 1 to g, or those of a list, by
    default all. ``options`` are those of `ProfileOptions`. `InputError` if a group is not guided.

    With coupling "groups" modes of a group mix strongly at random: κ is per group, and β averaged over the
    group's modes, since light there sees all of them. With "modes" κ and β are those of weakly coupled modes.
    """
    instance("profile", profile, Profile)
    within(wavelength, "m", "wavelength", 1e-8, 1e-3)
    choice("coupling", coupling, ("groups", "modes"))
    inputs = ProfileOptions(**options)
    wavelength, step = number(wavelength, "m", "wavelength"), number(inputs.step, "m", "step")
    wanted = None if groups is None else group_numbers(groups)
    modes, overlap = solved_overlaps(profile, wavelength, step)
    fit = _solved(profile, wavelength, groups=(1, *modes.select(wanted).group) if wanted else None, step=step)
    chosen = fit.modes if wanted is None else fit.modes.select(wanted)
    if notes := [note for group, note in fit.modes.left_out if wanted is None or group in wanted]:
        text = f"{inputs.name}: guided modes left out: {', '.join(notes)}"
        (inputs.warn or partial(warnings.warn, stacklevel=2))(text)
    kept = overlap.take(np.isin(overlap.lp, modes.rows(chosen.labels)))
    taylor = fit.beta[fit.modes.rows(chosen.labels), 1:] - np.array([fit.beta[0, 1], 0, 0, 0])
    beta = taylor[np.unique(kept.lp, return_inverse=True)[1]]
    if coupling == "groups":
        average_over_groups(beta, kept.groups)
    a_ref = float(overlap.a_eff[0])
    kappa, kappa_of = kappa_from(kept, coupling, a_ref)
    gamma = gamma_of(a_ref, wavelength, number(n2, "m^2/W", "n2"))
    alpha = numbers(attenuation, "1/m", "attenuation")
    values = kept.labels, kept.groups, alpha, beta, gamma, kappa, kappa_of, kept.a_eff, wavelength
    return Fibre(inputs.name, *values)


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
