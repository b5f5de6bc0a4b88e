"""Generate root-raised-cosine WDM waveforms, exactly periodic, and the phase noise of lasers."""

import math
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from wavefabric.base.arguments import instance, number, numbers, within
from wavefabric.base.errors import InputError, quoted
from wavefabric.optics.signal.constellation import Constellation, constellation
from wavefabric.optics.signal.wdm import WdmGrid, one_or_each
from wavefabric.runtime.device import philox

#: Largest launch power, W.
MOST_POWER = 1e6
#: The two lasers of a channel: transmitter and local oscillator, each common to all modes of the channel.
TRANSMITTER, LOCAL_OSCILLATOR = 0, 1


def root_raised_cosine(x, rolloff: float) -> np.ndarray:
    """Return the root-raised-cosine spectrum at ``x`` = frequency / symbol rate, 1 in the flat part.

    The squares of the spectra, repeated at every symbol rate, add up to 1: a matched pair has no intersymbol
    interference. Roll-off 0 is the brick wall, with 1/√2 at its two edges. Source: J. G. Proakis, M. Salehi,
    "Digital Communications", 5th ed., eqs. (9.2-26) and (9.2-29).
    """
    x = np.abs(np.asarray(x, dtype=float))
    if rolloff == 0:
        return np.where(x < 0.5, 1.0, np.where(x == 0.5, np.sqrt(0.5), 0.0))
    roll = np.clip((x - (1 - rolloff) / 2) / rolloff, 0.0, 1.0)
    # cos(π/2) is not exactly 0 in floating point, but the spectrum must be 0 beyond the band.
    return np.where(roll < 1, np.cos(np.pi / 2 * roll), 0.0)


@dataclass(frozen=True)
class Transmitter:
    """Generates dual-polarisation, mode- and wavelength-multiplexed signals.

    Every polarisation of every mode and channel carries separate symbols, determined by
    ``(seed, row, channel)`` alone: any device and any rank generates the same symbols. ``constellation`` is a
    `Constellation` or its name, such as ``"16qam"``; ``rolloff`` is the roll-off of the root-raised-cosine
    pulses. Both are one for all channels, or a list with one for each.

    ``launch_power`` is the mean power of a dual-polarisation signal, W or text such as ``"-1 dBm"``, per mode
    and channel: one value, or an array or lists that broadcast to (modes, channels), e.g. (channels,),
    (modes, 1). Each polarisation carries half of it: exactly for QPSK, in expectation over the symbols for
    the other formats. Intensities (OOK, PAM-4) have it in the first polarisation. A power of 0 leaves that
    signal dark.

    ``linewidth`` (Hz, or text) of the channels' lasers gives each channel phase noise, common to all modes
    (`laser_phase`) and limited to a band of twice the symbol rate; 0 for none.
    """

    grid: WdmGrid
    constellation: Any
    rolloff: Any
    launch_power: Any
    seed: int = 1
    linewidth: Any = 0.0
    format: Any = field(init=False, repr=False)  # `Constellation` of all channels, or a tuple of each one's

    def __post_init__(self):
        instance("grid", self.grid, WdmGrid)
        channels = self.grid.channels
        form = one_or_each("constellation", self.constellation, channels, constellation)
        rolloff = one_or_each("rolloff", self.rolloff, channels, lambda x: within(x, "", "rolloff", 0, 1))
        vars(self).update(constellation=form, format=form, rolloff=rolloff)
        self.grid.check(rolloff)
        philox.check_seed(self.seed)
        object.__setattr__(self, "linewidth", check_linewidth(self.linewidth))
        power = numbers(self.launch_power, "W", "launch_power")
        if power.ndim > 2 or not ((power >= 0) & (power <= MOST_POWER)).all():
            limits = f"powers from 0 to {MOST_POWER:g} W, for (modes, channels)"
            raise InputError(f"launch_power: {quoted(self.launch_power)} given; allowed: {limits}")
        if power.ndim and power.shape[-1] not in (1, self.grid.channels):
            raise InputError(f"launch_power: {power.shape[-1]} channels given, {self.grid.channels} allowed")
        power.setflags(write=False)
        object.__setattr__(self, "launch_power", power)

    def powers(self, modes: int) -> np.ndarray:
        """Return the launch power in W, (modes, channels); InputError if set for another number of modes."""
        power = self.launch_power
        if power.ndim == 2 and power.shape[0] not in (1, modes):
            raise InputError(f"launch_power: {power.shape[0]} modes given, {modes} allowed")
        return np.broadcast_to(power, (modes, self.grid.channels))

    @property
    def formats(self) -> tuple[Constellation, ...]:
        """Return the modulation format of each channel."""
        return self.format if isinstance(self.format, tuple) else (self.format,) * self.grid.channels

    @property
    def rolloffs(self) -> np.ndarray:
        """Return the roll-off of each channel, (channels,)."""
        return np.broadcast_to(self.rolloff, self.grid.channels)

    @cached_property
    def parts(self) -> list[tuple[np.ndarray, "Transmitter"]]:
        """Return the sets of channels alike in rate, roll-off and format: their indices and transmitter."""
        kinds = list(zip(self.grid.symbol_rates.tolist(), self.rolloffs.tolist(), self.formats, strict=True))
        if len(set(kinds)) == 1:
            return [(np.arange(self.grid.channels), self)]
        alike = [np.flatnonzero([each == kind for each in kinds]) for kind in dict.fromkeys(kinds)]
        return [(channels, self.of_channels(channels)) for channels in alike]

    def of_channels(self, channels: np.ndarray) -> "Transmitter":
        """Return the transmitter of some ``channels`` (indices) alone, alike in rate, roll-off and format."""
        part, first = copy(self), channels[0]
        vars(part).pop("parts", None)  # those of all channels
        form = self.formats[first]
        values = {"grid": self.grid.part(channels.tolist()), "rolloff": float(self.rolloffs[first])}
        if self.launch_power.ndim and self.launch_power.shape[-1] > 1:
            values["launch_power"] = self.launch_power[..., channels]
        vars(part).update(values, constellation=form, format=form)
        return part

    def with_powers(self, powers: np.ndarray) -> "Transmitter":
        """Return this transmitter with other launch powers, W, (modes, channels)."""
        other = copy(self)
        vars(other).pop("parts", None)
        vars(other).update(launch_power=powers)
        return other

    def only(self, channels: np.ndarray) -> "Transmitter":
        """Return this transmitter with power only in the channels for which ``channels`` is true."""
        return self.with_powers(np.atleast_1d(self.launch_power * channels))

    def labels(self, device, row: int, channel: int):
        """Return the labels sent on ``row`` and ``channel``: int32 device array, shape (symbols,)."""
        form, count = self.formats[channel], self.grid.channel_symbols[channel]
        words = device.empty((count << form.shaped,), np.uint32)
        stream = philox.stream(philox.SYMBOLS, row, self.grid.stream_numbers[channel])
        device.kernels(philox.TABLE).philox_uint32(words, self.seed, stream, 0)
        return form.labels(device.xp, words)

    def symbols(self, device, row: int, channel: int):
        """Return the symbols sent on ``row`` and ``channel``: complex128 device array, shape (symbols,)."""
        if (form := self.formats[channel]).digital:
            return form.map(device.xp, self.labels(device, row, channel))
        out = device.zeros((self.grid.channel_symbols[channel],), np.complex128)
        stream = philox.stream(philox.SYMBOLS, row, self.grid.stream_numbers[channel])
        device.kernels(philox.TABLE).add_complex_normal(out, 1.0, self.seed, stream, 0)
        return out

    def row_symbols(self, device, row: int):
        """Return the symbols of all channels of ``row``, alike in rate: complex128, (channels, symbols)."""
        return device.xp.stack([self.symbols(device, row, c) for c in range(self.grid.channels)])

    def fill(self, device, field, first_row: int = 0, modes: int | None = None, progress=None) -> None:
        """Write the waveforms of global rows ``first_row`` … into ``field`` (rows, N), √W, complex.

        ``modes`` is the number of spatial modes of the whole field, by default up to the last row of
        ``field``; ``progress(rows_done, rows)`` is called after each row. Symbol n of a channel of rate R is
        centred on the time n/R, at sample n × samples_per_symbol if the rate is the lowest.
        """
        if field.ndim != 2 or field.shape[1] != self.grid.samples:
            raise InputError(f"field: shape {field.shape} given, (rows, {self.grid.samples}) allowed")
        rows = field.shape[0]
        modes = modes or (first_row + rows + 1) // 2
        if len(self.parts) > 1:
            self._fill_parts(device, field, first_row, modes, progress)
            return
        grid, xp = self.grid, device.xp
        half = int(grid.half_widths(self.rolloff)[0])
        offsets = np.arange(-half, half + 1)
        bins = xp.asarray((grid.bins[:, None] + offsets) % grid.samples)
        tiled = xp.asarray(offsets % grid.symbols)
        # Parseval: this gain gives a channel of unit-energy symbols unit mean power.
        shape = xp.asarray(root_raised_cosine(offsets / grid.symbols, self.rolloff) * grid.samples_per_symbol)
        amplitude = np.sqrt(self.powers(modes) / 2)
        spectrum = device.zeros((grid.samples,), field.dtype)
        laser = grid, self.linewidth, self.seed, TRANSMITTER
        phase_factor = laser_turn(device, *laser) if self.linewidth else None
        for k in range(rows):
            row = first_row + k
            sent = device.fft(self.row_symbols(device, row))
            gain = xp.asarray(amplitude[row // 2] * self.format.polarisations[row % 2])[:, None]
            if phase_factor is None:
                # Channels never share a bin (WdmGrid.check), and the bins are the same for every row.
                spectrum[bins] = (sent[:, tiled] * (shape * gain)).astype(field.dtype)
            else:  # phase noise widens channels, so that they overlap
                window = device.zeros((grid.channels, 2 * grid.symbols), np.complex128)
                window[:, xp.asarray(offsets % (2 * grid.symbols))] = sent[:, tiled] * (shape * gain)
                window = device.fft(device.ifft(window) * phase_factor)
                spectrum[...] = 0
                for c, signed in enumerate(grid.window_bins):
                    spectrum[xp.asarray(signed % grid.samples)] += window[c].astype(spectrum.dtype)
            field[k][...] = device.ifft(spectrum)
            if progress is not None:
                progress(k + 1, rows)

    def _fill_parts(self, device, field, first_row: int, modes: int, progress) -> None:
        """Write each row as the sum of the waveforms of `parts`."""
        waveform = device.empty((1, self.grid.samples), field.dtype)
        for k in range(field.shape[0]):
            field[k] = 0
            for _, part in self.parts:
                part.fill(device, waveform, first_row + k, modes)
                field[k] += waveform[0]
            if progress is not None:
                progress(k + 1, field.shape[0])


def check_linewidth(linewidth: Any) -> float:
    """Return ``linewidth``, a number in Hz or text, as a number; InputError unless from 0 to 1e16 Hz."""
    linewidth = number(linewidth, "Hz", "linewidth")
    if not 0 <= linewidth <= 1e16:
        raise InputError(f"linewidth: {linewidth!r} given; allowed: 0 Hz or more, up to 1e16")
    return linewidth


def laser_phase(grid: WdmGrid, linewidth: float, seed: int, laser: int, channel: int) -> np.ndarray:
    """Return the phase (rad) of a ``channel``'s laser at 2 samples per symbol: float64, (2 symbols,).

    ``linewidth`` (Hz) is the full width at half maximum Δν of its Lorentzian line: over a time t the phase
    changes by a Gaussian random walk of variance 2πΔν t (C. H. Henry, "Theory of the phase noise and power
    spectrum of a single mode injection laser", IEEE J. Quantum Electron. 19 (1983),
    doi 10.1109/JQE.1983.1071721). The walk returns to its start at the end of the window T (a Brownian
    bridge), so that the window stays periodic: the variance is 2πΔν t (1 − t/T). ``laser`` is `TRANSMITTER`
    or `LOCAL_OSCILLATOR`.
    """
    n = 2 * grid.symbols
    walk = np.zeros(n, np.complex128)
    philox.add_complex_normal(walk, 1.0, seed, philox.stream(philox.LASER, laser, channel), 0)
    phase = np.cumsum(walk.real * math.sqrt(4 * math.pi * linewidth * grid.duration / n))
    return phase - phase[-1] * np.arange(1, n + 1) / n


def laser_turn(device, grid: WdmGrid, linewidth: float, seed: int, laser: int):
    """Return the factor exp(−i phase) of each channel's field from its ``laser``: (channels, 2 symbols)."""
    phases = [laser_phase(grid, linewidth, seed, laser, channel) for channel in grid.stream_numbers]
    # The carrier is exp(−iω₀t), so the phase has the same negative sign.
    return device.xp.asarray(np.exp(-1j * np.array(phases)))
