"""Windows of modes that are equalised together, channel by channel, also where ranks hold the modes."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from wavefabric.errors import InputError
from wavefabric.optics.signal.equaliser import Equaliser
from wavefabric.optics.signal.wdm import WdmGrid

#: Windows of the channels in memory at a time: at least this many bytes, else a quarter of the field.
LEAST_BYTES = 1 << 26


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
