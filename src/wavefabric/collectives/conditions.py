"""What the named collective operations start from and end with, and which of them a schedule performs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from wavefabric.collectives.arguments import MOST_CHUNKS, MOST_RANKS
from wavefabric.collectives.schedule import Holdings, Schedule, cached
from wavefabric.errors import InputError, not_one_of
from wavefabric.quantities import whole

#: Where the array lies: a share on each rank, whole on each, or whole on the root.
_PART, _EACH, _ROOT = range(3)
_WHERE = {
    "all-gather": (_PART, _EACH),
    "reduce-scatter": (_EACH, _PART),
    "all-reduce": (_EACH, _EACH),
    "all-to-all": (_EACH, _EACH),
    "broadcast": (_ROOT, _EACH),
    "reduce": (_EACH, _ROOT),
    "gather": (_PART, _ROOT),
    "scatter": (_ROOT, _PART),
}
#: Collective operations by name; `layout` says what each means.
COLLECTIVES = tuple(_WHERE)
ROOTED = tuple(name for name, where in _WHERE.items() if _ROOT in where)
#: Collectives whose array is cut into a share for each rank.
CUT_BY_RANK = tuple(name for name, where in _WHERE.items() if _PART in where or name == "all-to-all")


@dataclass(frozen=True, eq=False)
class Layout:
    """Buffers of a collective operation, and what they hold before and after; fields as of `Schedule`."""

    ranks: int
    buffers: tuple[str, ...]
    sizes: tuple[np.ndarray, ...]
    pre: Holdings = field(repr=False)
    post: Holdings = field(repr=False)


def layout(collective: str, ranks: int, elements: int | np.ndarray, pieces: int = 1, root: int = 0) -> Layout:
    """Buffers and conditions of a collective operation, of `COLLECTIVES`.

    ``elements`` counts the whole array: what all ranks together hold after an all-gather, gather or before a
    scatter; what each rank holds before an all-reduce, reduce, reduce-scatter, all-to-all or, its root, a
    broadcast. Where the array is cut by rank it may be an array, shape (ranks,): the elements of each share.
    ``pieces``: chunks of a rank's share (all-gather, reduce-scatter, all-to-all, gather, scatter), or of the
    array (broadcast, reduce, all-reduce). ``root``: of a broadcast, reduce, gather or scatter.

    There is one buffer ``data`` in which chunks keep their place: with p pieces, chunks r p to (r + 1) p − 1
    are the share of rank r. An all-to-all has ``send`` (chunks d p … of rank r go to d) and ``recv`` (chunks
    r p … come from r). What is empty (0 elements) is left out of `pre` and `post`.
    """
    if collective not in COLLECTIVES:
        raise InputError(f"collective: {not_one_of(collective, COLLECTIVES)}")
    ranks = whole("ranks", ranks, 1)
    if not isinstance(elements, np.ndarray):
        elements = whole("elements", elements, 0)
    pieces = whole("pieces", pieces, 1)
    root = whole("root", root, 0, ranks - 1)
    each = ranks if collective in CUT_BY_RANK else 1
    if ranks > MOST_RANKS or ranks * each * pieces > MOST_CHUNKS:
        most = max(1, MOST_CHUNKS // (ranks * each))
        raise InputError(
            f"pieces: {pieces} given for {ranks} ranks; allowed: up to {MOST_RANKS} ranks "
            f"and {MOST_CHUNKS} chunks in all, so 1 to {most}"
        )
    parts = elements if isinstance(elements, np.ndarray) else _split(elements, each)
    counts = np.concatenate([_split(int(n), pieces) for n in parts])
    everybody = (1 << ranks) - 1
    sizes, conditions = [np.tile(counts, (ranks, 1))], []
    for side in (0, 1):
        held = _expected(collective, side, ranks, counts.size, pieces, root)
        if collective == "all-to-all" and side:
            sizes.append(counts[held.source].reshape(ranks, -1))
        full = counts[held.source] > 0
        columns = (column[full].tolist() for column in (held.rank, held.chunk, held.item, held.who))
        conditions.append(
            {
                (r, len(sizes) - 1, c): (item, everybody if who == _ALL else 1 << who)
                for r, c, item, who in zip(*columns, strict=True)
            }
        )
    buffers = ("send", "recv") if collective == "all-to-all" else ("data",)
    return Layout(ranks, buffers, tuple(sizes), *conditions)


def _split(elements: int, parts: int) -> np.ndarray:
    """``elements`` in ``parts`` as even as possible, larger ones first: shape (parts,), int64."""
    return elements // parts + (np.arange(parts, dtype=np.int64) < elements % parts)


@dataclass(frozen=True, eq=False)
class _Held:
    """Chunks held before or after, as columns in the order of rank and chunk.

    ``who``: the rank whose contribution it is alone, `_ALL` of all ranks, `_SOME` of others. ``source``: the
    chunk of the whole array that is as long, of what is expected. ``buffer``: None if there are several.
    """

    rank: np.ndarray
    chunk: np.ndarray
    item: np.ndarray
    who: np.ndarray
    source: np.ndarray
    buffer: int | None = 0


_ALL, _SOME = -1, -2


def _expected(collective: str, side: int, n: int, chunks: int, pieces: int, root: int) -> _Held:
    """What `layout` says is held before (side 0) or after (1), empty chunks included."""
    where, at = _WHERE[collective], _WHERE[collective][side]
    chunk = np.arange(chunks)
    if at == _EACH:
        rank, chunk = np.repeat(np.arange(n), chunks), np.tile(chunk, n)
    else:
        rank = chunk // pieces if at == _PART else np.full(chunks, root)
    if collective == "all-to-all":
        # What lies after at the place of rank r's share is r's chunk for this rank.
        who = chunk // pieces if side else rank
        source = rank * pieces + chunk % pieces if side else chunk
        return _Held(rank, chunk, who * chunks + source, who, source)
    if where[0] == _EACH:  # a sum
        who = np.full(rank.size, _ALL if n > 1 else 0) if side else rank
    else:
        who = np.full(rank.size, root) if where[0] == _ROOT else chunk // pieces
    return _Held(rank, chunk, chunk, who, chunk)


@dataclass(frozen=True, eq=False)
class Operation:
    """The collective operation that a schedule performs: of `COLLECTIVES`, or ``"custom"``.

    ``root`` of a broadcast, reduce, gather or scatter. ``before``, ``after``: buffers of what is held; −1 of
    a custom operation, which may use any. ``counts``: elements of the chunks of the whole array, as `layout`
    cuts it; of a custom operation, of each item.
    """

    collective: str
    root: int | None
    before: int
    after: int
    counts: np.ndarray

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
    return int(operation(schedule).counts.sum())


@cached
def operation(schedule: Schedule) -> Operation:
    """The collective operation of a schedule, recognised from what is held before and after.

    Each may lie in any one buffer. In another buffer than before, a rank's share may lie in its place in the
    array or at the buffer's beginning. Names of items do not matter, nor do further buffers.
    """
    pre, post = ends = [_columns(schedule, held) for held in (schedule.pre, schedule.post)]
    if pre.buffer is not None and post.buffer is not None:
        for collective in COLLECTIVES:
            for root, compact in _variants(collective, pre, post):
                counts = _counts(collective, root, compact, schedule, ends)
                if counts is not None:
                    kept = root if collective in ROOTED else None
                    return Operation(collective, kept, pre.buffer, post.buffer, counts)
    items = {item: schedule.sizes[b][r, c] for (r, b, c), (item, _) in schedule.pre.items()}
    return Operation("custom", None, -1, -1, np.array(list(items.values()), np.int64))


def _columns(schedule: Schedule, held: Holdings) -> _Held:
    rank, buffer, chunk = np.fromiter(chain.from_iterable(held), np.int64, 3 * len(held)).reshape(-1, 3).T
    who = {(1 << schedule.ranks) - 1: _ALL} | {1 << r: r for r in range(schedule.ranks)}
    order = np.lexsort((chunk, rank))
    origins = np.array([who.get(origins, _SOME) for _, origins in held.values()], np.int64)
    item = np.array([item for item, _ in held.values()], np.int64)
    first = int(buffer[0]) if held else 0
    columns = (column[order] for column in (rank, chunk, item, origins, chunk))
    return _Held(*columns, buffer=None if (buffer != first).any() else first)


def _variants(collective: str, pre: _Held, post: _Held) -> Iterator[tuple[int, bool]]:
    """Root, and whether shares lie at the beginning of their buffers."""
    root = 0
    if collective in ROOTED:
        ranks = (pre if _WHERE[collective][0] == _ROOT else post).rank
        if not ranks.size or ranks[0] != ranks[-1]:
            return
        root = int(ranks[0])
    yield root, False
    if _PART in _WHERE[collective] and pre.buffer != post.buffer:
        yield root, True


def _counts(
    collective: str, root: int, compact: bool, schedule: Schedule, ends: Sequence[_Held]
) -> np.ndarray | None:
    """Elements of the chunks of the array, if conditions are those of this collective; else None."""
    n, where = schedule.ranks, _WHERE[collective]
    tables = [schedule.sizes[held.buffer or 0] for held in ends]
    chunks = min(table.shape[1] for table, at in zip(tables, where, strict=True) if at != _PART)
    pieces, rest = divmod(chunks, n) if collective in CUT_BY_RANK else (chunks, 0)
    if rest or not pieces:
        return None
    whole = 0 if where[0] != _PART else 1
    counts = tables[whole][root if where[whole] == _ROOT else 0, :chunks]
    names, items = [], []
    for side, (table, held, at) in enumerate(zip(tables, ends, where, strict=True)):
        if held.rank.size > (chunks if at != _EACH else n * chunks):
            return None
        expected = _expected(collective, side, n, chunks, pieces, root)
        position = expected.chunk % pieces if at == _PART and compact else expected.chunk
        if position.max() >= table.shape[1]:
            return None
        size = table[expected.rank, position]
        full = np.flatnonzero(size)
        if full.size != held.rank.size or (size != counts[expected.source]).any():
            return None
        pairs = ((held.rank, expected.rank), (held.chunk, position), (held.who, expected.who))
        if any((column != wanted[full]).any() for column, wanted in pairs):
            return None
        names.append(expected.item[full])
        items.append(held.item)
    return counts if _one_to_one(np.concatenate(names), np.concatenate(items)) else None


def _one_to_one(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether equal entries of one go with equal entries of the other."""
    (first, a), (second, b) = (np.unique(each, return_inverse=True) for each in (a, b))
    return first.size == second.size == np.unique(a * second.size + b).size
