"""Exchanges from whose times the numbers of a fabric follow."""

from __future__ import annotations

import numpy as np

from wavefabric.collectives import TRANSFER, Schedule, point_to_point

#: Exchanges of one level between all ranks.
PATTERNS = ("ring", "both", "one-to-all", "all-to-one", "all-to-all")


def pattern(name: str, ranks: int, elements: int) -> Schedule:
    """A pattern of `PATTERNS`, ``elements`` a message; nobody sends to itself."""
    everybody = range(ranks)
    pairs = {
        "ring": [(r, (r + 1) % ranks) for r in everybody],
        "both": [(r, (r + step) % ranks) for step in (1, -1) for r in everybody],
        "one-to-all": [(0, r) for r in everybody[1:]],
        "all-to-one": [(r, 0) for r in everybody[1:]],
        "all-to-all": [(r, (r + step) % ranks) for step in everybody[1:] for r in everybody],
    }[name]
    return point_to_point(name, ranks, [(a, b, elements) for a, b in pairs])


def pair(ranks: int, src: int, dst: int, elements: int) -> Schedule:
    """One message; everybody else is idle."""
    return point_to_point("pair", ranks, [(src, dst, elements)])


def relay(ranks: int, elements: int, rounds: int) -> Schedule:
    """In each round every rank sends `elements` to the next, those that it received in the round before.

    One buffer of rounds + 1 chunks; `pre` and `post` are empty.
    """
    return _chain("relay", ranks, elements, rounds, 1)


def additions(ranks: int, elements: int, rounds: int) -> Schedule:
    """In each round every rank adds the chunk that it added to in the round before to another."""
    return _chain("additions", ranks, elements, rounds, 0)


def _chain(name: str, ranks: int, elements: int, rounds: int, ahead: int) -> Schedule:
    step, rank = (a.ravel() for a in np.indices((rounds, ranks)))
    transfers = np.zeros(step.size, TRANSFER)
    transfers["round"], transfers["src"], transfers["dst"] = step, rank, (rank + ahead) % ranks
    transfers["src_chunk"], transfers["dst_chunk"] = step, step + 1
    transfers["count"], transfers["reduce"] = 1, ahead == 0
    sizes = np.full((ranks, rounds + 1), elements, np.int64)
    return Schedule(name, ranks, ("data",), (sizes,), transfers, {}, {})


def busiest(schedule: Schedule) -> int:
    """Elements that the busiest rank sends, or receives, between ranks; of transfers of one chunk each."""
    t = schedule.transfers[schedule.transfers["src"] != schedule.transfers["dst"]]
    sizes = np.array([schedule.sizes[b][r, c] for b, r, c in t[["src_buffer", "src", "src_chunk"]].tolist()])
    return int(max(np.bincount(t[end], sizes, minlength=1).max() for end in ("src", "dst")))
