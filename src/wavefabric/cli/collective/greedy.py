"""`collective make greedy`: messages of a file packed into rounds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wavefabric.cli.collective.algorithm import AlgorithmOptions
from wavefabric.cli.common.files import read_rows
from wavefabric.errors import InputError

if TYPE_CHECKING:
    from wavefabric.collectives import Schedule


def greedy_schedule(
    collective: str | None, options: AlgorithmOptions, messages: Path | None, lasers: int | None, seed: int
) -> Schedule:
    """The schedule of a list of messages, proved."""
    from wavefabric.collectives import verify
    from wavefabric.collectives.arguments import MOST_RANKS
    from wavefabric.collectives.builders.messages import greedy

    if collective is not None:
        raise InputError(f"COLLECTIVE: {collective} given with greedy; allowed: --messages FILE instead")
    if messages is None:
        raise InputError("--messages: none given with greedy; allowed: a JSON list of [src, dst, elements]")
    for name in options.given():
        if name != "--ranks":
            raise InputError(f"{name}: given with greedy; allowed: --ranks, --messages, --lasers, --seed")
    rows = read_rows(messages, "--messages", "[src, dst, elements]")
    ranks = options.ranks or 1 + max((max(src, dst) for src, dst, _ in rows), default=0)
    if ranks > MOST_RANKS:
        raise InputError(f"--ranks: {ranks} given; allowed: 1 to {MOST_RANKS}")
    schedule = greedy(ranks, rows, 1 if lasers is None else lasers, seed)
    verify(schedule)
    return schedule
