"""Read the files that commands take (text, JSON, fabrics), and write several files together."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wavefabric.base.errors import InputError
from wavefabric.base.files import input as input_file
from wavefabric.base.files.input import MOST_TEXT, begins_as_hdf5
from wavefabric.base.files.output import check_output, replacing
from wavefabric.cli.common.options import check_range, refuse

if TYPE_CHECKING:
    from wavefabric.fabric import AnyFabric

#: Endings of pictures.
PICTURES = (".png", ".svg", ".pdf")


def read_text(path: Path, key: str, most: int = MOST_TEXT) -> str:
    """Return the text of a file of at most ``most`` bytes; ``key`` names the option in errors."""
    return input_file.read_text(path, key, most).removeprefix("\ufeff")


def read_json(path: Path, key: str) -> Any:
    """Return the content of a JSON file; ``key`` names the option in errors."""
    text = read_text(path, key)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        fault = f"line {error.lineno}" if isinstance(error, json.JSONDecodeError) else "too large"
        raise InputError(f"{key}: {path} is not JSON ({fault}); allowed: a JSON file") from None


def read_rows(path: Path, key: str, columns: str, most: int | None = None) -> list[Any]:
    """Return rows of whole numbers, 0 to ``most``, of a JSON file; ``columns`` is such as ``[src, dst]``."""
    rows = read_json(path, key)
    if not isinstance(rows, list):
        raise InputError(f"{key}: {path} holds no list; allowed: a JSON list of {columns}")
    limit = f"whole, from 0{'' if most is None else f' to {most}'}"
    for number, row in enumerate(rows):
        good = isinstance(row, list) and len(row) == columns.count(",") + 1
        if not good or not all(type(v) is int and v >= 0 and (most is None or v <= most) for v in row):
            actual = f"{path}[{number}]: {str(row)[:40]} given"
            raise InputError(f"{key}: {actual}; allowed: {columns}, {limit}")
    return [tuple(row) for row in rows]


def is_hdf5(file: Path) -> bool:
    """Return whether a file is HDF5 by its name, or by its content if its name does not say TOML."""
    suffix = file.suffix.lower()
    if suffix in (".h5", ".hdf5"):
        return True
    try:
        return suffix != ".toml" and begins_as_hdf5(file)
    except (OSError, ValueError):  # the code that reads the file raises a clear error
        return False


def write_all(texts: Mapping[Path, str], force: bool = False, key: str = "--output") -> list[Path]:
    """Write ``texts`` (by path) to files; none is replaced before all new files are complete on the disk."""
    for path in texts:
        check_output(path, force, key)
    with contextlib.ExitStack() as stack:
        for path, text in texts.items():
            stack.enter_context(replacing(path, key)).write_text(text, encoding="utf-8")
    return list(texts)


def load_fabric(text: str, lasers: int | None = None, waveguides: int | None = None) -> AnyFabric:
    """Load a fabric by name or file; ``lasers`` and ``waveguides`` replace a photonic fabric's numbers."""
    from wavefabric.fabric import PhotonicFabric, load

    fabric = load(text)
    for name, value in (("lasers", lasers), ("waveguides", waveguides)):
        if value is None:
            continue
        if not isinstance(fabric, PhotonicFabric):
            refuse({name: value}, f"with electrical {fabric.name}", "with photonic ones")
        check_range(f"--{name}", value, 1, 4096, "1 to 4096")
        follows = {"serdes_ports": None} if name == "lasers" else {"fibres": min(fabric.fibres, value)}
        label = f"{fabric.name}, {value} {name[:-1] if value == 1 else name}"
        fabric = replace(fabric, name=label, **{name: value}, **follows)
    return fabric
