"""Formulas of the time step: derivatives, k-space correction κ, PML factors, power-law absorption.

κ = sinc(c_ref |k| Δt/2) makes the step exact in a uniform medium; the perfectly matched layer (PML) damps
velocities and split densities (Tabei, Mast & Waag 2002, doi:10.1121/1.1421344; Treeby & Cox 2010,
doi:10.1117/1.3360308). Absorption uses fractional Laplacians, |k|^(y−2) for the loss and |k|^(y−1) for the
dispersion (Treeby & Cox 2010, doi:10.1121/1.3377056).
"""

import math
from itertools import islice

import numpy as np

from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.problem import Problem
from wavefabric.runtime.spectral import symmetric
from wavefabric.runtime.spectral.wavenumbers import derivative, squared, translation

#: Kinds of functions of |k| that ``fill_operator`` knows.
SINC, COS, POWER = 0, 1, 2


def kappa_scale(problem: Problem) -> float:
    """Return a = c_ref Δt/2, m, the scale of the k-space corrections; 0 without them.

    κ = sinc(a |k|) corrects the derivatives, and cos(a |k|) the additive sources.
    """
    return problem.reference_speed * problem.dt / 2 if problem.k_space else 0.0


def wavenumber_range(problem: Problem) -> tuple[float, float]:
    """Return the smallest and the largest |k| on the grid, rad/m, excluding 0."""
    axes = list(zip(problem.shape, problem.spacing, strict=True))[: problem.dimensions]
    if problem.axisymmetric:  # as on a grid mirrored about the axis
        axes[1] = (2 * axes[1][0], axes[1][1])
    steps = [2 * math.pi / (n * spacing) for n, spacing in axes]
    return min(steps), math.hypot(*(step * (n // 2) for step, (n, _) in zip(steps, axes, strict=True)))


def squares(problem: Problem, basis: tuple[int, int, int]) -> list[np.ndarray]:
    """Return k² along each axis of a Fourier basis; along x only for k ≥ 0, as in a half spectrum."""
    axes = list(squared(basis, problem.spacing))
    if problem.axisymmetric:
        axes[1] = symmetric.wavenumbers(basis[1], problem.spacing[1]) ** 2
    return axes


def derivatives(problem: Problem, sign: int, subdomain: Subdomain | None = None) -> list[np.ndarray]:
    """Return the spectral factors i k e^{±i k Δ/2} of a derivative along each axis.

    The derivative is taken at the staggered points (``sign`` +1), or back at the pressure points (−1).
    """
    return _along_axes(derivative, problem, sign, subdomain)


def unstaggering(problem: Problem, subdomain: Subdomain | None = None) -> list[np.ndarray]:
    """Return the spectral factors e^{−i k Δ/2} along each axis, which move velocities to pressure points."""
    return _along_axes(translation, problem, -1, subdomain)


def _along_axes(factor, problem: Problem, sign: int, subdomain: Subdomain | None) -> list[np.ndarray]:
    """Evaluate a spectral factor, the function ``factor(n, spacing, shift)``, along each axis of the grid.

    The shift is ``sign`` half spacings, or 0 on a grid that is not staggered. Only the subdomain's part of
    the spectrum is returned.
    """
    subdomain, d = subdomain or Subdomain.whole(problem.shape, problem.stacked), problem.dimensions
    half = sign / 2 if problem.staggered else 0.0
    factors = [
        subdomain.spectrum(factor(n, spacing, half * spacing), axis).copy()
        for axis, (n, spacing) in enumerate(islice(zip(subdomain.basis, problem.spacing, strict=True), d))
    ]
    if problem.axisymmetric:
        # The transforms themselves move from whole to half points: cos' = −k sin, sin' = k cos.
        k = symmetric.wavenumbers(subdomain.basis[1], problem.spacing[1])
        radial = -sign * k if factor is derivative else np.ones_like(k)
        factors[1] = subdomain.spectrum(radial, 1).astype(complex)
    return factors


def pml(
    n: int, size: int, alpha: float, speed: float, spacing: float, dt: float, *, staggered: bool, first=True
):
    """Return the factors of the PML along one axis, shape (n,); each update applies them twice.

    The factor is exp(−Δt/2 · α c_ref/Δx · d⁴), with d from 1 at the outer edge to 0 at the inner one (Tabei,
    Mast & Waag 2002, doi:10.1121/1.1421344; Treeby & Cox 2010, eq. (14)). The layer is at the last points
    and, if ``first``, also at the first points.
    """
    factor = np.ones(n)
    if size:
        i = np.arange(size) + (0.5 if staggered else 0.0)
        strength = dt / 2 * alpha * speed / spacing
        if first:
            factor[:size] = np.exp(-strength * ((i - size) / -size) ** 4)
        factor[n - size :] = np.exp(-strength * ((i + 1) / size) ** 4)
    return factor


def on_axis(problem: Problem, axis: int) -> bool:
    """Return whether an axis of the grid begins at the axis of symmetry, where there is no PML."""
    return problem.axisymmetric and axis == 1


def pml_factors(problem: Problem, staggered: bool, subdomain: Subdomain | None = None) -> list[np.ndarray]:
    """Return the factors `pml` of the whole grid's layers along each axis, at the points of a subdomain."""
    subdomain = subdomain or Subdomain.whole(problem.shape, problem.stacked)
    c_ref, dt = problem.reference_speed, problem.dt
    layers = zip(subdomain.shape, problem.pml_size, problem.pml_alpha, problem.spacing, strict=True)
    return [
        pml(
            *(n, size, alpha, c_ref, spacing, dt),
            staggered=staggered and problem.staggered,
            first=not on_axis(problem, axis),
        )[subdomain.indices(axis)]
        for axis, (n, size, alpha, spacing) in enumerate(islice(layers, problem.dimensions))
    ]


def neper_coefficient(power: float) -> float:
    """Return one dB/(MHz^y cm) in Np/(m (rad/s)^y), for y = ``power`` (Treeby & Cox 2010, after eq. (8))."""
    return 100 * (1e-6 / (2 * math.pi)) ** power / (20 * math.log10(math.e))


def disperses(problem: Problem) -> bool:
    """Return whether absorption makes the sound speed depend on frequency."""
    return problem.absorption == "power_law" and problem.dispersion


def absorption_factors(problem: Problem) -> tuple[float, float]:
    """Return factors a and b of the absorption τ = a α₀ c₀^(y−1) and the dispersion η = b α₀ c₀^y.

    Treeby & Cox 2010, eq. (10). Without dispersion b is 0.
    """
    y = problem.alpha_power
    twice = 2 * neper_coefficient(y)
    return -twice, twice * math.tan(math.pi * y / 2) if disperses(problem) else 0.0


def eta_factor(problem: Problem) -> float:
    """Return η/(τ c₀) = −tan(πy/2), which is the same at all points; 0 without dispersion."""
    return -math.tan(math.pi * problem.alpha_power / 2) if disperses(problem) else 0.0
