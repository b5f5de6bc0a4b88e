"""Finds reasons to warn: signals above the grid's highest frequency, and absorption off its power law."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from wavefabric.acoustics.check.rules import PYTHON_NAMES
from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.medium import Medium, density_jump
from wavefabric.acoustics.problem import Problem, ProductSignal, Signal
from wavefabric.acoustics.setup_passes import host_kernels, partial_results
from wavefabric.acoustics.solver import kernels
from wavefabric.acoustics.solver.formulas import wavenumber_range
from wavefabric.acoustics.stability.power_law import PowerLaw
from wavefabric.base.arguments import real, typed
from wavefabric.base.errors import require

#: Fraction of a signal's energy above the limit that causes a warning. Tone bursts that begin and end
#: abruptly have some 0.1 % of their energy far above their frequency.
FRACTION = 0.01
#: Largest number of samples, zeros included, that are transformed at once, and in all (about a second).
_BLOCK, _MOST = 1 << 22, 1 << 25
#: Approximate number of signals of a source that determine its mean frequency.
_SIGNALS = 64


def problem_warnings(
    problem: Problem, names: Mapping[str, str] | None = None, advice: str = "", device: Any = None
) -> list[str]:
    """Return warnings of signals above the grid's highest frequency, inaccurate absorption and density jumps.

    ``names`` replaces entries of `PYTHON_NAMES` in messages; ``advice`` is the text that ends the warning of
    absorption. ``device`` is where the initial pressure is, None for the host.
    """
    names = {**PYTHON_NAMES, **(names or {})}
    lines = band_warnings(problem, names)
    if line := power_law_line(problem, device):
        lines.append(f"{names['alpha_power']}: {line}{advice}")
    densities = problem.density, problem.sound_speed, problem.density_staggered
    if jump := problem.fact("density jump", lambda: density_jump(*densities)):
        keeping = "layered_medium(..., kernel='geometric') and its like keep it"
        lines.append(f"{names['density']}: {jump}; {keeping}")
    return lines


@typed
def max_frequency(grid: Grid, medium: Medium, points_per_wavelength: float = 2.0) -> float:
    """Return the highest frequency, Hz, with ``points_per_wavelength`` grid points per wavelength.

    The smallest sound speed and the largest spacing count. `InputError`: the argument is not above 0.
    """
    right = real(points_per_wavelength, "points_per_wavelength") > 0
    require(right, "points_per_wavelength", points_per_wavelength, "above 0")
    return medium.speeds[0] / (points_per_wavelength * max(grid.spacing))


def highest_frequency(problem: Problem) -> float:
    """Return the grid's highest frequency, Hz, with two points per wavelength: c_min / (2 max Δ)."""
    return problem.extremes.ranges["sound_speed"][0] / (2 * max(problem.spacing[: problem.dimensions]))


def band_warnings(problem: Problem, names: Mapping[str, str] = PYTHON_NAMES) -> list[str]:
    """Return a warning for each source signal with over `FRACTION` of its energy above the grid's limit.

    The limit is the frequency of waves with two grid points per wavelength. The energy is Σ |F{s}|² over the
    signals s at the points of a source. Zeros are added before a signal and, if it ends before the run does,
    after it. A signal that lasts to the end of the run is mirrored at its end instead, since it does not stop
    abruptly there. If a source has very many points, only those with most energy count.
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
    """Yield three values for each source signal: its key in `PYTHON_NAMES`, its samples, and a bool.

    The samples are (steps, points); if points share signals, there is one column per shared signal. The bool
    says whether the signal ends before the run does.
    """
    pressure, velocity, transducer = problem.pressure_source, problem.velocity_source, problem.transducer
    signals: dict[str, Signal | None] = {}
    if pressure is not None:
        signals["pressure_source.signal"] = pressure.signal
    if velocity is not None:
        signals |= {f"velocity_source.signals.{a}": s for a, s in zip("xyz", velocity.signals, strict=False)}
    for key, signal in signals.items():
        if signal is not None:  # the waveforms of a `ProductSignal` suffice
            signal = signal.waveforms if isinstance(signal, ProductSignal) else signal
            yield key, signal, len(signal) < problem.steps
    if transducer is not None:
        yield "transducer.signal", transducer.signal[:, np.newaxis], transducer.steps < problem.steps


def _spectrum(signal: np.ndarray, ends: bool, dt: float, limit: float) -> tuple[np.ndarray, np.ndarray]:
    """Return a signal's energy at each frequency, summed over all points, and these frequencies, Hz.

    The signal (steps, points) has a sample every ``dt``, s; ``ends`` says that it ends before the run. If
    samples are too far apart for frequencies above ``limit``, Hz, both results are a single 0.
    """
    if 1 / (2 * dt) <= limit:
        return np.zeros(1), np.zeros(1)
    import scipy.fft  # late, because building a problem should not pay for this import

    if not (sounding := signal.any(axis=0)).all():  # often a single element of an array transmits
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
    energy[1:] *= 2  # negative frequencies of a real signal have the same energy
    return energy, frequency


def power_law_line(problem: Problem, device: Any = None) -> str | None:
    """Return a warning if absorption deviates from its power law at the frequency of a source; else None.

    ``device`` is where the initial pressure is, None for the host.

    The warning is for the source with the largest deviation. Its frequency is the mean of its power spectrum;
    for an initial pressure the root mean square wavenumber determines it. With absorption proportional to
    f^y, the medium's sound speed is that at frequency 0 for y > 1, and at infinite frequency for y < 1.
    """
    if problem.absorption == "none" or not problem.extremes.ranges["alpha_coeff"][1]:
        return None
    law = PowerLaw.strongest(problem)
    c = law.sound_speed
    # The error is monotonic in k: if it is small at both ends it is small everywhere.
    if all(law.error(c * k / (2 * math.pi)) < 0.5 for k in wavenumber_range(problem)):
        return None
    frequencies = [_mean_frequency(signal, problem.dt) for _, signal, _ in source_signals(problem)]
    if problem.initial_pressure is not None:
        frequencies.append(c * _rms_wavenumber(problem, device) / (2 * math.pi))
    frequency = max((each for each in frequencies if each > 0), key=law.error, default=0.0)
    return law.description(frequency) if frequency and law.error(frequency) >= 1 else None


def _mean_frequency(signal: np.ndarray, dt: float) -> float:
    """Return the mean frequency, Hz, of the power spectrum of a signal minus its mean; 0 for a constant."""
    samples = np.asarray(signal[:, :: max(1, signal.shape[1] // _SIGNALS)], np.float64)
    power = np.sum(np.abs(np.fft.rfft(samples - samples.mean(axis=0), axis=0)) ** 2, axis=1)
    total = float(power.sum())
    return float(power @ np.fft.rfftfreq(len(samples), dt)) / total if total else 0.0


def _rms_wavenumber(problem: Problem, device: Any = None) -> float:
    """Return the initial pressure's root mean square wavenumber, rad/m, from differences of neighbours.

    ``device`` is where the initial pressure is, None for the host.
    """
    p0, partials = problem.initial_pressure, partial_results(math.prod(problem.array_shape[:2]), 4)
    if device is None or isinstance(p0, np.ndarray):
        table = host_kernels(kernels.TABLE, problem.points)
        table.squared_slopes(partials, np.ascontiguousarray(p0), *problem.shape)
    else:
        there = device.asarray(partials)
        device.kernels(kernels.TABLE).squared_slopes(there, p0, *problem.shape)
        partials = device.to_host(there)
    *squares, total = partials.sum(axis=0)
    axes = zip(squares, problem.spacing, range(problem.dimensions), strict=False)
    square = sum(each / spacing**2 for each, spacing, _ in axes)
    return math.sqrt(square / total) if total else 0.0
