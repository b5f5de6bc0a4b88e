"""NCCL: grouped sends and receives, or its own all-gather, on a stream of their own."""

from __future__ import annotations

import cupy
from cupy.cuda import nccl

from wavefabric.exchange.transports.base import Bound

_BYTE = nccl.NCCL_UINT8


class NCCLBound(Bound):
    """Each level is one group; the current stream waits for it when it has to."""

    def __init__(self, program, buffers, scratch, transport):
        super().__init__(program, buffers, scratch)
        self._transport = transport
        self._ready, self._done = (cupy.cuda.Event(disable_timing=True) for _ in range(2))
        # Addresses once: looking them up costs more than the call.
        self._sends = [[_address(s.of(buffers), s.peer) for s in level.sends] for level in program.levels]
        self._receives = [
            [_address(part, span.peer) for span, part in self._incoming(level)] for level in program.levels
        ]
        self._equal = self._all_gather(program)

    @staticmethod
    def _all_gather(program) -> int:
        """Elements of a rank's part, if the program is an all-gather of equal parts; else 0."""
        schedule = program.schedule
        parts = set(schedule.sizes[0][0].tolist()) if schedule.sizes else set()
        if schedule.name == "direct all-gather" and len(parts) == 1 and schedule.ranks > 1:
            return int(parts.pop())
        return 0

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
            for address, size, peer in self._receives[number]:
                comm.recv(address, size, _BYTE, peer, stream.ptr)
            for address, size, peer in self._sends[number]:
                comm.send(address, size, _BYTE, peer, stream.ptr)
            nccl.groupEnd()
        self._done.record(stream)

    def _wait(self, number, peer):
        cupy.cuda.get_current_stream().wait_event(self._done)

    def _complete(self, number):
        cupy.cuda.get_current_stream().wait_event(self._done)


def _address(array, peer: int) -> tuple[int, int, int]:
    return array.data.ptr, array.nbytes, peer


class NCCLTransport:
    """One NCCL communicator over all ranks.

    Parameters
    ----------
    control : Control
        Hands out the communicator's identity.
    device : Device
    """

    name = "nccl"

    def __init__(self, control, device):
        self._device = device
        identity = control.bcast(nccl.get_unique_id() if control.rank == 0 else None)
        self.comm = nccl.NcclCommunicator(control.size, identity, control.rank)
        self.stream = cupy.cuda.Stream(non_blocking=True)

    def allocate(self, shape, dtype):
        return self._device.empty(shape, dtype)

    def bind(self, program, buffers, scratch) -> Bound:
        return NCCLBound(program, buffers, scratch, self)

    def describe(self) -> dict:
        version = nccl.get_version()
        return {"nccl": f"{version // 10000}.{version // 100 % 100}.{version % 100}"}
