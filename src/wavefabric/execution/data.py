"""What a schedule's buffers hold before it runs, and how many elements are wrong afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np

from wavefabric.collectives import Schedule
from wavefabric.errors import InputError

#: Element types whose sums over ranks are exact, and the largest whole number that each counts up to.
EXACT = {"float16": 2**11, "float32": 2**24, "float64": 2**53, "int32": 2**31 - 1, "int64": 2**63 - 1}
#: Contributions are whole numbers below this.
_VALUES = 251
#: Elements that are made at a time.
_BLOCK = 1 << 22


def values_of(dtype: str, ranks: int) -> int:
    """Contributions are whole numbers from 0 to below this: sums over all ranks are exact in any order."""
    if dtype not in EXACT:
        raise InputError(f"dtype: {dtype!r} given; allowed: {', '.join(EXACT)}")
    if EXACT[dtype] // ranks < 2:
        raise InputError(f"dtype: {dtype} for {ranks} ranks; allowed up to {EXACT[dtype] // 2} ranks")
    return min(_VALUES, EXACT[dtype] // ranks)


def contribution(xp, item: int, origin: int, first: int, size: int, values: int):
    """Whole numbers that rank ``origin`` contributes to elements ``first`` … of an item: (size,), uint32."""
    numbers = xp.arange(first, first + size, dtype=np.uint32)
    numbers *= np.uint32(2654435761)
    numbers += np.uint32((item * 374761393 + origin * 668265263 + 1442695041) & 0xFFFFFFFF)
    numbers ^= numbers >> np.uint32(15)
    numbers *= np.uint32(2246822519)
    numbers ^= numbers >> np.uint32(13)
    numbers %= np.uint32(values)
    return numbers


def expected(xp, held: tuple[int, int], first: int, size: int, values: int, dtype: str):
    """Elements ``first`` … of an item with the contributions of a set of ranks: (size,)."""
    item, origins = held
    total = xp.zeros(size, dtype)
    for origin in range(origins.bit_length()):
        if origins >> origin & 1:
            total += contribution(xp, item, origin, first, size, values).astype(dtype)
    return total


def fill(comm, schedule: Schedule, buffers: dict[str, Any], dtype: str) -> None:
    """Write what ``pre`` says a rank holds; everything else becomes what no sum can be. Collective.

    Buffers that are not given are left out: scratch, where something else than the schedule runs.
    """
    xp, values = comm.device.xp, values_of(dtype, schedule.ranks)
    poison = np.nan if np.dtype(dtype).kind == "f" else -(1 << 20)
    for name in buffers:
        number = schedule.buffers.index(name)
        buffers[name][: int(schedule.sizes[number][comm.rank].sum())] = poison
    for part, held in _parts(schedule, schedule.pre, buffers, comm.rank):
        for first in range(0, part.size, _BLOCK):
            block = part[first : first + _BLOCK]
            block[...] = expected(xp, held, first, block.size, values, dtype)
    comm.device.synchronize()
    comm.control.barrier()  # before anybody writes here


def count_wrong(comm, schedule: Schedule, buffers: dict[str, Any], dtype: str) -> int:
    """Elements that differ from what ``post`` says, on all ranks together. Collective."""
    xp, values, wrong = comm.device.xp, values_of(dtype, schedule.ranks), 0
    for part, held in _parts(schedule, schedule.post, buffers, comm.rank):
        for first in range(0, part.size, _BLOCK):
            block = part[first : first + _BLOCK]
            wrong += int(xp.count_nonzero(block != expected(xp, held, first, block.size, values, dtype)))
    return int(comm.control.sum(wrong))


def _parts(schedule: Schedule, holdings, buffers: dict[str, Any], rank: int):
    """(elements, holding) of each chunk of a rank that is named."""
    offsets = [schedule.offsets(number, rank) for number in range(len(schedule.buffers))]
    for (owner, buffer, chunk), held in holdings.items():
        if owner == rank:
            ends = offsets[buffer]
            yield buffers[schedule.buffers[buffer]][int(ends[chunk]) : int(ends[chunk + 1])], held
