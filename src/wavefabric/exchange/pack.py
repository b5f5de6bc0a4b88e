"""Boxes of fields to and from a linear buffer (NumPy); ``pack.cu`` holds the same for CUDA.

A *table* describes messages: rows of (first z, y, x, points along z, y, x, offset in the buffer), int64.
Message m holds its box of each field, one field after another.
"""

import numpy as np


def make_table(device, boxes, fields: int):
    """The table of boxes, (z, y, x) slices within the fields, in the order of messages in the buffer."""
    rows, offset = [], 0
    for box in boxes:
        size = [s.stop - s.start for s in box]
        rows.append([*(s.start for s in box), *size, offset])
        offset += fields * int(np.prod(size))
    return np.array(rows, np.int64).reshape(-1, 7)


def _boxes(table, array):
    """Each box of an array, with its offset in the buffer and its size."""
    for z, y, x, nz, ny, nx, offset in table:
        yield array[z : z + nz, y : y + ny, x : x + nx], offset, nz * ny * nx


def _weigh(box, row, weights) -> None:
    """Multiply a box by a weight of z, of y and of x, if there are such vectors."""
    if weights is not None:
        z, y, x = (w[i : i + n] for w, i, n in zip(weights, row[:3], row[3:6], strict=True))
        box *= z[:, None, None] * y[:, None] * x


def pack(buffer, arrays, table) -> None:
    """buffer ← boxes of ``arrays``, a list of (Nz, Ny, Nx) fields of the buffer's dtype."""
    for number, array in enumerate(arrays):
        for box, offset, size in _boxes(table, array):
            first = offset + number * size
            buffer[first : first + size].reshape(box.shape)[...] = box


def unpack(buffer, arrays, table, weights) -> None:
    """Boxes of ``arrays`` ← buffer, times weights (see `_weigh`)."""
    for number, array in enumerate(arrays):
        for row, (box, offset, size) in zip(table, _boxes(table, array), strict=True):
            first = offset + number * size
            box[...] = buffer[first : first + size].reshape(box.shape)
            _weigh(box, row, weights)


def copy_boxes(targets, sources, target_table, source_table, weights) -> None:
    """Boxes within one rank: each of ``source_table`` to the same number of ``target_table``."""
    for source, target in zip(sources, targets, strict=True):
        pairs = zip(target_table, _boxes(target_table, target), _boxes(source_table, source), strict=True)
        for row, (there, _, _), (here, _, _) in pairs:
            there[...] = here
            _weigh(there, row, weights)
