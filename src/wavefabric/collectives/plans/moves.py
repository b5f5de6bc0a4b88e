"""Compile transfers to moves: passes in which a rank reads, adds and writes pieces; merge moves."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.collectives.levels import levels
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.sizes import ragged
from wavefabric.collectives.structure import chunk_numbers, units

#: Buffer number of staging buffers, which receive data that are still to be added or copied.
STAGING = -1
#: Largest number of sources, and of targets, of one move.
MOST = 8


class Address(NamedTuple):
    """The location of a piece: element ``first`` of a buffer of a rank, or a staging buffer (by number).

    Addresses without a common element have different ``key`` values.
    """

    rank: int
    buffer: int
    first: int
    key: int


class Piece(NamedTuple):
    """A part of a transfer: chunks that every transfer moves as a whole or not at all."""

    transfer: int
    size: int
    source: Address
    target: Address


class StagingBuffer(NamedTuple):
    """Memory at ``rank`` for ``size`` elements that ``sender`` writes.

    Within a vector of 16 bytes it is aligned like element ``first`` of a buffer of the schedule: as a rule
    the element to which the data are then added or copied. If they are read from the staging buffer instead,
    it is the element from which they come.
    """

    rank: int
    sender: int
    size: int
    first: int


@dataclass(frozen=True)
class Move:
    """A pass in which ``rank`` writes the sum of all sources, in order, to all targets.

    Each has ``size`` elements. Sources lie on the rank itself, targets on any rank. With ``summed`` a switch
    adds the sources, which lie on many ranks; with ``multicast`` one write through a switch reaches all
    targets. Within one ``level`` and ``phase``, moves of different ranks are independent and those of a rank
    stay in order; moves of a lower level, or of phase 0 of the same level, come before. ``once``: the values
    written are read by one later move only.
    """

    rank: int
    level: int
    phase: int
    sources: tuple[Address, ...]
    targets: tuple[Address, ...]
    size: int
    once: bool = False
    summed: bool = False
    multicast: bool = False

    @property
    def switched(self) -> bool:
        """Whether a switch takes part."""
        return self.summed or self.multicast


def kind_of(moves: Sequence[Move]) -> str:
    """Return in words what moves that run together do: put, add, add and put, or copy."""
    adds = any(len(move.sources) > 1 for move in moves)
    puts = any(address.rank != move.rank for move in moves for address in move.targets)
    return {(True, True): "add and put", (True, False): "add", (False, True): "put"}.get((adds, puts), "copy")


def moves(schedule: Schedule, packets: bool) -> tuple[list[Move], list[StagingBuffer]]:
    """Return the moves of all ranks in order, and the staging buffers by number.

    A piece for another rank is written by its sender: to its address, or to a staging buffer that the
    receiver reads if the piece is to be added or is read only once (with ``packets`` always). Puts of a level
    go to rank + 1 first, then to rank + 2, so that ranks do not all write to the same one.
    """
    depth, reduces = levels(schedule).tolist(), schedule.transfers["reduce"].tolist()

    def turn(piece: Piece) -> tuple[int, bool, int]:
        ahead = (piece.target.rank - piece.source.rank) % schedule.ranks
        return depth[piece.transfer], ahead == 0, ahead

    parts = sorted(pieces(schedule), key=turn)
    once = _read_once(schedule, parts)
    operations = _operations(schedule, parts)
    made: list[Move] = []
    staging: list[StagingBuffer] = []
    staged: dict[int, Address] = {}  # key → the staging buffer that is read instead
    for i, (transfer, size, source, target) in enumerate(parts):
        src, dst, level, reduce = source.rank, target.rank, depth[transfer], reduces[transfer]
        if i in operations:
            made += operations[i]
            continue
        source, phase = staged.pop(source.key, source), int(src == dst)
        if src != dst and (reduce or packets or i in once):
            staging_buffer = Address(dst, STAGING, len(staging), -1 - len(staging))
            stays = i in once and not reduce
            came_from = staging[-1 - source.key].first if source.buffer == STAGING else source.first
            staging.append(StagingBuffer(dst, src, size, came_from if stays else target.first))
            made.append(Move(src, level, 0, (source,), (staging_buffer,), size))
            if stays:
                staged[target.key] = staging_buffer
                continue
            source, phase = staging_buffer, 1
        sources = (staged.pop(target.key, target), source) if reduce else (source,)
        made.append(Move(sources[0].rank, level, phase, sources, (target,), size, i in once))
    made.sort(key=lambda move: (move.level, move.phase))
    return made, staging


def _operations(schedule: Schedule, parts: list[Piece]) -> dict[int, list[Move]]:
    """Return a dictionary from each piece of a switch operation, by index, to the moves that replace it.

    All pieces of a multicast with the same source, or of a sum with the same target, become one move. The
    first of these pieces has it; the others have an empty list.
    """
    u, depth = units(schedule), levels(schedule).tolist()
    together: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i in sorted(range(len(parts)), key=lambda i: parts[i].transfer):  # terms of sums stay in order
        unit = int(u.of[parts[i].transfer])
        if u.switched[unit]:
            together[unit, (parts[i].target if u.sums[unit] else parts[i].source).key].append(i)
    made: dict[int, list[Move]] = {}
    for (unit, _), numbers in together.items():
        transfer, size, source, target = parts[numbers[0]]
        if schedule.transfers["reduce"][transfer]:
            actual = f"{schedule.name} adds what a switch sends to what is there"
            raise InputError(f"schedule: {actual}; allowed for an execution plan: multicasts and sums alone")
        if u.sums[unit]:
            sources = tuple(parts[i].source for i in numbers)
            move = Move(target.rank, depth[transfer], 0, sources, (target,), size, summed=True)
        else:
            targets = tuple(parts[i].target for i in numbers)
            move = Move(source.rank, depth[transfer], 0, (source,), targets, size, multicast=True)
        made |= {i: [] for i in numbers}
        made[min(numbers)] = [move]
    return made


def pieces(schedule: Schedule) -> list[Piece]:
    """Cut all transfers, at both ends, wherever any transfer begins or ends, and return the pieces in order.

    Examples
    --------
    >>> from wavefabric.collectives import ring_all_gather
    >>> from wavefabric.collectives.plans.moves import pieces
    >>> [piece.size for piece in pieces(ring_all_gather([5, 3]))]
    [5, 3]
    """
    t = schedule.transfers
    # Boundaries between chunks are numbered like chunks, with one more per row.
    starts = [np.pad(np.cumsum(sizes, axis=1), ((0, 0), (1, 0))) for sizes in schedule.sizes]
    boundaries, first = replace(schedule, sizes=tuple(starts)), np.concatenate([s.ravel() for s in starts])
    count = t["count"].astype(np.int64) + 1
    transfer, within = ragged(count)
    ends = [
        chunk_numbers(boundaries, t[f"{end}_buffer"], t[end], t[f"{end}_chunk"])[transfer] + within
        for end in ("src", "dst")
    ]
    # Boundaries that transfers carry onto each other are cut together.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    links = coo_array((np.ones(within.size, np.int8), tuple(ends)), shape=(first.size,) * 2)
    _, group = connected_components(links, directed=False)
    outer = (within == 0) | (within == count[transfer] - 1)
    cut = np.zeros(first.size, bool)
    cut[group[ends[0][outer]]] = True
    at = np.flatnonzero(cut[group[ends[0]]])
    inside = transfer[at[:-1]] == transfer[at[1:]]
    begins, following = at[:-1][inside], at[1:][inside]
    number, keys = transfer[begins], [boundary[begins] for boundary in ends]
    size = first[ends[0][following]] - first[keys[0]]
    addresses = []
    for end, key in zip(("src", "dst"), keys, strict=True):
        columns = t[end][number], t[f"{end}_buffer"][number], first[key], key
        addresses.append(map(Address, *(column.tolist() for column in columns)))
    return list(map(Piece, number.tolist(), size.tolist(), *addresses))


def _read_once(schedule: Schedule, parts: list[Piece]) -> set[int]:
    """Return the pieces, by index, whose data are read only once after they arrive, and not kept at the end.

    Scratch buffers of a schedule, where data wait to be added, hold such pieces.
    """
    reduces, switched = schedule.transfers["reduce"].tolist(), schedule.transfers["switch"].tolist()
    promised = {(rank, buffer) for rank, buffer, _ in schedule.post}
    accesses: dict[int, list[tuple[int, bool, bool]]] = defaultdict(list)  # (piece, reads it, writes it), …
    for i, piece in enumerate(parts):
        accesses[piece.source.key].append((i, True, False))
        accesses[piece.target.key].append((i, reduces[piece.transfer], True))
    result = set()
    for here in accesses.values():
        for at, (i, _, writes) in enumerate(here):
            reader, then = here[at + 1 : at + 2], here[at + 2 : at + 3]
            if not writes or not reader or not reader[0][1]:
                continue
            if any(switched[parts[number].transfer] for number in (i, reader[0][0])):
                continue
            kept = then[0][1] if then else parts[i].target[:2] in promised
            # A switch may read what it writes, in whatever order its pieces are listed.
            kept = kept or (bool(then) and switched[parts[then[0][0]].transfer] > 0)
            if reader[0][2] or not kept:
                result.add(i)
    return result


def joined(moves: list[Move]) -> list[Move]:
    """Merge moves into fewer passes: chained sums, and copies of one piece to several addresses.

    A move that writes a piece is merged with the next move that reads it, if no other move accesses the piece
    in between: received data are added and put at the next rank in one pass, and several buffers are added at
    once, in order. The first move then runs at the level of the second, where no other move may write its
    sources.
    """
    writes = {(address.key, move.level) for move in moves for address in move.targets}
    kept: dict[int, Move] = {}
    written: dict[int, int] = {}  # key → move that wrote it, if not accessed since
    made_of: dict[int, set[int]] = {}  # key → keys that moves in `written` computed from it
    copied: dict[tuple[int, int], int] = {}  # (key, level) → last move that copies the key

    def forget(targets: tuple[Address, ...]) -> None:
        """Exclude from merging all moves that wrote or read ``targets``, which are overwritten now."""
        for address in targets:
            for key in (*made_of.pop(address.key, ()), address.key):
                written.pop(key, None)

    for number, move in enumerate(moves):
        before = [written.pop(address.key, -1) for address in move.sources]
        together = _together([kept.get(n) for n in before], move, writes)
        if together is not None:
            which, move = together
            del kept[before[which]]
        elif len(move.sources) == 1 and not move.switched:
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
    """Merge a move with an earlier move that wrote one of its sources; None if that is not possible.

    Return the index of that source, and the merged move. ``before``: for each source the move that wrote it,
    or None. ``writes``: (key of the address, level) of every target of any move.
    """
    first, *others = (each if each and _may_wait(each, move, writes) else None for each in before)
    if move.switched:
        # A sum by a switch and its multicast are one pass.
        if first and first.summed and {*first.targets} == {*move.sources} <= {*move.targets}:
            return 0, replace(move, sources=first.sources, summed=True)
        return None
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
    """Whether ``first`` may be postponed until ``move`` runs, to be merged with it.

    Both must be of one rank, and no other target (``writes``) at the level of ``move`` may be a source of
    ``first``. Of operations of a switch only a sum may be postponed, to its multicast.
    """
    own = {address.key for address in move.targets}
    late = {(address.key, move.level) for address in first.sources if address.key not in own}
    apart = first.switched and not (first.summed and not first.multicast and move.multicast)
    return first.rank == move.rank and not apart and not late & writes


def _pass(move: Move, sources: tuple[Address, ...], targets: tuple[Address, ...] | None) -> Move | None:
    if targets is None or len(sources) > MOST or len(targets) > MOST:
        return None
    return replace(move, sources=sources, targets=targets, once=move.once and targets == move.targets)
