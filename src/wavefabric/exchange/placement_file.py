"""Files that say which GPU each rank takes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from wavefabric.errors import InputError, cut, quoted, visible
from wavefabric.files.input import read_bytes
from wavefabric.files.text import parse_toml

#: Numbers of GPUs that a file may name: a bound on absurd input.
MOST_GPUS = 4096
_NUMBER = re.compile(r"[0-9]{1,9}")


def read_placement(path: str | Path, ranks: int | None = None) -> list[int]:
    """Read the GPU of each rank, rank 0 first; with ``ranks``, there must be so many.

    The file is TOML with ``placement = [0, 1, …]``, JSON with such a list or table, or text: numbers with
    blanks, commas or line ends between; ``#`` begins a remark. `InputError` names file, line and what is
    allowed.
    """
    path = Path(path)
    try:
        text = read_bytes(path).decode("utf-8")
    except (OSError, ValueError) as error:  # ValueError: no text, or a name with a null byte
        reason = getattr(error, "strerror", None) or "it is no text"
        raise InputError(f"--placement: {path} cannot be read ({reason}); allowed: a file, or auto") from None
    suffix = path.suffix.lower()
    entries = _structured(path, text, suffix) if suffix in (".json", ".toml") else _plain(path, text)
    seen: dict[int, str] = {}
    for where, value in entries:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MOST_GPUS:
            allowed = f"the number of a GPU, 0 to {MOST_GPUS - 1}"
            raise InputError(f"{where}: {quoted(value)} given; allowed: {allowed}")
        if value in seen:
            raise InputError(
                f"{where}: GPU {value} is given again (first: {seen[value]}); allowed: each once"
            )
        seen[value] = where.removeprefix(f"{path}, ")
    if ranks is not None and len(seen) != ranks:
        raise InputError(f"{path}: {len(seen)} GPUs given; allowed: one for each of {ranks} ranks")
    return list(seen)


def _plain(path: Path, text: str) -> list[tuple[str, Any]]:
    """Line and value of each entry of plain text."""
    return [
        (f"{path}, line {number}", int(word) if _NUMBER.fullmatch(word) else word)
        for number, line in enumerate(text.splitlines(), 1)
        for word in re.split(r"[\s,]+", line.partition("#")[0].strip())
        if word
    ]


def _structured(path: Path, text: str, suffix: str) -> list[tuple[str, Any]]:
    """Place and value of each entry of JSON or TOML."""
    try:
        content = parse_toml(text, str(path)) if suffix == ".toml" else json.loads(text)
    except InputError:
        raise
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {error.lineno}: {error.msg}; allowed: JSON") from None
    except (RecursionError, ValueError):  # Python reads no whole number of more than 4300 digits
        raise InputError(
            f"{path}: nested too deeply, or a number with too many digits; allowed: JSON"
        ) from None
    if isinstance(content, dict):
        if set(content) != {"placement"}:
            keys = ", ".join(cut(visible(str(key))) for key in content) or "nothing"
            raise InputError(f"{path}: {keys} given; allowed: placement = [GPU of rank 0, of rank 1, ...]")
        content = content["placement"]
    if not isinstance(content, list):
        raise InputError(
            f"{path}: placement: {quoted(content)} given; allowed: a list with the GPU of each rank"
        )
    return [(f"{path}, entry {number}", value) for number, value in enumerate(content, 1)]
