"""Launches of ``pack.cu``: the names and arguments of ``pack.py``."""

from __future__ import annotations

from typing import Any

import numpy as np

from wavefabric.exchange.pack import make_table

_TYPES = {
    np.dtype(np.float32): ("float", "float", 1),
    np.dtype(np.float64): ("double", "double", 1),
    np.dtype(np.complex64): ("float2", "float", 0),
    np.dtype(np.complex128): ("double2", "double", 0),
}
_THREADS = 256


class BoxTable:
    """A table on the device, and the launch that suits its boxes."""

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
        #: Of one field, over all messages.
        self.values = int(rows[:, 3:6].prod(axis=1).sum())
        self.empty = self.values == 0


class PackKernels:
    """The kernels of ``pack.py`` on one CUDA device."""

    def __init__(self, device):
        self._device = device
        # Addresses of sets of fields, copied to the device once.
        self._pointers: dict[tuple[int, ...], Any] = {}

    def make_table(self, device, boxes, fields: int) -> BoxTable:
        return BoxTable(device, make_table(device, boxes, fields))

    def pack(self, buffer, arrays, table) -> None:
        self._launch("pack", buffer, arrays, table)

    def unpack(self, buffer, arrays, table, weights) -> None:
        vectors = [np.uint64(0)] * 3 if weights is None else weights
        self._launch("unpack", buffer, arrays, table, *vectors)

    def copy_boxes(self, targets, sources, target_table, source_table, weights) -> None:
        if target_table.empty:
            return
        room = self._device.empty((target_table.values * len(sources),), sources[0].dtype)
        self.pack(room, sources, source_table)
        self.unpack(room, targets, target_table, weights)

    def _launch(self, name, buffer, arrays, table, *more) -> None:
        if table.empty:
            return
        kind, weight, weighted = _TYPES[np.dtype(buffer.dtype)]
        options = (f"-DTYPE={kind}", f"-DWEIGHT={weight}", f"-DWEIGHTED={weighted}")
        function = self._device.module("wavefabric.exchange", "pack.cu", options).get_function(name)
        key = tuple(array.data.ptr for array in arrays)
        if key not in self._pointers:
            self._pointers[key] = self._device.asarray(np.array(key, np.uint64))
        _, ny, nx = arrays[0].shape
        grid = (table.blocks, table.messages, len(arrays))
        self._device.launch(
            function,
            grid,
            table.block,
            (buffer, self._pointers[key], table.array, np.int64(ny), np.int64(nx), *more),
        )


#: What `Device.kernels` makes on a GPU.
KERNELS = PackKernels
