"""Warnings of signals above what the grid carries, and of sound that absorbs or travels off its law."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from wavefabric.acoustics.arguments import real, require, typed
from wavefabric.acoustics.check.rules import PYTHON_NAMES
from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.medium import Medium, density_jump
from wavefabric.acoustics.parts import squared_slopes
from wavefabric.acoustics.problem import Problem, ProductSignal, Signal
from wavefabric.acoustics.solver.formulas import wavenumber_range
from wavefabric.acoustics.stability.power_law import PowerLaw

#: A share of a signal's energy above the limit that is said. Tone bursts that begin and end abruptly have
#: some 0.1 % of theirs far above their frequency.
FRACTION = 0.01
#: Samples, zeros included, of a block; and of all points that are looked at (about a second).
_BLOCK, _MOST = 1 << 22, 1 << 25
#: Signals of a source that are looked at for its frequency.
_SIGNALS = 64


def problem_warnings(problem: Problem, names: Mapping[str, str] | None = None, advice: str = "") -> list[str]:
    """A line for each source with frequencies that the grid lacks, for absorption off its law, and for a gas.

    ``names`` say what lines call each number, where that is not as in `PYTHON_NAMES`; ``advice`` follows the
    line about absorption.
    """
    names = {**PYTHON_NAMES, **(names or {})}
    lines = band_warnings(problem, names)
    if line := power_law_line(problem):
        lines.append(f"{names['alpha_power']}: {line}{advice}")
    densities = problem.density, problem.sound_speed, problem.density_staggered
    if jump := problem.fact("density jump", lambda: density_jump(*densities)):
        keeping = "layered_medium(..., kernel='geometric') and its like keep it"
        lines.append(f"{names['density']}: {jump}; {keeping}")
    return lines


@typed
def max_frequency(grid: Grid, medium: Medium, points_per_wavelength: float = 2.0) -> float:
    """Highest frequency, Hz, with so many grid points to its shortest wavelength along the widest spacing.

    `InputError`: not more than 0 points to a wavelength.
    """
    right = real(points_per_wavelength, "points_per_wavelength") > 0
    require(right, "points_per_wavelength", points_per_wavelength, "above 0")
    return medium.speeds[0] / (points_per_wavelength * max(grid.spacing))


def highest_frequency(problem: Problem) -> float:
    """Highest frequency, Hz, with two points to a wavelength: c_min / (2 max Δ), as `max_frequency`."""
    return problem.extremes.ranges["sound_speed"][0] / (2 * max(problem.spacing[: problem.dimensions]))


def band_warnings(problem: Problem, names: Mapping[str, str] = PYTHON_NAMES) -> list[str]:
    """One line for each source signal with more than `FRACTION` of its energy above the grid's limit.

    The energy is Σ |F{s}|² over the points of a source, with zeros before the samples s and, if they end
    before the run does, after them. A signal that goes on to the end of the run or beyond is mirrored at its
    end instead, since there it does not break off. Of very many points the strongest count alone.
    """
    c, spacing = problem.extremes.ranges["sound_speed"][0], max(problem.spacing[: problem.dimensions])
    limit, lines = highest_frequency(problem), []
    for key, signal, ends in source_signals(problem):
        energy, frequency = _spectrum(signal, ends, problem.dt, limit)
        above = np.where(frequency > limit, energy, 0.0)
        if not above.sum() > FRACTION * energy.sum():
            continue
        fraction = float(above.sum() / energy.sum())
        percentage = f"{100 * fraction:.3g} %" if fraction < 0.995 else "nearly all"
        mean = float(frequency @ above / above.sum())
        nearly = float(frequency[np.searchsorted(np.cumsum(energy), (1 - FRACTION) * energy.sum())])
        lines.append(
            f"{names[key]}: {percentage} of its energy lies above {limit / 1e6:.4g} MHz, the highest "
            f"frequency that the grid carries (two points per wavelength at {c:.4g} m/s, the smallest sound "
            f"speed, and a spacing of {spacing * 1e3:.4g} mm), at {mean / 1e6:.3g} MHz on average; use a "
            f"spacing of at most {c / (2 * nearly) * 1e3:.3g} mm, or a lower or filtered signal"
        )
    return lines


def source_signals(problem: Problem) -> Iterator[tuple[str, np.ndarray, bool]]:
    """Name and (samples, points) of each signal, and whether it ends before the run does."""
    pressure, velocity, transducer = problem.pressure_source, problem.velocity_source, problem.transducer
    signals: dict[str, Signal | None] = {}
    if pressure is not None:
        signals["pressure_source.signal"] = pressure.signal
    if velocity is not None:
        signals |= {f"velocity_source.signals.{a}": s for a, s in zip("xyz", velocity.signals, strict=False)}
    for key, signal in signals.items():
        if signal is not None:  # what it is made of, where that is known
            signal = signal.waveforms if isinstance(signal, ProductSignal) else signal
            yield key, signal, len(signal) < problem.steps
    if transducer is not None:
        yield "transducer.signal", transducer.signal[:, np.newaxis], transducer.steps < problem.steps


def _spectrum(signal: np.ndarray, ends: bool, dt: float, limit: float) -> tuple[np.ndarray, np.ndarray]:
    """Energy of all points, and the frequencies, Hz; nothing if such samples cannot pass the limit."""
    if 1 / (2 * dt) <= limit:
        return np.zeros(1), np.zeros(1)
    import scipy.fft  # late: building a problem should not pay for it

    if not (sounding := signal.any(axis=0)).all():  # of an array one element may fire alone
        signal = signal[:, sounding]
    samples, points = signal.shape
    samples = max(256, (2 if ends else 4) * samples)
    length: int = scipy.fft.next_fast_len(samples, real=True)  # type: ignore[assignment]  # typed as None
    if points * length > _MOST and points > 1:
        strength = np.einsum("ij,ij->j", signal, signal)
        most = max(1, _MOST // length)
        signal, points = signal[:, np.sort(np.argpartition(strength, -most)[-most:])], most
    frequency = scipy.fft.rfftfreq(length, dt)
    energy = np.zeros(frequency.size)
    columns = max(1, _BLOCK // length)
    for first in range(0, points, columns):
        block = signal[:, first : first + columns]
        block = block if ends else np.concatenate([block, block[::-1]])
        spectrum: Any = scipy.fft.rfft(block, length, axis=0)
        energy += np.sum(spectrum.real**2 + spectrum.imag**2, axis=1, dtype=np.float64)
    energy[1:] *= 2  # a real signal's frequency stands for two, but for 0
    return energy, frequency


def power_law_line(problem: Problem) -> str | None:
    """What a medium's absorption makes of the frequency of a source where that is most off the law; or None.

    The sound speed of a medium whose absorption goes with f^y is that at frequency 0 for y > 1, and at an
    infinite one for y < 1. The frequency of a source is the mean of its power spectrum; that of an initial
    pressure belongs to its root mean square wavenumber.
    """
    if problem.absorption == "none" or not problem.extremes.ranges["alpha_coeff"][1]:
        return None
    law = PowerLaw.strongest(problem)
    c = law.sound_speed
    # It goes one way with k: nothing to look for if it is small at both ends.
    if all(law.error(c * k / (2 * math.pi)) < 0.5 for k in wavenumber_range(problem)):
        return None
    frequencies = [_mean_frequency(signal, problem.dt) for _, signal, _ in source_signals(problem)]
    if problem.initial_pressure is not None:
        frequencies.append(c * _rms_wavenumber(problem) / (2 * math.pi))
    frequency = max((each for each in frequencies if each > 0), key=law.error, default=0.0)
    return law.line(frequency) if frequency and law.error(frequency) >= 1 else None


def _mean_frequency(signal: np.ndarray, dt: float) -> float:
    """Mean of the power spectrum apart from its constant, Hz; 0 for a constant."""
    some = np.asarray(signal[:, :: max(1, signal.shape[1] // _SIGNALS)], np.float64)
    power = np.sum(np.abs(np.fft.rfft(some - some.mean(axis=0), axis=0)) ** 2, axis=1)
    total = float(power.sum())
    return float(power @ np.fft.rfftfreq(len(some), dt)) / total if total else 0.0


def _rms_wavenumber(problem: Problem) -> float:
    """Root mean square |k| of the initial pressure, from differences of neighbours."""
    *squares, total = squared_slopes(np.ascontiguousarray(problem.initial_pressure))
    axes = zip(squares, problem.spacing, range(problem.dimensions), strict=False)
    square = sum(each / spacing**2 for each, spacing, _ in axes)
    return math.sqrt(square / total) if total else 0.0
