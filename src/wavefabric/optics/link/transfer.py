"""Compute a link's linear transfer matrices over frequency, and from them group delays and loss by mode."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wavefabric.base.arguments import number, whole
from wavefabric.base.results import Data
from wavefabric.optics.fibre.beta import phases_of
from wavefabric.optics.fibre.fibre import Array, Fibre
from wavefabric.optics.fibre.random_coupling import ModeMixing
from wavefabric.optics.link.build import build_path
from wavefabric.optics.link.elements import BandFilter, FibrePiece, LinkAmplifier, ModeCoupler
from wavefabric.optics.link.path import LinkPath
from wavefabric.optics.run_file.load import RunFile, run_file

#: Largest phase, in turns, by which delays may differ over the step of frequency of a derivative.
_TURN = 0.05
#: Largest number of sections times squared field rows for which a result file stores figures.
_MOST_WORK = 10_000
#: Unit and meaning of each figure that a result file stores.
_STORED = {
    "frequency": ("Hz", "optical frequency of the other datasets"),
    "delay": ("s", "group delays of the principal states, relative to their mean"),
    "gain_db": ("dB", "gains of the principal paths, relative to their mean gain"),
    "delay_spread": ("s", "largest difference of group delay; of one mode the differential group delay"),
    "mode_dependent_loss_db": ("dB", "ratio of the largest gain to the smallest"),
}


@dataclass(frozen=True, eq=False)
class ModalFigures:
    """Holds group delays and mode-dependent loss of a link at F optical ``frequencies``, Hz.

    Delays are those of the principal states: eigenvalues of the group-delay operator −i T′T⁻¹, with T the
    transfer matrix of the field rows. Their largest difference is the differential group delay of one mode,
    the delay spread of several. Loss is given by the singular values of T. C. Antonelli, A. Mecozzi, M.
    Shtaif, P. J. Winzer, Opt. Express 20 (2012) 11718, doi 10.1364/OE.20.011718; K.-P. Ho, J. M. Kahn, Opt.
    Express 19 (2011) 16612, doi 10.1364/OE.19.016612.
    """

    frequencies: Array  # (F,)
    delays: Array  # relative to their mean, s, ascending, (F, 2M)
    gains_db: Array  # of the principal paths, relative to their mean gain, dB, descending, (F, 2M)

    def arrays(self) -> dict[str, Array]:
        """Return a dictionary from name to array of all figures, in SI units and dB."""
        return {
            "frequency": self.frequencies,
            "delay": self.delays,
            "gain_db": self.gains_db,
            "delay_spread": self.delay_spread,
            "mode_dependent_loss_db": self.mode_dependent_loss_db,
        }

    @property
    def delay_spread(self) -> Array:
        """Return the largest difference of group delay at each frequency, s, (F,): for one mode its DGD."""
        return np.ptp(self.delays, axis=1)

    @property
    def mode_dependent_loss_db(self) -> Array:
        """Return the ratio of the largest to the smallest gain at each frequency, dB, (F,)."""
        return np.ptp(self.gains_db, axis=1)


def transfer_matrices(path: LinkPath, offsets: Array, filters: bool = True) -> np.ndarray:
    """Return the transfer matrices of a link without the Kerr effect: complex128, (F, 2M, 2M).

    ``offsets`` (F,) are optical frequencies relative to the middle of the channels, Hz. Filters count with
    their shape about the nearest channel, unless ``filters`` is false.
    """
    offsets = np.asarray(offsets, float)
    frequencies, rows = path.grid.centre_frequency + offsets, path.fibre.rows
    total = np.tile(np.eye(rows, dtype=complex), (len(offsets), 1, 1))
    for element in path.elements:
        if isinstance(element, FibrePiece):
            total = _through_fibre(path, element, offsets, total)
            gain = np.repeat(path.log_gain(element, 0.0, element.length, frequencies), 2, axis=1)
            total *= np.exp(gain / 2)[:, :, None]
        elif isinstance(element, ModeCoupler):
            _mix(total, element.mixing(path))
        else:
            gain = np.tile(element.row_gains(path), (len(offsets), 1))
            if isinstance(element, LinkAmplifier):
                gain = gain * np.repeat(np.exp(element.log_spectrum(path, frequencies)), 2, axis=1)
            elif isinstance(element, BandFilter) and filters:
                nearest = np.abs(offsets[:, None] - path.grid.offsets).argmin(axis=1)
                passed = element.amplitude(offsets - path.grid.offsets[nearest])
                passed = passed * element.passed(path.grid)[nearest]
                gain = gain * passed[:, None] ** 2
            total *= np.sqrt(gain)[:, :, None]
    return total


def _through_fibre(path: LinkPath, piece: FibrePiece, offsets: Array, total: np.ndarray) -> np.ndarray:
    medium = path.medium(piece)
    section = piece.length / piece.section_count if medium.coupling else piece.length
    passed = np.exp(_exponents(medium.fibre, offsets) * section)[:, :, None]
    for section_number in range(piece.section_count if medium.coupling else 1):
        total = passed * total
        if medium.coupling:
            _mix(total, medium.coupling.unitary(medium.fibre, piece.length, piece.number, section_number))
    return total


def _mix(total: np.ndarray, mixing: ModeMixing) -> None:
    """Multiply matrices (F, 2M, 2M) by a mixing from the left, in place."""
    for matrix, (start, stop) in zip(mixing.matrices, mixing.blocks, strict=True):
        total[:, start:stop] = matrix @ total[:, start:stop]


def _exponents(fibre: Fibre, offsets: Array) -> np.ndarray:
    """Return iβ − α/2 of each field row at optical offsets, 1/m, (F, 2M)."""
    w = 2 * math.pi * offsets
    phase = np.repeat(phases_of(fibre.beta, w), 2, axis=0).T
    if fibre.row_delays is not None:
        phase = phase + np.outer(w, fibre.row_delays)
    return 1j * phase - np.repeat(fibre.alpha, 2) / 2


def modal_figures(
    run: RunFile | str | Path,
    count: int = 64,
    width: float | str | None = None,
    fibres: dict[str, Fibre] | None = None,
) -> ModalFigures:
    """Compute group delays and mode-dependent loss of a run file's link at ``count`` frequencies.

    These are equally spaced over ``width`` (Hz or text; None: the band of the channels) about the middle of
    the channels. ``fibres`` are those of the run, if they are built. `InputError` as for a run.
    """
    run = run_file(run)
    whole("count", count, 1, 100_000)
    path = build_path(run, fibres)
    grid = run.signal.wdm_grid
    band = float(2 * np.abs(grid.offsets).max() + grid.symbol_rates.max())
    half = (band if width is None else number(width, "Hz", "width")) / 2
    offsets = np.linspace(-half, half, count) if count > 1 else np.zeros(1)
    step = _derivative_step(path)
    # The shape of filters is common to all rows, and may be 0.
    around = np.concatenate([offsets - step / 2, offsets, offsets + step / 2])
    before, middle, after = np.split(transfer_matrices(path, around, filters=False), 3)
    # T(ω + δ/2) T(ω − δ/2)⁻¹ = exp(iδ G) to second order, G the group-delay operator.
    turns = np.linalg.eigvals(after @ np.linalg.inv(before))
    common = np.exp(1j * np.angle(turns.mean(axis=1, keepdims=True)))
    delays = np.angle(turns / common) / (2 * math.pi * step)
    delays = np.sort(delays - delays.mean(axis=1, keepdims=True), axis=1)
    values = np.linalg.svd(middle, compute_uv=False)
    gains = 20 * np.log10(values)
    mean = 10 * np.log10((values**2).mean(axis=1, keepdims=True))
    return ModalFigures(path.grid.centre_frequency + offsets, delays, gains - mean)


def stored_figures(run: RunFile, path: LinkPath, fibres: dict[str, Fibre]) -> dict[str, Data]:
    """Return the figures of a link with random coupling that its result file stores (`/modal`), by name.

    The result is empty for other links, and for links with so many sections and modes that figures would take
    long (`_MOST_WORK`).
    """
    coupled = [piece for piece in path.pieces if path.medium(piece).coupling]
    work = sum(piece.section_count for piece in coupled) * path.fibre.rows**2
    if not 0 < work < _MOST_WORK:
        return {}
    figures = modal_figures(run, fibres=fibres).arrays()
    dims = "frequency", "state"
    return {name: Data(figures[name], *about, dims[: figures[name].ndim]) for name, about in _STORED.items()}


def _derivative_step(path: LinkPath) -> float:
    """Return a step of frequency, Hz, over which the phases of delays differ by at most `_TURN` turns."""
    spread = 1e-15
    for piece in path.pieces:
        fibre = path.medium(piece).fibre
        delays = np.repeat(fibre.beta[:, 0], 2) + (0 if fibre.row_delays is None else fibre.row_delays)
        spread += float(np.ptp(delays)) * piece.length
    return _TURN / spread
