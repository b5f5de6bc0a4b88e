"""CSV files of numbers: columns with a header, square matrices without."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wavefabric.errors import InputError, quoted
from wavefabric.files.input import read_bytes


def read_columns(
    path: str | Path, needed: tuple[str, ...], optional: tuple[str, ...] = ()
) -> dict[str, list[float]]:
    """Numeric columns of a CSV file by the names in its header line, all of one length.

    InputError if the file cannot be read, a column is missing or unknown (a typing slip), or a cell is no
    finite number.
    """
    try:
        text = io.StringIO(read_bytes(path).decode("utf-8-sig"), newline="")
        rows = [row for row in csv.reader(text) if row and not row[0].lstrip().startswith("#")]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read as CSV ({error})") from None
    allowed = ", ".join(needed) + (f"; optional: {', '.join(optional)}" if optional else "")
    header = [cell.strip() for cell in rows[0]] if rows else []
    wrong = [name for name in needed if name not in header]
    wrong += [name for name in header if name not in needed + optional]
    if wrong or len(rows) < 2 or len(set(header)) != len(header):
        raise InputError(
            f"{path}: columns {','.join(header) or 'none'} with {len(rows[1:])} rows; needs {allowed}"
        )
    columns: dict[str, list[float]] = {name: [] for name in header}
    for number, row in enumerate(rows[1:], start=1):
        if len(row) != len(header):
            raise InputError(f"{path}: row {number} has {len(row)} cells; the header has {len(header)}")
        for name, cell in zip(header, row, strict=True):
            try:
                value = float(cell)
            except ValueError:
                value = math.nan
            if not math.isfinite(value):
                raise InputError(f"{path}: row {number}, {name}: {quoted(cell)}; a finite number is needed")
            columns[name].append(value)
    return columns


def read_square_matrix(path: str | Path) -> NDArray[np.float64]:
    """A square matrix of numbers without a header; InputError otherwise."""
    try:
        lines = read_bytes(path).decode("utf-8-sig").splitlines()
        rows = [[float(cell) for cell in line.split(",")] for line in lines if line.strip()]
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as a matrix of numbers ({error})") from None
    if not rows or any(len(row) != len(rows) for row in rows):
        raise InputError(
            f"{path}: {len(rows)} rows of {len(rows[0]) if rows else 0} numbers; needs a square matrix"
        )
    return np.array(rows)
