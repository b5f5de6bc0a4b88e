"""Recursive doubling and halving, and their like for any radix and for products of several factors."""

from __future__ import annotations

from functools import cache

import numpy as np

from wavefabric.collectives.builders.rows import assemble, rows
from wavefabric.collectives.conditions import layout
from wavefabric.collectives.schedule import Schedule


@cache
def factors(ranks: int, radix: int) -> tuple[int, ...] | None:
    """As few factors as possible of `ranks`, each at most `radix`, of the least sum; largest first.

    None if a prime factor exceeds the radix. 128 at radix 4 is 4·4·4·2, 12 at radix 6 is 4·3.
    """
    if ranks == 1:
        return ()
    found = []
    for factor in range(min(radix, ranks), 1, -1):
        rest = factors(ranks // factor, radix) if ranks % factor == 0 else None
        if rest is not None:
            found.append(tuple(sorted((factor, *rest), reverse=True)))
    return min(found, key=lambda f: (len(f), sum(f), f), default=None)


def recursive(
    collective: str,
    ranks: int,
    elements: int,
    pieces: int = 1,
    radix: int = 2,
    *,
    name: str | None = None,
    groups: tuple[int, ...] | None = None,
) -> Schedule:
    """All-gather, reduce-scatter or all-reduce in groups of at most `radix` ranks, groups of groups, ….

    The all-gather exchanges all that is held with ranks at growing distances; the reduce-scatter keeps a
    block and sends the others, at shrinking ones. What goes to a peer is always one contiguous block.

    Parameters
    ----------
    collective : str
    ranks, elements : int
        See `wavefabric.collectives.conditions.layout`.
    pieces : int
        Chunks of a rank's share, all of which move together.
    radix : int
        At least the largest prime factor of `ranks`.
    name : str, optional
    groups : tuple of int, optional
        Factors of `ranks`, `factors` by default: the first is the number of neighbours.

    Returns
    -------
    Schedule
        With k `factors`: k rounds of communication (all-gather, reduce-scatter) or 2 k (all-reduce). In a
        group of more than two, arrivals go to ``scratch`` and are added in the order of the ranks of the
        group. Every rank ends an all-reduce with the same bits.

    Notes
    -----
    Every rank sends (N − 1)/N of the array at any radix, twice that in an all-reduce (Thakur, Rabenseifner
    & Gropp 2005, doi:10.1177/1094342005051521).
    """
    parts, sizes, first = [], None, 0
    chunks = ranks * pieces if collective == "all-reduce" else pieces
    conditions = layout(collective, ranks, elements, chunks)
    groups = (factors(ranks, radix) or ()) if groups is None else groups
    if collective != "all-gather":
        parts, sizes, first = _dividing(conditions.sizes[0], pieces, groups)
    if collective != "reduce-scatter":
        parts += _multiplying(ranks, pieces, groups, first)
    return assemble(name or f"recursive {collective}, radix {radix}", conditions, parts, sizes)


def recursive_exchange(
    ranks: int,
    elements: int,
    pieces: int = 1,
    radix: int = 2,
    *,
    name: str | None = None,
    groups: tuple[int, ...] | None = None,
    order: np.ndarray | None = None,
) -> Schedule:
    """All-reduce in which groups of at most `radix` ranks, groups of groups, … exchange whole arrays.

    Parameters
    ----------
    ranks, elements : int
    pieces : int
        Chunks of the array, all of which move together.
    radix : int
        At least the largest prime factor of `ranks`.
    name : str, optional
    groups : tuple of int, optional
        Factors of `ranks`, `factors` by default: the first is the number of neighbours that begin.
    order : ndarray of int, shape (ranks,), optional
        Rank that takes each place; place = rank by default.

    Returns
    -------
    Schedule
        One round of communication for each group. Arrivals go to ``scratch``; all members of a group add
        in the order of their places, a + b = b + a being exact, so all ranks end with the same bits.
    """
    conditions = layout("all-reduce", ranks, elements, pieces)
    groups = (factors(ranks, radix) or ()) if groups is None else groups
    order = np.arange(ranks) if order is None else order
    place, parts, first, stride = np.arange(ranks), [], 0, 1
    for factor in groups:
        digit = place // stride % factor
        for ahead in range(1, factor):
            to = (digit + ahead) % factor
            peer = place + (to - digit) * stride
            slot = np.where(digit < to, digit, digit - 1)
            parts.append(rows(first, order, order[peer], 0, slot * pieces, pieces, buffers=(0, 1)))
        parts += in_order(first + 1, order, digit, factor, 0, 0, pieces)
        first += factor
        stride *= factor
    slots = max(groups, default=1) - 1
    sizes = np.tile(conditions.sizes[0], (1, slots))
    return assemble(
        name or f"recursive-exchange all-reduce, radix {radix}", conditions, parts, sizes if slots else None
    )


def in_order(first: int, rank, digit, factor: int, base: int, chunk, count: int) -> list[np.ndarray]:
    """Local sums x₀ + x₁ + … + x_(f−1) of what a group's members sent, one more a round.

    Parameters
    ----------
    first : int
        Round of the first sum.
    rank, digit : array of int
        Ranks, and their places in their groups, whose own x is in ``data``. Buffer 1 has the others in the
        order of their places.
    factor : int
        Ranks f of a group.
    base, chunk : int or array
        First chunk in buffer 1, and in ``data``.
    count : int
        Chunks of each x.

    Returns
    -------
    list of ndarray of `TRANSFER`
        The ones before x_d are added up in buffer 1, the sum is added to x_d, and then the others are.
    """
    parts = []
    for t in range(factor - 1):
        beyond = t + 1 >= digit
        # The slot of place e is e before one's own and e − 1 behind it.
        slot = np.where(t + 1 < digit, t + 1, np.where(t + 1 == digit, 0, t))
        target = np.where(beyond, chunk, base)
        parts.append(
            rows(
                first + t,
                rank,
                rank,
                base + slot * count,
                target,
                count,
                buffers=(1, np.where(beyond, 0, 1)),
                reduce=True,
            )
        )
    return parts


def _multiplying(ranks: int, pieces: int, groups: tuple[int, ...], first: int) -> list[np.ndarray]:
    """All-gather: before a round with stride s a rank holds the s shares of its block of s ranks."""
    rank, parts, stride = np.arange(ranks), [], 1
    for number, factor in enumerate(groups):
        digit = rank // stride % factor
        for ahead in range(1, factor):
            peer = rank + ((digit + ahead) % factor - digit) * stride
            held = rank // stride * stride * pieces
            parts.append(rows(first + number, rank, peer, held, count=stride * pieces))
        stride *= factor
    return parts


def _dividing(
    sizes: np.ndarray, pieces: int, groups: tuple[int, ...]
) -> tuple[list[np.ndarray], np.ndarray | None, int]:
    """Reduce-scatter: transfers, sizes of ``scratch``, rounds. The all-gather backwards."""
    ranks = len(sizes)
    rank, parts, scratch, first, base = np.arange(ranks), [], [], 0, 0
    stride = ranks
    for factor in reversed(groups):
        stride //= factor
        digit = rank // stride % factor
        block = rank // stride * stride  # of shares, which the rank keeps
        count = stride * pieces
        for ahead in range(1, factor):
            to = (digit + ahead) % factor
            peer = rank + (to - digit) * stride
            sent = block[peer] * pieces
            if factor == 2:
                parts.append(rows(first, rank, peer, sent, count=count, reduce=True))
            else:
                slot = base + np.where(digit < to, digit, digit - 1) * count
                parts.append(rows(first, rank, peer, sent, slot, count, buffers=(0, 1)))
        first += 1
        if factor > 2:
            parts += in_order(first, rank, digit, factor, base, block * pieces, count)
            kept = sizes[rank[:, None], block[:, None] * pieces + np.arange(count)]
            scratch += [kept] * (factor - 1)
            base += (factor - 1) * count
            first += factor - 1
    return parts, np.concatenate(scratch, axis=1) if scratch else None, first
