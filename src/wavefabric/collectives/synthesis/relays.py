"""Find routes for the messages of an all-to-all over other ranks that load links evenly, and send along them.

A linear program with a variable for each route of a message minimises the time of the busiest link. Routes
are generated as they are needed: the dual values of links are lengths, by which a shorter route improves the
program (column generation; Ford & Fulkerson 1958, doi:10.1287/mnsc.5.1.97).
"""

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array, hstack

from wavefabric.base.errors import InputError
from wavefabric.collectives.builders.transfers import assemble, transfers
from wavefabric.collectives.conditions import layout
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.sizes import ragged, within_groups
from wavefabric.collectives.synthesis.deadline import OutOfTime, check, now

#: Relative distance from the least time with which routes suffice, and with which their parts do.
_NEAR, _CLOSE = 1e-3, 0.01
#: Relative weight of the links that messages take, so that among equally fast routes short ones are used.
_SHORT = 1e-3
#: Routes of each message guessed from the loads of links at first; times that starts of routes are chosen.
_GUESSES, _SWEEPS = 8, 3
#: Numbers of equal parts of a message, each of which takes one route.
_PARTS = (1, 2, 3, 4, 6, 8, 12, 16)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Describes the pairs of ranks that can send to each other at once, and the links that they share.

    ``ends``: sender and receiver, shape (pairs, 2). ``loads[i, p]``: seconds for which link i is busy if pair
    p sends a byte. ``latency``: s before the first byte of each pair arrives.
    """

    ends: np.ndarray
    loads: csr_array
    latency: np.ndarray


@dataclass(frozen=True, eq=False)
class Relays:
    """Holds the routes of the messages of an all-to-all, each message divided into ``parts`` equal parts.

    ``routes[i]``: the ranks that a part passes, from its sender to its receiver, then −1: shape (parts of all
    messages, hops + 1). ``starts[i]``: the round in which its first piece leaves. ``seconds``: time in which
    the busiest link carries all messages; with routes of up to as many hops none takes less than ``least``.
    """

    routes: np.ndarray
    starts: np.ndarray
    parts: int
    seconds: float
    least: float

    @property
    def hops(self) -> int:
        """Return the number of pairs on the longest route."""
        return self.routes.shape[1] - 1


def relays(
    pairs: Pairs, sizes: np.ndarray, hops: int, pieces: int | None = None, until: float = inf
) -> Relays:
    """Return routes of at most ``hops`` hops with which the busiest link takes the least time.

    ``sizes[a, b]``: bytes from rank a to rank b; the diagonal does not count. Messages get as few parts as
    are within a percent of the least time; if they are to be sent in ``pieces``, a number that divides it.
    `InputError` if a message has no such route; `OutOfTime` after ``until``.
    """
    program = _Program(pairs, sizes, hops)
    fractions, least = program.solve(until)
    seconds, parts, counts = inf, 1, fractions
    for number in (each for each in _PARTS if (pieces or each) % each == 0):
        check(until)
        rounded, time = program.rounded(fractions, number)
        if time < seconds * (1 - _NEAR):
            seconds, parts, counts = time, number, rounded
        if seconds <= least * (1 + _CLOSE):
            break
    return Relays(*program.routes(counts, parts), parts, seconds, least)


def relayed_schedule(relayed: Relays, ranks: int, elements: int | np.ndarray, pieces: int = 1) -> Schedule:
    """Build the all-to-all whose messages take the routes of ``relayed``, each part in ``pieces`` pieces.

    A piece takes one hop per round, and the pieces of a part follow each other: hops + pieces − 1 rounds
    (short routes may begin later, when their links are less loaded). Ranks on the way keep a piece in
    ``scratch``. ``elements`` is that of `conditions.layout`.
    """
    cut, each = relayed.parts * pieces, np.arange(ranks)
    conditions = layout("all-to-all", ranks, elements, cut)
    route, begin = np.repeat(relayed.routes, pieces, axis=0), relayed.starts[:, None] + np.arange(pieces)
    begin, length = begin.ravel(), (route >= 0).sum(axis=1) - 1
    src, dst = route[:, 0], route[np.arange(len(route)), length]
    number = within_groups(src * ranks + dst)
    sent, received = dst * cut + number, src * cut + number
    # Each rank on a route has a chunk of scratch, in the order of hops and receivers.
    row, hop = ragged(np.maximum(length - 1, 0))
    order = np.lexsort((number[row], src[row], dst[row], hop, relay := route[row, hop + 1]))
    slot = np.full(route.shape, -1)
    slot[row[order], hop[order] + 1] = within_groups(relay[order])
    scratch = np.zeros((ranks, int(slot.max(initial=-1)) + 1), np.int64)
    scratch[relay, slot[row, hop + 1]] = conditions.sizes[0][src[row], sent[row]]
    row, hop = ragged(length)
    first, last = hop == 0, hop == length[row] - 1
    chunks = np.where(first, sent[row], slot[row, hop]), np.where(last, received[row], slot[row, hop + 1])
    buffers = np.where(first, 0, 2), np.where(last, 1, 2)
    moved = transfers(begin[row] + hop, route[row, hop], route[row, hop + 1], *chunks, buffers=buffers)
    mine = transfers(0, each, each, each * cut, count=cut, buffers=(0, 1))
    return assemble("relayed all-to-all", conditions, [mine, moved], scratch)


class _Program:
    """The linear program for the fraction of each message that takes each of its routes.

    Minimised is the time of the busiest link, and with little weight the pairs on the routes of all messages.
    Sizes are relative to the mean message, times to that of its longest on a link.
    """

    def __init__(self, pairs: Pairs, sizes: np.ndarray, hops: int):
        self._ranks, self._pairs, self._hops = len(sizes), pairs.ends, hops
        self._ends = np.nonzero((sizes > 0) & ~np.eye(self._ranks, dtype=bool))
        mean, largest = float(sizes[self._ends].mean()), float(pairs.loads.max())
        self._size, self._unit = sizes[self._ends] / mean, mean * largest
        self._loads, self._latency = csr_array(pairs.loads / largest), pairs.latency / self._unit
        self._links = pairs.loads.indptr.size - 1
        self._pair = np.full((self._ranks, self._ranks), -1)
        self._pair[tuple(self._pairs.T)] = np.arange(len(self._pairs))
        self._set(np.zeros((0, 1 + hops), np.int64))

    def solve(self, until: float) -> tuple[np.ndarray, float]:
        """Return the fraction of a message that takes each route, and the least time of any link in s."""
        length, busy = np.asarray(self._loads.sum(axis=0), float).ravel(), np.ones(1)
        for number in range(1, 1 + _GUESSES):
            check(until)
            self._set(np.vstack((self._route, self._shortest(length)[1])))
            # All routes so far carry equal parts; loaded links become longer.
            busy = self._busy(np.full(len(self._route), 1 / number))
            length = self._loads.T @ (busy / busy.max()) ** 4 + _NEAR * length.max()
        self._set(np.unique(self._route, axis=0))
        weight = _SHORT * busy.max() / float(self._size.sum()) / self._hops
        while True:
            fractions, time, prices, values = self._minimise(weight, until)
            far, routes = self._shortest(self._loads.T @ prices + weight)
            better = np.flatnonzero(self._size * far < values - 1e-9)
            if self._size[better] @ far[better] >= values[better].sum() - _NEAR * time:
                # No routes beat this sum of lengths, as the prices of all links together are 1.
                least = float(self._size @ self._shortest(self._loads.T @ prices)[0])
                return fractions, min(time, least) * self._unit
            self._set(np.vstack((self._route, routes[better])))

    def rounded(self, fractions: np.ndarray, parts: int) -> tuple[np.ndarray, float]:
        """Return how many ``parts`` of messages take each route, near ``fractions``, and the time in s."""
        counts = np.floor(fractions * parts + 1e-6)
        busy, loads = self._busy(counts / parts), csc_array(self._loads @ self._use)
        missing = np.rint(parts - np.bincount(self._message, counts, self._size.size)).astype(int)
        for message in np.repeat(order := np.argsort(-self._size, kind="stable"), missing[order]).tolist():
            routes = np.flatnonzero((self._message == message) & (fractions > 1e-9))
            added = loads[:, routes].toarray() * (self._size[message] / parts)
            best = int(np.argmin(np.where(added > 0, busy[:, None] + added, 0).max(axis=0)))
            counts[routes[best]] += 1
            busy += added[:, best]
        return counts, float(busy.max()) * self._unit

    def routes(self, counts: np.ndarray, parts: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the ranks on the routes of all parts, ``counts[w]`` on route w, and their starts."""
        taken = np.repeat(np.arange(counts.size), counts.astype(np.int64))
        hops = int(self._length[taken].max(initial=0))
        over = self._route[taken, 1 : 1 + hops]
        table = np.hstack([self._pairs[over[:, :1], 0], np.where(over >= 0, self._pairs[over, 1], -1)])
        return table, self._starts(counts / parts, hops)[taken]

    def _starts(self, fractions: np.ndarray, hops: int) -> np.ndarray:
        """Return the round in which each route begins, so that the rounds of one piece take little together.

        A round takes the latency of its slowest pair and the time of its busiest link. Long routes, which
        have no choice, come first.
        """
        used, loads, starts = np.flatnonzero(fractions), csc_array(self._loads), np.full(fractions.size, -1)
        values, kind = np.unique(self._latency, return_inverse=True)
        busy, slow = np.zeros((hops, self._links)), np.zeros((hops, values.size), np.int64)
        for route in np.tile(used[np.argsort(-self._length[used], kind="stable")], _SWEEPS).tolist():
            hop, over = np.arange(self._length[route]), self._route[route, 1 : 1 + self._length[route]]
            added = loads[:, over].toarray().T * (fractions[route] * self._size[self._message[route]])
            if starts[route] >= 0:
                busy[starts[route] + hop] -= added
                slow[starts[route] + hop, kind[over]] -= 1
            late = (values * (slow > 0)).max(axis=1)
            before, more = busy.max(axis=1) + late, []
            for first in range(hops - over.size + 1):
                after = (busy[first + hop] + added).max(axis=1)
                after += np.maximum(late[first + hop], values[kind[over]])
                more.append(float((after - before[first + hop]).sum()))
            starts[route] = first = int(np.argmin(more))
            busy[first + hop] += added
            slow[first + hop, kind[over]] += 1
        return starts

    def _busy(self, fractions: np.ndarray) -> np.ndarray:
        return self._loads @ (self._use @ (fractions * self._size[self._message]))

    def _set(self, routes: np.ndarray) -> None:
        """Set the routes. Each row has the message, and the pairs in order, then −1."""
        self._route, self._message, self._length = routes, routes[:, 0], (routes[:, 1:] >= 0).sum(axis=1)
        route, hop = np.nonzero(routes[:, 1:] >= 0)
        over = routes[route, 1 + hop]
        self._use = csr_array((np.ones(route.size), (over, route)), shape=(len(self._pairs), len(routes)))

    def _shortest(self, length: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the length of each message's shortest route by the ``length`` of pairs, and the routes."""
        n, (source, node) = self._ranks, self._ends
        table, before = np.full((n, n), inf), []
        table[tuple(self._pairs.T)] = length
        far = np.where(np.eye(n, dtype=bool), 0.0, inf)
        for _ in range(self._hops):
            through = far[:, :, None] + table
            nearest, via = through.min(axis=1), through.argmin(axis=1)
            before.append(np.where(nearest < far, via, -1))
            far = np.minimum(far, nearest)
        if (lost := np.isinf(far[self._ends])).any():
            a, b = source[lost][0], node[lost][0]
            raise InputError(f"links: no way from rank {a} to rank {b}; allowed: links that join the ranks")
        over = np.full((source.size, self._hops), -1)
        for hop in range(self._hops - 1, -1, -1):
            via = before[hop][source, node]
            over[:, hop] = np.where(via >= 0, self._pair[via, node], -1)
            node = np.where(via >= 0, via, node)
        over = np.take_along_axis(over, np.argsort(over < 0, axis=1, kind="stable"), axis=1)
        return far[self._ends], np.column_stack((np.arange(source.size), over))

    def _minimise(self, weight: float, until: float) -> tuple[np.ndarray, float, np.ndarray, np.ndarray]:
        """Return fractions of messages by route, the time, and the dual values of links and of messages."""
        from scipy.optimize import linprog  # a quarter of a second, for this alone

        count, messages, size = len(self._route), self._size.size, self._size[self._message]
        busy = hstack([self._loads @ self._use * size, csr_array(-np.ones((self._links, 1)))])
        whole = csr_array((np.ones(count), (self._message, np.arange(count))), shape=(messages, count + 1))
        goal = np.r_[weight * size * self._length, 1.0]
        options: dict[str, Any] = {} if until == inf else {"time_limit": max(until - now(), 0.01)}
        limits = np.zeros(self._links), whole, np.ones(messages)
        result = linprog(goal, busy, *limits, method="highs", options=options)
        if result.x is None:
            raise OutOfTime
        return result.x[:-1], float(result.x[-1]), -result.ineqlin.marginals, result.eqlin.marginals
