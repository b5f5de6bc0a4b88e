"""What runs after what in an MSCCL algorithm: pairs of sends and receives, deadlocks, an order of steps."""

from __future__ import annotations

import numpy as np

from wavefabric.collectives.arguments import ragged
from wavefabric.collectives.msccl.format import (
    CHANNELS,
    RECEIVES,
    SENDS,
    SLOTS_PER_CHUNK,
    Algorithm,
)
from wavefabric.errors import InputError

#: Steps of a cycle that an error names.
_NAMED = 6


def connections(algorithm: Algorithm, send: bool) -> np.ndarray:
    """Number of the connection (sender, receiver, channel) that each step sends on (or receives from)."""
    blocks = algorithm.blocks[algorithm.steps["block"]]
    gpu, peer = blocks["gpu"].astype(np.int64), blocks["send" if send else "recv"].astype(np.int64)
    source, target = (gpu, peer) if send else (peer, gpu)
    return (source * algorithm.gpus + target) * CHANNELS + blocks["chan"]


def connection_name(algorithm: Algorithm, number: int) -> str:
    """A connection in words."""
    pair, chan = divmod(int(number), CHANNELS)
    source, target = divmod(pair, algorithm.gpus)
    return f"gpu {source} to gpu {target} on channel {chan}"


def match(algorithm: Algorithm) -> np.ndarray:
    """Which send each receive takes: the k-th on a connection belong together.

    Returns
    -------
    ndarray of int64, shape (steps,)
        Row of the step that sends, -1 for steps that do not receive.

    Raises
    ------
    InputError
        If a connection has more of one than of the other, or two that belong together differ in `cnt`.
    """
    kind = algorithm.steps["type"]
    rows = []
    keys = []
    for send, chosen in ((True, SENDS[kind]), (False, RECEIVES[kind])):
        found = np.flatnonzero(chosen)
        key = connections(algorithm, send)[found]
        order = np.argsort(key, kind="stable")
        rows.append(found[order])
        keys.append(key[order])
    (sent, received), (a, b) = rows, keys
    if a.size != b.size or (a != b).any():
        for key in np.union1d(a, b).tolist():
            sends, receives = int((a == key).sum()), int((b == key).sum())
            if sends != receives:
                where = connection_name(algorithm, key)
                raise InputError(f"{where}: {sends} sends, {receives} receives; allowed: as many of both")
    counts = algorithm.steps["cnt"]
    wrong = np.flatnonzero(counts[sent] != counts[received])
    if wrong.size:
        s, r = int(sent[wrong[0]]), int(received[wrong[0]])
        given = f"{counts[s]}, received by {algorithm.step_name(r)} with {counts[r]}"
        raise InputError(f"{algorithm.step_name(s)} cnt: {given}; allowed: the same")
    found = np.full(kind.size, -1, np.int64)
    found[received] = sent
    return found


def waited(algorithm: Algorithm) -> np.ndarray:
    """Row of the step that each step waits for by `depid` and `deps`, -1 for none: shape (steps,)."""
    steps, blocks = algorithm.steps, algorithm.blocks
    first_block = np.searchsorted(blocks["gpu"], np.arange(algorithm.gpus))
    first_step = np.searchsorted(steps["block"], np.arange(len(blocks) + 1))
    waits = steps["depid"] >= 0
    found = np.full(steps.size, -1, np.int64)
    block = first_block[blocks["gpu"][steps["block"][waits]]] + steps["depid"][waits]
    found[waits] = first_step[block] + steps["deps"][waits]
    return found


def check_deadlock(algorithm: Algorithm, senders: np.ndarray, slots: int) -> None:
    """Refuse steps that wait for one another in a circle.

    Parameters
    ----------
    algorithm : Algorithm
    senders : ndarray
        What `match` returns.
    slots : int
        Of a connection's buffer (NCCL_STEPS, 8). A chunk takes 4 under Simple, 1 otherwise; large messages
        move chunk by chunk, so a step with ``cnt`` c fills that many times c.

    Raises
    ------
    InputError
        Naming steps of a circle, or if `slots` do not hold a chunk.

    Notes
    -----
    A node is a chunk of a step that sends or receives, or another step. One comes after the one before it in
    its thread block, after the last of the step that it waits for, a receive after its send, and, if n chunks
    fit the buffer, a send after the receive of n chunks before.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    steps = algorithm.steps
    if not steps.size:
        return
    each = SLOTS_PER_CHUNK[algorithm.proto]
    depth = slots // each
    if depth < 1:
        raise InputError(f"slots: {slots}; allowed: from {each}, what a chunk takes under {algorithm.proto}")
    kind = steps["type"]
    chunks = np.where(SENDS[kind] | RECEIVES[kind], steps["cnt"], 1).astype(np.int64)
    first = np.concatenate(([0], np.cumsum(chunks)))
    nodes = int(first[-1])
    block = np.repeat(steps["block"], chunks)
    follows = np.flatnonzero(block[1:] == block[:-1])
    edges = [(follows, follows + 1)]
    dep = waited(algorithm)
    waits = np.flatnonzero(dep >= 0)
    edges.append((first[dep[waits] + 1] - 1, first[waits]))
    # Chunks in the order of their connections: the n-th sent is the n-th received.
    received = np.flatnonzero(senders >= 0)
    key = connections(algorithm, False)[received]
    received = received[np.argsort(key, kind="stable")]
    take, give = _spread(first, received, chunks), _spread(first, senders[received], chunks)
    edges.append((give, take))
    line = np.repeat(np.sort(key), chunks[received])
    late = np.flatnonzero(line[depth:] == line[:-depth]) if line.size > depth else np.zeros(0, np.int64)
    edges.append((take[late], give[late + depth]))
    before, after = (np.concatenate([e[side] for e in edges]) for side in (0, 1))
    graph = coo_array((np.ones(before.size, np.int8), (before, after)), (nodes, nodes)).tocsr()
    parts, part = connected_components(graph, connection="strong")
    if parts == nodes and not (before == after).any():
        return
    step_of = np.repeat(np.arange(steps.size), chunks)
    circle = _circle(before, after, part)
    rows: list[int] = []
    for node in circle:
        row = int(step_of[node])
        if row not in rows:
            rows.append(row)
    named = " → ".join(algorithm.step_name(row) for row in rows[:_NAMED])
    more = f" → {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
    room = f"{slots} slots a connection, {each} a chunk under {algorithm.proto}"
    raise InputError(f"deadlock with {room}: {named}{more} → back to the first; allowed: no such circle")


def _spread(first: np.ndarray, rows: np.ndarray, chunks: np.ndarray) -> np.ndarray:
    """Nodes of all chunks of these steps, one step after the other."""
    count = chunks[rows]
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


def run_order(algorithm: Algorithm, senders: np.ndarray) -> list[int]:
    """All steps (rows) in an order that they may run in, receives as soon after their sends as can be.

    The algorithm has no deadlock (see `check_deadlock`).
    """
    steps = algorithm.steps
    following: list[list[int]] = [[] for _ in range(steps.size)]
    missing = np.zeros(steps.size, np.int64)
    same = np.flatnonzero(np.diff(steps["block"]) == 0)
    for before, after in (
        (same, same + 1),
        *((found[found >= 0], np.flatnonzero(found >= 0)) for found in (waited(algorithm), senders)),
    ):
        np.add.at(missing, after, 1)
        for a, b in zip(before.tolist(), after.tolist(), strict=True):
            following[a].append(b)
    left = missing.tolist()
    kind = steps["type"]
    urgency = np.where(senders >= 0, 0, np.where(SENDS[kind], 1, 2)).tolist()
    ready: tuple[list[int], ...] = ([], [], [])
    for row in np.flatnonzero(missing == 0)[::-1].tolist():
        ready[urgency[row]].append(row)
    order: list[int] = []
    while any(ready):
        row = next(rows for rows in ready if rows).pop()
        order.append(row)
        for other in following[row]:
            left[other] -= 1
            if not left[other]:
                ready[urgency[other]].append(other)
    return order
