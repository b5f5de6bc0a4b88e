"""Host-staged MPI without a GPU: host memory stands in for that of the device, and copies take no time."""

import ctypes
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from wavefabric.collectives import all_to_all, direct_all_gather
from wavefabric.runtime.exchange.communicator import Communicator

pytestmark = pytest.mark.parallel([2, 3])


class _Array(np.ndarray):
    """Has an address, like CuPy's."""

    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data)


class _Event:
    #: How often an event is looked at before it has come: copies take time.
    delay = 3

    def __init__(self, **_):
        self._looks = 0

    def record(self, stream=None):
        self._looks = self.delay

    @property
    def done(self):
        self._looks -= 1
        return self._looks <= 0


class _Stream:
    ptr = 0

    def __init__(self, **_):
        pass

    def wait_event(self, event):
        pass


class _Pinned(bytearray):
    """Space with an address, which numpy.frombuffer takes."""

    @property
    def ptr(self):
        return ctypes.addressof((ctypes.c_char * len(self)).from_buffer(self))


@pytest.fixture(scope="module")
def staged():
    """The transport's module, over a fake CuPy where there is none."""
    cuda = ModuleType("cupy.cuda")
    runtime = SimpleNamespace(
        memcpyAsync=lambda to, source, size, kind, stream: ctypes.memmove(to, source, size),
        memcpyDeviceToHost=2,
        memcpyHostToDevice=1,
    )
    members = {"Event": _Event, "Stream": _Stream, "alloc_pinned_memory": _Pinned, "runtime": runtime}
    members["get_current_stream"] = _Stream
    for name, value in members.items():
        setattr(cuda, name, value)
    cupy = ModuleType("cupy")
    cupy.cuda = cuda
    before = {name: sys.modules.get(name) for name in ("cupy", "cupy.cuda")}
    sys.modules.update({"cupy": cupy, "cupy.cuda": cuda})
    name = "wavefabric.runtime.exchange.transports.mpi_staged"
    kept = sys.modules.pop(name, None)
    try:
        import wavefabric.runtime.exchange.transports.mpi_staged as module

        module.PIECE = 1024
        yield module
    finally:
        sys.modules.pop(name, None)
        if kept is not None:
            sys.modules[name] = kept
        for key, value in before.items():
            if value is None:
                sys.modules.pop(key, None)
            else:
                sys.modules[key] = value


@pytest.fixture
def ranks(comm, staged):
    from mpi4py import MPI

    device = SimpleNamespace(
        name="fake", empty=lambda shape, dtype: np.empty(shape, dtype).view(_Array), asarray=np.asarray
    )
    return Communicator(comm.control, device, staged.StagedTransport(MPI.COMM_WORLD.Dup(), device))


def test_pieces_arrive_in_order_and_rings_go_round(ranks):
    """Messages of many pieces, of different lengths, several exchanges under way at once."""
    sizes = np.array([[1 + 400 * (3 * s + d) for d in range(ranks.size)] for s in range(ranks.size)])
    schedule = all_to_all(sizes)
    running = []
    for turn in range(3):
        send, receive = (
            ranks.allocate((int(schedule.sizes[b][ranks.rank].sum()),), np.float64) for b in range(2)
        )
        send[:] = 1000 * ranks.rank + turn + np.arange(send.size) / send.size
        receive[:] = -1
        exchange = ranks.bind(schedule, {"send": send, "recv": receive})
        exchange.start()
        running.append((exchange, send, receive))
    for turn, (exchange, _, receive) in enumerate(running):
        exchange.finish()
        offsets = schedule.offsets(1, ranks.rank)
        for peer in range(ranks.size):
            part = receive[offsets[peer] : offsets[peer + 1]]
            assert part.size == sizes[peer, ranks.rank]
            assert (np.floor(part) == 1000 * peer + turn).all()
            assert (np.diff(part) > 0).all()


def test_a_rank_that_has_what_it_wants_has_sent_what_others_want(ranks):
    """Nobody finishes, all meet elsewhere: pieces that were not sent off would keep the others waiting."""
    sizes = [5000 * (rank + 1) for rank in range(ranks.size)]
    data = ranks.allocate((sum(sizes),), np.float64)
    first = np.concatenate(([0], np.cumsum(sizes)))
    exchange = ranks.bind(direct_all_gather(sizes), {"data": data})
    data[first[ranks.rank] : first[ranks.rank + 1]] = ranks.rank
    exchange.start()
    for peer in range(ranks.size):
        exchange.wait_for(peer)
        assert (data[first[peer] : first[peer + 1]] == peer).all()
    ranks.control.barrier()
    exchange.finish()
