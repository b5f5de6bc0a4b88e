"""Schedules as JSON files that people can read and write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from wavefabric.collectives.formats.json_read import FORMAT, VERSION, read_schedule
from wavefabric.collectives.schedule import Holdings, Schedule
from wavefabric.collectives.structure import check_structure
from wavefabric.errors import InputError
from wavefabric.files.input import MOST_SCHEDULE, read_text
from wavefabric.files.output import write_text

#: More origins than this are written as hexadecimal text.
_LISTED = 8


def to_json(schedule: Schedule) -> str:
    """A schedule as JSON text, one transfer a line.

    Raises
    ------
    ScheduleError
        If numbers are out of range, so that the text could not be read again.

    Notes
    -----
    A chunk is ``[rank, buffer, chunk]``. A transfer has ``"count"`` only if it moves several chunks and
    ``"reduce"`` only if it adds. ``"origins"`` is a list of ranks, ``"all"``, or hexadecimal text whose bit r
    stands for rank r.

    Examples
    --------
    >>> from wavefabric.collectives import from_json, point_to_point, to_json
    >>> text = to_json(point_to_point("one", 2, [(0, 1, 8)]))
    >>> print(text)
    {
      "format": "wavefabric schedule",
      "version": 1,
      "name": "one",
      "ranks": 2,
      "buffers": [
        {"name": "send", "sizes": [[8], [0]]},
        {"name": "recv", "sizes": [[0], [8]]}
      ],
      "transfers": [
        {"round": 0, "src": [0, "send", 0], "dst": [1, "recv", 0]}
      ],
      "pre": [
        {"at": [0, "send", 0], "item": 0, "origins": [0]}
      ],
      "post": [
        {"at": [1, "recv", 0], "item": 0, "origins": [0]}
      ]
    }
    <BLANKLINE>
    >>> to_json(from_json(text)) == text
    True
    """
    check_structure(schedule)
    return "\n".join(_lines(schedule)) + "\n"


def from_json(text: str) -> Schedule:
    """The schedule that JSON text describes. What it states is not proved: call `verify`.

    Raises
    ------
    InputError
        In one line: which key, what was given, what is allowed.
    """
    try:
        content = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"schedule: not JSON ({error.msg} at {where}); allowed: a JSON object") from None
    except RecursionError:
        raise InputError("schedule: nested too deeply; allowed: a JSON object like that of to_json") from None
    except InputError:
        raise
    except ValueError:  # Python reads no whole number of more than 4300 digits
        raise InputError("schedule: a number with too many digits; allowed: numbers below 2^63") from None
    return read_schedule(content)


def load(path: str | Path) -> Schedule:
    """Read a schedule from a JSON file.

    Raises
    ------
    InputError
        If the file cannot be read, or as `from_json`, the path in front.
    """
    text = read_text(path, "schedule", MOST_SCHEDULE)
    try:
        return from_json(text)
    except InputError as error:
        raise type(error)(f"{path}: {error}") from None


def save(path: str | Path, schedule: Schedule, force: bool = False) -> Path:
    """Write a schedule to a JSON file, whole or not at all.

    Parameters
    ----------
    path : str or Path
    schedule : Schedule
    force : bool
        Replace a file that is there.

    Raises
    ------
    InputError
        If it exists (without `force`), is a folder, or cannot be written.
    """
    return write_text(path, to_json(schedule), "schedule", force)


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    content = dict(pairs)
    if len(content) < len(pairs):
        keys = [k for k, _ in pairs]
        twice = next(k for k in keys if keys.count(k) > 1)
        raise InputError(f"{json.dumps(twice)[:60]}: given twice in one object; allowed: once")
    return content


def _no_constant(text: str):
    raise InputError(f"schedule: {text}; allowed: whole numbers")


def _lines(schedule: Schedule) -> Iterator[str]:
    """One line a transfer, a buffer, or a chunk held."""
    names = [json.dumps(name, ensure_ascii=False) for name in schedule.buffers]
    yield "{"
    yield f'  "format": "{FORMAT}",'
    yield f'  "version": {VERSION},'
    yield f'  "name": {json.dumps(schedule.name, ensure_ascii=False)},'
    yield f'  "ranks": {schedule.ranks},'
    if schedule.msccl is not None:
        yield f'  "msccl": {json.dumps(vars(schedule.msccl))},'
    lists = {
        "buffers": [
            f'{{"name": {name}, "sizes": {json.dumps(sizes.tolist())}}}'
            for name, sizes in zip(names, schedule.sizes, strict=True)
        ],
        "transfers": [_transfer(row, names) for row in schedule.transfers.tolist()],
        "pre": _held(schedule.pre, names, schedule.ranks),
        "post": _held(schedule.post, names, schedule.ranks),
    }
    for key, lines in lists.items():
        content = "\n    " + ",\n    ".join(lines) + "\n  " if lines else ""
        yield f'  "{key}": [{content}]' + ("," if key != "post" else "")
    yield "}"


def _transfer(row: tuple, names: list[str]) -> str:
    round_, src, dst, src_buffer, src_chunk, dst_buffer, dst_chunk, count, reduce = row
    source = f"[{src}, {names[src_buffer]}, {src_chunk}]"
    target = f"[{dst}, {names[dst_buffer]}, {dst_chunk}]"
    more = f', "count": {count}' if count != 1 else ""
    more += ', "reduce": true' if reduce else ""
    return f'{{"round": {round_}, "src": {source}, "dst": {target}{more}}}'


def _held(held: Holdings, names: list[str], ranks: int) -> list[str]:
    return [
        f'{{"at": [{rank}, {names[buffer]}, {chunk}], "item": {item}, "origins": {_origins(mask, ranks)}}}'
        for (rank, buffer, chunk), (item, mask) in sorted(held.items())
    ]


def _origins(mask: int, ranks: int) -> str:
    if mask.bit_count() == ranks > 1:
        return '"all"'
    if mask.bit_count() > _LISTED:
        return f'"{mask:#x}"'
    return str([rank for rank in range(mask.bit_length()) if mask >> rank & 1])
