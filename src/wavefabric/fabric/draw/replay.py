"""Computes which fraction of its result each rank has after every round of a schedule, for pictures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wavefabric.collectives.conditions import kind
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.structure import batches, moves
from wavefabric.collectives.verify import ChunkState


@dataclass(frozen=True)
class Replay:
    """Holds how much of its result each rank has, round by round."""

    collective: str  # see `wavefabric.collectives.conditions.kind`
    numbers: np.ndarray  # rounds with transfers, ascending; need not be consecutive
    #: Fraction of its result, by elements, that each rank has before each of these rounds and at the end; a
    #: partial sum counts by its terms. NaN for a rank without a postcondition. Shape (rounds + 1, ranks).
    levels: np.ndarray
    gathering: np.ndarray  # whether all data sent in a round are complete sums

    def before(self, round: int) -> np.ndarray:
        """Return the fraction of its result that each rank has before a round, shape (ranks,)."""
        return self.levels[np.searchsorted(self.numbers, round)]

    def phase(self, round: int) -> str:
        """Return a description of what a round with transfers does."""
        if self.collective != "all-reduce":
            return self.collective if self.collective != "custom" else "messages"
        return "gathering sums" if self.gathering[np.searchsorted(self.numbers, round)] else "adding up"


def replay(schedule: Schedule) -> Replay:
    """Return how much of its result each rank has before each round of a verified schedule.

    For each piece of the result the most complete sum that a rank has held so far counts, in any buffer.
    """
    m, t, ranks = moves(schedule), schedule.transfers, np.arange(schedule.ranks)
    state, src, dst = ChunkState(schedule, m), m.src, m.dst
    size = np.concatenate([s.ravel() for s in schedule.sizes])
    owner = np.concatenate([np.repeat(ranks, s.shape[1]) for s in schedule.sizes])
    known = (*schedule.pre.values(), *schedule.post.values())
    names = np.unique(np.array([item for item, _ in known], np.int64))  # any numbers below 2^63
    # Final result: elements per rank and item (a key), and the item's number of origins.
    chunk, items, origins = state.table(schedule.post)
    item = np.searchsorted(names, items)
    keys, key = np.unique(owner[chunk] * names.size + item, return_inverse=True)
    rank, weight = keys // max(names.size, 1), np.bincount(key, size[chunk], keys.size)
    needed, full, held = np.zeros(keys.size, int), np.zeros(names.size, int), np.zeros(keys.size, int)
    np.maximum.at(needed, key, _count(origins))
    np.maximum.at(full, item, _count(origins))
    total = np.bincount(rank, weight, ranks.size)
    levels = []

    def note(chunk: np.ndarray) -> None:
        """Append to ``levels`` the fraction that each rank has after the chunks ``chunk`` were written."""
        mine = owner[chunk] * names.size + np.searchsorted(names, state.item[chunk])
        wanted = np.isin(mine, keys)
        np.maximum.at(held, np.searchsorted(keys, mine[wanted]), _count(state.origins[chunk[wanted]]))
        fraction = np.minimum(held / np.maximum(needed, 1), 1)
        with np.errstate(invalid="ignore", divide="ignore"):
            levels.append(np.bincount(rank, fraction * weight, ranks.size) / total)

    note(state.table(schedule.pre)[0])
    gathering: list[bool] = []
    rounds, remote = t["round"][m.transfer], (t["src"] != t["dst"])[m.transfer]
    for first, last in batches(rounds):
        sent = src[first:last][remote[first:last]]
        complete = _count(state.origins[sent]) >= full[np.searchsorted(names, state.item[sent])]
        gathering.append(bool(complete.all()))
        state.play(first, last)
        note(dst[first:last])
    return Replay(kind(schedule)[0], np.unique(rounds), np.array(levels), np.array(gathering, bool))


#: Number of ranks in each of several bit masks.
_count = np.vectorize(int.bit_count, otypes=[np.int64])
