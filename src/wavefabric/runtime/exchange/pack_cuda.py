"""Launch the CUDA kernels that pack boxes of fields into messages, by the same functions as ``pack.py``."""

from typing import Any

import numpy as np

from wavefabric.runtime.exchange.pack import make_table
from wavefabric.runtime.exchange.transports import SIGNALS

PACKAGE = "wavefabric.runtime.exchange"
#: A CUDA source, and the sources to compile before it.
_LINEAR = "pack.cu", ()
_PEER = "one_sided_pack.cu", (SIGNALS, f"{PACKAGE}/pack.cu")

_TYPES = {
    np.dtype(np.float32): ("float", "float", 1),
    np.dtype(np.float64): ("double", "double", 1),
    np.dtype(np.complex64): ("float2", "float", 0),
    np.dtype(np.complex128): ("double2", "double", 0),
}
_THREADS = 256
#: C struct of ``one_sided_pack.cu`` with the addresses that a message needs.
ROUTE = np.dtype(
    [("at", np.uint64), ("stride", np.int64)]
    + [(name, np.uint64) for name in ("flag", "calls", "done")]
    + [("rank", np.int64)]
)


class BoxTable:
    """Holds a table of boxes on the device, and the launch configuration of kernels for these boxes."""

    def __init__(self, device, rows: np.ndarray):
        self.messages = len(rows)
        self.array = device.asarray(rows if self.messages else np.zeros((1, 7), np.int64))
        widest = int(rows[:, 5].max(initial=1))
        lanes = 8
        while lanes < min(widest, 128):
            lanes *= 2
        self.block = (lanes, _THREADS // lanes)
        lines = int((rows[:, 3] * rows[:, 4]).max(initial=1))
        self.blocks = min(-(-lines // self.block[1]), 1024)
        #: Whether all messages are empty.
        self.empty = not rows[:, 3:6].prod(axis=1).any()


class PackKernels:
    """Provides the functions of ``pack.py``, and one-sided `put` and `take`, on one CUDA device."""

    def __init__(self, device):
        self._device = device
        # Addresses of lists of fields, copied to the device once.
        self._pointers: dict[tuple[int, ...], Any] = {}

    def make_table(self, device, boxes, fields: int) -> BoxTable:
        return BoxTable(device, make_table(device, boxes, fields))

    def pack(self, buffer, arrays, table) -> None:
        self._launch("pack", arrays, table, buffer)

    def unpack(self, buffer, arrays, table, weights) -> None:
        self._launch("unpack", arrays, table, buffer, *_vectors(weights))

    def copy_boxes(self, targets, sources, target_table, source_table, weights) -> None:
        _, ny, nx = sources[0].shape if sources else (0, 0, 0)
        inputs = self._addresses(sources), source_table.array, np.int64(ny), np.int64(nx)
        self._launch("copy", targets, target_table, *inputs, *_vectors(weights))

    def put(self, routes, arrays, table) -> None:
        """Write the boxes of ``arrays`` to other GPUs' memory, each to the address that ``routes`` has."""
        self._launch("put", arrays, table, routes)

    def take(self, routes, arrays, table, weights, timeout) -> None:
        """Wait for boxes that other ranks write here; copy them to ``arrays``, multiplied by ``weights``."""
        self._launch("take", arrays, table, routes, *timeout.arguments, *_vectors(weights))

    def _launch(self, name, arrays, table, *more) -> None:
        if table.empty:
            return
        kind, weight, weighted = _TYPES[np.dtype(arrays[0].dtype)]
        options = (f"-DTYPE={kind}", f"-DWEIGHT={weight}", f"-DWEIGHTED={weighted}")
        source, before = _PEER if name in ("put", "take") else _LINEAR
        module = self._device.module(PACKAGE, source, options, before)
        _, ny, nx = arrays[0].shape
        grid = (table.blocks, table.messages, len(arrays))
        arguments = (self._addresses(arrays), table.array, np.int64(ny), np.int64(nx), *more)
        self._device.launch(module.get_function(name), grid, table.block, arguments)

    def _addresses(self, arrays):
        """Return a cached device array of the addresses of ``arrays``."""
        key = tuple(array.data.ptr for array in arrays)
        if key not in self._pointers:
            self._pointers[key] = self._device.asarray(np.array(key, np.uint64))
        return self._pointers[key]


def _vectors(weights):
    """Return weights as kernel arguments: vectors along z, y and x, or for None three null pointers."""
    return [np.uint64(0)] * 3 if weights is None else weights


#: Class that `Device.kernels` uses on a GPU.
KERNELS = PackKernels
