"""How far power-law absorption moves the speed of sound from the one given."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from wavefabric.acoustics.check.rules import PYTHON_NAMES
from wavefabric.acoustics.check.source_band import band_warnings, source_signals
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.operators import absorption_factors, disperses, wavenumber_range

#: A shift by this share of the sound speed is warned of.
WORTH_A_WARNING = 0.02
#: Signals of a source that are looked at.
_SIGNALS = 64


@dataclass(frozen=True)
class PhaseSpeedShift:
    """Phase speed at a source's frequency (Hz), and sound speed as it was given, m/s, where they differ most.

    ``alpha_coeff`` in dB/(MHz^y cm), ``alpha_power`` y.
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


def problem_warnings(problem: Problem, names: Mapping[str, str] | None = None, advice: str = "") -> list[str]:
    """A line for each source with frequencies that the grid lacks, and one for a shifted phase speed.

    ``names`` as in `band_warnings`; ``advice`` follows the shift.
    """
    shift = largest_shift(problem)
    key = {**PYTHON_NAMES, **(names or {})}["alpha_power"]
    return band_warnings(problem, names) + ([f"{key}: {shift}{advice}"] if shift else [])


def largest_shift(problem: Problem) -> PhaseSpeedShift | None:
    """The largest shift of the phase speed at the frequencies of a problem's sources; None below 2 %.

    Notes
    -----
    The sound speed of a medium whose absorption goes with f^y is that at frequency 0 for y > 1, and at an
    infinite one for y < 1; the shift goes with tan(πy/2), which has its pole at y = 1. The frequency of a
    source is the mean of its power spectrum; that of an initial pressure belongs to its root mean square
    wavenumber.
    """
    if not disperses(problem) or not np.any(problem.alpha_coeff):
        return None
    y = problem.alpha_power
    c, alpha = _most_dispersive_point(problem)
    eta = absorption_factors(problem)[1] * alpha * c**y
    # It goes one way with k: nothing to look for if it is small at both ends.
    if all(abs(_relative_speed(eta, y, k) - 1) < WORTH_A_WARNING / 2 for k in wavenumber_range(problem)):
        return None
    shifts = [PhaseSpeedShift(f, phase_speed(f, c, eta, y), c, alpha, y) for f in _frequencies(problem, c)]
    largest = max(shifts, key=lambda shift: abs(shift.phase_speed - c), default=None)
    return largest if largest is not None and abs(largest.phase_speed / c - 1) >= WORTH_A_WARNING else None


def phase_speed(frequency: float, sound_speed: float, eta: float, power: float) -> float:
    """ω/k with ω² = c₀² k² (1 − η k^(y−1)), the equation of state of the time step; 0 if nothing travels.

    η = 2 α₀ c₀^y tan(πy/2), α₀ in Np (rad/s)^−y m^−1 (Treeby & Cox 2010, doi:10.1121/1.3377056, eq. 9, 10).
    """
    omega = 2 * math.pi * frequency
    k = omega / sound_speed
    for _ in range(200):
        relative = _relative_speed(eta, power, k)
        if relative <= 0:
            return 0.0
        # Half way each time: it turns round its answer otherwise.
        k = 0.5 * (k + omega / (sound_speed * relative))
    return omega / k


def _relative_speed(eta: float, power: float, k: float) -> float:
    """Phase speed over c₀ at a wavenumber."""
    return math.sqrt(max(1 - eta * k ** (power - 1), 0.0))


def _most_dispersive_point(problem: Problem) -> tuple[float, float]:
    """Sound speed and absorption where α₀ c₀^y is largest."""
    c, alpha = np.asarray(problem.sound_speed), np.asarray(problem.alpha_coeff)
    product = np.asarray(alpha * c**problem.alpha_power)
    at = np.unravel_index(int(np.argmax(product)), product.shape)
    return float(np.broadcast_to(c, product.shape)[at]), float(np.broadcast_to(alpha, product.shape)[at])


def _frequencies(problem: Problem, c: float) -> list[float]:
    """Of each source that has one, Hz."""
    frequencies = [_mean_frequency(signal, problem.dt) for _, signal, _ in source_signals(problem)]
    if problem.initial_pressure is not None:
        frequencies.append(c * _rms_wavenumber(problem) / (2 * math.pi))
    return [f for f in frequencies if f > 0]


def _mean_frequency(signal: np.ndarray, dt: float) -> float:
    """Mean of the power spectrum apart from its constant, Hz; 0 for a constant."""
    some = np.asarray(signal[:, :: max(1, signal.shape[1] // _SIGNALS)], np.float64)
    power = np.sum(np.abs(np.fft.rfft(some - some.mean(axis=0), axis=0)) ** 2, axis=1)
    total = float(power.sum())
    return float(power @ np.fft.rfftfreq(len(some), dt)) / total if total else 0.0


def _rms_wavenumber(problem: Problem) -> float:
    """Root mean square |k| of the initial pressure, from differences of neighbours."""
    p0 = np.asarray(problem.initial_pressure)
    square = 0.0
    for axis in range(problem.dimensions):
        slope = np.diff(p0, axis=2 - axis)
        square += float(np.vdot(slope, slope)) / problem.spacing[axis] ** 2
    total = float(np.vdot(p0, p0))
    return math.sqrt(square / total) if total else 0.0
