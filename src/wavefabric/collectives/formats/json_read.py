"""The content of a schedule's JSON file, checked key by key."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from wavefabric.collectives.arguments import MOST_CHUNKS, MOST_MOVES, MOST_RANKS
from wavefabric.collectives.schedule import PROTOCOLS, TRANSFER, Holdings, MscclOrigin, Schedule
from wavefabric.collectives.structure import NAMES, check_structure, is_name
from wavefabric.errors import InputError

FORMAT = "wavefabric schedule"
VERSION = 1

_HEX = re.compile(r"0x[0-9a-fA-F]+")
_COUNT = list(TRANSFER.fields or ()).index("count")
_INT16, _INT32, _INT64 = (int(np.iinfo(kind).max) for kind in (np.int16, np.int32, np.int64))


def read_schedule(content: Any) -> Schedule:
    """The schedule of a parsed JSON file; errors in one line: which key, what was given, what is allowed."""
    keys = ("format", "version", "name", "ranks", "buffers", "transfers", "pre", "post")
    if isinstance(content, dict):  # of another format or version, nothing else can be judged
        for key, value in (("format", FORMAT), ("version", VERSION)):
            if content.get(key) != value or type(content[key]) is not type(value):
                _refuse(key, content.get(key), json.dumps(value))
    _keys("schedule", content, keys, ("msccl",))
    name = _text("name", content["name"])
    ranks = _whole("ranks", content["ranks"], 1, MOST_RANKS)
    buffers, sizes = _buffers(content["buffers"], ranks)
    widths = {name: (b, s.shape[1]) for b, (name, s) in enumerate(zip(buffers, sizes, strict=True))}
    chunks = _ChunkReader(ranks, widths)
    transfers = _list("transfers", content["transfers"])
    rows = [_transfer(f"transfers[{i}]", t, chunks) for i, t in enumerate(transfers)]
    moved = sum(row[_COUNT] for row in rows)
    if moved > MOST_MOVES:
        _refuse_text("transfers", f"{moved} chunks moved", f"up to {MOST_MOVES} in all")
    schedule = Schedule(
        name=name,
        ranks=ranks,
        buffers=buffers,
        sizes=sizes,
        transfers=np.array(rows, TRANSFER),
        pre=_held("pre", content["pre"], chunks),
        post=_held("post", content["post"], chunks),
        msccl=_msccl(content["msccl"]) if "msccl" in content else None,
    )
    check_structure(schedule)
    return schedule


def _refuse(key: str, given: Any, allowed: str):
    _refuse_text(key, _shown(given), allowed)


def _refuse_text(key: str, given: str, allowed: str):
    raise InputError(f"{key}: {given}; allowed: {allowed}")


def _shown(given: Any) -> str:
    """JSON in ASCII, cut to the length of a line."""
    try:
        text = json.dumps(given)
    except (ValueError, RecursionError):
        return "a value too large to show"
    return text if len(text) <= 60 else text[:57] + "..."


def _keys(where: str, value: Any, needed: tuple[str, ...], more: tuple[str, ...] = ()) -> None:
    allowed = ", ".join(needed + more)
    if not isinstance(value, dict):
        _refuse(where, value, f"an object with the keys {allowed}")
    for key in value:
        if key not in needed and key not in more:
            _refuse_text(where, f"unknown key {_shown(key)}", allowed)
    for key in needed:
        if key not in value:
            _refuse_text(where, f'no key "{key}"', allowed)


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str) or not is_name(value):
        _refuse(key, value, NAMES)
    return value


def _whole(key: str, value: Any, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        _refuse(key, value, f"whole numbers from {low} to {high}" if high >= low else "nothing")
    return value


def _list(key: str, value: Any) -> list:
    if not isinstance(value, list):
        _refuse(key, value, "a list")
    return value


def _msccl(value: Any) -> MscclOrigin:
    _keys("msccl", value, ("protocol", "channels", "most_bytes"))
    if value["protocol"] not in PROTOCOLS:
        _refuse("msccl.protocol", value["protocol"], ", ".join(PROTOCOLS))
    most = value["most_bytes"]
    return MscclOrigin(
        protocol=value["protocol"],
        channels=_whole("msccl.channels", value["channels"], 0, _INT32),
        most_bytes=most if most is None else _whole("msccl.most_bytes", most, 0, _INT64),
    )


def _buffers(value: Any, ranks: int) -> tuple[tuple[str, ...], tuple[np.ndarray, ...]]:
    names: list[str] = []
    tables: list[np.ndarray] = []
    if not 1 <= len(_list("buffers", value)) <= _INT16:
        _refuse_text("buffers", f"{len(value)} given", f"1 to {_INT16}")
    for i, buffer in enumerate(value):
        where = f"buffers[{i}]"
        _keys(where, buffer, ("name", "sizes"))
        name = _text(f"{where}.name", buffer["name"])
        if name in names:
            _refuse(f"{where}.name", name, "each name once")
        names.append(name)
        tables.append(_sizes(f"{where}.sizes", buffer["sizes"], ranks))
        if (chunks := sum(table.size for table in tables)) > MOST_CHUNKS:
            _refuse_text(f"{where}.sizes", f"{chunks} chunks so far", f"up to {MOST_CHUNKS} in all")
    return tuple(names), tuple(tables)


def _sizes(key: str, value: Any, ranks: int) -> np.ndarray:
    if len(_list(key, value)) != ranks:
        _refuse_text(key, f"{len(value)} rows", f"one row a rank, {ranks}")
    for r, row in enumerate(value):
        if len(_list(f"{key}[{r}]", row)) != len(value[0]):
            allowed = f"as many as in the first row, {len(value[0])}"
            _refuse_text(f"{key}[{r}]", f"{len(row)} numbers", allowed)
        for c, size in enumerate(row):
            _whole(f"{key}[{r}][{c}]", size, 0, _INT64)
    return np.array(value, np.int64).reshape(ranks, -1)


class _ChunkReader:
    """Reads ``[rank, buffer, chunk]``; `buffers`: number and width by name."""

    def __init__(self, ranks: int, buffers: dict[str, tuple[int, int]]):
        self.ranks, self.buffers = ranks, buffers

    def read(self, key: str, value: Any) -> tuple[int, int, int]:
        """Rank, number of the buffer, chunk."""
        if not isinstance(value, list) or len(value) != 3:
            _refuse(key, value, "[rank, buffer, chunk]")
        rank, name, chunk = value
        _whole(f"{key}[0]", rank, 0, self.ranks - 1)
        if not isinstance(name, str) or name not in self.buffers:
            _refuse(f"{key}[1]", name, ", ".join(self.buffers))
        buffer, chunks = self.buffers[name]
        return rank, buffer, _whole(f"{key}[2]", chunk, 0, chunks - 1)


def _transfer(key: str, value: Any, chunks: _ChunkReader) -> tuple:
    _keys(key, value, ("round", "src", "dst"), ("count", "reduce"))
    round_ = _whole(f"{key}.round", value["round"], 0, _INT32)
    src, src_buffer, src_chunk = chunks.read(f"{key}.src", value["src"])
    dst, dst_buffer, dst_chunk = chunks.read(f"{key}.dst", value["dst"])
    count = _whole(f"{key}.count", value.get("count", 1), 1, _INT32)
    reduce = value.get("reduce", False)
    if not isinstance(reduce, bool):
        _refuse(f"{key}.reduce", reduce, "true or false")
    return round_, src, dst, src_buffer, src_chunk, dst_buffer, dst_chunk, count, reduce


def _held(key: str, value: Any, chunks: _ChunkReader) -> Holdings:
    held: Holdings = {}
    for i, entry in enumerate(_list(key, value)):
        where = f"{key}[{i}]"
        _keys(where, entry, ("at", "item", "origins"))
        at = chunks.read(f"{where}.at", entry["at"])
        if at in held:
            _refuse(f"{where}.at", entry["at"], "each chunk once")
        item = _whole(f"{where}.item", entry["item"], 0, _INT64)
        held[at] = item, _origins(f"{where}.origins", entry["origins"], chunks.ranks)
    return held


def _origins(key: str, value: Any, ranks: int) -> int:
    mask = 0
    if value == "all":
        mask = (1 << ranks) - 1
    elif isinstance(value, str) and _HEX.fullmatch(value):
        mask = int(value, 16)
    elif isinstance(value, list):
        for i, rank in enumerate(value):
            mask |= 1 << _whole(f"{key}[{i}]", rank, 0, ranks - 1)
    if not mask or mask >> ranks:
        _refuse(key, value, f'a list of ranks from 0 to {ranks - 1}, "all", or "0x..." of these ranks')
    return mask
