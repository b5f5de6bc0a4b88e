"""How high a frequency the grid carries, and whether a source's signals go beyond it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.fft

from wavefabric.acoustics.check.rules import PYTHON_NAMES
from wavefabric.acoustics.problem import Problem
from wavefabric.errors import InputError
from wavefabric.units import show

if TYPE_CHECKING:
    from wavefabric.acoustics.grid import Grid
    from wavefabric.acoustics.medium import Medium

#: A share of a signal's energy above the limit that is said. Tone bursts that begin and end abruptly have
#: some 0.1 % of theirs far above their frequency.
SHARE = 0.01
#: Samples, zeros included, of a block; and of all points that are looked at (about a second).
_BLOCK, _MOST = 1 << 22, 1 << 25


def max_frequency(grid: Grid, medium: Medium, points_per_wavelength: float = 2.0) -> float:
    """Highest frequency, Hz, with so many grid points to its shortest wavelength along the widest spacing.

    Raises
    ------
    InputError
        If there are not more than 0 points to a wavelength.
    """
    if not points_per_wavelength > 0:
        raise InputError(f"points_per_wavelength: {show(points_per_wavelength)}; allowed: above 0")
    return medium.speeds[0] / (points_per_wavelength * max(grid.spacing))


def highest_frequency(problem: Problem) -> float:
    """Highest frequency, Hz, with two points to a wavelength: c_min / (2 max Δ), as `max_frequency`."""
    return float(np.min(problem.sound_speed)) / (2 * max(problem.spacing[: problem.dimensions]))


def band_warnings(problem: Problem, names: Mapping[str, str] | None = None) -> list[str]:
    """One line for each source signal with more than `SHARE` of its energy above the grid's limit.

    ``names`` say what lines call each source, where that is not as in `PYTHON_NAMES`. The energy is Σ |F{s}|²
    over the points of a source, with zeros before the samples s and, if they end before the run does, after
    them. A signal that goes on to the end of the run or beyond is mirrored at its end instead, since there it
    does not break off. Of very many points the strongest count alone.
    """
    names = {**PYTHON_NAMES, **(names or {})}
    limit = highest_frequency(problem)
    c, spacing = float(np.min(problem.sound_speed)), max(problem.spacing[: problem.dimensions])
    lines = []
    for key, signal, ends in source_signals(problem):
        energy, frequency = _spectrum(signal, ends, problem.dt, limit)
        above = np.where(frequency > limit, energy, 0.0)
        if not above.sum() > SHARE * energy.sum():
            continue
        share = float(above.sum() / energy.sum())
        mean = float(frequency @ above / above.sum())
        nearly = float(frequency[np.searchsorted(np.cumsum(energy), (1 - SHARE) * energy.sum())])
        lines.append(
            f"{names[key]}: {_percent(share)} of its energy lies above {limit / 1e6:.4g} MHz, the highest "
            f"frequency that the grid carries (two points per wavelength at {c:.4g} m/s, the smallest sound "
            f"speed, and a spacing of {spacing * 1e3:.4g} mm), at {mean / 1e6:.3g} MHz on average; use a "
            f"spacing of at most {c / (2 * nearly) * 1e3:.3g} mm, or a lower or filtered signal"
        )
    return lines


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %" if share < 0.995 else "nearly all"


def source_signals(problem: Problem) -> Iterator[tuple[str, np.ndarray, bool]]:
    """Name and (samples, points) of each signal, and whether it ends before the run does."""
    if problem.pressure_source is not None:
        signal = problem.pressure_source.signal
        yield "pressure_source.signal", signal, len(signal) < problem.steps
    if problem.velocity_source is not None:
        for axis, signal in zip("xyz", problem.velocity_source.signals, strict=False):
            if signal is not None:
                yield f"velocity_source.signals.{axis}", signal, len(signal) < problem.steps
    if problem.transducer is not None:
        source = problem.transducer
        yield "transducer.signal", source.signal[:, np.newaxis], source.steps < problem.steps


def _spectrum(signal: np.ndarray, ends: bool, dt: float, limit: float) -> tuple[np.ndarray, np.ndarray]:
    """Energy of all points, and the frequencies, Hz; nothing if such samples cannot pass the limit."""
    samples, points = signal.shape
    if 1 / (2 * dt) <= limit:
        return np.zeros(1), np.zeros(1)
    length: int = scipy.fft.next_fast_len(max(256, (2 if ends else 4) * samples), real=True)  # type: ignore[assignment]
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
