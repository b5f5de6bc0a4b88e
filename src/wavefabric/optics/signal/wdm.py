"""The WDM grid: which channels there are, how finely time is sampled, which bins each channel fills."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from wavefabric.errors import InputError
from wavefabric.quantities import number, numbers


@dataclass(frozen=True)
class Grid:
    """WDM channels on a periodic time window of ``symbols`` symbols. Frequencies may be text with a unit.

    Parameters
    ----------
    frequencies : sequence of float
        Optical centre frequency of each channel, Hz, in any order.
    symbol_rate : float
        Baud, the same for all channels.
    samples_per_symbol : int
        At least 2.
    symbols : int
        Symbols in the window, at least 2; any number (powers of two are fastest).
    centre : float, optional
        Optical frequency that sits at frequency zero of the field, Hz. Default: the middle between
        the lowest and the highest channel.
    guard : float
        Width that must stay empty at either edge of the simulated band, Hz.

    Raises
    ------
    InputError
        If a value is out of range, or a channel lies outside the simulated band.

    Notes
    -----
    The optical carrier is exp(−iω₀t): a channel at the optical offset +Δf sits at NumPy's
    frequency −Δf. Channels are snapped to the nearest bin of the window's spectrum, which makes
    the signal periodic; ``largest_shift`` says by how much at most.
    """

    frequencies: Sequence[float]
    symbol_rate: float
    samples_per_symbol: int
    symbols: int
    centre: float | None = None
    guard: float = field(default=0.0, kw_only=True)

    def __post_init__(self):
        channels = tuple(numbers(self.frequencies, "Hz", "frequencies").ravel().tolist())
        object.__setattr__(self, "frequencies", channels)
        for key in ("symbol_rate", "guard", *(("centre",) if self.centre is not None else ())):
            object.__setattr__(self, key, number(getattr(self, key), "Hz", key))
        if not channels or not all(math.isfinite(f) and f > 0 for f in channels):
            raise InputError("frequencies: one or more positive frequencies in Hz allowed")
        if not (math.isfinite(self.symbol_rate) and self.symbol_rate > 0):
            raise InputError(f"symbol_rate: {self.symbol_rate!r} given, a positive rate in Baud allowed")
        for key in ("samples_per_symbol", "symbols"):
            value = getattr(self, key)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 2:
                raise InputError(f"{key}: {value!r} given, an integer of at least 2 allowed")
        if self.centre is not None and not (math.isfinite(self.centre) and self.centre > 0):
            raise InputError(f"centre: {self.centre!r} given, a positive frequency in Hz allowed")
        if not 0 <= self.guard < self.sample_rate / 2:
            raise InputError(f"guard: {self.guard!r} given, 0 to {self.sample_rate / 2:g} Hz allowed")
        self.check(0.0)

    @classmethod
    def centred(cls, centre, spacing, count, symbol_rate, samples_per_symbol, symbols, *, guard=0.0) -> Grid:
        """``count`` channels ``spacing`` Hz apart, symmetric about the optical frequency ``centre`` (Hz)."""
        centre, spacing = number(centre, "Hz", "centre"), number(spacing, "Hz", "spacing")
        if not spacing > 0:
            raise InputError(f"spacing: {spacing!r} given, a positive spacing in Hz allowed")
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1:
            raise InputError(f"count: {count!r} given, an integer of at least 1 allowed")
        channels = [centre + (k - (count - 1) / 2) * spacing for k in range(count)]
        return cls(channels, symbol_rate, samples_per_symbol, symbols, centre, guard=guard)

    @classmethod
    def between(cls, first, last, spacing, symbol_rate, samples_per_symbol, symbols, *, guard=0.0) -> Grid:
        """Channels from ``first`` to ``last`` (both included) every ``spacing``, all in Hz."""
        first, last = number(first, "Hz", "first"), number(last, "Hz", "last")
        spacing = number(spacing, "Hz", "spacing")
        if not spacing > 0:
            raise InputError(f"spacing: {spacing!r} given, a positive spacing in Hz allowed")
        steps = (last - first) / spacing
        if steps < 0 or abs(steps - round(steps)) > 1e-6 * max(1.0, steps):
            raise InputError(
                f"spacing: {spacing:g} Hz given, a whole fraction of {last - first:g} Hz allowed"
            )
        channels = [first + k * spacing for k in range(round(steps) + 1)]
        return cls(channels, symbol_rate, samples_per_symbol, symbols, guard=guard)

    @property
    def channels(self) -> int:
        """Number of channels."""
        return len(self.frequencies)

    @property
    def sample_rate(self) -> float:
        """Width of the simulated band, Hz."""
        return self.symbol_rate * self.samples_per_symbol

    @property
    def samples(self) -> int:
        """Samples of a row, N."""
        return self.symbols * self.samples_per_symbol

    @property
    def resolution(self) -> float:
        """Width of a bin of the row's spectrum, Hz."""
        return self.symbol_rate / self.symbols

    @property
    def duration(self) -> float:
        """Length of the periodic window, s."""
        return self.symbols / self.symbol_rate

    @property
    def centre_frequency(self) -> float:
        """Optical frequency at frequency zero of the field, Hz."""
        if self.centre is not None:
            return float(self.centre)
        return 0.5 * (min(self.frequencies) + max(self.frequencies))

    @property
    def bins(self) -> np.ndarray:
        """Signed NumPy bin of each channel's centre, int64, shape (channels,): minus the optical offset."""
        offsets = np.asarray(self.frequencies) - self.centre_frequency
        return -np.rint(offsets / self.resolution).astype(np.int64)

    @property
    def offsets(self) -> np.ndarray:
        """Optical offset of each channel from the centre after snapping to bins, Hz, shape (channels,)."""
        return -self.bins * self.resolution

    @property
    def largest_shift(self) -> float:
        """Largest distance between a channel's wanted and snapped frequency, Hz."""
        wanted = np.asarray(self.frequencies) - self.centre_frequency
        return float(np.abs(wanted - self.offsets).max())

    def half_width(self, rolloff: float) -> int:
        """Highest bin, counted from a channel's centre, that its root-raised-cosine spectrum fills."""
        edge = self.symbols * (1 + rolloff) / 2
        return math.floor(edge) if rolloff == 0 else math.ceil(edge) - 1

    def check(self, rolloff: float) -> None:
        """Raise InputError unless channels of this roll-off fit the simulated band and do not overlap."""
        if not (math.isfinite(rolloff) and 0 <= rolloff <= 1):
            raise InputError(f"rolloff: {rolloff!r} given, 0 to 1 allowed")
        half, bins = self.half_width(rolloff), np.sort(self.bins)
        width = self.symbol_rate * (1 + rolloff)
        need = 2 * (np.abs(bins).max() + half) * self.resolution + 2 * self.guard
        if need >= self.sample_rate:
            raise InputError(
                f"samples_per_symbol: {self.samples_per_symbol} given, more than "
                f"{need / self.symbol_rate:.4g} needed by {self.channels} channels and the guard"
            )
        if self.channels > 1 and (gap := int(np.diff(bins).min())) <= 2 * half:
            raise InputError(
                f"frequencies: channels {gap * self.resolution / 1e9:.6g} GHz apart given, "
                f"more than {width / 1e9:.6g} GHz needed at roll-off {rolloff:g}"
            )
