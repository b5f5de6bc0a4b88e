"""The event loop of the flow-level simulation, and max–min fair shares, compiled."""

from __future__ import annotations

import numpy as np

from wavefabric.system.numba_cache import njit

#: Events closer together than this, relative to the time, are one.
SAME = 1e-12


@njit(nogil=True)
def fair_shares(flows, first, resource, capacity, most, rate):
    """Max–min fair rates by progressive filling.

    The resource that leaves least to each of its flows fixes theirs; what they use elsewhere is taken off,
    and so on (Bertsekas & Gallager, *Data Networks*, 2nd ed., section 6.5.2).

    Parameters
    ----------
    flows : array of int
        Numbers of the flows that are on their way.
    first : array of int, shape (all flows + 1,)
        Flow f uses ``resource[first[f]:first[f + 1]]``.
    resource : array of int
    capacity : array, shape (resources,)
    most : float
        No flow gets more.
    rate : array, shape (all flows,)
        Written where `flows` says.
    """
    # Plain loops: what NumPy would do in a line takes seconds to compile.
    left = capacity.copy()
    waiting = np.zeros(capacity.size, np.int64)
    for f in flows:
        for u in range(first[f], first[f + 1]):
            waiting[resource[u]] += 1
    used = np.empty(capacity.size, np.int64)
    uses = 0
    begin = np.zeros(capacity.size + 1, np.int64)
    fill = np.zeros(capacity.size, np.int64)
    for r in range(capacity.size):
        begin[r + 1] = begin[r] + waiting[r]
        fill[r] = begin[r]
        if waiting[r] > 0:
            used[uses] = r
            uses += 1
    users = np.empty(begin[capacity.size], np.int64)
    for f in flows:
        rate[f] = -1.0
        for u in range(first[f], first[f + 1]):
            users[fill[resource[u]]] = f
            fill[resource[u]] += 1
    unfixed = flows.size
    while unfixed > 0:
        least = most
        for k in range(uses):
            r = used[k]
            if waiting[r] > 0:
                least = min(least, left[r] / waiting[r])
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
            if left[r] / waiting[r] <= least * (1.0 + SAME):
                for i in range(begin[r], begin[r + 1]):
                    f = users[i]
                    if rate[f] < 0.0:
                        rate[f] = least
                        unfixed -= 1
                        for u in range(first[f], first[f + 1]):
                            q = resource[u]
                            left[q] = max(left[q] - least, 0.0)
                            waiting[q] -= 1
            used[kept] = r
            kept += 1
        uses = kept


@njit(nogil=True)
def _sort(numbers, count):
    """Shell's sort, in place (NumPy's takes a second to compile)."""
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


@njit(nogil=True)
def simulate(
    src,  # of each transfer
    dst,
    pair,  # −1: within a rank
    size,  # B
    delay,  # s before the first byte
    work,  # s that the receiver takes to add it up, or a rank to copy
    follows,  # transfer before it from the same rank to the same, −1: none
    waits,  # number of transfers that it waits for; written
    first_after,  # successors of transfer t: after[first_after[t]:first_after[t + 1]]
    after,
    first,  # resources of pair p: resource[first[p]:first[p + 1]]
    resource,
    capacity,
    most,  # B/s of one transfer
    ranks,
    engines,  # transfers that a GPU sends at once; 0: any number
    times,  # written: begin and end of each transfer
):
    n = src.size
    before = np.full(n, -1, np.int64)  # the transfer that follows it from the same rank to the same
    for t in range(n):
        if follows[t] >= 0:
            before[follows[t]] = t
    sent = np.zeros(n, np.bool_)
    waited = np.zeros(n, np.bool_)
    left = size.copy()
    rate = np.zeros(first.size - 1)
    moving = np.empty(n, np.int64)  # transfers on their way
    movers = 0
    timed = np.empty(n, np.int64)  # transfers that wait for a time: their delay's end, or their sum's
    until = np.empty(n)
    timers = 0
    free = np.zeros(ranks)  # when each GPU is done with its sums
    busy = np.zeros(ranks, np.int64)  # transfers that it sends now
    head = np.full(ranks, -1, np.int64)  # those that wait for an engine, in order
    tail = np.full(ranks, -1, np.int64)
    behind = np.full(n, -1, np.int64)
    ready = np.empty(n, np.int64)
    readies = 0
    for t in range(n):
        if waits[t] == 0:
            ready[readies] = t
            readies += 1
    now = 0.0
    done = 0
    stack = np.empty(n, np.int64)
    while done < n:
        changed = False
        finished = 0  # on the stack
        # What became ready begins its delay; what is within a rank its copy.
        while readies > 0 or finished > 0:
            while readies > 0:
                readies -= 1
                t = ready[readies]
                times[t, 0] = now
                if pair[t] >= 0:
                    timed[timers], until[timers] = t, now + delay[t]
                    timers += 1
                elif work[t] > 0.0:
                    free[dst[t]] = max(free[dst[t]], now) + work[t]
                    sent[t] = True
                    timed[timers], until[timers] = t, free[dst[t]]
                    timers += 1
                else:
                    stack[finished] = t
                    finished += 1
            while finished > 0:
                finished -= 1
                t = stack[finished]
                times[t, 1] = now
                done += 1
                for i in range(first_after[t], first_after[t + 1]):
                    waits[after[i]] -= 1
                    if waits[after[i]] == 0:
                        ready[readies] = after[i]
                        readies += 1
        if done == n:
            break
        # The next event.
        soon = np.inf
        for i in range(timers):
            soon = min(soon, until[i])
        for i in range(movers):
            t = moving[i]
            soon = min(soon, now + left[t] / rate[pair[t]])
        step, now = soon - now, soon
        close = now * SAME
        kept = 0
        arrived = 0
        for i in range(movers):
            t = moving[i]
            speed = rate[pair[t]]
            left[t] -= speed * step
            if left[t] <= speed * close:
                left[t] = 0.0
                stack[arrived] = t
                arrived += 1
            else:
                moving[kept] = t
                kept += 1
        changed = kept < movers
        movers = kept
        queued = 0  # in `ready`, as scratch: transfers that may leave as soon as an engine is free
        for i in range(arrived):
            t = stack[i]
            sent[t] = True
            busy[src[t]] -= 1
            if before[t] >= 0 and waited[before[t]]:
                ready[queued] = before[t]
                queued += 1
        kept = 0
        expired = arrived
        for i in range(timers):
            t = timed[i]
            if until[i] > now + close:
                timed[kept], until[kept] = t, until[i]
                kept += 1
            elif sent[t]:
                stack[expired] = -1 - t  # its sum is done
                expired += 1
            else:
                waited[t] = True
                if follows[t] < 0 or sent[follows[t]]:
                    ready[queued] = t
                    queued += 1
        timers = kept
        _sort(ready, queued)
        for i in range(queued):
            t = ready[i]
            s = src[t]
            if head[s] < 0:
                head[s] = t
            else:
                behind[tail[s]] = t
            tail[s] = t
        for s in range(ranks):
            while head[s] >= 0 and (engines == 0 or busy[s] < engines):
                t = head[s]
                head[s] = behind[t]
                busy[s] += 1
                moving[movers] = t
                movers += 1
                times[t, 0] = max(times[t, 0], now - delay[t])
                changed = True
        readies = 0
        # What arrived is added up, one after the other; what needs no sum is done.
        over = 0
        for i in range(expired):
            t = stack[i]
            if t >= 0 and work[t] > 0.0:
                free[dst[t]] = max(free[dst[t]], now) + work[t]
                timed[timers], until[timers] = t, free[dst[t]]
                timers += 1
            else:
                stack[over] = t if t >= 0 else -1 - t
                over += 1
        for i in range(over):
            t = stack[i]
            times[t, 1] = now
            done += 1
            for k in range(first_after[t], first_after[t + 1]):
                waits[after[k]] -= 1
                if waits[after[k]] == 0:
                    ready[readies] = after[k]
                    readies += 1
        if changed and movers > 0:
            on_way = np.empty(movers, np.int64)
            for i in range(movers):
                on_way[i] = pair[moving[i]]
            fair_shares(on_way, first, resource, capacity, most, rate)
    return now
