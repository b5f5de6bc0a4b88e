"""Which modes, hence rows of the field, a rank holds, and what ranks tell each other about rows."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from wavefabric.errors import InputError


@dataclass(frozen=True)
class RankModes:
    """Contiguous spatial modes of one rank; a mode is two rows, its polarisations."""

    #: First mode of every rank, and the number of modes last: (ranks + 1,).
    ends: tuple[int, ...]
    #: Whose modes these are.
    rank: int = 0

    @property
    def first_mode(self) -> int:
        return self.ends[self.rank]

    @property
    def modes(self) -> int:
        return self.ends[self.rank + 1] - self.first_mode

    @property
    def range(self) -> range:
        """The modes."""
        return range(self.first_mode, self.first_mode + self.modes)

    @property
    def first_row(self) -> int:
        return 2 * self.first_mode

    @property
    def rows(self) -> int:
        return 2 * self.modes

    @property
    def slice(self) -> slice:
        """The rows among those of the whole field."""
        return slice(self.first_row, self.first_row + self.rows)

    @property
    def ranks(self) -> int:
        return len(self.ends) - 1

    @property
    def row_ends(self) -> tuple[int, ...]:
        """First row of every rank, and the number of rows last."""
        return tuple(2 * end for end in self.ends)


def split_modes(modes: int, ranks: int, boundaries=None) -> tuple[int, ...]:
    """`RankModes.ends` for ``ranks`` ranks of at least one mode each, even to within one mode by default.

    ``boundaries``: modes at which a cut is allowed, ascending (first modes of groups); the largest share is
    then as small as it can be, then the next largest. Raises InputError if there are more ranks than pieces.
    """
    if ranks > modes:
        raise InputError(f"ranks: {ranks} given for {modes} modes; allowed: 1 to {modes}")
    if boundaries is None:
        large, rest = divmod(modes, ranks)
        return tuple(r * large + min(r, rest) for r in range(ranks + 1))
    cuts = [0, *(int(b) for b in boundaries if 0 < b < modes), modes]
    pieces = len(cuts) - 1
    if ranks > pieces:
        raise InputError(
            f"ranks: {ranks} given, but groups that mix are not cut and there are {pieces}; "
            f"allowed: 1 to {pieces}"
        )
    # best[j]: sizes (largest first) and ends of the best split of the first j pieces.
    best = {0: ((), (0,))}
    for _ in range(ranks):
        grown = {}
        for i, (sizes, ends) in best.items():
            for j in range(i + 1, pieces + 1):
                longer = tuple(sorted((*sizes, cuts[j] - cuts[i]), reverse=True)), (*ends, cuts[j])
                grown[j] = min(grown.get(j, longer), longer)
        best = grown
    return best[pieces][1]


def check_split(split: Sequence[int], modes: int, ranks: int) -> tuple[int, ...]:
    """`RankModes.ends` from the number of modes of each rank; InputError unless they are all modes."""
    try:
        sizes = list(map(operator.index, split))
    except TypeError:
        sizes = []
    if len(sizes) != ranks or min(sizes, default=0) < 1 or sum(sizes) != modes:
        shown = sizes or repr(split)
        raise InputError(
            f"split: {shown} given; allowed: {ranks} positive numbers of modes, {modes} together"
        )
    return tuple(int(end) for end in np.cumsum([0, *sizes]))


class RowReader:
    """Rows of a field that lies on all ranks, read in order on rank 0.

    Rank 0 calls `read` for rows 0, 1, …; meanwhile every other rank calls `serve` once. ``local(i)`` gives
    local row i on the host; a row has ``length`` samples.
    """

    def __init__(self, comm, local_modes: RankModes, local: Callable[[int], np.ndarray], length: int, dtype):
        self._control, self._local_modes, self._local = comm.control, local_modes, local
        self._buffer = np.empty(length, dtype)
        self._own = local_modes.row_ends[1]
        self._next = self._own

    def read(self, row: int) -> np.ndarray:
        """Global row ``row``, valid until the next call."""
        if row < self._own:
            return self._local(row)
        owner = int(np.searchsorted(self._local_modes.row_ends, row, side="right")) - 1
        self._control.recv_array(owner, self._buffer, row)
        self._next = row + 1
        return self._buffer

    def serve(self) -> None:
        """Send the own rows to rank 0."""
        for i in range(self._local_modes.rows):
            row = np.ascontiguousarray(self._local(i))
            self._control.send_array(0, row, self._local_modes.first_row + i)

    def drain(self) -> None:
        """Take what was not read, so that nobody waits for ever after a failure on rank 0."""
        for row in range(self._next, self._local_modes.row_ends[-1]):
            self.read(row)


def gather_field(comm, local_modes: RankModes, field: np.ndarray) -> np.ndarray:
    """The whole field (2M, N) on the host of every rank, from the own rows of each."""
    if comm is None or comm.size == 1:
        return field
    out = np.empty((local_modes.row_ends[-1], field.shape[1]), field.dtype)
    for rank, (first, end) in enumerate(pairwise(local_modes.row_ends)):
        for row in range(first, end):
            mine = field[row - first] if rank == comm.rank else None
            out[row] = comm.control.bcast(mine, rank)
    return out
