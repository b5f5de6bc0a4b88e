"""NCCL: grouped sends and receives, or its own all-gather, on a stream of their own."""

from __future__ import annotations

from collections.abc import Callable

import cupy
import numpy as np
from cupy.cuda import nccl

from wavefabric.collectives.conditions import kind
from wavefabric.errors import InputError
from wavefabric.exchange.transports.base import Exchange, Transport, address

_BYTE = nccl.NCCL_UINT8
_TYPES = {
    "float16": nccl.NCCL_FLOAT16,
    "float32": nccl.NCCL_FLOAT32,
    "float64": nccl.NCCL_FLOAT64,
    "int32": nccl.NCCL_INT32,
    "int64": nccl.NCCL_INT64,
}


class NCCLExchange(Exchange):
    """Each level is one group; the current stream waits for it when it has to."""

    def __init__(self, program, buffers, scratch, transport):
        super().__init__(program, buffers, scratch)
        self._transport = transport
        self._ready, self._done = (cupy.cuda.Event(disable_timing=True) for _ in range(2))
        # Addresses once: looking them up costs more than the call.
        self._sends = [[address(s.of(buffers), s.peer) for s in level.sends] for level in program.levels]
        self._receives = [
            [address(part, span.peer) for span, part in self._incoming(level)] for level in program.levels
        ]
        self._equal = self._all_gather(program)

    @staticmethod
    def _all_gather(program) -> int:
        """Elements of a rank's share, if the program is a direct all-gather of equal shares; else 0."""
        schedule = program.schedule
        if len(program.levels) != 1 or len(schedule.buffers) != 1 or not schedule.name.startswith("direct"):
            return 0
        if schedule.ranks < 2 or kind(schedule)[0] != "all-gather":
            return 0
        shares = set(schedule.sizes[0][0].reshape(schedule.ranks, -1).sum(axis=1).tolist())
        return int(shares.pop()) if len(shares) == 1 else 0

    def _begin(self, number):
        comm, stream = self._transport.comm, self._transport.stream
        self._ready.record()
        stream.wait_event(self._ready)
        if self._equal:
            whole = self._buffers[0]
            size = self._equal * whole.itemsize
            first = whole.data.ptr
            comm.allGather(first + self._program.rank * size, first, size, _BYTE, stream.ptr)
        else:
            nccl.groupStart()
            for start, size, peer in self._receives[number]:
                comm.recv(start, size, _BYTE, peer, stream.ptr)
            for start, size, peer in self._sends[number]:
                comm.send(start, size, _BYTE, peer, stream.ptr)
            nccl.groupEnd()
        self._done.record(stream)

    def _wait(self, number, peer):
        cupy.cuda.get_current_stream().wait_event(self._done)

    def _complete(self, number):
        cupy.cuda.get_current_stream().wait_event(self._done)


class NCCLCollective:
    """A collective operation of NCCL over whole arrays; the current stream waits for it.

    ``enqueue`` is called with the address of the transport's stream.
    """

    def __init__(self, transport, enqueue: Callable[[int], None]):
        self._stream, self._enqueue = transport.stream, enqueue
        self._ready, self._done = (cupy.cuda.Event(disable_timing=True) for _ in range(2))

    def __call__(self) -> None:
        self._ready.record()
        self._stream.wait_event(self._ready)
        self._enqueue(self._stream.ptr)
        self._done.record(self._stream)
        cupy.cuda.get_current_stream().wait_event(self._done)


class NCCLTransport(Transport):
    """One NCCL communicator over all ranks; ``control`` hands out its identity."""

    name = "nccl"

    def __init__(self, control, device):
        super().__init__(device)
        identity = control.bcast(nccl.get_unique_id() if control.rank == 0 else None)
        self.comm = nccl.NcclCommunicator(control.size, identity, control.rank)
        self.stream = cupy.cuda.Stream(non_blocking=True)

    def bind(self, program, buffers, scratch) -> Exchange:
        return NCCLExchange(program, buffers, scratch, self)

    def own_collective(self, collective: str, buffers: list, root: int = 0) -> NCCLCollective:
        """NCCL's own operation; see `wavefabric.exchange.Communicator.own_collective`."""
        whole = buffers[0]
        name = np.dtype(whole.dtype).name
        if name not in _TYPES:
            raise InputError(f"dtype: {name} given; allowed for NCCL's sums: {', '.join(_TYPES)}")
        comm, size, rank = self.comm, self.comm.size(), self.comm.rank_id()
        first, count, dtype, add = whole.data.ptr, whole.size, _TYPES[name], nccl.NCCL_SUM
        cut = collective in ("all-gather", "reduce-scatter", "all-to-all", "gather", "scatter")
        if cut and count % size:
            raise InputError(f"elements: {count} on {size} ranks; allowed for NCCL: equal shares")
        share, step = count // size, whole.nbytes // size
        here = first + rank * step
        others = [peer for peer in range(size) if peer != root]
        parts_of_others = [(first + peer * step, peer) for peer in others]
        parts = [(first + peer * step, peer) for peer in range(size)]
        sends, receives = {
            "all-to-all": (parts, [(buffers[-1].data.ptr + peer * step, peer) for peer in range(size)]),
            "gather": ([], parts_of_others) if rank == root else ([(here, root)], []),
            "scatter": (parts_of_others, []) if rank == root else ([], [(here, root)]),
        }.get(collective, ([], []))

        def messages(stream: int) -> None:
            nccl.groupStart()
            for start, peer in receives:
                comm.recv(start, share, dtype, peer, stream)
            for start, peer in sends:
                comm.send(start, share, dtype, peer, stream)
            nccl.groupEnd()

        calls = {
            "all-gather": lambda stream: comm.allGather(here, first, share, dtype, stream),
            "reduce-scatter": lambda stream: comm.reduceScatter(first, here, share, dtype, add, stream),
            "all-reduce": lambda stream: comm.allReduce(first, first, count, dtype, add, stream),
            "broadcast": lambda stream: comm.broadcast(first, first, count, dtype, root, stream),
            "reduce": lambda stream: comm.reduce(first, first, count, dtype, add, root, stream),
            **dict.fromkeys(("all-to-all", "gather", "scatter"), messages),
        }
        if collective not in calls:
            raise InputError(f"collective: {collective!r} given; allowed for NCCL: {', '.join(calls)}")
        return NCCLCollective(self, calls[collective])

    def describe(self) -> dict[str, str]:
        return {"nccl": library_version()}


def library_version() -> str:
    """Version of NCCL, such as 2.27.3."""
    number = nccl.get_version()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
