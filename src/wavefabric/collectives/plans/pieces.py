"""Pieces of transfers: the longest runs of chunks that every transfer moves as a whole or not at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from wavefabric.collectives.arguments import ragged
from wavefabric.collectives.schedule import Schedule


@dataclass(frozen=True)
class Pieces:
    """Columns, shape (pieces,), in the order of transfers.

    ``transfer``: its number. ``size``: elements. ``src_first``, ``dst_first``: first element in the rank's
    buffer. ``src_key``, ``dst_key``: number of that address; two pieces at an address have one key, and
    pieces with different keys have no element in common.
    """

    transfer: np.ndarray
    size: np.ndarray
    src_first: np.ndarray
    dst_first: np.ndarray
    src_key: np.ndarray
    dst_key: np.ndarray


def pieces(schedule: Schedule) -> Pieces:
    """Cut all transfers where any transfer begins or ends, at both ends, as often as that takes.

    Examples
    --------
    >>> from wavefabric.collectives import ring_all_gather
    >>> from wavefabric.collectives.plans.pieces import pieces
    >>> pieces(ring_all_gather([5, 3])).size.tolist()
    [5, 3]
    """
    t = schedule.transfers
    widths = [sizes.shape[1] + 1 for sizes in schedule.sizes]
    base = np.concatenate(([0], np.cumsum([width * schedule.ranks for width in widths])))
    first = np.concatenate(
        [np.pad(np.cumsum(sizes, axis=1), ((0, 0), (1, 0))).ravel() for sizes in schedule.sizes]
    )
    count = t["count"].astype(np.int64) + 1  # boundaries between chunks, both ends included
    transfer, within = ragged(count)
    ends = []
    for end in ("src", "dst"):
        buffer = t[f"{end}_buffer"].astype(np.int64)
        start = base[buffer] + t[end].astype(np.int64) * np.array(widths)[buffer] + t[f"{end}_chunk"]
        ends.append(start[transfer] + within)
    src, dst = ends
    # Boundaries that transfers carry onto each other are cut together.
    links = coo_array((np.ones(src.size, np.int8), (src, dst)), shape=(int(base[-1]),) * 2)
    _, group = connected_components(links, directed=False)
    outer = (within == 0) | (within == count[transfer] - 1)
    cut = np.zeros(int(base[-1]), bool)
    cut[group[src[outer]]] = True
    at = np.flatnonzero(cut[group[src]])
    begins = at[:-1][transfer[at[:-1]] == transfer[at[1:]]]
    following = at[1:][transfer[at[:-1]] == transfer[at[1:]]]
    return Pieces(
        transfer[begins],
        first[src[following]] - first[src[begins]],
        first[src[begins]],
        first[dst[begins]],
        src[begins],
        dst[begins],
    )
