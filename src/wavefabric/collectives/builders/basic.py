"""All-gather and all-reduce: around a ring, or directly between all pairs of ranks."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from wavefabric.collectives.arguments import element_counts, whole
from wavefabric.collectives.schedule import TRANSFER, Schedule


def ring_all_gather(sizes: Iterable[int]) -> Schedule:
    """All-gather around a ring: in each of the ranks − 1 rounds a rank passes on what it received last.

    Parameters
    ----------
    sizes : sequence of int, one a rank
        Elements that each rank contributes; 0 allowed.

    Returns
    -------
    Schedule
        One buffer ``data``; chunk r is rank r's own before, and everybody's after.

    Raises
    ------
    InputError
        If `sizes` is empty or one of them negative.

    Notes
    -----
    Every rank sends all but one chunk, the least possible (Thakur, Rabenseifner & Gropp 2005,
    doi:10.1177/1094342005051521), and only to its neighbour.

    Examples
    --------
    >>> from wavefabric.collectives import ring_all_gather, verify
    >>> ring = ring_all_gather([4, 0, 7])
    >>> verify(ring)
    >>> ring.rounds, len(ring.transfers)
    (2, 4)
    """
    counts = element_counts("sizes", sizes)
    step, rank = _rounds_and_ranks(counts.size, counts.size - 1)
    return _all_gather("ring all-gather", counts, step, rank, rank + 1, rank - step)


def direct_all_gather(sizes: Iterable[int]) -> Schedule:
    """All-gather in which every rank sends its chunk to rank + 1, rank + 2, …, so that no two meet at one.

    Nothing waits for anything else: a single level when run, the least latency.

    Parameters
    ----------
    sizes : sequence of int, one a rank
        Elements that each rank contributes; 0 allowed.

    Returns
    -------
    Schedule
        One buffer ``data``; chunk r is rank r's own before, and everybody's after.

    Raises
    ------
    InputError
        If `sizes` is empty or one of them negative.

    Examples
    --------
    >>> from wavefabric.collectives import direct_all_gather, verify
    >>> direct = direct_all_gather([4, 0, 7])
    >>> verify(direct)
    >>> direct.transfers[["src", "dst"]].tolist()
    [(0, 1), (2, 0), (0, 2), (2, 1)]
    """
    counts = element_counts("sizes", sizes)
    step, rank = _rounds_and_ranks(counts.size, counts.size - 1)
    return _all_gather("direct all-gather", counts, step, rank, rank + 1 + step, rank)


def ring_all_reduce(ranks: int, elements: int, chunks: int | None = None) -> Schedule:
    """Sum of an array over all ranks around a ring: reduce-scatter, then all-gather.

    Parameters
    ----------
    ranks : int
    elements : int
        Of the array.
    chunks : int, optional
        Parts that the array is cut into, as even as possible; `ranks` by default. Of more parts each of the
        ranks' shares is several consecutive chunks, which follow each other as in a pipeline.

    Returns
    -------
    Schedule
        One buffer ``data``, cut alike on all ranks: item c, chunk c. Every rank ends with the same bits: a
        chunk is added up along one path and then copied. The order of the sum differs from chunk to chunk.

    Raises
    ------
    InputError
        If ``ranks < 1``, ``elements < 0`` or ``chunks < 1``.

    Notes
    -----
    Each rank sends 2 (ranks − 1)/ranks of the array, the least possible (Patarasuk & Yuan 2009,
    doi:10.1016/j.jpdc.2008.09.002).

    Examples
    --------
    >>> from wavefabric.collectives import ring_all_reduce, verify
    >>> ring = ring_all_reduce(4, 10)
    >>> verify(ring)
    >>> ring.rounds, ring.sizes[0][0].tolist()
    (6, [3, 3, 2, 2])
    """
    ranks, elements = whole("ranks", ranks, 1), whole("elements", elements, 0)
    chunks = whole("chunks", ranks if chunks is None else chunks, 1)
    parts = np.arange(chunks)
    counts = elements // chunks + (parts < elements % chunks)
    # Share s of the array is chunks first[s] to first[s + 1].
    first = np.arange(ranks + 1) * chunks // ranks
    step, rank = _rounds_and_ranks(ranks, 2 * (ranks - 1))
    reduce = step < ranks - 1
    # A rank ends the first half with the whole sum of share rank + 1, which is where the second begins.
    share = np.where(reduce, rank - step, rank + 1 - (step - (ranks - 1))) % ranks
    owner = np.repeat(np.arange(step.size), np.diff(first)[share])
    within = np.arange(owner.size) - np.searchsorted(owner, owner)
    chunk = first[share][owner] + within
    transfers = _same_chunk(step[owner], rank[owner], rank[owner] + 1, chunk, ranks, reduce[owner])
    present = np.flatnonzero(counts).tolist()
    pre = {(r, 0, c): (c, 1 << r) for r in range(ranks) for c in present}
    everybody = (1 << ranks) - 1
    return Schedule(
        name="ring all-reduce",
        ranks=ranks,
        buffers=("data",),
        sizes=(np.tile(counts, (ranks, 1)),),
        transfers=transfers[counts[chunk] > 0],
        pre=pre,
        post={(r, 0, c): (c, everybody) for r, _, c in pre},
    )


def direct_all_reduce(ranks: int, elements: int) -> Schedule:
    """Sum of a small array over all ranks: each sends it to all others, and adds them up in rank order.

    Parameters
    ----------
    ranks : int
    elements : int
        Of the array.

    Returns
    -------
    Schedule
        Buffers ``data``, one chunk, and ``scratch``, in which chunk r is for what comes from rank r.

    Raises
    ------
    InputError
        If ``ranks < 1`` or ``elements < 0``.

    Notes
    -----
    Rank d adds x₀ + x₁ + … + x_(d−1) in the scratch chunk of rank 0, adds that to its own x_d, and then
    x_(d+1), … to the result. As a + b = b + a exactly, every rank gets the bits of ((x₀ + x₁) + x₂) + …

    Examples
    --------
    >>> from wavefabric.collectives import direct_all_reduce, verify
    >>> direct = direct_all_reduce(3, 5)
    >>> verify(direct)
    >>> direct.sizes[1].tolist()
    [[0, 5, 5], [5, 0, 5], [5, 5, 0]]
    """
    ranks, elements = whole("ranks", ranks, 1), whole("elements", elements, 0)
    data, scratch = 0, 1
    rows = []
    if elements:
        step, rank = _rounds_and_ranks(ranks, ranks - 1)
        for t, r in zip(step.tolist(), rank.tolist(), strict=True):
            rows.append((t, r, (r + 1 + t) % ranks, data, 0, scratch, r, 1, False))
        for t in range(ranks - 1):
            for d in range(ranks):
                if t + 1 < d:
                    source, target = (scratch, t + 1), (scratch, 0)
                elif t + 1 == d:
                    source, target = (scratch, 0), (data, 0)
                else:
                    source, target = (scratch, t + 1), (data, 0)
                rows.append((ranks - 1 + t, d, d, *source, *target, 1, True))
    held = range(ranks if elements else 0)
    return Schedule(
        name="direct all-reduce",
        ranks=ranks,
        buffers=("data", "scratch"),
        sizes=(
            np.full((ranks, 1), elements, np.int64),
            elements * (1 - np.eye(ranks, dtype=np.int64)),
        ),
        transfers=np.array(rows, TRANSFER),
        pre={(r, data, 0): (0, 1 << r) for r in held},
        post={(r, data, 0): (0, (1 << ranks) - 1) for r in held},
    )


def _rounds_and_ranks(ranks: int, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Round and sender of transfers of which each rank makes one a round."""
    step, rank = np.divmod(np.arange(rounds * ranks), ranks)
    return step, rank


def _same_chunk(step, src, dst, chunk, ranks: int, reduce: np.ndarray | bool = False) -> np.ndarray:
    """Transfers of the one buffer, to the same chunk of another rank; ranks and chunks counted cyclically."""
    transfers = np.zeros(np.shape(step), TRANSFER)
    transfers["round"], transfers["src"], transfers["dst"] = step, src, dst % ranks
    transfers["src_chunk"] = transfers["dst_chunk"] = chunk
    transfers["count"], transfers["reduce"] = 1, reduce
    return transfers


def _all_gather(name: str, counts: np.ndarray, step, src, dst, chunk) -> Schedule:
    ranks = counts.size
    chunk = chunk % ranks
    present = np.flatnonzero(counts).tolist()
    return Schedule(
        name=name,
        ranks=ranks,
        buffers=("data",),
        sizes=(np.tile(counts, (ranks, 1)),),
        transfers=_same_chunk(step, src, dst, chunk, ranks)[counts[chunk] > 0],
        pre={(c, 0, c): (c, 1 << c) for c in present},
        post={(r, 0, c): (c, 1 << c) for r in range(ranks) for c in present},
    )
