"""The receiver: noise, compensation or equaliser, clock and carrier recovery, Q², BER, information rates."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wavefabric.device import philox
from wavefabric.errors import InputError
from wavefabric.optics.fibre.mode_mixing import ModeMixing
from wavefabric.optics.signal.amplifier import osnr_noise_density
from wavefabric.optics.signal.bands import ALL, Bands
from wavefabric.optics.signal.carrier import METHODS as PHASES
from wavefabric.optics.signal.carrier import carrier_phase, phase_fault
from wavefabric.optics.signal.clock import METHODS as CLOCKS
from wavefabric.optics.signal.clock import advance, fold, symbol_clock
from wavefabric.optics.signal.equaliser import Equaliser, equalise
from wavefabric.optics.signal.information import information_rates
from wavefabric.optics.signal.joint import channels_at_once, mode_sets, windows
from wavefabric.optics.signal.laser import check_linewidth
from wavefabric.optics.signal.transmitter import Transmitter
from wavefabric.quantities import choice


@dataclass(frozen=True)
class ReceiverResult:
    """Quality of every signal of the field's modes: arrays (modes, channels), both polarisations pooled."""

    q_squared_db: np.ndarray  # Q² = 1/EVM², dB; NaN for a dark signal
    evm: np.ndarray  # root-mean-square error vector over root-mean-square symbol, linear
    ber_counted: np.ndarray  # bit errors over bits sent; NaN for Gaussian symbols
    ber_from_q: np.ndarray  # of white Gaussian noise of the same Q²; NaN for Gaussian symbols
    mutual_information: np.ndarray  # bits per symbol of one polarisation
    gmi: np.ndarray  # the same bit by bit; NaN for Gaussian symbols
    delay: np.ndarray  # found by the clock recovery, or undone by the equaliser, symbols
    #: Received symbols after all recovery, by (mode, channel): complex128, shape (2, symbols); of an
    #: equaliser those after its training.
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
    joint: Sequence[int] | None = None
    control: Any = None

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
    QPSK only, noisier at low OSNR; ``"blind-search"`` tries test phases (`blind_phase`), not for Gaussian
    symbols; ``"none"`` removes only the mean phase. ``phase_window`` symbols (at least 2; None for all) slide
    along; the symbol itself counts about half, so that noise alone gives its own EVM (see `sliding_sum`).

    ``equaliser`` (`Equaliser`) takes the place of the inverse coupling and of the clock: it undoes what mixes
    and delays the modes that are equalised together, without knowing it. Only their mean dispersion and delay
    are compensated before.

    ``linewidth`` (Hz) is that of the local oscillators, each common to all modes of its channel
    (`laser_phase`); its phase noise meets the field before dispersion is compensated.
    """

    transmitter: Transmitter
    osnr_db: float | None = None
    noise_seed: int = 1
    clock: str = "auto"
    phase: str = "auto"
    phase_window: int | None = 64
    equaliser: Equaliser | None = None
    linewidth: float = 0.0

    def __post_init__(self):
        philox.check_seed(self.noise_seed, "noise_seed")
        if self.osnr_db is not None:
            osnr_noise_density(self.osnr_db, 1.0)
        choice("clock", self.clock, CLOCKS)
        choice("phase", self.phase, PHASES)
        check_linewidth(self.linewidth)
        if fault := phase_fault(self.phase, self.transmitter.format.name):
            raise InputError(fault)
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
        - ``joint``: for the equaliser, how many modes of the link are equalised together, set after set; by
          default all. Sets lie on one rank each, or one set on all ranks.
        - ``control``: `Control` of the ranks that hold the modes of a set; collective.
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
        bands = Bands(device, self.transmitter, self.noise_seed, self.linewidth)

        def cut(mode: int, channels: slice = ALL):
            k = mode - request.first_mode
            pair = field[2 * k : 2 * k + 2]
            if inverse_mixing is not None:
                pair = inverse_mixing.mode(device, field, k)
            window = bands.compensated(device.fft(pair), length, coefficients[mode], channels)
            if self.osnr_db is not None:
                density = osnr_noise_density(self.osnr_db, request.power_gain) * powers(modes)[mode]
                bands.add_noise(window, mode, density, channels)
            window *= bands.matched
            return window

        if self.equaliser is not None:
            ranks = request.control.size if request.control else 1
            sets = mode_sets(request.joint, modes, mine, ranks)
            for each in sets:
                self.equaliser.check(2 * len(each), grid.symbols)
                coefficients[each] = coefficients[each].mean(axis=0)
            measures, points = self._equalise(device, cut, sets, mine, kept, request, field.nbytes)
        else:
            measures, points = np.full((5, here, grid.channels), np.nan), {}
            for k, mode in enumerate(mine):
                sent = xp.stack([self.transmitter.row_symbols(device, 2 * mode + p) for p in range(2)])
                symbols, measures[4, k] = self._recover(device, cut(mode), sent)
                measures[:4, k] = self._judge(device, symbols, sent)
                for channel in sorted(c for m, c in kept if m == mode):
                    points[mode, channel] = np.array(device.to_host(symbols[:, channel]))
                if request.progress is not None:
                    request.progress(2 * k + 2, 2 * here)
        error, wrong, mutual, gmi, delay = measures
        measures[:4, powers(modes)[mine.start : mine.stop] == 0] = np.nan
        # An error of exactly zero would be an infinite Q²: keep it finite and quiet.
        snr = 1 / np.maximum(error, np.finfo(float).tiny)
        ber = self.transmitter.format.ber(snr)
        return ReceiverResult(10 * np.log10(snr), np.sqrt(error), wrong, ber, mutual, gmi, delay, points)

    def _equalise(self, device, cut, sets: list[range], mine: range, kept, request: Reception, nbytes: int):
        """Measures (5, modes here, channels) and kept symbols by the equaliser, set by set of modes."""
        grid, form, xp = self.transmitter.grid, self.transmitter.format, device.xp
        assert self.equaliser is not None
        control = request.control if sets[0].start < mine.start or sets[-1].stop > mine.stop else None
        ranks = control.size if control else 1
        if control:
            kept = set().union(*control.all_gather(kept))
        measures, points = np.zeros((5, sets[-1].stop, grid.channels)), {}

        def phase(symbols, sent, trained: bool):
            method = "data-aided" if trained and self.phase != "none" else self.phase
            return carrier_phase(xp, form, method, self.phase_window, symbols, sent, periodic=False)

        def decide(symbols):
            return form.map(xp, form.decide(xp, symbols))

        for modes in sets:
            local = range(max(modes.start, mine.start), min(modes.stop, mine.stop))
            at_once = channels_at_once(nbytes, 2 * len(local), grid.symbols, ranks)
            if control:
                at_once = min(control.all_gather(at_once))
            some = windows(device, local, grid.channels, at_once, cut, control)
            for count, (channel, window) in enumerate(some, 1):
                rows = range(2 * modes.start, 2 * modes.stop)
                sent = xp.stack([self.transmitter.symbols(device, row, channel) for row in rows])
                out, delay = equalise(
                    device, window, sent, self.equaliser, phase, decide if form.digital else None
                )
                sent = sent[:, self.equaliser.training :]
                out = _unit_gain(xp, out, sent)
                for k, mode in enumerate(modes):
                    pair = slice(2 * k, 2 * k + 2)
                    measures[:4, mode, channel] = self._judge(device, out[pair, None], sent[pair, None])[:, 0]
                    measures[4, mode, channel] = delay[pair].mean()
                    if (mode, channel) in kept:
                        points[mode, channel] = np.array(device.to_host(out[pair]))
                if request.progress is not None:
                    done = local.start - mine.start + len(local) * ranks * count / grid.channels
                    request.progress(min(int(2 * done), 2 * len(mine)), 2 * len(mine))
        if control:
            measures = control.sum(measures)
            points = {k: v for part in control.all_gather(points) for k, v in part.items() if k[0] in mine}
        return measures[:, mine.start : mine.stop], points

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

    def _recover(self, device, window, sent):
        """Symbols (2, channels, symbols) of mean complex gain 1, and the delay of each channel."""
        xp, known = device.xp, device.fft(sent)
        clock = self.clock
        if clock == "auto":
            clock = "square-law" if self.transmitter.rolloff >= 0.05 else "data-aided"
        delay = symbol_clock(device, window, known, clock)
        aligned = device.ifft(fold(advance(xp, window, delay)))
        form, size = self.transmitter.format, self.phase_window
        aligned *= xp.exp(-1j * carrier_phase(xp, form, self.phase, size, aligned, sent))
        return _unit_gain(xp, aligned, sent), device.to_host(delay)

    def _judge(self, device, symbols, sent) -> np.ndarray:
        """Squared EVM, bit error ratio, MI and GMI, (4, channels), both polarisations pooled."""
        xp, form = device.xp, self.transmitter.format
        square = (abs(symbols - sent) ** 2).sum(axis=(0, 2)) / (abs(sent) ** 2).sum(axis=(0, 2))
        rates = information_rates(device, form, sent, symbols)
        if not form.digital:
            return np.stack([device.to_host(square), np.full(sent.shape[1], np.nan), *rates])
        wrong = form.bit_errors(xp, form.decide(xp, sent), form.decide(xp, symbols), axis=(0, 2))
        bits = 2 * sent.shape[-1] * form.bits_per_symbol
        return np.stack([device.to_host(square), device.to_host(wrong) / bits, *rates])


def _unit_gain(xp, symbols, sent):
    """``symbols`` over the complex gain that fits the known ones best, row by row; in place."""
    gain = (symbols * sent.conj()).sum(axis=-1) / (abs(sent) ** 2).sum(axis=-1)
    symbols /= xp.where(gain == 0, 1, gain)[..., None]
    return symbols


def _checked_beta(beta, modes: int) -> np.ndarray:
    coefficients = np.zeros((modes, 4)) if beta is None else np.array(beta, dtype=float)
    if coefficients.shape != (modes, 4) or not np.isfinite(coefficients).all():
        actual = f"shape {coefficients.shape} given"
        raise InputError(f"beta: {actual}, finite numbers of shape {(modes, 4)} allowed")
    return coefficients
