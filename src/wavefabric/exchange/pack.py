"""Boxes of fields to and from a linear buffer (NumPy); ``pack.cu`` holds the same for CUDA.

A *table* describes messages: rows of (first z, y, x, points along z, y, x, place in the buffer), int64.
Message m holds its box of each field, one field after another.
"""

from __future__ import annotations

import numpy as np


def make_table(device, boxes, fields: int):
    """The table of boxes, as `pack` and `unpack` take it.

    Parameters
    ----------
    device : Device
    boxes : list of tuple of three slices
        Within the fields; messages lie in the buffer in this order.
    fields : int
    """
    rows, at = [], 0
    for box in boxes:
        size = [s.stop - s.start for s in box]
        rows.append([*(s.start for s in box), *size, at])
        at += fields * int(np.prod(size))
    return np.array(rows, np.int64).reshape(-1, 7)


def _places(table, array):
    for z, y, x, nz, ny, nx, at in table:
        yield array[z : z + nz, y : y + ny, x : x + nx], at, nz * ny * nx


def pack(buffer, arrays, table) -> None:
    """buffer ← boxes of ``arrays``, a list of (Nz, Ny, Nx) fields of the buffer's dtype."""
    for number, array in enumerate(arrays):
        for part, at, size in _places(table, array):
            first = at + number * size
            buffer[first : first + size].reshape(part.shape)[...] = part


def unpack(buffer, arrays, table, weights) -> None:
    """Boxes of ``arrays`` ← buffer, times a weight of z, of y and of x if ``weights`` holds such vectors."""
    for number, array in enumerate(arrays):
        for row, (part, at, size) in zip(table, _places(table, array), strict=True):
            first = at + number * size
            part[...] = buffer[first : first + size].reshape(part.shape)
            if weights is not None:
                z, y, x = (w[i : i + n] for w, i, n in zip(weights, row[:3], row[3:6], strict=True))
                part *= z[:, None, None] * y[:, None] * x


def copy_boxes(targets, sources, target_table, source_table, weights) -> None:
    """Boxes within one rank: each of ``source_table`` to the same number of ``target_table``."""
    for source, target in zip(sources, targets, strict=True):
        pairs = zip(target_table, _places(target_table, target), _places(source_table, source), strict=True)
        for row, (there, _, _), (here, _, _) in pairs:
            there[...] = here
            if weights is not None:
                z, y, x = (w[i : i + n] for w, i, n in zip(weights, row[:3], row[3:6], strict=True))
                there *= z[:, None, None] * y[:, None] * x
