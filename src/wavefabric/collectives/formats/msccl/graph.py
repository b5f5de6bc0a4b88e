"""What runs after what in an MSCCL algorithm: pairs of sends and receives, an order of steps."""

from __future__ import annotations

import numpy as np

from wavefabric.collectives.formats.msccl.format import CHANNELS, RECEIVES, SENDS, Algorithm
from wavefabric.errors import InputError


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


def run_order(algorithm: Algorithm, senders: np.ndarray) -> list[int]:
    """All steps (rows) in an order that they may run in, receives as soon after their sends as can be.

    The algorithm has no deadlock (see `wavefabric.collectives.formats.msccl.deadlock`).
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
