"""Equalise received rows by MIMO filters: least-squares training, then decision-directed, by overlap-save.

Row r of the output is y_r[n] = Σ_s Σ_k w_rs[k] u_s[n − k] with ``taps`` values of k. The inputs u_s, at
symbol rate, are the even and the odd samples of each received row at 2 samples per symbol. Blocks are
transformed, and each frequency bin needs one matrix product (rows, 2 rows) (2 rows, blocks).

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

from wavefabric.base.arguments import whole
from wavefabric.base.errors import InputError
from wavefabric.optics.signal.wdm import WdmGrid

#: Least squares ends when no row's squared error falls by more than this fraction per step, after this many
#: steps, or when the error is below this fraction of the signal.
_LEAST_GAIN, _MOST_STEPS, _LEAST_ERROR = 1e-4, 100, 1e-9
#: Most training rounds (taps, then carrier phase); a round that gains less in squared error is the last.
_MOST_ROUNDS, _LEAST_ROUND_GAIN = 8, 0.005
#: Regularisation of the inverse spectral density (the preconditioner), relative to its mean.
_RIDGE = 0.1
#: Fewest blocks that share one update of the taps.
_FRAME = 8
#: BLAS computes matrix products below this m k n on one thread (OpenBLAS: 65536).
_SERIAL = 60_000
_TINY = np.finfo(float).tiny
#: Memory for channel windows at a time: a quarter of the field, at least this many bytes.
LEAST_BYTES = 1 << 26


@dataclass(frozen=True)
class Equaliser:
    """Holds options of the MIMO equaliser.

    ``taps`` is the length of the filter in symbols, centred; it must cover the delay spread of the rows that
    are equalised together. The taps minimise the squared error of the first ``training`` symbols of the
    window, which are known and not evaluated. Noise in the training lowers the SNR by about 4.3 dB ×
    rows × taps × (1 + roll-off) / training, if the taps stay as they are then.

    With ``decision_directed`` the taps adapt after the training too. Frames of some thousand symbols are
    equalised and decided in turn, and each then changes the taps by a normalised Newton step. Its weight is
    the frame's fraction of all symbols so far, or of the last ``memory`` (None for all). A symbol is never
    equalised by taps that its own noise has changed.
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
        """Return the symbols per overlap-save block; taps − 1 of them repeat the previous block."""
        return max(64, 1 << (4 * self.taps - 1).bit_length())

    def check(self, rows: int, symbols: int) -> None:
        """Raise InputError unless the training suffices for ``rows`` rows and leaves some of ``symbols``."""
        coefficients = 2 * rows * self.taps
        if not coefficients <= self.training < symbols:
            least = f"2 x {rows} rows x {self.taps} taps = {coefficients}"
            allowed = f"{least} or more, and fewer than the {symbols} symbols of the window"
            raise InputError(f"training: {self.training} given; allowed: {allowed}")


def equalise(device, window, sent, options: Equaliser, phase: Callable, decide: Callable | None):
    """Equalise the rows of one channel together, and remove their carrier phase.

    ``window`` (rows, 2 symbols): spectra at 2 samples per symbol, NumPy's order, in any unit. ``sent`` (rows,
    symbols): the taps use only the training symbols. ``phase(symbols, sent, trained)`` returns the carrier
    phase; with ``trained`` all these symbols are known. ``decide(symbols)`` returns the nearest points of the
    constellation; None: taps do not adapt after the training. Returns the symbols after the training,
    complex128 (rows, symbols − training), and for each output row the input delay that its taps undo, the
    centre of gravity of their energy: symbols, NumPy (rows,).
    """
    (rows, symbols), training, xp = sent.shape, options.training, device.xp
    filters = _Filters(device, window, options)
    taps, gain = filters.train(sent[:, :training], phase)
    frames = max(1, round((symbols - training) / (filters.hop * max(_FRAME, rows))))
    out = xp.empty((rows, symbols - training), np.complex128)
    for first, last in pairwise(np.linspace(training, symbols, frames + 1).astype(int).tolist()):
        spectra = filters.spectra(first, last)
        z = filters.filter(spectra, taps, last - first)
        phase_factor = xp.exp(1j * phase(z, sent[:, first:last], False))
        out[:, first - training : last - training] = z / phase_factor
        if decide is not None and options.decision_directed:
            filters.add_density(spectra, last)
            error = decide(z / (phase_factor * gain)) * phase_factor - z
            total = min(last, options.memory or last)
            gradient, step = filters.gradient(spectra, error, filters.inverse / total)
            if 8 * max(last - first, rows * options.taps) > total:
                # With few symbols so far relative to frame or taps, shorten steps that would add error.
                moved = (abs(filters.filter(spectra, step, last - first)) ** 2).sum(axis=-1)
                best = (gradient.conj() * step).real.sum(axis=(0, 2)) / xp.maximum(moved, _TINY)
                step = step * xp.minimum(best, 1)[:, None]
            taps = taps + step
    return out, filters.delay(taps)


def products(device, a, b):
    """Return the matrix product of ``a`` (bins, m, k) and ``b`` (bins, k, n) in each frequency bin.

    On a CPU the device's threads share small products, since threads of BLAS do not speed these up.
    """
    (bins, m, k), n = a.shape, b.shape[2]
    if device.xp is not np or m * k > _SERIAL // 8:
        return device.xp.matmul(a, b)
    out = np.empty((bins, m, n), np.complex128)
    step, parts = _SERIAL // (m * k), min(bins, 4 * device.threads)

    def work(part: slice) -> None:
        bin_range = slice(part.start * bins // parts, part.stop * bins // parts)
        for first in range(0, n, step):
            piece = slice(first, first + step)
            np.matmul(a[bin_range], b[bin_range, :, piece], out=out[bin_range, :, piece])

    device.map_rows(parts, work)
    return out


class _Filters:
    """Applies the filter and its adjoint to blocks of the periodic input, and computes the taps."""

    def __init__(self, device, window, options: Equaliser):
        self.device, self.taps, self.size = device, options.taps, options.block
        self.hop = self.size - self.taps + 1
        samples = device.ifft(window)
        scale = device.xp.sqrt((abs(samples) ** 2).mean(axis=-1, keepdims=True))
        samples = samples / device.xp.where(scale > 0, scale, 1)
        # Even and odd samples as separate rows: (2 rows, symbols).
        self.inputs = samples.reshape(len(window), -1, 2).transpose(0, 2, 1).reshape(2 * len(window), -1)
        #: Spectral density of the input, (bins, 2 rows, 2 rows); its number of blocks; symbols when inverted.
        self.density, self.blocks, self.inverted = 0.0, 0, 0

    def spectra(self, first: int, last: int):
        """Return spectra of input blocks for output symbols ``first`` to ``last``: (bins, 2 rows, blocks)."""
        xp, count = self.device.xp, -(-(last - first) // self.hop)
        start = first + self.taps // 2 - (self.taps - 1)
        at = start + xp.arange(count)[:, None] * self.hop + xp.arange(self.size)
        cut = self.device.fft(self.inputs[:, at % self.inputs.shape[1]])
        return xp.ascontiguousarray(cut.transpose(2, 0, 1))

    def transfer(self, taps):
        """Return the transfer matrix of ``taps`` (taps, rows, 2 rows) in each bin: (bins, rows, 2 rows)."""
        padded = self.device.zeros((self.size, *taps.shape[1:]), np.complex128)
        padded[: self.taps] = taps
        return self.device.fft(padded, axis=0)

    def filter(self, spectra, taps, symbols: int):
        """Return the output of the filter ``taps`` for the blocks ``spectra``: (rows, symbols)."""
        product = products(self.device, self.transfer(taps), spectra)
        valid = self.device.ifft(product, axis=0)[self.taps - 1 :]
        return valid.transpose(1, 2, 0).reshape(taps.shape[1], -1)[:, :symbols]

    def gradient(self, spectra, error, inverse):
        """Return the gradient for the taps, and this gradient times ``inverse``, which speeds up the fit.

        ``error`` (rows, symbols) is the target less the output of the filter. ``inverse``, a matrix per
        frequency bin, is the inverse of the input's spectral density, up to a factor.
        """
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
        """Add blocks to the input's mean spectral density, unless that has enough already.

        ``symbols``, the number of symbols so far, tells when to compute the inverse of the density again.
        """
        (_, size, count), xp = spectra.shape, self.device.xp
        # More blocks would change the inverse by no more than about a tenth.
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
        """Return the input delay that each row of ``taps`` undoes, symbols: NumPy (rows,).

        ``taps`` times the density is the impulse response of the channel; the delay is the centre of gravity
        of its energy. The taps alone are poorly determined at frequencies without signal.
        """
        response = self.device.ifft(products(self.device, self.transfer(taps), self.density), axis=0)
        energy = self.device.to_host(abs(response) ** 2)
        size, centre = self.size, self.taps // 2
        # Lag k takes the input of symbol n − k + taps // 2, of odd samples half a symbol later.
        lead = centre - ((np.arange(size) + size // 2 - centre) % size - size // 2 + centre)
        first = sum((lead + 0.5 * odd) @ energy[:, :, odd::2].sum(axis=2) for odd in (0, 1))
        return first / np.maximum(energy.sum(axis=(0, 2)), _TINY)

    def train(self, sent, phase: Callable):
        """Fit taps to the symbols ``sent`` by least squares, in alternation with their carrier phase.

        Returns taps, and the gain of the output relative to the target, (rows, 1), which noise reduces.
        """
        xp, (rows, count) = self.device.xp, sent.shape
        spectra = self.spectra(0, count)
        self.add_density(spectra, count)
        taps = self.device.zeros((self.taps, rows, 2 * rows), np.complex128)
        target, before = sent, np.inf
        for _ in range(_MOST_ROUNDS):
            taps = self.least_squares(spectra, target, taps)
            z = self.filter(spectra, taps, count)
            target = sent * xp.exp(1j * phase(z, sent, True))
            error = float((abs(target - z) ** 2).sum())
            if error >= before * (1 - _LEAST_ROUND_GAIN):
                break
            before = error
        gain = (z * target.conj()).real.sum(axis=-1) / (abs(target) ** 2).sum(axis=-1)
        return taps, xp.where(gain > 0, gain, 1)[:, None]

    def least_squares(self, spectra, target, taps):
        """Minimise ‖target − filter(taps)‖² for each row separately, starting from ``taps``."""
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


def mode_sets(sizes: Sequence[int] | None, modes: int, local: range, ranks: int = 1) -> list[range]:
    """Return the sets of modes, each equalised together, that contain modes of this rank, ``local``.

    ``sizes`` are the numbers of modes of all sets; by default all ``modes`` are one set, which may extend
    over all ranks. `InputError` if ``sizes`` do not add up to all modes, or if this rank has only part of a
    set, except of a single set on several ranks.
    """
    ends = np.cumsum([0, *(sizes or (modes,))]).tolist()
    if ends[-1] != modes or min(np.diff(ends)) < 1:
        raise InputError(f"joint: {list(sizes or ())} given; allowed: positive numbers, {modes} together")
    sets = [range(*pair) for pair in pairwise(ends) if pair[0] < local.stop and pair[1] > local.start]
    cut = sets[0].start < local.start or sets[-1].stop > local.stop
    if cut and (len(ends) > 2 or ranks == 1):
        held = f"{local.start} to {local.stop - 1}"
        whole = f"{sets[0].start} to {sets[-1].stop - 1}"
        raise InputError(f"joint: modes {held} of the link are here; allowed: whole sets of modes, {whole}")
    return sets


def scratch_bytes(equaliser: Equaliser, nbytes: int, rows: int, symbols: int) -> int:
    """Estimate the bytes needed to equalise ``rows`` rows together, besides the field of ``nbytes``."""
    window, matrices = 32 * symbols * rows, 16 * equaliser.block * (2 * rows) ** 2
    cut = 4 * max(min(LEAST_BYTES, nbytes), nbytes // 4, window)
    return cut + 4 * window + 6 * 32 * equaliser.training * rows + 8 * matrices


def windows(
    device, sets: list[range], local_modes: range, grid: WdmGrid, cut: Callable, nbytes: int, control
) -> Iterator[tuple[range, int, Any]]:
    """Yield (set of modes, channel, windows of the set's rows) for all ``sets`` and channels.

    A window is a channel's part of a row's spectrum; those of a set are (rows, 2 symbols). ``cut(mode,
    channels)`` returns windows (2, channels, 2 symbols) of one of this rank's modes, ``local_modes``. With
    ``control`` (`Control`) the modes of all its ranks form one set. Ranks then exchange windows, and each
    yields some of the channels with all rows. ``nbytes``, the size of a field, limits the channels exchanged
    at once.
    """
    ranks = control.size if control else 1
    for modes in sets:
        local = range(max(modes.start, local_modes.start), min(modes.stop, local_modes.stop))
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
    """Exchange windows among ranks; return a dictionary from each channel of this rank to all rows' windows.

    ``rows`` (local rows, channels, 2 symbols) are this rank's windows. Channels are dealt out to ranks in
    turn.
    """
    ends, gathered = np.cumsum([0, *control.all_gather(len(rows))]), {}
    for k in range(rows.shape[1]):
        owner, window = k % control.size, np.ascontiguousarray(rows[:, k])
        if owner == control.rank:
            gathered[k] = np.empty((ends[-1], rows.shape[2]), rows.dtype)
            gathered[k][ends[owner] : ends[owner + 1]] = window
        # All ranks process the pairs in the same order, which avoids deadlock.
        for peer in (p for p in range(control.size) if p != owner):
            if control.rank == peer:
                control.send_array(owner, window, k)
            elif control.rank == owner:
                control.recv_array(peer, gathered[k][ends[peer] : ends[peer + 1]], k)
    return gathered
