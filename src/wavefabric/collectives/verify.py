"""Verify that a schedule turns `pre` into `post` by replaying the contents of every chunk."""

from typing import Any

import numpy as np

from wavefabric.collectives import structure
from wavefabric.collectives.schedule import Holdings, Schedule
from wavefabric.collectives.sizes import within_groups

_NOTHING = -1


def verify(schedule: Schedule) -> None:
    """Prove that a schedule turns `pre` into `post`, by replaying it.

    A chunk holds an item and the set of ranks whose contributions are added up in it. A copy replaces both. A
    reduce needs the same item at source and destination and disjoint sets of ranks; it joins the sets.

    In the replay all transfers of a round read the contents from before the round. At run time only data
    dependencies order transfers. Replay and run give the same contents, because a chunk that a round writes
    may not be read, or written again, in that round. A reduction by a switch is one write of the whole sum,
    and may read the chunk that it overwrites.

    `ScheduleError` names, in one line, the first transfer that fails, with round, ranks and chunks; or else
    the first chunk, in the order of rank, buffer and chunk, whose final contents differ from `post`.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from wavefabric.collectives import ring_all_gather, verify
    >>> ring = ring_all_gather([3, 3])
    >>> verify(ring)
    >>> verify(replace(ring, transfers=ring.transfers[1:]))
    Traceback (most recent call last):
        ...
    wavefabric.collectives.structure.ScheduleError: ring all-gather: post: data[0] of rank 1 holds nothing; \
must hold item 0 of rank 0
    """
    structure.check_structure(schedule)
    m = structure.moves(schedule)
    state = ChunkState(schedule, m)
    for first, last in structure.batches(schedule.transfers["round"][m.transfer]):
        state.play(first, last)
    state.compare(schedule.post)


class ChunkState:
    """Tracks each chunk's contents in a replay: item or `_NOTHING`, and contributing ranks as a bit mask."""

    def __init__(self, schedule: Schedule, m: structure.Moves):
        self.schedule, self.moves = schedule, m
        units = structure.units(schedule)
        #: Number of the write that a move belongs to: a single move, or a whole operation of a switch.
        self.write = np.arange(m.transfer.size)
        #: Index of each move within its transfer.
        self.within = np.arange(m.transfer.size) - np.searchsorted(m.transfer, m.transfer)
        #: Index of each move among the terms of a reduction by a switch, from 0.
        self.turn = np.zeros(m.transfer.size, np.int64)
        unit = units.of[m.transfer]
        inside = np.flatnonzero(units.switched[unit])
        self.write[inside] = m.transfer.size + unit[inside]
        inside = inside[units.sums[unit[inside]]]
        inside = inside[np.argsort(unit[inside] * np.int64(m.chunks) + m.dst[inside], kind="stable")]
        self.turn[inside] = within_groups(unit[inside] * np.int64(m.chunks) + m.dst[inside])
        self.reduces = schedule.transfers["reduce"][m.transfer] | (self.turn > 0)
        self.item = np.full(m.chunks, _NOTHING, np.int64)
        self.origins = np.zeros(m.chunks, object)
        #: The first move that writes each chunk in the current round, -1 for none.
        self.writer = np.full(m.chunks, -1, np.int64)
        chunk, item, origins = self.table(schedule.pre)
        self.item[chunk], self.origins[chunk] = item, origins

    def table(self, held: Holdings) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return ``held``, contents of chunks, as three arrays: numbers of chunks, items, masks of ranks.

        Entries are in the order of rank, buffer and chunk. A mask has a bit for each rank that contributed.
        """
        keys = sorted(held)
        at = np.array(keys, np.int64).reshape(-1, 3)
        item = np.array([held[key][0] for key in keys], np.int64)
        origins = np.array([held[key][1] for key in keys], object)
        return structure.chunk_numbers(self.schedule, at[:, 1], at[:, 0], at[:, 2]), item, origins

    def play(self, first: int, last: int) -> None:
        """Replay moves ``first`` to ``last`` − 1, one round; `ScheduleError` if a move breaks a rule."""
        src, dst = self.moves.src[first:last], self.moves.dst[first:last]
        number, write, turn = np.arange(first, last), self.write[first:last], self.turn[first:last]
        self.writer[dst[::-1]] = number[::-1]  # the first of several moves is stored last
        by = self.writer[src]
        # An operation of a switch may read the chunks that it replaces.
        own = (write >= self.moves.transfer.size) & (self.write[by] == write)
        early = (by >= 0) & ~(own & (self.within[by] == self.within[first:last]))
        twice = self.write[self.writer[dst]] != write
        item, origins = self.item[src], self.origins[src]
        wrong = early | twice | (item == _NOTHING)
        there_item, there_origins = self.item[dst], self.origins[dst]
        for now in range(int(turn.max(initial=-1)) + 1):
            here = np.flatnonzero(turn == now)
            added = here[self.reduces[first:last][here]]
            there_item[added], there_origins[added] = self.item[dst[added]], self.origins[dst[added]]
            wrong[added] |= item[added] != there_item[added]
            wrong[added] |= (origins[added] & there_origins[added]).astype(bool)
            if not wrong.any():
                self.item[dst[here]] = item[here]
                self.origins[dst[here]] = origins[here]
                self.origins[dst[added]] |= there_origins[added]
        if wrong.any():
            i = int(np.argmax(wrong))
            held, there = (item[i], origins[i]), (there_item[i], there_origins[i])
            self._refuse(first + i, bool(early[i]), bool(twice[i]), held, there)
        self.writer[dst] = -1

    def _refuse(self, move: int, early: bool, twice: bool, held: tuple, there: tuple) -> None:
        m, (item, origins), (there_item, there_origins) = self.moves, held, there
        if early:
            other = self._other(int(self.writer[m.src[move]]), move)
            why = f"reads a chunk that {other} writes in the same round"
        elif twice:
            other = self._other(int(self.writer[m.dst[move]]), move)
            why = f"writes a chunk that {other} writes in the same round"
        elif item == _NOTHING:
            why = "the source holds nothing"
        elif there_item == _NOTHING:
            why = "the destination holds nothing to add to"
        elif item != there_item:
            why = f"item {item} cannot be added to item {there_item}"
        else:
            why = f"double counting of {_ranks(origins & there_origins)}"
        raise structure.ScheduleError(f"{structure.move_name(self.schedule, m, move)}: {why}")

    def _other(self, writer: int, move: int) -> str:
        transfer = self.moves.transfer
        return "it also" if transfer[writer] == transfer[move] else f"transfer {transfer[writer]}"

    def compare(self, post: Holdings) -> None:
        """Raise `ScheduleError` for the first chunk whose contents differ from ``post``."""
        chunk, item, origins = self.table(post)
        wrong = (self.item[chunk] != item) | (self.origins[chunk] != origins)
        if not wrong.any():
            return
        i = int(np.argmax(wrong))
        held = _holding(int(self.item[chunk[i]]), self.origins[chunk[i]])
        where = structure.chunk_name(self.schedule, *sorted(post)[i])
        must = _holding(int(item[i]), origins[i])
        raise structure.ScheduleError(f"{self.schedule.name}: post: {where} holds {held}; must hold {must}")


def _holding(item: int, origins: Any) -> str:
    return "nothing" if item == _NOTHING else f"item {item} of {_ranks(origins)}"


def _ranks(origins: Any) -> str:
    """Return a bit mask of ranks in words; three or more consecutive ranks become a range."""
    ranks = np.array([rank for rank in range(origins.bit_length()) if origins >> rank & 1])
    runs = np.split(ranks, np.flatnonzero(np.diff(ranks) > 1) + 1)
    texts = [f"{r[0]} to {r[-1]}" if r.size > 2 else ", ".join(map(str, r)) for r in runs]
    return ("rank " if ranks.size == 1 else "ranks ") + ", ".join(texts)
