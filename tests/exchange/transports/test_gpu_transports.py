"""P2P and NCCL without GPUs: ranks are threads, host memory stands in for the devices', work is done at once.

What a stream would do later a thread does when it is enqueued, and flags and messages are waited for. Order,
addresses and sizes are those of the real thing; how streams overlap is not seen here.
"""

import ctypes
import queue
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from wavefabric.collectives import point_to_point
from wavefabric.collectives.conditions import COLLECTIVES, ROOTED
from wavefabric.collectives.registry import ALGORITHMS, build, why_refused
from wavefabric.device import views
from wavefabric.errors import InputError
from wavefabric.exchange.communicator import Communicator
from wavefabric.execution.timed_schedule import count_wrong, fill

_PATIENCE = 20.0


class _Array(np.ndarray):
    """Has an address, like CuPy's."""

    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data)


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
        self._kept.append(np.empty(shape, dtype).view(_Array))
        return self._kept[-1]

    def locate(self, address):
        return address

    def open(self, peer, place):
        return place

    def place(self, address):
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
    until = time.monotonic() + _PATIENCE
    for word in _words(addresses, count):
        while (word.value - int(value)) & 0x80000000:
            assert time.monotonic() < until, "a flag did not come"
            time.sleep(0)


class _Control:
    """Threads that agree."""

    def __init__(self, shared, rank):
        self.rank, self.size, self._shared = rank, shared.size, shared

    def all_gather(self, obj):
        self._shared.slots[self.rank] = obj
        self._shared.barrier.wait()
        found = list(self._shared.slots)
        self._shared.barrier.wait()
        return found

    def bcast(self, obj, root=0):
        return self.all_gather(obj)[root]

    def sum(self, value):
        return sum(self.all_gather(value))

    def barrier(self):
        self._shared.barrier.wait()


class _Shared:
    """What the ranks of one run have in common."""

    def __init__(self, size):
        self.size = size
        self.barrier = threading.Barrier(size, timeout=_PATIENCE)
        self.slots = [None] * size
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
        self._control = _Control(shared, rank)

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
            found = me._shared.mail[peer, me._rank].get(timeout=_PATIENCE)
            assert found.size == count
            _at(address, count, dtype)[...] = found

    def _everybody(self, address, count, dtype):
        return self._control.all_gather(_at(address, count, dtype).copy())

    def allGather(self, send, recv, count, dtype, stream):
        _at(recv, count * self._size, dtype)[...] = np.concatenate(self._everybody(send, count, dtype))

    def allReduce(self, send, recv, count, dtype, op, stream):
        assert op == "sum"
        _at(recv, count, dtype)[...] = sum(self._everybody(send, count, dtype))

    def reduce(self, send, recv, count, dtype, op, root, stream):
        found = self._everybody(send, count, dtype)
        if self._rank == root:
            _at(recv, count, dtype)[...] = sum(found)

    def broadcast(self, send, recv, count, dtype, root, stream):
        _at(recv, count, dtype)[...] = self._everybody(send, count, dtype)[root]

    def reduceScatter(self, send, recv, count, dtype, op, stream):
        parts = sum(self._everybody(send, count * self._size, dtype))
        _at(recv, count, dtype)[...] = parts[self._rank * count : (self._rank + 1) * count]


@pytest.fixture(scope="module")
def transports():
    """The modules of both transports, over a stand-in for CuPy."""
    cuda, cupy, nccl = ModuleType("cupy.cuda"), ModuleType("cupy"), ModuleType("cupy.cuda.nccl")
    cuda.Event, cuda.Stream, cuda.get_current_stream = _Event, _Stream, _Stream
    cuda.runtime = SimpleNamespace(
        memcpyAsync=lambda to, source, size, kind, stream: ctypes.memmove(to, source, size),
        memcpyDeviceToDevice=3,
        CUDARuntimeError=RuntimeError,
    )
    for name, value in zip(("UINT8", "FLOAT16", "FLOAT32", "FLOAT64", "INT32", "INT64"), _TYPES, strict=True):
        setattr(nccl, f"NCCL_{name}", value)
    nccl.available = True
    nccl.NCCL_SUM, nccl.NcclCommunicator = "sum", _NcclCommunicator
    nccl.groupStart, nccl.groupEnd = _NcclCommunicator.start, _NcclCommunicator.end
    cupy.cuda, cuda.nccl = cuda, nccl
    folder = "wavefabric.exchange.transports."
    ours = [folder + name for name in ("p2p", "nccl", "mpi_staged")]
    with pytest.MonkeyPatch.context() as patch:
        for name, module in (("cupy", cupy), ("cupy.cuda", cuda), ("cupy.cuda.nccl", nccl)):
            patch.setitem(sys.modules, name, module)
        for name in ours:
            patch.delitem(sys.modules, name, raising=False)
        import wavefabric.exchange.transports as package

        for name in ("p2p", "nccl", "mpi_staged"):
            patch.delattr(package, name, raising=False)
        from wavefabric.exchange.transports import nccl as of_nccl
        from wavefabric.exchange.transports import p2p

        real_pool = p2p.SharedPool
        patch.setattr(p2p, "SharedPool", _Pool)
        patch.setattr(of_nccl.nccl, "get_unique_id", lambda: None, raising=False)
        yield SimpleNamespace(p2p=p2p, nccl=of_nccl, real_pool=real_pool)
        for name in ours:
            sys.modules.pop(name, None)
        for name in ("p2p", "nccl", "mpi_staged"):
            vars(package).pop(name, None)


def _device():
    return SimpleNamespace(
        name="stand-in",
        xp=np,
        empty=lambda shape, dtype: np.empty(shape, dtype).view(_Array),
        asarray=np.asarray,
        to_host=np.asarray,
        view=lambda array, write: array.view(_Array),
        address=lambda array: array.ctypes.data,
        borrow=lambda array: views.borrow(array).view(_Array),
        synchronize=lambda: None,
        module=lambda package, source: SimpleNamespace(
            get_function=lambda name: {"signal": _signal, "await": _await}[name]
        ),
    )


def _together(transports, transport, size, work):
    """What ``work`` gives for the communicator of each rank."""
    shared = _Shared(size)

    def one(rank):
        control, device = _Control(shared, rank), _device()
        if transport == "p2p":
            made = transports.p2p.P2PTransport(control, device, [True] * size, None)
        else:
            transports.nccl.nccl.get_unique_id = lambda: shared
            made = transports.nccl.NCCLTransport(control, device)
        try:
            return work(Communicator(control, device, made))
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


def _buffers(comm, schedule, dtype):
    return {
        name: comm.allocate((max(1, int(sizes[comm.rank].sum())),), dtype)
        for name, sizes in zip(schedule.buffers, schedule.sizes, strict=True)
    }


def _wrong(comm, schedule, dtype="float32"):
    buffers = _buffers(comm, schedule, dtype)
    exchange = comm.bind(schedule, buffers)
    wrong = 0
    for _ in range(2):
        fill(comm, schedule, buffers, dtype)
        exchange.start()
        exchange.finish()
        wrong += count_wrong(comm, schedule, buffers, dtype)
    return wrong


def _schedules(ranks):
    for algorithm in ALGORITHMS.values():
        for collective in algorithm.collectives:
            options = {"root": ranks - 1} if collective in ROOTED and "root" in algorithm.options else {}
            options |= {"radix": 4} if "radix" in algorithm.options else {}
            options |= {"pieces": 2} if "pieces" in algorithm.options else {}
            if why_refused(algorithm.name, collective, ranks, **options) is None:
                yield build(algorithm.name, collective, ranks, 3 * ranks + 2, **options)
    # Even shares, of one chunk and of several: NCCL gathers them itself.
    for pieces in (1, 3):
        yield build("direct", "all-gather", ranks, 6 * ranks, pieces=pieces)
    yield point_to_point("twice", ranks, [(0, 1, 3), (0, 1, 4), (1, 0, 5), (1, 1, 2)])


@pytest.mark.parametrize("transport", ["p2p", "nccl"])
@pytest.mark.parametrize("size", [2, 4])
def test_every_algorithm_moves_and_adds_the_right_data(transports, transport, size):
    schedules = list(_schedules(size))
    assert len({schedule.name for schedule in schedules}) > 20

    def work(comm):
        found = [(schedule.name, _wrong(comm, schedule)) for schedule in schedules]
        return [each for each in found if each[1]]

    assert _together(transports, transport, size, work) == [[]] * size


@pytest.mark.parametrize("transport", ["p2p", "nccl"])
@pytest.mark.parametrize("size", [2, 3])
def test_calls_on_anybodys_arrays(transports, transport, size):
    values = np.random.default_rng(0).integers(-9, 9, (size, size, 4)).astype("float32")
    total = values.sum(axis=0)

    def work(comm):
        def anybodys(array):
            return array.copy()

        def ours(array):
            room = comm.allocate((array.size + 1,), array.dtype)
            room[1:] = array.ravel()
            return room[1:].reshape(array.shape)  # not its beginning

        def every_other(array):
            return np.repeat(array, 2).reshape(*array.shape, 2)[..., 0]

        found, buffers = [], []
        for made in (ours, anybodys, every_other):
            # Once more with what was made ready, and other memory.
            for _ in range(2):
                mine = values[comm.rank]
                found += [
                    comm.all_reduce(made(mine)),
                    comm.all_gather(made(mine), made(np.zeros((size, *mine.shape), mine.dtype))),
                    comm.reduce_scatter(made(mine), made(mine[0])),
                    comm.all_to_all(made(mine), made(mine)),
                    comm.broadcast(made(mine), size - 1),
                ]
            buffers.append(comm._prepared.buffers.nbytes)
        return found, buffers

    for rank, (found, buffers) in enumerate(_together(transports, transport, size, work)):
        expected = [total, values, total[rank], values[:, rank], values[-1]] * 6
        for one, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, wanted)
        # Memory that is not ours takes buffers with P2P; what is not contiguous does with any.
        assert (buffers[0] < buffers[1]) == (transport == "p2p")
        assert (buffers[1] < buffers[2]) == (transport == "nccl")


def test_memory_that_was_given_back_is_not_taken_for_what_it_was(transports, monkeypatch):
    """Addresses come again, numbers do not."""
    module, memories = transports.p2p, []

    def memory(size):
        memories.append(np.zeros(size, np.uint8))
        return SimpleNamespace(ptr=memories[-1].ctypes.data, size=size)

    names = {"Memory": memory, "UnownedMemory": lambda ptr, size, owner: owner}
    names["MemoryPointer"] = lambda held, offset: held
    for name, value in names.items():
        monkeypatch.setattr(module.cupy.cuda, name, value, raising=False)
    # An array is what keeps its allocation from being lent again.
    monkeypatch.setattr(module.cupy, "ndarray", lambda shape, dtype, held: held, raising=False)
    monkeypatch.setattr(module.runtime, "ipcGetMemHandle", lambda ptr: b"%d" % ptr, raising=False)
    monkeypatch.setattr(module.runtime, "deviceSynchronize", lambda: None, raising=False)
    pool = transports.real_pool()
    first = pool.allocate((10,), "float32")
    (start,) = (each.ctypes.data for each in memories)
    assert (pool.place(start), pool.place(start + 36)) == ((0, 0), (0, 36))
    assert pool.locate(start + 36) == (b"%d" % start, 36)
    del first
    second = pool.allocate((10,), "float32")
    assert len(memories) == 1
    assert pool.place(start + 4) == (1, 4)
    assert pool.place(np.zeros(3).ctypes.data) is None
    with pytest.raises(ValueError, match="does not come from the communicator's allocate"):
        pool.locate(np.zeros(3).ctypes.data)
    del second


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_nccls_own_operations_do_what_ours_do(transports, collective):
    root = 2 if collective in ROOTED else 0
    schedule = build("direct", collective, 3, 12, root=root)

    def work(comm):
        buffers = _buffers(comm, schedule, "float32")
        # Scratch is ours alone.
        own = {name: buffers[name] for name in ("data", "send", "recv") if name in buffers}
        fill(comm, schedule, own, "float32")
        run = comm.own_collective(collective, list(own.values()), root)
        run()
        return count_wrong(comm, schedule, own, "float32")

    assert _together(transports, "nccl", 3, work) == [0, 0, 0]


def test_what_nccl_has_no_operation_for_is_refused(transports):
    def work(comm):
        found = []
        for collective, elements, dtype in (
            ("all-gather", 7, "float32"),
            ("all-reduce", 8, "complex64"),
            ("halo", 8, "float32"),
        ):
            with pytest.raises(InputError) as refused:
                comm.own_collective(collective, [comm.allocate((elements,), dtype)])
            found.append(str(refused.value))
        return found

    uneven, complex_, halo = _together(transports, "nccl", 2, work)[1]
    assert uneven == "elements: 7 on 2 ranks; allowed for NCCL: equal shares"
    assert complex_.startswith("dtype: complex64 given; allowed for NCCL's sums: float16,")
    assert halo.startswith("collective: 'halo' given; allowed for NCCL: all-gather,")

    def other(comm):
        with pytest.raises(InputError, match="transport: 'p2p' has no collective operations of its own"):
            comm.own_collective("all-gather", [comm.allocate((8,), "float32")])

    _together(transports, "p2p", 2, other)
