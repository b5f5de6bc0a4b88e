"""Spectral operators of the time step: derivatives on the staggered grid and the k-space correction κ.

κ = sinc(c_ref |k| Δt/2) makes the step exact in a uniform medium (Tabei, Mast & Waag 2002,
doi:10.1121/1.1421344; Treeby & Cox 2010, doi:10.1117/1.3360308).
"""

from __future__ import annotations

import math
from itertools import islice

import numpy as np

from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.problem import Problem
from wavefabric.spectral.wavenumbers import derivative, translation

#: Kinds of functions of |k| that ``fill_operator`` knows.
SINC, COS, POWER = 0, 1, 2


def kappa_scale(problem: Problem) -> float:
    """c_ref Δt/2, m: κ is sinc of it times |k|; cos of the same corrects additive sources."""
    return problem.reference_speed * problem.dt / 2


def wavenumber_range(problem: Problem) -> tuple[float, float]:
    """Smallest and largest |k| on the grid, rad/m, apart from 0."""
    axes = list(zip(problem.shape, problem.spacing, strict=True))[: problem.dimensions]
    steps = [2 * math.pi / (n * spacing) for n, spacing in axes]
    return min(steps), math.hypot(*(step * (n // 2) for step, (n, _) in zip(steps, axes, strict=True)))


def derivatives(problem: Problem, sign: int, subdomain: Subdomain | None = None) -> list[np.ndarray]:
    """i k e^{±i k Δ/2} of every axis: to the staggered points (+) and back (−); x is the half spectrum."""
    return _along_axes(derivative, problem, sign, subdomain)


def unstaggering(problem: Problem, subdomain: Subdomain | None = None) -> list[np.ndarray]:
    """e^{−i k Δ/2} of every axis: velocities from the staggered points to those of the pressure."""
    return _along_axes(translation, problem, -1, subdomain)


def _along_axes(factor, problem: Problem, sign: int, subdomain: Subdomain | None) -> list[np.ndarray]:
    """``factor`` of half a spacing for every axis of the basis, where the subdomain holds the spectrum."""
    subdomain, d = subdomain or Subdomain.whole(problem.shape), problem.dimensions
    return [
        subdomain.spectrum(factor(n, spacing, sign * spacing / 2), axis).copy()
        for axis, (n, spacing) in enumerate(islice(zip(subdomain.basis, problem.spacing, strict=True), d))
    ]
