"""What ranks exchange for the Kerr operator: the form, κ by rows, and buffers of cell powers.

Every rank holds the powers of its own cells and receives those of all others. A cell whose rows lie on
several ranks counts as one *part* on each: κ is expanded to parts, so that no sum over ranks is needed.
Of γκ a rank keeps the rows of its own parts only, in one block for each rank (Brehler et al., section 4.4).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from wavefabric.collectives import direct_all_gather
from wavefabric.errors import InputError
from wavefabric.optics.propagation.phase_groups import find_cells
from wavefabric.optics.propagation.rows import Share

FORMS = ("auto", "dense", "factored")


@dataclass(frozen=True)
class RankMixing:
    """γκ between the cells of one rank and those of all ranks.

    Attributes
    ----------
    form : str
        ``"dense"`` (every row is a cell, the paper's form) or ``"factored"`` (exact groups of rows).
    cells : int
        Distinct cells of the whole field.
    parts : tuple of int, (ranks,)
        Cells or parts of cells on each rank; their powers are what is exchanged.
    start : ndarray of int, (own parts + 1,)
        First local row of each own part, and the number of local rows last.
    blocks : list of ndarray, (own parts, parts of rank r)
        γκ, rad/(W m).
    """

    form: str
    cells: int
    parts: tuple[int, ...]
    start: np.ndarray
    blocks: list[np.ndarray]
    #: Nothing is dropped, and there are no factors: as in :class:`wavefabric.optics.propagation.phase_groups.Mixing`.
    dropped: np.ndarray = field(default_factory=lambda: np.zeros(0))
    rank: int = 0


def exchange_form(exchange: str, kerr: str) -> str:
    """The form asked for by the two options: ``exchange`` (over ranks) and ``kerr``.

    Raises
    ------
    InputError
        If one is unknown, they disagree, or ``kerr`` is ``"svd"``.
    """
    if exchange not in FORMS:
        raise InputError(f"exchange: {exchange!r} is unknown; allowed: {', '.join(FORMS)}")
    if kerr == "svd":
        raise InputError('kerr: "svd" given with several ranks; allowed: auto, dense, factored')
    if kerr not in FORMS:
        raise InputError(f"kerr: {kerr!r} is unknown; allowed: {', '.join((*FORMS, 'svd'))}")
    if "auto" not in (exchange, kerr) and exchange != kerr:
        raise InputError(f'exchange: "{exchange}" given with kerr = "{kerr}"; allowed: the same, or auto')
    return kerr if exchange == "auto" else exchange


def rank_mixing(kappa_rows, gamma: float, share: Share, form: str = "auto") -> RankMixing:
    """Lay out γκ for one rank.

    Parameters
    ----------
    kappa_rows : array_like, (2M, 2M)
        κ between rows, dimensionless.
    gamma : float
        Nonlinear coefficient γ, 1/(W m).
    share : Share
        Whose rows are whose.
    form : {"auto", "dense", "factored"}
        ``"auto"``: factored if fewer powers travel.
    """
    kappa = np.asarray(kappa_rows, float)
    rows = np.arange(kappa.shape[0])
    ends = share.row_ends
    cell = find_cells(kappa)
    count = [np.unique(cell[a:b]).size for a, b in pairwise(ends)]
    if form == "dense" or (form == "auto" and sum(count) == rows.size):
        form, cell = "dense", rows
    else:
        form = "factored"
    first = np.searchsorted(cell, np.arange(cell[-1] + 1))  # a row that stands for its cell
    firsts = [first[np.unique(cell[a:b])] for a, b in pairwise(ends)]
    mine, own = cell[share.slice], firsts[share.rank]
    start = np.append(np.flatnonzero(np.diff(mine, prepend=-1)), mine.size)
    blocks = [np.ascontiguousarray(gamma * kappa[np.ix_(own, theirs)]) for theirs in firsts]
    return RankMixing(form, int(cell[-1]) + 1, tuple(f.size for f in firsts), start, blocks)


class Slot:
    """Powers of the cells of all ranks over one chunk of time, and the exchange that fills them.

    Parameters
    ----------
    comm : Communicator
    parts : sequence of int
        Cells of each rank.
    m : int
        Samples of the chunk.
    dtype : dtype
        float32 or float64.

    Attributes
    ----------
    parts : list of arrays (cells of rank r, m)
        W; those of other ranks are valid from `arrived` to the next `start`.
    all : array (cells of all ranks, m)
        The same, one after the other.
    own : array
        This rank's part, to be written between `free` and `start`.
    """

    def __init__(self, comm, parts, m: int, dtype):
        ends = m * np.cumsum([0, *parts])
        data = comm.allocate((int(ends[-1]),), dtype)
        self.all = data.reshape(-1, m)
        self.parts = [data[a:b].reshape(-1, m) for a, b in pairwise(ends.tolist())]
        self.own = self.parts[comm.rank]
        self._exchange = comm.bind(direct_all_gather([cells * m for cells in parts]), {"data": data})
        self._busy = False

    def free(self) -> None:
        """Own powers may be overwritten after this."""
        if self._busy:
            self._exchange.finish()
            self._busy = False

    def start(self) -> None:
        """Send the own powers, as they are when the work enqueued so far is done, to all ranks."""
        self._exchange.start()
        self._busy = True

    def arrived(self, peer: int | None = None) -> None:
        """Work enqueued from now on may read the powers of ``peer``, or of all."""
        self._exchange.arrived(peer)
