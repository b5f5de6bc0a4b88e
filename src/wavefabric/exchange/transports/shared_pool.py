"""Memory that other GPUs of the host map (CUDA IPC): whole cudaMalloc allocations, never given back.

A peer keeps what it has mapped, so an allocation that was freed could not be mapped anew at its address.
"""

import itertools
from typing import Any

import cupy
import numpy as np
from cupy.cuda import runtime

_GRAIN = 1 << 21
#: An allocation serves a request of at least this share of it.
_FIT = 0.75


class _Block:
    """One allocation on loan; it returns to its pool when the last array over it is gone."""

    def __init__(self, free: list, memory):
        self._free, self._memory = free, memory

    def __del__(self):
        self._free.append(self._memory)


class SharedPool:
    """Allocations of one process, and those of its peers that are mapped here."""

    def __init__(self):
        self.free: list[Any] = []
        self._all: dict[int, tuple[int, bytes]] = {}
        # Whom an allocation serves now: addresses come again, these numbers do not.
        self._loans: dict[int, int] = {}
        self._numbers = itertools.count()
        self._opened: dict[tuple[int, bytes], int] = {}

    def allocate(self, shape, dtype):
        """An uninitialised array at the start of an allocation of its own."""
        dtype = np.dtype(dtype)
        size = max(1, int(np.prod(shape))) * dtype.itemsize
        whole = -(-size // _GRAIN) * _GRAIN
        fitting = [m for m in self.free if whole <= m.size <= max(whole / _FIT, whole + _GRAIN)]
        if fitting:
            memory = min(fitting, key=lambda m: m.size)
            self.free.remove(memory)
            # What it served before may still be read or written.
            runtime.deviceSynchronize()
        else:
            memory = cupy.cuda.Memory(whole)
            self._all[memory.ptr] = whole, runtime.ipcGetMemHandle(memory.ptr)
        self._loans[memory.ptr] = next(self._numbers)
        lent = cupy.cuda.UnownedMemory(memory.ptr, memory.size, _Block(self.free, memory))
        return cupy.ndarray(shape, dtype, cupy.cuda.MemoryPointer(lent, 0))

    def locate(self, address: int) -> tuple[bytes, int]:
        """Handle of the allocation that holds an address, and the offset in it."""
        base = self._base(address)
        if base is None:
            raise ValueError("an array was bound that does not come from the communicator's allocate()")
        return self._all[base][1], address - base

    def loan(self, address: int) -> tuple[int, int] | None:
        """Number of the array from `allocate` that holds an address, and the offset in it; or None."""
        base = self._base(address)
        return None if base is None else (self._loans[base], address - base)

    def _base(self, address: int) -> int | None:
        return next((at for at, (size, _) in self._all.items() if at <= address < at + size), None)

    def open(self, peer: int, location: tuple[bytes, int]) -> int:
        """Address here of a location in a peer's memory."""
        handle, offset = location
        if (peer, handle) not in self._opened:
            self._opened[peer, handle] = runtime.ipcOpenMemHandle(handle)
        return self._opened[peer, handle] + offset
