"""What the named collective operations start from and end with."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from wavefabric.collectives.arguments import whole
from wavefabric.collectives.schedule import Holdings, Schedule
from wavefabric.errors import InputError

#: Collective operations by name; `layout` says what each means.
COLLECTIVES = (
    "all-gather",
    "reduce-scatter",
    "all-reduce",
    "all-to-all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
)
ROOTED = ("broadcast", "reduce", "gather", "scatter")
_CUT_BY_RANK = ("all-gather", "reduce-scatter", "all-to-all", "gather", "scatter")


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


def split(elements: int, parts: int) -> np.ndarray:
    """``elements`` in ``parts`` as even as possible, larger ones first: shape (parts,), int64."""
    return elements // parts + (np.arange(parts, dtype=np.int64) < elements % parts)


def layout(collective: str, ranks: int, elements: int, pieces: int = 1, root: int = 0) -> Layout:
    """Buffers and conditions of a collective operation.

    Parameters
    ----------
    collective : str
        Of `COLLECTIVES`.
    ranks : int
    elements : int
        Of the whole array: what all ranks together hold after an all-gather, gather or before a scatter; what
        each rank holds before an all-reduce, reduce, reduce-scatter, all-to-all or, its root, a broadcast.
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
    ranks, elements = whole("ranks", ranks, 1), whole("elements", elements, 0)
    pieces = whole("pieces", pieces, 1)
    root = whole("root", root, 0, ranks - 1)
    if collective in _CUT_BY_RANK:
        counts = np.concatenate([split(int(n), pieces) for n in split(elements, ranks)])
    else:
        counts = split(elements, pieces)
    chunks = [int(c) for c in np.flatnonzero(counts)]
    everybody = (1 << ranks) - 1
    sizes: tuple[np.ndarray, ...] = (np.tile(counts, (ranks, 1)),)
    if collective == "all-to-all":
        return _all_to_all(ranks, pieces, counts)
    owner = {c: c // pieces for c in chunks} if collective in _CUT_BY_RANK else {}
    own = {(owner[c], 0, c): (c, 1 << owner[c]) for c in owner}
    mine = {(r, 0, c): (c, 1 << r) for r in range(ranks) for c in chunks}
    if collective == "all-gather":
        pre, post = own, {(r, 0, c): (c, 1 << owner[c]) for r in range(ranks) for c in chunks}
    elif collective == "reduce-scatter":
        pre, post = mine, {at: (c, everybody) for at, (c, _) in own.items()}
    elif collective == "all-reduce":
        pre, post = mine, {at: (c, everybody) for at, (c, _) in mine.items()}
    elif collective == "reduce":
        pre, post = mine, {(root, 0, c): (c, everybody) for c in chunks}
    elif collective == "broadcast":
        pre = {(root, 0, c): (c, 1 << root) for c in chunks}
        post = {(r, 0, c): (c, 1 << root) for r in range(ranks) for c in chunks}
    elif collective == "gather":
        pre, post = own, {(root, 0, c): (c, 1 << owner[c]) for c in chunks}
    else:
        pre = {(root, 0, c): (c, 1 << root) for c in chunks}
        post = {at: (c, 1 << root) for at, (c, _) in own.items()}
    return Layout(ranks, ("data",), sizes, pre, post)


def _all_to_all(ranks: int, pieces: int, counts: np.ndarray) -> Layout:
    """Chunk d of rank r is item r · chunks + d; what comes from r is as long as r's chunk for d."""
    chunks = ranks * pieces
    # Rank d receives from everybody the share that is d's: the same number of elements from each.
    received = np.tile(counts.reshape(ranks, 1, pieces), (1, ranks, 1)).reshape(ranks, chunks)
    pre: Holdings = {}
    post: Holdings = {}
    for d in range(ranks):
        for p in range(pieces):
            if counts[d * pieces + p]:
                for r in range(ranks):
                    held = r * chunks + d * pieces + p, 1 << r
                    pre[r, 0, d * pieces + p] = held
                    post[d, 1, r * pieces + p] = held
    return Layout(ranks, ("send", "recv"), (np.tile(counts, (ranks, 1)), received), pre, post)


def kind(schedule: Schedule) -> tuple[str, int | None]:
    """Which collective operation a schedule promises, found from what it holds before and after.

    Returns
    -------
    collective : str
        Of `COLLECTIVES`, or ``"custom"``. Numbers of items do not matter, nor do buffers for scratch.
    root : int or None
        Of a broadcast, reduce, gather or scatter.
    """
    for collective in COLLECTIVES:
        for root in _roots(collective, schedule):
            if _is(collective, root, schedule):
                return collective, root if collective in ROOTED else None
    return "custom", None


def _roots(collective: str, schedule: Schedule) -> list[int]:
    if collective not in ROOTED:
        return [0]
    ends = schedule.pre if collective in ("broadcast", "scatter") else schedule.post
    found = {rank for rank, _, _ in ends}
    return list(found) if len(found) == 1 else []


def _is(collective: str, root: int, schedule: Schedule) -> bool:
    """Whether, up to names of items, conditions are those of a collective for the same cut of the array."""
    held = 2 if collective == "all-to-all" else 1
    if len(schedule.sizes) < held:
        return False
    chunks = schedule.sizes[0].shape[1]
    pieces = chunks
    if collective in _CUT_BY_RANK:
        pieces, rest = divmod(chunks, schedule.ranks)
        if rest:
            return False
    if not pieces:
        return False
    ones = schedule.ranks if collective in _CUT_BY_RANK else 1
    wanted = layout(collective, schedule.ranks, ones * pieces, pieces, root)
    empty = [{(int(r), b, int(c)) for r, c in np.argwhere(schedule.sizes[b] == 0)} for b in range(held)]
    for mine, theirs in ((schedule.pre, wanted.pre), (schedule.post, wanted.post)):
        full = {at: v for at, v in theirs.items() if at not in empty[at[1]]}
        if full.keys() != mine.keys() or any(mine[at][1] != v[1] for at, v in full.items()):
            return False
    names: dict[int, int] = {}
    for mine, theirs in ((schedule.pre, wanted.pre), (schedule.post, wanted.post)):
        for at, (item, _) in mine.items():
            if names.setdefault(theirs[at][0], item) != item:
                return False
    return len(set(names.values())) == len(names)
