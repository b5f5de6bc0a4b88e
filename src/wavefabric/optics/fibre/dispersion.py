"""Dispersion of LP modes: the Taylor coefficients of β(ω), through the mode solver at several wavelengths."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wavefabric.errors import InputError
from wavefabric.optics.fibre.modes import STEP, ModeSet, outer_of, solve_mesh, solve_modes
from wavefabric.optics.fibre.profile import Profile
from wavefabric.quantities import positive
from wavefabric.units import SPEED_OF_LIGHT

Array = NDArray[np.float64]

#: Chebyshev points in ω, odd; the polynomial has one degree less.
_POINTS = 9
#: Half-widths of the fit, rad/s: the widest over which all wanted groups are guided is taken.
_HALF_SPANS = tuple(2 * math.pi * thz * 1e12 for thz in (8, 4, 2, 1, 0.5))


@dataclass(frozen=True, eq=False)
class Dispersion:
    """Taylor coefficients of β(ω) of P LP modes.

    ``beta`` (P, 5) holds β0 … β4 in 1/m, s/m, s²/m, s³/m, s⁴/m, absolute; ``error`` (P, 5) its change when
    the fit's degree falls by two, an estimate of its error from above; ``modes`` those at the centre.
    """

    modes: ModeSet
    beta: Array
    error: Array


def dispersion(profile: Profile, wavelength: float, *, groups=None, step: float = STEP) -> Dispersion:
    """β0 … β4 by a polynomial through β at Chebyshev points in ω.

    ``groups`` are those wanted, by default every mode guided over the whole span of ±8 THz; if a wanted group
    is cut off within it, the span is less, down to ±0.5 THz, or else `InputError`. The same mesh, of radial
    ``step`` (m), serves all wavelengths, so its error is smooth in ω.
    """
    omega0 = 2 * math.pi * SPEED_OF_LIGHT / positive(wavelength, "m", "wavelength")
    if _HALF_SPANS[0] >= omega0 / 3:
        raise InputError(f"wavelength: {wavelength!r} m given; allowed: below 12 um")
    x = np.cos(math.pi * (np.arange(_POINTS) + 0.5) / _POINTS)
    x[_POINTS // 2] = 0.0
    half_span, lowest = _guided_span(profile, omega0, float(x[-1]), groups, step)
    outer = max(outer_of(lowest), outer_of(solve_modes(profile, wavelength, step)))
    wanted = list(zip(lowest.l.tolist(), lowest.m.tolist(), strict=True))
    beta = np.empty((_POINTS, len(wanted)))
    centre = lowest
    for i, xi in enumerate(x):
        lam = wavelength if xi == 0 else 2 * math.pi * SPEED_OF_LIGHT / (omega0 + half_span * xi)
        modes, _ = solve_mesh(profile, lam, step, outer)
        index = {key: j for j, key in enumerate(zip(modes.l.tolist(), modes.m.tolist(), strict=True))}
        rows = [index[key] for key in wanted]
        beta[i] = modes.beta[rows]
        if xi == 0:
            centre = modes.take(rows)
    base = beta[_POINTS // 2]
    scale = np.array([math.factorial(n) / half_span**n for n in range(5)])
    taylor, coarser = (
        np.stack([np.polynomial.chebyshev.cheb2poly(c)[:5] for c in fit.T]) * scale
        for fit in (np.polynomial.chebyshev.chebfit(x, beta - base, _POINTS - less) for less in (1, 3))
    )
    error = np.abs(taylor - coarser)
    taylor[:, 0] += base
    return Dispersion(centre, taylor, error)


def _guided_span(profile: Profile, omega0: float, x: float, groups, step: float):
    """The widest half span over which all wanted groups are guided, and the modes at its lowest frequency."""
    for span in _HALF_SPANS:
        modes = solve_modes(profile, 2 * math.pi * SPEED_OF_LIGHT / (omega0 + span * x), step)
        if groups is None:
            return span, modes
        try:
            return span, modes.select(groups)
        except InputError as error:
            fault = error
    raise InputError(f"{fault} (over the whole span of the derivatives)")
