"""Forms B-mode images from signals that elements receive: beamforming, envelope, compression, gain.

>>> lines = delay_and_sum(signals, array.centres, points, dt=dt, sound_speed=1540, sent=sent)
>>> image = log_compress(abs(lines), 50)
"""

import math
import warnings
from typing import Any

import numpy as np
import scipy.fft

from wavefabric.acoustics.series import check_series, densified, energy_above, warn_if_coarse
from wavefabric.base.arguments import positive, real
from wavefabric.base.errors import InputError, require
from wavefabric.runtime.device.user_arrays import as_array, real_array

#: Largest number of samples, points times elements, in memory at once.
_BLOCK = 1 << 21
#: Largest fraction of the signals' energy at fewer than 16 samples per period with cubic interpolation, whose
#: error is 0.05 % at 16 samples per period, and 12 % at 4.
_RARE = 0.001


def delay_and_sum(
    signals: Any,
    centres: Any,
    points: Any,
    *,
    dt: float | str,
    sound_speed: float | str,
    sent: Any = 0.0,
    f_number: float | None = None,
    apodization: Any = None,
) -> np.ndarray:
    """Return the echo of each point by receive beamforming, complex128 (…); its magnitude is the envelope.

    The echo is Σ w_e s_e(sent + |point − centre_e|/c) with analytic signals s_e, interpolated cubically, and
    weights that sum to one. Signals with fewer than 16 samples per period are first resampled to a
    shorter time step by band-limited interpolation. Warns if their spectrum reaches their Nyquist frequency.
    `InputError`: shapes do not fit together, or numbers are out of range.

    Parameters
    ----------
    signals : array_like, shape (elements, steps)
        Signal that each element receives (`Sensor.elements`), real.
    centres : array_like, shape (elements, dimensions)
        Centres of the elements, m: `TransducerMask.centres`.
    points : array_like, shape (…, dimensions)
        Imaged points, m: of a scan line, or of a whole image.
    dt, sound_speed : float or str
        Time step of the signals, s, and sound speed for the delays, m/s.
    sent : float or array_like, shape (…)
        Time at which the middle of the transmitted pulse reaches each point, s.
    f_number : float, optional
        Depth of a point over the width of the aperture that receives it; depths are along x. An element whose
        distance from the point across x exceeds half that width is left out. Default: all elements count.
    apodization : array_like, shape (elements,), optional
        Weights of elements. Default: 1. With an ``f_number`` they are multiplied by a Hann window over the
        aperture.
    """
    centres, points = real_array(centres, "centres"), real_array(points, "points")
    received = real_array(signals, "signals")
    turned = received.shape[1:] == centres.shape[:1]
    is_table = centres.ndim == 2
    elements = len(centres) if is_table and (turned or received.ndim != 2) else len(np.atleast_1d(received))
    received = check_series(received, elements, "signals")
    right = is_table and len(centres) == elements
    require(right, "centres", centres.shape, f"({elements}, dimensions)")
    if received.shape[1] < 4:
        raise InputError(f"signals: have {received.shape[1]} steps; allowed: 4 or more")
    require(np.isfinite(received).all(), "signals", "have values that are not finite", "finite numbers")
    require(points.shape[-1:] == centres.shape[1:], "points", points.shape, f"(…, {centres.shape[1]})")
    step, c = positive(dt, "s", "dt"), positive(sound_speed, "m/s", "sound_speed")
    weights = np.ones(elements) if apodization is None else as_array(apodization, "apodization")
    require(weights.dtype.kind in "fiub", "apodization", weights.dtype, "real numbers")
    require(weights.shape == (elements,), "apodization", weights.shape, f"({elements},)")
    if f_number is not None:
        f_number = positive(f_number, "", "f_number")
    transmit_delay = real_array(sent, "sent")
    try:
        transmit_delay = np.broadcast_to(transmit_delay, points.shape[:-1]).ravel()
    except ValueError:
        raise InputError(
            f"sent: has the shape {transmit_delay.shape}; allowed: () or {points.shape[:-1]}"
        ) from None
    warn_if_coarse(received, step)
    denser = next(n for n in (1, 2, 4, 8) if energy_above(received, n / 8) < _RARE)
    analytic = _analytic(densified(received, denser))
    flat = points.reshape(-1, points.shape[-1]).astype(float)
    image = np.zeros(len(flat), complex)
    for first in range(0, len(flat), max(1, _BLOCK // elements)):
        part = slice(first, first + max(1, _BLOCK // elements))
        offset = flat[part, None] - centres
        sample = (transmit_delay[part, None] + np.linalg.norm(offset, axis=2) / c) * (denser / step)
        counts = np.broadcast_to(weights, sample.shape)
        if f_number is not None:
            lateral = np.linalg.norm(offset[..., 1:], axis=2)
            half = np.abs(offset[..., 0]) / (2 * f_number)
            inside = np.minimum(lateral / np.maximum(half, 1e-300), 1.0)
            counts = counts * (0.5 + 0.5 * np.cos(np.pi * inside)) * (lateral < half)
        total = counts.sum(axis=1)
        image[part] = (_interpolated(analytic, sample) * counts).sum(axis=1) / np.where(total > 0, total, 1.0)
    return image.reshape(points.shape[:-1])


def _analytic(signals: np.ndarray) -> np.ndarray:
    """Return for each of the ``signals`` its analytic signal, whose spectrum has no negative frequencies."""
    # `scipy.signal.hilbert` does the same; importing it takes longer than an image.
    samples = signals.shape[-1]
    spectrum: Any = scipy.fft.rfft(signals)
    spectrum[..., 1 : (samples + 1) // 2] *= 2
    return np.asarray(scipy.fft.ifft(spectrum, samples))


def log_compress(envelope: Any, dynamic_range: float = 50.0) -> np.ndarray:
    """Return the envelope in dB relative to its maximum, at least ``-dynamic_range``; float64, same shape."""
    levels = as_array(envelope, "envelope")
    require(levels.dtype.kind in "fiuc", "envelope", levels.dtype, "numbers")
    levels = np.abs(levels)
    top = float(levels.max(initial=0.0))
    limit = positive(dynamic_range, "", "dynamic_range")
    if top == 0:
        return np.full(levels.shape, -limit)
    return 20 * np.log10(np.maximum(levels / top, 10 ** (-limit / 20)))


def time_gain(signals: Any, dt: float | str, sound_speed: float | str, attenuation: float) -> np.ndarray:
    """Amplify signals (…, steps) so that absorption on the path out and back is compensated; return them.

    ``attenuation`` is in dB/m at the pulse's frequency. The path at time t is c t, from t = 0 on.
    """
    heard = real_array(signals, "signals")
    require(heard.ndim, "signals", signals, "(…, steps)")
    path = np.arange(heard.shape[-1]) * positive(dt, "s", "dt") * positive(sound_speed, "m/s", "sound_speed")
    require(real(attenuation, "attenuation") >= 0, "attenuation", attenuation, "dB/m, from 0")
    return heard * 10 ** (attenuation * path / 20)


def frequency_response(
    signals: Any, dt: float | str, centre: float | str, bandwidth: float | str
) -> np.ndarray:
    """Filter signals (…, steps) by a Gaussian frequency response of the elements; return them as float64.

    ``centre`` is its centre frequency, ``bandwidth`` its full width at half amplitude, Hz; its phase is zero.
    """
    heard = real_array(signals, "signals").astype(float)
    if heard.ndim < 1 or not heard.shape[-1]:
        raise InputError(f"signals: have the shape {heard.shape}; allowed: (…, steps)")
    f0, width = positive(centre, "Hz", "centre"), positive(bandwidth, "Hz", "bandwidth")
    step = positive(dt, "s", "dt")
    if f0 > 0.5 / step:
        carried = f"samples every {step * 1e9:.4g} ns carry nothing above {0.5e-6 / step:.4g} MHz"
        line = f"centre: {f0 * 1e-6:.4g} MHz, but {carried}; record with a shorter time step"
        warnings.warn(line, stacklevel=2)
    length: int = scipy.fft.next_fast_len(2 * heard.shape[-1], real=True)  # type: ignore[assignment]
    frequency = scipy.fft.rfftfreq(length, step)
    response = np.exp(-4 * math.log(2) * ((frequency - f0) / width) ** 2)
    spectrum: Any = scipy.fft.rfft(heard, length)
    return np.asarray(scipy.fft.irfft(spectrum * response, length))[..., : heard.shape[-1]]


def _interpolated(rows: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Interpolate each row, an element's signal, at its times in ``times`` by cubics; 0 beyond its ends.

    ``times`` (points, rows) is in time steps.
    """
    elements, steps = rows.shape
    low = np.floor(times).astype(np.int64)
    t = times - low
    # Weights of the samples at −1, 0, 1, 2.
    by = (
        -t * (t - 1) * (t - 2) / 6,
        (t + 1) * (t - 1) * (t - 2) / 2,
        -(t + 1) * t * (t - 2) / 2,
        (t + 1) * t * (t - 1) / 6,
    )
    inside = (low >= 1) & (low < steps - 2)
    start = np.where(inside, low, 1) + np.arange(elements) * steps
    flat = rows.ravel()
    return sum(weight * flat[start + i - 1] for i, weight in enumerate(by)) * inside
