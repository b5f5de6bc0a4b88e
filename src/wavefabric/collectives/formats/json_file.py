"""Read and write schedules as JSON files that people can edit; every key of an input is checked."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.base.errors import InputError, ensure, show
from wavefabric.base.files.input import MOST_SCHEDULE, parse_json, parsed
from wavefabric.base.files.output import json_rows, write_text
from wavefabric.collectives.schedule import PROTOCOLS, TRANSFER, Holdings, MscclOrigin, Schedule
from wavefabric.collectives.sizes import MOST_CHUNKS, MOST_MOVES, MOST_RANKS
from wavefabric.collectives.structure import NAMES, check_structure, is_name

FORMAT, VERSION = "wavefabric schedule", 1
#: More origins than this are written as hexadecimal text.
_LISTED = 8
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_INT16, _INT32, _INT64 = (int(np.iinfo(kind).max) for kind in (np.int16, np.int32, np.int64))


def to_json(schedule: Schedule) -> str:
    """Return a schedule as JSON text, one transfer per line; `ScheduleError` if numbers are out of range.

    A chunk is ``[rank, buffer, chunk]``. A transfer has ``"count"`` only if it moves several chunks and
    ``"reduce"`` only if it adds. Transfers of an operation of a switch are consecutive with one ``"switch"``.
    ``"origins"`` is a list of ranks, ``"all"``, or hexadecimal text whose bit r stands for rank r.

    Examples
    --------
    >>> from wavefabric.collectives import from_json, point_to_point, to_json
    >>> text = to_json(point_to_point("one", 2, [(0, 1, 8)]))
    >>> print(text.splitlines()[10])
        {"round": 0, "src": [0, "send", 0], "dst": [1, "recv", 0]}
    >>> to_json(from_json(text)) == text
    True
    """
    check_structure(schedule)
    head = {"format": FORMAT, "version": VERSION, "name": schedule.name, "ranks": schedule.ranks}
    head |= {} if schedule.msccl is None else {"msccl": vars(schedule.msccl)}
    head |= {} if schedule.element_bytes is None else {"element_bytes": schedule.element_bytes}
    tables = zip(schedule.buffers, schedule.sizes, strict=True)
    rows = {"buffers": ({"name": name, "sizes": sizes.tolist()} for name, sizes in tables)}
    rows |= {"transfers": _transfers(schedule)}
    rows |= {key: _held(schedule, getattr(schedule, key)) for key in ("pre", "post")}
    return json_rows(head | rows, rows)


def from_json(text: str) -> Schedule:
    """Return the schedule that JSON text describes, unverified: call `verify` to prove it.

    `InputError`, in one line: the key, the value given, the allowed values.
    """
    content = parse_json(text, "schedule", "whole numbers")
    keys = ("format", "version", "name", "ranks", "buffers", "transfers", "pre", "post")
    if isinstance(content, dict):  # another format or version may have other keys
        for key, value in (("format", FORMAT), ("version", VERSION)):
            if content.get(key) != value or type(content[key]) is not type(value):
                _refuse(key, show(content.get(key)), json.dumps(value))
    _keys("schedule", content, keys, ("msccl", "element_bytes"))
    name, size = _text("name", content["name"]), "element_bytes"
    ranks = _whole("ranks", content["ranks"], 1, MOST_RANKS)
    sizes = _buffers(content["buffers"], ranks)
    chunks = _ChunkReader(ranks, sizes)
    rows = [
        chunks.transfer(f"transfers[{i}]", t) for i, t in enumerate(_list("transfers", content["transfers"]))
    ]
    transfers = np.array(rows, TRANSFER)
    moved = int(transfers["count"].sum(dtype=np.int64))
    ensure(moved <= MOST_MOVES, "transfers", f"{moved} chunks moved", f"up to {MOST_MOVES} in all")
    schedule = Schedule(
        name=name,
        ranks=ranks,
        buffers=tuple(sizes),
        sizes=tuple(sizes.values()),
        transfers=transfers,
        pre=chunks.held("pre", content["pre"]),
        post=chunks.held("post", content["post"]),
        msccl=_msccl(content["msccl"]) if "msccl" in content else None,
        element_bytes=_whole("element_bytes", content[size], 1, _INT32) if size in content else None,
    )
    check_structure(schedule)
    return schedule


def load(path: str | Path) -> Schedule:
    """Read a schedule from a JSON file; `InputError` as for `from_json`, beginning with the path."""
    return parsed(path, "schedule", from_json, MOST_SCHEDULE)


def save(path: str | Path, schedule: Schedule, force: bool = False) -> Path:
    """Write a schedule to a JSON file atomically.

    `InputError` if the file exists (without ``force``), is a folder, or cannot be written.
    """
    return write_text(path, to_json(schedule), "schedule", force)


def _transfers(schedule: Schedule) -> Iterator[dict[str, Any]]:
    names = schedule.buffers
    for row in schedule.transfers.tolist():
        round_, src, dst, src_buffer, src_chunk, dst_buffer, dst_chunk, count, reduce, switch = row
        ends = {"src": [src, names[src_buffer], src_chunk], "dst": [dst, names[dst_buffer], dst_chunk]}
        more = ({"count": count} if count != 1 else {}) | ({"reduce": True} if reduce else {})
        yield {"round": round_, **ends, **more} | ({"switch": switch} if switch else {})


def _held(schedule: Schedule, held: Holdings) -> Iterator[dict[str, Any]]:
    for (rank, buffer, chunk), (item, mask) in sorted(held.items()):
        at = [rank, schedule.buffers[buffer], chunk]
        yield {"at": at, "item": item, "origins": _origins(mask, schedule.ranks)}


def _origins(mask: int, ranks: int) -> str | list[int]:
    if mask.bit_count() == ranks > 1:
        return "all"
    if mask.bit_count() > _LISTED:
        return f"{mask:#x}"
    return [rank for rank in range(mask.bit_length()) if mask >> rank & 1]


def _refuse(key: str, actual: str, allowed: str):
    raise InputError(f"{key}: {actual}; allowed: {allowed}")


def _keys(where: str, value: Any, needed: tuple[str, ...], more: tuple[str, ...] = ()) -> None:
    allowed = ", ".join(needed + more)
    if not isinstance(value, dict):
        _refuse(where, show(value), f"an object with the keys {allowed}")
    for key in value:
        if key not in needed and key not in more:
            _refuse(where, f"unknown key {show(key)}", allowed)
    for key in needed:
        if key not in value:
            _refuse(where, f'no key "{key}"', allowed)


def _text(key: str, value: Any) -> str:
    ensure(isinstance(value, str) and is_name(value), key, show(value), NAMES)
    return value


def _whole(key: str, value: Any, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        _refuse(key, show(value), f"whole numbers from {low} to {high}" if high >= low else "nothing")
    return value


def _list(key: str, value: Any) -> list:
    if not isinstance(value, list):
        _refuse(key, show(value), "a list")
    return value


def _msccl(value: Any) -> MscclOrigin:
    _keys("msccl", value, ("protocol", "channels", "most_bytes"))
    ensure(value["protocol"] in PROTOCOLS, "msccl.protocol", show(value["protocol"]), ", ".join(PROTOCOLS))
    channels, most = _whole("msccl.channels", value["channels"], 0, _INT32), value["most_bytes"]
    if most is not None:
        _whole("msccl.most_bytes", most, 0, _INT64)
    return MscclOrigin(value["protocol"], channels, most)


def _buffers(value: Any, ranks: int) -> dict[str, np.ndarray]:
    """Return a dictionary from the name of each buffer in JSON to its chunk sizes, shape (ranks, chunks)."""
    tables: dict[str, np.ndarray] = {}
    ensure(1 <= len(_list("buffers", value)) <= _INT16, "buffers", f"{len(value)} given", f"1 to {_INT16}")
    for i, buffer in enumerate(value):
        where = f"buffers[{i}]"
        _keys(where, buffer, ("name", "sizes"))
        name = _text(f"{where}.name", buffer["name"])
        ensure(name not in tables, f"{where}.name", show(name), "each name once")
        tables[name] = _sizes(f"{where}.sizes", buffer["sizes"], ranks)
        chunks, most = sum(table.size for table in tables.values()), f"up to {MOST_CHUNKS} in all"
        ensure(chunks <= MOST_CHUNKS, f"{where}.sizes", f"{chunks} chunks so far", most)
    return tables


def _sizes(key: str, value: Any, ranks: int) -> np.ndarray:
    ensure(len(_list(key, value)) == ranks, key, f"{len(value)} rows", f"one row a rank, {ranks}")
    for r, row in enumerate(value):
        same = len(_list(f"{key}[{r}]", row)) == len(value[0])
        ensure(same, f"{key}[{r}]", f"{len(row)} numbers", f"as many as in the first row, {len(value[0])}")
        for c, size in enumerate(row):
            _whole(f"{key}[{r}][{c}]", size, 0, _INT64)
    return np.array(value, np.int64).reshape(ranks, -1)


class _ChunkReader:
    """Reads references to chunks, ``[rank, buffer, chunk]``, in buffers of the given sizes."""

    def __init__(self, ranks: int, sizes: dict[str, np.ndarray]):
        self.ranks = ranks
        self.buffers = {name: (b, table.shape[1]) for b, (name, table) in enumerate(sizes.items())}

    def chunk(self, key: str, value: Any) -> tuple[int, int, int]:
        """Return the rank, the number of the buffer and the chunk that a reference in JSON names."""
        if not isinstance(value, list) or len(value) != 3:
            _refuse(key, show(value), "[rank, buffer, chunk]")
        rank, name, chunk = value
        _whole(f"{key}[0]", rank, 0, self.ranks - 1)
        if not isinstance(name, str) or name not in self.buffers:
            _refuse(f"{key}[1]", show(name), ", ".join(self.buffers))
        buffer, chunks = self.buffers[name]
        return rank, buffer, _whole(f"{key}[2]", chunk, 0, chunks - 1)

    def transfer(self, key: str, value: Any) -> tuple:
        """Return a transfer, an object in JSON, as a row of the table of transfers (`TRANSFER`)."""
        _keys(key, value, ("round", "src", "dst"), ("count", "reduce", "switch"))
        round_ = _whole(f"{key}.round", value["round"], 0, _INT32)
        src, *source = self.chunk(f"{key}.src", value["src"])
        dst, *target = self.chunk(f"{key}.dst", value["dst"])
        count = _whole(f"{key}.count", value.get("count", 1), 1, _INT32)
        reduce = value.get("reduce", False)
        if not isinstance(reduce, bool):
            _refuse(f"{key}.reduce", show(reduce), "true or false")
        switch = _whole(f"{key}.switch", value.get("switch", 0), 0, _INT32)
        return round_, src, dst, *source, *target, count, reduce, switch

    def held(self, key: str, value: Any) -> Holdings:
        """Return initial or final contents of chunks, a list in JSON, by (rank, buffer, chunk)."""
        held: Holdings = {}
        for i, entry in enumerate(_list(key, value)):
            where = f"{key}[{i}]"
            _keys(where, entry, ("at", "item", "origins"))
            at = self.chunk(f"{where}.at", entry["at"])
            if at in held:
                _refuse(f"{where}.at", show(entry["at"]), "each chunk once")
            item = _whole(f"{where}.item", entry["item"], 0, _INT64)
            held[at] = item, self._mask(f"{where}.origins", entry["origins"])
        return held

    def _mask(self, key: str, value: Any) -> int:
        mask, last = 0, self.ranks - 1
        if value == "all":
            mask = (1 << self.ranks) - 1
        elif isinstance(value, str) and _HEX.fullmatch(value):
            mask = int(value, 16)
        elif isinstance(value, list):
            for i, rank in enumerate(value):
                mask |= 1 << _whole(f"{key}[{i}]", rank, 0, last)
        if not mask or mask >> self.ranks:
            _refuse(key, show(value), f'a list of ranks from 0 to {last}, "all", or "0x..." of these ranks')
        return mask
