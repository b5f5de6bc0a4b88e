"""What runs after what in an MSCCL algorithm: pairs of sends and receives, an order of steps."""

from __future__ import annotations

import numpy as np

from wavefabric.collectives.formats.msccl.format import CHANNELS, RECEIVES, SENDS, MscclAlgorithm
from wavefabric.errors import InputError


def connections(algorithm: MscclAlgorithm, send: bool) -> np.ndarray:
    """Number of the connection (sender, receiver, channel) that each step sends on (or receives from)."""
    blocks = algorithm.blocks[algorithm.steps["block"]]
    gpu, peer = blocks["gpu"].astype(np.int64), blocks["send" if send else "recv"].astype(np.int64)
    source, target = (gpu, peer) if send else (peer, gpu)
    return (source * algorithm.gpus + target) * CHANNELS + blocks["chan"]


def match(algorithm: MscclAlgorithm) -> np.ndarray:
    """Row of the send that each receive takes, −1 for other steps: the k-th on a connection belong together.

    Refused are connections with more of one than of the other, and pairs that differ in `cnt`.
    """
    kind = algorithm.steps["type"]
    rows, keys = [], []
    for send, chosen in ((True, SENDS[kind]), (False, RECEIVES[kind])):
        row = np.flatnonzero(chosen)
        key = connections(algorithm, send)[row]
        order = np.argsort(key, kind="stable")
        rows.append(row[order])
        keys.append(key[order])
    (sent, received), (a, b) = rows, keys
    if a.size != b.size or (a != b).any():
        for key in np.union1d(a, b).tolist():
            sends, receives = int((a == key).sum()), int((b == key).sum())
            if sends != receives:
                pair, chan = divmod(key, CHANNELS)
                source, target = divmod(pair, algorithm.gpus)
                where = f"gpu {source} to gpu {target} on channel {chan}"
                raise InputError(f"{where}: {sends} sends, {receives} receives; allowed: as many of both")
    counts = algorithm.steps["cnt"]
    wrong = np.flatnonzero(counts[sent] != counts[received])
    if wrong.size:
        s, r = int(sent[wrong[0]]), int(received[wrong[0]])
        given = f"{counts[s]}, received by {algorithm.step_name(r)} with {counts[r]}"
        raise InputError(f"{algorithm.step_name(s)} cnt: {given}; allowed: the same")
    senders = np.full(kind.size, -1, np.int64)
    senders[received] = sent
    return senders


def waited_steps(algorithm: MscclAlgorithm) -> np.ndarray:
    """Row of the step that each step waits for by `depid` and `deps`, −1 for none: shape (steps,)."""
    steps, blocks = algorithm.steps, algorithm.blocks
    first_block = np.searchsorted(blocks["gpu"], np.arange(algorithm.gpus))
    first_step = np.searchsorted(steps["block"], np.arange(len(blocks) + 1))
    waits = steps["depid"] >= 0
    block = first_block[blocks["gpu"][steps["block"][waits]]] + steps["depid"][waits]
    waited = np.full(steps.size, -1, np.int64)
    waited[waits] = first_step[block] + steps["deps"][waits]
    return waited


def run_order(algorithm: MscclAlgorithm, senders: np.ndarray) -> list[int]:
    """All steps (rows) of an algorithm without deadlock in an order that they may run in.

    Receives come as soon after their sends as can be.
    """
    steps = algorithm.steps
    following: list[list[int]] = [[] for _ in range(steps.size)]
    left = np.zeros(steps.size, np.int64)
    same_block = np.flatnonzero(np.diff(steps["block"]) == 0)
    edges = [(same_block, same_block + 1)]
    edges += [(b[b >= 0], np.flatnonzero(b >= 0)) for b in (waited_steps(algorithm), senders)]
    for before, after in edges:
        np.add.at(left, after, 1)
        for a, b in zip(before.tolist(), after.tolist(), strict=True):
            following[a].append(b)
    urgency = np.where(senders >= 0, 0, np.where(SENDS[steps["type"]], 1, 2)).tolist()
    ready: tuple[list[int], ...] = ([], [], [])
    for row in np.flatnonzero(left == 0)[::-1].tolist():
        ready[urgency[row]].append(row)
    missing = left.tolist()
    order: list[int] = []
    while any(ready):
        row = next(rows for rows in ready if rows).pop()
        order.append(row)
        for other in following[row]:
            missing[other] -= 1
            if not missing[other]:
                ready[urgency[other]].append(other)
    return order
