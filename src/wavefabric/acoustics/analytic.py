"""Closed forms that the ultrasound solver is checked against, and that place a transducer before a run.

Steady waves follow exp(+iωt): a wave that travels along +z is exp(−ikz). All in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wavefabric.errors import InputError

#: Decibels in one neper.
DB_PER_NEPER = 20 / math.log(10)


def _positive(**values: float) -> None:
    for key, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise InputError(f"{key}: {value:g} given; allowed: a finite number above 0")


# --- Transducers -------------------------------------------------------------------------------------


def bowl_depth(radius: float, diameter: float) -> float:
    """Depth of a spherical bowl from its rim to its apex, m.

    Parameters
    ----------
    radius, diameter : float
        Radius of curvature and diameter of the aperture, m.

    Raises
    ------
    InputError
        If a length is not positive, or the aperture is wider than the sphere.
    """
    _positive(radius=radius, diameter=diameter)
    if diameter > 2 * radius:
        raise InputError(
            f"diameter: {diameter:g} m; allowed: up to {2 * radius:g} m, twice the radius of curvature"
        )
    return radius - math.sqrt(radius**2 - (diameter / 2) ** 2)


def bowl_on_axis(z: Any, radius: float, diameter: float, frequency: float, sound_speed: float) -> np.ndarray:
    """Steady pressure on the axis of a focused bowl, as a multiple of its surface pressure ρcu.

    The Rayleigh integral over the bowl is p/p₀ = R/(R − z) (e^{−ikz} − e^{−ikB}), with
    B = √((z − h)² + a²) the distance to the rim. It is written here without the division by zero at the
    focus, by B − z = 2h(R − z)/(B + z).

    Parameters
    ----------
    z : array_like
        Distance from the apex of the bowl, m, at least 0.
    radius, diameter : float
        Radius of curvature R and aperture 2a, m.
    frequency, sound_speed : float
        Hz and m/s.

    Returns
    -------
    ndarray of complex128
        p/p₀; its magnitude is k h at the focus z = R.

    Raises
    ------
    InputError
        As `bowl_depth`, or for a frequency or speed that is not positive.

    References
    ----------
    O'Neill, J. Acoust. Soc. Am. 21, 516 (1949), doi:10.1121/1.1906542, equation 3.1.
    """
    _positive(frequency=frequency, sound_speed=sound_speed)
    h = bowl_depth(radius, diameter)
    z = np.asarray(z, float)
    k = 2 * np.pi * frequency / sound_speed
    rim = np.hypot(z - h, diameter / 2)
    half_phase = k * h * (radius - z) / (rim + z)
    sinc = np.sinc(half_phase / np.pi)
    return 2j * radius * k * h / (rim + z) * sinc * np.exp(-0.5j * k * (rim + z))


def piston_on_axis(z: Any, diameter: float, frequency: float, sound_speed: float) -> np.ndarray:
    """Steady pressure on the axis of a plane circular piston, as a multiple of its surface pressure ρcu.

    p/p₀ = e^{−ikz} − e^{−ik√(z² + a²)}.

    Parameters
    ----------
    z : array_like
        Distance from the piston, m, at least 0.
    diameter : float
        2a, m.
    frequency, sound_speed : float
        Hz and m/s.

    Returns
    -------
    ndarray of complex128

    Raises
    ------
    InputError
        For a length, frequency or speed that is not positive.

    References
    ----------
    Pierce, Acoustics (2019), doi:10.1007/978-3-030-11214-1, section 5.7.
    """
    _positive(diameter=diameter, frequency=frequency, sound_speed=sound_speed)
    z = np.asarray(z, float)
    k = 2 * np.pi * frequency / sound_speed
    return np.exp(-1j * k * z) - np.exp(-1j * k * np.hypot(z, diameter / 2))


def rayleigh(
    axial: Any,
    radial: Any,
    diameter: float,
    frequency: float,
    sound_speed: float,
    radius: float | None = None,
    order: int | None = None,
) -> np.ndarray:
    """Steady pressure of a circular piston or bowl anywhere, by quadrature of the Rayleigh integral.

    p/p₀ = (ik/2π) ∫ e^{−ikr}/r dA, by Gauss–Legendre points in area and equal angles around the axis.

    Parameters
    ----------
    axial, radial : array_like
        Distance from the apex along the axis and from the axis, m; broadcast together.
    diameter : float
        Of the aperture, m.
    frequency, sound_speed : float
        Hz and m/s.
    radius : float, optional
        Radius of curvature of a bowl, m; a plane piston without it.
    order : int, optional
        Points across the aperture and twice as many around the axis; enough for a field a wavelength or
        more from the surface if not given.

    Returns
    -------
    ndarray of complex128
        p/p₀ in the broadcast shape.

    Raises
    ------
    InputError
        For lengths, a frequency or a speed that make no sense.

    References
    ----------
    O'Neill 1949, doi:10.1121/1.1906542, equation 2.2.
    """
    _positive(diameter=diameter, frequency=frequency, sound_speed=sound_speed)
    k = 2 * np.pi * frequency / sound_speed
    a = diameter / 2
    order = order or 32 + 2 * math.ceil(k * a)
    node, weight = np.polynomial.legendre.leggauss(order)
    node, weight = (node + 1) / 2, weight / 2
    phi = (np.arange(2 * order) + 0.5) * np.pi / (2 * order)  # The other half is its mirror image.
    if radius is None:
        across, height = a * np.sqrt(node), np.zeros(order)
        area = np.pi * a**2
    else:
        height = bowl_depth(radius, diameter) * node  # Equal steps of height are equal areas of a sphere.
        across = np.sqrt(height * (2 * radius - height))
        area = 2 * np.pi * radius * bowl_depth(radius, diameter)
    axial, radial = np.broadcast_arrays(np.asarray(axial, float), np.asarray(radial, float))
    flat = np.empty(axial.size, complex)
    for i, (z, x) in enumerate(zip(axial.ravel(), radial.ravel(), strict=True)):
        square = across**2 + x**2 + (z - height) ** 2
        r = np.sqrt(square[:, None] - 2 * x * across[:, None] * np.cos(phi))
        flat[i] = weight @ np.mean(np.exp(-1j * k * r) / r, axis=1)
    return (1j * k * area / (2 * np.pi) * flat).reshape(axial.shape)


# --- Nonlinear plane waves ---------------------------------------------------------------------------


def shock_distance(
    amplitude: float, frequency: float, sound_speed: float, density: float, nonlinearity: float
) -> float:
    """Distance at which a plane sine wave forms a shock: ρc³/(βωp₀), β = 1 + B/(2A); m.

    Parameters
    ----------
    amplitude, frequency, sound_speed, density : float
        Pressure at the source, Pa; Hz; m/s; kg/m³.
    nonlinearity : float
        B/A.

    References
    ----------
    Hamilton & Blackstock, Nonlinear Acoustics (2008), chapter 4, equation 120.
    """
    beta = 1 + nonlinearity / 2
    return density * sound_speed**3 / (beta * 2 * np.pi * frequency * amplitude)


def fubini(sigma: Any, harmonic: int) -> np.ndarray:
    """Amplitude of a harmonic of a plane wave that was a sine, before it shocks: 2 Jₙ(nσ)/(nσ).

    Parameters
    ----------
    sigma : array_like
        Distance as a part of the `shock_distance`, 0 ≤ σ ≤ 1.
    harmonic : int
        n, 1 for the fundamental.

    Returns
    -------
    ndarray of float64
        Amplitude as a part of the source's.

    Raises
    ------
    InputError
        Beyond the shock, or for a harmonic below 1.

    References
    ----------
    Hamilton & Blackstock, Nonlinear Acoustics (2008), chapter 4, equation 123; Fubini 1935.
    """
    from scipy.special import jv

    sigma = np.asarray(sigma, float)
    if harmonic < 1:
        raise InputError(f"harmonic: {harmonic} given; allowed: 1, 2, …")
    if np.any((sigma < 0) | (sigma > 1)):
        raise InputError("sigma: lies outside 0 … 1; the solution holds before the shock only")
    argument = np.maximum(harmonic * sigma, 1e-12)  # The limit at 0: 1 for n = 1, otherwise 0.
    return 2 * jv(harmonic, argument) / argument


# --- Absorption --------------------------------------------------------------------------------------


def neper_coefficient(alpha_coeff: float, alpha_power: float) -> float:
    """α₀ in Np/m/(rad/s)^y of one in dB/(MHz^y cm): α(ω) = α₀ ω^y."""
    return 100 * alpha_coeff / DB_PER_NEPER / (2e6 * np.pi) ** alpha_power


def attenuation(frequency: Any, alpha_coeff: float, alpha_power: float) -> np.ndarray:
    """Power-law attenuation of amplitude, Np/m.

    Parameters
    ----------
    frequency : array_like
        Hz.
    alpha_coeff, alpha_power : float
        dB/(MHz^y cm), and y.

    References
    ----------
    Szabo, J. Acoust. Soc. Am. 96, 491 (1994), doi:10.1121/1.410434.
    """
    omega = 2 * np.pi * np.asarray(frequency, float)
    return neper_coefficient(alpha_coeff, alpha_power) * omega**alpha_power


def phase_speed(
    frequency: Any,
    sound_speed: float,
    alpha_coeff: float,
    alpha_power: float,
    reference_frequency: float = 0.0,
) -> np.ndarray:
    """Phase speed that power-law attenuation brings with it by causality, m/s.

    1/c(ω) = 1/c_ref + α₀ tan(πy/2) (ω^{y−1} − ω_ref^{y−1}), for 0 < y < 3, y ≠ 1.

    Parameters
    ----------
    frequency : array_like
        Hz.
    sound_speed : float
        At the reference frequency, m/s.
    alpha_coeff, alpha_power : float
        dB/(MHz^y cm), and y.
    reference_frequency : float
        Hz; 0 only for y > 1.

    Raises
    ------
    InputError
        For a power that the formula does not cover.

    References
    ----------
    Waters et al., J. Acoust. Soc. Am. 108, 556 (2000), doi:10.1121/1.429586; Treeby & Cox 2010,
    doi:10.1121/1.3377056, equation 6.
    """
    y = alpha_power
    if not 0 < y < 3 or y == 1 or (y < 1 and reference_frequency == 0):
        raise InputError(f"alpha_power: {y:g} given; allowed: above 0, below 3, not 1; above 1 from 0 Hz")
    omega = 2 * np.pi * np.asarray(frequency, float)
    omega_ref = 2 * np.pi * reference_frequency
    bend = neper_coefficient(alpha_coeff, y) * math.tan(np.pi * y / 2)
    return 1 / (1 / sound_speed + bend * (omega ** (y - 1) - omega_ref ** (y - 1)))


# --- Plane waves -------------------------------------------------------------------------------------


def dalembert(
    initial: Callable[[np.ndarray], np.ndarray], x: Any, t: float, sound_speed: float
) -> np.ndarray:
    """Pressure of a plane wave that starts at rest: ½ f(x − ct) + ½ f(x + ct).

    Parameters
    ----------
    initial : callable
        f, the pressure at t = 0, Pa, of a position in m.
    x : array_like
        m.
    t, sound_speed : float
        s, m/s.

    References
    ----------
    d'Alembert 1747; Morse & Ingard, Theoretical Acoustics (1968), chapter 4.1.
    """
    x = np.asarray(x, float)
    return (initial(x - sound_speed * t) + initial(x + sound_speed * t)) / 2
