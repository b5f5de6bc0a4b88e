"""Model the path of light through a link: sections of fibre, amplifiers, coupling; and its inverse."""

import dataclasses
import math
from copy import copy
from functools import cache, partial
from itertools import pairwise

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.optics.fibre.fibre import Array, Fibre, shift_expansion
from wavefabric.optics.fibre.random_coupling import ModeMixing, RandomCoupling, total
from wavefabric.optics.link.spectral_gain import SpectralGain, filter_band
from wavefabric.optics.propagation.operators import FibreOperators
from wavefabric.optics.propagation.operators_ranks import PowerExchange
from wavefabric.optics.propagation.propagate import PropagationOptions, Propagator
from wavefabric.optics.propagation.rank_modes import RankModes, split_modes
from wavefabric.optics.propagation.step_size import Sections
from wavefabric.optics.run_file.load import RunFile
from wavefabric.optics.run_file.tables import LinkTable
from wavefabric.optics.signal.amplifier import Amplifier
from wavefabric.optics.signal.transmitter import Transmitter
from wavefabric.optics.signal.wdm import WdmGrid
from wavefabric.optics.theory.gaussian_noise import Spans
from wavefabric.runtime.device import philox
from wavefabric.runtime.exchange.communicator import Communicator

#: Keys of [fibre] by which gain or loss depends on frequency.
_SPECTRAL = ("raman", "attenuation_csv", "attenuation_slope")
#: Longest piece of fibre that one filter represents, m: a tenth of an effective length.
FILTER_SPACING = 2e3
#: Number of samples of a row that a rank sends at once if ranks couple rows.
_CHUNK = 1 << 14


def amplifier_gain(link: LinkTable, fibre: Fibre) -> float:
    """Return the power gain of an amplifier: from the run file, else exactly the mean loss of a span."""
    if link.gain is not None:
        return 10 ** (link.gain / 10)
    try:
        return Spans(link.length).amplifier_gain(fibre)
    except InputError as error:
        raise InputError(f"link.{error}") from None


def random_coupling(run: RunFile) -> RandomCoupling | None:
    """Return the random coupling of [fibre.random_coupling], or None."""
    table = run.fibre.random_coupling
    return None if table is None else RandomCoupling(**table.model_dump(), seed=run.seed)


def section_count(run: RunFile) -> int:
    """Return the number of equal sections of a span; random coupling or filters act at their ends."""
    if (coupling := random_coupling(run)) is not None:
        return coupling.sections(run.link.length)
    return math.ceil(run.link.length / FILTER_SPACING) if run.fibre.present(*_SPECTRAL) else 1


class LinkPath:
    """Models the spans of a link: fibre in sections, amplifiers, mode coupling; also the inverse of all this.

    ``fibre`` is the fibre of the run file, with delays of its rows if they couple at random. `InputError` if
    settings of several tables of the run file conflict.
    """

    @classmethod
    def of_rank(cls, comm: Communicator, run: RunFile, fibre: Fibre, transmitter: Transmitter) -> "LinkPath":
        """Create the path for one rank of ``comm``, with this rank's part of the modes."""
        ends = split_modes(fibre.modes, comm.size, cls.boundaries(run, fibre))
        path = cls(run, fibre, transmitter, RankModes(ends, comm.rank))
        path.ranks = CoupledRanks(comm, path.local_modes) if comm.size > 1 else None
        return path

    def __init__(self, run: RunFile, fibre: Fibre, transmitter: Transmitter, local_modes: RankModes):
        self.link, self.grid, self.seed, self.local_modes = run.link, transmitter.grid, run.seed, local_modes
        self.spectral, self.coupling = None, random_coupling(run)
        if run.fibre.present(*_SPECTRAL):
            flat = run.link.gain_flattening
            self.spectral = SpectralGain(run.fibre, fibre, transmitter, run.link.length, flat)
        elif run.link.gain_flattening:
            raise InputError("link.gain_flattening: true given; allowed if gain or loss depends on frequency")
        if self.coupling is not None:
            fibre = self.coupling.fibre(fibre, run.link.length)
        self.fibre = fibre
        #: Couples rows of several ranks; None on one rank.
        self.ranks: CoupledRanks | None = None
        #: Phase of the rows per length, rad/m, if the field is not expanded about the fibre's centre.
        self.row_phase: Array | None = None
        self.amplifier = Amplifier(amplifier_gain(run.link, self.fibre), run.link.noise_figure)
        #: Number of sections per span.
        self.section_count = section_count(run)
        #: Whether the receiver knows the inverse of the link; an equaliser does not need it.
        self.known_channel = run.receiver.equaliser == "ideal"
        #: Whether the inverse of the linear phase and of one unitary undoes the link except for its loss.
        self.plain = self.coupling is None and not run.link.mode_dependent_gain
        #: Whether the receiver solves the link backwards, because phases and a unitary do not undo it.
        self.inverted = run.receiver.back_propagation is not None or (self.known_channel and not self.plain)
        even = bool((fibre.alpha == fibre.alpha[0]).all()) and self.spectral is None
        #: Whether the inverse of the link leaves white noise unchanged.
        self.unitary = self.plain or (even and not run.link.mode_dependent_gain)
        linear, inside = np.column_stack([fibre.alpha, fibre.beta]), np.diff(fibre.groups) == 0
        if run.link.mix_groups and self.known_channel and (np.diff(linear, axis=0)[inside] != 0).any():
            fault = "modes of one group differ in loss or dispersion, so that no matrix undoes the mixing"
            allowed = 'allowed with fibre.coupling = "groups" or receiver.equaliser = "mimo"'
            raise InputError(f"link.mix_groups: true given, but {fault}; {allowed}")
        if run.receiver.linewidth and self.inverted:
            fault = f"{run.receiver.linewidth:g} Hz given for a receiver that solves the link backwards"
            allowed = 'allowed with equaliser = "mimo" and no back_propagation'
            raise InputError(f"receiver.linewidth: {fault}; {allowed}")

    @staticmethod
    def boundaries(run: RunFile, fibre: Fibre) -> np.ndarray | None:
        """Return the number of the mode after each mode group, if ranks must not split groups; else None."""
        table = run.fibre.random_coupling
        receiver = run.receiver
        joint = receiver.equaliser == "mimo" and receiver.joint == "groups"
        mixed = run.link.mix_groups or joint or (table is not None and table.within == "groups")
        return np.cumsum(fibre.group_sizes) if mixed else None

    def net_gain(self, spans: int) -> float:
        """Return the mean power gain from the transmitter to the end of ``spans`` spans."""
        if self.link.gain is None:
            return 1.0
        return (self.amplifier.gain * math.exp(-self.fibre.alpha.mean() * self.link.length)) ** spans

    def propagator(self, options: PropagationOptions, comm: Communicator) -> Propagator:
        """Create the propagator for one span of this path, on the ranks of ``comm``."""
        return Propagator(self.fibre, self.grid.samples, self.grid.sample_rate, comm.device, options, comm)

    def sections(self, device, span: int, backward: bool = False) -> Sections:
        """Return the `Sections` of a span: an object that applies coupling and filters between sections."""
        bare = self.coupling is None and self.spectral is None
        return Sections() if bare else SpanSections(self, device, span, backward)

    def of_channel(self, channel: int, samples_per_symbol: int) -> "LinkPath":
        """Return this path for one channel alone: its band as the grid, β expanded at its centre."""
        grid = self.grid
        offset = float(grid.offsets[channel])
        path = copy(self)
        centre = grid.centre_frequency + offset
        rate, symbols = float(grid.symbol_rates[channel]), int(grid.channel_symbols[channel])
        path.grid = WdmGrid((centre,), rate, samples_per_symbol, symbols, centre)
        shift = 2 * math.pi * offset
        path.fibre = dataclasses.replace(self.fibre, beta=shift_expansion(self.fibre.beta, shift))
        delays = self.fibre.row_delays
        path.row_phase = np.repeat(self.fibre.beta @ (shift ** np.arange(1, 5) / [1, 2, 6, 24]), 2)
        if delays is not None:
            path.row_phase += delays * shift
        return path

    def mixing(self, span: int) -> ModeMixing:
        """Return the mixing inside mode groups (``link.mix_groups``) after a span, for this rank's rows."""
        whole = ModeMixing.random(self.fibre.group_sizes.tolist(), self.seed, span)
        return whole.within(self.local_modes.first_row, self.local_modes.rows)

    def inverse_mixing(self, spans: int) -> ModeMixing | None:
        """Return the mixing that undoes ``link.mix_groups`` of ``spans`` spans; None if there is none."""
        known = self.link.mix_groups and self.known_channel
        mixings = [self.mixing(span) for span in range(spans)] if known else []
        return total(mixings).inverse if mixings else None

    def row_gains(self, span: int) -> np.ndarray:
        """Return for each field row, (2M,), its power gain in amplifier ``span`` relative to the mean gain.

        In dB these ratios are normally distributed, with mean 0 and a root mean square of exactly
        ``link.mode_dependent_gain``.
        """
        rows, rms = self.fibre.rows, self.link.mode_dependent_gain or 0.0
        normal = np.zeros(rows, np.complex128)
        philox.add_complex_normal(normal, 1.0, self.seed, philox.stream(philox.GAINS, span), 0)
        level = normal.real - normal.real.mean()
        return 10 ** (rms / 10 * level / np.sqrt((level**2).mean()))

    def amplify(self, device, A, span: int) -> None:
        """Apply the amplifier and lumped coupling after ``span`` to ``A`` (local rows, N), √W, in place."""
        self._change_spectrum(device, A, span, 1)  # before the amplifier adds noise
        first = self.local_modes.first_row
        self.amplifier.apply(device, A, self.grid, self.seed, span, first)
        if self.link.mode_dependent_gain:
            self._scale(device, A, np.sqrt(self.row_gains(span)))
        if self.link.mix_groups:
            self.mixing(span).apply(device, A)

    def undo_amplifier(self, device, A, span: int) -> None:
        """Apply the inverse of `amplify` to ``A`` in place, except for the noise."""
        if self.link.mix_groups:
            self.mixing(span).inverse.apply(device, A)
        gains = np.full(self.fibre.rows, self.amplifier.gain)
        if self.link.mode_dependent_gain:
            gains = gains * self.row_gains(span)
        self._scale(device, A, 1 / np.sqrt(gains))
        self._change_spectrum(device, A, span, -1)

    def _change_spectrum(self, device, A, span: int, sign: int) -> None:
        """Apply (``sign`` 1) or undo (−1) the amplifier's gain tilt and the filter that flattens the gain."""
        tilt, spectral = self.link.gain_tilt, self.spectral if self.link.gain_flattening else None
        if tilt == 0 and spectral is None:
            return

        def log_gain(frequencies: Array) -> Array:
            total = np.outer(tilt * (frequencies - self.grid.centre_frequency), np.ones(self.fibre.modes))
            if spectral:
                total -= spectral.log_gain(span, 0.0, self.link.length, frequencies)
            return sign * total

        filter_band(device, A, self.grid, log_gain, self.local_modes.range)

    def _scale(self, device, A, factors: np.ndarray) -> None:
        A *= device.asarray(factors[self.local_modes.slice].astype(A.real.dtype))[:, None]

    def undo_linear(self, operators: FibreOperators, A, spans: int) -> None:
        """Undo the linear effects of ``spans`` spans on ``A`` (local rows, N), last span first, in place."""
        counts, section = dataclasses.replace(operators.counts), self.link.length / self.section_count
        for span in reversed(range(spans)):
            self.undo_amplifier(operators.device, A, span)
            sections = self.sections(operators.device, span, backward=True)
            for boundary in range(self.section_count, 0, -1):
                sections.cross(A, boundary)
                operators.linear(A, -section)
            sections.cross(A, 0)
        vars(operators.counts).update(vars(counts))


class SpanSections(Sections):
    """Applies random coupling and band filters between the sections of one span.

    A filter applies the gain and loss of the fibre from half way to the filter before it to half way to the
    next one, so that the splitting into filters and propagation is of second order.
    """

    def __init__(self, path: LinkPath, device, span: int, backward: bool):
        self._path, self._device, self._span, self._backward = path, device, span, backward
        self.count = path.section_count
        stride = max(1, int(self.count * FILTER_SPACING / path.link.length))
        self._filters = [*range(0, self.count, stride), self.count] if path.spectral else []
        if path.coupling:
            ends = 2 * np.cumsum([0, *path.coupling.block_modes(path.fibre)])
            pairs = list(pairwise(ends.tolist()))
            self.blocks = [(0, path.fibre.rows)] if path.coupling.between_groups else pairs

    def changes_energy(self, boundary: int) -> bool:
        return boundary in self._filters

    def cross(self, A, boundary: int) -> None:
        actions = [self._couple, self._filter]
        for action in reversed(actions) if self._backward else actions:
            action(A, boundary)

    def _couple(self, A, boundary: int) -> None:
        path = self._path
        if path.coupling is None or boundary == 0:
            return
        mixing = path.coupling.unitary(path.fibre, path.link.length, self._span, boundary - 1)
        if path.row_phase is not None:
            turn = np.exp(1j * path.row_phase * (path.link.length / self.count))
            blocks = zip(mixing.matrices, mixing.blocks, strict=True)
            mixing = ModeMixing([u * turn[start:stop] for u, (start, stop) in blocks])
        mixing = mixing.inverse if self._backward else mixing
        if path.coupling.between_groups and path.ranks:
            path.ranks.mix(A, mixing.matrices[0])
            return
        if path.local_modes.ranks > 1:
            mixing = mixing.within(path.local_modes.first_row, path.local_modes.rows)
        mixing.apply(self._device, A)

    def _filter(self, A, boundary: int) -> None:
        spectral, path = self._path.spectral, self._path
        if spectral is None or boundary not in self._filters:
            return
        number, section = self._filters.index(boundary), path.link.length / self.count
        middles = [section * (a + b) / 2 for a, b in pairwise(self._filters)]
        start, stop = [0.0, *middles][number], [*middles, path.link.length][number]
        sign, at, modes = -1 if self._backward else 1, (self._span, start, stop), path.local_modes.range
        filter_band(self._device, A, path.grid, lambda f: sign * spectral.log_gain(*at, f), modes)


class CoupledRanks:
    """Multiplies a field by a unitary matrix over all its rows, which are split among ranks of ``comm``."""

    def __init__(self, comm: Communicator, local_modes: RankModes):
        self._comm, self._modes = comm, local_modes
        #: Exchanges by window size; the buffers are for real powers, so a complex sample needs two.
        rows = np.diff(local_modes.row_ends).tolist()
        self._exchange = cache(partial(PowerExchange, comm, rows))

    def mix(self, A, unitary: np.ndarray) -> None:
        """Multiply a field by ``unitary`` (2M, 2M), in place; each rank calls this with its rows ``A``."""
        device, rows = self._comm.device, self._modes.slice
        matrix = device.asarray(np.ascontiguousarray(unitary[rows]).astype(A.dtype))
        for start in range(0, A.shape[1], _CHUNK):
            window = A[:, start : start + _CHUNK]
            exchange = self._exchange(2 * window.shape[1], A.real.dtype)
            exchange.local.view(A.dtype)[...] = window
            exchange.start()
            exchange.wait_for()
            window[...] = matrix @ exchange.all.view(A.dtype)
            exchange.finish()
