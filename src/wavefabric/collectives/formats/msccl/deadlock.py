"""Whether thread blocks of an MSCCL algorithm wait for one another in a circle, and from which size on.

A connection's buffer has a fixed number of slots (NCCL_STEPS), and a message takes one or several of them
however small it is. A step that moves ``cnt`` chunks puts as many of them in a message as fit, so the same
algorithm needs more slots for a larger array. Sources: github.com/microsoft/msccl, src/enqueue.cc
(`mscclMaxAllowedCount`), src/collectives/device/msccl_interpreter.h, prims_simple.h, prims_ll.h.
"""

from __future__ import annotations

import numpy as np

from wavefabric.collectives.arguments import ragged
from wavefabric.collectives.formats.msccl.format import (
    COUNT,
    MESSAGE_BYTES,
    RECEIVES,
    SENDS,
    SLOTS_PER_MESSAGE,
    Algorithm,
)
from wavefabric.collectives.formats.msccl.graph import connections, waited
from wavefabric.errors import InputError

#: Steps of a circle that an error names.
_NAMED = 6


def chunks_a_message(algorithm: Algorithm, size: int) -> int:
    """Chunks that a message holds when the whole array has `size` bytes: at least one, however large."""
    chunk = -(-size // max(1, algorithm.chunks))
    return max(1, min(COUNT, MESSAGE_BYTES[algorithm.proto] // max(1, chunk)))


def runs_up_to(algorithm: Algorithm, senders: np.ndarray, slots: int) -> int | None:
    """The largest array, in bytes, with which no steps wait for one another in a circle.

    Parameters
    ----------
    algorithm : Algorithm
    senders : ndarray
        What `wavefabric.collectives.formats.msccl.graph.match` returns.
    slots : int
        Of a connection's buffer.

    Returns
    -------
    int or None
        None: any size; 0: none.

    Notes
    -----
    With fewer chunks a message a step never needs fewer messages, so what hangs with n chunks a message hangs
    with all smaller numbers, and bisection finds the least number that runs.
    """
    if not find_circle(algorithm, senders, slots, 1):
        return None
    hangs, runs = 1, int(algorithm.steps["cnt"].max(initial=1))
    if runs == 1 or find_circle(algorithm, senders, slots, runs):
        return 0
    while runs - hangs > 1:
        middle = (hangs + runs) // 2
        if find_circle(algorithm, senders, slots, middle):
            hangs = middle
        else:
            runs = middle
    return max(1, algorithm.chunks) * (MESSAGE_BYTES[algorithm.proto] // runs)


def check_deadlock(algorithm: Algorithm, senders: np.ndarray, slots: int) -> int | None:
    """Refuse an algorithm that hangs with an array of a size that it is for; returns `runs_up_to`.

    Raises
    ------
    InputError
        Naming steps of a circle and the sizes at fault, or if `slots` do not hold a message.
    """
    each = SLOTS_PER_MESSAGE[algorithm.proto]
    if slots < each:
        why = f"what a message takes under {algorithm.proto}"
        raise InputError(f"slots: {slots}; allowed: from {each}, {why}")
    most = runs_up_to(algorithm, senders, slots)
    # Without a largest size it is not said that it should run with more than the smallest.
    top = algorithm.max_bytes if algorithm.declared else max(1, algorithm.min_bytes)
    if most is None or (top is not None and top <= most):
        return most
    together = chunks_a_message(algorithm, max(algorithm.min_bytes, most + 1))
    rows = find_circle(algorithm, senders, slots, together)
    named = " → ".join(algorithm.step_name(row) for row in rows[:_NAMED])
    more = f" → {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
    room = f"{slots} slots a connection, {each} a message under {algorithm.proto}"
    allowed = "no such circle"
    if most:
        sizes = f"{algorithm.min_bytes} to {top}" if algorithm.declared else f"{top} and more"
        room += f", above {most} bytes of the {'any size' if top is None else sizes} that it is for"
        allowed += f", or maxBytes to {most}" if most >= algorithm.min_bytes else ""
    raise InputError(f"deadlock with {room}: {named}{more} → back to the first; allowed: {allowed}")


def find_circle(algorithm: Algorithm, senders: np.ndarray, slots: int, together: int) -> list[int]:
    """Steps (rows) that wait for one another in a circle with so many chunks a message; empty if none do.

    Notes
    -----
    A node is a message of a step that sends or receives, or another step. One comes after the one before it
    in its thread block, after the last of the step that it waits for, a receive after its send, and, if n
    messages fit the buffer, a send after the receive of n messages before.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    steps = algorithm.steps
    if not steps.size:
        return []
    depth = slots // SLOTS_PER_MESSAGE[algorithm.proto]
    kind = steps["type"]
    count = -(-steps["cnt"].astype(np.int64) // together)
    messages = np.where(SENDS[kind] | RECEIVES[kind], count, 1)
    first = np.concatenate(([0], np.cumsum(messages)))
    nodes = int(first[-1])
    block = np.repeat(steps["block"], messages)
    follows = np.flatnonzero(block[1:] == block[:-1])
    edges = [(follows, follows + 1)]
    dep = waited(algorithm)
    waits = np.flatnonzero(dep >= 0)
    edges.append((first[dep[waits] + 1] - 1, first[waits]))
    # Messages in the order of their connections: the n-th sent is the n-th received.
    received = np.flatnonzero(senders >= 0)
    key = connections(algorithm, False)[received]
    received = received[np.argsort(key, kind="stable")]
    take, give = _spread(first, received, messages), _spread(first, senders[received], messages)
    edges.append((give, take))
    line = np.repeat(np.sort(key), messages[received])
    late = np.flatnonzero(line[depth:] == line[:-depth]) if line.size > depth else np.zeros(0, np.int64)
    edges.append((take[late], give[late + depth]))
    before, after = (np.concatenate([e[side] for e in edges]) for side in (0, 1))
    graph = coo_array((np.ones(before.size, np.int8), (before, after)), (nodes, nodes)).tocsr()
    parts, part = connected_components(graph, connection="strong")
    if parts == nodes and not (before == after).any():
        return []
    step_of = np.repeat(np.arange(steps.size), messages)
    return list(dict.fromkeys(step_of[_circle(before, after, part)].tolist()))


def _spread(first: np.ndarray, rows: np.ndarray, messages: np.ndarray) -> np.ndarray:
    """Nodes of all messages of these steps, one step after the other."""
    count = messages[rows]
    row, within = ragged(count)
    return first[rows][row] + within


def _circle(before: np.ndarray, after: np.ndarray, part: np.ndarray) -> list[int]:
    """A shortest circle through the first node that is on one."""
    inside = part[before] == part[after]
    before, after = before[inside], after[inside]
    order = np.argsort(before, kind="stable")
    before, after = before[order], after[order]
    start = int(before[0])
    came: dict[int, int] = {}
    edge = [start]
    while edge:
        reached: list[int] = []
        for node in edge:
            a, b = np.searchsorted(before, (node, node + 1))
            for other in after[a:b].tolist():
                if other == start:
                    path = [node]
                    while path[-1] != start:
                        path.append(came[path[-1]])
                    return path[::-1]
                if other not in came:
                    came[other] = node
                    reached.append(other)
        edge = reached
    return [start]
