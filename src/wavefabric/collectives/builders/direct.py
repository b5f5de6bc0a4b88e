"""Build schedules in which all pairs of ranks communicate directly: at once, or pair by pair."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from wavefabric.collectives.builders.recursive import recursive, recursive_exchange, sums_in_order
from wavefabric.collectives.builders.transfers import assemble, transfers
from wavefabric.collectives.conditions import layout
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.sizes import element_counts


def direct_all_gather(sizes: Iterable[int]) -> Schedule:
    """Build an all-gather of one round, the lowest latency: each rank sends to rank + 1, rank + 2, ….

    ``sizes``: elements that each rank contributes; 0 is allowed. Chunk r of ``data`` is on rank r before, and
    on all ranks afterwards. `InputError` if ``sizes`` is empty or one of them is negative.

    Examples
    --------
    >>> from wavefabric.collectives import direct_all_gather, verify
    >>> schedule = direct_all_gather([4, 0, 7])
    >>> verify(schedule)
    >>> schedule.transfers[["src", "dst"]].tolist()
    [(0, 1), (2, 0), (0, 2), (2, 1)]
    """
    counts = element_counts("sizes", sizes)
    return direct("all-gather", counts.size, counts)


def direct_all_reduce(ranks: int, elements: int) -> Schedule:
    """Build an all-reduce of a small array, as ``build("direct", "all-reduce", ranks, elements)`` does."""
    return direct("all-reduce", ranks, elements)


def direct(
    collective: str, ranks: int, elements: int | np.ndarray, pieces: int = 1, root: int = 0
) -> Schedule:
    """Build any collective operation with one round of communication: ranks send to all that need their data.

    Terms of sums arrive in ``scratch``. Later rounds add them locally in rank order, ((x₀ + x₁) + x₂) + ….
    """
    name = f"direct {collective}"
    if collective in ("all-reduce", "all-gather", "reduce-scatter"):
        by = recursive_exchange if collective == "all-reduce" else recursive
        return replace(by(collective, ranks, elements, pieces, groups=(ranks,)), name=name)
    conditions = layout(collective, ranks, elements, pieces, root)
    other = (root + 1 + np.arange(ranks - 1)) % ranks
    scratch = None
    if collective == "all-to-all":
        ahead, src = np.divmod(np.arange(ranks * ranks), ranks)
        parts = [_sent_and_received(0, src, (src + ahead) % ranks, pieces)]
    elif collective == "reduce":
        slot, at_root = np.where(other < root, other, other - 1), np.array([root])
        parts = [transfers(0, other, root, 0, slot * pieces, count=pieces, buffers=(0, 1))]
        parts += sums_in_order(1, at_root, at_root, ranks, 0, 0, pieces)
        scratch = np.zeros((ranks, (ranks - 1) * pieces), np.int64)
        scratch[root] = np.tile(conditions.sizes[0][root], ranks - 1)
    else:
        ends = (other, root) if collective == "gather" else (root, other)
        chunk = 0 if collective == "broadcast" else other * pieces
        parts = [transfers(0, *ends, chunk, count=pieces)]
    return assemble(name, conditions, parts, scratch)


def pairwise(collective: str, ranks: int, elements: int, pieces: int = 1) -> Schedule:
    """Build an all-to-all, reduce-scatter or all-gather in which a rank sends to one rank per round.

    There are N − 1 rounds. In round k from 1 rank r sends to r XOR k if N is a power of two, else to r + k.
    Terms of sums are added on receipt, so the sum of a chunk starts with the part of the chunk's owner.
    """
    step, rank = np.divmod(np.arange((ranks - 1) * ranks), ranks)
    peer = rank ^ (step + 1) if ranks & (ranks - 1) == 0 else (rank + step + 1) % ranks
    if collective == "all-to-all":
        own = np.arange(ranks)
        parts = [_sent_and_received(step, rank, peer, pieces), _sent_and_received(0, own, own, pieces)]
    elif collective == "all-gather":
        parts = [transfers(step, rank, peer, rank * pieces, count=pieces)]
    else:
        parts = [transfers(step, rank, peer, peer * pieces, count=pieces, reduce=True)]
    return assemble(f"pairwise {collective}", layout(collective, ranks, elements, pieces), parts)


def _sent_and_received(step, src, dst, pieces: int) -> np.ndarray:
    return transfers(step, src, dst, dst * pieces, src * pieces, count=pieces, buffers=(0, 1))
