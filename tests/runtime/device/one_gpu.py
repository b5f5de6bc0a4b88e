"""Ranks that are threads with streams of their own on one GPU, where kernels of few blocks run at once."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from types import SimpleNamespace

import numpy as np
from fake_gpus import SharedByRanks, ThreadControl
from hypothesis import HealthCheck, settings

from wavefabric.base.errors import FieldLost
from wavefabric.runtime.exchange.communicator import Communicator
from wavefabric.runtime.exchange.transports.base import SymmetricArray

#: For tests whose fixtures make ranks, which serve all examples.
_LASTING = [HealthCheck.function_scoped_fixture]
#: Seconds that kernels wait while all are loaded, and then.
_LOADING, _TIMEOUT = 0.05, 30.0


class _Late(AssertionError):
    """A rank was waited for in vain."""


class _Communicator:
    """What solvers whose kernels wait for other ranks ask of `wavefabric.runtime.exchange.Communicator`."""

    one_sided, transport, label = True, "p2p", "p2p, signals"
    step_recorder, recording = None, Communicator.recording

    def __init__(self, device, control, late, seconds):
        self.device, self.control, self._late, self._seconds = device, control, late, seconds
        self.rank, self.size = control.rank, control.size

    def symmetric(self, shape, dtype):
        own = self.device.zeros(shape, dtype)
        self.device.synchronize()
        addresses = self.control.all_gather(own.data.ptr)
        return SymmetricArray(own, self.device.asarray(np.array(addresses, np.uint64)))

    def timeout(self, name):
        arguments = np.uint64(self._late.ctypes.data), np.uint64(self._seconds * 1e9)
        return SimpleNamespace(arguments=arguments, multiprocessors=2, waits=True)

    def check(self):
        self.device.synchronize()
        if self._late[0] and self._seconds != _LOADING:
            raise _Late


@cache
def _shared_by_ranks(size):
    """One device for all ranks, so that each module is loaded once; a stream and a word for each."""
    import cupy

    from wavefabric.runtime.device.cuda import CudaDevice

    class Shared(CudaDevice):
        """Threads capture one after the other, on the one stream that is for it."""

        capturing = threading.Lock()

        def graph(self, work, kernels_alone=False):
            with self.capturing:
                return super().graph(work)

    words = [np.frombuffer(cupy.cuda.alloc_pinned_memory(4), np.uint32, 1) for _ in range(size)]
    return Shared(), [cupy.cuda.Stream(non_blocking=True) for _ in range(size)], words


def some_examples(count):
    """Hypothesis with so many examples of any duration."""
    return settings(max_examples=count, suppress_health_check=_LASTING)


def together_on_one_gpu(size, work):
    """What ``work`` gives for each rank's communicator.

    Loading a module waits for all kernels that run, also for those of another rank that wait for this one. In
    a run each rank is a process, whose loading waits for its own kernels alone. Here all is done twice:
    kernels of the first pass give up soon, and load everything; its answers are no answers. What the first
    pass did not reach, because modules were still compiled or its answers ended it, is loaded by the second,
    which is then late and done once more.
    """
    try:
        return _passes(size, work, (_LOADING, _TIMEOUT))
    except _Late:
        return _passes(size, work, (_TIMEOUT,))


def _passes(size, work, limits):
    """What ``work`` gives for each rank in the last pass; kernels wait so many seconds in each pass."""
    device, streams, words = _shared_by_ranks(size)
    for seconds in limits:
        shared = SharedByRanks(size)

        def one(rank, seconds=seconds, shared=shared):
            words[rank][0] = 0
            communicator = _Communicator(device, ThreadControl(shared, rank), words[rank], seconds)
            wrong = AssertionError, FieldLost, threading.BrokenBarrierError
            refused = wrong if seconds == _LOADING else ()
            with streams[rank], suppress(*refused):
                try:
                    result = work(communicator)
                    device.synchronize()
                    return result
                except BaseException:
                    shared.barrier.abort()
                    raise

        with ThreadPoolExecutor(size) as pool:
            ranks = [pool.submit(one, rank) for rank in range(size)]
        # What was left under way would say in the next pass that a rank is late.
        for stream in streams:
            stream.synchronize()
        if late := [error for rank in ranks if isinstance(error := rank.exception(), _Late)]:
            raise late[0]
    return [rank.result() for rank in ranks]
