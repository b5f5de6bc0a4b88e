"""The same fibre, described at another frequency: its Taylor series of β(ω) about a new centre."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wavefabric.errors import InputError
from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.units import SPEED_OF_LIGHT, quantity

Array = NDArray[np.float64]


def shift_expansion(beta: ArrayLike, shift: float) -> Array:
    """Taylor coefficients of the same polynomial β(ω) about a centre that lies ``shift`` higher.

    β'_n = Σ_k β_{n+k} shift^k / k!, exact for the polynomial that the coefficients describe
    (G. P. Agrawal, Nonlinear Fiber Optics, section 2.3, for the series itself).

    Parameters
    ----------
    beta : array_like, shape (M, 4)
        β1 … β4 in s/m, s²/m, s³/m, s⁴/m.
    shift : float
        New centre minus old, rad/s.

    Returns
    -------
    ndarray, shape (M, 4)
        β1 … β4 about the new centre, in the frame of the old ones.
    """
    beta = np.asarray(beta, dtype=float)
    moved = np.zeros_like(beta)
    # Term by term, not as a matrix product: equal rows must stay equal to the last bit.
    for k in range(4):
        moved[:, : 4 - k] += beta[:, k:] * (shift**k / math.factorial(k))
    return moved


def at_frequency(fibre: Fibre, frequency: float | str) -> Fibre:
    """A fibre expanded at another optical frequency, as the centre of a WDM grid.

    β1 … β4 are those of the same polynomial β(ω) about the new centre. Since the frame moves with the
    fundamental mode, β1 of the first mode stays what it is, and those of the others follow from the
    difference. γ = n₂ω₀/(c₀A_eff) grows in proportion to the frequency. A_eff and κ stay as they are: how
    they depend on frequency is not known from one expansion (A_eff of a graded-index fibre falls by about
    1 % when the frequency rises by 1 %). A fibre from an index profile is better solved there anew.

    Parameters
    ----------
    fibre : Fibre
        Described at ``fibre.wavelength``.
    frequency : float or str
        Optical frequency of the new centre, Hz, or text with a unit.

    Returns
    -------
    Fibre
        With ``wavelength`` = c₀/frequency.

    Raises
    ------
    InputError
        If the frequency is not positive.
    """
    frequency = quantity(frequency, "Hz", "frequency")
    if not (math.isfinite(frequency) and frequency > 0):
        raise InputError(f"frequency: {frequency!r} Hz given; allowed: a positive optical frequency")
    before = SPEED_OF_LIGHT / fibre.wavelength
    beta = shift_expansion(fibre.beta, 2 * math.pi * (frequency - before))
    beta[:, 0] += fibre.beta[0, 0] - beta[0, 0]
    return replace(
        fibre, beta=beta, gamma=fibre.gamma * frequency / before, wavelength=SPEED_OF_LIGHT / frequency
    )
