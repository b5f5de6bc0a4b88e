"""Split the modes of a field (two rows per mode) among ranks, and gather the rows of all ranks."""

import operator
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from wavefabric.base.errors import InputError


class RankModes:
    """Describes the contiguous spatial modes of one rank; a mode has two rows, its polarisations."""

    def __init__(self, ends: tuple[int, ...], rank: int = 0):
        #: First mode of every rank, and the number of modes last: (ranks + 1,); this rank; number of ranks.
        self.ends, self.rank, self.ranks = ends, rank, len(ends) - 1
        #: Modes of this rank.
        self.range = range(ends[rank], ends[rank + 1])
        self.first_mode, self.modes = self.range.start, len(self.range)
        self.first_row, self.rows = 2 * self.first_mode, 2 * self.modes
        #: Rows of this rank in the whole field.
        self.slice = slice(self.first_row, self.first_row + self.rows)
        #: First row of every rank, and the number of rows last.
        self.row_ends = tuple(2 * end for end in ends)


def split_modes(modes: int, ranks: int, boundaries=None) -> tuple[int, ...]:
    """Split modes among ranks, by default equally to within one mode; return the first mode of each rank.

    The result has the number of modes as last element, (ranks + 1,). ``boundaries`` are the only modes where
    a rank may begin, ascending (first modes of groups). Then the largest number of modes on a rank is as
    small as possible, then the second largest, and so on. InputError if there are more ranks than modes, or
    than parts between boundaries.
    """
    if ranks > modes:
        raise InputError(f"ranks: {ranks} given for {modes} modes; allowed: 1 to {modes}")
    if boundaries is None:
        large, rest = divmod(modes, ranks)
        return tuple(r * large + min(r, rest) for r in range(ranks + 1))
    cuts = [0, *(int(b) for b in boundaries if 0 < b < modes), modes]
    pieces = len(cuts) - 1
    if ranks > pieces:
        fault = f"groups that mix are not cut and there are {pieces}"
        raise InputError(f"ranks: {ranks} given, but {fault}; allowed: 1 to {pieces}")
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
    """Return the first mode of each rank, and the number of modes last, for ``split``, modes per rank.

    InputError unless these add up to ``modes``.
    """
    try:
        sizes = list(map(operator.index, split))
    except TypeError:
        sizes = []
    if len(sizes) != ranks or min(sizes, default=0) < 1 or sum(sizes) != modes:
        allowed = f"{ranks} positive numbers of modes, {modes} together"
        raise InputError(f"split: {sizes or repr(split)} given; allowed: {allowed}")
    return tuple(int(end) for end in np.cumsum([0, *sizes]))


def gather_field(comm, local_modes: RankModes, field: np.ndarray) -> np.ndarray:
    """Gather ``field``, this rank's rows, from all ranks; return the whole field (2M, N) on every host."""
    if comm.size == 1:
        return field
    out = np.empty((local_modes.row_ends[-1], field.shape[1]), field.dtype)
    for rank, (first, end) in enumerate(pairwise(local_modes.row_ends)):
        for row in range(first, end):
            mine = field[row - first] if rank == comm.rank else None
            out[row] = comm.control.bcast(mine, rank)
    return out
