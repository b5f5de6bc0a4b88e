"""Ring algorithms: all-gather, reduce-scatter, all-reduce, broadcast, reduce; in one direction or in both."""

from collections.abc import Iterable, Sequence

import numpy as np

from wavefabric.collectives.arguments import element_counts
from wavefabric.collectives.builders.transfers import Numbers, assemble, transfers
from wavefabric.collectives.conditions import layout
from wavefabric.collectives.schedule import Schedule


def ring_all_gather(sizes: Iterable[int]) -> Schedule:
    """All-gather around a ring: in each of the ranks − 1 rounds a rank passes on what it received last.

    `sizes` and result as of `direct_all_gather`.

    Examples
    --------
    >>> from wavefabric.collectives import ring_all_gather, verify
    >>> schedule = ring_all_gather([4, 0, 7])
    >>> verify(schedule)
    >>> schedule.rounds, len(schedule.transfers)
    (2, 4)
    """
    counts = element_counts("sizes", sizes)
    return ring("all-gather", counts.size, counts)


def ring_all_reduce(ranks: int, elements: int) -> Schedule:
    """Sum of an array over all ranks around a ring: ``build("ring", "all-reduce", ranks, elements)``."""
    return ring("all-reduce", ranks, elements)


def ring(
    collective: str, ranks: int, elements: Numbers, pieces: int = 1, root: int = 0, grid: Sequence[int] = ()
) -> Schedule:
    """All-gather, reduce-scatter, all-reduce, broadcast or reduce in which all send to the next rank only.

    N − 1 rounds (all-gather, reduce-scatter; (N − 1)/N of the array, the least possible: Patarasuk & Yuan
    2009, doi:10.1016/j.jpdc.2008.09.002), 2 (N − 1) (all-reduce), or N − 2 + pieces in a pipeline (others).
    The next rank is rank + 1. On a `grid` of nodes there is a ring for each rank of a node (`rail_rings`), as
    NCCL's channels are, with an equal part of every share.
    """
    order = rail_rings(*grid) if grid else np.arange(ranks)[None]
    rings, chunks = len(order), pieces * len(order)
    # Pieces of the whole array of an all-reduce are so many for each rank.
    owners = ranks if collective == "all-reduce" else 1
    conditions = layout(collective, ranks, elements, owners * chunks, root)
    name = f"ring {collective}" + (f", {rings} rings" if rings > 1 else "")
    if collective in ("broadcast", "reduce"):
        # Along the chain of ranks that starts or ends at the root, piece j makes hop h in round h + j.
        hop, chunk = np.divmod(np.arange((ranks - 1) * chunks), chunks)
        channel, piece = np.divmod(chunk, pieces)
        at = np.argmax(order == root, axis=1)[channel] + hop + (collective == "reduce")
        src, dst = (order[channel, position % ranks] for position in (at, at + 1))
        part = transfers(hop + piece, src, dst, chunk, reduce=collective == "reduce")
        return assemble(name, conditions, [part])
    parts = []
    shape = max(ranks - 1, 1), rings, ranks
    step, channel, at = np.unravel_index(np.arange((ranks - 1) * order.size), shape)
    rank, to, first = order[channel, at], order[channel, (at + 1) % ranks], 0
    if collective != "all-gather":
        chunk = order[channel, (at - 1 - step) % ranks] * chunks + channel * pieces
        parts.append(transfers(step, rank, to, chunk, count=pieces, reduce=True))
        first = ranks - 1
    if collective != "reduce-scatter":
        chunk = order[channel, (at - step) % ranks] * chunks + channel * pieces
        parts.append(transfers(first + step, rank, to, chunk, count=pieces))
    return assemble(name, conditions, parts)


def rail_rings(nodes: int, gpus: int) -> np.ndarray:
    """Compute the orders of ranks of rings through nodes, one for each rank of a node: shape (gpus, ranks).

    Each ring passes all ranks of a node, and leaves it at another rank than the others do, for the rank of
    the next node with the same number: every adapter sends one ring and receives one, on its own rail. (An
    odd number of nodes of two ranks has no such rings: the last node meets the first across rails.)
    """
    ends = [node % 2 for node in range(nodes)]  # of the first ring: other ones in neighbours
    ends[-1] = ends[-1] if nodes % 2 == 0 else 2 % gpus
    passed = []
    for node, (begin, end) in enumerate(zip(ends, np.roll(ends, -1).tolist(), strict=True)):
        end = end if end != begin else (begin - 1) % gpus
        local = [begin, *(rank for rank in range(gpus) if rank not in (begin, end)), end][:gpus]
        passed.append(node * gpus + (np.array(local) + np.arange(gpus)[:, None]) % gpus)
    return np.concatenate(passed, axis=1)


def ring_of_one_part(collective: str, ranks: int) -> Schedule:
    """What `ring` does with the share of rank 0, one element, in an all-gather, reduce-scatter or all-reduce.

    The share of rank r goes the same way, r ranks further: rounds, transfers and conditions of all shares.
    """
    everybody, each, parts = (1 << ranks) - 1, range(ranks), []
    step, first = np.arange(ranks - 1), 0
    if collective != "all-gather":
        rank = (step + 1) % ranks
        parts.append(transfers(step, rank, (rank + 1) % ranks, 0, reduce=True))
        first = ranks - 1
    if collective != "reduce-scatter":
        parts.append(transfers(first + step, step, (step + 1) % ranks, 0))
    gather, scatter = collective == "all-gather", collective == "reduce-scatter"
    pre = {(r, 0, 0): (0, 1 << r) for r in (each[:1] if gather else each)}
    post = {(r, 0, 0): (0, 1 if gather else everybody) for r in (each[:1] if scatter else each)}
    sizes = (np.ones((ranks, 1), np.int64),)
    return Schedule(f"ring {collective}", ranks, ("data",), sizes, np.concatenate(parts), pre, post)


def bidirectional_ring(collective: str, ranks: int, elements: int, pieces: int = 1) -> Schedule:
    """All-gather, reduce-scatter or all-reduce in which a share travels both ways around at once.

    ⌈(N − 1)/2⌉ rounds (all-gather, reduce-scatter) or twice as many. Half of the pieces reach the opposite
    rank either way. What comes from below to a share's owner is added last, from ``scratch``.
    """
    parts, sizes = [], None
    conditions = layout(collective, ranks, elements, pieces * (ranks if collective == "all-reduce" else 1))
    # Step, direction, lowest piece and number of pieces of what an all-gather sends.
    rows = [(t, d, 0, pieces) for t in range((ranks - 1) // 2) for d in (1, -1)]
    if ranks % 2 == 0:
        up, down = pieces - pieces // 2, pieces // 2
        rows += [((ranks - 1) // 2, 1, 0, up), ((ranks - 1) // 2, -1, up, down)]
    table = np.array([row for row in rows if row[3]], int).reshape(-1, 4)
    rank = np.tile(np.arange(ranks), len(table))
    step, direction, lowest, count = np.repeat(table, ranks, axis=0).T
    part = (rank - direction * step) % ranks
    last, first = ranks // 2 - 1, 0
    if collective != "all-gather":
        # The all-gather backwards in time, from the receivers to the senders.
        chunk = part * pieces + lowest
        home = (step == 0) & (direction < 0)
        target = np.where(home, lowest, chunk)
        ends = last - step, (rank + direction) % ranks, rank, chunk, target
        parts.append(transfers(*ends, count=count, buffers=(0, home * 1), reduce=~home))
        own, first = np.arange(ranks), last + 1
        if home.any():
            n, skip = int(count[home][0]), int(lowest[home][0])
            target_chunk = own * pieces + skip
            parts.append(transfers(first, own, own, skip, target_chunk, count=n, buffers=(1, 0), reduce=True))
            first += 1
        held = own[:, None] * pieces + np.arange(pieces)
        kept = np.arange(pieces) >= lowest[home].min(initial=pieces)
        sizes = np.where(kept, conditions.sizes[0][own[:, None], held], 0)
    if collective != "reduce-scatter":
        to = (rank + direction) % ranks
        parts.append(transfers(first + step, rank, to, part * pieces + lowest, count=count))
    return assemble(f"bidirectional-ring {collective}", conditions, parts, sizes)
