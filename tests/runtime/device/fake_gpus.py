"""GPUs that are threads: a fake CuPy, for tests of transports where there is no GPU.

Host memory stands in for the devices', and work is done at once: what a stream would do later a thread does
when it is enqueued, and flags and messages are waited for. Order, addresses and sizes are those of the real
thing; how streams overlap is not seen here.
"""

import ctypes
import itertools
import os
import queue
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import emulated_cuda
import numpy as np
import pytest
from emulated_cuda import DeviceArray, Module
from emulated_device import EmulatedDevice
from emulated_plan import plan_source, set_multicast

from wavefabric.base.errors import InputError
from wavefabric.runtime.device import views
from wavefabric.runtime.device.base import repeating
from wavefabric.runtime.exchange.communicator import Communicator
from wavefabric.runtime.exchange.pack_cuda import ROUTE

_OURS = ("p2p", "multicast", "shared_pool", "p2p_plan", "nccl", "mpi_staged")
_TIMEOUT = 120.0


class _Event:
    def __init__(self, **_):
        pass

    def record(self, stream=None):
        pass


class _Stream:
    ptr = 0

    def __init__(self, **_):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def wait_event(self, event):
        pass


class _Pool:
    """Everybody's memory can be written to by everybody."""

    def __init__(self):
        self._kept = []

    def allocate(self, shape, dtype):
        self._kept.append(emulated_cuda.empty(shape, dtype))
        return self._kept[-1]

    def locate(self, address):
        return address

    def open(self, peer, address):
        return address

    def loan(self, address):
        starts = [(number, each.ctypes.data, each.nbytes) for number, each in enumerate(self._kept)]
        return next(((n, address - at) for n, at, size in starts if at <= address < at + size), None)


def _words(addresses, count):
    return [ctypes.c_uint32.from_address(int(a)) for a in addresses[:count]]


def _signal(grid, block, arguments):
    addresses, value, count = arguments
    for word in _words(addresses, count):
        word.value = int(value)


def _await(grid, block, arguments):
    addresses, value, count = arguments
    until = time.monotonic() + _TIMEOUT
    for word in _words(addresses, count):
        while (word.value - int(value)) & 0x80000000:
            assert time.monotonic() < until, "a flag did not come"
            time.sleep(0)


class ThreadControl:
    """Threads that agree."""

    def __init__(self, shared, rank):
        self.rank, self.size, self._shared = rank, shared.size, shared

    def all_gather(self, obj):
        self._shared.slots[self.rank] = obj
        self._shared.barrier.wait()
        result = list(self._shared.slots)
        self._shared.barrier.wait()
        return result

    def bcast(self, obj, root=0):
        return self.all_gather(obj)[root]

    def max(self, value):
        return max(self.all_gather(value))

    def sum(self, value):
        return sum(self.all_gather(value))

    def barrier(self):
        self._shared.barrier.wait()


class SharedByRanks:
    """What the ranks of one run have in common."""

    def __init__(self, size):
        self.size = size
        self.barrier = threading.Barrier(size, timeout=_TIMEOUT)
        self.slots, self.seed = [None] * size, 0
        self.mail = {(a, b): queue.Queue() for a in range(size) for b in range(size)}


_TYPES = {1: np.uint8, 2: np.float16, 3: np.float32, 4: np.float64, 5: np.int32, 6: np.int64}


def _at(address, count, dtype):
    nbytes = count * np.dtype(_TYPES[dtype]).itemsize
    return np.frombuffer((ctypes.c_char * nbytes).from_address(address), _TYPES[dtype])


class _NcclCommunicator:
    """NCCL's operations as its manual defines them."""

    group = threading.local()

    def __init__(self, size, shared, rank):
        self._size, self._shared, self._rank = size, shared, rank
        self._control = ThreadControl(shared, rank)

    def size(self):
        return self._size

    def rank_id(self):
        return self._rank

    def send(self, address, count, dtype, peer, stream):
        self.group.sends.append((self, address, count, dtype, peer))

    def recv(self, address, count, dtype, peer, stream):
        self.group.receives.append((self, address, count, dtype, peer))

    @classmethod
    def start(cls):
        cls.group.sends, cls.group.receives = [], []

    @classmethod
    def end(cls):
        for me, address, count, dtype, peer in cls.group.sends:
            me._shared.mail[me._rank, peer].put(_at(address, count, dtype).copy())
        for me, address, count, dtype, peer in cls.group.receives:
            result = me._shared.mail[peer, me._rank].get(timeout=_TIMEOUT)
            assert result.size == count
            _at(address, count, dtype)[...] = result

    def _everybody(self, address, count, dtype):
        return self._control.all_gather(_at(address, count, dtype).copy())

    def allGather(self, send, recv, count, dtype, stream):
        _at(recv, count * self._size, dtype)[...] = np.concatenate(self._everybody(send, count, dtype))

    def allReduce(self, send, recv, count, dtype, op, stream):
        assert op == "sum"
        _at(recv, count, dtype)[...] = sum(self._everybody(send, count, dtype))

    def reduce(self, send, recv, count, dtype, op, root, stream):
        result = self._everybody(send, count, dtype)
        if self._rank == root:
            _at(recv, count, dtype)[...] = sum(result)

    def broadcast(self, send, recv, count, dtype, root, stream):
        _at(recv, count, dtype)[...] = self._everybody(send, count, dtype)[root]

    def reduceScatter(self, send, recv, count, dtype, op, stream):
        parts = sum(self._everybody(send, count * self._size, dtype))
        _at(recv, count, dtype)[...] = parts[self._rank * count : (self._rank + 1) * count]


@contextmanager
def fake_cupy():
    """The modules of the transports (``p2p``, ``nccl``, ``p2p_plan``), over a fake CuPy."""
    cuda, cupy, nccl = ModuleType("cupy.cuda"), ModuleType("cupy"), ModuleType("cupy.cuda.nccl")
    cuda.Event, cuda.Stream, cuda.get_current_stream = _Event, _Stream, _Stream
    cuda.Device, cuda.alloc_pinned_memory = _Gpu, lambda size: np.zeros(size, np.uint8).view(_Pinned)
    cuda.runtime = SimpleNamespace(
        memcpyAsync=lambda to, source, size, kind, stream: ctypes.memmove(to, source, size),
        memcpyDeviceToDevice=3,
        CUDARuntimeError=RuntimeError,
        deviceSynchronize=lambda: None,
    )
    for name, value in zip(("UINT8", "FLOAT16", "FLOAT32", "FLOAT64", "INT32", "INT64"), _TYPES, strict=True):
        setattr(nccl, f"NCCL_{name}", value)
    nccl.available, nccl.NCCL_BFLOAT16 = True, 9
    nccl.NCCL_SUM, nccl.NcclCommunicator = "sum", _NcclCommunicator
    nccl.groupStart, nccl.groupEnd = _NcclCommunicator.start, _NcclCommunicator.end
    cupy.cuda, cuda.nccl = cuda, nccl
    cuda.UnownedMemory, cuda.MemoryPointer = lambda at, *_: at, lambda at, offset: at + offset
    cupy.ndarray = _array_at
    folder = "wavefabric.runtime.exchange.transports."
    ours = [folder + name for name in _OURS]
    with pytest.MonkeyPatch.context() as patch:
        for name, module in (("cupy", cupy), ("cupy.cuda", cuda), ("cupy.cuda.nccl", nccl)):
            patch.setitem(sys.modules, name, module)
        for name in ours:
            patch.delitem(sys.modules, name, raising=False)
        import wavefabric.runtime.exchange.transports as package

        for name in _OURS:
            patch.delattr(package, name, raising=False)
        from wavefabric.runtime.exchange.transports import multicast, p2p, p2p_plan
        from wavefabric.runtime.exchange.transports import nccl as of_nccl

        real_pool = p2p.SharedPool
        patch.setattr(p2p, "SharedPool", _Pool)
        driver = FakeDriver()
        patch.setattr(multicast, "driver", lambda: driver)
        patch.setattr(of_nccl.nccl, "get_unique_id", lambda: None, raising=False)
        # The emulator has a thousand threads for all ranks.
        patch.setattr(p2p_plan, "_THREADS", 32)
        modules = {"p2p": p2p, "nccl": of_nccl, "p2p_plan": p2p_plan}
        yield SimpleNamespace(**modules, real_pool=real_pool, driver=driver)
        # Whatever was imported meanwhile and holds the fake is imported anew by those who want CuPy.
        for name, module in list(sys.modules.items()):
            if name.startswith("wavefabric.") and getattr(module, "cupy", None) is cupy:
                parent, _, own = name.rpartition(".")
                del sys.modules[name]
                vars(sys.modules[parent]).pop(own, None)


class _Gpu:
    """That of the rank whose thread this is."""

    own = threading.local()
    attributes: ClassVar = {"MultiProcessorCount": 4}

    @property
    def pci_bus_id(self):
        return self.own.number

    id = pci_bus_id


def _array_at(shape, dtype, address):
    """Elements of memory that lasts."""
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_char * nbytes).from_address(address), dtype).view(DeviceArray)


class FakeDriver:
    """Multicast objects: addresses that stand for those of all ranks' memory (`emulated_plan.Multicast`)."""

    def __init__(self):
        self.lacks: set[int] = set()  # GPUs that do not multicast
        self.devices: dict[int, set[int]] = {}  # of each object
        self.copies: dict[int, list[int]] = {}
        self._memory: dict[int, np.ndarray] = {}
        self._numbers = itertools.count(1)

    def supported(self, device):
        return device not in self.lacks

    def rounded(self, devices, nbytes):
        return -(-nbytes // 4096) * 4096

    def create(self, devices, nbytes):
        handle = self.memory(None, nbytes)
        self.devices[handle], self.copies[handle] = set(), []
        return handle

    def export(self, handle):
        fd = os.memfd_create("multicast")
        os.write(fd, bytes([handle]))
        return fd

    def import_(self, fd):
        return os.pread(fd, 1, 0)[0]

    def add(self, handle, device):
        self.devices[handle].add(device)

    def memory(self, device, nbytes):
        handle = next(self._numbers)
        self._memory[handle] = emulated_cuda.empty((nbytes,), np.uint8)
        return handle

    def bind(self, handle, memory, nbytes):
        self.copies[handle].append(self._memory[memory].ctypes.data)

    def map(self, handle, device, nbytes):
        return self._memory[handle].ctypes.data

    def tell(self, module):
        """Tell a module of the last object."""
        for handle, copies in list(self.copies.items())[-1:]:
            assert len(copies) == len(self.devices[handle])
            set_multicast(module.library, self._memory[handle], copies)


class _Pinned(np.ndarray):
    """Memory of the host that tells its address."""

    @property
    def ptr(self):
        return self.ctypes.data


class _Plans:
    """`run_plan`, compiled for the CPU: it runs when all ranks have launched it."""

    def __init__(self, shared, rank, options):
        self._shared, self._rank, self._options = shared, rank, options

    def __call__(self, grid, block, arguments, shared_mem):
        module = Module(plan_source(), self._options)
        self._shared.transports.driver.tell(module)
        kernel = module.kernel("run_plan")
        _when_all_have(self._shared, self._rank, kernel, (grid, block, arguments), shared_mem)


def _when_all_have(shared, rank, kernel, launch, memory):
    """Launch a kernel when all ranks have, of all of them at once."""
    shared.slots[rank] = launch, memory
    if shared.barrier.wait() == 0:
        launches, memory = zip(*shared.slots, strict=True)
        shared.slots = [None] * shared.size
        kernel.together(launches, max(memory), shared.seed)
        shared.seed += 1
    shared.barrier.wait()


def _device(shared, rank):
    def module(package, source, options=(), before=()):
        plans = _Plans(shared, rank, options)
        kernels = {"signal": _signal, "await": _await, "run_plan": plans}
        return SimpleNamespace(get_function=lambda name: kernels[name])

    return SimpleNamespace(
        name="fake",
        xp=np,
        empty=lambda shape, dtype: np.empty(shape, dtype).view(DeviceArray),
        asarray=np.asarray,
        to_host=np.asarray,
        view=lambda array, write: array.view(DeviceArray),
        address=lambda array: array.ctypes.data,
        borrow=lambda array: views.borrow(array).view(DeviceArray),
        synchronize=lambda: None,
        graph=lambda work: work,
        zeros=lambda shape, dtype: np.zeros(shape, dtype).view(DeviceArray),
        module=module,
        prepared=_prepared,
    )


def _prepared(function, blocks, threads, arguments, shared=0):
    return lambda: function((blocks,), (threads,), arguments, shared_mem=shared)


def _wait_for_routes(arguments):
    """Wait for the messages that the kernel `take` would wait for, as long as it would."""
    routes, limit = np.asarray(arguments[4]).view(ROUTE), int(arguments[6]) * 1e-9
    for route in routes[: len(arguments[1])]:
        if not route["flag"]:
            continue
        flag, calls = (ctypes.c_uint32.from_address(int(route[name])) for name in ("flag", "calls"))
        until = time.monotonic() + min(limit, _TIMEOUT)
        while (flag.value - calls.value - 1) & 0x80000000:
            if time.monotonic() > until:
                assert limit < _TIMEOUT, "a message did not come"
                break
            time.sleep(0)


def _wait_for_spectra(arguments):
    """The same for `await_ranks`."""
    flags, taken, own, _, limit = arguments
    until = time.monotonic() + min(int(limit) * 1e-9, _TIMEOUT)
    for rank in range(len(flags)):
        while rank != own and (int(flags[rank]) - int(taken[0]) - 1) & 0x80000000:
            if time.monotonic() > until:
                assert int(limit) * 1e-9 < _TIMEOUT, "a spectrum did not come"
                return
            time.sleep(0)


#: Kernels that wait for others that run at the same time, and for what others have done before.
_TOGETHER = {"derivative", "rotate", "rk4ip_middle", "rk4ip_last"}
_AWAITS = {"take": _wait_for_routes, "await_ranks": _wait_for_spectra}


class EmulatedGpu(EmulatedDevice):
    """One on which the package's kernels run, those that wait for other ranks when all have launched them."""

    def __init__(self, shared, rank):
        super().__init__()
        self._shared, self._rank, self._transports = shared, rank, _device(shared, rank)
        self._recorded = None
        self._modules, self._waits = set(), False
        #: Modules that were loaded after the first launch of a kernel that waits for other ranks: on a GPU
        #: loading waits for that kernel.
        self.loaded_late = []

    def module(self, package, source, options=(), before=(), prelude=""):
        request = (package, source, options, before, prelude)
        if self._waits and request not in self._modules:
            self.loaded_late.append(source)
        self._modules.add(request)
        if source in ("p2p.cu", "plan.cu"):
            result = self._transports.module(package, source, options, before)
            return SimpleNamespace(get_function=lambda name: partial(self._call, result.get_function(name)))
        return super().module(package, source, options, before, prelude)

    def _call(self, function, *launch, **shared):
        if self._recorded is None:
            self._waits = True
            function(*launch, **shared)
        else:
            self._recorded.append(partial(function, *launch, **shared))

    prepared = staticmethod(_prepared)

    def graph(self, work, kernels_alone=False):
        """Records launches and assignments, as a GPU does; all else that ``work`` does is done once, now."""
        self._recorded = DeviceArray.capture.recorded = recorded = []
        try:
            work()
        finally:
            self._recorded = DeviceArray.capture.recorded = None

        def replay():
            for launch in recorded:
                launch()

        return repeating(replay)

    def launch(self, function, grid, block, arguments, shared=0):
        if self._recorded is not None:
            self._recorded.append(partial(self.launch, function, grid, block, arguments, shared))
            return
        self._waits |= function.name in _TOGETHER or function.name in _AWAITS
        if function.name not in _TOGETHER:
            if function.name in _AWAITS:
                _AWAITS[function.name](arguments)
            super().launch(function, grid, block, arguments, shared)
            return
        _when_all_have(self._shared, self._rank, function, (grid, block, arguments), shared)


def together(transports, transport, size, work, gpus=None, tunings=None, make=None):
    """What ``work`` gives for each rank's communicator.

    ``gpus``: their numbers, ``tunings``: one a rank, ``make``: the device of a rank, such as `EmulatedGpu`.
    """
    shared = SharedByRanks(size)
    shared.transports = transports

    def one(rank):
        _Gpu.own.number = (gpus or range(size))[rank]
        control, device = ThreadControl(shared, rank), (make or _device)(shared, rank)
        if transport == "p2p":
            made = transports.p2p.P2PTransport(control, device, [True] * size, None)
        else:
            transports.nccl.nccl.get_unique_id = lambda: shared
            made = transports.nccl.NCCLTransport(control, device)
        try:
            return work(Communicator(control, device, made, tunings and tunings[rank]))
        except BaseException:
            shared.barrier.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(one, rank) for rank in range(size)]
        errors = [future.exception() for future in futures]
    # The one that began it, before those that waited for it.
    for error in sorted((e for e in errors if e), key=lambda e: isinstance(e, threading.BrokenBarrierError)):
        raise error
    return [future.result() for future in futures]


class _Ranks(SimpleNamespace):
    """What a measurement takes for `wavefabric.fabric.execution.timing.Ranks`."""

    def open(self, name):
        # The modules stand in for one transport at a time.
        return None, "not here"

    def check_memory(self, needed, what):
        if needed > self.memory:
            raise InputError(f"{what} need {needed} bytes; allowed: what fits")

    def machine(self):
        return {"device": "fake", "gpu": "a thread", "ranks": self.size, "threads": 1}


def ranks_of(comm, memory=1 << 40):
    """Ranks that measure with this communicator alone; ``memory``: bytes of a device."""
    comm.describe = lambda: {}
    return _Ranks(
        size=comm.size,
        rank=comm.rank,
        on_gpu=True,
        device=comm.device,
        control=comm.control,
        sample=1e-3,
        unavailable={},
        each=lambda: [comm],
        memory=memory,
    )


def buffers_of(comm, schedule, dtype):
    """An array from `allocate` for each buffer of a schedule."""
    return {
        name: comm.allocate((max(1, int(sizes[comm.rank].sum())),), dtype)
        for name, sizes in zip(schedule.buffers, schedule.sizes, strict=True)
    }
