"""What the named collective operations start from and end with, and which of them a schedule performs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from wavefabric.collectives.arguments import MOST_CHUNKS, MOST_RANKS, whole
from wavefabric.collectives.schedule import Holdings, Schedule, cached
from wavefabric.errors import InputError

#: Where the array lies: a share on each rank, whole on each, or whole on the root.
_SHARE, _EACH, _ROOT = range(3)
_WHERE = {
    "all-gather": (_SHARE, _EACH),
    "reduce-scatter": (_EACH, _SHARE),
    "all-reduce": (_EACH, _EACH),
    "all-to-all": (_EACH, _EACH),
    "broadcast": (_ROOT, _EACH),
    "reduce": (_EACH, _ROOT),
    "gather": (_SHARE, _ROOT),
    "scatter": (_ROOT, _SHARE),
}
#: Collective operations by name; `layout` says what each means.
COLLECTIVES = tuple(_WHERE)
ROOTED = tuple(name for name, where in _WHERE.items() if _ROOT in where)
#: Collectives whose array is cut into a share for each rank.
CUT_BY_RANK = tuple(name for name, where in _WHERE.items() if _SHARE in where or name == "all-to-all")


@dataclass(frozen=True, eq=False)
class Layout:
    """Buffers of a collective operation, and what they hold before and after.

    Parameters
    ----------
    ranks : int
    buffers : tuple of str
    sizes : tuple of ndarray of int64, one a buffer, shape (ranks, chunks)
    pre, post : dict
        See `wavefabric.collectives.schedule.Holdings`.
    """

    ranks: int
    buffers: tuple[str, ...]
    sizes: tuple[np.ndarray, ...]
    pre: Holdings = field(repr=False)
    post: Holdings = field(repr=False)


def layout(collective: str, ranks: int, elements: int | np.ndarray, pieces: int = 1, root: int = 0) -> Layout:
    """Buffers and conditions of a collective operation.

    Parameters
    ----------
    collective : str
        Of `COLLECTIVES`.
    ranks : int
    elements : int
        Of the whole array: what all ranks together hold after an all-gather, gather or before a scatter; what
        each rank holds before an all-reduce, reduce, reduce-scatter, all-to-all or, its root, a broadcast.
        Where the array is cut by rank also an array, shape (ranks,): the elements of each share.
    pieces : int
        Chunks of a rank's share (all-gather, reduce-scatter, all-to-all, gather, scatter), or of the array
        (broadcast, reduce, all-reduce).
    root : int
        Of a broadcast, reduce, gather or scatter.

    Returns
    -------
    Layout
        One buffer ``data`` in which chunks keep their place: with p pieces, chunks r p to (r + 1) p − 1 are
        the share of rank r. An all-to-all has ``send`` (chunks d p … of rank r go to d) and ``recv`` (chunks
        r p … come from r). What is empty (0 elements) is left out of `pre` and `post`.

    Raises
    ------
    InputError
        For an unknown collective, or numbers out of range.
    """
    if collective not in COLLECTIVES:
        raise InputError(f"collective: {collective!r} given; allowed: {', '.join(COLLECTIVES)}")
    ranks = whole("ranks", ranks, 1)
    if not isinstance(elements, np.ndarray):
        elements = whole("elements", elements, 0)
    pieces = whole("pieces", pieces, 1)
    root = whole("root", root, 0, ranks - 1)
    cut = collective in CUT_BY_RANK
    each = ranks if cut else 1
    if ranks > MOST_RANKS or ranks * each * pieces > MOST_CHUNKS:
        most = max(1, MOST_CHUNKS // (ranks * each))
        raise InputError(
            f"pieces: {pieces} given for {ranks} ranks; allowed: up to {MOST_RANKS} ranks "
            f"and {MOST_CHUNKS} chunks in all, so 1 to {most}"
        )
    shares = elements if isinstance(elements, np.ndarray) else _split(elements, each)
    counts = np.concatenate([_split(int(n), pieces) for n in shares])
    if collective == "all-to-all":
        return _all_to_all(ranks, pieces, counts)
    chunks = [int(c) for c in np.flatnonzero(counts)]
    before, after = _WHERE[collective]
    everybody = (1 << ranks) - 1

    def held(where: int, origins: dict[int, int] | None) -> Holdings:
        """Chunk c is item c; `origins` of each chunk, or None: a part of a sum, of the rank itself."""
        owners = {_SHARE: lambda c: (c // pieces,), _EACH: lambda c: range(ranks), _ROOT: lambda c: (root,)}
        by_rank = ((r, c) for c in chunks for r in owners[where](c))
        return {(r, 0, c): (c, origins[c] if origins else 1 << r) for r, c in sorted(by_rank)}

    if before == _EACH:  # sums
        pre, post = held(before, None), held(after, dict.fromkeys(chunks, everybody))
    else:
        origins = {c: 1 << (c // pieces if before == _SHARE else root) for c in chunks}
        pre, post = held(before, origins), held(after, origins)
    return Layout(ranks, ("data",), (np.tile(counts, (ranks, 1)),), pre, post)


def _split(elements: int, parts: int) -> np.ndarray:
    """``elements`` in ``parts`` as even as possible, larger ones first: shape (parts,), int64."""
    return elements // parts + (np.arange(parts, dtype=np.int64) < elements % parts)


def _all_to_all(ranks: int, pieces: int, counts: np.ndarray) -> Layout:
    """Chunk d of rank r is item r · chunks + d; what comes from r is as long as r's chunk for d."""
    chunks = ranks * pieces
    # Rank d receives from everybody the share that is d's: the same number of elements from each.
    received = np.tile(counts.reshape(ranks, 1, pieces), (1, ranks, 1)).reshape(ranks, chunks)
    pre: Holdings = {}
    post: Holdings = {}
    for chunk in np.flatnonzero(counts).tolist():
        d, p = divmod(chunk, pieces)
        for r in range(ranks):
            pre[r, 0, chunk] = post[d, 1, r * pieces + p] = r * chunks + chunk, 1 << r
    return Layout(ranks, ("send", "recv"), (np.tile(counts, (ranks, 1)), received), pre, post)


@dataclass(frozen=True, eq=False)
class Operation:
    """The collective operation that a schedule performs.

    Parameters
    ----------
    collective : str
        Of `COLLECTIVES`, or ``"custom"``.
    root : int or None
        Of a broadcast, reduce, gather or scatter.
    before, after : int
        Buffers of what is held before and after; −1 of a custom operation, which may use any.
    counts : ndarray of int64, shape (chunks,)
        Elements of the chunks of the whole array, as `layout` cuts it; of a custom operation, of each item.
    """

    collective: str
    root: int | None
    before: int
    after: int
    counts: np.ndarray

    @property
    def elements(self) -> int:
        """Of the whole array; see `whole_elements`."""
        return int(self.counts.sum())

    @property
    def in_place(self) -> bool:
        """Whether data lie in the buffers of `layout`: of all but an all-to-all, before and after in one."""
        return (self.before, self.after) == (0, int(self.collective == "all-to-all"))


def kind(schedule: Schedule) -> tuple[str, int | None]:
    """Which collective operation a schedule performs, and its root; see `operation`."""
    performed = operation(schedule)
    return performed.collective, performed.root


def whole_elements(schedule: Schedule) -> int:
    """Elements of the whole array of a schedule's operation: `elements` of `layout`.

    Of a custom operation every item that is held before counts once, on however many ranks it is (or is a
    part of a sum): all messages of a point-to-point exchange together.
    """
    return operation(schedule).elements


@cached
def operation(schedule: Schedule) -> Operation:
    """The collective operation of a schedule, recognised from what is held before and after.

    Each may lie in any one buffer. In another buffer than before, a rank's share may lie in its place in the
    array or at the buffer's beginning. Names of items do not matter, nor do further buffers.
    """
    pre, post = (_ends(schedule, held) for held in (schedule.pre, schedule.post))
    if pre is not None and post is not None:
        for collective in COLLECTIVES:
            for root, compact in _variants(collective, pre, post):
                counts = _counts(collective, root, compact, schedule, pre, post)
                if counts is not None:
                    kept = root if collective in ROOTED else None
                    return Operation(collective, kept, pre.buffer, post.buffer, counts)
    items = {item: schedule.sizes[b][r, c] for (r, b, c), (item, _) in schedule.pre.items()}
    return Operation("custom", None, -1, -1, np.array(list(items.values()), np.int64))


@dataclass(frozen=True, eq=False)
class _Ends:
    """What is held before or after, all in one buffer, in the order of rank and chunk.

    ``who``: the rank whose contribution it is alone, `_ALL` of all ranks, `_SOME` of others.
    """

    buffer: int
    rank: np.ndarray
    chunk: np.ndarray
    item: np.ndarray
    who: np.ndarray


_ALL, _SOME = -1, -2


def _ends(schedule: Schedule, held: Holdings) -> _Ends | None:
    """Conditions as columns; None if they are in several buffers."""
    rank, buffer, chunk = np.fromiter(chain.from_iterable(held), np.int64, 3 * len(held)).reshape(-1, 3).T
    if (buffer != buffer[:1]).any():
        return None
    who = {(1 << schedule.ranks) - 1: _ALL} | {1 << r: r for r in range(schedule.ranks)}
    order = np.lexsort((chunk, rank))
    origins = np.array([who.get(origins, _SOME) for _, origins in held.values()], np.int64)
    item = np.array([item for item, _ in held.values()], np.int64)
    return _Ends(int(buffer[0]) if held else 0, rank[order], chunk[order], item[order], origins[order])


def _variants(collective: str, pre: _Ends, post: _Ends) -> Iterator[tuple[int, bool]]:
    """Root, and whether shares lie at the beginning of their buffers."""
    root = 0
    if collective in ROOTED:
        ranks = (pre if _WHERE[collective][0] == _ROOT else post).rank
        if not ranks.size or ranks[0] != ranks[-1]:
            return
        root = int(ranks[0])
    yield root, False
    if _SHARE in _WHERE[collective] and pre.buffer != post.buffer:
        yield root, True


def _counts(
    collective: str, root: int, compact: bool, schedule: Schedule, pre: _Ends, post: _Ends
) -> np.ndarray | None:
    """Elements of the chunks of the array, if conditions are those of this collective; else None."""
    n, ends = schedule.ranks, (pre, post)
    where = _WHERE[collective]
    widths = [schedule.sizes[end.buffer].shape[1] for end in ends]
    chunks = min(w for w, at in zip(widths, where, strict=True) if at != _SHARE)
    pieces, rest = divmod(chunks, n) if collective in CUT_BY_RANK else (chunks, 0)
    if rest or not pieces:
        return None
    whole = 0 if where[0] != _SHARE else 1
    counts = schedule.sizes[ends[whole].buffer][root if where[whole] == _ROOT else 0, :chunks]
    names, items = [], []
    for side, (end, at) in enumerate(zip(ends, where, strict=True)):
        if end.rank.size > (chunks if at != _EACH else n * chunks):
            return None
        chunk = np.arange(chunks)
        if at == _EACH:
            rank, chunk = np.repeat(np.arange(n), chunks), np.tile(chunk, n)
        else:
            rank = chunk // pieces if at == _SHARE else np.full(chunks, root)
        position = chunk % pieces if at == _SHARE and compact else chunk
        if position.max() >= widths[side]:
            return None
        name = chunk
        if collective == "all-to-all":
            # What lies after at the position of rank r's share is r's chunk for this rank.
            src = rank if not side else chunk // pieces
            chunk = chunk if not side else rank * pieces + chunk % pieces
            who, name = src, src * chunks + chunk
        elif where[0] == _EACH:  # a sum
            who = np.full(rank.size, _ALL if n > 1 else 0) if side else rank
        else:
            who = np.full(rank.size, root) if where[0] == _ROOT else chunk // pieces
        size = schedule.sizes[end.buffer][rank, position]
        full = np.flatnonzero(size)
        if full.size != end.rank.size or (size != counts[chunk]).any():
            return None
        for held, expected in ((end.rank, rank), (end.chunk, position), (end.who, who)):
            if (held != expected[full]).any():
                return None
        names.append(name[full])
        items.append(end.item)
    return counts if _one_to_one(np.concatenate(names), np.concatenate(items)) else None


def _one_to_one(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether equal entries of one go with equal entries of the other."""
    (first, a), (second, b) = (np.unique(each, return_inverse=True) for each in (a, b))
    return first.size == second.size == np.unique(a * second.size + b).size
