"""Schedules as MSCCL algorithms (XML)."""

import re
from pathlib import Path

import numpy as np

from wavefabric.collectives.arguments import ragged, whole
from wavefabric.collectives.conditions import COLLECTIVES, operation
from wavefabric.collectives.formats.msccl import format as fmt
from wavefabric.collectives.formats.msccl.blocks import MOVE, MscclLimitExceeded, build_blocks
from wavefabric.collectives.formats.msccl.check import check_algorithm
from wavefabric.collectives.schedule import PROTOCOLS, Schedule
from wavefabric.collectives.structure import moves as single_moves
from wavefabric.collectives.structure import refuse_switches
from wavefabric.collectives.verify import verify
from wavefabric.errors import InputError
from wavefabric.files.output import write_text

#: What MSCCL calls the collectives.
_COLLS = {collective: coll for coll, collective in fmt.COLLS.items()}
#: Letters of names that the runtime's parser, which knows no entities, reads as they are.
_LETTERS = "A-Za-z0-9 .,:;=()_+/-"


def to_msccl(
    schedule: Schedule,
    *,
    name: str | None = None,
    proto: str = "Simple",
    slots: int = fmt.SLOTS,
    instances: int = 1,
    shared: bool | None = None,
) -> str:
    """A schedule, which is proved here, as an MSCCL algorithm (XML).

    Chunks that take part must be of one size; that size does not matter. In place: ``data`` of an all-gather
    or broadcast is the output, of an all-reduce, reduce or reduce-scatter the input, which is overwritten on
    all GPUs. An all-to-all goes from input to output; gather, scatter and others become ``custom``. A step
    waits for those of its GPU that wrote or read its chunks before. All blocks do their steps in the order of
    the schedule, which cannot hang with any number of slots.

    ``name`` is the schedule's by default, less what the runtime's parser does not read; ``proto`` is
    ``"Simple"``, ``"LL"`` or ``"LL128"``. A connection's buffer has ``slots``; the result is checked for
    deadlock with so many (see `check_msccl`). ``instances`` cuts every chunk in so many parts, which move on
    different channels at once: one thread block does not fill a fast link. With ``shared`` one thread block
    sends to a peer and receives from it, instead of two, which move data both ways at once; by default only
    where two would be too many. `InputError`: sizes differ, a chunk is empty, or a limit of the runtime
    cannot be kept. `ScheduleError`: the schedule does not do what it states.

    >>> from wavefabric.collectives import ring_all_gather
    >>> to_msccl(ring_all_gather([8, 8])).splitlines()[2]
    '    <tb id="0" send="1" recv="-1" chan="0">'
    """
    if proto not in PROTOCOLS:
        raise InputError(f"proto: {proto!r}; allowed: {', '.join(PROTOCOLS)}")
    instances = whole("instances", instances, 1, fmt.CHANNELS)
    slots = whole("slots", slots, 1)
    title = re.sub(f"[^{_LETTERS}]", "-", schedule.name)[:63] if name is None else name
    if not re.fullmatch(f"[{_LETTERS}]{{1,63}}", title):
        allowed = "1 to 63 letters, digits, spaces and . , : ; = ( ) _ + / -"
        raise InputError(f"name: {title[:80]!r}; allowed: {allowed}")
    refuse_switches(schedule, "MSCCL")
    verify(schedule)
    performed = operation(schedule)
    # MSCCL's words for collectives mean its own places of the data; others are written as what they do.
    collective, root = (performed.collective, performed.root) if performed.in_place else ("custom", None)
    _check_sizes(schedule, collective)
    letters, shifts, sizes, inplace = _buffers(schedule, collective)
    blocks, steps = _build(_moves(schedule, letters, shifts, instances), schedule.ranks, shared)
    coll = _COLLS.get(collective, "custom")
    algorithm = fmt.MscclAlgorithm(
        name=title,
        proto=proto,
        coll=coll,
        inplace=inplace,
        chunks=max(sizes[:2]) * instances,
        channels=int(blocks["chan"].max(initial=0)) + 1,
        sizes=np.tile(np.array(sizes, np.int64) * instances, (schedule.ranks, 1)),
        blocks=blocks,
        steps=steps,
        collective=collective if coll == "custom" and collective != "custom" else None,
        root=root,
    )
    check_algorithm(algorithm, slots)
    return fmt.write_algorithm(algorithm)


def save_msccl(path: str | Path, schedule: Schedule, force: bool = False, **options) -> Path:
    """Write what `to_msccl` gives to a file, whole or not at all; `InputError` if it cannot be written."""
    return write_text(path, to_msccl(schedule, **options), "msccl", force)


def _check_sizes(schedule: Schedule, collective: str) -> None:
    """Refuse chunks that take part and differ in size, and of a named collective empty ones."""
    m = single_moves(schedule)
    flat = np.concatenate([s.ravel() for s in schedule.sizes])
    used = [flat[m.src], flat[m.dst]]
    for held in (schedule.pre, schedule.post):
        used.append(np.array([schedule.sizes[b][r, c] for r, b, c in held], np.int64))
    if collective in COLLECTIVES:
        used += [schedule.sizes[b].ravel() for b in range(2 if collective == "all-to-all" else 1)]
    sizes = np.unique(np.concatenate(used))
    if sizes.size > 1:
        actual = f"{int(sizes[0])} to {int(sizes[-1])} elements"
        multiple = "all of one size (elements a multiple of the number of chunks)"
        raise InputError(f"chunks: {actual}; allowed by MSCCL: {multiple}")
    if not sizes.size or not sizes[0]:
        raise InputError("chunks: none with elements; allowed by MSCCL: at least one")


def _buffers(schedule: Schedule, collective: str) -> tuple[np.ndarray, np.ndarray, list[int], bool]:
    """MSCCL's buffer of each of ours, the chunk of it that ours begins with, sizes of the three, in place."""
    begins = {b for _, b, _ in schedule.pre}
    ends = {b for _, b, _ in schedule.post}
    named = collective in COLLECTIVES and collective != "all-to-all"
    inplace = named or bool(begins & ends)
    letters, shifts, sizes = [], [], [0, 0, 0]
    for b, table in enumerate(schedule.sizes):
        if named and b == 0:
            to = 1 if collective in ("all-gather", "broadcast") else 0
        elif b in begins | ends:
            to = 0 if inplace or b in begins else 1
        else:
            to = 2
        letters.append(to)
        shifts.append(sizes[to])
        sizes[to] += table.shape[1]
    if not inplace:  # a rule of the format: as many of both
        sizes[:2] = [max(sizes[:2])] * 2
    return np.array(letters), np.array(shifts), sizes, inplace


def _moves(schedule: Schedule, letters: np.ndarray, shifts: np.ndarray, instances: int) -> np.ndarray:
    """Transfers by round, neighbouring chunks joined, cut into instances and to what a step may move."""
    t = schedule.transfers
    moves = np.zeros(t.size, MOVE)
    for key in ("round", "src", "dst", "reduce"):
        moves[key] = t[key]
    moves["cnt"] = t["count"]
    for side in ("src", "dst"):
        moves[f"{side}buf"] = letters[t[f"{side}_buffer"]]
        moves[f"{side}off"] = shifts[t[f"{side}_buffer"]] + t[f"{side}_chunk"]
    keys = ("round", "src", "dst", "srcbuf", "dstbuf", "reduce")
    moves = moves[np.lexsort((moves["srcoff"], *(moves[k] for k in reversed(keys))))]
    a, b = moves[:-1], moves[1:]
    same = [a[k] == b[k] for k in keys] + [a[k] + a["cnt"] == b[k] for k in ("srcoff", "dstoff")]
    first = np.flatnonzero(np.concatenate(([True], ~np.logical_and.reduce(same)))[: moves.size])
    joined = moves[first]
    joined["cnt"] = np.add.reduceat(moves["cnt"], first) if moves.size else 0
    parts = np.repeat(joined, instances)
    parts["instance"] = np.tile(np.arange(instances), joined.size)
    for side in ("srcoff", "dstoff"):
        parts[side] = parts[side] * instances + parts["instance"] * parts["cnt"]
    pieces = -(-parts["cnt"] // fmt.COUNT)
    part, within = ragged(pieces)
    cut = parts[part]
    # As even as possible: 128 chunks are 64 and 64.
    least, rest = np.divmod(cut["cnt"], pieces[part])
    begin = within * least + np.minimum(within, rest)
    for side in ("srcoff", "dstoff"):
        cut[side] += begin
    cut["cnt"] = least + (within < rest)
    return cut


def _build(moves: np.ndarray, gpus: int, shared: bool | None) -> tuple[np.ndarray, np.ndarray]:
    why = ""
    for direction in (False, True) if shared is None else (shared,):
        try:
            return build_blocks(moves, gpus, direction)
        except MscclLimitExceeded as error:
            why = str(error)
    limits = f"{fmt.BLOCKS} thread blocks a GPU, {fmt.WAITED_BLOCK + 1} of them waited for"
    raise InputError(f"MSCCL: {why}; allowed: {limits}, {fmt.CHANNELS} channels")
