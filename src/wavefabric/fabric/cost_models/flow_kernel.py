"""The event loop of the flow-level simulation, and max–min fair shares, compiled."""

from typing import NamedTuple

import numpy as np

from wavefabric.system.numba_cache import njit

#: Events closer together than this, relative to the time, are one.
SAME = 1e-12


class Transfers(NamedTuple):
    """What is moved: arrays with an element for each transfer, but `after`."""

    src: np.ndarray
    dst: np.ndarray
    pair: np.ndarray  # of `SharedLinks`; −1: within a rank
    size: np.ndarray  # B
    delay: np.ndarray  # s before the first byte
    work: np.ndarray  # s that the receiver takes to add it up, or a rank to copy
    follows: np.ndarray  # transfer before it from the same rank to the same, −1: none
    first_after: np.ndarray  # successors of transfer t: after[first_after[t]:first_after[t + 1]]
    after: np.ndarray


class SharedLinks(NamedTuple):
    """Resources, such as links, that pairs of ranks share.

    Pair p uses ``resource[first[p]:first[p + 1]]``; ``fraction`` is the part of its bytes that crosses each.
    """

    first: np.ndarray
    resource: np.ndarray
    fraction: np.ndarray  # of the pair's bytes, as `resource`
    capacity: np.ndarray  # B/s of each resource
    most: float  # B/s of one transfer


# Functions that take the state are inlined: it is many words to hand over.
class _State(NamedTuple):
    """What changes with time; the first elements of `moving`, `timed`, `ready` and `stack` are in use."""

    times: np.ndarray  # begin and end of each transfer
    waits: np.ndarray  # number of transfers that it waits for
    left: np.ndarray  # B
    sent: np.ndarray
    waited: np.ndarray  # whether its delay is over
    rate: np.ndarray  # B/s of each pair
    moving: np.ndarray  # transfers on their way
    timed: np.ndarray  # transfers that wait for a time: their delay's end, or their sum's
    until: np.ndarray
    ready: np.ndarray  # transfers whose data are there; or that may leave as soon as an engine is free
    stack: np.ndarray
    free: np.ndarray  # when each GPU is done with its sums
    busy: np.ndarray  # transfers that it sends now
    head: np.ndarray  # first and last that wait for one of its engines; −1: none
    tail: np.ndarray
    behind: np.ndarray  # the transfer behind it in this queue
    before: np.ndarray  # the transfer that follows it from the same rank to the same


@njit(nogil=True)
def _users_of_resources(flows, first, resource, resources):
    """How many flows use each resource, which are used, and by whom: users[begin[r]:begin[r + 1]]."""
    # Plain loops: what NumPy would do in a line takes seconds to compile.
    waiting = np.zeros(resources, np.int64)
    for f in flows:
        for u in range(first[f], first[f + 1]):
            waiting[resource[u]] += 1
    used = np.empty(resources, np.int64)
    uses = 0
    begin = np.zeros(resources + 1, np.int64)
    fill = np.zeros(resources, np.int64)
    for r in range(resources):
        begin[r + 1] = begin[r] + waiting[r]
        fill[r] = begin[r]
        if waiting[r] > 0:
            used[uses] = r
            uses += 1
    users = np.empty(begin[resources], np.int64)
    for f in flows:
        for u in range(first[f], first[f + 1]):
            users[fill[resource[u]]] = f
            fill[resource[u]] += 1
    return waiting, used[:uses], begin, users


@njit(nogil=True)
def fair_shares(flows, first, resource, fraction, capacity, most, rate):
    """Max–min fair rates of `flows` by progressive filling, written to `rate`, which has those of all flows.

    The resource that leaves least to each of its flows fixes theirs; what they use elsewhere is taken off,
    and so on (Bertsekas & Gallager, *Data Networks*, 2nd ed., section 6.5.2). Flow f uses
    ``resource[first[f]:first[f + 1]]``, each with a `fraction` of its rate; `capacity` is of each resource,
    and no flow gets more than `most`.
    """
    left = capacity.copy()
    waiting, used, begin, users = _users_of_resources(flows, first, resource, capacity.size)
    uses = used.size
    weight = np.zeros(capacity.size)  # fractions of flows whose rates are not fixed
    for f in flows:
        rate[f] = -1.0
        for u in range(first[f], first[f + 1]):
            weight[resource[u]] += fraction[u]
    unfixed = flows.size
    while unfixed > 0:
        least = most
        for k in range(uses):
            r = used[k]
            if waiting[r] > 0:
                least = min(least, left[r] / weight[r])
        if least >= most:
            for f in flows:
                if rate[f] < 0.0:
                    rate[f] = most
            return
        kept = 0
        for k in range(uses):
            r = used[k]
            if waiting[r] == 0:
                continue
            if left[r] / weight[r] <= least * (1.0 + SAME):
                for i in range(begin[r], begin[r + 1]):
                    f = users[i]
                    if rate[f] < 0.0:
                        rate[f] = least
                        unfixed -= 1
                        for u in range(first[f], first[f + 1]):
                            q = resource[u]
                            left[q] = max(left[q] - least * fraction[u], 0.0)
                            weight[q] -= fraction[u]
                            waiting[q] -= 1
            used[kept] = r
            kept += 1
        uses = kept


@njit(nogil=True)
def _sort(numbers, count):
    """Shellsort, in place (NumPy's takes a second to compile)."""
    gap = 1
    while gap < count // 9:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, count):
            number, k = numbers[i], i
            while k >= gap and numbers[k - gap] > number:
                numbers[k] = numbers[k - gap]
                k -= gap
            numbers[k] = number
        gap //= 3


@njit(forceinline=True, nogil=True)
def _end(t, now, transfers, state, readies):
    """Transfer t ends: what waited for nothing else is ready. Gives how many are."""
    state.times[t, 1] = now
    for i in range(transfers.first_after[t], transfers.first_after[t + 1]):
        successor = transfers.after[i]
        state.waits[successor] -= 1
        if state.waits[successor] == 0:
            state.ready[readies] = successor
            readies += 1
    return readies


@njit(forceinline=True, nogil=True)
def _add_up(t, now, transfers, state, timers):
    """The sum or copy of transfer t, behind those that its GPU has begun."""
    gpu = transfers.dst[t]
    state.free[gpu] = max(state.free[gpu], now) + transfers.work[t]
    state.timed[timers], state.until[timers] = t, state.free[gpu]
    return timers + 1


@njit(forceinline=True, nogil=True)
def _begin(now, transfers, state, readies, timers):
    """What is ready begins its delay; what is within a rank its copy, or it ends at once: how many do."""
    ended = 0
    while readies > 0:
        finished = 0
        while readies > 0:
            readies -= 1
            t = state.ready[readies]
            state.times[t, 0] = now
            if transfers.pair[t] >= 0:
                state.timed[timers], state.until[timers] = t, now + transfers.delay[t]
                timers += 1
            elif transfers.work[t] > 0.0:
                state.sent[t] = True
                timers = _add_up(t, now, transfers, state, timers)
            else:
                state.stack[finished] = t
                finished += 1
        ended += finished
        while finished > 0:
            finished -= 1
            readies = _end(state.stack[finished], now, transfers, state, readies)
    return timers, ended


@njit(forceinline=True, nogil=True)
def _next_event(now, transfers, state, timers, movers):
    """When the next delay or sum is over, or the next transfer arrives."""
    soon = np.inf
    for i in range(timers):
        soon = min(soon, state.until[i])
    for i in range(movers):
        t = state.moving[i]
        soon = min(soon, now + state.left[t] / state.rate[transfers.pair[t]])
    return soon


@njit(forceinline=True, nogil=True)
def _advance(step, close, transfers, state, movers):
    """Transfers move for a time; what arrives, within so many s, goes on the stack."""
    kept = arrived = 0
    for i in range(movers):
        t = state.moving[i]
        speed = state.rate[transfers.pair[t]]
        state.left[t] -= speed * step
        if state.left[t] <= speed * close:
            state.left[t] = 0.0
            state.stack[arrived] = t
            arrived += 1
        else:
            state.moving[kept] = t
            kept += 1
    return kept, arrived


@njit(forceinline=True, nogil=True)
def _expire(until, transfers, state, timers, arrived):
    """Delays and sums are over: what may leave now goes to `ready`, and −1 − t for sums on the stack."""
    queued = 0
    for i in range(arrived):
        t = state.stack[i]
        state.sent[t] = True
        state.busy[transfers.src[t]] -= 1
        if state.before[t] >= 0 and state.waited[state.before[t]]:
            state.ready[queued] = state.before[t]
            queued += 1
    kept = 0
    expired = arrived
    for i in range(timers):
        t = state.timed[i]
        if state.until[i] > until:
            state.timed[kept], state.until[kept] = t, state.until[i]
            kept += 1
        elif state.sent[t]:
            state.stack[expired] = -1 - t
            expired += 1
        else:
            state.waited[t] = True
            if transfers.follows[t] < 0 or state.sent[transfers.follows[t]]:
                state.ready[queued] = t
                queued += 1
    return kept, expired, queued


@njit(forceinline=True, nogil=True)
def _send(now, transfers, state, queued, movers, engines):
    """What may leave queues for its GPU's engines; these send, first come, first served."""
    _sort(state.ready, queued)
    for i in range(queued):
        t = state.ready[i]
        s = transfers.src[t]
        if state.head[s] < 0:
            state.head[s] = t
        else:
            state.behind[state.tail[s]] = t
        state.tail[s] = t
    for s in range(state.head.size):
        while state.head[s] >= 0 and (engines == 0 or state.busy[s] < engines):
            t = state.head[s]
            state.head[s] = state.behind[t]
            state.busy[s] += 1
            state.moving[movers] = t
            movers += 1
            state.times[t, 0] = max(state.times[t, 0], now - transfers.delay[t])
    return movers


@njit(forceinline=True, nogil=True)
def _receive(now, transfers, state, expired, timers):
    """What arrived is added up, one after the other; what needs no sum, or has it, ends."""
    over = 0
    for i in range(expired):
        t = state.stack[i]
        if t >= 0 and transfers.work[t] > 0.0:
            timers = _add_up(t, now, transfers, state, timers)
        else:
            state.stack[over] = t if t >= 0 else -1 - t
            over += 1
    readies = 0
    for i in range(over):
        readies = _end(state.stack[i], now, transfers, state, readies)
    return timers, readies, over


@njit(nogil=True)
def simulate(transfers, links, waits, ranks, engines, times):
    """Seconds of all transfers, from the fields of `Transfers` and `SharedLinks` as plain tuples.

    (Numba's dispatcher takes those in C, named ones in Python.)

    `waits` is the number of transfers that each waits for, written on the way, as is `times`, their begin and
    end. At most `engines` leave a GPU at once; 0: any number.
    """
    transfers, links = Transfers(*transfers), SharedLinks(*links)
    n = transfers.src.size
    before = np.full(n, -1, np.int64)
    for t in range(n):
        if transfers.follows[t] >= 0:
            before[transfers.follows[t]] = t
    state = _State(
        times, waits, transfers.size.copy(), np.zeros(n, np.bool_), np.zeros(n, np.bool_),
        np.zeros(links.first.size - 1), np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n),
        np.empty(n, np.int64), np.empty(n, np.int64), np.zeros(ranks), np.zeros(ranks, np.int64),
        np.full(ranks, -1, np.int64), np.full(ranks, -1, np.int64), np.full(n, -1, np.int64), before,
    )  # fmt: skip
    readies = 0
    for t in range(n):
        if waits[t] == 0:
            state.ready[readies] = t
            readies += 1
    now = 0.0
    done, timers, movers = 0, 0, 0
    while True:
        timers, ended = _begin(now, transfers, state, readies, timers)
        done += ended
        if done == n:
            return now
        soon = _next_event(now, transfers, state, timers, movers)
        step, now = soon - now, soon
        close = now * SAME
        staying, arrived = _advance(step, close, transfers, state, movers)
        timers, expired, queued = _expire(now + close, transfers, state, timers, arrived)
        movers = _send(now, transfers, state, queued, staying, engines)
        timers, readies, ended = _receive(now, transfers, state, expired, timers)
        done += ended
        if movers > 0 and (arrived > 0 or movers > staying):
            on_route = np.empty(movers, np.int64)
            for i in range(movers):
                on_route[i] = transfers.pair[state.moving[i]]
            fair_shares(
                on_route, links.first, links.resource, links.fraction, links.capacity, links.most, state.rate
            )
