"""Frequency offset of a carrier against the receiver's, from known symbols, before clock and phase."""

import math

import numpy as np

#: Turns per window that the carrier-phase recovery is left with.
_LEAST_TURNS = 0.05
#: Where the correlation of strangers stands this much above its mean, by chance 1 in e^7, it has been found.
_CERTAIN = 7.0
#: Symbols at each end of a window by which the phase is compared there.
_END = 32
#: Part of the power that is like the sent symbols where the carrier turns by half: (sin x/x)², x = π/2.
_HALF_A_TURN = 4 / math.pi**2


def step_products(xp, samples, apart: int):
    """Products Σ y[n + apart] y*[n] over the rows of ``samples`` (rows, channels, n): (channels, n)."""
    return (xp.roll(samples, -apart, axis=-1) * samples.conj()).sum(axis=0)


def carrier_offset(device, window, sent):
    """Return how often the carriers turn per window, and the delay in symbols: float arrays (channels,).

    ``window`` (rows, channels, 2 symbols): spectra at 2 samples per symbol; ``sent`` (rows, channels,
    symbols). Products of samples q symbols apart, summed over the rows, keep what neither the carrier's phase
    nor a unitary mixing of the rows changes, and turn by 2πΔf q. The delay is where those for q = 1 are most
    like the products of the sent symbols; longer q then tell Δf more sharply. Pairs from the end of the window
    to its begin tell whether the phase goes on there, as that of a laser does in a periodic field: then the
    turns are whole. Both are 0 where nothing is alike.
    """
    xp, (_, channels, n) = device.xp, sent.shape
    samples = device.ifft(window)

    def across(apart: int, first: int, last: int):
        """Correlation over all delays (channels, n) of pairs that begin at symbols first … last."""
        # Odd samples follow half a symbol later, and count as rows.
        both = step_products(xp, samples, 2 * apart).reshape(channels, n, 2).sum(axis=-1)
        both[:, :first] = both[:, last:] = 0
        spectrum = device.fft(both) * device.fft(step_products(xp, sent, apart)).conj()
        spectrum[:, 0] = 0
        return device.ifft(spectrum)

    def angle(apart: int, *pairs: int):
        """Phase of these pairs less that of so many ``turns``."""
        seen = (across(apart, *pairs) * weights).sum(axis=-1)
        return xp.angle(seen * xp.exp(-2j * np.pi * apart / n * turns))

    power = abs(across(1, 0, n - 1)) ** 2
    best, delay = power.max(axis=-1), power.argmax(axis=-1)
    weights = xp.where(power > best[:, None] / 4, power, 0)
    turns, apart = xp.zeros(channels), 1
    while apart <= n // 2:
        turns = turns + angle(apart, 0, n - apart) * (n / apart / (2 * np.pi))
        apart *= 4
    end, whole = min(_END, n // 4), xp.rint(turns)
    step = angle(end, n - end, n)
    goes_on = abs(step) < abs(xp.angle(xp.exp(1j * (step + 2 * np.pi * (turns - whole)))))
    turns = xp.where(goes_on, whole, turns)
    certain = best > (math.log(n) + _CERTAIN) * power.mean(axis=-1)
    return xp.where(certain, turns, 0.0), xp.where(certain, delay - n * (delay > n // 2), 0)


def without_offset(device, window, matched, sent):
    """Return a ``window`` less its frequency offset, turns removed, delay (symbols); as `carrier_offset`.

    It is found behind the filter ``matched`` (2 symbols,), first where the offset puts the filter beside the
    signal, then where it belongs.
    """
    total = 0.0
    for _ in range(3):
        turns, delay = carrier_offset(device, window * matched, sent)
        turns = turns * (abs(turns + total) >= _LEAST_TURNS)
        if not bool(turns.any()):
            break
        window, total = turn_back(device, window, turns), total + turns
    return window, total + device.xp.zeros(window.shape[1]), delay


def turn_back(device, window, turns):
    """Spectra (rows, channels, samples) of a window whose carriers make so many ``turns`` (channels,) less."""
    return device.fft(turned_back(device.xp, device.ifft(window), turns))


def turned_back(xp, samples, turns):
    """Samples (rows, channels, n) whose carriers make so many ``turns`` (channels,) less."""
    n = samples.shape[-1]
    return samples * xp.exp((-2j * np.pi / n) * turns[:, None] * xp.arange(n))


def drift(xp, symbols, sent):
    """Return how ``symbols`` (rows, channels, n) in their places drift from the ``sent``: three of (channels,).

    Whether they drift so little that no more than half a turn per window is possible and their phase goes on
    from the end of the window to its begin, or noise hides that it does not; whether the first of this
    holds; the turns per window by the phases of both halves, if it does.
    """
    like = symbols * sent.conj()
    rows, n, end = like.shape[0], like.shape[-1], min(_END, like.shape[-1] // 4)
    power = ((abs(symbols) ** 2).sum(axis=-1) * (abs(sent) ** 2).sum(axis=-1)).sum(axis=0)
    part = (abs(like.sum(axis=-1)) ** 2).sum(axis=0) / (power + (power == 0))

    def turned(first, last):
        return xp.angle((last.sum(axis=-1) * first.sum(axis=-1).conj()).sum(axis=0))

    noise = xp.sqrt(xp.maximum(1 / xp.maximum(part, 1e-9) - 1, 0) / (rows * end))
    step = abs(turned(like[..., -end:], like[..., :end]))
    slow = part > _HALF_A_TURN
    return slow & (step < 0.3 + 4 * noise), slow, turned(like[..., : n // 2], like[..., n // 2 :]) / np.pi
