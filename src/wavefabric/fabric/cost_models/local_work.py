"""What GPUs and hosts do at the ends of transfers: GPUs reduce what arrived, hosts issue commands."""

from __future__ import annotations

import numpy as np

from wavefabric.collectives.schedule import Schedule
from wavefabric.fabric.electrical.fabric import Fabric


def reduction_times(
    schedule: Schedule, fabric: Fabric, size: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rounds in which GPUs reduce or copy within themselves, and for each the GPU that needs most.

    A transfer that reduces arrives next to the chunk and is then added to it; a transfer within a rank is an
    addition or a copy. A GPU does one after the other (`Fabric.reduce_alpha`, `Fabric.reduce_bandwidth`).

    Returns
    -------
    rounds : ndarray of int
        Empty if the fabric takes no time for it.
    latency, seconds : ndarray, shape (rounds,)
        s of that GPU: of `reduce_alpha` alone, and of the bytes.
    gpu : ndarray of int, shape (rounds,)
    """
    t, none = schedule.transfers, np.zeros(0, np.int64)
    mine = np.flatnonzero(t["reduce"] | (t["src"] == t["dst"]))
    if fabric.reduce_bandwidth is None or not mine.size:
        return none, none.astype(float), none.astype(float), none
    rounds, row = np.unique(t["round"][mine], return_inverse=True)
    cell, shape = row * schedule.ranks + t["dst"][mine], (rounds.size, schedule.ranks)
    length = rounds.size * schedule.ranks
    latency = fabric.reduce_alpha * np.bincount(cell, minlength=length).reshape(shape)
    seconds = np.bincount(cell, size[mine] / fabric.reduce_bandwidth, length).reshape(shape)
    gpu = (latency + seconds).argmax(axis=1)
    at = np.arange(rounds.size), gpu
    return rounds, latency[at], seconds[at], gpu


def issue_time(schedule: Schedule, fabric: Fabric) -> tuple[float, int]:
    """The least time that hosts need to issue a schedule, s, and the GPU whose host needs most.

    `Fabric.round_overhead` for each round in which a GPU sends to or receives from another,
    `Fabric.peer_overhead` for each further GPU that it sends to in the round, and `Fabric.reduce_overhead`
    for each addition or copy.
    """
    t, ranks = schedule.transfers, schedule.ranks
    if not t.size or not (fabric.round_overhead or fabric.peer_overhead or fabric.reduce_overhead):
        return 0.0, 0
    remote = t["src"] != t["dst"]
    number, src, dst = (t[key][remote].astype(np.int64) for key in ("round", "src", "dst"))
    peers = np.unique((number * ranks + src) * ranks + dst) // ranks
    sending = np.unique(peers)
    taking_part = np.union1d(sending, number * ranks + dst)
    local = t["reduce"] | ~remote
    seconds = fabric.round_overhead * np.bincount(taking_part % ranks, minlength=ranks)
    further = np.bincount(peers % ranks, minlength=ranks) - np.bincount(sending % ranks, minlength=ranks)
    seconds += fabric.peer_overhead * further
    seconds += fabric.reduce_overhead * np.bincount(t["dst"][local], minlength=ranks)
    return float(seconds.max()), int(seconds.argmax())
