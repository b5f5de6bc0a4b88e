"""Whether thread blocks of an MSCCL algorithm wait for one another in a circle, and from which size on.

A connection's buffer has a fixed number of slots (NCCL_STEPS), and a message takes one or several of them
however small it is. A step that moves ``cnt`` chunks puts as many of them in a message as fit, so the same
algorithm needs more slots for a larger array. Sources: github.com/microsoft/msccl, src/enqueue.cc
(`mscclMaxAllowedCount`), src/collectives/device/msccl_interpreter.h, prims_simple.h, prims_ll.h.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from wavefabric.collectives.arguments import ragged
from wavefabric.collectives.formats.msccl.format import (
    COUNT,
    MESSAGE_BYTES,
    RECEIVES,
    SENDS,
    SLOTS_PER_MESSAGE,
    MscclAlgorithm,
)
from wavefabric.collectives.formats.msccl.graph import connections, waited_steps
from wavefabric.errors import InputError

#: Steps of a circle that an error names.
_NAMED = 6


def runs_up_to(algorithm: MscclAlgorithm, senders: np.ndarray, slots: int) -> int | None:
    """Bytes of the largest array with which no steps wait for one another in a circle; None: any; 0: none.

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


def check_deadlock(algorithm: MscclAlgorithm, senders: np.ndarray, slots: int) -> int | None:
    """Refuse an algorithm that hangs with an array of a size that it is for; returns `runs_up_to`."""
    proto, low, chunks = algorithm.proto, algorithm.min_bytes, max(1, algorithm.chunks)
    each = SLOTS_PER_MESSAGE[proto]
    if slots < each:
        raise InputError(f"slots: {slots}; allowed: from {each}, what a message takes under {proto}")
    most = runs_up_to(algorithm, senders, slots)
    # Without a largest size it is not said that it should run with more than the smallest.
    top = algorithm.max_bytes if algorithm.declared else max(1, low)
    if most is None or (top is not None and top <= most):
        return most
    chunk = -(-max(low, most + 1) // chunks)
    together = max(1, min(COUNT, MESSAGE_BYTES[proto] // chunk))
    rows = find_circle(algorithm, senders, slots, together)
    named = " → ".join(algorithm.step_name(row) for row in rows[:_NAMED])
    more = f" → {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
    room = f"{slots} slots a connection, {each} a message under {proto}"
    allowed = "no such circle"
    if most:
        sizes = f"{low} to {top}" if algorithm.declared else f"{top} and more"
        room += f", above {most} bytes of the {'any size' if top is None else sizes} that it is for"
        allowed += f", or maxBytes to {most}" if most >= low else ""
    raise InputError(f"deadlock with {room}: {named}{more} → back to the first; allowed: {allowed}")


def find_circle(algorithm: MscclAlgorithm, senders: np.ndarray, slots: int, together: int) -> list[int]:
    """Steps (rows) that wait for one another in a circle with so many chunks a message; empty if none do.

    A node is a message of a step that sends or receives, or another step. One comes after the one before it
    in its block, after the last of the step that it waits for, a receive after its send, and, if n messages
    fit the buffer, a send after the receive of n messages before.
    """
    steps = algorithm.steps
    if not steps.size:
        return []
    depth = slots // SLOTS_PER_MESSAGE[algorithm.proto]
    kind = steps["type"]
    count = -(-steps["cnt"].astype(np.int64) // together)
    messages = np.where(SENDS[kind] | RECEIVES[kind], count, 1)
    first = np.concatenate(([0], np.cumsum(messages)))

    def nodes_of(rows: np.ndarray) -> np.ndarray:
        row, within = ragged(messages[rows])
        return first[rows][row] + within

    block = np.repeat(steps["block"], messages)
    follows = np.flatnonzero(block[1:] == block[:-1])
    waited = waited_steps(algorithm)
    waits = np.flatnonzero(waited >= 0)
    # Messages in the order of their connections: the n-th sent is the n-th received.
    received = np.flatnonzero(senders >= 0)
    key = connections(algorithm, False)[received]
    received = received[np.argsort(key, kind="stable")]
    take, give = nodes_of(received), nodes_of(senders[received])
    line = np.repeat(np.sort(key), messages[received])
    late = np.flatnonzero(line[depth:] == line[:-depth]) if line.size > depth else np.zeros(0, np.int64)
    before = np.concatenate((follows, first[waited[waits] + 1] - 1, give, take[late]))
    after = np.concatenate((follows + 1, first[waits], take, give[late + depth]))
    nodes = int(first[-1])
    graph = csr_array((np.ones(before.size, np.int8), (before, after)), (nodes, nodes))
    _, part = connected_components(graph, connection="strong")
    inside = part[before] == part[after]
    if not inside.any():
        return []
    step_of = np.repeat(np.arange(steps.size), messages)
    return list(dict.fromkeys(step_of[_circle(graph, int(before[inside].min()))].tolist()))


def _circle(graph: csr_array, start: int) -> list[int]:
    """A shortest circle of nodes through one that is on a circle."""
    order, previous = breadth_first_order(graph, start)
    leads_back = np.isin(order, graph[:, [start]].nonzero()[0])
    path = [int(order[leads_back][0])]
    while path[-1] != start:
        path.append(int(previous[path[-1]]))
    return path[::-1]
