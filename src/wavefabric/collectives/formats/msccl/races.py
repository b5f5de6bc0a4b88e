"""Two steps on a GPU that touch the same chunk must have an order."""

from __future__ import annotations

import numpy as np

from wavefabric.collectives.formats.msccl.buffers import hazards, touches
from wavefabric.collectives.formats.msccl.format import Algorithm
from wavefabric.collectives.formats.msccl.graph import run_order, waited
from wavefabric.errors import InputError

#: Numbers held at once.
_AT_ONCE = 50_000_000


def check_races(algorithm: Algorithm, senders: np.ndarray) -> None:
    """Refuse two steps that touch a chunk, one of them writing, of which nothing says which is first.

    Parameters
    ----------
    algorithm : Algorithm
        Without deadlock.
    senders : ndarray
        What `match` returns.

    Raises
    ------
    InputError
        Naming both.

    Notes
    -----
    A step comes after the one before it in its block, the one that it waits for, and if it receives, the
    send; and after all that come before those (vector clocks: Fidge 1988, Mattern 1989).
    """
    steps = algorithm.steps
    order = run_order(algorithm, senders)
    time = np.empty(steps.size, np.int64)
    time[order] = np.arange(steps.size)
    found = touches(algorithm)
    later, earlier = hazards(found.chunk, time[found.row], found.writes)
    pairs = np.unique(np.stack((found.row[later], found.row[earlier])), axis=1)
    pairs = pairs[:, steps["block"][pairs[0]] != steps["block"][pairs[1]]]
    open_ = _not_waited(algorithm, pairs)
    columns = np.unique(steps["block"][open_[1]])
    width = max(1, _AT_ONCE // max(1, steps.size))
    for first in range(0, columns.size, width):
        part = columns[first : first + width]
        clocks = _clocks(algorithm, senders, order, part)
        mine = np.isin(steps["block"][open_[1]], part)
        a, b = open_[:, mine]
        known = clocks[a, np.searchsorted(part, steps["block"][b])]
        racing = np.flatnonzero(known < steps["s"][b])
        if racing.size:
            one, other = algorithm.step_name(int(b[racing[0]])), algorithm.step_name(int(a[racing[0]]))
            raise InputError(
                f"{one} and {other} touch the same chunk in any order; allowed: one after the other"
            )


def _not_waited(algorithm: Algorithm, pairs: np.ndarray) -> np.ndarray:
    """Pairs whose order does not follow from what the later step's block itself has waited for by then."""
    steps = algorithm.steps
    target = waited(algorithm)
    rows = np.flatnonzero(target >= 0)
    known: dict[tuple[int, int], int] = {}
    at = 0
    block, number = steps["block"].tolist(), steps["s"].tolist()
    waits = list(zip(rows.tolist(), target[rows].tolist(), strict=True))
    keep = []
    for later, earlier in zip(*pairs.tolist(), strict=True):  # in the order of `later`
        while at < len(waits) and waits[at][0] <= later:
            row, other = waits[at]
            key = block[row], block[other]
            known[key] = max(known.get(key, -1), number[other])
            at += 1
        keep.append(known.get((block[later], block[earlier]), -1) < number[earlier])
    return pairs[:, np.array(keep, bool)]


def _clocks(algorithm: Algorithm, senders: np.ndarray, order: list[int], blocks: np.ndarray) -> np.ndarray:
    """Number of the last step of each of `blocks` that comes before each step: shape (steps, blocks)."""
    steps = algorithm.steps
    clocks = np.full((steps.size, blocks.size), -1, np.int16)
    column = np.full(len(algorithm.blocks), -1)
    column[blocks] = np.arange(blocks.size)
    own, number = column[steps["block"]].tolist(), steps["s"].tolist()
    others = np.stack((waited(algorithm), senders), axis=1).tolist()
    for row in order:
        clock = clocks[row]
        if number[row]:
            np.copyto(clock, clocks[row - 1])
            if own[row - 1] >= 0:
                clock[own[row - 1]] = number[row - 1]
        for other in others[row]:
            if other >= 0:
                np.maximum(clock, clocks[other], out=clock)
                if own[other] >= 0:
                    clock[own[other]] = max(clock[own[other]], number[other])
    return clocks
