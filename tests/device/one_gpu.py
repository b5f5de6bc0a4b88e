"""Ranks that are threads with streams of their own on one GPU, where kernels of few blocks run at once."""

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np

from wavefabric.device import get_device
from wavefabric.exchange.transports.base import SymmetricArray

_PATIENCE = 30.0


class _Communicator:
    """What kernels that wait for other ranks ask of `wavefabric.exchange.Communicator`."""

    stores = True

    def __init__(self, device, rank, size, shared):
        self.device, self.rank, self.size, self._shared = device, rank, size, shared

    def symmetric(self, shape, dtype):
        own = self.device.zeros(shape, dtype)
        self.device.synchronize()
        self._shared.slots[self.rank] = own
        self._shared.barrier.wait()
        addresses = [each.data.ptr for each in self._shared.slots]
        self._shared.barrier.wait()
        return SymmetricArray(own, self.device.asarray(np.array(addresses, np.uint64)))

    def patience(self, name):
        late = self._shared.late[self.rank]
        arguments = np.uint64(late.ctypes.data), np.uint64(_PATIENCE * 1e9)
        return SimpleNamespace(arguments=arguments, multiprocessors=2, waits=True)

    def check(self):
        self.device.synchronize()
        assert not self._shared.late[self.rank][0]


def together_on_one_gpu(size, work):
    """What ``work`` gives for each rank's communicator."""
    import cupy

    def word():
        memory = cupy.cuda.alloc_pinned_memory(4)
        late = np.frombuffer(memory, np.uint32, 1)
        late[0] = 0
        return late

    shared = SimpleNamespace(slots=[None] * size, barrier=threading.Barrier(size, timeout=_PATIENCE))
    shared.late = [word() for _ in range(size)]

    def one(rank):
        device = get_device("cuda")
        try:
            with cupy.cuda.Stream(non_blocking=True):
                found = work(_Communicator(device, rank, size, shared))
                device.synchronize()
                return found
        except BaseException:
            shared.barrier.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(one, range(size)))
