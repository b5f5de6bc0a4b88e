"""Ranks that are threads with streams of their own on one GPU, where kernels of few blocks run at once."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
from stand_in_gpus import SharedByRanks, ThreadControl

from wavefabric.exchange.transports.base import SymmetricArray

_PATIENCE = 30.0


class _Communicator:
    """What solvers whose kernels wait for other ranks ask of `wavefabric.exchange.Communicator`."""

    stores, transport, label = True, "p2p", "p2p, signals"

    def __init__(self, device, control, late):
        self.device, self.control, self._late = device, control, late
        self.rank, self.size = control.rank, control.size

    def symmetric(self, shape, dtype):
        own = self.device.zeros(shape, dtype)
        self.device.synchronize()
        addresses = self.control.all_gather(own.data.ptr)
        return SymmetricArray(own, self.device.asarray(np.array(addresses, np.uint64)))

    def patience(self, name):
        arguments = np.uint64(self._late.ctypes.data), np.uint64(_PATIENCE * 1e9)
        return SimpleNamespace(arguments=arguments, multiprocessors=2, waits=True)

    def check(self):
        self.device.synchronize()
        assert not self._late[0]


def together_on_one_gpu(size, work):
    """What ``work`` gives for each rank's communicator."""
    import cupy

    from wavefabric.device.cuda import CudaDevice

    shared = SharedByRanks(size)

    def one(rank):
        device, memory = CudaDevice(), cupy.cuda.alloc_pinned_memory(4)
        late = np.frombuffer(memory, np.uint32, 1)
        late[0] = 0
        try:
            with cupy.cuda.Stream(non_blocking=True):
                found = work(_Communicator(device, ThreadControl(shared, rank), late))
                device.synchronize()
                return found
        except BaseException:
            shared.barrier.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(one, range(size)))
