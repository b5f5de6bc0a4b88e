"""Closed forms that the ultrasound solver is checked against; steady waves follow exp(+iωt)."""

import math

import numpy as np
from scipy.special import jv

from wavefabric.acoustics.focused_bowl import bowl_depth


def piston_on_axis(z, diameter, frequency, sound_speed):
    """Steady p/p₀ on the axis of a plane circular piston: e^{−ikz} − e^{−ik√(z² + a²)}.

    Pierce, Acoustics (2019), doi:10.1007/978-3-030-11214-1, section 5.7.
    """
    z = np.asarray(z, float)
    k = 2 * np.pi * frequency / sound_speed
    return np.exp(-1j * k * z) - np.exp(-1j * k * np.hypot(z, diameter / 2))


def rayleigh(axial, radial, diameter, frequency, sound_speed, radius=None, order=None):
    """Steady p/p₀ of a circular piston, or of a bowl of this radius, by quadrature of the Rayleigh integral.

    p/p₀ = (ik/2π) ∫ e^{−ikr}/r dA, by Gauss–Legendre points in area (``order`` of them) and equal angles
    around the axis. O'Neill 1949, doi:10.1121/1.1906542, equation 2.2.
    """
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


def shock_distance(amplitude, frequency, sound_speed, density, nonlinearity):
    """Distance at which a plane sine wave forms a shock: ρc³/(βωp₀), β = 1 + B/(2A); m.

    Hamilton & Blackstock, Nonlinear Acoustics (2008), chapter 4, equation 120.
    """
    beta = 1 + nonlinearity / 2
    return density * sound_speed**3 / (beta * 2 * np.pi * frequency * amplitude)


def fubini(sigma, harmonic):
    """Amplitude of a harmonic of a plane wave that was a sine, before it shocks (σ ≤ 1): 2 Jₙ(nσ)/(nσ).

    Hamilton & Blackstock, Nonlinear Acoustics (2008), chapter 4, equation 123; Fubini 1935.
    """
    argument = np.maximum(harmonic * np.asarray(sigma, float), 1e-12)  # The limit at 0: 1 for n = 1, else 0.
    return 2 * jv(harmonic, argument) / argument


def neper_coefficient(alpha_coeff, alpha_power):
    """α₀ in Np/m/(rad/s)^y of one in dB/(MHz^y cm): α(ω) = α₀ ω^y."""
    return 5 * np.log(10) * alpha_coeff / (2e6 * np.pi) ** alpha_power


def attenuation(frequency, alpha_coeff, alpha_power):
    """Power-law attenuation of amplitude, Np/m; ``alpha_coeff`` in dB/(MHz^y cm).

    Szabo 1994, doi:10.1121/1.410434.
    """
    omega = 2 * np.pi * np.asarray(frequency, float)
    return neper_coefficient(alpha_coeff, alpha_power) * omega**alpha_power


def phase_speed(frequency, sound_speed, alpha_coeff, alpha_power, reference_frequency=0.0):
    """Phase speed that power-law attenuation brings with it by causality, m/s; 0 < y < 3, y ≠ 1.

    1/c(ω) = 1/c_ref + α₀ tan(πy/2) (ω^{y−1} − ω_ref^{y−1}). Waters et al. 2000, doi:10.1121/1.429586;
    Treeby & Cox 2010, doi:10.1121/1.3377056, equation 6.
    """
    y = alpha_power
    omega = 2 * np.pi * np.asarray(frequency, float)
    omega_ref = 2 * np.pi * reference_frequency
    slope = neper_coefficient(alpha_coeff, y) * math.tan(np.pi * y / 2)
    return 1 / (1 / sound_speed + slope * (omega ** (y - 1) - omega_ref ** (y - 1)))


def dalembert(initial, x, t, sound_speed):
    """Pressure of a plane wave that starts at rest: ½ f(x − ct) + ½ f(x + ct)."""
    x = np.asarray(x, float)
    return (initial(x - sound_speed * t) + initial(x + sound_speed * t)) / 2
