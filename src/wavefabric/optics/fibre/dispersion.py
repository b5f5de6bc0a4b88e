"""Dispersion of LP modes: the Taylor coefficients of β(ω), through the mode solver at several wavelengths."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wavefabric.errors import InputError
from wavefabric.optics.fibre.modes import STEP, ModeSet, outer_of, solve_mesh, solve_modes
from wavefabric.optics.fibre.profile import Profile
from wavefabric.units import SPEED_OF_LIGHT

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Dispersion:
    """Taylor coefficients of β(ω) of LP modes.

    Attributes
    ----------
    wavelength : float
        Vacuum wavelength of the expansion, m.
    modes : ModeSet
        The modes there, P of them.
    beta : ndarray, shape (P, 5)
        β0 … β4 in 1/m, s/m, s²/m, s³/m, s⁴/m (absolute, not relative to LP01).
    error : ndarray, shape (P, 5)
        Change of `beta` when the fit's degree falls by two: an estimate of the derivative's error from above.
    half_span : float
        Half-width of the fit in rad/s.
    """

    wavelength: float
    modes: ModeSet
    beta: Array
    error: Array
    half_span: float

    @property
    def group_index(self) -> Array:
        """c₀ β1, shape (P,)."""
        return SPEED_OF_LIGHT * self.beta[:, 1]


def dispersion(
    profile: Profile,
    wavelength: float,
    *,
    groups=None,
    half_span: float | None = None,
    points: int = 9,
    step: float = STEP,
) -> Dispersion:
    """β0 … β4 by a polynomial through β at Chebyshev points in ω.

    Parameters
    ----------
    profile : Profile
        Index profile.
    wavelength : float
        Vacuum wavelength of the expansion, m.
    groups : iterable of int, optional
        Mode groups wanted; by default every mode guided over the whole span.
    half_span : float, optional
        The points span ω0 ± half_span, rad/s; default 2π · 8 THz, or less (down to 2π · 0.5 THz) if a wanted
        group is cut off before.
    points : int
        Number of Chebyshev points, odd, 7 to 15; the polynomial has degree points − 1.
    step : float
        Radial step, m. The same mesh serves all wavelengths, so its error is smooth in ω.

    Returns
    -------
    Dispersion
        With an estimate of the error of each coefficient.

    Raises
    ------
    InputError
        If points or half_span are out of range, or a wanted group is not guided over the whole span.
    """
    omega0 = 2 * math.pi * SPEED_OF_LIGHT / wavelength if wavelength > 0 else math.nan
    if points not in range(7, 16, 2):
        raise InputError(f"points: {points!r}; allowed: 7, 9, 11, 13, 15")
    spans = [2 * math.pi * thz * 1e12 for thz in (8, 4, 2, 1, 0.5)] if half_span is None else [half_span]
    if not all(0 < span < omega0 / 3 for span in spans):
        raise InputError(
            f"half_span: {half_span!r} rad/s at {wavelength!r} m; allowed: above 0, below a third of ω0"
        )
    x = np.cos(math.pi * (np.arange(points) + 0.5) / points)
    x[points // 2] = 0.0
    half_span, lowest = _guided_span(profile, omega0, spans, float(x[-1]), groups, step)
    outer = max(outer_of(lowest), outer_of(solve_modes(profile, wavelength, step)))
    wanted = list(zip(lowest.l.tolist(), lowest.m.tolist(), strict=True))
    beta = np.empty((points, len(wanted)))
    centre = lowest
    for i, xi in enumerate(x):
        lam = wavelength if xi == 0 else 2 * math.pi * SPEED_OF_LIGHT / (omega0 + half_span * xi)
        modes, _ = solve_mesh(profile, lam, step, outer, 1)
        place = {key: j for j, key in enumerate(zip(modes.l.tolist(), modes.m.tolist(), strict=True))}
        rows = [place[key] for key in wanted]
        beta[i] = modes.beta[rows]
        if xi == 0:
            centre = modes.take(rows)
    base = beta[points // 2]
    scale = np.array([math.factorial(n) / half_span**n for n in range(5)])
    full, less = (
        np.polynomial.chebyshev.chebfit(x, beta - base, degree) for degree in (points - 1, points - 3)
    )
    taylor, coarser = (
        np.stack([np.polynomial.chebyshev.cheb2poly(c)[:5] for c in fit.T]) * scale for fit in (full, less)
    )
    error = np.abs(taylor - coarser)
    taylor[:, 0] += base
    return Dispersion(float(wavelength), centre, taylor, error, float(half_span))


def _guided_span(profile: Profile, omega0: float, spans: list[float], x: float, groups, step: float):
    """The widest span over which all wanted groups are guided, and the modes at its lowest frequency."""
    for span in spans:
        modes = solve_modes(profile, 2 * math.pi * SPEED_OF_LIGHT / (omega0 + span * x), step)
        if groups is None:
            return span, modes
        try:
            return span, modes.select(groups)
        except InputError as error:
            fault = error
    raise InputError(f"{fault} (over the whole span of the derivatives)")
