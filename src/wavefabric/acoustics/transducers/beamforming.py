"""From what an array's elements hear to an image: receive beamforming, envelope, compression, gain.

>>> lines = delay_and_sum(signals, array.centres, points, dt=dt, sound_speed=1540, sent=sent)
>>> image = log_compress(abs(lines), 50)
"""

import math
from typing import Any

import numpy as np
import scipy.fft
import scipy.signal

from wavefabric.acoustics.arguments import as_array, check_reals, positive, require
from wavefabric.errors import InputError

#: Samples of (points, elements) held at a time.
_BLOCK = 1 << 21


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
    """Receive beamforming: the echo of each point, complex128 (…); its magnitude is the envelope.

    Σ w_e s_e(sent + |point − centre_e|/c) with analytic signals s_e, between samples by their cubic
    interpolation, and weights that add up to one.

    Parameters
    ----------
    signals : array_like, shape (elements, steps)
        What each element hears (`Sensor.elements`), real.
    centres : array_like, shape (elements, dimensions)
        Where they are, m: `TransducerMask.centres`.
    points : array_like, shape (…, dimensions)
        What is imaged, m: the points of a scan line, or of a whole image.
    dt, sound_speed : float or str
        Time step, s, and speed that delays are computed with, m/s.
    sent : float or array_like, shape (…)
        When what was sent reaches each point, s; the middle of its pulse.
    f_number : float, optional
        Depth over receiving aperture, dynamic: elements further from the point along the other axes do not
        count. Default: all elements count everywhere.
    apodization : array_like, shape (elements,), optional
        Weights of elements. Default: 1; with an ``f_number`` Hann's window over its aperture besides.

    Raises
    ------
    InputError
        For shapes that do not fit together, or numbers out of range.
    """
    heard, where, at = (as_array(each, key) for each, key in _named(signals, centres, points))
    require(heard.ndim == 2 and heard.size, "signals", heard.shape, "(elements, steps)")
    check_reals(heard, "signals")
    elements = len(heard)
    require(where.ndim == 2 and len(where) == elements, "centres", where.shape, f"({elements}, dimensions)")
    require(at.shape[-1:] == where.shape[1:], "points", at.shape, f"(…, {where.shape[1]})")
    step, c = positive(dt, "s", "dt"), positive(sound_speed, "m/s", "sound_speed")
    weights = np.ones(elements) if apodization is None else np.asarray(apodization, float)
    require(weights.shape == (elements,), "apodization", weights.shape, f"({elements},)")
    if f_number is not None:
        f_number = positive(f_number, "", "f_number")
    outward = np.broadcast_to(np.asarray(sent, float), at.shape[:-1]).ravel()
    analytic: Any = scipy.signal.hilbert(np.asarray(heard, float), axis=1)
    flat = at.reshape(-1, at.shape[-1]).astype(float)
    image = np.zeros(len(flat), complex)
    for first in range(0, len(flat), max(1, _BLOCK // elements)):
        part = slice(first, first + max(1, _BLOCK // elements))
        offset = flat[part, None] - where
        late = (outward[part, None] + np.linalg.norm(offset, axis=2) / c) / step
        counts = np.broadcast_to(weights, late.shape)
        if f_number is not None:
            aside = np.linalg.norm(offset[..., 1:], axis=2)
            half = np.abs(offset[..., 0]) / (2 * f_number)
            inside = np.minimum(aside / np.maximum(half, 1e-300), 1.0)
            counts = counts * (0.5 + 0.5 * np.cos(np.pi * inside)) * (aside < half)
        total = counts.sum(axis=1)
        image[part] = (_between(analytic, late) * counts).sum(axis=1) / np.where(total > 0, total, 1.0)
    return image.reshape(at.shape[:-1])


def log_compress(envelope: Any, dynamic_range: float = 50.0) -> np.ndarray:
    """Envelope in dB below its largest value, not lower than ``-dynamic_range``; float64, same shape."""
    levels = np.abs(np.asarray(envelope))
    top = float(levels.max(initial=0.0))
    limit = positive(dynamic_range, "", "dynamic_range")
    if top == 0:
        return np.full(levels.shape, -limit)
    return 20 * np.log10(np.maximum(levels / top, 10 ** (-limit / 20)))


def time_gain(signals: Any, dt: float | str, sound_speed: float | str, attenuation: float) -> np.ndarray:
    """Signals (elements, steps) made up for absorption on the path there and back, from t = 0 on.

    ``attenuation`` in dB/m at the pulse's frequency: after t the path is c t.
    """
    heard = np.asarray(signals, float)
    path = np.arange(heard.shape[-1]) * positive(dt, "s", "dt") * positive(sound_speed, "m/s", "sound_speed")
    require(attenuation >= 0, "attenuation", attenuation, "dB/m, from 0")
    return heard * 10 ** (attenuation * path / 20)


def frequency_response(
    signals: Any, dt: float | str, centre: float | str, bandwidth: float | str
) -> np.ndarray:
    """Signals (…, steps) as elements of a Gaussian frequency response hear them; float64.

    ``centre`` frequency and full width of half amplitude, ``bandwidth``, Hz. The response has no phase.
    """
    heard = np.asarray(signals, float)
    if heard.ndim < 1 or not heard.shape[-1]:
        raise InputError(f"signals: have the shape {heard.shape}; allowed: (…, steps)")
    f0, width = positive(centre, "Hz", "centre"), positive(bandwidth, "Hz", "bandwidth")
    length: int = scipy.fft.next_fast_len(2 * heard.shape[-1], real=True)  # type: ignore[assignment]
    frequency = scipy.fft.rfftfreq(length, positive(dt, "s", "dt"))
    response = np.exp(-4 * math.log(2) * ((frequency - f0) / width) ** 2)
    spectrum: Any = scipy.fft.rfft(heard, length)
    return np.asarray(scipy.fft.irfft(spectrum * response, length))[..., : heard.shape[-1]]


def _named(signals: Any, centres: Any, points: Any) -> list[tuple[Any, str]]:
    return [(signals, "signals"), (centres, "centres"), (points, "points")]


def _between(rows: np.ndarray, late: np.ndarray) -> np.ndarray:
    """Row e at times ``late`` (points, elements), in steps, by cubic Lagrange interpolation; 0 outside."""
    elements, steps = rows.shape
    low = np.floor(late).astype(np.int64)
    t = late - low
    # Of the samples at −1, 0, 1, 2.
    by = (
        -t * (t - 1) * (t - 2) / 6,
        (t + 1) * (t - 1) * (t - 2) / 2,
        -(t + 1) * t * (t - 2) / 2,
        (t + 1) * t * (t - 1) / 6,
    )
    inside = (low >= 1) & (low < steps - 2)
    start = np.where(inside, low, 1) + np.arange(elements) * steps
    flat = rows.ravel()
    if steps < 4:
        raise InputError(f"signals: have {steps} steps; allowed: 4 or more")
    return sum(weight * flat[start + i - 1] for i, weight in enumerate(by)) * inside
