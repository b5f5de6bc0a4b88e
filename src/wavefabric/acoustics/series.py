"""Checks the shape and the sampling of recorded series, and interpolates them in time."""

import warnings
from typing import Any

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.runtime.device.user_arrays import real_array

#: Warn above this fraction of the energy in the highest tenth of the band up to the Nyquist frequency: such a
#: spectrum continues above the band, and aliasing is some 5 % of the signals (L2) or more.
_FRACTION, _HIGHEST = 0.005, 0.9


def check_series(values: Any, rows: int, key: str, *, shared: bool = False) -> np.ndarray:
    """Check time series, and return them as a real array (rows, steps).

    With ``shared`` a single series for all rows is allowed too, and is returned as (1, steps). `InputError`
    names ``key`` and the allowed shapes, and says if axes are in another order.
    """
    series = real_array(values, key)
    if shared and series.ndim == 1:
        series = series[np.newaxis]
    if series.ndim != 2 or not (len(series) == rows or (shared and len(series) == 1)) or not series.size:
        order = ""
        if series.ndim == 2 and series.shape[1] == rows:
            order = f"; its axes are in the other order: give {key}.T"
        elif series.ndim > 2:
            order = f"; the axes of points go into one, x fastest: {key}.reshape(-1, steps, order='F')"
        allowed = f"{'(steps,) or ' if shared else ''}({rows}, steps)"
        raise InputError(f"{key}: has the shape {np.shape(values)}; allowed: {allowed}{order}")
    return series


def densified(series: np.ndarray, factor: int) -> np.ndarray:
    """Interpolate time series (rows, steps) to ``factor`` times their sampling rate; return them as float64.

    The interpolation is band-limited. Each series is extended beyond its ends by its mirror image, to avoid
    jumps; for an initial pressure at rest this is exact at t = 0, p(−t) = p(t).
    """
    steps = series.shape[1]
    if factor == 1 or steps == 1:
        return series.astype(np.float64)
    result = np.empty((len(series), (steps - 1) * factor + 1))
    for row, spectrum in zip(result, map(_spectrum, series), strict=True):
        spectrum[-1] /= 2  # half of the Nyquist component belongs to the negative frequency
        samples: Any = np.fft.irfft(spectrum, 2 * (steps - 1) * factor)
        row[:] = factor * samples[: row.size]
    return result


def energy_above(series: np.ndarray, part: float) -> float:
    """Return the fraction of the energy of series (rows, steps) that lies at high frequencies.

    These are the frequencies above ``part`` times the Nyquist frequency.
    """
    energy = np.zeros(series.shape[1])
    for row in series:
        energy += np.abs(_spectrum(row)) ** 2
    energy[1:-1] *= 2  # negative frequencies of a real signal have the same energy
    high = energy[np.linspace(0, 1, energy.size) > part].sum()
    return float(high / energy.sum()) if high else 0.0


def warn_if_coarse(signals: np.ndarray, dt: float) -> None:
    """Warn if signals sampled every ``dt``, s, have energy near their Nyquist frequency."""
    fraction, nyquist = energy_above(signals, _HIGHEST), 0.5e-6 / dt
    if fraction > _FRACTION:
        warnings.warn(
            f"signals: {100 * fraction:.3g} % of their energy lies above {_HIGHEST * nyquist:.4g} MHz, near "
            f"{nyquist:.4g} MHz, where samples every {dt * 1e9:.4g} ns end: unless it is noise, what lies "
            "above is aliased, and the image wrong; record with a shorter time step",
            stacklevel=4,
        )


def _spectrum(row: np.ndarray) -> Any:
    """Return the one-sided spectrum of a series extended by its mirror image, with one value per sample."""
    return np.fft.rfft(np.concatenate([row, row[-2:0:-1]]).astype(np.float64))
