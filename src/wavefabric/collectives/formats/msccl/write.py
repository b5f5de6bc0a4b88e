"""Write schedules as MSCCL algorithms (XML)."""

import re
from pathlib import Path

import numpy as np

from wavefabric.base.arguments import whole
from wavefabric.base.errors import InputError, ensure
from wavefabric.base.files.output import write_text
from wavefabric.collectives.formats.moves import written
from wavefabric.collectives.formats.msccl import format as fmt
from wavefabric.collectives.formats.msccl.blocks import build_blocks
from wavefabric.collectives.formats.msccl.check import check_algorithm
from wavefabric.collectives.schedule import PROTOCOLS, Schedule
from wavefabric.collectives.sizes import ragged
from wavefabric.collectives.structure import refuse_switches

#: Names of the collectives in MSCCL.
_COLLS = {collective: coll for coll, collective in fmt.COLLS.items()}
#: Characters of names that the runtime's parser, which knows no XML entities, reads unchanged.
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
    """Verify a schedule and return it as an MSCCL algorithm (XML).

    Chunks in use must have one size, which may be any. In place: ``data`` of an all-gather or broadcast is
    the output, of an all-reduce, reduce or reduce-scatter the input, which is overwritten on all GPUs. An
    all-to-all goes from input to output; gather, scatter and others become ``custom``. A step waits for the
    steps of its GPU that wrote or read its chunks before. All blocks do their steps in the order of the
    schedule, which cannot hang with any number of slots.

    ``name`` defaults to the schedule's, without characters that the runtime's parser does not read; ``proto``
    is ``"Simple"``, ``"LL"`` or ``"LL128"``. A connection's buffer has ``slots`` slots; the result is checked
    for deadlock with that number (see `check_msccl`). ``instances`` divides every chunk into that many parts,
    which move on different channels at once: one thread block does not fill a fast link. With ``shared`` one
    thread block both sends to a peer and receives from it. Two blocks move data both ways at once; by default
    they are shared only if two would be too many. `InputError`: sizes differ, a chunk is empty, or a limit of
    the runtime cannot be satisfied. `ScheduleError`: the schedule does not do what it states.

    >>> from wavefabric.collectives import ring_all_gather
    >>> to_msccl(ring_all_gather([8, 8])).splitlines()[2]
    '    <tb id="0" send="1" recv="-1" chan="0">'
    """
    ensure(proto in PROTOCOLS, "proto", f"{proto!r}", ", ".join(PROTOCOLS))
    instances = whole("instances", instances, 1, fmt.CHANNELS)
    slots = whole("slots", slots, 1)
    title = re.sub(f"[^{_LETTERS}]", "-", schedule.name)[:63] if name is None else name
    if not re.fullmatch(f"[{_LETTERS}]{{1,63}}", title):
        allowed = "1 to 63 letters, digits, spaces and . , : ; = ( ) _ + / -"
        raise InputError(f"name: {title[:80]!r}; allowed: {allowed}")
    refuse_switches(schedule, "MSCCL")
    arrays, moves = written(schedule, instances, "MSCCL")
    blocks, steps = build_blocks(_cut(moves), arrays, shared)
    coll, channels = _COLLS.get(arrays.collective, "custom"), int(blocks["chan"].max(initial=0)) + 1
    algorithm = fmt.MscclAlgorithm(title, proto, coll, arrays, channels, blocks, steps)
    check_algorithm(algorithm, slots)
    return fmt.write_algorithm(algorithm)


def save_msccl(path: str | Path, schedule: Schedule, force: bool = False, **options) -> Path:
    """Write the text of `to_msccl` to a file atomically; `InputError` if it cannot be written."""
    return write_text(path, to_msccl(schedule, **options), "msccl", force)


def _cut(parts: np.ndarray) -> np.ndarray:
    """Divide moves so that none exceeds the number of chunks that a step may move."""
    pieces = -(-parts["count"] // fmt.COUNT)
    part, within = ragged(pieces)
    cut = parts[part]
    # As even as possible: 128 chunks are 64 and 64.
    least, rest = np.divmod(cut["count"], pieces[part])
    begin = within * least + np.minimum(within, rest)
    for side in ("src_chunk", "dst_chunk"):
        cut[side] += begin
    cut["count"] = least + (within < rest)
    return cut
