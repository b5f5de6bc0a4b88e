"""Define the WDM grid: its channels, the sampling in time, and the spectrum bins that each channel fills."""

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from wavefabric.base.arguments import number, numbers, positive, whole, within
from wavefabric.base.errors import InputError
from wavefabric.base.units import counted


def channels_about(centre, spacing, count: int) -> list[float]:
    """Return frequencies (Hz) of ``count`` channels ``spacing`` apart, symmetric about ``centre``."""
    centre, spacing = number(centre, "Hz", "centre"), positive(spacing, "Hz", "spacing")
    whole("count", count, 1, 10**6)
    return [centre + (k - (count - 1) / 2) * spacing for k in range(count)]


def channels_between(first, last, spacing) -> list[float]:
    """Return frequencies (Hz) from ``first`` to ``last``, both included, every ``spacing``."""
    first, last = number(first, "Hz", "first"), number(last, "Hz", "last")
    spacing = positive(spacing, "Hz", "spacing")
    steps = (last - first) / spacing
    if steps < 0:
        allowed = f"{first / 1e12:g} THz, the first, or above"
        raise InputError(f"last: {last / 1e12:g} THz given; allowed: {allowed}")
    if abs(steps - round(steps)) > 1e-6 * max(1.0, steps):
        between = f"{(last - first) / 1e9:g} GHz between the first and the last frequency"
        raise InputError(f"spacing: {spacing / 1e9:g} GHz given; allowed: a whole fraction of the {between}")
    return [first + k * spacing for k in range(round(steps) + 1)]


def one_or_each(key: str, value: Any, channels: int, check: Callable[[Any], Any]) -> Any:
    """Return one checked value, or a tuple with one for each channel; a list of equal values is one value."""
    if not isinstance(value, (list, tuple, np.ndarray)):
        return check(value)
    each = tuple(check(item) for item in value)
    if len(each) != channels:
        allowed = "allowed: one value, or a list with one for each channel"
        raise InputError(f"{key}: {len(each)} values given for {counted(channels, 'channel')}; {allowed}")
    return each[0] if len(set(each)) == 1 else each


@dataclass(frozen=True)
class WdmGrid:
    """Defines WDM channels on a periodic window of ``symbols`` symbols. Frequencies may be text with a unit.

    ``frequencies`` are the optical centres of the channels, Hz, in any order; ``symbol_rate`` is in Baud, one
    for all or a list with one for each; ``samples_per_symbol`` and ``symbols`` are whole numbers from 2
    (powers of two are fastest), at the lowest symbol rate. ``centre`` is the optical frequency at frequency
    zero of the field, Hz, by default the middle between the lowest and the highest channel. All channels
    share the window, in which each has a whole number of symbols.

    The optical carrier is exp(−iω₀t): a channel at the optical offset +Δf is at NumPy's frequency −Δf.
    Channels are moved to the nearest bin of the window's spectrum, which makes the signal periodic;
    ``largest_shift`` is the largest such change of frequency.
    """

    frequencies: Sequence[float]
    symbol_rate: Any
    samples_per_symbol: int
    symbols: int
    centre: float | None = None
    channels: int = field(init=False, repr=False)  # number of channels
    sample_rate: float = field(init=False, repr=False)  # width of the simulated band, Hz
    samples: int = field(init=False, repr=False)  # number of samples of a row, N
    resolution: float = field(init=False, repr=False)  # width of a bin of the row's spectrum, Hz
    duration: float = field(init=False, repr=False)  # length of the periodic window, s
    centre_frequency: float = field(init=False, repr=False)  # optical, at frequency zero of the field, Hz
    lowest_rate: float = field(init=False, repr=False)  # lowest symbol rate, Hz
    stream_numbers: tuple[int, ...] = field(init=False, repr=False)  # of each channel's random streams

    def __post_init__(self):
        channels = tuple(numbers(self.frequencies, "Hz", "frequencies").ravel().tolist())
        if not channels or not all(math.isfinite(f) and f > 0 for f in channels):
            lowest = min(channels, default="none")
            raise InputError(f"frequencies: {lowest} given; allowed: positive frequencies, in Hz")
        check = partial(positive, unit="Hz", key="symbol_rate")
        rates = one_or_each("symbol_rate", self.symbol_rate, len(channels), check)
        rate = float(np.min(rates))
        centre = None if self.centre is None else positive(self.centre, "Hz", "centre")
        middle = 0.5 * (min(channels) + max(channels)) if centre is None else centre
        whole("samples_per_symbol", self.samples_per_symbol, 2)
        whole("symbols", self.symbols, 2)
        values = {"frequencies": channels, "symbol_rate": rates, "channels": len(channels)}
        values |= {"centre": centre, "centre_frequency": middle, "lowest_rate": rate}
        values |= {"stream_numbers": tuple(range(len(channels)))}
        values |= {"sample_rate": rate * self.samples_per_symbol, "resolution": rate / self.symbols}
        values |= {"samples": self.symbols * self.samples_per_symbol, "duration": self.symbols / rate}
        vars(self).update(values)
        self._check_window()

    def _check_window(self) -> None:
        """Raise InputError unless each channel has a whole number of symbols in the window."""
        lowest, relative = self.lowest_rate, self.symbol_rates / self.lowest_rate
        counts = relative * self.symbols
        excess = abs(counts - np.rint(counts))
        if excess.max() <= 1e-6:
            return
        c, ratios = int(excess.argmax()), [Fraction(ratio).limit_denominator(1000) for ratio in relative]
        allowed = "symbol rates whose ratios are simple fractions"
        if abs(np.array(ratios, float) - relative).max() < 1e-9:
            least = math.lcm(*(ratio.denominator for ratio in ratios))
            few = [n * least for n in (self.symbols // least, self.symbols // least + 1) if n * least > 1]
            near = " or ".join(f"{n} ({n / lowest * 1e9:.6g} ns)" for n in few)
            allowed = f"multiples of {least}, such as {near}"
        window = f"{self.symbols} at the lowest symbol rate, {lowest / 1e9:g} GBaud, take "
        window += f"{self.duration * 1e9:.6g} ns"
        actual = f"channel {c + 1} at {self.symbol_rates[c] / 1e9:g} GBaud has {counts[c]:.6g} symbols"
        raise InputError(f"symbols: {window}, in which {actual}; allowed: {allowed}")

    @classmethod
    def centred(cls, centre, spacing, count, symbol_rate, samples_per_symbol, symbols) -> "WdmGrid":
        """Return a grid of ``count`` channels ``spacing`` Hz apart, symmetric about ``centre`` (Hz)."""
        frequencies = channels_about(centre, spacing, count)
        return cls(frequencies, symbol_rate, samples_per_symbol, symbols, number(centre, "Hz", "centre"))

    @classmethod
    def between(cls, first, last, spacing, symbol_rate, samples_per_symbol, symbols) -> "WdmGrid":
        """Return a grid with channels from ``first`` to ``last``, both included, every ``spacing`` Hz."""
        return cls(channels_between(first, last, spacing), symbol_rate, samples_per_symbol, symbols)

    @property
    def symbol_rates(self) -> np.ndarray:
        """Return the symbol rate of each channel, Hz, (channels,)."""
        return np.broadcast_to(self.symbol_rate, self.channels)

    @property
    def channel_symbols(self) -> np.ndarray:
        """Return the number of symbols of each channel in the window, (channels,)."""
        return np.rint(self.symbol_rates * self.duration).astype(int)

    def part(self, channels: Sequence[int]) -> "WdmGrid":
        """Return the grid of some ``channels`` (indices) of one symbol rate, in the same window and band.

        Its ``symbols`` are those of these channels; its ``samples_per_symbol`` need not be whole.
        """
        part, first = copy(self), channels[0]
        symbols = int(self.channel_symbols[first])
        values = {"symbol_rate": float(self.symbol_rates[first]), "symbols": symbols}
        values |= {"samples_per_symbol": self.samples / symbols, "channels": len(channels)}
        lists = "frequencies", "stream_numbers"
        values |= {key: tuple(getattr(self, key)[c] for c in channels) for key in lists}
        vars(part).update(values)
        return part

    @property
    def bins(self) -> np.ndarray:
        """Return the signed FFT bin at the centre of each channel, (channels,): minus its optical offset."""
        offsets = np.asarray(self.frequencies) - self.centre_frequency
        return -np.rint(offsets / self.resolution).astype(np.int64)

    @property
    def window_bins(self) -> np.ndarray:
        """Return the signed FFT bins of each channel's band, 2 samples per symbol: (channels, 2 symbols)."""
        around = np.rint(np.fft.fftfreq(2 * self.symbols, 0.5 / self.symbols))
        return self.bins[:, None] + around.astype(np.int64)

    @property
    def offsets(self) -> np.ndarray:
        """Return each channel's optical offset from the centre after snapping to bins, Hz, (channels,)."""
        return -self.bins * self.resolution

    @property
    def largest_shift(self) -> float:
        """Return the largest distance between a channel's requested and snapped frequency, Hz."""
        wanted = np.asarray(self.frequencies) - self.centre_frequency
        return float(np.abs(wanted - self.offsets).max())

    def half_widths(self, rolloff: Any) -> np.ndarray:
        """Return the highest bin of each channel's root-raised-cosine spectrum from its centre, (channels,).

        ``rolloff`` is one value, or one for each channel.
        """
        edges = self.channel_symbols * (1 + np.asarray(rolloff)) / 2
        return np.where(np.asarray(rolloff) == 0, np.floor(edges), np.ceil(edges) - 1).astype(int)

    def check(self, rolloff: Any) -> None:
        """Raise InputError unless channels of this roll-off fit the band without overlap.

        ``rolloff`` is one value, or one for each channel.
        """
        rolloff = one_or_each("rolloff", rolloff, self.channels, lambda x: within(x, "", "rolloff", 0, 1))
        half, order = self.half_widths(rolloff), np.argsort(self.bins)
        width = self.symbol_rates * (1 + np.asarray(rolloff))
        if 2 * (np.abs(self.bins) + half).max() * self.resolution >= self.sample_rate:
            band = float((2 * np.abs(self.offsets) + width).max())
            least = max(math.ceil(band / self.lowest_rate), self.samples_per_symbol + 1)
            actual = f"{self.samples_per_symbol} given simulates {self.sample_rate / 1e9:g} GHz"
            occupied = f"but the channels occupy {band / 1e9:g} GHz"
            raise InputError(f"samples_per_symbol: {actual}, {occupied}; must be at least {least}")
        gaps = np.diff(self.bins[order])
        margin = gaps - half[order][1:] - half[order][:-1]
        if margin.min(initial=1) <= 0:
            k = int(margin.argmin())
            wide = [f"{each / 1e9:.6g}" for each in sorted(set(width[order[k : k + 2]]))]
            actual = f"channels {gaps[k] * self.resolution / 1e9:.6g} GHz apart overlap"
            wide = f"at this symbol_rate and rolloff each is {' or '.join(wide)} GHz wide"
            raise InputError(f"frequencies: {actual}; {wide}")
