"""MIMO equaliser of received rows: trained by least squares, then decision-directed, by overlap-save.

Row r of the output is the sum over the input rows s and over ``taps`` symbols at 2 samples each:
z_r[n] = Σ_s Σ_k w_rs[k] u_s[n − k], where u_s are the even and the odd samples of a row, at symbol rate.
Blocks are transformed, and each bin is one product of matrices (rows, 2 rows) (2 rows, blocks).

Sources: S. Haykin, "Adaptive Filter Theory", 4th ed., chapters 7 (overlap-save, the gradient's constraint to
the taps) and 8 (least squares); S. Ö. Arık, D. Askarov, J. M. Kahn, "Adaptive frequency-domain equalization
in mode-division multiplexing systems", J. Lightwave Technol. 32 (2014) 1841, doi 10.1109/JLT.2014.2303079; Å.
Björck, "Numerical Methods for Least Squares Problems", SIAM (1996), section 7.4 (preconditioned CGLS).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from wavefabric.errors import InputError
from wavefabric.optics.signal.wdm import WdmGrid
from wavefabric.quantities import whole

#: Least squares end when a step lessens the squared error of no row by more than this part of it, after so
#: many steps, or when that error is below so much of the signal.
_LEAST_GAIN, _MOST_STEPS, _LEAST_ERROR = 1e-4, 100, 1e-9
#: Rounds of taps and carrier phase in the training, and the gain in squared error that ends them.
_MOST_ROUNDS, _LEAST_ROUND_GAIN = 8, 0.005
#: Regularisation of the inverse spectral density that preconditions, against its mean.
_RIDGE = 0.1
#: Fewest blocks that share one update of the taps.
_FRAME = 8
#: Products of matrices below this m k n are done by one thread (OpenBLAS: 65536).
_SERIAL = 60_000
_TINY = np.finfo(float).tiny
#: Windows of the channels in memory at a time: at least this many bytes, else a quarter of the field.
LEAST_BYTES = 1 << 26


@dataclass(frozen=True)
class Equaliser:
    """Options of the MIMO equaliser.

    ``taps`` is its memory in symbols, centred, which must hold the delay spread of the rows that are
    equalised together. The taps minimise the squared error of the first ``training`` symbols of the window,
    which are known and not judged: noise alone then costs about rows × taps × (1 + roll-off) / training of
    the SNR, 4.3 dB times that.

    ``decision_directed`` goes on with decisions: frames of some thousand symbols are equalised, decided, and
    then change the taps by a normalised Newton step, whose weight is that of the frame among all symbols so
    far, or among the last ``memory`` (None for all). No symbol is equalised by taps that know its own noise.
    """

    taps: int = 16
    training: int = 4096
    decision_directed: bool = True
    memory: int | None = None

    def __post_init__(self):
        whole("taps", self.taps, 1)
        whole("training", self.training, 1)
        if self.memory is not None:
            whole("memory", self.memory, 1)

    @property
    def block(self) -> int:
        """Symbols of a block of overlap-save, of which taps − 1 are those of the block before."""
        return max(64, 1 << (4 * self.taps - 1).bit_length())

    def check(self, rows: int, symbols: int) -> None:
        """Raise InputError unless so many ``rows`` can be equalised together in a window of ``symbols``."""
        coefficients = 2 * rows * self.taps
        if not coefficients <= self.training < symbols:
            least = f"2 x {rows} rows x {self.taps} taps = {coefficients}"
            allowed = f"{least} or more, and fewer than the {symbols} symbols of the window"
            raise InputError(f"training: {self.training} given; allowed: {allowed}")


def equalise(device, window, sent, options: Equaliser, phase: Callable, decide: Callable | None):
    """Equalise the rows of one channel together, and remove their carrier phase.

    ``window`` (rows, 2 symbols): spectra at 2 samples per symbol, NumPy's order, in any unit. ``sent`` (rows,
    symbols): the equaliser uses those of the training. ``phase(symbols, sent, trained)`` gives the carrier
    phase, of known symbols if ``trained``; ``decide(symbols)`` the nearest points (None: no decisions).
    Returns the symbols after the training, complex128 (rows, symbols − training), and the delay of the input
    that each row of the taps undoes, the centre of gravity of its energy: symbols, NumPy (rows,).
    """
    (rows, symbols), known, xp = sent.shape, options.training, device.xp
    filters = _Filters(device, window, options)
    taps, gain = filters.train(sent[:, :known], phase)
    frames = max(1, round((symbols - known) / (filters.hop * max(_FRAME, rows))))
    out = xp.empty((rows, symbols - known), np.complex128)
    for first, last in pairwise(np.linspace(known, symbols, frames + 1).astype(int).tolist()):
        spectra = filters.spectra(first, last)
        z = filters.filter(spectra, taps, last - first)
        turn = xp.exp(1j * phase(z, sent[:, first:last], False))
        out[:, first - known : last - known] = z / turn
        if decide is not None and options.decision_directed:
            filters.add_density(spectra, last)
            error = decide(z / (turn * gain)) * turn - z
            total = min(last, options.memory or last)
            gradient, step = filters.gradient(spectra, error, filters.inverse / total)
            if 8 * max(last - first, rows * options.taps) > total:
                # So few symbols that these weigh much, or the coefficients do: no step by which errors grow.
                moved = (abs(filters.filter(spectra, step, last - first)) ** 2).sum(axis=-1)
                best = (gradient.conj() * step).real.sum(axis=(0, 2)) / xp.maximum(moved, _TINY)
                step = step * xp.minimum(best, 1)[:, None]
            taps = taps + step
    return out, filters.delay(taps)


def products(device, a, b):
    """Matrix products (bins, m, k) (bins, k, n).

    On a CPU small ones are shared among the device's threads, each in pieces that the BLAS library leaves to
    one thread: its own threads gain nothing there, and lose much on a busy machine.
    """
    (bins, m, k), n = a.shape, b.shape[2]
    if device.xp is not np or m * k > _SERIAL // 8:
        return device.xp.matmul(a, b)
    out = np.empty((bins, m, n), np.complex128)
    step, parts = _SERIAL // (m * k), min(bins, 4 * device.threads)

    def work(part: slice) -> None:
        here = slice(part.start * bins // parts, part.stop * bins // parts)
        for first in range(0, n, step):
            piece = slice(first, first + step)
            np.matmul(a[here], b[here, :, piece], out=out[here, :, piece])

    device.map_rows(parts, work)
    return out


class _Filters:
    """Blocks of the periodic input, the filter and its adjoint over them, and how taps are found."""

    def __init__(self, device, window, options: Equaliser):
        self.device, self.taps, self.size = device, options.taps, options.block
        self.hop = self.size - self.taps + 1
        samples = device.ifft(window)
        scale = device.xp.sqrt((abs(samples) ** 2).mean(axis=-1, keepdims=True))
        samples = samples / device.xp.where(scale > 0, scale, 1)
        # Even and odd samples as rows of their own: (2 rows, symbols).
        self.inputs = samples.reshape(len(window), -1, 2).transpose(0, 2, 1).reshape(2 * len(window), -1)
        #: Spectral density of the input, (bins, 2 rows, 2 rows), of so many blocks; symbols at its inversion.
        self.density, self.blocks, self.inverted = 0.0, 0, 0

    def spectra(self, first: int, last: int):
        """Spectra of the blocks that symbols ``first`` … ``last`` need: (bins, 2 rows, blocks)."""
        xp, count = self.device.xp, -(-(last - first) // self.hop)
        start = first + self.taps // 2 - (self.taps - 1)
        at = start + xp.arange(count)[:, None] * self.hop + xp.arange(self.size)
        cut = self.device.fft(self.inputs[:, at % self.inputs.shape[1]])
        return xp.ascontiguousarray(cut.transpose(2, 0, 1))

    def transfer(self, taps):
        """Transfer matrices of ``taps`` (taps, rows, 2 rows): (bins, rows, 2 rows)."""
        padded = self.device.zeros((self.size, *taps.shape[1:]), np.complex128)
        padded[: self.taps] = taps
        return self.device.fft(padded, axis=0)

    def filter(self, spectra, taps, symbols: int):
        """Output of the filter: (rows, symbols)."""
        product = products(self.device, self.transfer(taps), spectra)
        valid = self.device.ifft(product, axis=0)[self.taps - 1 :]
        return valid.transpose(1, 2, 0).reshape(taps.shape[1], -1)[:, :symbols]

    def gradient(self, spectra, error, inverse):
        """Adjoint of the filter on ``error``, and the step that the ``inverse`` density makes of it."""
        rows, count = len(error), spectra.shape[2]
        padded = self.device.zeros((rows, count, self.size), np.complex128)
        valid = self.device.zeros((rows, count * self.hop), np.complex128)
        valid[:, : error.shape[1]] = error
        padded[:, :, self.taps - 1 :] = valid.reshape(rows, count, self.hop)
        transformed = self.device.fft(padded).transpose(2, 0, 1)
        cross = products(self.device, transformed, spectra.conj().transpose(0, 2, 1))
        gradient = self.device.ifft(cross, axis=0)[: self.taps]
        product = products(self.device, self.transfer(gradient), inverse)
        return gradient, self.device.ifft(product, axis=0)[: self.taps]

    def add_density(self, spectra, symbols: int) -> None:
        """Take blocks into the spectral density, by which there are ``symbols``, until there are enough."""
        (_, size, count), xp = spectra.shape, self.device.xp
        # More would change the inverse by no more than a tenth or so.
        if self.inverted >= 16 * size * self.taps:
            return
        self.blocks += count
        new = products(self.device, spectra, spectra.conj().transpose(0, 2, 1)) / (count * self.size)
        self.density = self.density + (new - self.density) * (count / self.blocks)
        if symbols >= 2 * self.inverted:
            self.inverted = symbols
            ridge = _RIDGE * xp.trace(self.density, axis1=1, axis2=2).real.mean() / size
            # A block of a dark signal is zero.
            self.inverse = xp.linalg.inv(self.density + xp.where(ridge > 0, ridge, 1) * xp.eye(size))

    def delay(self, taps) -> np.ndarray:
        """Delay of the input that each row of ``taps`` undoes, symbols: NumPy (rows,).

        The centre of gravity of the energy of ``taps`` times the density, the impulse response of the
        channel: of the taps themselves little is known where there is no signal.
        """
        response = self.device.ifft(products(self.device, self.transfer(taps), self.density), axis=0)
        energy = self.device.to_host(abs(response) ** 2)
        size, centre = self.size, self.taps // 2
        # Lag k takes the input of symbol n − k + taps // 2, of odd samples half a symbol later.
        lead = centre - ((np.arange(size) + size // 2 - centre) % size - size // 2 + centre)
        first = sum((lead + 0.5 * odd) @ energy[:, :, odd::2].sum(axis=2) for odd in (0, 1))
        return first / np.maximum(energy.sum(axis=(0, 2)), _TINY)

    def train(self, sent, phase: Callable):
        """Taps by least squares on the first symbols, ``sent``, in turn with their carrier phase.

        Also the gain by which the output is too small, (rows, 1): the smaller, the more noise.
        """
        xp, (rows, known) = self.device.xp, sent.shape
        spectra = self.spectra(0, known)
        self.add_density(spectra, known)
        taps = self.device.zeros((self.taps, rows, 2 * rows), np.complex128)
        target, before = sent, np.inf
        for _ in range(_MOST_ROUNDS):
            taps = self.least_squares(spectra, target, taps)
            z = self.filter(spectra, taps, known)
            target = sent * xp.exp(1j * phase(z, sent, True))
            error = float((abs(target - z) ** 2).sum())
            if error >= before * (1 - _LEAST_ROUND_GAIN):
                break
            before = error
        gain = (z * target.conj()).real.sum(axis=-1) / (abs(target) ** 2).sum(axis=-1)
        return taps, xp.where(gain > 0, gain, 1)[:, None]

    def least_squares(self, spectra, target, taps):
        """Taps that minimise ‖target − filter(taps)‖², each row by itself, from ``taps`` on."""
        xp, symbols = self.device.xp, target.shape[1]
        error = target - self.filter(spectra, taps, symbols)
        direction, before, squared = 0.0, xp.full(len(target), np.inf), (abs(error) ** 2).sum(axis=-1)
        inverse = self.inverse / symbols
        for _ in range(_MOST_STEPS):
            gradient, step = self.gradient(spectra, error, inverse)
            slope = (gradient.conj() * step).real.sum(axis=(0, 2))
            direction = step + direction * (slope / xp.where(before > 0, before, 1))[:, None]
            before, moved = slope, self.filter(spectra, direction, symbols)
            curve = (abs(moved) ** 2).sum(axis=-1)
            length = (slope / xp.where(curve > 0, curve, 1))[:, None]
            taps, error = taps + direction * length, error - moved * length
            after = (abs(error) ** 2).sum(axis=-1)
            if not bool((squared - after > xp.maximum(_LEAST_GAIN * squared, _LEAST_ERROR * symbols)).any()):
                break
            squared = after
        return taps


def mode_sets(sizes: Sequence[int] | None, modes: int, mine: range, ranks: int = 1) -> list[range]:
    """Sets of ``sizes`` modes of a link that are equalised together, those of the modes ``mine`` of a rank.

    By default all ``modes`` are one set, which may lie on all ranks. `InputError` if ``sizes`` are not all
    modes, or if several sets are there and a rank has part of one.
    """
    ends = np.cumsum([0, *(sizes or (modes,))]).tolist()
    if ends[-1] != modes or min(np.diff(ends)) < 1:
        raise InputError(f"joint: {list(sizes or ())} given; allowed: positive numbers, {modes} together")
    sets = [range(*pair) for pair in pairwise(ends) if pair[0] < mine.stop and pair[1] > mine.start]
    cut = sets[0].start < mine.start or sets[-1].stop > mine.stop
    if cut and (len(ends) > 2 or ranks == 1):
        held, whole = f"{mine.start} to {mine.stop - 1}", f"{sets[0].start} to {sets[-1].stop - 1}"
        raise InputError(f"joint: modes {held} of the link are here; allowed: whole sets of modes, {whole}")
    return sets


def scratch_bytes(equaliser: Equaliser, nbytes: int, rows: int, symbols: int) -> int:
    """Memory (bytes, about) that equalising ``rows`` rows together takes beside a field of ``nbytes``."""
    window, matrices = 32 * symbols * rows, 16 * equaliser.block * (2 * rows) ** 2
    cut = 4 * max(min(LEAST_BYTES, nbytes), nbytes // 4, window)
    return cut + 4 * window + 6 * 32 * equaliser.training * rows + 8 * matrices


def windows(
    device, sets: list[range], mine: range, grid: WdmGrid, cut: Callable, nbytes: int, control
) -> Iterator[tuple[range, int, Any]]:
    """Yield each set of modes with each channel, and the windows of all its rows: (rows, 2 symbols).

    ``cut(mode, channels)`` gives the windows (2, channels, 2 symbols) of one of the modes ``mine``. With
    ``control`` (`Control`) the modes of all its ranks are the set, and ranks take the channels in turn: of
    some, as a field of ``nbytes`` allows, they first exchange the windows, then each equalises its own.
    """
    ranks = control.size if control else 1
    for modes in sets:
        local = range(max(modes.start, mine.start), min(modes.stop, mine.stop))
        most = max(LEAST_BYTES, nbytes // 4) // (64 * grid.symbols * len(local))
        at_once = max(1, most // ranks) * ranks
        at_once = min(control.all_gather(at_once)) if control else at_once
        for first in range(0, grid.channels, at_once):
            part = range(first, min(first + at_once, grid.channels))
            rows = device.xp.concatenate([cut(mode, slice(part.start, part.stop)) for mode in local])
            if control is None:
                yield from ((modes, channel, rows[:, channel - first]) for channel in part)
                continue
            own = _exchange(control, device.to_host(rows))
            del rows
            while own:
                k, whole = own.popitem()
                yield modes, first + k, device.asarray(whole)


def _exchange(control, rows: np.ndarray) -> dict[int, np.ndarray]:
    """Windows of the rows of all ranks, in rank order, by channel: of those channels that are this rank's."""
    ends, mine = np.cumsum([0, *control.all_gather(len(rows))]), {}
    for k in range(rows.shape[1]):
        owner, window = k % control.size, np.ascontiguousarray(rows[:, k])
        if owner == control.rank:
            mine[k] = np.empty((ends[-1], rows.shape[2]), rows.dtype)
            mine[k][ends[owner] : ends[owner + 1]] = window
        # All ranks go through the pairs in one order, so that nobody waits in a circle.
        for peer in (p for p in range(control.size) if p != owner):
            if control.rank == peer:
                control.send_array(owner, window, k)
            elif control.rank == owner:
                control.recv_array(peer, mine[k][ends[peer] : ends[peer + 1]], k)
    return mine
