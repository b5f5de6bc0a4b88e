"""Recover the clock and the carrier frequency of a channel, and the carrier phase of received symbols."""

import math
from typing import NamedTuple

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.optics.signal.constellation import DIRECT, Constellation

CLOCKS = ("auto", "square-law", "data-aided", "none")
#: Smaller offsets, in turns per window, are left to the carrier-phase recovery.
_LEAST_TURNS = 0.05
#: A correlation counts as found above ln n + this, in units of its mean: by chance with probability e^−7.
_CERTAIN = 7.0
#: Number of symbols at each end of a window whose phases are compared.
_END = 32
#: Fraction of the power that correlates with the sent symbols after half a carrier turn: (sin x/x)², x = π/2.
_HALF_A_TURN = 4 / math.pi**2
#: Number of symbols in the waveform of an eye diagram, and of its samples per symbol.
EYE_SYMBOLS, EYE_SAMPLES = 256, 4
PHASES = ("auto", "viterbi-viterbi", "blind-search", "data-aided", "none")
#: Number of test phases per quarter turn in the blind search, by bits per symbol.
_TEST_PHASES = {2: 32, 4: 32, 6: 64, 8: 128, 10: 256}
#: Weight of a symbol itself in the window of the blind search, against 1 of each neighbour.
BLIND_OWN = 1.0


def symbol_clock(device, window, sent, method: str = "data-aided"):
    """Return the delay of each channel relative to the sent frame, in symbols, float64 (channels,).

    ``window`` (2, channels, 2 symbols) are spectra after the matched filter, NumPy's order; ``sent`` (2,
    channels, symbols) are spectra of the sent symbols; ``method`` as `Receiver.clock`. The delay is common to
    both polarisations. A delay of τ turns the phase of bin j by −2πjτ/symbols.
    """
    xp, symbols = device.xp, sent.shape[-1]
    if method == "none":
        return xp.zeros(window.shape[1])
    if method == "square-law":
        # The line of |y|² at the symbol rate, from the two band edges a symbol rate apart.
        line = (window[..., :symbols] * window[..., symbols:].conj()).sum(axis=(0, 2))
        fraction = -xp.angle(line) / (2 * np.pi)
        across = device.ifft(fold(advance(xp, window, fraction)) * sent.conj())
        delay = fraction + (abs(across) ** 2).sum(axis=0).argmax(axis=-1)
    else:
        ratio = window * xp.concatenate([sent, sent], axis=-1).conj()
        delay = (abs(device.ifft(ratio)) ** 2).sum(axis=0).argmax(axis=-1) / 2
        slope = 2j * np.pi * xp.asarray(np.fft.fftfreq(2 * symbols, 0.5 / symbols)) / symbols
        # Newton's method for the top of the correlation; it starts within a quarter of a symbol.
        for _ in range(5):
            turned = ratio * xp.exp(slope * delay[:, None])
            c0, c1, c2 = (term.sum(axis=-1) for term in (turned, turned * slope, turned * slope * slope))
            first = (c0.conj() * c1).real.sum(axis=0)
            second = (abs(c1) ** 2 + (c0.conj() * c2).real).sum(axis=0)
            # Dark or very noisy signals have no maximum: do not move.
            step = xp.where(second < 0, first / xp.where(second < 0, second, 1), 0)
            delay = delay - xp.clip(step, -0.25, 0.25)
    return delay - symbols * xp.rint(delay / symbols)


def advance(xp, window, delay):
    """Advance signals by ``delay`` (channels,) symbols; take and return their spectra, ``window``."""
    size = window.shape[-1]
    cycles = xp.asarray(np.fft.fftfreq(size, 1 / size)) * (2 / size)
    return window * xp.exp(2j * np.pi * cycles * delay[:, None])


def eye_waveform(device, window, delay, phase=None):
    """Return the waveform of the first `EYE_SYMBOLS` symbols at `EYE_SAMPLES` per symbol, (rows, samples).

    ``window`` (rows, 1, 2 symbols) has the spectra of a channel after the matched filter, ``delay`` (1,) its
    delay in symbols and ``phase`` (rows, symbols) its carrier phase in rad; both are removed. Each axis of
    ``phase`` may have length 1.
    """
    xp, samples = device.xp, []
    for k in range(EYE_SAMPLES):
        row = device.ifft(fold(advance(xp, window, delay + k / EYE_SAMPLES)))[:, 0]
        if phase is not None:  # that of the nearest symbol
            row = row * xp.exp(-1j * xp.roll(phase, -(2 * k >= EYE_SAMPLES), axis=-1))
        samples.append(row[:, :EYE_SYMBOLS])
    return xp.stack(samples, axis=-1).reshape(len(window), -1)


def fold(window):
    """Return the spectrum of every second sample: from 2 samples per symbol to 1."""
    half = window.shape[-1] // 2
    return window[..., :half] + window[..., half:]


def carrier_offset(device, window, sent):
    """Estimate for each channel the carrier's frequency offset, turns per window, and the delay in symbols.

    ``window`` (rows, channels, 2 symbols): spectra at 2 samples per symbol; ``sent`` (rows, channels,
    symbols). Products of samples q symbols apart, summed over the rows, depend neither on the carrier's phase
    nor on a unitary mixing of the rows, and turn by 2πΔf q. The delay is where the products for q = 1
    correlate best with those of the sent symbols; longer q then determine Δf more precisely. Pairs that start
    at the end of the window show whether the phase continues at its beginning, as a laser's does in a
    periodic field: then the number of turns is whole. Both results are 0 where no correlation is found.
    """
    xp, (_, channels, n) = device.xp, sent.shape
    samples = device.ifft(window)

    def products(rows, distance: int):
        """Return the sum over rows y of y[n + distance] y*[n]: (channels, n)."""
        return (xp.roll(rows, -distance, axis=-1) * rows.conj()).sum(axis=0)

    def correlate(distance: int, first: int, last: int):
        """Correlate products of samples with those of sent symbols; return a value per delay, (channels, n).

        Only the products from ``first`` to ``last`` count.
        """
        # Odd samples follow half a symbol later, and count as rows.
        both = products(samples, 2 * distance).reshape(channels, n, 2).sum(axis=-1)
        both[:, :first] = both[:, last:] = 0
        spectrum = device.fft(both) * device.fft(products(sent, distance)).conj()
        spectrum[:, 0] = 0
        return device.ifft(spectrum)

    def angle(distance: int, *pairs: int):
        """Return the phase of products of samples ``distance`` symbols apart, less that due to ``turns``."""
        seen = (correlate(distance, *pairs) * weights).sum(axis=-1)
        return xp.angle(seen * xp.exp(-2j * np.pi * distance / n * turns))

    power = abs(correlate(1, 0, n - 1)) ** 2
    best, delay = power.max(axis=-1), power.argmax(axis=-1)
    weights = xp.where(power > best[:, None] / 4, power, 0)
    turns, apart = xp.zeros(channels), 1
    while apart <= n // 2:
        turns = turns + angle(apart, 0, n - apart) * (n / apart / (2 * np.pi))
        apart *= 2
    end, whole = min(_END, n // 4), xp.rint(turns)
    step = angle(end, n - end, n)
    goes_on = abs(step) < 2 * abs(xp.angle(xp.exp(1j * (step + 2 * np.pi * (turns - whole)))))
    turns = xp.where(goes_on, whole, turns)
    certain = best > (math.log(n) + _CERTAIN) * power.mean(axis=-1)
    return xp.where(certain, turns, 0.0), xp.where(certain, delay - n * (delay > n // 2), 0)


def without_offset(device, window, matched, sent):
    """Remove the carrier's frequency offset; return the window, the offset in turns, the delay in symbols.

    The offset is estimated by `carrier_offset` after the filter ``matched`` (2 symbols,), and again after
    each correction, as at first the offset misplaces the filter relative to the signal.
    """
    total = device.xp.zeros(window.shape[1])
    for _ in range(3):
        turns, delay = carrier_offset(device, window * matched, sent)
        turns = turns * (abs(turns + total) >= _LEAST_TURNS)
        if not bool(turns.any()):
            break
        window = turned_back(device, window, turns)
        total += turns
    return window, total, delay


def turned_back(device, window, turns):
    """Lower the frequency of each carrier by ``turns`` (channels,) cycles per window.

    Takes and returns the spectra of the signals, ``window``.
    """
    time = device.xp.arange(window.shape[-1]) / window.shape[-1]
    return device.fft(device.ifft(window) * device.xp.exp(-2j * np.pi * turns[:, None] * time))


def correlation(symbols, sent):
    """Return the fraction of the power of ``symbols`` that correlates with ``sent``, (channels,)."""
    power = ((abs(symbols) ** 2).sum(axis=-1) * (abs(sent) ** 2).sum(axis=-1)).sum(axis=0)
    return (abs((symbols * sent.conj()).sum(axis=-1)) ** 2).sum(axis=0) / (power + (power == 0))


class Jumps(NamedTuple):
    """Finds jumps of the carrier phase where the periodic window closes, if large enough to count."""

    least: float  # rad
    block: int  # number of symbols over which the phase is averaged on both sides of the end

    def size(self, xp, symbols, sent):
        """Return each channel's phase jump at the window's end, rad, (channels,); 0 if it does not count.

        ``symbols`` and ``sent`` are (rows, channels, n). A jump counts above ``least`` and four standard
        deviations of noise. A steady drift is not a jump.
        """
        products, end = symbols * sent.conj(), min(self.block, symbols.shape[-1] // 4)
        around = xp.concatenate([products[..., -2 * end :], products[..., : 2 * end]], axis=-1)
        blocks = around.reshape(*around.shape[:-1], 4, end).sum(axis=-1)
        before, step, after = xp.moveaxis((blocks[..., 1:] * blocks[..., :-1].conj()).sum(axis=0), -1, 0)
        size = xp.angle(step * xp.exp(-0.5j * xp.angle(before * after)))
        # Its variance is 5/2 of that of the phase difference of two blocks.
        noise = 1 / xp.maximum(correlation(symbols, sent), 1e-9) - 1
        noise = 2.5 * xp.maximum(noise, 0) / (len(products) * end)
        return xp.where(abs(size) < self.least + 4 * xp.sqrt(noise), 0.0, size)

    def turns(self, xp, symbols, sent):
        """Return the cycles per window that explain the phase jump, less than one, (channels,).

        The result is 0 where removing them would not bring ``symbols`` closer to ``sent``.
        """
        turns, n = -self.size(xp, symbols, sent) / (2 * np.pi), symbols.shape[-1]
        turned = symbols * xp.exp(-2j * np.pi / n * turns[:, None] * xp.arange(n))
        return xp.where(correlation(turned, sent) > correlation(symbols, sent), turns, 0.0)

    def steady(self, xp, symbols, sent):
        """Return whether the phase of ``symbols`` stays near that of ``sent``, (channels,).

        True if it drifts by less than half a turn over the window and does not jump at its end.
        """
        return (correlation(symbols, sent) > _HALF_A_TURN) & (self.size(xp, symbols, sent) == 0)


#: Where no offset is expected, and where a tracked phase has one.
RARE_JUMPS, SMALL_JUMPS = Jumps(0.3, _END), Jumps(0.05, _END)


def check_phase(method: str, format_name: str, key: str = "phase") -> None:
    """Raise InputError if the modulation format does not allow the phase recovery ``method``."""
    blind = format_name in ("gaussian", *DIRECT)
    wrong = {"blind-search": blind, "viterbi-viterbi": format_name != "qpsk"}
    if wrong.get(method):
        raise InputError(f"{key}: '{method}' given for {format_name}, auto or data-aided allowed")


def carrier_phase(xp, form: Constellation, method: str, size: int | None, symbols, sent, periodic=True):
    """Return the carrier phase (rad) of each of ``symbols`` (..., n), averaged over ``size`` (None: all).

    ``sent`` are the known symbols; the methods are those of `Receiver.phase`. Blind methods are ambiguous by
    quarter turns, which the known symbols resolve at every symbol: there are no cycle slips.
    """
    if method == "none":
        return 0.0
    aided = xp.angle(sliding_sum(xp, symbols * sent.conj(), size, periodic=periodic))
    if method in ("auto", "data-aided"):
        return aided
    if method == "viterbi-viterbi":
        # QPSK to the fourth is −1.
        square = symbols * symbols
        blind = xp.angle(sliding_sum(xp, -square * square, size, periodic=periodic)) / 4
    else:
        along = (symbols * sent.conj() * xp.exp(-1j * aided)).real.sum(axis=-1, keepdims=True)
        energy = (abs(sent) ** 2).sum(axis=-1, keepdims=True)
        blind = blind_phase(xp, form, size, symbols * (energy / xp.where(along > 0, along, 1)), periodic)
    return blind + xp.rint((aided - blind) * (2 / np.pi)) * (np.pi / 2)


def blind_phase(xp, form: Constellation, size: int | None, symbols, periodic: bool = True):
    """Return the phase (rad, up to quarter turns) that brings ``symbols`` closest to the constellation.

    This is the blind phase search of T. Pfau, S. Hoffmann, R. Noé, J. Lightwave Technol. 27 (2009) 989, eqs.
    (6) to (8), doi 10.1109/JLT.2008.2010511, over 32 test phases (64 for 64QAM) and the vertex of the
    parabola through the smallest distance and its two neighbours. ``symbols`` (..., n) have a mean energy of
    about 1.
    """
    count = _TEST_PHASES[form.bits_per_symbol]

    def distance(k: int):
        turned = symbols * np.exp(-0.5j * np.pi * k / count)
        error = turned - form.map(xp, form.decide(xp, turned))
        return sliding_sum(xp, error.real**2 + error.imag**2, size, BLIND_OWN, periodic)

    first = before = distance(0)
    cost = second = distance(1)
    least, vertex = xp.full(first.shape, np.inf), xp.zeros(first.shape)
    # The distance repeats after a quarter turn.
    for k in range(1, count + 1):
        after = {count - 1: first, count: second}.get(k)
        after = distance(k + 1) if after is None else after
        curve = before - 2 * cost + after
        shift = xp.where(curve > 0, 0.5 * (before - after) / xp.where(curve > 0, curve, 1), 0)
        better = (cost < least) & (cost <= before) & (cost <= after)
        least, vertex = xp.where(better, cost, least), xp.where(better, k + shift, vertex)
        before, cost = cost, after
    return vertex * (0.5 * np.pi / count)


def sliding_sum(xp, values, size: int | None, centre_weight: float | None = None, periodic: bool = True):
    """Sum the ``size`` neighbours around each element of the last axis; the element itself counts about half.

    The angle of the sum estimates the carrier phase of the central element. The estimate follows the noise of
    that element by its weight w_k: perpendicular to a symbol of noise e_k the remaining error is
    e_k − Σ w_j e_j, with (1 − 2w_k + Σ w_j²) times the variance of e_k. Equal weights make errors look too
    small, w_k = 0 too large. With m = n − 1 others, n = ``size``, the variance equals that of e_k if the
    element has the weight r = m (√(1 + 1/m) − 1) against 1: the mean EVM² is then that of noise alone.

    ``centre_weight`` is another weight of the central element. Neighbours are cyclic, unless ``periodic`` is
    false: then there are none beyond the ends.
    """
    n = values.shape[-1]
    if size is None or size >= n:
        return values.sum(axis=-1, keepdims=True)
    before, others = size // 2, size - 1
    left, right = values[..., n - before - 1 :], values[..., : size - before - 1]
    if not periodic:
        left, right = xp.zeros_like(left), xp.zeros_like(right)
    sums = xp.cumsum(xp.concatenate([left, values, right], axis=-1), axis=-1)
    if centre_weight is None:
        centre_weight = others * (math.sqrt(1 + 1 / others) - 1)
    return sums[..., size:] - sums[..., :n] - (1 - centre_weight) * values
