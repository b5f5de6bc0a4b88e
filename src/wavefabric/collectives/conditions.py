"""What the named collective operations start from and end with, and which of them a schedule performs."""

from dataclasses import dataclass, field

import numpy as np

from wavefabric.collectives.arguments import MOST_CHUNKS, MOST_RANKS
from wavefabric.collectives.schedule import Holdings, Schedule, cached
from wavefabric.errors import choice, require
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
    choice("collective", collective, COLLECTIVES)
    ranks = whole("ranks", ranks, 1)
    if not isinstance(elements, np.ndarray):
        elements = whole("elements", elements, 0)
    pieces = whole("pieces", pieces, 1)
    root = whole("root", root, 0, ranks - 1)
    each = ranks if collective in CUT_BY_RANK else 1
    most = max(1, MOST_CHUNKS // (ranks * each))
    allowed = f"up to {MOST_RANKS} ranks and {MOST_CHUNKS} chunks in all, so 1 to {most}"
    right = ranks <= MOST_RANKS and ranks * each * pieces <= MOST_CHUNKS
    require(right, "pieces", f"{pieces} given for {ranks} ranks", allowed)
    parts = elements if isinstance(elements, np.ndarray) else _split(elements, each)
    counts = np.concatenate([_split(int(n), pieces) for n in parts])
    return _laid_out(collective, ranks, counts, pieces, root)


def _laid_out(collective: str, ranks: int, counts: np.ndarray, pieces: int, root: int) -> Layout:
    """The layout of an array whose chunks have so many elements."""
    where, sizes, conditions = _WHERE[collective], [np.tile(counts, (ranks, 1))], []
    masks = [*(1 << rank for rank in range(ranks)), (1 << ranks) - 1]
    for side, at in enumerate(where):
        rank, chunk = _positions(at, ranks, counts.size, pieces, root)
        item = source = chunk
        if collective == "all-to-all":
            # What lies after at the place of rank r's share is r's chunk for this rank.
            who = chunk // pieces if side else rank
            source = rank * pieces + chunk % pieces if side else chunk
            item = who * counts.size + source
            sizes += [counts[source].reshape(ranks, -1)] * side
        elif where[0] == _EACH:  # a sum
            who = np.full(rank.size, ranks) if side else rank
        else:
            who = np.full(rank.size, root) if where[0] == _ROOT else chunk // pieces
        full = counts[source] > 0
        columns = (column[full].tolist() for column in (rank, chunk, item, who))
        held = {(r, len(sizes) - 1, c): (i, masks[w]) for r, c, i, w in zip(*columns, strict=True)}
        conditions.append(held)
    buffers = ("send", "recv") if collective == "all-to-all" else ("data",)
    return Layout(ranks, buffers, tuple(sizes), *conditions)


def _positions(at: int, ranks: int, chunks: int, pieces: int, root: int) -> tuple[np.ndarray, np.ndarray]:
    """Ranks and chunks at which an array lies, chunks without elements too."""
    chunk = np.arange(chunks)
    if at == _EACH:
        return np.repeat(np.arange(ranks), chunks), np.tile(chunk, ranks)
    return chunk // pieces if at == _PART else np.full(chunks, root), chunk


def _split(elements: int, parts: int) -> np.ndarray:
    """``elements`` in ``parts`` as even as possible, larger ones first: shape (parts,), int64."""
    return elements // parts + (np.arange(parts, dtype=np.int64) < elements % parts)


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
    buffers = [{buffer for _, buffer, _ in held} for held in (schedule.pre, schedule.post)]
    if max(map(len, buffers)) < 2:
        before, after = (min(each, default=0) for each in buffers)
        for collective, where in _WHERE.items():
            for compact in (False, True)[: 1 + (_PART in where and before != after)]:
                performed = _array(collective, compact, schedule, (before, after))
                if performed is not None:
                    root, counts = performed
                    return Operation(collective, root if _ROOT in where else None, before, after, counts)
    items = {item: schedule.sizes[b][r, c] for (r, b, c), (item, _) in schedule.pre.items()}
    return Operation("custom", None, -1, -1, np.array(list(items.values()), np.int64))


def _array(
    collective: str, compact: bool, schedule: Schedule, buffers: tuple[int, int]
) -> tuple[int, np.ndarray] | None:
    """Root, and elements of the chunks of the array, if conditions are those of this collective; else None.

    ``compact``: shares lie at the beginning of their buffer.
    """
    n, where, ends, root = schedule.ranks, _WHERE[collective], (schedule.pre, schedule.post), 0
    if _ROOT in where:
        roots = {rank for rank, _, _ in ends[where.index(_ROOT)]}
        if len(roots) != 1:
            return None
        root = roots.pop()
    tables = [schedule.sizes[buffer] for buffer in buffers]
    chunks = min(table.shape[1] for table, at in zip(tables, where, strict=True) if at != _PART)
    pieces, rest = divmod(chunks, n) if collective in CUT_BY_RANK else (chunks, 0)
    if rest or not pieces:
        return None
    whole = 0 if where[0] != _PART else 1
    counts = tables[whole][root if where[whole] == _ROOT else 0, :chunks]
    full = np.count_nonzero(counts)
    if any(len(held) != full * (n if at == _EACH else 1) for held, at in zip(ends, where, strict=True)):
        return None
    expected, items = _laid_out(collective, n, counts, pieces, root), set()
    widths = [pieces if at == _PART and compact else chunks for at in where]
    for side, (table, width, at) in enumerate(zip(tables, widths, where, strict=True)):
        rank, chunk = _positions(at, n, chunks, pieces, root)
        if (chunk % width).max() >= table.shape[1]:
            return None
        if (table[rank, chunk % width] != expected.sizes[-side][rank, chunk]).any():
            return None
    if (expected.pre, expected.post) == ends:
        return root, counts
    for wanted, held, buffer, width in zip((expected.pre, expected.post), ends, buffers, widths, strict=True):
        for (r, _, c), (item, origins) in wanted.items():
            there = held.get((r, buffer, c % width))
            if there is None or there[1] != origins:
                return None
            items.add((item, there[0]))
    # Names of items go with one another.
    one_to_one = all(len(set(names)) == len(items) for names in zip(*items, strict=True))
    return (root, counts) if one_to_one else None
