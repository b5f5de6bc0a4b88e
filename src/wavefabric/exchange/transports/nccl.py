"""NCCL: grouped sends and receives, or its own all-gather, on a stream of their own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import cupy
import numpy as np
from cupy.cuda import nccl

from wavefabric.collectives.conditions import kind
from wavefabric.errors import InputError
from wavefabric.exchange.transports.base import Exchange, RankGroup, Transport, address

if not getattr(nccl, "available", False):
    raise ImportError("CuPy was installed without NCCL")
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
            _messages(comm, self._sends[number], self._receives[number], _BYTE, stream.ptr)
        self._done.record(stream)

    def _wait(self, number, peer):
        cupy.cuda.get_current_stream().wait_event(self._done)

    def _complete(self, number):
        cupy.cuda.get_current_stream().wait_event(self._done)


class NCCLTransport(Transport):
    """One NCCL communicator over all ranks; ``control`` hands out its identity."""

    name = "nccl"

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

    @classmethod
    def automatic(cls, group: RankGroup) -> Transport | None:
        return cls.open(group)

    def bind(self, program, buffers, scratch) -> Exchange:
        return NCCLExchange(program, buffers, scratch, self)

    def own_collective(self, collective: str, buffers: list, root: int = 0) -> Callable[[], None]:
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
        parts, others = (
            [(buffer.data.ptr + peer * step, share, peer) for peer in range(size)]
            for buffer in (whole, buffers[-1])
        )
        at_root = [part for part in parts if part[-1] != root] if rank == root else []
        elsewhere = [(here, share, root)] if rank != root else []
        sends, receives = {
            "all-to-all": (parts, others),
            "gather": (elsewhere, at_root),
            "scatter": (at_root, elsewhere),
        }.get(collective, ([], []))

        calls = {
            "all-gather": lambda stream: comm.allGather(here, first, share, dtype, stream),
            "reduce-scatter": lambda stream: comm.reduceScatter(first, here, share, dtype, add, stream),
            "all-reduce": lambda stream: comm.allReduce(first, first, count, dtype, add, stream),
            "broadcast": lambda stream: comm.broadcast(first, first, count, dtype, root, stream),
            "reduce": lambda stream: comm.reduce(first, first, count, dtype, add, root, stream),
        }
        messages = partial(_messages, comm, sends, receives, dtype)
        calls |= dict.fromkeys(("all-to-all", "gather", "scatter"), messages)
        if collective not in calls:
            raise InputError(f"collective: {collective!r} given; allowed for NCCL: {', '.join(calls)}")
        return self._waited_for(calls[collective])

    def _waited_for(self, enqueue: Callable[[int], None]) -> Callable[[], None]:
        """What is enqueued, given the address of this transport's stream; the current stream waits for it."""
        ready, done = (cupy.cuda.Event(disable_timing=True) for _ in range(2))

        def run() -> None:
            ready.record()
            self.stream.wait_event(ready)
            enqueue(self.stream.ptr)
            done.record(self.stream)
            cupy.cuda.get_current_stream().wait_event(done)

        return run

    def describe(self) -> dict[str, str]:
        return {"nccl": _version()}


def _messages(comm, sends, receives, dtype: int, stream: int) -> None:
    """One group of (address, elements, peer)."""
    nccl.groupStart()
    for start, size, peer in receives:
        comm.recv(start, size, dtype, peer, stream)
    for start, size, peer in sends:
        comm.send(start, size, dtype, peer, stream)
    nccl.groupEnd()


def _version() -> str:
    """Version of NCCL, such as 2.27.3."""
    number = nccl.get_version()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
