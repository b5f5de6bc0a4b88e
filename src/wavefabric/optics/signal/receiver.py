"""Receive signals: noise, compensation or equaliser, clock and carrier recovery; measure Q², BER, rates."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from types import NoneType
from typing import Any

import numpy as np

from wavefabric.base.arguments import field_array, instance, numbers, whole, within
from wavefabric.base.errors import InputError, choice, quoted
from wavefabric.base.system.progress import warn
from wavefabric.optics.fibre.random_coupling import ModeMixing
from wavefabric.optics.signal import recovery
from wavefabric.optics.signal.amplifier import osnr_noise_density
from wavefabric.optics.signal.constellation import information_rates
from wavefabric.optics.signal.direct import detect
from wavefabric.optics.signal.equaliser import Equaliser, equalise, mode_sets, windows
from wavefabric.optics.signal.transmitter import (
    LOCAL_OSCILLATOR,
    Transmitter,
    check_linewidth,
    laser_turn,
    root_raised_cosine,
)
from wavefabric.optics.signal.wdm import WdmGrid, one_or_each
from wavefabric.runtime.device import get_device, philox

#: Largest frequency offset of a local oscillator, in symbol rates.
MOST_OFFSET = 0.4


@dataclass(frozen=True)
class ReceiverResult:
    """Holds the quality of every signal of the field: arrays (modes, channels), polarisations pooled."""

    q_squared_db: np.ndarray  # Q² = 1/EVM², dB; NaN for a dark signal
    evm: np.ndarray  # root-mean-square error vector over root-mean-square symbol, linear
    ber_counted: np.ndarray  # bit errors over bits sent; NaN for Gaussian symbols
    ber_from_q: np.ndarray  # BER in white Gaussian noise of the same Q²; NaN for Gaussian symbols
    mutual_information: np.ndarray  # bits per symbol of one polarisation
    gmi: np.ndarray  # generalised mutual information (bit by bit); NaN for Gaussian symbols
    delay: np.ndarray  # found by the clock recovery, or undone by the equaliser, symbols
    offset: np.ndarray  # frequency of the local oscillator above the carrier, estimated and removed, Hz
    lost: np.ndarray  # whether the symbols correlate with the sent symbols no more than unrelated symbols do
    #: Received symbols after all recovery, by (mode, channel): complex128, shape (2, symbols); with an
    #: equaliser only those after its training.
    points: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)
    #: Waveforms of the first symbols for eye diagrams (`eye_waveform`), by (mode, channel): complex128, shape
    #: (2, samples); with direct detection currents. None with an equaliser.
    eyes: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)

    def penalty_db(self, reference: "ReceiverResult") -> np.ndarray:
        """Return Q² minus that of ``reference`` (back-to-back, same noise seed), dB, (modes, channels)."""
        return self.q_squared_db - reference.q_squared_db


@dataclass(frozen=True)
class Reception:
    """Holds options of `Receiver.receive`. Mode numbers count over the whole link."""

    power_gain: float = 1.0  # net power gain of the link, linear; 1 where amplifiers undo the whole loss
    first_mode: int = 0  # number of the mode in ``field[:2]``, if a rank has only some of the modes
    modes: int | None = None  # number of modes of the link; by default up to the last of the field
    keep: Iterable[tuple[int, int]] = ()  # (mode, channel) whose received symbols go into the result
    progress: Callable[[int, int], None] | None = None  # called with (rows done, rows) after each mode
    #: For the equaliser, the number of modes in each set that is equalised together; by default one set. Each
    #: set is on one rank, or one set is on all ranks of ``control`` (`Control`; collective).
    joint: Sequence[int] | None = None
    control: Any = None
    warn: Callable[[str], None] = warn  # called with one line if frames are lost

    def __post_init__(self):
        object.__setattr__(self, "power_gain", within(self.power_gain, "", "power_gain", 1e-30, 1e30))
        whole("first_mode", self.first_mode, 0, 10**6)
        try:
            object.__setattr__(self, "keep", {(int(mode), int(channel)) for mode, channel in self.keep})
        except (TypeError, ValueError, OverflowError):
            allowed = "pairs of a mode and a channel"
            raise InputError(f"keep: {quoted(self.keep)} given; allowed: {allowed}") from None


@dataclass(frozen=True)
class Receiver:
    """Receives every mode and channel of a `Transmitter`'s signal: coherently, or by direct detection.

    White noise is added for the OSNR ``osnr_db`` (12.5 GHz, both polarisations; None for no noise), relative
    to the mean received power, launch power × ``power_gain``; its waveform is the same after any distance.

    ``clock``: ``"square-law"`` is blind, the clock line of |y|² (M. Oerder, H. Meyr 1988,
    doi 10.1109/26.1476), computed from the two band edges to avoid aliasing; known symbols then give the
    whole symbols. ``"data-aided"`` is the maximum-likelihood delay from the known
    symbols; ``"none"``; ``"auto"`` is square-law, data-aided below a roll-off of 0.05, where the line fades.

    ``phase``: ``"data-aided"`` and ``"auto"`` are the maximum-likelihood phase from the known symbols;
    ``"viterbi-viterbi"`` the fourth power (A. J. Viterbi, A. M. Viterbi 1983, doi 10.1109/TIT.1983.1056713),
    QPSK only, noisier at low OSNR; ``"blind-search"`` tries test phases (`blind_phase`), not for Gaussian
    symbols; ``"none"`` removes only the mean phase. The phase is a sliding average over ``phase_window``
    symbols (at least 2; None for all), with such a weight of the symbol itself that noise alone gives its
    true EVM (see `sliding_sum`).

    ``equaliser`` (`Equaliser`) replaces the inverse coupling and the clock: it undoes unknown mixing and
    delays of the modes that are equalised together. Only their mean dispersion and delay are compensated
    before. ``linewidth`` (Hz) describes the local oscillators, each common to all modes of its channel
    (`laser_phase`); their phase noise is applied before dispersion is compensated. ``frequency_offset`` (Hz,
    one for all channels or a list) is how far they are above the carriers; the receiver estimates it, removes
    it (`carrier_offset`) and compensates dispersion accordingly.

    For ``"ook"`` and ``"pam4"`` a photodiode after the matched filter, an optical one, detects the power of
    both polarisations. Only the delay of each channel is compensated. Q is that of the worst eye, the EVM
    1/Q, and there are no information rates (`detect`).
    """

    transmitter: Transmitter
    osnr_db: float | None = None
    noise_seed: int = 1
    clock: str = "auto"
    phase: str = "auto"
    phase_window: int | None = 64
    equaliser: Equaliser | None = None
    linewidth: float = 0.0
    frequency_offset: Any = 0.0
    tracked: int | None = field(init=False, repr=False)  # `phase_window`, or None if phase is "none"

    def __post_init__(self):
        instance("transmitter", self.transmitter, Transmitter)
        instance("equaliser", self.equaliser, Equaliser, NoneType)
        grid = self.transmitter.grid
        philox.check_seed(self.noise_seed, "noise_seed")
        if self.osnr_db is not None:
            object.__setattr__(self, "osnr_db", within(self.osnr_db, "dB", "osnr_db", -1000, 1000))
        choice("clock", self.clock, recovery.CLOCKS)
        choice("phase", self.phase, recovery.PHASES)
        tracked = None if self.phase == "none" else self.phase_window
        hertz = partial(within, unit="Hz", key="frequency_offset", least=-1e15, most=1e15)
        offset = one_or_each("frequency_offset", self.frequency_offset, grid.channels, hertz)
        vars(self).update(linewidth=check_linewidth(self.linewidth), tracked=tracked, frequency_offset=offset)
        for rate, each in np.broadcast(grid.symbol_rates, offset):
            if abs(each) > MOST_OFFSET * rate:
                limit = f"up to {MOST_OFFSET:g} of the symbol rate, here {MOST_OFFSET * rate:g} Hz"
                raise InputError(f"frequency_offset: {each:g} Hz given; allowed: {limit}")
        for form in self.transmitter.formats:
            recovery.check_phase(self.phase, form.name)
            if form.direct and self.equaliser is not None:
                raise InputError(
                    f"equaliser: given for {form.name}, which has direct detection; allowed: none"
                )
        size = self.phase_window
        if size is not None and not (isinstance(size, int) and size > 1):
            raise InputError(f"phase_window: {quoted(size)} given, 2 or more symbols allowed")

    def receive(
        self, device, field, length: float = 0.0, beta=None, inverse_mixing: Any = None, **options: Any
    ) -> ReceiverResult:
        """Receive every mode and channel of ``field``, (2 modes, N), √W, which stays unchanged.

        For each channel: the inverse exp(−L(ω)z) of the linear phase (loss stays), noise, matched filter,
        clock, carrier phase, the complex gain that fits the known symbols best. Compensation only turns
        phases and precedes noise, so each symbol gets the same noise after any distance.

        ``length`` (m) is the link's length, 0 back-to-back. ``beta`` (modes, orders) holds β1, β2, … of each
        mode of the link at the grid's centre, in the frame of the field (β1 relative to the frame); None
        to compensate nothing. ``inverse_mixing`` (`ModeMixing`), for the rows of ``field``, undoes the modal
        coupling of the whole link before noise is added. ``options`` are those of `Reception`.
        """
        grid, request = self.transmitter.grid, Reception(**options)
        device = get_device(device)
        length = within(length, "m", "length", -1e12, 1e12)
        field = field_array(field)
        if field.ndim != 2 or field.shape[1] != grid.samples or field.shape[0] % 2 or not field.shape[0]:
            raise InputError(f"field: shape {field.shape} given, (2 modes, {grid.samples}) allowed")
        local = range(request.first_mode, request.first_mode + field.shape[0] // 2)
        modes, pairs = local.stop if request.modes is None else request.modes, set(request.keep)
        whole("modes", modes, local.stop, 10**6)
        if outside := [each for each in pairs if each[0] not in local or not 0 <= each[1] < grid.channels]:
            raise InputError(f"keep: {outside[0]} given, below {(modes, grid.channels)} allowed")
        if len(self.transmitter.parts) > 1:
            alike = [channels for channels, _ in self.transmitter.parts]
            link = device, field, length, beta, inverse_mixing
            return self.receive_parts(alike, lambda _, part, **more: part.receive(*link, **more), **options)
        if inverse_mixing is not None:
            instance("inverse_mixing", inverse_mixing, ModeMixing)
            inverse_mixing.check_rows(field.shape[0])
            if self.transmitter.format.direct:
                raise InputError("inverse_mixing: given for direct detection; allowed: None")
        beta = np.zeros((modes, 4)) if beta is None else numbers(beta, "", "beta")
        if beta.ndim != 2 or len(beta) != modes or not np.isfinite(beta).all():
            raise InputError(f"beta: shape {beta.shape} given, finite numbers for {modes} modes allowed")
        bands = _Bands(device, self, length, beta)
        powers = self.transmitter.powers(modes)
        noise: Any = [None] * modes
        if self.osnr_db is not None:
            noise = osnr_noise_density(self.osnr_db, request.power_gain) * powers

        def cut(mode: int, channels: slice = slice(None)):
            k = mode - request.first_mode
            pair = field[2 * k : 2 * k + 2]
            if inverse_mixing is not None:
                pair = inverse_mixing.mode(device, field, k)
            return bands.received(device.fft(pair), mode, channels, noise[mode])

        control, recovered = None, None
        if self.transmitter.format.direct:
            detected = self._detected(device, cut, bands.matched, local, request)
        elif self.equaliser is None:
            recovered = self._recovered(device, cut, bands.matched, local)
        else:
            sets = mode_sets(request.joint, modes, local, request.control.size if request.control else 1)
            for each in sets:
                self.equaliser.check(2 * len(each), grid.symbols)
                beta[each] = beta[each].mean(axis=0)
            control = request.control if sets[0].start < local.start or sets[-1].stop > local.stop else None
            parts = windows(device, sets, local, grid, cut, field.nbytes, control)
            recovered = self._equalised(device, parts, bands.matched, self.equaliser)
        if recovered is None:
            measures, (points, eyes) = np.zeros((6, modes, grid.channels)), detected[1:]
            measures[:, local.start : local.stop] = detected[0]
        else:
            stored = local, pairs, request.progress, control
            measures, points, eyes = self._measured(device, recovered, modes, *stored)
        measures[:4, powers == 0] = np.nan
        error, wrong, mutual, gmi, delay, turns = measures[:, local.start : local.stop]
        # An error of exactly zero would give an infinite Q² and a warning: keep it finite.
        snr = 1 / np.maximum(error, np.finfo(float).tiny)
        ber = self.transmitter.format.ber(snr)
        lost, offset = error >= self._lost_frame_error(), turns / grid.duration
        for mode, channel in np.argwhere(lost)[:1]:
            others = f" (and {lost.sum() - 1} more)" if lost.sum() > 1 else ""
            where = f"mode {local[mode] + 1}, channel {grid.stream_numbers[channel] + 1}{others}"
            what = "Q² means nothing there; check seed, length and dispersion, or take"
            taps = "taps that hold the delays" if self.equaliser else "a clock"
            request.warn(f"receiver: no frame found in {where}: {what} more OSNR, symbols, or {taps}")
        measured = np.sqrt(error), wrong, ber, mutual, gmi, delay, offset, lost
        return ReceiverResult(10 * np.log10(snr), *measured, points, eyes)

    def receive_parts(
        self, parts: Sequence[np.ndarray], receive: Callable[..., ReceiverResult], **options: Any
    ) -> ReceiverResult:
        """Receive lists of channels alike, ``parts``, one after another; return the results of all channels.

        ``receive(number, receiver, **options)`` receives list ``number``; its ``receiver`` is that of these
        channels alone. Channels in no list are absent. ``options`` are those of `Reception`.
        """
        results: dict[str, Any] = {}
        offset, size, request = self.frequency_offset, self.transmitter.grid.channels, Reception(**options)
        kept: dict[str, Any] = {"points": {}, "eyes": {}}
        for number, channels in enumerate(parts):

            def progress(done: int, rows: int, number: int = number) -> None:
                if request.progress is not None:
                    request.progress((number * rows + done) // len(parts), rows)

            keep = [(mode, k) for mode, c in request.keep for k in np.flatnonzero(channels == c)]
            changes = {"transmitter": self.transmitter.of_channels(channels)}
            changes |= {"frequency_offset": np.broadcast_to(offset, size)[channels]}
            more = vars(request) | {"keep": keep, "progress": progress}
            result = receive(number, replace(self, **changes), **more)
            for name, values in ((each.name, getattr(result, each.name)) for each in fields(result)):
                if name in kept:
                    kept[name] |= {(mode, int(channels[k])): row for (mode, k), row in values.items()}
                    continue
                dark = np.nan if values.dtype.kind == "f" else False
                results.setdefault(name, np.full((len(values), size), dark))[:, channels] = values
        for rows in filter(None, kept.values()):
            blank = np.full(min((row.shape for row in rows.values()), default=(2, 0)), np.nan)
            rows |= {key: blank for key in request.keep if key not in rows}
        return ReceiverResult(**results, **kept)

    def _lost_frame_error(self) -> float:
        """Return the EVM² of symbols unrelated to the sent ones; a frame that reaches it counts as lost.

        Phase tracking over n symbols gives unrelated symbols a correlation of √(π/4n); a margin allows for
        chance.
        """
        symbols = self.transmitter.grid.symbols - (self.equaliser.training if self.equaliser else 0)
        size = min(self.tracked or symbols, symbols)
        like = math.pi / 4 / size * (1 + 5 * math.sqrt(size / (2 * symbols)))
        return 1 / like - 1 if like < 1 else math.inf

    def _measured(self, device, recovered, modes: int, local: range, pairs: set, progress, control):
        """Return EVM², BER, MI, GMI, delay and offset, (6, modes, channels), symbols and waveforms of eyes.

        Symbols (2, symbols) and waveforms (2, samples) are by pairs (mode, channel), those in ``pairs``.
        """
        channels = self.transmitter.grid.channels
        measures, points, eyes, done = np.zeros((6, modes, channels)), {}, {}, 0
        pairs = set().union(*control.all_gather(pairs)) if control else pairs
        for part, first, symbols, sent, delay, offset, eye in recovered:
            # The complex gain that fits the known symbols best.
            gain = (symbols * sent.conj()).sum(axis=-1) / (abs(sent) ** 2).sum(axis=-1)
            gain = device.xp.where(gain == 0, 1, gain)[..., None]
            symbols /= gain
            channel_range = range(first, first + symbols.shape[1])
            for k, mode in enumerate(part):
                pair, channel_slice = slice(2 * k, 2 * k + 2), slice(channel_range.start, channel_range.stop)
                measures[:4, mode, channel_slice] = self._quality_measures(device, symbols[pair], sent[pair])
                measures[4, mode, channel_slice] = delay[pair].mean(axis=0)
                measures[5, mode, channel_slice] = offset
                for channel in (c for m, c in pairs if m == mode and c in channel_range):
                    points[mode, channel] = np.array(device.to_host(symbols[pair, channel - first]))
                    if eye is not None:
                        eyes[mode, channel] = device.to_host(eye(channel) / gain[:, channel])
            rows = sum(mode in local for mode in part) * len(channel_range)
            done += rows * (control.size if control else 1)
            if progress is not None:
                progress(min(2 * done // channels, 2 * len(local)), 2 * len(local))
        if control:
            measures = control.sum(measures)
            points = {k: v for part in control.all_gather(points) for k, v in part.items() if k[0] in local}
        return measures, points, eyes

    def _detected(self, device, cut: Callable, matched, local: range, request: Reception):
        """Detect intensities; return the values of `_measured` for this rank's modes."""
        form, channels = self.transmitter.format, self.transmitter.grid.channels
        measures, points, eyes = np.full((6, len(local), channels), np.nan), {}, {}
        for k, mode in enumerate(local):
            sent = self.transmitter.row_symbols(device, 2 * mode)
            kept = [channel for m, channel in request.keep if m == mode]
            (error, wrong, delay), currents, waveforms = detect(device, cut(mode) * matched, form, sent, kept)
            measures[[0, 1, 4, 5], k] = error, wrong, delay, np.zeros(channels)
            points |= {(mode, channel): currents[[channel] * 2].astype(complex) for channel in kept}
            eyes |= {(mode, channel): np.stack([row] * 2) for channel, row in waveforms.items()}
            if request.progress is not None:
                request.progress(2 * (k + 1), 2 * len(local))
        return measures, points, eyes

    def _recovered(self, device, cut: Callable, matched, local: range):
        """Recover clock and carrier, for all channels of a mode at once; yield seven values per mode.

        The values are a list of this mode, 0 (the first channel), the recovered and the sent symbols (2,
        channels, symbols), the delays in symbols, the frequency offsets in turns, and a function from channel
        to the waveform of its eye.
        """
        xp, form, clock = device.xp, self.transmitter.format, self.clock
        if clock == "auto":
            clock = "square-law" if self.transmitter.rolloff >= 0.05 else "data-aided"
        jumps, size = recovery.RARE_JUMPS, self.transmitter.grid.symbols
        if np.any(self.frequency_offset):  # a phase that is not tracked shows the least turn
            jumps = recovery.SMALL_JUMPS if self.tracked else recovery.Jumps(0.0, size // 8)
        for mode in local:
            sent = xp.stack([self.transmitter.row_symbols(device, 2 * mode + p) for p in range(2)])
            window = cut(mode)
            symbols, delay = _with_clock(device, window * matched, sent, clock)
            turns = np.zeros(sent.shape[1])
            slips = np.flatnonzero(~device.to_host(jumps.steady(xp, symbols, sent)))
            if slips.size:
                known = sent[:, slips]
                slipped, some, _ = recovery.without_offset(device, window[:, slips], matched, known)
                rest = jumps.turns(xp, _with_clock(device, slipped * matched, known, clock)[0], known)
                window[:, slips] = slipped = recovery.turned_back(device, slipped, rest)
                again = _with_clock(device, slipped * matched, known, clock)
                (symbols[:, slips], delay[slips]), turns[slips] = again, device.to_host(some + rest)
            phase = recovery.carrier_phase(xp, form, self.phase, self.phase_window, symbols, sent)
            symbols *= xp.exp(-1j * phase)
            eye = partial(_eye, device, window, matched, delay, phase + xp.zeros((1, len(turns), 1)))
            yield [mode], 0, symbols, sent, device.to_host(delay)[None], turns, eye

    def _equalised(self, device, parts: Iterable, matched, options: Equaliser):
        """Equalise each set of modes of a channel; yield seven values per set.

        The values are the modes, the first channel, the recovered and the sent symbols (rows, channels,
        symbols), the delays, the frequency offsets in turns, and None, for an equaliser shows no eye.
        """
        xp, form = device.xp, self.transmitter.format

        def phase(symbols, sent, trained: bool):
            method = "data-aided" if trained and self.phase != "none" else self.phase
            return recovery.carrier_phase(xp, form, method, self.phase_window, symbols, sent, periodic=False)

        def decide(symbols):
            return form.map(xp, form.decide(xp, symbols))

        for modes, channel, window in parts:
            rows = range(2 * modes.start, 2 * modes.stop)
            sent = xp.stack([self.transmitter.symbols(device, row, channel) for row in rows])
            window, turns, lag = recovery.without_offset(device, window[:, None], matched, sent[:, None])
            lag = lag * (2 * abs(lag) >= options.taps)  # only lags beyond the taps
            window = (recovery.advance(xp, window, lag) * matched)[:, 0]
            out, delay = equalise(device, window, sent, options, phase, decide if form.digital else None)
            delay, turns = delay[:, None] + device.to_host(lag), device.to_host(turns)
            yield modes, channel, out[:, None], sent[:, None, options.training :], delay, turns, None

    def load_noise(self, device, field, first_mode: int = 0, power_gain: float = 1.0) -> None:
        """Add the noise of ``osnr_db`` to ``field`` (2 modes, N), √W, in place, over the whole band.

        This is for links whose compensation does more than turn phases, which would change the noise. Between
        channels of unequal power the noise density is that of the nearest channel.
        """
        if self.osnr_db is None:
            return
        grid, order = self.transmitter.grid, np.argsort(self.transmitter.grid.bins)
        half = grid.half_widths(self.transmitter.rolloff)[order]
        middles = (grid.bins[order][1:] - half[1:] + grid.bins[order][:-1] + half[:-1]) / 2
        nearest = order[np.searchsorted(middles, np.fft.fftfreq(grid.samples, 1 / grid.samples))]
        powers = self.transmitter.powers(first_mode + field.shape[0] // 2)
        for k in range(field.shape[0]):
            density = osnr_noise_density(self.osnr_db, 1.0) * power_gain * powers[first_mode + k // 2]
            scale = device.xp.asarray(np.sqrt(density[nearest] * grid.sample_rate * grid.samples))
            noise = _unit_noise(device, grid, self.noise_seed, 2 * first_mode + k)
            field[k] += device.ifft(noise * scale).astype(field.dtype)

    def _quality_measures(self, device, symbols, sent) -> np.ndarray:
        """Return squared EVM, bit error ratio, MI and GMI, (4, channels), both polarisations pooled."""
        xp, form, wrong = device.xp, self.transmitter.format, np.full(sent.shape[1], np.nan)
        square = (abs(symbols - sent) ** 2).sum(axis=(0, 2)) / (abs(sent) ** 2).sum(axis=(0, 2))
        if form.digital:
            errors = form.bit_errors(xp, form.decide(xp, sent), form.decide(xp, symbols), axis=(0, 2))
            wrong = device.to_host(errors) / (2 * sent.shape[-1] * form.bits_per_symbol)
        return np.stack([device.to_host(square), wrong, *information_rates(device, form, sent, symbols)])


def _eye(device, window, matched, delay, phase, channel: int):
    """Return the waveform of the eye of one of the channels of ``window``; see `eye_waveform`."""
    one = slice(channel, channel + 1)
    return recovery.eye_waveform(device, window[:, one] * matched, delay[one], phase[:, channel])


def _with_clock(device, window, sent, clock: str):
    """Recover the clock of a matched-filtered window; return symbols (2, channels, symbols) and delays."""
    delay = recovery.symbol_clock(device, window, device.fft(sent), clock)
    return device.ifft(recovery.fold(recovery.advance(device.xp, window, delay))), delay


class _Bands:
    """Cuts each channel's window out of a row's spectrum, and applies the receiver's first steps to it.

    ``length`` (m) and ``beta`` (modes, orders) are those of the fibre whose linear phase is compensated.
    """

    def __init__(self, device, receiver: Receiver, length: float, beta: np.ndarray):
        transmitter, grid = receiver.transmitter, receiver.transmitter.grid
        self._device, self._grid, self._seed = device, grid, receiver.noise_seed
        self._length, self._beta = length, beta
        #: Factors of each channel by phase noise and offset of its local oscillator, (channels, 2 symbols).
        self._noisy: Any = None
        self._offset: Any = None
        xp, signed = device.xp, grid.window_bins
        self._bins = xp.asarray(signed % grid.samples)
        self._omega = xp.asarray(2 * np.pi * grid.resolution * signed)
        around = signed[0] - grid.bins[0]
        #: Matched filter over a window, (2 symbols,).
        self.matched = xp.asarray(root_raised_cosine(around / grid.symbols, transmitter.rolloff))
        self._direct = transmitter.format.direct
        if self._direct:
            return
        if receiver.linewidth:
            self._noisy = laser_turn(device, grid, receiver.linewidth, self._seed, LOCAL_OSCILLATOR)
        if np.any(receiver.frequency_offset):
            turns = np.broadcast_to(receiver.frequency_offset, grid.channels) * grid.duration
            samples = np.arange(2 * grid.symbols)
            self._offset = xp.asarray(np.exp(1j * np.pi / grid.symbols * np.outer(turns, samples)))

    def received(self, spectrum, mode: int, channels: slice, density):
        """Return each channel's part of the spectra of a mode's two rows: (2, channels, 2 symbols).

        It is not yet filtered. The linear phase of the fibre is removed, and white noise of ``density``
        (W/Hz, for all channels; None: none) is added. The phase noise of the local oscillators is applied
        first, since dispersion is compensated after it; their frequency offset last, as if compensation were
        centred on the carrier.
        """
        device, grid = self._device, self._grid
        window = spectrum[:, self._bins[channels]].astype(np.complex128)
        if self._noisy is not None:
            window = device.fft(device.ifft(window) * self._noisy[channels])
        length, beta = self._length, self._beta[mode]
        if length and beta.any():
            w, phase = self._omega[channels], 0.0
            if self._direct:  # only the delay of the channel's centre: the slope of its phase there
                centre, slope = w[:, :1], 0.0
                for order in range(len(beta), 0, -1):
                    slope = float(beta[order - 1]) / math.factorial(order - 1) - centre * slope
                phase = w * slope
            else:
                for order in range(len(beta), 0, -1):  # opposite phase of 1 m of fibre
                    phase = w * (float(beta[order - 1]) / math.factorial(order) - phase)
            window *= device.xp.exp(1j * length * phase)
        if density is not None:
            scale = device.xp.asarray(np.sqrt(density * grid.sample_rate * grid.samples))[channels, None]
            for polarisation in range(2):
                noise = _unit_noise(device, grid, self._seed, 2 * mode + polarisation)
                window[polarisation] += scale * noise[self._bins[channels]]
        if self._offset is not None:
            window = device.fft(device.ifft(window) * self._offset[channels])
        return window


def _unit_noise(device, grid: WdmGrid, seed: int, row: int):
    """Return complex white noise of unit variance for each frequency bin of a field row: complex128 (N,)."""
    unit = device.zeros((grid.samples,), np.complex128)
    stream = philox.stream(philox.RECEIVER, row)
    device.kernels(philox.TABLE).add_complex_normal(unit, 1.0, seed, stream, 0)
    return unit
