"""Build schedules of point-to-point messages: in one round, in pairs, to grid neighbours, or packed."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

import numpy as np

from wavefabric.base.arguments import whole
from wavefabric.base.errors import InputError, ensure
from wavefabric.collectives.schedule import TRANSFER, Holdings, Schedule
from wavefabric.collectives.sizes import padded
from wavefabric.collectives.structure import in_rounds


def point_to_point(name: str, ranks: int, messages: Iterable[tuple[int, int, int]]) -> Schedule:
    """Build a schedule of messages (src, dst, elements) between ranks, all in one round.

    Two ranks may exchange any number of messages; ``src == dst`` is a copy within a rank; a message of 0
    elements leaves its chunk empty and moves nothing. On each rank the chunks of ``send`` are the messages
    that the rank sends, and the chunks of ``recv`` the messages that it receives, in the order of
    ``messages``. Item m is message m. `InputError` for ranks out of range or a negative size.

    Examples
    --------
    >>> from wavefabric.collectives import point_to_point, verify
    >>> swap = point_to_point("swap", 2, [(0, 1, 8), (1, 0, 3), (0, 1, 2)])
    >>> verify(swap)
    >>> swap.sizes[0].tolist(), swap.sizes[1].tolist()
    ([[8, 2], [3, 0]], [[3, 0], [8, 2]])
    """
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
            rows.append((0, src, dst, 0, a, 1, b, 1, False, 0))
    sizes = padded(sent), padded(received)
    return Schedule(name, ranks, ("send", "recv"), sizes, np.array(rows, TRANSFER), pre, post)


def all_to_all(sizes: Sequence[Sequence[int]] | np.ndarray) -> Schedule:
    """Build an all-to-all in rounds of pairs: in round k, rank r sends to rank r + k.

    ``sizes[r, d]``, shape (ranks, ranks), elements go from chunk d of ``send`` on rank r to chunk r of
    ``recv`` on rank d; the diagonal is copied within the rank. No two transfers of a round have the same
    sender or the same receiver, and none waits for another. `InputError` if ``sizes`` is not square, empty,
    or has a negative number.

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
    actual = f"{ranks} rows of {', '.join(map(str, sorted(lengths))) or 'nothing'}"
    ensure(lengths == {ranks}, "sizes", actual, "one row a rank with one number a rank")
    messages = [
        (r, d, whole(f"sizes[{r}][{d}]", n, 0)) for r, row in enumerate(rows) for d, n in enumerate(row)
    ]
    schedule = point_to_point("all-to-all", ranks, messages)
    ends = schedule.transfers
    return in_rounds(schedule, (ends["dst"] - ends["src"]) % ranks)


def greedy(ranks: int, messages: Iterable[tuple[int, int, int]], lasers: int, seed: int = 0) -> Schedule:
    """Pack messages into rounds in which a rank sends at most ``lasers`` messages and receives as many.

    Messages (see `point_to_point`) are taken in random order (from ``seed``); each goes into the first round
    in which sender and receiver are below this limit. Copies within a rank do not count. If D is the largest
    number of messages that a rank sends or receives, the schedule has at most 2 ⌊(D − 1)/lasers⌋ + 1 rounds;
    any schedule needs ⌈D/lasers⌉. This is Algorithm 3 of LUMORPH (layer-to-layer transfers), corrected: the
    original limits only the receivers, and counts one round too many. `InputError` for bad arguments.

    Examples
    --------
    >>> from wavefabric.collectives import greedy, verify
    >>> schedule = greedy(4, [(0, d, 10) for d in (1, 2, 3)] + [(1, 3, 5)], lasers=2)
    >>> verify(schedule)
    >>> schedule.rounds
    2
    """
    lasers, seed = whole("lasers", lasers, 1), whole("seed", seed, 0)
    schedule = point_to_point("greedy", ranks, messages)
    rounds = np.zeros(schedule.transfers.size, np.int64)
    ranks, src, dst = schedule.ranks, schedule.transfers["src"], schedule.transfers["dst"]
    order = np.random.default_rng(seed).permutation(rounds.size)
    order = order[src[order] != dst[order]]
    ends = np.stack([src, ranks + dst], axis=1)[order].tolist()
    rounds[order] = first_fit(ends, [lasers] * (2 * ranks))
    return in_rounds(schedule, rounds)


def first_fit(needs: Iterable[Sequence[int]], most: Sequence[int]) -> list[int]:
    """Assign each request to the first round in which all its resources are free; return the rounds.

    ``needs`` lists the resources of each request. Resource i serves at most ``most[i]`` requests per round.
    """
    full = [0] * len(most)  # rounds in which each resource is used up, as bits
    used: list[Counter[int]] = [Counter() for _ in most]
    rounds = []
    for things in needs:
        taken = reduce(or_, (full[thing] for thing in things))
        first = (~taken & (taken + 1)).bit_length() - 1
        rounds.append(first)
        for thing in things:
            used[thing][first] += 1
            if used[thing][first] == most[thing]:
                full[thing] |= 1 << first
    return rounds


def near_square(ranks: int) -> tuple[int, int]:
    """Return (rows, columns), rows ≤ columns, of the grid of ``ranks`` ranks that is nearest to a square."""
    rows = next(r for r in range(int(ranks**0.5) + 1, 0, -1) if ranks % r == 0 and r * r <= ranks)
    return rows, ranks // rows


def halo(kind: str, collective: str, ranks: int, elements: int, grid: tuple[int, ...]) -> Schedule:
    """Build one round in which every rank sends a message to each neighbour along every axis of a grid.

    With ``kind`` "torus" the grid is periodic, with "mesh" it has ends. The messages of a rank are ordered by
    axis, lower neighbour first; on a periodic axis of two ranks, both messages go to the same neighbour.
    """
    number = np.arange(ranks).reshape(grid)
    pairs = [np.zeros((0, 2), int)]
    for axis, extent in enumerate(grid):
        for ahead in (-1, 1) if extent > 1 else ():
            peer = np.roll(number, -ahead, axis)
            inside = np.ones(grid, bool)
            if kind == "mesh":
                np.moveaxis(inside, axis, 0)[-1 if ahead > 0 else 0] = False
            pairs.append(np.stack([number[inside], peer[inside]], axis=1))
    ends = np.concatenate(pairs)
    ends = ends[np.argsort(ends[:, 0], kind="stable")].tolist()
    name = f"{kind} {collective}, {'x'.join(map(str, grid))}"
    return point_to_point(name, ranks, [(src, dst, elements) for src, dst in ends])


def _message(number: int, message, ranks: int) -> tuple[int, int, int]:
    try:
        src, dst, elements = message
    except (TypeError, ValueError):
        actual = f"messages[{number}]: {message!r}"
        raise InputError(f"{actual}; allowed: (src, dst, elements)") from None
    if type(src) is type(dst) is type(elements) is int and 0 <= src < ranks > dst >= 0 <= elements < 2**63:
        return src, dst, elements  # fast, as there may be a million messages
    key = f"messages[{number}]"
    src = whole(f"{key} src", src, 0, ranks - 1)
    return src, whole(f"{key} dst", dst, 0, ranks - 1), whole(f"{key} elements", elements, 0)
