"""Detect intensities directly: a photodiode behind an optical filter, and thresholds for its current.

Thresholds between neighbouring levels, of means I and standard deviations σ of the current, are those of
Gaussian noise, I = (σ₀I₁ + σ₁I₀)/(σ₀ + σ₁), where Q = (I₁ − I₀)/(σ₁ + σ₀): N. S. Bergano, F. W. Kerfoot,
C. R. Davidson, IEEE Photon. Technol. Lett. 5 (1993) 304, doi 10.1109/68.205619.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from wavefabric.optics.signal import recovery
from wavefabric.optics.signal.constellation import Constellation


def detect(device, window, form: Constellation, sent, kept: Iterable[int] = ()) -> tuple[Any, Any, dict]:
    """Return 1/Q², bit error ratio and delay, (3, channels), the currents, (channels, symbols), and eyes.

    ``window`` (2, channels, 2 symbols) are the spectra of both polarisations behind the optical filter;
    ``sent`` (channels, symbols) are the amplitudes sent. The clock follows from the sent intensities.
    Currents are scaled to a mean of 0 at the lowest level and of 2 at the highest. Eyes are a dictionary from
    each channel in ``kept`` to the waveform of its current (`eye_waveform`).
    """
    xp, intensity = device.xp, abs(sent) ** 2
    pattern = device.fft(intensity)[None]
    pattern[..., 0] = 0  # the mean says nothing about the clock
    current = (abs(device.ifft(window)) ** 2).sum(axis=0)
    delay = recovery.symbol_clock(device, device.fft(current)[None], pattern)
    samples = device.ifft(recovery.fold(recovery.advance(xp, window, delay)))
    currents = device.to_host((abs(samples) ** 2).sum(axis=0))
    top = 2**form.bits_per_symbol - 1
    levels = np.rint(device.to_host(intensity) * top / 2).astype(int)
    measures, eyes = np.zeros((3, len(currents))), {}
    for channel, (level, current) in enumerate(zip(levels, currents, strict=True)):
        count = np.maximum(np.bincount(level, minlength=top + 1), 1)
        mean = np.bincount(level, current, top + 1) / count
        spread = np.sqrt(np.bincount(level, (current - mean[level]) ** 2, top + 1) / count)
        spread = np.maximum(spread, 1e-12 * max(mean.max(), np.finfo(float).tiny))
        both = spread[1:] + spread[:-1]
        thresholds = (spread[:-1] * mean[1:] + spread[1:] * mean[:-1]) / both
        decided = np.searchsorted(np.sort(thresholds), current)
        flipped = (level ^ level >> 1) ^ (decided ^ decided >> 1)
        wrong = sum((flipped >> bit & 1).mean() for bit in range(form.bits_per_symbol))
        q = max(float(((mean[1:] - mean[:-1]) / both).min()), 1e-9)
        measures[:2, channel] = 1 / q**2, wrong / form.bits_per_symbol
        scale = 2 / max(mean[-1] - mean[0], np.finfo(float).tiny)
        current -= mean[0]
        current *= scale
        if channel in kept:
            one = slice(channel, channel + 1)
            waveform = recovery.eye_waveform(device, window[:, one], delay[one])
            eyes[channel] = (device.to_host((abs(waveform) ** 2).sum(axis=0)) - mean[0]) * scale
    measures[2] = device.to_host(delay)
    return measures, currents, eyes
