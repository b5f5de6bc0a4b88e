"""Read CSV files of numbers: columns with a header line, and square matrices without a header."""

import contextlib
import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wavefabric.base.errors import InputError, quoted
from wavefabric.base.files.input import read_bytes

Array = NDArray[np.float64]


def read_columns(
    path: str | Path, needed: tuple[str, ...], optional: tuple[str, ...] = ()
) -> dict[str, np.ndarray]:
    """Read a CSV file; return a dictionary from each name in its header line to that column's numbers.

    Lines that start with # are comments. `InputError` if a column of ``needed`` is missing, a column is in
    neither ``needed`` nor ``optional``, or a cell is not a finite number.
    """
    rows = [row for row in _cells(path) if not row[0].lstrip().startswith("#")]
    header = [cell.strip() for cell in rows[0]] if rows else []
    wrong = set(needed) - set(header) or set(header) - {*needed, *optional}
    if wrong or len(rows) < 2 or len(set(header)) != len(header):
        allowed = ", ".join(needed) + (f"; optional: {', '.join(optional)}" if optional else "")
        has = f"columns {','.join(header) or 'none'} with {len(rows[1:])} rows"
        raise InputError(f"{path}: {has}; needs {allowed}")
    values = np.full((len(rows), len(header)), np.nan)
    for number, row in enumerate(rows[1:], start=1):
        if len(row) != len(header):
            raise InputError(f"{path}: row {number} has {len(row)} cells; the header has {len(header)}")
        for column, cell in enumerate(row):
            with contextlib.suppress(ValueError):
                values[number, column] = float(cell)
            if not np.isfinite(values[number, column]):
                where = f"row {number}, {header[column]}"
                raise InputError(f"{path}: {where}: {quoted(cell)}; a finite number is needed")
    return dict(zip(header, values[1:].T, strict=True))


def read_square_matrix(path: str | Path) -> Array:
    """Read a square matrix of numbers from a CSV file without a header; InputError for other contents."""
    cells = _cells(path)
    try:
        rows = [[float(cell) for cell in row] for row in cells]
    except ValueError as error:
        raise InputError(f"{path}: cannot be read as a matrix of numbers ({error})") from None
    if not rows or any(len(row) != len(rows) for row in rows):
        size = f"{len(rows)} rows of {len(rows[0]) if rows else 0} numbers"
        raise InputError(f"{path}: {size}; needs a square matrix")
    return np.array(rows)


def _cells(path: str | Path) -> list[list[str]]:
    """Return the text of a CSV file's cells, a list per row that is not empty; InputError if not readable."""
    try:
        lines = read_bytes(path).decode("utf-8-sig").splitlines()
        return [row for row in csv.reader(lines) if any(row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read as CSV ({error})") from None
