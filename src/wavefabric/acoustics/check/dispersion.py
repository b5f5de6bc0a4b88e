"""How far power-law absorption moves the speed of sound from the one given."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.operators import absorption_factors, wavenumber_range

#: A shift by this part of the sound speed is warned of.
WORTH_A_WARNING = 0.02
#: Signals of a source that are looked at.
_SIGNALS = 64


@dataclass(frozen=True)
class Shift:
    """Phase speed at a source's frequency, where the medium shifts it most.

    Parameters
    ----------
    frequency : float
        Hz.
    phase_speed, sound_speed : float
        As it is there, and as it was given, m/s.
    alpha_coeff, alpha_power : float
        dB/(MHz^y cm), and y.
    """

    frequency: float
    phase_speed: float
    sound_speed: float
    alpha_coeff: float
    alpha_power: float

    def __str__(self) -> str:
        return (
            f"{self.alpha_power:g} with {self.alpha_coeff:.4g} dB/(MHz^y cm) makes sound of "
            f"{self.frequency / 1e6:.2g} MHz travel at {self.phase_speed:.0f} instead of "
            f"{self.sound_speed:.0f} m/s"
        )


def largest_shift(problem: Problem) -> Shift | None:
    """The largest shift of the phase speed at the frequencies of a problem's sources; None below 2 %.

    Parameters
    ----------
    problem : Problem
        Of the whole grid.

    Notes
    -----
    The sound speed of a medium whose absorption goes with f^y is that at frequency 0 for y > 1, and at an
    infinite one for y < 1; the shift goes with tan(πy/2), which has its pole at y = 1. The frequency of a
    source is the mean of its power spectrum; that of an initial pressure belongs to its root mean square
    wavenumber.
    """
    if problem.absorption != "power_law" or not problem.dispersion or not np.any(problem.alpha_coeff):
        return None
    y = problem.alpha_power
    c, alpha = _where_it_is_most(problem)
    eta = absorption_factors(problem)[1] * alpha * c**y
    # It goes one way with k: nothing to look for if it is small at both ends.
    if all(abs(_stretch(eta, y, k) - 1) < WORTH_A_WARNING / 2 for k in wavenumber_range(problem)):
        return None
    found = [Shift(f, phase_speed(f, c, eta, y), c, alpha, y) for f in _frequencies(problem, c)]
    most = max(found, key=lambda shift: abs(shift.phase_speed - c), default=None)
    return most if most is not None and abs(most.phase_speed / c - 1) >= WORTH_A_WARNING else None


def phase_speed(frequency: float, sound_speed: float, eta: float, power: float) -> float:
    """ω/k with ω² = c₀² k² (1 − η k^(y−1)), the equation of state of the time step; 0 if nothing travels.

    Parameters
    ----------
    frequency, sound_speed : float
        Hz, m/s.
    eta : float
        η = 2 α₀ c₀^y tan(πy/2), Np (rad/s)^−y m^−1 for α₀.
    power : float
        y.

    References
    ----------
    Treeby & Cox 2010, doi:10.1121/1.3377056, equations 9 and 10.
    """
    omega = 2 * math.pi * frequency
    k = omega / sound_speed
    for _ in range(200):
        stretch = _stretch(eta, power, k)
        if stretch <= 0:
            return 0.0
        # Half way each time: it turns round its answer otherwise.
        k = 0.5 * (k + omega / (sound_speed * stretch))
    return omega / k


def _stretch(eta: float, power: float, k: float) -> float:
    return math.sqrt(max(1 - eta * k ** (power - 1), 0.0))


def _where_it_is_most(problem: Problem) -> tuple[float, float]:
    """Sound speed and absorption where α₀ c₀^y is largest."""
    c, alpha = np.asarray(problem.sound_speed), np.asarray(problem.alpha_coeff)
    product = np.asarray(alpha * c**problem.alpha_power)
    at = np.unravel_index(int(np.argmax(product)), product.shape)
    return float(np.broadcast_to(c, product.shape)[at]), float(np.broadcast_to(alpha, product.shape)[at])


def _frequencies(problem: Problem, c: float) -> list[float]:
    """Of each source that has one, Hz."""
    signals = []
    if problem.pressure_source is not None:
        signals.append(problem.pressure_source.signal)
    if problem.velocity_source is not None:
        signals += [signal for signal in problem.velocity_source.signals if signal is not None]
    if problem.transducer is not None:
        signals.append(problem.transducer.signal[:, None])
    found = [_mean_frequency(signal, problem.dt) for signal in signals]
    if problem.initial_pressure is not None:
        found.append(c * _wavenumber(problem) / (2 * math.pi))
    return [f for f in found if f > 0]


def _mean_frequency(signal: np.ndarray, dt: float) -> float:
    """Mean of the power spectrum apart from its constant, Hz; 0 for a constant."""
    some = np.asarray(signal[:, :: max(1, signal.shape[1] // _SIGNALS)], np.float64)
    power = np.sum(np.abs(np.fft.rfft(some - some.mean(axis=0), axis=0)) ** 2, axis=1)
    total = float(power.sum())
    return float(power @ np.fft.rfftfreq(len(some), dt)) / total if total else 0.0


def _wavenumber(problem: Problem) -> float:
    """Root mean square |k| of the initial pressure, from differences of neighbours."""
    p0 = np.asarray(problem.initial_pressure)
    square = 0.0
    for axis in range(problem.dimensions):
        slope = np.diff(p0, axis=2 - axis)
        square += float(np.vdot(slope, slope)) / problem.spacing[axis] ** 2
    total = float(np.vdot(p0, p0))
    return math.sqrt(square / total) if total else 0.0
