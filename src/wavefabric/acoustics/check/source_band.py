"""Whether a source's signals have frequencies that the grid does not carry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import scipy.fft

from wavefabric.acoustics.check.rules import PYTHON_NAMES
from wavefabric.acoustics.problem import Problem

#: A share of a signal's energy above the limit that is said. Tone bursts that begin and end abruptly have
#: some 0.1 % of theirs far above their frequency.
SHARE = 0.01
#: Samples, zeros included, of a block; and of all points that are looked at (about a second).
_BLOCK, _MOST = 1 << 22, 1 << 25


def highest_frequency(problem: Problem) -> float:
    """Highest frequency that the grid carries along each axis, Hz.

    Two points to a wavelength (Nyquist) at the smallest sound speed and along the widest spacing:
    c_min / (2 max Δ), the ``max_frequency`` of `wavefabric.acoustics.max_frequency`.
    """
    return float(np.min(problem.sound_speed)) / (2 * max(problem.spacing[: problem.dimensions]))


def band_warnings(problem: Problem, names: Mapping[str, str] | None = None) -> list[str]:
    """One line for each source signal with more than `SHARE` of its energy above the grid's limit.

    Parameters
    ----------
    problem : Problem
    names : mapping of str to str, optional
        What lines call each source; keys as in `wavefabric.acoustics.check.rules.PYTHON_NAMES`.

    Notes
    -----
    The energy is Σ |F{s}|² over the points of a source, with zeros before the samples s and, if they end
    before the run does, after them. A signal that goes on to the end of the run or beyond is mirrored at its
    end instead, since there it does not break off. Of very many points the strongest count alone.
    """
    names = {**PYTHON_NAMES, **(names or {})}
    limit = highest_frequency(problem)
    c, spacing = float(np.min(problem.sound_speed)), max(problem.spacing[: problem.dimensions])
    found = []
    for key, signal, ends in _signals(problem):
        energy, frequency = _spectrum(signal, ends, problem.dt, limit)
        above = np.where(frequency > limit, energy, 0.0)
        if not above.sum() > SHARE * energy.sum():
            continue
        share = float(above.sum() / energy.sum())
        mean = float(frequency @ above / above.sum())
        nearly = float(frequency[np.searchsorted(np.cumsum(energy), (1 - SHARE) * energy.sum())])
        found.append(
            f"{names[key]}: {_percent(share)} of its energy lies above {limit / 1e6:.4g} MHz, the highest "
            f"frequency that the grid carries (two points per wavelength at {c:.4g} m/s, the smallest sound "
            f"speed, and a spacing of {spacing * 1e3:.4g} mm), at {mean / 1e6:.3g} MHz on average; use a "
            f"spacing of at most {c / (2 * nearly) * 1e3:.3g} mm, or a lower or filtered signal"
        )
    return found


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %" if share < 0.995 else "nearly all"


def _signals(problem: Problem) -> Iterator[tuple[str, np.ndarray, bool]]:
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
        part = signal[:, first : first + columns]
        part = part if ends else np.concatenate([part, part[::-1]])
        spectrum: Any = scipy.fft.rfft(part, length, axis=0)
        energy += np.sum(spectrum.real**2 + spectrum.imag**2, axis=1, dtype=np.float64)
    energy[1:] *= 2  # a real signal's frequency stands for two, but for 0
    return energy, frequency
