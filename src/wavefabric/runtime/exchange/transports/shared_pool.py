"""Allocate memory that other GPUs of the host can map (CUDA IPC): whole cudaMalloc allocations, never freed.

Peers keep mappings, so a freed allocation could not be mapped again at the same address.
"""

import itertools
from typing import Any

import cupy
import numpy as np
from cupy.cuda import runtime

_GRAIN = 1 << 21
#: A free allocation is reused for requests of at least this fraction of its size.
_FIT = 0.75


class _Block:
    """An allocation in use, which returns to its pool when the last array in it is deleted."""

    def __init__(self, free: list, memory):
        self._free, self._memory = free, memory

    def __del__(self):
        self._free.append(self._memory)


class SharedPool:
    """Manages memory that this process allocates for its peers to map, and what it has mapped of theirs."""

    def __init__(self):
        self.free: list[Any] = []
        self._all: dict[int, tuple[int, bytes]] = {}
        # By address the number of the array that now uses an allocation: no two arrays have the same number.
        self._loans: dict[int, int] = {}
        self._numbers = itertools.count()
        self._opened: dict[tuple[int, bytes], int] = {}

    def allocate(self, shape, dtype):
        """Return an uninitialised array at the start of an allocation that nothing else uses."""
        dtype = np.dtype(dtype)
        size = max(1, int(np.prod(shape))) * dtype.itemsize
        whole = -(-size // _GRAIN) * _GRAIN
        fitting = [m for m in self.free if whole <= m.size <= max(whole / _FIT, whole + _GRAIN)]
        if fitting:
            memory = min(fitting, key=lambda m: m.size)
            self.free.remove(memory)
            # Work of the previous array may still read or write this memory.
            runtime.deviceSynchronize()
        else:
            memory = cupy.cuda.Memory(whole)
            self._all[memory.ptr] = whole, runtime.ipcGetMemHandle(memory.ptr)
        self._loans[memory.ptr] = next(self._numbers)
        lent = cupy.cuda.UnownedMemory(memory.ptr, memory.size, _Block(self.free, memory))
        return cupy.ndarray(shape, dtype, cupy.cuda.MemoryPointer(lent, 0))

    def locate(self, address: int) -> tuple[bytes, int]:
        """Return the IPC handle of the allocation that contains ``address``, and the offset in it."""
        base = self._base(address)
        if base is None:
            raise ValueError("an array was bound that does not come from the communicator's allocate()")
        return self._all[base][1], address - base

    def loan(self, address: int) -> tuple[int, int] | None:
        """Return (number of the array, byte offset) for an address in an array of `allocate`, else None."""
        base = self._base(address)
        return None if base is None else (self._loans[base], address - base)

    def _base(self, address: int) -> int | None:
        return next((at for at, (size, _) in self._all.items() if at <= address < at + size), None)

    def open(self, peer: int, location: tuple[bytes, int]) -> int:
        """Return the address in this process for ``location``, which `locate` has returned in a peer."""
        handle, offset = location
        if (peer, handle) not in self._opened:
            self._opened[peer, handle] = runtime.ipcOpenMemHandle(handle)
        return self._opened[peer, handle] + offset
