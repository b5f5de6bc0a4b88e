"""Copy boxes of fields to and from a linear buffer, with NumPy; ``pack.cu`` does the same with CUDA.

A *table* describes messages: rows of (first z, y, x, points along z, y, x, offset in the buffer), int64.
The part of the buffer for a message contains the message's box of each field, one field after another.
"""

import numpy as np


def make_table(device, boxes, fields: int):
    """Return the table of messages: int64 rows (first z, y, x, points along z, y, x, offset in the buffer).

    Each message has one of ``boxes``, (z, y, x) slices, of each of ``fields`` arrays.
    """
    rows, offset = [], 0
    for box in boxes:
        size = [s.stop - s.start for s in box]
        rows.append([*(s.start for s in box), *size, offset])
        offset += fields * int(np.prod(size))
    return np.array(rows, np.int64).reshape(-1, 7)


def _boxes(table, array):
    """Yield, per row of ``table``, a box of ``array``, its offset in the buffer and its number of points."""
    for z, y, x, nz, ny, nx, offset in table:
        yield array[z : z + nz, y : y + ny, x : x + nx], offset, nz * ny * nx


def _weigh(box, row, weights) -> None:
    """Multiply ``box``, described by a ``row`` of a table, by the ``weights`` along z, y and x, if any."""
    if weights is not None:
        z, y, x = (w[i : i + n] for w, i, n in zip(weights, row[:3], row[3:6], strict=True))
        box *= z[:, None, None] * y[:, None] * x


def pack(buffer, arrays, table) -> None:
    """Copy the boxes that ``table`` lists from each of ``arrays``, fields (Nz, Ny, Nx), to ``buffer``."""
    for number, array in enumerate(arrays):
        for box, offset, size in _boxes(table, array):
            first = offset + number * size
            buffer[first : first + size].reshape(box.shape)[...] = box


def unpack(buffer, arrays, table, weights) -> None:
    """Copy ``buffer`` to the boxes that ``table`` lists in ``arrays``, times ``weights`` along z, y and x."""
    for number, array in enumerate(arrays):
        for row, (box, offset, size) in zip(table, _boxes(table, array), strict=True):
            first = offset + number * size
            box[...] = buffer[first : first + size].reshape(box.shape)
            _weigh(box, row, weights)


def copy_boxes(targets, sources, target_table, source_table, weights) -> None:
    """Copy box n of each source, times ``weights``, to box n of each target, all in arrays of this rank."""
    for source, target in zip(sources, targets, strict=True):
        pairs = zip(target_table, _boxes(target_table, target), _boxes(source_table, source), strict=True)
        for row, (there, _, _), (here, _, _) in pairs:
            there[...] = here
            _weigh(there, row, weights)
