"""Copy boxes of fields to and from a linear buffer, with NumPy; ``pack.cu`` does the same with CUDA.

A *table* describes messages: rows of (first z, y, x, points along z, y, x, offset in the buffer), int64.
The part of the buffer for a message contains the message's box of each field, one field after another.
"""

import numpy as np


def make_table(device, boxes, fields: int):
    """Return the table of messages of ``fields`` fields; ``boxes`` are (z, y, x) slices, one per message."""
    rows, offset = [], 0
    for box in boxes:
        size = [s.stop - s.start for s in box]
        rows.append([*(s.start for s in box), *size, offset])
        offset += fields * int(np.prod(size))
    return np.array(rows, np.int64).reshape(-1, 7)


def _boxes(table, array):
    """Yield each box of ``array`` with its offset in the buffer and its number of points."""
    for z, y, x, nz, ny, nx, offset in table:
        yield array[z : z + nz, y : y + ny, x : x + nx], offset, nz * ny * nx


def _weigh(box, row, weights) -> None:
    """Multiply ``box`` by the weight vectors along z, y and x; do nothing if ``weights`` is None."""
    if weights is not None:
        z, y, x = (w[i : i + n] for w, i, n in zip(weights, row[:3], row[3:6], strict=True))
        box *= z[:, None, None] * y[:, None] * x


def pack(buffer, arrays, table) -> None:
    """Copy boxes of ``arrays``, a list of (Nz, Ny, Nx) fields of the buffer's dtype, into ``buffer``."""
    for number, array in enumerate(arrays):
        for box, offset, size in _boxes(table, array):
            first = offset + number * size
            buffer[first : first + size].reshape(box.shape)[...] = box


def unpack(buffer, arrays, table, weights) -> None:
    """Copy ``buffer`` into boxes of ``arrays`` and multiply these by ``weights`` (see `_weigh`)."""
    for number, array in enumerate(arrays):
        for row, (box, offset, size) in zip(table, _boxes(table, array), strict=True):
            first = offset + number * size
            box[...] = buffer[first : first + size].reshape(box.shape)
            _weigh(box, row, weights)


def copy_boxes(targets, sources, target_table, source_table, weights) -> None:
    """Copy box n of ``source_table`` times ``weights`` to box n of ``target_table``, both on this rank."""
    for source, target in zip(sources, targets, strict=True):
        pairs = zip(target_table, _boxes(target_table, target), _boxes(source_table, source), strict=True)
        for row, (there, _, _), (here, _, _) in pairs:
            there[...] = here
            _weigh(there, row, weights)
