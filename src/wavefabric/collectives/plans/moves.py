"""Moves: what a rank reads, adds and writes in one pass; made from a schedule, and joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from wavefabric.collectives.levels import levels
from wavefabric.collectives.plans.pieces import Pieces, pieces
from wavefabric.collectives.schedule import Schedule

#: Buffer of an address where something arrives that has still to be added or put in its place.
STAGING = -1
#: Most sources, and most targets, of one move.
MOST = 8


class Address(NamedTuple):
    """Where a piece lies: a buffer of a rank from element ``first`` on, or a staging buffer (by number).

    ``key`` is different for addresses that have no element in common.
    """

    rank: int
    buffer: int
    first: int
    key: int


class StagingBuffer(NamedTuple):
    """Space at ``rank`` for ``size`` elements that ``sender`` writes.

    In a vector of 16 bytes it begins as element ``first`` of a buffer does: where they are to be added or
    put, or, if they are read from here instead, where they come from.
    """

    rank: int
    sender: int
    size: int
    first: int


@dataclass(frozen=True)
class Move:
    """``rank`` writes the sum of the sources, in their order, to all targets; both are of ``size`` elements.

    Sources are the rank's own, targets anybody's. Of one ``level`` and ``phase``, moves of different ranks
    need nothing of each other, and those of a rank stay in order; moves of a lower level, or of phase 0 of
    the same, come before. ``once``: what is written is read by one later move and by nothing else.
    """

    rank: int
    level: int
    phase: int
    sources: tuple[Address, ...]
    targets: tuple[Address, ...]
    size: int
    once: bool = False


def kind_of(moves: Sequence[Move]) -> str:
    """What moves that run together do, in words: put, add, add and put, or copy."""
    adds = any(len(move.sources) > 1 for move in moves)
    puts = any(address.rank != move.rank for move in moves for address in move.targets)
    return {(True, True): "add and put", (True, False): "add", (False, True): "put"}.get((adds, puts), "copy")


def moves(schedule: Schedule, packets: bool) -> tuple[list[Move], list[StagingBuffer]]:
    """Moves of all ranks in order, and staging buffers by number.

    A piece that goes to another rank is written there by its sender: into its address, or, if it is to be
    added or is read only once (with ``packets`` always), where the receiver takes it from. Puts of a level go
    to the next rank first, then to the one after it, so that ranks do not all write to one.
    """
    parts, depth = pieces(schedule), levels(schedule)
    t = schedule.transfers[parts.transfer]
    level = depth[parts.transfer]
    away = (t["dst"].astype(np.int64) - t["src"]) % schedule.ranks
    order = np.lexsort((np.arange(level.size), away, t["src"] == t["dst"], level)).tolist()
    once = _read_once(schedule, parts, order)
    made: list[Move] = []
    staging: list[StagingBuffer] = []
    staged: dict[int, Address] = {}  # key → the staging buffer that is read instead
    for i in order:
        src, dst = int(t["src"][i]), int(t["dst"][i])
        size, depth_of, reduce = int(parts.size[i]), int(level[i]), bool(t["reduce"][i])
        source = Address(src, int(t["src_buffer"][i]), int(parts.src_first[i]), int(parts.src_key[i]))
        target = Address(dst, int(t["dst_buffer"][i]), int(parts.dst_first[i]), int(parts.dst_key[i]))
        source, phase = staged.pop(source.key, source), int(src == dst)
        if src != dst and (reduce or packets or i in once):
            staging_buffer = Address(dst, STAGING, len(staging), -1 - len(staging))
            stays = i in once and not reduce
            came_from = staging[-1 - source.key].first if source.buffer == STAGING else source.first
            staging.append(StagingBuffer(dst, src, size, came_from if stays else target.first))
            made.append(Move(src, depth_of, 0, (source,), (staging_buffer,), size))
            if stays:
                staged[target.key] = staging_buffer
                continue
            source, phase = staging_buffer, 1
        sources = (staged.pop(target.key, target), source) if reduce else (source,)
        made.append(Move(sources[0].rank, depth_of, phase, sources, (target,), size, i in once))
    made.sort(key=lambda move: (move.level, move.phase))
    return made, staging


def _read_once(schedule: Schedule, parts: Pieces, order: list[int]) -> set[int]:
    """Pieces whose values where they go are read once and then never again, nor promised at the end.

    Buffers of a schedule in which staging buffers lie until they are added hold such.
    """
    t = schedule.transfers[parts.transfer]
    promised = {(rank, buffer) for rank, buffer, _ in schedule.post}
    accesses: dict[int, list[tuple[int, bool, bool]]] = {}  # key → (piece, reads it, writes it), in order
    for i in order:
        accesses.setdefault(int(parts.src_key[i]), []).append((i, True, False))
        accesses.setdefault(int(parts.dst_key[i]), []).append((i, bool(t["reduce"][i]), True))
    result = set()
    for here in accesses.values():
        for at, (i, _, writes) in enumerate(here):
            if not writes or here[at + 1 : at + 2] == [] or not here[at + 1][1]:
                continue
            then = here[at + 2 : at + 3]
            kept = (int(t["dst"][i]), int(t["dst_buffer"][i])) in promised
            if here[at + 1][2] or (not then[0][1] if then else not kept):
                result.add(i)
    return result


def joined(moves: list[Move]) -> list[Move]:
    """The same with fewer passes: sums that are taken on, and copies of one piece to several addresses.

    A move that writes a piece is done together with the next that reads it, if nothing else does in between:
    what has arrived is added and put at the next rank in one pass, and several buffers are added at once, in
    order. The first of the two is then done at the level of the second, where no other move may write what it
    reads.
    """
    writes = {(address.key, move.level) for move in moves for address in move.targets}
    kept: dict[int, Move] = {}
    written: dict[int, int] = {}  # key → number of the move that wrote it, if nothing has touched it since
    made_of: dict[int, set[int]] = {}  # key → keys that such moves write from it
    copied: dict[tuple[int, int], int] = {}  # (key, level) → number of the last move that copies it

    def forget(targets: tuple[Address, ...]) -> None:
        """What was made from these values can no longer be made later."""
        for address in targets:
            for key in (*made_of.pop(address.key, ()), address.key):
                written.pop(key, None)

    for number, move in enumerate(moves):
        before = [written.pop(address.key, -1) for address in move.sources]
        together = _together([kept.get(n) for n in before], move, writes)
        if together is not None:
            which, move = together
            del kept[before[which]]
        elif len(move.sources) == 1:
            piece = move.sources[0].key, move.level
            beside = copied.get(piece, number)
            if beside in kept and len(kept[beside].targets) < MOST:
                first = kept[beside]
                kept[beside] = replace(first, targets=first.targets + move.targets, once=False)
                forget(move.targets)
                continue
            copied[piece] = number
        kept[number] = move
        forget(move.targets)
        for address in move.targets:
            if address.rank == move.rank:
                written[address.key] = number
                for source in move.sources:
                    if source.key != address.key:
                        made_of.setdefault(source.key, set()).add(address.key)
    return [kept[number] for number in sorted(kept, key=lambda n: (kept[n].level, kept[n].phase, n))]


def _together(before: list[Move | None], move: Move, writes: set[tuple[int, int]]) -> tuple[int, Move] | None:
    """One pass for a move and the one that wrote one of its sources, by its number; None if there is none.

    ``writes``: (key, level) of all that moves write.
    """
    first, *others = (each if each and _may_wait(each, move, writes) else None for each in before)
    if first is not None:
        alone = first.targets == move.sources[:1]
        if len(move.sources) > 1:
            targets = move.targets if alone else None
        elif alone:
            targets = move.targets if first.once else first.targets + move.targets
        else:
            same = (first.level, first.phase) == (move.level, move.phase)
            targets = first.targets + move.targets if same else None
        result = _pass(move, first.sources + move.sources[1:], targets)
        if result is not None:
            return 0, result
    second = others[0] if len(others) == 1 else None
    if second is not None and second.once and second.targets == move.sources[1:]:
        # a + b is b + a, to the bit.
        result = _pass(move, second.sources + move.sources[:1], move.targets)
        if result is not None:
            return 1, result
    return None


def _may_wait(first: Move, move: Move, writes: set[tuple[int, int]]) -> bool:
    """Whether a move is of the same rank, and may read its sources as late as another."""
    own = {address.key for address in move.targets}
    late = {(address.key, move.level) for address in first.sources if address.key not in own}
    return first.rank == move.rank and not late & writes


def _pass(move: Move, sources: tuple[Address, ...], targets: tuple[Address, ...] | None) -> Move | None:
    if targets is None or len(sources) > MOST or len(targets) > MOST:
        return None
    return replace(move, sources=sources, targets=targets, once=move.once and targets == move.targets)
