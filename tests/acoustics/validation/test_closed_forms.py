"""Closed forms, each against another way to the same number."""

import closed_forms
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

from wavefabric.acoustics import focused_bowl
from wavefabric.base.errors import InputError

RADIUS, DIAMETER, FREQUENCY, SPEED = 64e-3, 64e-3, 500e3, 1500.0


def test_bowl_on_axis_is_the_rayleigh_integral():
    z = np.array([2e-3, 20e-3, 50e-3, 63.9e-3, 64e-3, 64.1e-3, 90e-3])
    closed = focused_bowl.bowl_on_axis(z, RADIUS, DIAMETER, FREQUENCY, SPEED)
    integral = closed_forms.rayleigh(z, 0.0, DIAMETER, FREQUENCY, SPEED, radius=RADIUS)
    np.testing.assert_allclose(closed, integral, rtol=1e-9)


def test_bowl_gains_kh_at_its_focus():
    k = 2 * np.pi * FREQUENCY / SPEED
    gain = abs(focused_bowl.bowl_on_axis(RADIUS, RADIUS, DIAMETER, FREQUENCY, SPEED))
    assert gain == pytest.approx(k * focused_bowl.bowl_depth(RADIUS, DIAMETER), rel=1e-12)


def test_bowl_matches_the_textbook_form_off_the_focus():
    z = np.array([10e-3, 40e-3, 100e-3])
    k = 2 * np.pi * FREQUENCY / SPEED
    rim = np.hypot(z - focused_bowl.bowl_depth(RADIUS, DIAMETER), DIAMETER / 2)
    textbook = 2 / abs(1 - z / RADIUS) * abs(np.sin(k * (rim - z) / 2))
    result = abs(focused_bowl.bowl_on_axis(z, RADIUS, DIAMETER, FREQUENCY, SPEED))
    np.testing.assert_allclose(result, textbook, rtol=1e-12)


def test_piston_on_axis_is_the_rayleigh_integral():
    z = np.array([1.5e-3, 10e-3, 60e-3, 300e-3])
    closed = closed_forms.piston_on_axis(z, 20e-3, FREQUENCY, SPEED)
    np.testing.assert_allclose(closed, closed_forms.rayleigh(z, 0.0, 20e-3, FREQUENCY, SPEED), rtol=1e-9)


def test_piston_far_field_has_the_bessel_directivity():
    from scipy.special import jv

    k, a, far = 2 * np.pi * FREQUENCY / SPEED, 5e-3, 50.0
    angle = np.array([0.05, 0.2, 0.5, 1.0])
    result = abs(closed_forms.rayleigh(far * np.cos(angle), far * np.sin(angle), 2 * a, FREQUENCY, SPEED))
    ka = k * a * np.sin(angle)
    np.testing.assert_allclose(result, k * a**2 / (2 * far) * abs(2 * jv(1, ka) / ka), rtol=2e-5)


@pytest.mark.slow
def test_quadrature_of_the_rayleigh_integral_has_converged_off_axis():
    where = (np.array([30e-3, 62e-3]), np.array([8e-3, 3e-3]))
    once = closed_forms.rayleigh(*where, DIAMETER, FREQUENCY, SPEED, radius=RADIUS)
    finer = closed_forms.rayleigh(*where, DIAMETER, FREQUENCY, SPEED, radius=RADIUS, order=300)
    np.testing.assert_allclose(once, finer, rtol=1e-10)


@pytest.mark.parametrize("sigma", [0.05, 0.4, 0.8, 0.99])
def test_fubini_is_the_spectrum_of_the_inverted_poisson_solution(sigma):
    # p = sin(θ + σ p), inverted point by point; its Fourier coefficients by FFT.
    theta = 2 * np.pi * np.arange(4096) / 4096
    wave = [brentq(lambda p, t=t: p - np.sin(t + sigma * p), -1.1, 1.1, xtol=1e-14) for t in theta]
    spectrum = 2 * np.abs(np.fft.rfft(wave)) / theta.size
    result = [float(closed_forms.fubini(sigma, n)) for n in range(1, 6)]
    np.testing.assert_allclose(result, spectrum[1:6], atol=2e-7)


def test_fubini_starts_from_the_fundamental_alone():
    assert closed_forms.fubini(0.0, 1) == pytest.approx(1)
    assert closed_forms.fubini(0.0, 2) == pytest.approx(0, abs=1e-11)


def test_shock_forms_where_the_poisson_solution_turns_vertical():
    # A point of the wave travels at c + βp/(ρc): neighbours on the steepest slope meet at the shock.
    p0, f, c, rho, b_over_a = 2e6, 1e6, 1480.0, 998.0, 5.2
    gain = (1 + b_over_a / 2) / (rho * c**3)  # d(arrival time)/(dp dx), negative
    distance = closed_forms.shock_distance(p0, f, c, rho, b_over_a)
    assert gain * 2 * np.pi * f * p0 * distance == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("y", [0.7, 1.1, 1.5, 2.0])
def test_attenuation_is_the_coefficient_at_one_megahertz(y):
    result = closed_forms.attenuation(np.array([1e6, 3e6]), 0.75, y)  # Np/m
    decibels = 20 * np.log10(np.exp(result * 0.01))  # over 1 cm
    np.testing.assert_allclose(decibels, 0.75 * np.array([1, 3.0**y]), rtol=1e-12)


@pytest.mark.parametrize("y", [1.1, 1.5, 1.9])
def test_dispersion_follows_from_attenuation_by_kramers_and_kronig(y):
    # 1/c(ω) − 1/c(ω₀) = −2/π PV∫ α(s) (1/(s² − ω₀²) − 1/(s² − ω²)) ds, s in units of ω₀, by quadrature with
    # Cauchy weights (O'Donnell, Jaynes & Miller 1981, doi:10.1121/1.386919, once subtracted).
    ratio, alpha0, w0 = 2.0, closed_forms.neper_coefficient(0.5, y), 2 * np.pi * 1e6

    def pole(at):  # PV∫₀^top s^y/(s²-at²) ds
        return quad(lambda s: s**y / (s + at), 0, top, weight="cauchy", wvar=at, limit=400)[0]

    top = 2000.0
    # Beyond `top` both integrands agree to (ratio² - 1) s^{y-4}.
    tail = (ratio**2 - 1) * top ** (y - 3) / (3 - y)
    kronig = -2 / np.pi * alpha0 * w0 ** (y - 1) * (pole(1.0) - pole(ratio) - tail)
    c0 = 1500.0
    closed = 1 / closed_forms.phase_speed(ratio * 1e6, c0, 0.5, y, 1e6) - 1 / c0
    assert closed == pytest.approx(kronig, rel=1e-3)


def test_speed_rises_with_frequency_but_not_for_y_2():
    f = np.array([1e6, 4e6])
    assert np.all(np.diff(closed_forms.phase_speed(f, 1500.0, 0.5, 1.4)) > 0)
    assert np.ptp(closed_forms.phase_speed(f, 1500.0, 0.5, 2.0)) < 1e-9


def test_dalembert_obeys_the_wave_equation():
    def pulse(x):
        return np.exp(-((x / 1e-3) ** 2))

    x, t, c, h = np.linspace(-5e-3, 5e-3, 11), 1.1e-6, 1500.0, 2e-5

    def second(f):
        return (f(h) - 2 * f(0.0) + f(-h)) / h**2

    in_time = second(lambda s: closed_forms.dalembert(pulse, x, t + s / c, c))
    in_space = second(lambda s: closed_forms.dalembert(pulse, x + s, t, c))
    np.testing.assert_allclose(in_time, in_space, atol=1e-3 * np.abs(in_space).max())
    np.testing.assert_allclose(closed_forms.dalembert(pulse, x, 0.0, c), pulse(x))


@pytest.mark.parametrize(
    ("call", "key"),
    [
        (lambda: focused_bowl.bowl_depth(10e-3, 30e-3), "diameter: "),
        (lambda: focused_bowl.bowl_depth(-1.0, 1.0), "radius: "),
        (lambda: focused_bowl.bowl_on_axis(1e-3, 1.0, 1.0, 0.0, 1500.0), "frequency: "),
        (lambda: focused_bowl.bowl_on_axis(1e-3, 1.0, 1.0, 1e6, float("nan")), "sound_speed: "),
    ],
)
def test_bad_values_are_named(call, key):
    with pytest.raises(InputError, match=f"^{key}"):
        call()
