"""Point-to-point messages as a schedule: halos of a torus of ranks, transposes, all-to-all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from wavefabric.collectives.arguments import whole
from wavefabric.collectives.schedule import TRANSFER, Holdings, Schedule
from wavefabric.errors import InputError


def point_to_point(name: str, ranks: int, messages: Iterable[tuple[int, int, int]]) -> Schedule:
    """Messages between ranks, all in one round.

    Parameters
    ----------
    name : str
    ranks : int
    messages : sequence of (src, dst, elements)
        Any number between the same two; ``src == dst`` is a copy within a rank; 0 elements leave the chunk
        empty and move nothing.

    Returns
    -------
    Schedule
        Buffers ``send`` and ``recv``. The chunks of ``send`` on a rank are the messages that it sends, in the
        order given among them; those of ``recv`` the messages that it receives. Item m is message m.

    Raises
    ------
    InputError
        If ``ranks < 1`` or a message has a rank out of range or a negative size.

    Examples
    --------
    >>> from wavefabric.collectives import point_to_point, verify
    >>> swap = point_to_point("swap", 2, [(0, 1, 8), (1, 0, 3), (0, 1, 2)])
    >>> verify(swap)
    >>> swap.sizes[0].tolist(), swap.sizes[1].tolist()
    ([[8, 2], [3, 0]], [[3, 0], [8, 2]])
    """
    return _schedule(name, ranks, messages)


#: The exchange of halos on a torus of ranks, and the transpose of a slab or pencil decomposition: which box
#: goes where is the geometry's affair; to the fabric both are messages.
torus_halo = transpose = point_to_point


def all_to_all(sizes: Sequence[Sequence[int]] | np.ndarray) -> Schedule:
    """Every rank sends a part to every rank, in rounds of pairs: round k is rank r to rank r + k.

    Parameters
    ----------
    sizes : array of int, shape (ranks, ranks)
        ``sizes[r, d]`` elements go from rank r to rank d; the diagonal is copied within the rank.

    Returns
    -------
    Schedule
        Buffers ``send``, in which chunk d of rank r goes to d, and ``recv``, in which chunk r of rank d comes
        from r. No two transfers of a round leave or reach the same rank, and none waits for another.

    Raises
    ------
    InputError
        If `sizes` is not square, empty, or has a negative number.

    Examples
    --------
    >>> from wavefabric.collectives import all_to_all, verify
    >>> exchange = all_to_all([[1, 2], [3, 4]])
    >>> verify(exchange)
    >>> exchange.transfers[["round", "src", "dst"]].tolist()
    [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)]
    """
    rows = [list(row) for row in sizes]
    ranks = len(rows)
    lengths = {len(row) for row in rows}
    if lengths != {ranks}:
        given = f"{ranks} rows of {', '.join(map(str, sorted(lengths))) or 'nothing'}"
        raise InputError(f"sizes: {given}; allowed: one row a rank with one number a rank")
    messages = [
        (r, d, whole(f"sizes[{r}][{d}]", n, 0)) for r, row in enumerate(rows) for d, n in enumerate(row)
    ]
    return _schedule("all-to-all", ranks, messages, pairwise=True)


def _schedule(name: str, ranks: int, messages: Iterable, pairwise: bool = False) -> Schedule:
    ranks = whole("ranks", ranks, 1)
    sent: list[list[int]] = [[] for _ in range(ranks)]
    received: list[list[int]] = [[] for _ in range(ranks)]
    rows = []
    pre: Holdings = {}
    post: Holdings = {}
    for m, message in enumerate(messages):
        src, dst, elements = _message(m, message, ranks)
        a, b = len(sent[src]), len(received[dst])
        sent[src].append(elements)
        received[dst].append(elements)
        if elements:
            pre[src, 0, a] = post[dst, 1, b] = (m, 1 << src)
            rows.append(((dst - src) % ranks if pairwise else 0, src, dst, 0, a, 1, b, 1, False))
    transfers = np.array(rows, TRANSFER)
    return Schedule(
        name=name,
        ranks=ranks,
        buffers=("send", "recv"),
        sizes=(_table(sent), _table(received)),
        transfers=transfers[np.argsort(transfers["round"], kind="stable")],
        pre=pre,
        post=post,
    )


def _message(number: int, message, ranks: int) -> tuple[int, int, int]:
    key = f"messages[{number}]"
    try:
        src, dst, elements = message
    except (TypeError, ValueError):
        raise InputError(f"{key}: {message!r}; allowed: (src, dst, elements)") from None
    src = whole(f"{key} src", src, 0, ranks - 1)
    return src, whole(f"{key} dst", dst, 0, ranks - 1), whole(f"{key} elements", elements, 0)


def _table(rows: list[list[int]]) -> np.ndarray:
    """Rows of different lengths as one table, filled up with 0."""
    table = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for line, row in zip(table, rows, strict=True):
        line[: len(row)] = row
    return table
