"""What ranks exchange for the Kerr operator: the form, κ by rows, and buffers of the powers of phase groups.

Every rank holds the powers of its own phase groups and receives those of all others. A group whose rows lie
on several ranks counts as one *part* on each: κ is expanded to parts, so that no sum over ranks is needed. Of
γκ a rank keeps the rows of its own parts only, in one block for each rank (Brehler et al., section 4.4).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from wavefabric.collectives import direct_all_gather
from wavefabric.errors import InputError
from wavefabric.optics.propagation.phase_groups import EXCHANGE_FORMS, KERR_FORMS, find_phase_groups
from wavefabric.optics.propagation.rank_modes import RankModes


@dataclass(frozen=True)
class RankPhaseGroupCoupling:
    """γκ between the phase groups of one rank and those of all ranks.

    Attributes
    ----------
    form : str
        ``"dense"`` (every row is a group, the paper's form) or ``"factored"`` (exact groups of rows).
    groups : int
        Distinct phase groups of the whole field.
    parts : tuple of int, (ranks,)
        Groups or parts of groups on each rank; their powers are what is exchanged.
    start : ndarray of int, (own parts + 1,)
        First local row of each own part, and the number of local rows last.
    blocks : list of ndarray, (own parts, parts of rank r)
        γκ, rad/(W m).
    """

    form: str
    groups: int
    parts: tuple[int, ...]
    start: np.ndarray
    blocks: list[np.ndarray]
    #: Nothing is dropped, and there are no low-rank factors: as in `PhaseGroupCoupling`.
    dropped: np.ndarray = field(default_factory=lambda: np.zeros(0))
    rank: int = 0

    @property
    def own_groups(self) -> int:
        """Groups or parts of groups of the rows that are here."""
        return self.start.size - 1

    def exchange_nbytes(self, n: int, real_bytes: int, chunks: int) -> int:
        """Bytes of power buffers and scratch: two rounds of all powers and up to six numbers an own group,
        for up to five chunks of time at once."""
        numbers = 2 * sum(self.parts) + 6 * self.own_groups
        return numbers * n * real_bytes * min(5, chunks) // chunks


def exchange_form(exchange: str, kerr: str) -> str:
    """The form asked for by the two options ``exchange`` (over ranks) and ``kerr``.

    Raises InputError if one is unknown, they disagree, or ``kerr`` is ``"svd"``.
    """
    if exchange not in EXCHANGE_FORMS:
        raise InputError(f"exchange: {exchange!r} is unknown; allowed: {', '.join(EXCHANGE_FORMS)}")
    if kerr == "svd":
        raise InputError('kerr: "svd" given with several ranks; allowed: auto, dense, factored')
    if kerr not in KERR_FORMS:
        raise InputError(f"kerr: {kerr!r} is unknown; allowed: {', '.join(KERR_FORMS)}")
    if "auto" not in (exchange, kerr) and exchange != kerr:
        raise InputError(f'exchange: "{exchange}" given with kerr = "{kerr}"; allowed: the same, or auto')
    return kerr if exchange == "auto" else exchange


def rank_phase_group_coupling(
    kappa_rows, gamma: float, share: RankModes, form: str = "auto"
) -> RankPhaseGroupCoupling:
    """Lay out γκ (κ between rows, (2M, 2M)) for one rank; ``"auto"`` is factored if that is less."""
    kappa = np.asarray(kappa_rows, float)
    rows = np.arange(kappa.shape[0])
    ends = share.row_ends
    group = find_phase_groups(kappa)
    count = [np.unique(group[a:b]).size for a, b in pairwise(ends)]
    if form == "dense" or (form == "auto" and sum(count) == rows.size):
        form, group = "dense", rows
    else:
        form = "factored"
    first = np.searchsorted(group, np.arange(group[-1] + 1))  # a row that stands for its group
    firsts = [first[np.unique(group[a:b])] for a, b in pairwise(ends)]
    mine, own = group[share.slice], firsts[share.rank]
    start = np.append(np.flatnonzero(np.diff(mine, prepend=-1)), mine.size)
    blocks = [np.ascontiguousarray(gamma * kappa[np.ix_(own, theirs)]) for theirs in firsts]
    return RankPhaseGroupCoupling(form, int(group[-1]) + 1, tuple(f.size for f in firsts), start, blocks)


class PowerExchange:
    """Powers of the phase groups of all ranks over one chunk of time, and the all-gather that fills them.

    Attributes
    ----------
    parts : list of arrays (groups of rank r, m)
        W; those of other ranks are valid from `arrived` to the next `start`.
    all : array (groups of all ranks, m)
        The same, one after the other.
    own : array
        This rank's part, to be written between `wait` and `start`.
    """

    def __init__(self, comm, parts, m: int, dtype):
        ends = m * np.cumsum([0, *parts])
        data = comm.allocate((int(ends[-1]),), dtype)
        self.all = data.reshape(-1, m)
        self.parts = [data[a:b].reshape(-1, m) for a, b in pairwise(ends.tolist())]
        self.own = self.parts[comm.rank]
        self._exchange = comm.bind(direct_all_gather([groups * m for groups in parts]), {"data": data})
        self._busy = False

    def wait(self) -> None:
        """Wait until no exchange is under way: own powers may be overwritten."""
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
