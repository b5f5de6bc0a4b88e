"""Around a ring of ranks, in one direction or in both."""

from __future__ import annotations

import numpy as np

from wavefabric.collectives.builders.rows import assemble, rows
from wavefabric.collectives.conditions import layout
from wavefabric.collectives.schedule import Schedule


def ring(collective: str, ranks: int, elements: int, pieces: int = 1, root: int = 0) -> Schedule:
    """All-gather, reduce-scatter, all-reduce, broadcast or reduce in which all send to rank + 1 only.

    Parameters
    ----------
    collective : str
    ranks, elements : int
        See `wavefabric.collectives.conditions.layout`.
    pieces : int
        Of a broadcast or reduce: pieces of the array, which follow each other as in a pipeline. Else: chunks
        of a rank's share, all of which move together.
    root : int
        Of a broadcast or reduce.

    Returns
    -------
    Schedule
        Of N − 1 rounds (all-gather, reduce-scatter), 2 (N − 1) (all-reduce), N − 2 + pieces (others). Every
        rank ends an all-reduce with the same bits; the order of the sum differs from chunk to chunk.

    Notes
    -----
    All-gather and reduce-scatter send (N − 1)/N of the array, the least possible (Patarasuk & Yuan 2009,
    doi:10.1016/j.jpdc.2008.09.002).
    """
    name = f"ring {collective}"
    if collective in ("broadcast", "reduce"):
        # Along the chain of ranks that starts or ends at the root, piece j makes hop h in round h + j.
        hop, piece = np.divmod(np.arange((ranks - 1) * pieces), pieces)
        src = (root + hop + (collective == "reduce")) % ranks
        part = rows(hop + piece, src, (src + 1) % ranks, piece, reduce=collective == "reduce")
        return assemble(name, layout(collective, ranks, elements, pieces, root), [part])
    parts = []
    step, rank = np.divmod(np.arange((ranks - 1) * ranks), ranks)
    to, first = (rank + 1) % ranks, 0
    if collective != "all-gather":
        share = (rank - 1 - step) % ranks
        parts.append(rows(step, rank, to, share * pieces, count=pieces, reduce=True))
        first = ranks - 1
    if collective != "reduce-scatter":
        share = (rank - step) % ranks
        parts.append(rows(first + step, rank, to, share * pieces, count=pieces))
    chunks = ranks * pieces if collective == "all-reduce" else pieces
    return assemble(name, layout(collective, ranks, elements, chunks), parts)


def bidirectional_ring(collective: str, ranks: int, elements: int, pieces: int = 1) -> Schedule:
    """All-gather, reduce-scatter or all-reduce in which a share travels both ways around at once.

    Parameters
    ----------
    collective : str
    ranks, elements : int
        See `wavefabric.collectives.conditions.layout`.
    pieces : int
        Chunks of a rank's share. Of an even number of ranks the one opposite is reached both ways, by half
        of the pieces each; one piece goes up.

    Returns
    -------
    Schedule
        Of ⌈(N − 1)/2⌉ rounds (all-gather, reduce-scatter) or twice as many. What reaches the owner of a
        share from below goes to ``scratch`` and is added after what comes from above: every rank ends an
        all-reduce with the same bits.
    """
    parts, sizes = [], None
    chunks = ranks * pieces if collective == "all-reduce" else pieces
    conditions = layout(collective, ranks, elements, chunks)
    step, rank, direction, lowest, count = _both_ways(ranks, pieces)
    share = (rank - direction * step) % ranks
    last, first = ranks // 2 - 1, 0
    if collective != "all-gather":
        # The all-gather backwards in time, from the receivers to the senders.
        chunk = share * pieces + lowest
        home = (step == 0) & (direction < 0)
        target = np.where(home, lowest, chunk)
        src = (rank + direction) % ranks
        parts.append(rows(last - step, src, rank, chunk, target, count, buffers=(0, home * 1), reduce=~home))
        own = np.arange(ranks)
        first = last + 1
        if home.any():
            n, skip = int(count[home][0]), int(lowest[home][0])
            parts.append(rows(first, own, own, skip, own * pieces + skip, n, buffers=(1, 0), reduce=True))
            first += 1
        held = own[:, None] * pieces + np.arange(pieces)
        sizes = np.where(
            np.arange(pieces) >= lowest[home].min(initial=pieces), conditions.sizes[0][own[:, None], held], 0
        )
    if collective != "reduce-scatter":
        parts.append(
            rows(first + step, rank, (rank + direction) % ranks, share * pieces + lowest, count=count)
        )
    return assemble(f"bidirectional-ring {collective}", conditions, parts, sizes)


def _both_ways(ranks: int, pieces: int) -> tuple[np.ndarray, ...]:
    """Step, sender, direction, lowest piece and number of pieces of what an all-gather sends."""
    whole_steps = (ranks - 1) // 2
    up, down = pieces - pieces // 2, pieces // 2
    table = [(t, d, 0, pieces) for t in range(whole_steps) for d in (1, -1)]
    if ranks % 2 == 0:
        table += [(whole_steps, 1, 0, up), (whole_steps, -1, up, down)]
    step, direction, lowest, count = np.array([row for row in table if row[3]], int).reshape(-1, 4).T
    rank = np.tile(np.arange(ranks), step.size)
    return tuple(np.repeat(a, ranks) if a is not rank else a for a in (step, rank, direction, lowest, count))
