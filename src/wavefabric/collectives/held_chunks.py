"""Holdings of a named collective as columns: those of thousands of ranks as a dictionary take gigabytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

#: Chunks whose sets of ranks are made at a time.
_PART = 1 << 16

Place = tuple[int, int, int]
Held = tuple[int, int]


class HeldChunks(Mapping[Place, Held]):
    """`Holdings` of one buffer, in the order of rank and chunk.

    Parameters
    ----------
    ranks, buffer : int
    rank, chunk, item : ndarray of int64, shape (chunks,)
    who : ndarray of int64, shape (chunks,)
        The rank whose contribution it is; below 0 those of all ranks.
    """

    def __init__(
        self,
        ranks: int,
        buffer: int,
        rank: np.ndarray,
        chunk: np.ndarray,
        item: np.ndarray,
        who: np.ndarray,
    ):
        self.ranks, self.buffer = ranks, buffer
        self.rank, self.chunk, self.item, self.who = rank, chunk, item, who

    @cached_property
    def _held(self) -> dict[Place, Held]:
        everybody = (1 << self.ranks) - 1
        columns = (column.tolist() for column in (self.rank, self.chunk, self.item, self.who))
        return {
            (rank, self.buffer, chunk): (item, everybody if who < 0 else 1 << who)
            for rank, chunk, item, who in zip(*columns, strict=True)
        }

    def __getitem__(self, place: Place) -> Held:
        return self._held[place]

    def __iter__(self) -> Iterator[Place]:
        return iter(self._held)

    def __len__(self) -> int:
        return self.rank.size

    def fits(self, ranks: int, sizes: Sequence[np.ndarray]) -> bool:
        """Whether all chunks are there, with elements, of buffers of these sizes."""
        if not self.rank.size:
            return True
        if self.ranks != ranks or self.buffer >= len(sizes):
            return False
        table = sizes[self.buffer]
        return bool(self.chunk.max() < table.shape[1] and (table[self.rank, self.chunk] > 0).all())

    def parts(self, words: int) -> Iterator[tuple[np.ndarray, ...]]:
        """Rank, buffer, chunk, item and origins (as so many words of 64 ranks), so many chunks at a time."""
        everybody = np.frombuffer(((1 << self.ranks) - 1).to_bytes(8 * words, "little"), "<u8")
        for first in range(0, self.rank.size, _PART):
            at = slice(first, first + _PART)
            who = self.who[at]
            origins = np.where((who < 0)[:, None], everybody, np.uint64(0))
            alone = np.flatnonzero(who >= 0)
            origins[alone, who[alone] // 64] = np.uint64(1) << (who[alone] % 64).astype(np.uint64)
            yield self.rank[at], np.full(who.size, self.buffer), self.chunk[at], self.item[at], origins


def parts(held: Mapping[Place, Held], words: int) -> Iterator[tuple[np.ndarray, ...]]:
    """The same of any holdings."""
    if isinstance(held, HeldChunks):
        yield from held.parts(words)
        return
    places = sorted(held)
    for first in range(0, len(places), _PART):
        some = places[first : first + _PART]
        packed = b"".join(int(held[place][1]).to_bytes(8 * words, "little") for place in some)
        item = np.array([held[place][0] for place in some], np.int64)
        yield *np.array(some, np.int64).T, item, np.frombuffer(packed, "<u8").reshape(-1, words)
