"""Build recursive doubling and halving, also for radices above 2 and products of different factors."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np

from wavefabric.collectives.builders.transfers import assemble, transfers
from wavefabric.collectives.conditions import layout
from wavefabric.collectives.schedule import Schedule


@cache
def factors(ranks: int, radix: int) -> tuple[int, ...] | None:
    """Return ``ranks`` as a product of the fewest possible factors up to ``radix``, the largest factor first.

    Of several such products it is the one of smallest sum. None if a prime factor exceeds the radix. 128 at
    radix 4 is 4·4·4·2, 12 at radix 6 is 4·3.
    """
    if ranks == 1:
        return ()
    products = []
    for factor in range(min(radix, ranks), 1, -1):
        rest = factors(ranks // factor, radix) if ranks % factor == 0 else None
        if rest is not None:
            products.append(tuple(sorted((factor, *rest), reverse=True)))
    return min(products, key=lambda f: (len(f), sum(f), f), default=None)


def recursive(
    collective: str,
    ranks: int,
    elements: int | np.ndarray,
    pieces: int = 1,
    radix: int = 2,
    *,
    groups: tuple[int, ...] | None = None,
) -> Schedule:
    """Build an all-gather by recursive doubling, a reduce-scatter by halving, or both as an all-reduce.

    Ranks exchange within groups of up to ``radix`` ranks, then within groups of groups, and so on.
    ``groups``: the group sizes, by default `factors`; each takes one round of communication, two in an
    all-reduce. At any radix a rank sends (N − 1)/N of the array, twice that in an all-reduce (Thakur,
    Rabenseifner & Gropp 2005, doi:10.1177/1094342005051521).
    """
    parts, sizes, first = [], None, 0
    chunks = ranks * pieces if collective == "all-reduce" else pieces
    conditions = layout(collective, ranks, elements, chunks)
    groups = (factors(ranks, radix) or ()) if groups is None else groups
    if collective != "all-gather":
        parts, sizes, first = _reduce_scatter(conditions.sizes[0], pieces, groups)
    if collective != "reduce-scatter":
        rank = np.arange(ranks)
        for number, (_, stride, _, others) in enumerate(_exchanges(ranks, groups), first):
            # Before a round with stride s a rank has the s parts of its block of s ranks.
            held = rank // stride * stride * pieces
            for distance, _ in others:
                parts.append(transfers(number, rank, rank + distance, held, count=stride * pieces))
    return assemble(f"recursive {collective}, radix {radix}", conditions, parts, sizes)


def recursive_exchange(
    collective: str,
    ranks: int,
    elements: int | np.ndarray,
    pieces: int = 1,
    radix: int = 2,
    *,
    groups: tuple[int, ...] | None = None,
    order: np.ndarray | None = None,
) -> Schedule:
    """Build an all-reduce: groups of up to ``radix`` ranks, then groups of groups, … exchange whole arrays.

    ``groups``: group sizes, by default `factors`; each takes one round of communication. Rank ``order[i]``
    has position i; neighbouring positions form the first groups. All members of a group add in the order of
    positions, and a + b = b + a exactly, so all ranks end with the same bits.
    """
    conditions = layout(collective, ranks, elements, pieces)
    groups = (factors(ranks, radix) or ()) if groups is None else groups
    order = np.arange(ranks) if order is None else order
    position, parts, first = np.arange(ranks), [], 0
    for factor, _, digit, others in _exchanges(ranks, groups):
        for distance, slot in others:
            peer = order[position + distance]
            parts.append(transfers(first, order, peer, 0, slot * pieces, count=pieces, buffers=(0, 1)))
        parts += sums_in_order(first + 1, order, digit, factor, 0, 0, pieces)
        first += factor
    slots = max(groups, default=1) - 1
    sizes = np.tile(conditions.sizes[0], (1, slots)) if slots else None
    return assemble(f"recursive-exchange all-reduce, radix {radix}", conditions, parts, sizes)


def squares(
    collective: str, ranks: int, elements: int, pieces: int = 1, grid: tuple[int, ...] = (2, 2)
) -> Schedule:
    """Build an all-reduce on a grid whose first round is among the four ranks of each 2 × 2 square.

    In each later round neighbouring blocks of the grid form pairs, along rows and columns in turn, and equal
    ranks of the two blocks exchange whole arrays. This divide-and-conquer schedule of LUMORPH has log₂ N − 1
    rounds, and partners are near each other. Rank r is tile (r // columns, r % columns) of a grid whose sides
    are powers of two.
    """
    _, columns = grid
    steps = [columns.bit_length() - 1, ranks.bit_length() - columns.bit_length()]
    axes = [[1 << b for b in range(steps[0])], [columns << b for b in range(steps[1])]]
    weights = []
    while axes[0] or axes[1]:
        weights += [axis.pop(0) for axis in axes if axis]
    position = np.arange(ranks)
    order = sum(((position >> b & 1) * w for b, w in enumerate(weights)), np.zeros_like(position))
    groups = (4, *(2 for _ in weights[2:]))
    made = recursive_exchange(collective, ranks, elements, pieces, groups=groups, order=order)
    return replace(made, name="squares all-reduce")


def sums_in_order(first: int, rank, digit, factor: int, base: int, chunk, count: int) -> list[np.ndarray]:
    """Return the local additions with which each rank sums terms from several ranks in a fixed order.

    The sum is x₀ + … + x_(f−1), with f = ``factor`` terms of ``count`` chunks each. The term of ``rank``
    itself is x_d with d = ``digit``; it begins at chunk ``chunk`` of buffer 0 (``data``). The other terms lie
    in order in buffer 1 (``scratch``), from chunk ``base`` on. The terms before x_d are added up in buffer 1,
    their sum is added to x_d, and then each later term. ``first``: the first of the rounds.
    """
    parts = []
    for t in range(factor - 1):
        beyond = t + 1 >= digit
        # Term e is in slot e of buffer 1 before the rank's own term, and in slot e − 1 after it.
        slot = base + np.where(t + 1 < digit, t + 1, np.where(t + 1 == digit, 0, t)) * count
        target, buffers = np.where(beyond, chunk, base), (1, np.where(beyond, 0, 1))
        part = transfers(first + t, rank, rank, slot, target, count=count, buffers=buffers, reduce=True)
        parts.append(part)
    return parts


def _exchanges(ranks: int, groups: tuple[int, ...]) -> Iterator[tuple[int, int, np.ndarray, list]]:
    """Yield, for each size in ``groups``, how ranks form groups of this size: (size, stride, digit, peers).

    Members of a group are ``stride`` ranks apart. ``digit``: each rank's index in its group. ``peers`` has an
    entry for the member 1, 2, … positions ahead, cyclically, with two values per rank: the distance to that
    peer in rank numbers, and the rank's index among all members but the peer, which tells where the peer
    stores what it receives.
    """
    stride = 1
    for factor in groups:
        digit = np.arange(ranks) // stride % factor
        peers = [(digit + ahead) % factor for ahead in range(1, factor)]
        others = [((to - digit) * stride, np.where(digit < to, digit, digit - 1)) for to in peers]
        yield factor, stride, digit, others
        stride *= factor


def _reduce_scatter(
    sizes: np.ndarray, pieces: int, groups: tuple[int, ...]
) -> tuple[list[np.ndarray], np.ndarray | None, int]:
    """Return transfers, ``scratch`` sizes and number of rounds of a reduce-scatter by recursive halving.

    ``sizes`` are the elements of each chunk of ``data``, the result those of each chunk of ``scratch``: shape
    (ranks, chunks), None without scratch. ``groups``: the sizes of the groups in which ranks exchange.
    """
    ranks = len(sizes)
    rank, parts, scratch, first, base = np.arange(ranks), [], [], 0, 0
    for factor, stride, digit, others in reversed([*_exchanges(ranks, groups)]):
        block = rank // stride * stride  # first part of the block that the rank reduces
        count = stride * pieces
        for distance, slot in others:
            peer = rank + distance
            target, buffers = (None, (0, 0)) if factor == 2 else (base + slot * count, (0, 1))
            ends = first, rank, peer, block[peer] * pieces, target
            parts.append(transfers(*ends, count=count, buffers=buffers, reduce=factor == 2))
        first += 1
        if factor > 2:
            parts += sums_in_order(first, rank, digit, factor, base, block * pieces, count)
            scratch += [sizes[rank[:, None], block[:, None] * pieces + np.arange(count)]] * (factor - 1)
            base += (factor - 1) * count
            first += factor - 1
    return parts, np.concatenate(scratch, axis=1) if scratch else None, first
