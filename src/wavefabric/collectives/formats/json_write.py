"""The lines of a schedule's JSON file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from wavefabric.collectives.schedule import Holdings, Schedule

FORMAT = "wavefabric schedule"
VERSION = 1

#: More origins than this are written as hexadecimal text.
_LISTED = 8


def write_lines(schedule: Schedule) -> Iterator[str]:
    """One line a transfer, a buffer, or a chunk held."""
    names = [json.dumps(name, ensure_ascii=False) for name in schedule.buffers]
    yield "{"
    yield f'  "format": "{FORMAT}",'
    yield f'  "version": {VERSION},'
    yield f'  "name": {json.dumps(schedule.name, ensure_ascii=False)},'
    yield f'  "ranks": {schedule.ranks},'
    if schedule.msccl is not None:
        yield f'  "msccl": {json.dumps(vars(schedule.msccl))},'
    pairs = zip(names, schedule.sizes, strict=True)
    yield from _list(
        "buffers", (f'{{"name": {n}, "sizes": {json.dumps(s.tolist())}}}' for n, s in pairs), ","
    )
    yield from _list("transfers", (_transfer(t, names) for t in schedule.transfers.tolist()), ",")
    yield from _list("pre", _held(schedule.pre, names, schedule.ranks), ",")
    yield from _list("post", _held(schedule.post, names, schedule.ranks), "")
    yield "}"


def _list(key: str, lines: Iterable[str], end: str) -> Iterator[str]:
    previous = None
    for line in lines:
        yield f'  "{key}": [' if previous is None else f"    {previous},"
        previous = line
    if previous is None:
        yield f'  "{key}": []{end}'
    else:
        yield f"    {previous}"
        yield f"  ]{end}"


def _transfer(row: tuple, names: list[str]) -> str:
    round_, src, dst, src_buffer, src_chunk, dst_buffer, dst_chunk, count, reduce = row
    more = f', "count": {count}' if count != 1 else ""
    more += ', "reduce": true' if reduce else ""
    ends = (
        f'"src": [{src}, {names[src_buffer]}, {src_chunk}], "dst": [{dst}, {names[dst_buffer]}, {dst_chunk}]'
    )
    return f'{{"round": {round_}, {ends}{more}}}'


def _held(held: Holdings, names: list[str], ranks: int) -> Iterator[str]:
    for (rank, buffer, chunk), (item, origins) in sorted(held.items()):
        at = f'"at": [{rank}, {names[buffer]}, {chunk}]'
        yield f'{{{at}, "item": {item}, "origins": {_origins(origins, ranks)}}}'


def _origins(mask: int, ranks: int) -> str:
    if mask.bit_count() == ranks > 1:
        return '"all"'
    if mask.bit_count() > _LISTED:
        return f'"{mask:#x}"'
    listed = []
    while mask:
        listed.append((mask & -mask).bit_length() - 1)
        mask &= mask - 1
    return str(listed)
