"""Copy the arrays of a state to one block of memory and back, on a GPU by one kernel."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from wavefabric.runtime.device import Device

#: Alignment of arrays in a block, in bytes.
_ALIGNED = 256
_THREADS = 256
#: Maximum blocks of threads per array.
_MOST_BLOCKS = 512


def state_bytes(arrays: Mapping[str, Any]) -> int:
    """Return the bytes of memory that a copy of ``arrays`` takes, with padding."""
    return sum(map(_padded, arrays.values()))


def _padded(array: Any) -> int:
    return -(-array.nbytes // _ALIGNED) * _ALIGNED


class StateCopies:
    """Copies the ``arrays`` of a state to a block of memory of `state_bytes` bytes and back.

    ``arrays`` is a dictionary from names to arrays of the device, whose sizes are multiples of 4 bytes. Each
    call copies all of them.
    """

    def __init__(self, device: Device, arrays: Mapping[str, Any]):
        self._device, self._arrays = device, dict(arrays)
        self._offsets = np.cumsum([0, *map(_padded, arrays.values())])[:-1].tolist()
        self._copy: Any = None
        if device.name != "cpu":
            rows = zip(map(device.address, arrays.values()), self._offsets, self._lengths(), strict=True)
            self._rows = device.asarray(np.array([*rows], np.int64))
            gpu: Any = device
            self._kernel = gpu.module("wavefabric.runtime.lifecycle", "state_copies.cu").get_function(
                "copy_state"
            )
            #: Address of the block, and whether to copy to it, which change from call to call.
            self._memory, self._to_block = np.zeros((), np.uint64), np.zeros((), np.int32)
            self._copy = self._prepared(self._memory, self._to_block)

    def _prepared(self, memory: Any, to_block: Any, clock: Any = None, states: int = 0) -> Any:
        """Return a function that launches the kernel, which copies all arrays to a block or back.

        ``memory`` is the block's address and ``to_block`` the direction; ``clock`` and ``states`` are as in
        `by_clock`.
        """
        gpu: Any = self._device
        blocks = min(max(1, -(-max(self._lengths()) // (8 * _THREADS))), _MOST_BLOCKS) * len(self._arrays)
        distance = np.int64(state_bytes(self._arrays)), np.int64(states)
        clock = np.uint64(0) if clock is None else clock
        values = self._rows, np.int32(len(self._arrays)), memory, to_block, clock, *distance
        return gpu.prepared(self._kernel, blocks, _THREADS, values)

    def _lengths(self) -> list[int]:
        return [array.nbytes for array in self._arrays.values()]

    def parts(self, memory: Any) -> dict[str, Any]:
        """Return a dictionary from names to views of the arrays that the block ``memory`` contains."""
        return {
            name: memory[at : at + array.nbytes].view(array.dtype).reshape(array.shape)
            for at, (name, array) in zip(self._offsets, self._arrays.items(), strict=True)
        }

    def store(self, memory: Any, on_device: bool = True) -> None:
        """Copy the arrays into the block ``memory``, on the device or (``on_device`` false) on the host."""
        self._transfer(memory, on_device, to_block=True)

    def load(self, memory: Any, on_device: bool = True) -> None:
        """Copy a block of memory into the arrays; the arguments are as in `store`."""
        self._transfer(memory, on_device, to_block=False)

    def by_clock(self, memory: Any, clock: Any, states: int) -> Callable[[], None]:
        """Return a function that stores the arrays in one of the ``states`` blocks of ``memory`` on a GPU.

        ``clock`` is an int64 on the GPU, which each launch reads: the number of the block. The function does
        nothing if there is no such block.
        """
        return self._prepared(memory, np.int32(1), clock, states)

    def _transfer(self, memory: Any, on_device: bool, to_block: bool) -> None:
        if self._copy is not None and on_device:
            self._memory[...], self._to_block[...] = self._device.address(memory), to_block
            self._copy()
            return
        for name, part in self.parts(memory).items():
            array = self._arrays[name]
            self._device.copy(*((part, array) if to_block else (array, part)))
