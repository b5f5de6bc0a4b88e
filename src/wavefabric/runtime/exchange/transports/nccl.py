"""Transfer data by NCCL: grouped sends and receives, or NCCL's all-gather, on a separate stream."""

from collections.abc import Callable
from functools import partial

import cupy
import numpy as np
from cupy.cuda import nccl

from wavefabric.base.errors import InputError
from wavefabric.collectives.conditions import CUT_BY_RANK, kind
from wavefabric.runtime.exchange.transports.base import Exchange, RankGroup, Transport

if not getattr(nccl, "available", False):
    raise ImportError("CuPy was installed without NCCL")
_BYTE = nccl.NCCL_UINT8
_NAMES = ("float16", "bfloat16", "float32", "float64", "int32", "int64")
_TYPES = {name: getattr(nccl, f"NCCL_{name.upper()}") for name in _NAMES}


class _Work:
    """An NCCL operation on a separate stream, which begins after work that the current stream already has.

    `wait` makes the current stream wait for its end.
    """

    def __init__(self, stream, enqueue: Callable[[int], None]):
        self._stream, self._enqueue = stream, enqueue
        self._ready, self._done = (cupy.cuda.Event(disable_timing=True) for _ in range(2))

    def start(self) -> None:
        self._ready.record()
        self._stream.wait_event(self._ready)
        self._enqueue(self._stream.ptr)
        self._done.record(self._stream)

    def wait(self) -> None:
        cupy.cuda.get_current_stream().wait_event(self._done)

    def __call__(self) -> None:
        self.start()
        self.wait()


def _messages(comm, sends, receives, dtype: int, stream: int) -> None:
    """Enqueue sends and receives, each (address, elements, peer), as one NCCL group."""
    nccl.groupStart()
    for start, size, peer in receives:
        comm.recv(start, size, dtype, peer, stream)
    for start, size, peer in sends:
        comm.send(start, size, dtype, peer, stream)
    nccl.groupEnd()


class NCCLExchange(Exchange):
    """An exchange with one group of NCCL calls per level, that is for all messages that may move at once."""

    def __init__(self, program, buffers, scratch, transport):
        super().__init__(program, buffers, scratch, transport)
        comm, stream = transport.comm, transport.stream
        calls = [partial(_messages, comm, *moves, _BYTE) for moves in self._moves()]
        if part := _equal_part(program):
            first, size = buffers[0].data.ptr, part * buffers[0].itemsize
            calls = [partial(comm.allGather, first + program.rank * size, first, size, _BYTE)]
        self._works = [_Work(stream, call) for call in calls]

    def _begin(self, number):
        self._works[number].start()

    def _wait(self, number, peer):
        self._works[number].wait()

    def _complete(self, number):
        self._works[number].wait()


def _equal_part(program) -> int:
    """Return the elements per rank if the program is a direct all-gather of equal parts; else 0."""
    schedule = program.schedule
    if len(program.levels) != 1 or len(schedule.buffers) != 1 or not schedule.name.startswith("direct"):
        return 0
    if schedule.ranks < 2 or kind(schedule)[0] != "all-gather":
        return 0
    parts = set(schedule.sizes[0][0].reshape(schedule.ranks, -1).sum(axis=1).tolist())
    return int(parts.pop()) if len(parts) == 1 else 0


class NCCLTransport(Transport):
    """Transfers data by an NCCL communicator of all ranks; ``control`` distributes its identifier."""

    name = "nccl"
    exchange = NCCLExchange

    def __init__(self, control, device):
        super().__init__(device)
        identity = control.bcast(nccl.get_unique_id() if control.rank == 0 else None)
        self.comm = nccl.NcclCommunicator(control.size, identity, control.rank)
        self.stream = cupy.cuda.Stream(non_blocking=True)

    @classmethod
    def available(cls) -> tuple[bool, str]:
        return True, f"NCCL {_version()}"

    @classmethod
    def open(cls, group: RankGroup) -> Transport:
        return cls(group.control, group.device)

    automatic = open

    def own_collective(self, collective: str, buffers: list, root: int = 0) -> Callable[[], None]:
        whole = buffers[0]
        name = np.dtype(whole.dtype).name
        if name not in _TYPES:
            raise InputError(f"dtype: {name} given; allowed for NCCL's sums: {', '.join(_TYPES)}")
        comm, size, rank = self.comm, self.comm.size(), self.comm.rank_id()
        first, count, dtype, add = whole.data.ptr, whole.size, _TYPES[name], nccl.NCCL_SUM
        if collective in CUT_BY_RANK and count % size:
            raise InputError(f"elements: {count} on {size} ranks; allowed for NCCL: equal shares")
        local_part, step = count // size, whole.nbytes // size
        here = first + rank * step
        parts, others = (
            [(buffer.data.ptr + peer * step, local_part, peer) for peer in range(size)]
            for buffer in (whole, buffers[-1])
        )
        at_root = [part for part in parts if part[-1] != root] if rank == root else []
        elsewhere = [(here, local_part, root)] if rank != root else []
        calls = {
            "all-gather": partial(comm.allGather, here, first, local_part, dtype),
            "reduce-scatter": partial(comm.reduceScatter, first, here, local_part, dtype, add),
            "all-reduce": partial(comm.allReduce, first, first, count, dtype, add),
            "broadcast": partial(comm.broadcast, first, first, count, dtype, root),
            "reduce": partial(comm.reduce, first, first, count, dtype, add, root),
            "all-to-all": partial(_messages, comm, parts, others, dtype),
            "gather": partial(_messages, comm, elsewhere, at_root, dtype),
            "scatter": partial(_messages, comm, at_root, elsewhere, dtype),
        }
        if collective not in calls:
            raise InputError(f"collective: {collective!r} given; allowed for NCCL: {', '.join(calls)}")
        return _Work(self.stream, calls[collective])

    def describe(self) -> dict[str, str]:
        return {"nccl": _version()}


def _version() -> str:
    """Return the version of NCCL, such as 2.27.3."""
    number = nccl.get_version()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
