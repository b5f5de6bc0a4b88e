"""MPI between arrays that MPI can read where they are: in host memory, or on GPUs with a CUDA-aware MPI."""

from __future__ import annotations

import numpy as np

from wavefabric.exchange.launch.watch import waiting
from wavefabric.exchange.transports.base import Bound

#: Open MPI 4 counts in 32-bit integers.
_PIECE = 1 << 30
_TAGS = 1 << 14  # MPI promises 32767


class MPIBound(Bound):
    """Persistent requests, made once; a start costs one call a message."""

    def __init__(self, program, buffers, scratch, transport, label: int):
        super().__init__(program, buffers, scratch)
        self._transport = transport
        mpi, comm = transport.mpi, transport.comm
        self._sends, self._receives, self._peers = [], [], []
        for level in program.levels:
            sends = [
                comm.Send_init(piece, span.peer, (label + span.number) % _TAGS)
                for span in level.sends
                for piece in _pieces(span.of(buffers), mpi)
            ]
            receives = [
                (span.peer, comm.Recv_init(piece, span.peer, (label + span.number) % _TAGS))
                for span, part in self._incoming(level)
                for piece in _pieces(part, mpi)
            ]
            self._sends.append(sends)
            self._receives.append(receives)
            self._peers.append({span.peer for span in level.sends} | {peer for peer, _ in receives})

    def _begin(self, number):
        self._transport.settle()  # what the device still writes must be there before MPI reads it
        mpi = self._transport.mpi
        requests = [request for _, request in self._receives[number]] + self._sends[number]
        if requests:
            mpi.Prequest.Startall(requests)

    def _wait(self, number, peer):
        mine = [request for source, request in self._receives[number] if peer in (None, source)]
        if mine:
            with waiting(*(self._peers[number] if peer is None else (peer,))):
                self._transport.mpi.Request.Waitall(mine)

    def _complete(self, number):
        requests = [request for _, request in self._receives[number]] + self._sends[number]
        if requests:
            with waiting(*self._peers[number]):
                self._transport.mpi.Request.Waitall(requests)

    def __del__(self):
        if self._transport.mpi.Is_finalized():
            return
        for requests in (*self._sends, *([r for _, r in level] for level in self._receives)):
            for request in requests:
                request.Free()


def _pieces(array, mpi):
    """Bytes of an array in pieces that MPI can count."""
    flat = array.view(np.uint8)
    return [[flat[i : i + _PIECE], mpi.BYTE] for i in range(0, flat.size, _PIECE)]


class MPITransport:
    """MPI reads and writes the arrays of the device itself.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        A communicator for data alone.
    device : Device
    name : str
        ``"mpi"`` (host memory) or ``"mpi-cuda"``.
    """

    def __init__(self, comm, device, name: str = "mpi"):
        from mpi4py import MPI

        self.mpi, self.comm, self.name = MPI, comm, name
        self._device, self._labels = device, 0
        self.settle = device.synchronize if name == "mpi-cuda" else _nothing

    def allocate(self, shape, dtype):
        return self._device.empty(shape, dtype)

    def bind(self, program, buffers, scratch) -> Bound:
        # Exchanges under way at the same time have tags of their own.
        self._labels += 257
        return MPIBound(program, buffers, scratch, self, self._labels)

    def describe(self) -> dict:
        return {"mpi": self.mpi.Get_library_version().split("\n")[0].strip("\0 ")}


def _nothing() -> None:
    pass
