"""Define the WDM grid: its channels, the sampling in time, and the spectrum bins that each channel fills."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from wavefabric.base.arguments import number, numbers, positive, whole, within
from wavefabric.base.errors import InputError


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


@dataclass(frozen=True)
class WdmGrid:
    """Defines WDM channels on a periodic window of ``symbols`` symbols. Frequencies may be text with a unit.

    ``frequencies`` are the optical centres of the channels, Hz, in any order; ``symbol_rate`` is in Baud, the
    same for all; ``samples_per_symbol`` and ``symbols`` are whole numbers from 2 (powers of two are fastest).
    ``centre`` is the optical frequency at frequency zero of the field, Hz, by default the middle between the
    lowest and the highest channel.

    The optical carrier is exp(−iω₀t): a channel at the optical offset +Δf is at NumPy's frequency −Δf.
    Channels are moved to the nearest bin of the window's spectrum, which makes the signal periodic;
    ``largest_shift`` is the largest such change of frequency.
    """

    frequencies: Sequence[float]
    symbol_rate: float
    samples_per_symbol: int
    symbols: int
    centre: float | None = None
    channels: int = field(init=False, repr=False)  # number of channels
    sample_rate: float = field(init=False, repr=False)  # width of the simulated band, Hz
    samples: int = field(init=False, repr=False)  # number of samples of a row, N
    resolution: float = field(init=False, repr=False)  # width of a bin of the row's spectrum, Hz
    duration: float = field(init=False, repr=False)  # length of the periodic window, s
    centre_frequency: float = field(init=False, repr=False)  # optical, at frequency zero of the field, Hz

    def __post_init__(self):
        channels = tuple(numbers(self.frequencies, "Hz", "frequencies").ravel().tolist())
        if not channels or not all(math.isfinite(f) and f > 0 for f in channels):
            lowest = min(channels, default="none")
            raise InputError(f"frequencies: {lowest} given; allowed: positive frequencies, in Hz")
        rate = positive(self.symbol_rate, "Hz", "symbol_rate")
        centre = None if self.centre is None else positive(self.centre, "Hz", "centre")
        middle = 0.5 * (min(channels) + max(channels)) if centre is None else centre
        whole("samples_per_symbol", self.samples_per_symbol, 2)
        whole("symbols", self.symbols, 2)
        values = {"frequencies": channels, "symbol_rate": rate, "channels": len(channels)}
        values |= {"centre": centre, "centre_frequency": middle}
        values |= {"sample_rate": rate * self.samples_per_symbol, "resolution": rate / self.symbols}
        values |= {"samples": self.symbols * self.samples_per_symbol, "duration": self.symbols / rate}
        vars(self).update(values)

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

    def half_width(self, rolloff: float) -> int:
        """Return the highest bin, relative to a channel's centre, of its root-raised-cosine spectrum."""
        edge = self.symbols * (1 + rolloff) / 2
        return math.floor(edge) if rolloff == 0 else math.ceil(edge) - 1

    def check(self, rolloff: float) -> None:
        """Raise InputError unless channels of this roll-off fit the simulated band without overlap."""
        within(rolloff, "", "rolloff", 0, 1)
        half, bins = self.half_width(rolloff), np.sort(self.bins)
        width = self.symbol_rate * (1 + rolloff)
        if 2 * (np.abs(bins).max() + half) * self.resolution >= self.sample_rate:
            band = 2 * float(np.abs(self.offsets).max()) + width
            least = max(math.ceil(band / self.symbol_rate), self.samples_per_symbol + 1)
            actual = f"{self.samples_per_symbol} given simulates {self.sample_rate / 1e9:g} GHz"
            occupied = f"but the channels occupy {band / 1e9:g} GHz"
            raise InputError(f"samples_per_symbol: {actual}, {occupied}; must be at least {least}")
        if self.channels > 1 and (gap := int(np.diff(bins).min())) <= 2 * half:
            actual = f"channels {gap * self.resolution / 1e9:.6g} GHz apart overlap"
            wide = f"at this symbol_rate and rolloff each is {width / 1e9:.6g} GHz wide"
            raise InputError(f"frequencies: {actual}; {wide}")
