"""Copy boxes of fields to and from a linear buffer, with NumPy; ``pack.cu`` does the same with CUDA.

A *table* describes messages: rows of (first z, y, x, points along z, y, x, offset in the buffer), int64.
The part of the buffer for a message contains the message's box of each field, one field after another.
"""

import numpy as np


def make_table(device, boxes, fields: int):
    """Return a table of messages with one row for each of ``boxes``, which are (z, y, x) slices.

    A row is (first z, y, x, points along z, y, x, offset in the buffer), int64. The message contains this box
    of each of ``fields`` arrays.
    """
    rows, offset = [], 0
    for box in boxes:
        size = [s.stop - s.start for s in box]
        rows.append([*(s.start for s in box), *size, offset])
        offset += fields * int(np.prod(size))
    return np.array(rows, np.int64).reshape(-1, 7)


def _boxes(table, array):
    """Yield for each row of ``table`` (box of ``array``, its offset in the buffer, number of points)."""
    for z, y, x, nz, ny, nx, offset in table:
        yield array[z : z + nz, y : y + ny, x : x + nx], offset, nz * ny * nx


def _weigh(box, row, weights) -> None:
    """Multiply ``box`` in place by its part of the vectors ``weights`` along z, y and x (None: not at all).

    ``row`` of a table says which points of the whole array are in the box.
    """
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
    """Copy data from ``buffer`` to the boxes that ``table`` lists of each of ``arrays``.

    They are multiplied by ``weights``, which are vectors along z, y and x of an array, or None.
    """
    for number, array in enumerate(arrays):
        for row, (box, offset, size) in zip(table, _boxes(table, array), strict=True):
            first = offset + number * size
            box[...] = buffer[first : first + size].reshape(box.shape)
            _weigh(box, row, weights)


def copy_boxes(targets, sources, target_table, source_table, weights) -> None:
    """Copy boxes of the arrays ``sources`` to boxes of the arrays ``targets``, all on this rank.

    Box n of ``source_table`` is copied to box n of ``target_table`` and multiplied there by ``weights``, as
    in `unpack`.
    """
    for source, target in zip(sources, targets, strict=True):
        pairs = zip(target_table, _boxes(target_table, target), _boxes(source_table, source), strict=True)
        for row, (there, _, _), (here, _, _) in pairs:
            there[...] = here
            _weigh(there, row, weights)
