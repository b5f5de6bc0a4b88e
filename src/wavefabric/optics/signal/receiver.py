"""The receiver: noise, ideal compensation, matched filter, clock and carrier recovery, Q² and BER."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wavefabric.device import philox
from wavefabric.errors import InputError
from wavefabric.optics.fibre.mode_mixing import ModeMixing
from wavefabric.optics.signal.amplifier import osnr_noise_density
from wavefabric.optics.signal.transmitter import Transmitter, root_raised_cosine
from wavefabric.quantities import choice

CLOCKS = ("auto", "square-law", "data-aided", "none")
PHASES = ("auto", "viterbi-viterbi", "data-aided", "none")


@dataclass(frozen=True)
class ReceiverResult:
    """Quality of every signal of the field's modes: arrays (modes, channels), both polarisations pooled."""

    q_squared_db: np.ndarray  # Q² = 1/EVM², dB; NaN for a dark signal
    evm: np.ndarray  # root-mean-square error vector over root-mean-square symbol, linear
    ber_counted: np.ndarray  # bit errors over bits sent; NaN for Gaussian symbols
    ber_from_q: np.ndarray  # of white Gaussian noise of the same Q²; NaN for Gaussian symbols
    delay: np.ndarray  # found by the clock recovery, symbols
    #: Received symbols after all recovery, by (mode, channel): complex128, shape (2, symbols).
    points: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)

    def penalty_db(self, reference: "ReceiverResult") -> np.ndarray:
        """Q² minus that of ``reference`` (back-to-back, same noise seed), dB, shape (modes, channels)."""
        return self.q_squared_db - reference.q_squared_db


@dataclass(frozen=True)
class Reception:
    """Options of `Receiver.receive`; see there."""

    power_gain: float = 1.0
    first_mode: int = 0
    modes: int | None = None
    keep: Iterable[tuple[int, int]] = ()
    progress: Callable[[int, int], None] | None = None

    def __post_init__(self):
        if not (np.isfinite(self.power_gain) and self.power_gain > 0):
            raise InputError(f"power_gain: {self.power_gain!r} given, a positive power ratio allowed")


@dataclass(frozen=True)
class Receiver:
    """Coherent receiver for every mode and channel of a `Transmitter`'s signal.

    White noise is loaded to the OSNR ``osnr_db`` (12.5 GHz, both polarisations; None for no noise). It refers
    to the nominal received power, launch power × ``power_gain``, so that the noise is one and the same after
    any distance.

    ``clock``: ``"square-law"`` is blind, the spectral line of |y|² (M. Oerder, H. Meyr 1988, doi
    10.1109/26.1476; here as the correlation of the two band edges, which does not alias), whole symbols then
    by correlation with the known ones; ``"data-aided"`` is the maximum-likelihood delay from the known
    symbols; ``"none"``; ``"auto"`` is square-law, data-aided below a roll-off of 0.05, where the line fades.

    ``phase``: ``"data-aided"`` and ``"auto"`` are the maximum-likelihood phase from the known symbols;
    ``"viterbi-viterbi"`` the fourth power (A. J. Viterbi, A. M. Viterbi 1983, doi 10.1109/TIT.1983.1056713),
    QPSK only, noisier at low OSNR; ``"none"`` removes only the mean phase. ``phase_window`` symbols (at least
    2; None for all) slide along; the symbol itself counts about half, so that noise alone gives its own EVM
    (see `sliding_sum`).
    """

    transmitter: Transmitter
    osnr_db: float | None = None
    noise_seed: int = 1
    clock: str = "auto"
    phase: str = "auto"
    phase_window: int | None = 64

    def __post_init__(self):
        philox.check_seed(self.noise_seed, "noise_seed")
        if self.osnr_db is not None:
            osnr_noise_density(self.osnr_db, 1.0)
        choice("clock", self.clock, CLOCKS)
        choice("phase", self.phase, PHASES)
        name = self.transmitter.format.name
        if self.phase == "viterbi-viterbi" and name != "qpsk":
            raise InputError(f"phase: 'viterbi-viterbi' given for {name}, auto or data-aided allowed")
        if self.phase_window is not None and self.phase_window < 2:
            raise InputError(f"phase_window: {self.phase_window!r} given, 2 or more symbols allowed")

    def receive(
        self,
        device,
        field,
        length: float = 0.0,
        beta=None,
        inverse_mixing: ModeMixing | None = None,
        **options: Any,
    ) -> ReceiverResult:
        """Receive every mode and channel of ``field``, (2 modes, N), √W, which is left as it is.

        Mode by mode: one transform of the two rows; per channel the window of 2 samples per symbol; the
        inverse exp(−L(ω)z) of the linear phase at absolute ω (loss stays); noise; the matched filter; clock,
        carrier phase; the complex gain that fits the known symbols best.

        White noise keeps its statistics under the compensation, which only turns phases. Adding it behind
        makes the very same noise fall on the very same symbols after any distance, so that penalties are free
        of its scatter.

        ``length`` is that of the link, m, 0 back-to-back. ``beta`` (modes, 4) holds β1 (s/m) … β4 (s⁴/m) of
        each mode of the link at the grid's centre, in the frame of the field (β1 relative to the frame); None
        to compensate nothing. ``inverse_mixing``, of the rows of ``field``, undoes the modal coupling of the
        whole link before noise is loaded. Options:

        - ``power_gain``: net power gain of the link, linear; 1 where amplifiers undo the whole loss.
        - ``first_mode``, ``modes``: mode of the link that ``field[:2]`` is, where a rank holds some of them,
          and how many the link has; by default those up to the last of ``field``.
        - ``keep``: signals, as (mode of the link, channel), whose received symbols go into the result.
        - ``progress``: called as ``progress(rows_done, rows)`` after each mode.
        """
        grid, xp, powers = self.transmitter.grid, device.xp, self.transmitter.powers
        if field.ndim != 2 or field.shape[1] != grid.samples or field.shape[0] % 2 or not field.shape[0]:
            raise InputError(f"field: shape {field.shape} given, (2 modes, {grid.samples}) allowed")
        here = field.shape[0] // 2
        request = Reception(**options)
        mine = range(request.first_mode, request.first_mode + here)
        modes = mine.stop if request.modes is None else request.modes
        kept = self._checked_signals(request.keep, mine, modes)
        if inverse_mixing is not None:
            inverse_mixing.check_rows(field.shape[0])
        coefficients = _checked_beta(beta, modes)
        bands = _Bands(device, self.transmitter)
        error, delay, wrong = np.full((3, here, grid.channels), np.nan)
        points = {}
        for k, mode in enumerate(mine):
            pair = field[2 * k : 2 * k + 2]
            if inverse_mixing is not None:
                pair = inverse_mixing.mode(device, field, k)
            window = bands.compensated(device.fft(pair), length, coefficients[mode])
            if self.osnr_db is not None:
                density = osnr_noise_density(self.osnr_db, request.power_gain) * powers(modes)[mode]
                self._add_noise(device, bands, window, mode, density)
            window *= bands.matched
            sent = xp.stack([self.transmitter.row_symbols(device, 2 * mode + p) for p in range(2)])
            symbols, delay[k] = self._recover(device, window, sent)
            error[k], wrong[k] = self._judge(device, symbols, sent)
            for channel in sorted(c for m, c in kept if m == mode):
                points[mode, channel] = np.array(device.to_host(symbols[:, channel]))
            if request.progress is not None:
                request.progress(2 * k + 2, 2 * here)
        error[powers(modes)[mine.start : mine.stop] == 0] = np.nan
        wrong[np.isnan(error)] = np.nan
        # An error of exactly zero would be an infinite Q²: keep it finite and quiet.
        snr = 1 / np.maximum(error, np.finfo(float).tiny)
        ber = self.transmitter.format.ber(snr)
        return ReceiverResult(10 * np.log10(snr), np.sqrt(error), wrong, ber, delay, points)

    def load_noise(self, device, field, first_mode: int = 0, power_gain: float = 1.0) -> None:
        """Add the noise of ``osnr_db`` to ``field`` (2 modes, N), √W, itself; in place, over the whole band.

        For what has to undo more than phases afterwards, where noise does not keep its statistics. Between
        channels of unlike power its density is that of the nearest.
        """
        if self.osnr_db is None:
            return
        grid, xp = self.transmitter.grid, device.xp
        signed = np.fft.fftfreq(grid.samples, 1 / grid.samples)
        edges = np.argsort(grid.bins), np.sort(grid.bins)
        nearest = edges[0][np.searchsorted((edges[1][1:] + edges[1][:-1]) / 2, signed)]
        powers = self.transmitter.powers(first_mode + field.shape[0] // 2)
        for k in range(field.shape[0]):
            density = osnr_noise_density(self.osnr_db, 1.0) * power_gain * powers[first_mode + k // 2]
            scale = np.sqrt(density[nearest] * grid.sample_rate * grid.samples)
            unit = device.zeros((grid.samples,), np.complex128)
            stream = philox.stream(philox.RECEIVER, 2 * first_mode + k)
            device.kernels(philox.KERNELS).add_complex_normal(unit, 1.0, self.noise_seed, stream, 0)
            field[k] += device.ifft(unit * xp.asarray(scale)).astype(field.dtype)

    def _checked_signals(self, keep, mine: range, modes: int) -> set[tuple[int, int]]:
        channels, signals = self.transmitter.grid.channels, {(int(m), int(c)) for m, c in keep}
        for mode, channel in signals:
            if not (mode in mine and 0 <= channel < channels):
                raise InputError(f"keep: {(mode, channel)} given, below {(modes, channels)} allowed")
        return signals

    def _add_noise(self, device, bands, window, mode, density):
        # One sequence over all bins of the row: neighbours share their noise where windows overlap.
        grid = self.transmitter.grid
        scale = device.xp.asarray(np.sqrt(density * grid.sample_rate * grid.samples))[:, None]
        for polarisation in range(2):
            unit = device.zeros((grid.samples,), np.complex128)
            stream = philox.stream(philox.RECEIVER, 2 * mode + polarisation)
            device.kernels(philox.KERNELS).add_complex_normal(unit, 1.0, self.noise_seed, stream, 0)
            window[polarisation] += scale * unit[bands.where]

    def _recover(self, device, window, sent):
        """Symbols (2, channels, symbols) of mean complex gain 1, and the delay of each channel."""
        xp, known = device.xp, device.fft(sent)
        clock = self.clock
        if clock == "auto":
            clock = "square-law" if self.transmitter.rolloff >= 0.05 else "data-aided"
        delay = symbol_clock(device, window, known, clock)
        aligned = device.ifft(fold(advance(xp, window, delay)))
        aligned *= xp.exp(-1j * self._carrier_phase(xp, aligned, sent))
        gain = (aligned * sent.conj()).sum(axis=-1) / (abs(sent) ** 2).sum(axis=-1)
        aligned /= xp.where(gain == 0, 1, gain)[..., None]
        return aligned, device.to_host(delay)

    def _carrier_phase(self, xp, symbols, sent):
        if self.phase == "none":
            return 0.0
        size = self.phase_window
        aided = xp.angle(sliding_sum(xp, symbols * sent.conj(), size))
        if self.phase != "viterbi-viterbi":
            return aided
        # QPSK to the fourth is −1. The known symbols only say which quarter turn: no cycle slips.
        square = symbols * symbols
        fourth = xp.angle(sliding_sum(xp, -square * square, size)) / 4
        return fourth + xp.rint((aided - fourth) * (2 / np.pi)) * (np.pi / 2)

    def _judge(self, device, symbols, sent) -> tuple[np.ndarray, np.ndarray]:
        """Squared EVM and bit error ratio of each channel, both polarisations pooled."""
        xp, form = device.xp, self.transmitter.format
        square = (abs(symbols - sent) ** 2).sum(axis=(0, 2)) / (abs(sent) ** 2).sum(axis=(0, 2))
        if not form.digital:
            return device.to_host(square), np.full(sent.shape[1], np.nan)
        wrong = form.bit_errors(xp, form.decide(xp, sent), form.decide(xp, symbols), axis=(0, 2))
        bits = 2 * sent.shape[-1] * form.bits_per_symbol
        return device.to_host(square), device.to_host(wrong) / bits


def _checked_beta(beta, modes: int) -> np.ndarray:
    coefficients = np.zeros((modes, 4)) if beta is None else np.asarray(beta, dtype=float)
    if coefficients.shape != (modes, 4) or not np.isfinite(coefficients).all():
        actual = f"shape {coefficients.shape} given"
        raise InputError(f"beta: {actual}, finite numbers of shape {(modes, 4)} allowed")
    return coefficients


class _Bands:
    """Where each channel's window of 2 samples per symbol lies in a row's spectrum."""

    def __init__(self, device, transmitter: Transmitter):
        grid, self._xp = transmitter.grid, device.xp
        xp = self._xp
        around = np.fft.fftfreq(2 * grid.symbols, 1 / (2 * grid.symbols)).astype(np.int64)
        signed = grid.bins[:, None] + around
        self.where = xp.asarray(signed % grid.samples)
        self._omega = xp.asarray(2 * np.pi * grid.resolution * signed)
        self.matched = xp.asarray(root_raised_cosine(around / grid.symbols, transmitter.rolloff))

    def compensated(self, spectrum, length: float, beta):
        """Windows of two rows without the linear phase of a length of fibre: (2, channels, 2 symbols)."""
        window = spectrum[:, self.where].astype(np.complex128)
        if length and beta.any():
            b1, b2, b3, b4 = (float(b) for b in beta)
            w = self._omega
            phase = w * (b1 - w * (b2 / 2 - w * (b3 / 6 - w * (b4 / 24))))  # that a metre of fibre takes away
            window *= self._xp.exp(1j * length * phase)
        return window


def symbol_clock(device, window, known, method: str = "data-aided"):
    """Delay of each channel against the sent frame, in symbols, float64 of shape (channels,).

    ``window`` (2, channels, 2 symbols) are spectra after the matched filter, NumPy's order, ``known``
    (2, channels, symbols) those of the sent symbols; ``method`` as `Receiver.clock`. The delay is common to
    both polarisations. A delay of τ turns bin j by −2πjτ/symbols.
    """
    xp, symbols = device.xp, known.shape[-1]
    if method == "none":
        return xp.zeros(window.shape[1])
    if method == "square-law":
        # The line of |y|² at the symbol rate, from the two band edges a symbol rate apart.
        line = (window[..., :symbols] * window[..., symbols:].conj()).sum(axis=(0, 2))
        fraction = -xp.angle(line) / (2 * np.pi)
        across = device.ifft(fold(advance(xp, window, fraction)) * known.conj())
        whole = (abs(across) ** 2).sum(axis=0).argmax(axis=-1)
        return _wrap(xp, fraction + whole, symbols)
    ratio = window * xp.concatenate([known, known], axis=-1).conj()
    delay = (abs(device.ifft(ratio)) ** 2).sum(axis=0).argmax(axis=-1) / 2
    slope = 2j * np.pi * xp.asarray(np.fft.fftfreq(2 * symbols, 0.5 / symbols)) / symbols
    # Newton's method for the top of the correlation; it starts within a quarter of a symbol.
    for _ in range(5):
        turned = ratio * xp.exp(slope * delay[:, None])
        c0, c1, c2 = (term.sum(axis=-1) for term in (turned, turned * slope, turned * slope * slope))
        first = (c0.conj() * c1).real.sum(axis=0)
        second = (abs(c1) ** 2 + (c0.conj() * c2).real).sum(axis=0)
        # Dark or hopeless signals have no top: stay.
        delay = delay - xp.clip(xp.where(second < 0, first / xp.where(second < 0, second, 1), 0), -0.25, 0.25)
    return _wrap(xp, delay, symbols)


def _wrap(xp, delay, symbols):
    return delay - symbols * xp.rint(delay / symbols)


def advance(xp, window, delay):
    """Undo a delay of ``delay`` symbols (channels,) by the shift theorem."""
    size = window.shape[-1]
    cycles = xp.asarray(np.fft.fftfreq(size, 1 / size)) * (2 / size)
    return window * xp.exp(2j * np.pi * cycles * delay[:, None])


def fold(window):
    """Spectrum of every second sample: from 2 samples per symbol to 1."""
    half = window.shape[-1] // 2
    return window[..., :half] + window[..., half:]


def sliding_sum(xp, values, size: int | None):
    """Sum over the ``size`` cyclic neighbours centred on each element of the last axis, about half of itself.

    The angle of the sum estimates the carrier phase of the element in the middle. With all weights equal
    it follows that element's own noise by 1/n, n = ``size``, and the errors that are left look too small:
    EVM² by 1/(2n). Without the element itself they look too large by 1/(2(n − 1)), the estimate's noise.
    With the weight r = m (√(1 + 1/m) − 1) for the element itself, m = n − 1, the two cancel: perpendicular
    to a symbol of noise e_k the error is e_k − Σ w_j e_j, of (1 − 2w_k + Σ w_j²) times the variance of e_k,
    and that is 1 for w_k = r/(m + r), other w_j = 1/(m + r). The mean EVM² is then that of noise alone.
    """
    n = values.shape[-1]
    if size is None or size >= n:
        return values.sum(axis=-1, keepdims=True)
    before, others = size // 2, size - 1
    padded = xp.concatenate(
        [values[..., n - before - 1 :], values, values[..., : size - before - 1]], axis=-1
    )
    sums = xp.cumsum(padded, axis=-1)
    own = others * (math.sqrt(1 + 1 / others) - 1)
    return sums[..., size:] - sums[..., :n] - (1 - own) * values
