"""Apply the lumped elements of a link to a field, and undo them: amplifiers, losses, filters, couplers."""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy  # its submodules load when first used

from wavefabric.optics.fibre.fibre import Array, Fibre
from wavefabric.optics.fibre.random_coupling import ModeMixing
from wavefabric.optics.link.spectral_gain import filter_band
from wavefabric.optics.propagation.rank_modes import RankModes
from wavefabric.optics.run_file.elements import AmplifierElement, FilterElement, PumpTable
from wavefabric.optics.signal.amplifier import Amplifier
from wavefabric.optics.signal.wdm import WdmGrid
from wavefabric.runtime.device import philox


class LinkContext(Protocol):
    """Describes what the elements of a link share; `LinkPath` has it."""

    fibre: Fibre
    grid: WdmGrid
    seed: int
    local_modes: RankModes

    def scale(self, device: Any, A: Any, factors: np.ndarray) -> None:
        """Multiply each row of ``A`` (local rows, N) by its entry of ``factors`` (2M,), in place."""

    def mix(self, device: Any, A: Any, mixing: ModeMixing, everywhere: bool) -> None:
        """Multiply the field ``A`` by the unitary of ``mixing`` (all rows), in place; all ranks call this."""

    def add_channels(self, device: Any, A: Any, channels: np.ndarray) -> None:
        """Add the signals of ``channels`` (mask), as launched, to ``A`` (local rows, N), √W, in place."""

    def log_gain(self, piece: "FibrePiece", start: float, stop: float, frequencies: Array) -> Array:
        """Return ln of the power gain from ``start`` to ``stop`` (m) in a piece: (frequencies, modes)."""
        ...


@dataclass(frozen=True)
class FibrePiece:
    """Describes a piece of fibre: its number among the pieces, its position among the elements of the link.

    ``medium`` is a key of `LinkPath.media`, the length is in m.
    """

    number: int
    position: int
    medium: tuple[str, float]
    length: float
    section_count: int
    pumps: tuple[PumpTable, ...] = ()
    temperature: float = 300.0


class Lumped:
    """Base class of lumped elements, which change the power of rows. Their ``path`` has what all share."""

    def row_gains(self, path: LinkContext) -> np.ndarray:
        """Return the power gain of each field row for white light, (2M,)."""
        return np.ones(path.fibre.rows)

    def apply(self, path: LinkContext, device, A) -> None:
        """Change the field ``A`` (local rows, N), √W, in place."""
        path.scale(device, A, np.sqrt(self.row_gains(path)))

    def undo(self, path: LinkContext, device, A) -> None:
        """Apply the inverse of `apply` to ``A`` in place, without the noise and without filters."""
        path.scale(device, A, 1 / np.sqrt(self.row_gains(path)))


class LinkAmplifier(Lumped):
    """Applies gain, noise, gain tilt and random gains of the rows; ``number`` counts the link's amplifiers.

    ``pieces`` are those since the amplifier before, whose changes over frequency a flattening filter undoes.
    """

    def __init__(self, table: AmplifierElement, number: int, gain: float, pieces: list[FibrePiece]):
        self.table, self.number, self.pieces = table, number, pieces
        self.amplifier = Amplifier(gain, table.noise_figure)

    def relative_gains(self, path: LinkContext) -> np.ndarray:
        """Return for each field row, (2M,), its power gain relative to the mean gain.

        In dB these ratios are normally distributed, with mean 0 and a root mean square of exactly
        ``mode_dependent_gain``.
        """
        rows, rms = path.fibre.rows, self.table.mode_dependent_gain or 0.0
        normal = np.zeros(rows, np.complex128)
        philox.add_complex_normal(normal, 1.0, path.seed, philox.stream(philox.GAINS, self.number), 0)
        level = normal.real - normal.real.mean()
        return 10 ** (rms / 10 * level / np.sqrt((level**2).mean()))

    def row_gains(self, path: LinkContext) -> np.ndarray:
        gains = np.full(path.fibre.rows, self.amplifier.gain)
        return gains * self.relative_gains(path) if self.table.mode_dependent_gain else gains

    def apply(self, path: LinkContext, device, A) -> None:
        self._change_spectrum(path, device, A, 1)  # before the amplifier adds noise
        first = path.local_modes.first_row
        self.amplifier.apply(device, A, path.grid, path.seed, self.number, first)
        if self.table.mode_dependent_gain:
            path.scale(device, A, np.sqrt(self.relative_gains(path)))

    def undo(self, path: LinkContext, device, A) -> None:
        super().undo(path, device, A)
        self._change_spectrum(path, device, A, -1)

    def log_spectrum(self, path: LinkContext, frequencies: Array) -> Array:
        """Return ln of the power gain over frequency, relative to the middle: (frequencies, modes)."""
        tilt = self.table.gain_tilt
        total = np.outer(tilt * (frequencies - path.grid.centre_frequency), np.ones(path.fibre.modes))
        for piece in self.pieces if self.table.gain_flattening else []:
            total -= path.log_gain(piece, 0.0, piece.length, frequencies)
        return total

    def _change_spectrum(self, path: LinkContext, device, A, sign: int) -> None:
        """Apply (``sign`` 1) or undo (−1) the amplifier's gain tilt and the filter that flattens the gain."""
        if self.table.gain_tilt == 0 and not (self.table.gain_flattening and self.pieces):
            return
        modes = path.local_modes.range
        filter_band(device, A, path.grid, lambda f: sign * self.log_spectrum(path, f), modes)


class LumpedLoss(Lumped):
    """Applies a loss in dB, a number or one for each mode."""

    def __init__(self, loss: float | list[float], modes: int):
        self.gains = np.repeat(10 ** (-np.broadcast_to(loss, modes) / 10.0), 2)

    def row_gains(self, path: LinkContext) -> np.ndarray:
        return self.gains


class BandFilter(Lumped):
    """Applies a cascade of filters: super-Gaussian pass bands about the channels, and a loss."""

    def __init__(self, table: FilterElement):
        self.table = table
        self.gain = 10 ** (-table.loss / 10)

    def row_gains(self, path: LinkContext) -> np.ndarray:
        return np.full(path.fibre.rows, self.gain)

    def amplitude(self, offset: Array) -> Array:
        """Return the amplitude of all filters at ``offset`` Hz from a channel's centre, without their loss.

        The power is 2^(−k (2 Δf/B)^2n) for k filters of order n and the full width at half maximum B.
        """
        width = abs(2 * offset / self.table.bandwidth) ** (2 * self.table.order)
        return np.exp2(-0.5 * self.table.filters * width)

    def passed(self, grid: WdmGrid) -> np.ndarray:
        """Return whether each channel passes, (channels,), in the grid's order."""
        return ~_among(grid, self.table.block + self.table.add)

    def added(self, grid: WdmGrid) -> np.ndarray:
        """Return whether each channel enters behind the filters, (channels,), in the grid's order."""
        return _among(grid, self.table.add)

    def transfer(self, grid: WdmGrid) -> Array:
        """Return the amplitude in each bin of a row's spectrum, (N,), in NumPy's order; 0 between bands."""
        # A channel at the optical offset +Δf sits at −Δf of NumPy's spectrum.
        offset = -np.fft.fftfreq(grid.samples, 1 / grid.sample_rate)
        total = np.zeros(grid.samples)
        for centre, passed in zip(grid.offsets, self.passed(grid), strict=True):
            if passed:
                np.maximum(total, self.amplitude(offset - centre), out=total)
        return math.sqrt(self.gain) * total

    def apply(self, path: LinkContext, device, A) -> None:
        transfer = device.xp.asarray(self.transfer(path.grid))

        def change(rows: slice) -> None:
            for row in range(rows.start, rows.stop):
                A[row] = device.ifft(device.fft(A[row]) * transfer).astype(A.dtype)

        device.map_rows(A.shape[0], change)
        if self.table.add:
            path.add_channels(device, A, self.added(path.grid))


def _among(grid: WdmGrid, numbers: list[int]) -> np.ndarray:
    """Return whether each channel has one of these numbers, from 1 by ascending frequency, (channels,)."""
    return np.isin(np.argsort(np.argsort(grid.offsets, kind="stable")) + 1, numbers)


class ModeCoupler(Lumped):
    """Applies a random unitary to the modes of each group, or to all modes."""

    def __init__(self, number: int, within: str):
        self.number, self.within = number, within

    def mixing(self, path: LinkContext) -> ModeMixing:
        """Return the mixing of all rows of the field."""
        sizes = path.fibre.group_sizes.tolist() if self.within == "groups" else [path.fibre.modes]
        return ModeMixing.random(sizes, path.seed, self.number)

    def apply(self, path: LinkContext, device, A) -> None:
        path.mix(device, A, self.mixing(path), self.within == "all")

    def undo(self, path: LinkContext, device, A) -> None:
        path.mix(device, A, self.mixing(path).inverse, self.within == "all")


def saturated_gain(gain: float, saturation_power: float, power: float) -> float:
    """Return the power gain of an amplifier whose input has the power ``power`` (W).

    It solves G = G₀ exp(−(G − 1) P_in/P_sat), the saturation of a homogeneously broadened amplifier, with
    the small-signal gain G₀ and the saturation power P_sat: G. P. Agrawal, Fiber-Optic Communication Systems,
    4th ed., section 7.2.
    """
    log = math.log(gain)

    def excess(g: float) -> float:
        return g - log + math.expm1(g) * power / saturation_power

    return math.exp(scipy.optimize.brentq(excess, 0.0, log, xtol=1e-14)) if gain > 1 else gain
