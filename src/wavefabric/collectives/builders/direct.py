"""Between all pairs of ranks: at once, or one pair after the other."""

from __future__ import annotations

import numpy as np

from wavefabric.collectives.builders.recursive import in_order, recursive, recursive_exchange
from wavefabric.collectives.builders.rows import assemble, rows
from wavefabric.collectives.conditions import layout
from wavefabric.collectives.schedule import Schedule


def direct(collective: str, ranks: int, elements: int, pieces: int = 1, root: int = 0) -> Schedule:
    """Any collective operation in one round of communication, from who has it to who wants it.

    Parameters
    ----------
    collective : str
        Of `wavefabric.collectives.conditions.COLLECTIVES`.
    ranks, elements, pieces, root : int
        See `wavefabric.collectives.conditions.layout`; of an all-reduce `pieces` are chunks of the array.

    Returns
    -------
    Schedule
        Sums are taken in rank order, in ``scratch``, in rounds of local transfers: every rank ends an
        all-reduce with the bits of ((x₀ + x₁) + x₂) + …, and so do the owners of a reduce or reduce-scatter.
    """
    name = f"direct {collective}"
    if collective == "all-reduce":
        return recursive_exchange(ranks, elements, pieces, name=name, groups=(ranks,))
    if collective in ("all-gather", "reduce-scatter"):
        return recursive(collective, ranks, elements, pieces, name=name, groups=(ranks,))
    conditions = layout(collective, ranks, elements, pieces, root)
    if collective == "all-to-all":
        ahead, src = np.divmod(np.arange(ranks * ranks), ranks)
        return assemble(name, conditions, [_exchanged(0, src, (src + ahead) % ranks, pieces)])
    other = (root + 1 + np.arange(ranks - 1)) % ranks
    if collective == "broadcast":
        return assemble(name, conditions, [rows(0, root, other, 0, count=pieces)])
    if collective == "gather":
        return assemble(name, conditions, [rows(0, other, root, other * pieces, count=pieces)])
    if collective == "scatter":
        return assemble(name, conditions, [rows(0, root, other, other * pieces, count=pieces)])
    slot = np.where(other < root, other, other - 1)
    parts = [rows(0, other, root, 0, slot * pieces, pieces, buffers=(0, 1))]
    me = np.array([root])
    parts += in_order(1, me, me, ranks, 0, 0, pieces)
    scratch = np.zeros((ranks, (ranks - 1) * pieces), np.int64)
    scratch[root] = np.tile(conditions.sizes[0][root], ranks - 1)
    return assemble(name, conditions, parts, scratch)


def pairwise(collective: str, ranks: int, elements: int, pieces: int = 1) -> Schedule:
    """All-to-all, reduce-scatter or all-gather in which a rank sends to one and hears from one in a round.

    Parameters
    ----------
    collective : str
    ranks, elements, pieces : int
        See `wavefabric.collectives.conditions.layout`.

    Returns
    -------
    Schedule
        Of N − 1 rounds. In round k rank r sends to rank r XOR k if the number of ranks is a power of two, so
        that two ranks exchange, and to rank r + k otherwise. An arrival is added at once: a chunk's sum
        starts at its owner.
    """
    name = f"pairwise {collective}"
    step, rank = np.divmod(np.arange((ranks - 1) * ranks), ranks)
    peer = rank ^ (step + 1) if ranks & (ranks - 1) == 0 else (rank + step + 1) % ranks
    conditions = layout(collective, ranks, elements, pieces)
    if collective == "all-to-all":
        own = np.arange(ranks)
        parts = [_exchanged(step, rank, peer, pieces), _exchanged(0, own, own, pieces)]
    elif collective == "all-gather":
        parts = [rows(step, rank, peer, rank * pieces, count=pieces)]
    else:
        parts = [rows(step, rank, peer, peer * pieces, count=pieces, reduce=True)]
    return assemble(name, conditions, parts)


def _exchanged(step, src, dst, pieces: int) -> np.ndarray:
    return rows(step, src, dst, dst * pieces, src * pieces, pieces, buffers=(0, 1))
