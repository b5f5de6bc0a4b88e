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
    gathering: (
        np.ndarray
    )  # whether all that travels in a round is complete: nothing is left to be added to it

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
    m = moves(schedule)
    width = -(-schedule.ranks // 8)  # bytes of a set of ranks
    item = np.full(m.chunks, -1, np.int64)
    origins = np.zeros((m.chunks, width), np.uint8)
    items = {item for ends in (schedule.pre, schedule.post) for item, _ in ends.values()}
    index = {item: number for number, item in enumerate(sorted(items))}  # items are any numbers below 2^63
    chunk, numbers, masks = _table(schedule, schedule.pre, width, index)
    item[chunk], origins[chunk] = numbers, masks
    goal = _Goal(schedule, width, index)
    goal.note(chunk, item, origins)
    levels = [goal.levels()]
    gathering: list[bool] = []
    rounds = schedule.transfers["round"][m.transfer]
    reduces = schedule.transfers["reduce"][m.transfer]
    remote = (schedule.transfers["src"] != schedule.transfers["dst"])[m.transfer]
    for first, last in batches(rounds):
        src, dst = m.src[first:last], m.dst[first:last]
        sent, sent_item = origins[src], item[src]
        gathering.append(bool(goal.complete(sent_item, sent)[remote[first:last]].all()))
        origins[dst] = np.where(reduces[first:last, None], origins[dst] | sent, sent)
        item[dst] = sent_item
        goal.note(dst, item, origins)
        levels.append(goal.levels())
    return Replay(kind(schedule)[0], np.unique(rounds), np.array(levels), np.array(gathering, bool))


def _table(
    schedule: Schedule, held: Holdings, width: int, index: dict[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each entry the number of its chunk, of its item, and its origins as bytes."""
    at = np.array(list(held), np.int64).reshape(-1, 3)
    items = np.array([index[item] for item, _ in held.values()], np.int64)
    packed = b"".join(int(mask).to_bytes(width, "little") for _, mask in held.values())
    masks = np.frombuffer(packed, np.uint8).reshape(-1, width)
    return chunk_numbers(schedule, at[:, 1], at[:, 0], at[:, 2]), items, masks


def _count(masks: np.ndarray) -> np.ndarray:
    """Ranks in each set of shape (…, bytes)."""
    return np.unpackbits(np.ascontiguousarray(masks), axis=-1).sum(axis=-1, dtype=np.int64)


class _Goal:
    """What each rank is to hold in the end, and the most of it that it has held."""

    def __init__(self, schedule: Schedule, width: int, index: dict[int, int]):
        chunk, items, masks = _table(schedule, schedule.post, width, index)
        size = np.concatenate([s.ravel() for s in schedule.sizes])
        ranks = np.arange(schedule.ranks)
        self.owner = np.concatenate([np.repeat(ranks, s.shape[1]) for s in schedule.sizes])
        self.items = max(len(index), 1)
        key = self.owner[chunk] * self.items + items
        self.key, inverse = np.unique(key, return_inverse=True)
        self.weight = np.bincount(inverse, size[chunk], self.key.size)
        self.needed = np.zeros(self.key.size, np.int64)
        np.maximum.at(self.needed, inverse, _count(masks))
        self.held = np.zeros(self.key.size, np.int64)
        self.rank = self.key // self.items
        self.total = np.bincount(self.rank, self.weight, schedule.ranks)
        self.full = np.zeros(self.items, np.int64)  # origins of an item in the end
        np.maximum.at(self.full, items, _count(masks))

    def note(self, chunk: np.ndarray, item: np.ndarray, origins: np.ndarray) -> None:
        """Count what these chunks hold now."""
        if not self.key.size:
            return
        key = self.owner[chunk] * self.items + item[chunk]
        at = np.minimum(np.searchsorted(self.key, key), self.key.size - 1)
        hit = (self.key[at] == key) & (item[chunk] >= 0)
        np.maximum.at(self.held, at[hit], _count(origins[chunk[hit]]))

    def complete(self, item: np.ndarray, origins: np.ndarray) -> np.ndarray:
        """Whether nothing has to be added to what is held."""
        return (item < 0) | (_count(origins) >= self.full[item])

    def levels(self) -> np.ndarray:
        share = np.minimum(self.held / np.maximum(self.needed, 1), 1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.bincount(self.rank, share * self.weight, self.total.size) / self.total
