"""Transfer GPU arrays by MPI through pinned host memory, in pieces: one is sent while the next is copied.

Each peer has a ring of pinned pieces per direction. Pieces move in the order in which transfers were started,
the same on both ranks, so messages need no tags.
"""

from collections import Counter, defaultdict, deque
from typing import Any

import cupy
import numpy as np
from cupy.cuda import runtime

from wavefabric.runtime.exchange.transports.base import Exchange
from wavefabric.runtime.exchange.transports.mpi import MPITransport

#: Bytes per piece, and pieces in progress per peer and direction. Measured (docs/performance.md).
PIECE, PIECES = 4 << 20, 4


class _Ring:
    """Holds pinned host buffers, the pieces, that transfers with one peer in one direction use in turn."""

    def __init__(self):
        memory = cupy.cuda.alloc_pinned_memory(PIECE * PIECES)
        whole = np.frombuffer(memory, np.uint8, PIECE * PIECES)
        self.pieces = [whole[i * PIECE : (i + 1) * PIECE] for i in range(PIECES)]
        self.addresses = [memory.ptr + i * PIECE for i in range(PIECES)]
        self.events = [cupy.cuda.Event(disable_timing=True) for _ in range(PIECES)]
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.free = deque(range(PIECES))
        #: Pieces of arrays that wait for a free slot: (transfer, address, bytes).
        self.waiting: deque = deque()
        #: Copies from or to the device in progress, and MPI messages in progress, in order.
        self.copying: deque = deque()
        self.travelling: deque = deque()

    def copy(self, slot: int, transfer: "_Transfer", target: int, source: int, size: int, kind: int) -> None:
        """Start to copy between the device and pinned piece number ``slot``, whose event marks the end."""
        self.stream.wait_event(transfer.ready_event)
        runtime.memcpyAsync(target, source, size, kind, self.stream.ptr)
        self.events[slot].record(self.stream)


class _Transfer:
    """Counts pieces of data that still have to move before one level of an exchange is complete.

    ``pieces_left`` counts all, ``coming[peer]`` those to receive from a peer, ``unsent`` those not yet
    passed to MPI.
    """

    def __init__(self, ready_event):
        self.ready_event, self.pieces_left, self.unsent = ready_event, 0, 0
        self.coming: Counter[int] = Counter()
        self.streams: set[Any] = set()


class StagedExchange(Exchange):
    """An exchange whose data `StagedTransport` moves through host memory, one level after another."""

    def __init__(self, program, buffers, scratch, transport):
        super().__init__(program, buffers, scratch, transport)
        self._memory = self._moves()
        self._transfers: dict[int, _Transfer] = {}

    def _begin(self, number):
        ready = cupy.cuda.Event(disable_timing=True)
        ready.record()
        self._transfers[number] = self._transport.enqueue(*self._memory[number], ready)

    def _wait(self, number, peer):
        self._transport.await_pieces(self._transfers[number], peer)

    def _complete(self, number):
        self._transport.await_pieces(self._transfers.pop(number), None)


class StagedTransport(MPITransport):
    """Moves GPU arrays by MPI through host memory; ``comm`` is an mpi4py communicator only for data."""

    exchange = StagedExchange

    def __init__(self, comm, device):
        super().__init__(comm, device)
        self._out: defaultdict[int, _Ring] = defaultdict(_Ring)
        self._in: defaultdict[int, _Ring] = defaultdict(_Ring)

    # --- The engine -------------------------------------------------------------------------------------

    def enqueue(self, sends, receives, ready) -> _Transfer:
        """Start to send and to receive, once the CUDA event ``ready`` has occurred; return the transfer.

        ``sends`` and ``receives`` are lists of (device address, bytes, peer).
        """
        transfer = _Transfer(ready)
        for rings, items in ((self._out, sends), (self._in, receives)):
            for start, size, peer in items:
                pieces = [(transfer, start + at, min(PIECE, size - at)) for at in range(0, size, PIECE)]
                rings[peer].waiting.extend(pieces)
                transfer.pieces_left += len(pieces)
                if rings is self._in:
                    transfer.coming[peer] += len(pieces)
                else:
                    transfer.unsent += len(pieces)
        self.advance()
        return transfer

    def advance(self) -> None:
        """Advance all transfers as far as possible without waiting."""
        for peer, ring in self._in.items():
            self._receive(peer, ring)
        for peer, ring in self._out.items():
            self._send(peer, ring)

    def _send(self, peer: int, ring: _Ring) -> None:
        while ring.travelling and ring.travelling[0][0].Test():
            _, slot, transfer = ring.travelling.popleft()
            ring.free.append(slot)
            transfer.pieces_left -= 1
        while ring.waiting and ring.free:
            transfer, address, size = ring.waiting.popleft()
            slot = ring.free.popleft()
            ring.copy(slot, transfer, ring.addresses[slot], address, size, runtime.memcpyDeviceToHost)
            ring.copying.append((slot, size, transfer))
        while ring.copying and ring.events[ring.copying[0][0]].done:
            slot, size, transfer = ring.copying.popleft()
            request = self.comm.Isend([ring.pieces[slot][:size], self.mpi.BYTE], peer)
            ring.travelling.append((request, slot, transfer))
            transfer.unsent -= 1

    def _receive(self, peer: int, ring: _Ring) -> None:
        # A piece is free when its copy to the device is done.
        while ring.copying and ring.events[ring.copying[0]].done:
            ring.free.append(ring.copying.popleft())
        while ring.waiting and ring.free:
            transfer, address, size = ring.waiting.popleft()
            slot = ring.free.popleft()
            request = self.comm.Irecv([ring.pieces[slot][:size], self.mpi.BYTE], peer)
            ring.travelling.append((request, slot, transfer, address, size))
        while ring.travelling and ring.travelling[0][0].Test():
            _, slot, transfer, address, size = ring.travelling.popleft()
            ring.copy(slot, transfer, address, ring.addresses[slot], size, runtime.memcpyHostToDevice)
            ring.copying.append(slot)
            transfer.pieces_left -= 1
            transfer.coming[peer] -= 1
            transfer.streams.add(ring.stream)

    def await_pieces(self, transfer: _Transfer, peer: int | None) -> None:
        """Wait until all data from ``peer`` are here and all data to send have been passed to MPI.

        With ``peer`` None wait for the end of the whole transfer.
        """
        while transfer.pieces_left if peer is None else transfer.coming[peer] or transfer.unsent:
            self.advance()
        current = cupy.cuda.get_current_stream()
        for stream in transfer.streams:
            event = cupy.cuda.Event(disable_timing=True)
            event.record(stream)
            current.wait_event(event)
