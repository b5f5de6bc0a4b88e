"""Model the path of light through a link: sections of fibre, amplifiers, coupling; and its inverse."""

import dataclasses
import math
from collections import Counter
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.optics.fibre.beta import phases_of
from wavefabric.optics.fibre.fibre import Array, Fibre, shift_expansion
from wavefabric.optics.fibre.raman import PowerEvolution
from wavefabric.optics.fibre.random_coupling import ModeMixing, RandomCoupling, total
from wavefabric.optics.link.coupled_ranks import CoupledRanks
from wavefabric.optics.link.elements import (
    BandFilter,
    FibrePiece,
    LinkAmplifier,
    Lumped,
    LumpedLoss,
    ModeCoupler,
    saturated_gain,
)
from wavefabric.optics.link.spectral_gain import SpectralGain, filter_band
from wavefabric.optics.propagation.rank_modes import RankModes, split_modes
from wavefabric.optics.propagation.step_size import Sections
from wavefabric.optics.run_file.elements import (
    AmplifierElement,
    FibreElement,
    FilterElement,
    LossElement,
    MixingElement,
)
from wavefabric.optics.run_file.load import RunFile
from wavefabric.optics.run_file.tables import FibreTable
from wavefabric.optics.signal.amplifier import compensating_gain
from wavefabric.optics.signal.transmitter import Transmitter
from wavefabric.optics.signal.wdm import WdmGrid
from wavefabric.runtime.device import philox
from wavefabric.runtime.exchange.communicator import Communicator

#: Keys of [fibre] by which gain or loss depends on frequency.
SPECTRAL = ("raman", "attenuation_csv", "attenuation_slope")
#: Longest piece of fibre that one filter represents, m: a tenth of an effective length.
FILTER_SPACING = 2e3


def random_coupling(table: FibreTable, seed: int) -> RandomCoupling | None:
    """Return the random coupling of a fibre's table ``random_coupling``, or None."""
    coupling = table.random_coupling
    return None if coupling is None else RandomCoupling(**coupling.model_dump(), seed=seed)


def section_count(table: FibreTable, length: float) -> int:
    """Return the number of equal sections of ``length`` m of fibre; coupling or filters act at their ends."""
    if (coupling := random_coupling(table, seed=0)) is not None:
        return coupling.sections(length)
    return math.ceil(length / FILTER_SPACING) if table.present(*SPECTRAL) else 1


@dataclass
class LinkFibre:
    """Holds what the pieces of one fibre share; rows of the fibre have delays if they couple at random."""

    fibre: Fibre
    coupling: RandomCoupling | None
    spectral: SpectralGain | None
    #: Phase of the rows per length, rad/m, if the field is not expanded about the fibre's centre.
    row_phase: Array | None = None


class LinkPath:
    """Models a link as a list of elements, pieces of fibre and lumped ones; it also has the link's inverse.

    ``fibres`` has the `Fibre` of each table of the run file, by its key ("fibre", "fibres.NAME"); a single
    `Fibre` stands for [fibre]. `InputError` if settings of several tables conflict.
    """

    @classmethod
    def of_rank(
        cls, comm: Communicator, run: RunFile, fibres: dict[str, Fibre] | Fibre, transmitter: Transmitter
    ) -> "LinkPath":
        """Create the path for one rank of ``comm``, with this rank's part of the modes."""
        fibre = fibres if isinstance(fibres, Fibre) else fibres["fibre"]
        ends = split_modes(fibre.modes, comm.size, cls.boundaries(run, fibre))
        path = cls(run, fibres, transmitter, RankModes(ends, comm.rank))
        path.ranks = CoupledRanks(comm, path.local_modes) if comm.size > 1 else None
        return path

    def __init__(
        self,
        run: RunFile,
        fibres: dict[str, Fibre] | Fibre,
        transmitter: Transmitter,
        local_modes: RankModes,
    ):
        fibres = {"fibre": fibres} if isinstance(fibres, Fibre) else fibres
        self.link, self.grid, self.seed, self.local_modes = run.link, transmitter.grid, run.seed, local_modes
        self.transmitter = transmitter
        #: Couples rows of several ranks; None on one rank.
        self.ranks: CoupledRanks | None = None
        #: What the pieces of each fibre share; delays of random coupling depend on the length of a section.
        self.media: dict[tuple[str, float], LinkFibre] = {}
        #: Elements in the order in which light passes them, and the number of elements up to each span's end.
        self.elements: list[FibrePiece | Lumped] = []
        self.span_ends = run.link.span_ends
        #: Distance of the end of each element from the transmitter, m, after a first 0.
        self.distances = run.link.distances
        #: Mean power gain of each span with a given gain or power, linear; 1 where loss is compensated.
        self._net_gains: list[float] = []
        #: Natural logarithm of the mean power gain up to each element, by number of elements before it.
        self.levels = [0.0]
        #: Filters that drop or add channels, by number of elements up to their end.
        self.changes: dict[int, BandFilter] = {}
        #: Whether each channel is launched at the start, (channels,).
        self.present_at_start = np.ones(self.grid.channels, bool)
        #: Powers (channels, modes) at the input of each piece so far, without the link's mean gain.
        self._relative: list[Array] = []
        self._evolution = lru_cache(maxsize=4)(self._evolution_of)
        #: Pieces of fibre in order, and the fibre of the first one.
        self.pieces: list[FibrePiece] = []
        self._list_elements(run, fibres)
        self.fibre = self.medium(self.pieces[0]).fibre
        #: The transmitter of the channels that are launched at the start.
        self.launched = (
            transmitter if self.present_at_start.all() else transmitter.only(self.present_at_start)
        )
        #: Whether the receiver knows the inverse of the link; an equaliser does not need it.
        self.known_channel = run.receiver.equaliser == "ideal"
        lumped = [each for each in self.elements if isinstance(each, Lumped)]
        uneven = any(isinstance(each, LinkAmplifier) and each.table.mode_dependent_gain for each in lumped)
        uneven |= any(isinstance(each, LumpedLoss) and np.ptp(each.gains) > 0 for each in lumped)
        everywhere = any(isinstance(each, ModeCoupler) and each.within == "all" for each in lumped)
        coupled = any(medium.coupling for medium in self.media.values())
        #: Whether the inverse of the linear phase and of one unitary undoes the link except for its loss.
        self.plain = not (coupled or uneven or everywhere)
        #: Whether the receiver solves the link backwards, because phases and a unitary do not undo it.
        self.inverted = run.receiver.back_propagation is not None or (self.known_channel and not self.plain)
        alphas = [medium.fibre.alpha for medium in self.media.values()]
        even = all(bool((alpha == alpha[0]).all()) for alpha in alphas)
        even &= all(medium.spectral is None for medium in self.media.values())
        #: Whether the inverse of the link leaves white noise unchanged.
        self.unitary = self.plain or (even and not uneven)
        self._check(run, any(isinstance(each, ModeCoupler) for each in lumped))

    def _list_elements(self, run: RunFile, fibres: dict[str, Fibre]) -> None:
        """Create the media and elements of the link, with the gains of its amplifiers."""
        tables, modes, ends = run.fibre_tables(), fibres["fibre"].modes, set(self.span_ends)
        self._list_changes()
        media: dict[tuple[str, float], tuple[tuple[str, float], int]] = {}
        number = Counter[type]()
        pieces: list[FibrePiece] = []
        lost, before, amplified, compensated = 0.0, 0.0, 1.0, False  # in this span; since the last amplifier
        for at, table in enumerate(self.link.elements, start=1):
            element: FibrePiece | Lumped
            change = 0.0
            if isinstance(table, FibreElement):
                kind = table.table, table.length
                if kind not in media:
                    media[kind] = self._medium(tables[table.table], run.seed, fibres, *kind)
                medium, count = media[kind]
                pumped = tuple(table.pumps), table.temperature
                element = FibrePiece(number[FibrePiece], at - 1, medium, table.length, count, *pumped)
                change = -float(self.media[medium].fibre.alpha.mean() * table.length)
                pieces.append(element)
                self.pieces.append(element)
                if table.pumps:
                    change += self._pump_gain(element, tables[table.table], table.table)
            elif isinstance(table, AmplifierElement):
                launched = self.transmitter.powers(modes)
                launched = launched * self.weights(at - 1) if self.changes else launched
                gain = self._gain(table, before, float(launched.sum()) * math.exp(self.levels[-1]))
                element = LinkAmplifier(table, number[LinkAmplifier], gain, pieces)
                compensated = table.gain is None and table.power is None
                self.levels.append(self.levels[-1] + (before if compensated else math.log(gain)))
                amplified, before, pieces = amplified * gain, 0.0, []
            elif isinstance(table, LossElement):
                if isinstance(table.loss, list) and len(table.loss) not in (1, modes):
                    actual, allowed = f"{len(table.loss)} values given", f"one, or {modes}, a mode each"
                    raise InputError(f"link.element[{at - 1}].loss: {actual}; allowed: {allowed}")
                element = LumpedLoss(table.loss, modes)
                change = math.log(element.gains.mean())
            elif isinstance(table, FilterElement):
                element = self.changes.get(at) or BandFilter(table)
                change = math.log(element.gain)
            else:
                element = ModeCoupler(number[ModeCoupler], table.within)
            if not isinstance(element, LinkAmplifier):
                self.levels.append(self.levels[-1] + change)
                lost, before = lost - change, before - change
            number[type(element)] += 1
            self.elements.append(element)
            if at in ends:
                self._net_gains.append(1.0 if compensated else amplified * math.exp(-lost))
                lost, amplified, compensated = 0.0, 1.0, False
        self._check_modes(tables, fibres)

    def _list_changes(self) -> None:
        """List the filters that drop or add channels; raise InputError for channels that do not exist."""
        grid = self.transmitter.grid
        known = np.zeros(grid.channels, bool)
        for at, table in enumerate(self.link.elements, start=1):
            if not isinstance(table, FilterElement) or not (table.block or table.add):
                continue
            for key in ("block", "add"):
                if (most := max(getattr(table, key), default=1)) > grid.channels:
                    limit = f"{most} given; allowed: 1 to {grid.channels}"
                    raise InputError(f"link.element[{at - 1}].{key}: channel {limit}")
            change = self.changes[at] = BandFilter(table)
            # A channel that is not mentioned before it is added is absent until then.
            self.present_at_start &= known | ~change.added(grid)
            known |= ~change.passed(grid)

    def weights(self, elements: int) -> Array:
        """Return the power of each channel after ``elements`` elements over its launch power, (channels,).

        It is relative to the mean gain of the link (`levels`), and 0 for an absent channel.
        """
        weights, grid = np.where(self.present_at_start, 1.0, 0.0), self.transmitter.grid
        for at, change in self.changes.items():
            if at <= elements:
                weights[~change.passed(grid)] = 0.0
                weights[change.added(grid)] = math.exp(-self.levels[at])
        return weights

    def added_after(self, spans: int) -> np.ndarray:
        """Return the number of elements after which each channel was added, if present, (channels,).

        It is present after ``spans`` spans. 0 is the transmitter; −1 means an absent channel.
        """
        grid = self.transmitter.grid
        added_after = np.where(self.present_at_start | (spans == 0), 0, -1)
        for at, change in self.changes.items():
            if at <= self.end(spans):
                added_after[~change.passed(grid)] = -1
                added_after[change.added(grid)] = at
        return added_after

    def add_channels(self, device, A, channels: np.ndarray) -> None:
        """Add the launched signals of ``channels`` (mask) to the field ``A``, √W, in place.

        ``A`` has the rows of this rank, (rows, N).
        """
        entering, waveform = self.transmitter.only(channels), device.empty((1, A.shape[1]), A.dtype)
        for row in range(A.shape[0]):
            entering.fill(device, waveform, self.local_modes.first_row + row, self.fibre.modes)
            A[row] += waveform[0]

    def _gain(self, table: AmplifierElement, loss: float, power: float) -> float:
        """Return an amplifier's power gain; ``loss`` is that since the amplifier before it, in nepers.

        ``power`` is the mean power at its input, all channels and modes together, W.
        """
        if table.power is not None:
            return table.power / power
        if table.gain is None:
            return compensating_gain(loss, "link.length")
        gain = 10 ** (table.gain / 10)
        limit = table.saturation_power
        return gain if limit is None else saturated_gain(gain, limit, power)

    def _medium(
        self, table: FibreTable, seed: int, fibres: dict[str, Fibre], key: str, length: float
    ) -> tuple[tuple[str, float], int]:
        """Return the key of the medium of ``length`` m of a fibre, and its number of sections."""
        coupling, count = random_coupling(table, seed), section_count(table, length)
        medium = key, length / count if coupling else 0.0
        if medium not in self.media:
            fibre = fibres[key]
            spectral = SpectralGain(table, fibre, self.transmitter) if table.present(*SPECTRAL) else None
            fibre = coupling.fibre(fibre, length) if coupling else fibre
            self.media[medium] = LinkFibre(fibre, coupling, spectral)
        return medium, count

    def _check_modes(self, tables: dict[str, FibreTable], fibres: dict[str, Fibre]) -> None:
        """Raise InputError unless all fibres have the same mode groups."""
        sizes = fibres["fibre"].group_sizes.tolist()
        for key in tables:
            if key in fibres and fibres[key].group_sizes.tolist() != sizes:
                actual = f"mode groups of {fibres[key].group_sizes.tolist()} modes"
                raise InputError(f"{key}: {actual} given; allowed: those of [fibre], {sizes}")

    def _check(self, run: RunFile, mixed: bool) -> None:
        """Raise InputError if elements or tables of the run file conflict."""
        spectral = any(medium.spectral for medium in self.media.values())
        flat = any(isinstance(each, LinkAmplifier) and each.table.gain_flattening for each in self.elements)
        if flat and not spectral:
            raise InputError("link.gain_flattening: true given; allowed if gain or loss depends on frequency")
        for at, change in self.changes.items():
            fault = "a waveform" if run.signal.waveform else "back-propagation"
            if change.table.add and (run.signal.waveform or run.receiver.back_propagation):
                raise InputError(f"link.element[{at - 1}].add: given with {fault}; allowed: without")
        for medium in self.media.values():
            linear = np.column_stack([medium.fibre.alpha, medium.fibre.beta])
            inside = np.diff(medium.fibre.groups) == 0
            if mixed and self.known_channel and self.plain and (np.diff(linear, axis=0)[inside] != 0).any():
                fault = "modes of one group differ in loss or dispersion, so that no matrix undoes the mixing"
                allowed = 'allowed with fibre.coupling = "groups" or receiver.equaliser = "mimo"'
                raise InputError(f"link.mix_groups: true given, but {fault}; {allowed}")
        for key in ("linewidth", "frequency_offset"):
            if self.inverted and np.any(getattr(run.receiver, key)):
                fault = "given for a receiver that solves the link backwards"
                allowed = 'allowed with equaliser = "mimo" and no back_propagation'
                raise InputError(f"receiver.{key}: {fault}; {allowed}")

    @staticmethod
    def boundaries(run: RunFile, fibre: Fibre) -> np.ndarray | None:
        """Return the number of the mode after each mode group, if ranks must not split groups; else None."""
        receiver, elements = run.receiver, run.link.elements
        joint = receiver.equaliser == "mimo" and receiver.joint == "groups"
        mixed = joint or any(isinstance(each, MixingElement) for each in elements)
        for table in run.fibre_tables().values():
            coupling = table.random_coupling
            mixed |= coupling is not None and coupling.within == "groups"
        return np.cumsum(fibre.group_sizes) if mixed else None

    def end(self, spans: int) -> int:
        """Return the number of elements of the first ``spans`` spans."""
        return self.span_ends[spans - 1] if spans else 0

    def medium(self, piece: FibrePiece) -> LinkFibre:
        """Return what a piece of fibre shares with others of its kind."""
        return self.media[piece.medium]

    def through(self, spans: int, start: int = 0) -> tuple[float, Array | None]:
        """Return the length of fibre in ``spans`` spans, m, and its mean β, (modes, orders).

        β is None without fibre. The first ``start`` elements do not count.
        """
        end = self.end(spans)
        lengths: dict[tuple[str, float], float] = {}
        for each in self.elements[start:end]:
            if isinstance(each, FibrePiece):
                lengths[each.medium] = lengths.get(each.medium, 0.0) + each.length
        whole = self.distances[end] - self.distances[start]
        betas = [self.media[key].fibre.beta for key in lengths]
        if len(lengths) < 2:
            return whole, betas[0] if betas else None
        orders = max(beta.shape[1] for beta in betas)
        betas = [np.pad(beta, ((0, 0), (0, orders - beta.shape[1]))) for beta in betas]
        return whole, np.tensordot(np.array(list(lengths.values())) / whole, np.array(betas), 1)

    def net_gain(self, spans: int) -> float:
        """Return the mean power gain from the transmitter to the end of ``spans`` spans."""
        gains = Counter(self._net_gains[:spans])
        return math.prod(gain**count for gain, count in gains.items())

    def sections(self, device, piece: FibrePiece, backward: bool = False) -> Sections:
        """Return the `Sections` of a piece: an object that applies coupling and filters between sections."""
        medium = self.medium(piece)
        bare = medium.coupling is None and medium.spectral is None
        return Sections() if bare else PieceSections(self, device, piece, backward)

    def of_channel(self, channel: int, samples_per_symbol: int) -> "LinkPath":
        """Return this path for one channel alone: its band as the grid, β expanded at its centre."""
        grid = self.grid
        offset = float(grid.offsets[channel])
        path = copy(self)
        centre = grid.centre_frequency + offset
        rate, symbols = float(grid.symbol_rates[channel]), int(grid.channel_symbols[channel])
        path.grid = WdmGrid((centre,), rate, samples_per_symbol, symbols, centre)
        shift = 2 * math.pi * offset
        path.media = {}
        for key, medium in self.media.items():
            fibre = medium.fibre
            shifted = dataclasses.replace(fibre, beta=shift_expansion(fibre.beta, shift))
            row_phase = np.repeat(phases_of(fibre.beta, shift), 2)
            if fibre.row_delays is not None:
                row_phase += fibre.row_delays * shift
            path.media[key] = dataclasses.replace(medium, fibre=shifted, row_phase=row_phase)
        path.fibre = path.medium(self.pieces[0]).fibre
        return path

    def inverse_mixing(self, spans: int, start: int = 0) -> ModeMixing | None:
        """Return the mixing that undoes the mode couplers of ``spans`` spans; None if there are none.

        The first ``start`` elements are left out.
        """
        passed = self.elements[start : self.end(spans)] if self.known_channel else []
        mixings = []
        for each in passed:
            if isinstance(each, ModeCoupler):
                mixing = each.mixing(self)
                mixings.append(mixing.within(self.local_modes.first_row, self.local_modes.rows))
        return total(mixings).inverse if mixings else None

    def mix(self, device, A, mixing: ModeMixing, everywhere: bool) -> None:
        """Multiply the field ``A`` by the unitary of ``mixing`` (all rows), in place; all ranks call this."""
        if everywhere and self.ranks:
            self.ranks.mix(A, mixing.matrices[0])
        else:
            mixing.within(self.local_modes.first_row, self.local_modes.rows).apply(device, A)

    def scale(self, device, A, factors: np.ndarray) -> None:
        """Multiply each row of ``A`` (local rows, N) by its entry of ``factors`` (2M,), in place."""
        A *= device.asarray(factors[self.local_modes.slice].astype(A.real.dtype))[:, None]

    def log_gain(self, piece: FibrePiece, start: float, stop: float, frequencies: Array) -> Array:
        """Return ln of the power gain from ``start`` to ``stop`` (m) in a piece: (frequencies, modes).

        It includes Raman scattering, and loss at ``frequencies`` (Hz) only as far as it differs from the
        fibre's α.
        """
        spectral = self.medium(piece).spectral
        if spectral is None:
            return np.zeros((len(frequencies), self.medium(piece).fibre.modes))
        return spectral.log_gain(self._evolution(piece), start, stop, frequencies)

    def _evolution_of(self, piece: FibrePiece) -> PowerEvolution | None:
        spectral = self.medium(piece).spectral
        assert spectral is not None
        return spectral.evolution(lambda: self._input_powers(piece), piece.length, piece.pumps)

    def _pump_gain(self, piece: FibrePiece, table: FibreTable, key: str) -> float:
        """Return ln of the mean Raman gain of the channels in a pumped piece of the fibre [``key``]."""
        if table.raman is None:
            fault, allowed = "given for a fibre without gain", f"with a table [{key}.raman]"
            raise InputError(f"link.element[{piece.position}].pumps: {fault}; allowed: {allowed}")
        grid = self.transmitter.grid
        gains = self.log_gain(piece, 0.0, piece.length, grid.centre_frequency + grid.offsets)
        return float(np.log(np.exp(gains).mean()))

    def raman_noise(self, piece: FibrePiece, frequencies: Array) -> Array:
        """Return the noise density of a row by Raman pumps at a piece's end, W/Hz: (frequencies, modes)."""
        evolution = self._evolution(piece)
        assert evolution is not None
        return evolution.noise_density(frequencies, piece.temperature)[:, evolution.group]

    def add_raman_noise(self, device, A, piece: FibrePiece) -> None:
        """Add the noise of a piece's Raman pumps to ``A`` (local rows, N), √W, in place."""
        noise = device.zeros(A.shape, np.complex128)
        for row in range(len(noise)):
            stream = philox.stream(philox.RAMAN, piece.number, self.local_modes.first_row + row)
            device.kernels(philox.TABLE).add_complex_normal(noise[row], 1.0, self.seed, stream, 0)
        rate, modes = self.grid.sample_rate, self.local_modes.range
        filter_band(device, noise, self.grid, lambda f: np.log(self.raman_noise(piece, f) * rate), modes)
        A += noise.astype(A.dtype)

    def _input_powers(self, piece: FibrePiece) -> Array:
        """Return the mean powers of the channels at the input of a piece, W, (channels, modes).

        They have the link's mean gain, and Raman scattering and losses over frequency of the pieces before,
        as far as no filter flattens them.
        """
        launched = self.transmitter.powers(self.medium(piece).fibre.modes).T
        frequencies = self.transmitter.grid.centre_frequency + self.transmitter.grid.offsets
        relative = self._relative
        while len(relative) <= piece.number:
            if not relative:
                relative.append(launched * self.present_at_start[:, None])
                continue
            last, following = self.pieces[len(relative) - 1], self.pieces[len(relative)]
            changed = relative[-1] * np.exp(self.log_gain(last, 0, last.length, frequencies))
            if last.pumps:  # the levels have the mean gain of pumps
                changed = changed * (relative[-1].sum() / changed.sum())
            between = self.elements[last.position : following.position]
            flat = any(isinstance(each, LinkAmplifier) and each.table.gain_flattening for each in between)
            after = launched * self.weights(following.position)[:, None]
            # A channel that was added or dropped in between has no changes from before.
            kept = self.weights(following.position) == self.weights(last.position)
            relative.append(after if flat else np.where(kept[:, None], changed, after))
        return relative[piece.number] * math.exp(self.levels[piece.position])


class PieceSections(Sections):
    """Applies random coupling and band filters between the sections of one piece of fibre.

    A filter applies the gain and loss of the fibre from half way to the filter before it to half way to the
    next one, so that the splitting into filters and propagation is of second order.
    """

    def __init__(self, path: LinkPath, device, piece: FibrePiece, backward: bool):
        self._path, self._device, self._piece, self._backward = path, device, piece, backward
        self._medium = medium = path.medium(piece)
        self.count = piece.section_count
        stride = max(1, int(self.count * FILTER_SPACING / piece.length))
        self._filters = [*range(0, self.count, stride), self.count] if medium.spectral else []
        if medium.coupling:
            ends = 2 * np.cumsum([0, *medium.coupling.block_modes(medium.fibre)])
            pairs = list(pairwise(ends.tolist()))
            self.blocks = [(0, medium.fibre.rows)] if medium.coupling.between_groups else pairs

    def changes_energy(self, boundary: int) -> bool:
        return boundary in self._filters

    def cross(self, A, boundary: int) -> None:
        actions = [self._couple, self._filter]
        for action in reversed(actions) if self._backward else actions:
            action(A, boundary)

    def _couple(self, A, boundary: int) -> None:
        path, piece, medium = self._path, self._piece, self._medium
        if medium.coupling is None or boundary == 0:
            return
        mixing = medium.coupling.unitary(medium.fibre, piece.length, piece.number, boundary - 1)
        if medium.row_phase is not None:
            turn = np.exp(1j * medium.row_phase * (piece.length / self.count))
            blocks = zip(mixing.matrices, mixing.blocks, strict=True)
            mixing = ModeMixing([u * turn[start:stop] for u, (start, stop) in blocks])
        mixing = mixing.inverse if self._backward else mixing
        path.mix(self._device, A, mixing, bool(medium.coupling.between_groups))

    def _filter(self, A, boundary: int) -> None:
        path, piece = self._path, self._piece
        if self._medium.spectral is None or boundary not in self._filters:
            return
        number, section = self._filters.index(boundary), piece.length / self.count
        middles = [section * (a + b) / 2 for a, b in pairwise(self._filters)]
        start, stop = [0.0, *middles][number], [*middles, piece.length][number]
        sign, at, modes = -1 if self._backward else 1, (piece, start, stop), path.local_modes.range
        filter_band(self._device, A, path.grid, lambda f: sign * path.log_gain(*at, f), modes)
