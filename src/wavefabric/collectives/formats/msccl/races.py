"""Two steps on a GPU that touch the same chunk must have an order."""

from __future__ import annotations

import numpy as np

from wavefabric.collectives.formats.msccl.buffers import touches
from wavefabric.collectives.formats.msccl.format import MscclAlgorithm
from wavefabric.collectives.formats.msccl.graph import run_order, waited_steps
from wavefabric.collectives.levels import hazards
from wavefabric.errors import InputError

#: Numbers held at once.
_AT_ONCE = 50_000_000


def check_races(algorithm: MscclAlgorithm, senders: np.ndarray) -> None:
    """Refuse two steps that touch a chunk, one of them writing, of which nothing says which is first.

    A step comes after the one before it in its block, the one that it waits for, and if it receives, the
    send; and after all that come before those (vector clocks: Fidge 1988, Mattern 1989).
    """
    steps = algorithm.steps
    order = run_order(algorithm, senders)
    time = np.empty(steps.size, np.int64)
    time[order] = np.arange(steps.size)
    touched = touches(algorithm)
    later, earlier = hazards(touched.chunk, time[touched.row], touched.writes)
    pairs = np.unique(np.stack((touched.row[later], touched.row[earlier])), axis=1)
    pairs = pairs[:, steps["block"][pairs[0]] != steps["block"][pairs[1]]]
    pairs = _not_waited(algorithm, pairs)
    columns = np.unique(steps["block"][pairs[1]])
    width = max(1, _AT_ONCE // max(1, steps.size))
    for first in range(0, columns.size, width):
        part = columns[first : first + width]
        clocks = _clocks(algorithm, senders, order, part)
        a, b = pairs[:, np.isin(steps["block"][pairs[1]], part)]
        known = clocks[a, np.searchsorted(part, steps["block"][b])]
        racing = np.flatnonzero(known < steps["s"][b])
        if racing.size:
            one, other = (algorithm.step_name(int(rows[racing[0]])) for rows in (b, a))
            raise InputError(
                f"{one} and {other} touch the same chunk in any order; allowed: one after the other"
            )


def _not_waited(algorithm: MscclAlgorithm, pairs: np.ndarray) -> np.ndarray:
    """Pairs whose order does not follow from what the later step's block itself has waited for by then."""
    waited = waited_steps(algorithm)
    rows = np.flatnonzero(waited >= 0)
    waits = list(zip(rows.tolist(), waited[rows].tolist(), strict=True))
    block, number = algorithm.steps["block"].tolist(), algorithm.steps["s"].tolist()
    last: dict[tuple[int, int], int] = {}
    keep, at = [], 0
    for later, earlier in zip(*pairs.tolist(), strict=True):  # in the order of `later`
        while at < len(waits) and waits[at][0] <= later:
            row, other = waits[at]
            key = block[row], block[other]
            last[key] = max(last.get(key, -1), number[other])
            at += 1
        keep.append(last.get((block[later], block[earlier]), -1) < number[earlier])
    return pairs[:, np.array(keep, bool)]


def _clocks(
    algorithm: MscclAlgorithm, senders: np.ndarray, order: list[int], blocks: np.ndarray
) -> np.ndarray:
    """Number of the last step of each of `blocks` that comes before each step: shape (steps, blocks)."""
    steps = algorithm.steps
    clocks = np.full((steps.size, blocks.size), -1, np.int16)
    column = np.full(len(algorithm.blocks), -1)
    column[blocks] = np.arange(blocks.size)
    own, number = column[steps["block"]].tolist(), steps["s"].tolist()
    others = np.stack((waited_steps(algorithm), senders), axis=1).tolist()
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
