"""What each rank holds of the result after every round: the levels in pictures of a schedule."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wavefabric.collectives.conditions import kind
from wavefabric.collectives.schedule import Holdings, Schedule
from wavefabric.collectives.structure import batches, chunk_numbers, moves


@dataclass(frozen=True)
class Replay:
    """Progress of a schedule round by round."""

    collective: str  # see `wavefabric.collectives.conditions.kind`
    numbers: np.ndarray  # rounds that have transfers, ascending: numbers may be left out, and be large
    #: Share of its result, by elements, that each rank holds before each of these rounds and at the end; a
    #: partial sum counts by its terms. NaN for a rank without a postcondition. Shape (rounds + 1, ranks).
    levels: np.ndarray
    gathering: np.ndarray  # whether all that travels in a round is complete: nothing is to be added to it

    def before(self, round: int) -> np.ndarray:
        """The levels before a round, shape (ranks,)."""
        return self.levels[np.searchsorted(self.numbers, round)]

    def phase(self, round: int) -> str:
        """What a round that has transfers does, in words."""
        if self.collective != "all-reduce":
            return self.collective if self.collective != "custom" else "messages"
        return "gathering sums" if self.gathering[np.searchsorted(self.numbers, round)] else "adding up"


def replay(schedule: Schedule) -> Replay:
    """Replay a verified schedule.

    A rank's share of an item is the most that any of its chunks has held so far, scratch included: data that
    wait to be moved to their chunk are there.
    """
    m, t, ranks = moves(schedule), schedule.transfers, np.arange(schedule.ranks)
    size = np.concatenate([s.ravel() for s in schedule.sizes])
    owner = np.concatenate([np.repeat(ranks, s.shape[1]) for s in schedule.sizes])
    names = {name for ends in (schedule.pre, schedule.post) for name, _ in ends.values()}
    index = {name: number for number, name in enumerate(sorted(names))}  # names are any numbers below 2^63
    # What is to be held in the end: of each rank and item (a key) elements, and the number of its origins.
    chunk, items, masks = _table(schedule, schedule.post, index)
    keys, key = np.unique(owner[chunk] * len(names) + items, return_inverse=True)
    rank, weight = keys // max(len(names), 1), np.bincount(key, size[chunk], keys.size)
    needed, full, held = np.zeros(keys.size, int), np.zeros(len(names) + 1, int), np.zeros(keys.size, int)
    np.maximum.at(needed, key, _count(masks))
    np.maximum.at(full, items, _count(masks))
    total = np.bincount(rank, weight, ranks.size)
    levels = []

    def note(chunk: np.ndarray) -> None:
        """Count what these chunks hold now."""
        mine = owner[chunk] * len(names) + item[chunk]
        wanted = np.isin(mine, keys) & (item[chunk] >= 0)
        np.maximum.at(held, np.searchsorted(keys, mine[wanted]), _count(origins[chunk[wanted]]))
        fraction = np.minimum(held / np.maximum(needed, 1), 1)
        with np.errstate(invalid="ignore", divide="ignore"):
            levels.append(np.bincount(rank, fraction * weight, ranks.size) / total)

    chunk, numbers, masks = _table(schedule, schedule.pre, index)
    item = np.full(m.chunks, -1, np.int64)
    origins = np.zeros((m.chunks, masks.shape[1]), np.uint8)
    item[chunk], origins[chunk] = numbers, masks
    note(chunk)
    gathering: list[bool] = []
    rounds, reduces = t["round"][m.transfer], t["reduce"][m.transfer]
    remote = (t["src"] != t["dst"])[m.transfer]
    for first, last in batches(rounds):
        src, dst = m.src[first:last], m.dst[first:last]
        sent, sent_item = origins[src], item[src]
        complete = (sent_item < 0) | (_count(sent) >= full[sent_item])
        gathering.append(bool(complete[remote[first:last]].all()))
        origins[dst] = np.where(reduces[first:last, None], origins[dst] | sent, sent)
        item[dst] = sent_item
        note(dst)
    return Replay(kind(schedule)[0], np.unique(rounds), np.array(levels), np.array(gathering, bool))


def _table(
    schedule: Schedule, held: Holdings, index: dict[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each entry the number of its chunk, of its item, and its origins as bytes."""
    at, width = np.array(list(held), np.int64).reshape(-1, 3), -(-schedule.ranks // 8)
    items = np.array([index[item] for item, _ in held.values()], np.int64)
    packed = b"".join(int(mask).to_bytes(width, "little") for _, mask in held.values())
    masks = np.frombuffer(packed, np.uint8).reshape(-1, width)
    return chunk_numbers(schedule, at[:, 1], at[:, 0], at[:, 2]), items, masks


def _count(masks: np.ndarray) -> np.ndarray:
    """Ranks in each set of shape (…, bytes)."""
    return np.unpackbits(np.ascontiguousarray(masks), axis=-1).sum(axis=-1, dtype=np.int64)
