"""MPI between arrays that MPI can read where they are: in host memory, or on GPUs with a CUDA-aware MPI."""

from __future__ import annotations

import numpy as np

from wavefabric.exchange.launch.watch import waiting
from wavefabric.exchange.transports.base import Exchange, Transport

#: Open MPI 4 counts in 32-bit integers.
_PIECE = 1 << 30
_TAGS = 1 << 14  # MPI promises 32767


class MPIExchange(Exchange):
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
        self._transport.synchronize()
        requests = self._requests(number)
        if requests:
            self._transport.mpi.Prequest.Startall(requests)

    def _wait(self, number, peer):
        mine = [request for source, request in self._receives[number] if peer in (None, source)]
        if mine:
            with waiting(*(self._peers[number] if peer is None else (peer,))):
                self._transport.mpi.Request.Waitall(mine)

    def _complete(self, number):
        requests = self._requests(number)
        if requests:
            with waiting(*self._peers[number]):
                self._transport.mpi.Request.Waitall(requests)

    def _requests(self, number: int) -> list:
        return [request for _, request in self._receives[number]] + self._sends[number]

    def __del__(self):
        if not self._transport.mpi.Is_finalized():
            for number in range(len(self._sends)):
                for request in self._requests(number):
                    request.Free()


def _pieces(array, mpi):
    """Bytes of an array in pieces that MPI can count."""
    flat = array.view(np.uint8)
    return [[flat[i : i + _PIECE], mpi.BYTE] for i in range(0, flat.size, _PIECE)]


class MPITransport(Transport):
    """MPI reads and writes the arrays of the device itself: ``"mpi"`` (host memory) or ``"mpi-cuda"``.

    ``comm`` is an mpi4py communicator for data alone.
    """

    def __init__(self, comm, device, name: str = "mpi"):
        from mpi4py import MPI

        super().__init__(device)
        self.mpi, self.comm, self.name = MPI, comm, name
        self._labels = 0

    def bind(self, program, buffers, scratch) -> Exchange:
        # Exchanges under way at the same time have tags of their own.
        self._labels += 257
        return MPIExchange(program, buffers, scratch, self, self._labels)

    def synchronize(self) -> None:
        """What the device still writes must be there before MPI reads it."""
        if self.name == "mpi-cuda":
            self._device.synchronize()

    def describe(self) -> dict[str, str]:
        return {"mpi": self.mpi.Get_library_version().split("\n")[0].strip("\0 ")}
