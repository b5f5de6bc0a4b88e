"""Define the initial and final data of the named collectives, and recognise which one a schedule performs."""

from dataclasses import dataclass, field

import numpy as np

from wavefabric.base.arguments import whole
from wavefabric.base.errors import choice, ensure
from wavefabric.collectives.schedule import Holdings, Schedule, cached
from wavefabric.collectives.sizes import MOST_CHUNKS, MOST_RANKS

#: Where the array lies: one part on each rank, all of it on each rank, or all of it on the root.
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
#: Collectives whose array is divided into one part per rank.
CUT_BY_RANK = tuple(name for name, where in _WHERE.items() if _PART in where or name == "all-to-all")


@dataclass(frozen=True, eq=False)
class Layout:
    """Holds the buffers of a collective operation and their contents before and after; see `Schedule`."""

    ranks: int
    buffers: tuple[str, ...]
    sizes: tuple[np.ndarray, ...]
    pre: Holdings = field(repr=False)
    post: Holdings = field(repr=False)


@dataclass(frozen=True)
class ArrayCut:
    """Says how an array is cut: pieces and elements as in `layout`, None for what suits; and the root."""

    pieces: int | None = None
    elements: int | np.ndarray | None = None
    root: int = 0


def layout(collective: str, ranks: int, elements: int | np.ndarray, pieces: int = 1, root: int = 0) -> Layout:
    """Return the buffers and the initial and final conditions of a collective operation of `COLLECTIVES`.

    ``elements`` is the size of the whole array: for all-gather, gather and scatter the data of all ranks
    together; for all-reduce, reduce, reduce-scatter and all-to-all the data of each rank; for broadcast the
    data of the root. For the operations in `CUT_BY_RANK`, ``elements`` may be an array, shape (ranks,): the
    elements of each rank's part; for an all-to-all also shape (ranks, ranks): what each rank (row) sends to
    each rank, such as tokens to experts. ``pieces``: chunks per part of a rank (all-gather, reduce-scatter,
    all-to-all, gather, scatter) or per array (broadcast, reduce, all-reduce). ``root``: the root rank of a
    broadcast, reduce, gather or scatter.

    The only buffer is ``data``, in which a chunk has the same index on all ranks: with p pieces, the part of
    rank r is the p chunks from chunk r p on. An all-to-all has ``send`` (p chunks from d p on go to rank d)
    and ``recv`` (p chunks from r p on come from rank r). Empty chunks are left out of `pre` and `post`.
    """
    choice("collective", collective, COLLECTIVES)
    ranks = whole("ranks", ranks, 1)
    if not isinstance(elements, np.ndarray):
        elements = whole("elements", elements, 0)
    pieces = whole("pieces", pieces, 1)
    root = whole("root", root, 0, ranks - 1)
    each = ranks if collective in CUT_BY_RANK else 1
    if isinstance(elements, np.ndarray):
        shapes = [(each,), *[(ranks, ranks)] * (collective == "all-to-all")]
        right = elements.shape in shapes and elements.dtype.kind in "iu" and (elements >= 0).all()
        allowed = f"whole numbers from 0, shape {' or '.join(map(str, shapes))}"
        ensure(right, "elements", f"{elements.dtype} of shape {elements.shape} given", allowed)
    most = max(1, MOST_CHUNKS // (ranks * each))
    allowed = f"up to {MOST_RANKS} ranks and {MOST_CHUNKS} chunks in all, so 1 to {most}"
    right = ranks <= MOST_RANKS and ranks * each * pieces <= MOST_CHUNKS
    ensure(right, "pieces", f"{pieces} given for {ranks} ranks", allowed)
    parts = elements if isinstance(elements, np.ndarray) else _split(elements, each)
    counts = np.concatenate([_split(int(n), pieces) for n in parts.ravel()])
    return _laid_out(collective, ranks, counts.reshape(*parts.shape[:-1], -1), pieces, root)


def _laid_out(collective: str, ranks: int, counts: np.ndarray, pieces: int, root: int) -> Layout:
    """Return the layout of a collective for an array with ``counts[i]`` elements in chunk i; see `layout`.

    For an all-to-all ``counts`` may have a row per sender.
    """
    counts = np.broadcast_to(counts, (ranks, counts.shape[-1]))
    where, sizes, conditions = _WHERE[collective], [counts.copy()], []
    chunks = counts.shape[1]
    masks = [*(1 << rank for rank in range(ranks)), (1 << ranks) - 1]
    for side, at in enumerate(where):
        rank, chunk = _positions(at, ranks, chunks, pieces, root)
        item = source = chunk
        if collective == "all-to-all":
            # Afterwards, part r of the array holds the chunks that rank r sent to this rank.
            who = chunk // pieces if side else rank
            source = rank * pieces + chunk % pieces if side else chunk
            item = who * chunks + source
            sizes += [counts[who, source].reshape(ranks, -1)] * side
        elif where[0] == _EACH:  # a sum
            who = np.full(rank.size, ranks) if side else rank
        else:
            who = np.full(rank.size, root) if where[0] == _ROOT else chunk // pieces
        full = counts[who if collective == "all-to-all" else 0, source] > 0
        columns = (column[full].tolist() for column in (rank, chunk, item, who))
        held = {(r, len(sizes) - 1, c): (i, masks[w]) for r, c, i, w in zip(*columns, strict=True)}
        conditions.append(held)
    buffers = ("send", "recv") if collective == "all-to-all" else ("data",)
    return Layout(ranks, buffers, tuple(sizes), *conditions)


def _positions(at: int, ranks: int, chunks: int, pieces: int, root: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rank and the index of every chunk of an array, empty chunks included.

    ``at`` says where the chunks lie: all of them on each rank (`_EACH`), on rank r the ``pieces`` chunks of
    its part (`_PART`), or all of them on ``root`` (`_ROOT`).
    """
    chunk = np.arange(chunks)
    if at == _EACH:
        return np.repeat(np.arange(ranks), chunks), np.tile(chunk, ranks)
    return chunk // pieces if at == _PART else np.full(chunks, root), chunk


def _split(elements: int, parts: int) -> np.ndarray:
    """Return the sizes of ``parts`` nearly equal parts of ``elements``, larger ones first: int64."""
    return elements // parts + (np.arange(parts, dtype=np.int64) < elements % parts)


@dataclass(frozen=True, eq=False)
class Operation:
    """Describes the collective operation that a schedule performs: one of `COLLECTIVES`, or ``"custom"``.

    ``root``: root rank of a broadcast, reduce, gather or scatter, else None. ``before``: index of the buffer
    with the initial data; ``after``: index of the buffer with the final data. Both are −1 for a custom
    operation, which may use several. ``counts``: elements of each chunk of the whole array (see `layout`), or
    of each item if custom.
    """

    collective: str
    root: int | None
    before: int
    after: int
    counts: np.ndarray

    @property
    def in_place(self) -> bool:
        """Whether the data begin and end in buffer 0, or for an all-to-all begin in buffer 0 and end in 1."""
        return (self.before, self.after) == (0, int(self.collective == "all-to-all"))


def kind(schedule: Schedule) -> tuple[str, int | None]:
    """Return the name of the collective operation that a schedule performs, and its root or None."""
    performed = operation(schedule)
    return performed.collective, performed.root


def whole_elements(schedule: Schedule) -> int:
    """Return the number of elements of a schedule's whole array, the ``elements`` of `layout`.

    For a custom operation each item of `pre` counts once, even if several ranks hold the item or terms of its
    sum; for a point-to-point exchange the result is the size of all messages together.
    """
    return int(operation(schedule).counts.sum())


def default_elements(ranks: int, pieces: int) -> int:
    """Return a number of elements of the whole array that every algorithm can divide evenly."""
    return 2 * ranks * pieces


@cached
def operation(schedule: Schedule) -> Operation:
    """Recognise the collective operation that a schedule performs, from its initial and final data.

    In a named operation all initial data (`pre`) lie in one buffer, and all final data (`post`) in one. If
    these are two buffers, a rank's part may be at its position in the array or at the buffer's beginning.
    Item numbers do not matter.
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
    """Return the root and the elements of each chunk if a schedule performs ``collective``; else None.

    ``buffers``: the buffer of the initial data (`pre`) and the buffer of the final data (`post`). A rank's
    part of the array lies at the beginning of its buffer if ``compact``, else at its position in the array.
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
    # Items may be numbered differently than by `layout`, but one to one.
    one_to_one = all(len(set(names)) == len(items) for names in zip(*items, strict=True))
    return (root, counts) if one_to_one else None
