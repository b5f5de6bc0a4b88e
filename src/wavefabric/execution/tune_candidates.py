"""Candidates of a tuning: every algorithm of the registry with its options, schedules that are equal once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256

import numpy as np

from wavefabric.collectives import ALGORITHMS, Schedule, build, verify, why_refused
from wavefabric.collectives.structure import transfer_elements
from wavefabric.collectives.tuning import Choice, refused
from wavefabric.execution.run_schedule import as_run

#: Pieces that are tried where an algorithm is pipelined by them.
PIECES = (1, 4, 16)


def candidates(
    collective: str, ranks: int, run: bool = False, step: Callable[[str], None] = lambda line: None
) -> Iterator[tuple[Choice, Schedule]]:
    """Every algorithm that does a collective operation between so many ranks, with what chooses it.

    Those of `choices`, but for pieces that make no pipeline. Schedules in which the same ranks send each
    other as much in the same rounds are there once, under the name with fewest options. With ``run`` rounds
    are those of `wavefabric.exchange` (`run_schedule.as_run`). All are proved, and for an array of
    `elements_of` elements. ``step`` is told of each.
    """
    rounds: dict[Choice, int] = {}
    seen: set[bytes] = set()
    no_pipeline: set[Choice] = set()
    for choice in choices(collective, ranks):
        step(f"{collective}: {choice}")
        plain = replace(choice, pieces=1)
        if plain in no_pipeline:
            continue
        proved = schedule = None  # before the next is built: each may take 0.5 GB
        proved = schedule = build_choice(choice, collective, ranks, elements_of(ranks))
        schedule = as_run(schedule) if run else schedule
        if choice == plain:
            rounds[plain] = schedule.communication_rounds
        elif schedule.communication_rounds == rounds[plain]:
            no_pipeline.add(plain)
            continue
        if (key := _traffic(schedule)) not in seen:
            seen.add(key)
            verify(proved)
            yield choice, schedule


def choices(collective: str, ranks: int) -> list[Choice]:
    """What the registry allows of radix 2, 4, 8, … and the ranks, and of `PIECES`; fewest options first."""
    radices = [*(1 << k for k in range(1, ranks.bit_length()) if 1 << k < ranks), max(2, ranks)]
    named = [
        Choice(name, radix, pieces)
        for name, algorithm in ALGORITHMS.items()
        if collective in algorithm.collectives
        for radix in (radices if "radix" in algorithm.options else (None,))
        for pieces in (PIECES if "pieces" in algorithm.options else (1,))
    ]
    allowed = [choice for choice in named if refused(choice, collective, ranks) is None]
    # Sorting keeps the order of the registry among equals.
    return sorted(allowed, key=lambda choice: (choice.pieces, choice.radix or 0))


def left_out(collective: str, ranks: int) -> dict[str, str]:
    """Algorithms that do a collective operation, but not between so many ranks with any option, and why."""
    allowed = {choice.algorithm for choice in choices(collective, ranks)}
    return {
        name: str(why_refused(name, collective, ranks))
        for name, algorithm in ALGORITHMS.items()
        if collective in algorithm.collectives and name not in allowed
    }


def elements_of(ranks: int) -> int:
    """Elements of an array that all candidates cut evenly."""
    return 2 * ranks * max(PIECES)


def build_choice(choice: Choice, collective: str, ranks: int, elements: int) -> Schedule:
    """The schedule of a choice."""
    return build(choice.algorithm, collective, ranks, elements, radix=choice.radix, pieces=choice.pieces)


def _traffic(schedule: Schedule) -> bytes:
    """Digest of what is sent from whom to whom in each round, whatever the order within it."""
    t, columns = schedule.transfers, ("round", "src", "dst", "reduce")
    rows = np.stack([*(t[name].astype(np.int64) for name in columns), transfer_elements(schedule)])
    return sha256(np.take(rows, np.lexsort(rows[::-1]), axis=1).tobytes()).digest()
