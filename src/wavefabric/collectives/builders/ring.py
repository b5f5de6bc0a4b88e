"""Build rings, one-way or both ways: all-gather, reduce-scatter, all-reduce, broadcast, reduce."""

from collections.abc import Iterable, Sequence

import numpy as np

from wavefabric.collectives.builders.transfers import Numbers, assemble, transfers
from wavefabric.collectives.conditions import layout
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.sizes import element_counts


def ring_all_gather(sizes: Iterable[int]) -> Schedule:
    """Build an all-gather around a ring: in ranks − 1 rounds each rank forwards what it received last.

    ``sizes`` and the result are as for `direct_all_gather`.

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
    """Build an all-reduce around a ring, as ``build("ring", "all-reduce", ranks, elements)`` does."""
    return ring("all-reduce", ranks, elements)


def ring(
    collective: str, ranks: int, elements: Numbers, pieces: int = 1, root: int = 0, grid: Sequence[int] = ()
) -> Schedule:
    """Build an all-gather, reduce-scatter, all-reduce, broadcast or reduce; rank r sends only to r + 1.

    An all-gather or reduce-scatter takes N − 1 rounds, and a rank sends (N − 1)/N of the array, the least
    possible (Patarasuk & Yuan 2009, doi:10.1016/j.jpdc.2008.09.002); an all-reduce takes 2 (N − 1) rounds, a
    pipelined broadcast or reduce N − 2 + pieces. On a ``grid`` of (nodes, GPUs) there is a ring per GPU of a
    node (`rail_rings`), like the channels of NCCL, and each carries an equal part of every chunk.
    """
    order = rail_rings(*grid) if grid else np.arange(ranks)[None]
    rings, chunks = len(order), pieces * len(order)
    # `layout` divides the array of an all-reduce into chunks but not into a part per rank.
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
    """Return the order of ranks in each ring through all nodes, one ring per local rank: shape (gpus, ranks).

    Each ring visits all ranks of a node, then goes to the rank of equal local number in the next node. Rings
    leave a node from different ranks: each adapter sends for one ring and receives for one, on its rail. (An
    odd number of nodes of two ranks has no such rings: from the last node to the first they change rails.)
    """
    ends = [node % 2 for node in range(nodes)]  # first local rank of the first ring: alternates between nodes
    ends[-1] = ends[-1] if nodes % 2 == 0 else 2 % gpus
    passed = []
    for node, (begin, end) in enumerate(zip(ends, np.roll(ends, -1).tolist(), strict=True)):
        end = end if end != begin else (begin - 1) % gpus
        local = [begin, *(rank for rank in range(gpus) if rank not in (begin, end)), end][:gpus]
        passed.append(node * gpus + (np.array(local) + np.arange(gpus)[:, None]) % gpus)
    return np.concatenate(passed, axis=1)


def ring_of_one_part(collective: str, ranks: int) -> Schedule:
    """Build the schedule, for one element, in which one part of an array goes around a ring: that of rank 0.

    ``collective``: all-gather, reduce-scatter or all-reduce. The part of rank r moves in the same way, r
    ranks further on; the movements of all parts together are those of `ring`.
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
    """Build an all-gather, reduce-scatter or all-reduce; parts travel both ways around the ring at once.

    Parts travel in ⌈(N − 1)/2⌉ rounds, for an all-reduce in twice as many. With an even number of ranks, half
    of a part's pieces go each way to the rank opposite the owner. In a reduction a sum reaches the owner of a
    part from either side; the one from the preceding rank waits in ``scratch`` and is added last.
    """
    parts, sizes = [], None
    conditions = layout(collective, ranks, elements, pieces * (ranks if collective == "all-reduce" else 1))
    # Sends of the all-gather: step, direction, lowest piece, number of pieces.
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
