"""Copies between GPUs of one host by their copy engines: addresses exchanged once, no MPI call in a step.

The receiver signals that its buffer may be overwritten; the sender's stream waits for that, copies, and
signals that the data are there. Both signals are words of the other GPU's memory; the host waits for nothing.
Peers that cannot be reached are served through MPI and host memory.
"""

from __future__ import annotations

import copy

import cupy
import numpy as np
from cupy.cuda import runtime

from wavefabric.errors import InputError
from wavefabric.exchange.program import Level
from wavefabric.exchange.transports.base import Exchange, Transport
from wavefabric.exchange.transports.shared_memory import SharedPool


class P2PExchange(Exchange):
    """A stream a peer pushes; flags count how often.

    For each level and peer there is a flag at the sender (room at the receiver) and one at the receiver (data
    have arrived). Both are numbered by level and peer.
    """

    def __init__(self, program, buffers, scratch, transport, rest):
        super().__init__(program, buffers, scratch)
        self._transport, self._rest = transport, rest
        self._turn = 0
        self._ready = cupy.cuda.Event(disable_timing=True)
        reachable = transport.reachable
        self._sends: list[dict[int, list]] = []
        self._froms: list[list[int]] = []
        targets = self._exchange_addresses(program, buffers, scratch)
        flags, there = transport.new_flags(len(program.levels))
        self._flags = flags  # keeps the memory
        control = transport.control
        self._room_there, self._data_there, self._room_here, self._data_here = [], [], [], []
        for number, level in enumerate(program.levels):
            sends: dict[int, list] = {}
            for span in level.sends:
                if reachable[span.peer]:
                    part = span.of(buffers)
                    sends.setdefault(span.peer, []).append((targets[span.number], part.data.ptr, part.nbytes))
            froms = sorted({span.peer for span in level.receives if reachable[span.peer]})
            self._sends.append(sends)
            self._froms.append(froms)

            def flag(base, kind, peer, number=number):
                # Flags of a rank: (level, room or data, rank at the other end).
                return base + 4 * ((number * 2 + kind) * control.size + peer)

            me = control.rank
            pack = transport.pack
            self._room_there.append(pack([flag(there[p], 0, me) for p in froms]))
            self._data_here.append({p: pack([flag(there[me], 1, p)]) for p in froms})
            self._data_here[-1][None] = pack([flag(there[me], 1, p) for p in froms])
            self._room_here.append({p: pack([flag(there[me], 0, p)]) for p in sends})
            self._data_there.append({p: pack([flag(there[p], 1, me)]) for p in sends})
        self._sent = [{p: cupy.cuda.Event(disable_timing=True) for p in sends} for sends in self._sends]

    def _exchange_addresses(self, program, buffers, scratch) -> dict[int, int]:
        """Where each of this rank's sends goes, as an address that this process may write to."""
        transport = self._transport
        mine: dict[int, dict[int, tuple]] = {}
        for level in program.levels:
            for span, part in self._incoming(level):
                if transport.reachable[span.peer]:
                    mine.setdefault(span.peer, {})[span.number] = transport.locate(part.data.ptr)
        return {
            number: transport.open(peer, location)
            for peer, offered in enumerate(transport.control.all_gather(mine))
            for number, location in offered.get(transport.control.rank, {}).items()
        }

    def start(self) -> None:
        super().start()
        if self._rest is not None:
            self._rest.start()

    def finish(self) -> None:
        super().finish()
        if self._rest is not None:
            self._rest.finish()

    def arrived(self, peer: int | None = None) -> None:
        if self._rest is not None and (peer is None or not self._transport.reachable[peer]):
            self._rest.arrived(peer)
        if peer is None or self._transport.reachable[peer]:
            super().arrived(peer)

    def _begin(self, number):
        self._turn += number == 0
        transport, turn = self._transport, np.uint32(self._turn & 0xFFFFFFFF)
        if self._froms[number]:
            transport.signal(self._room_there[number], turn)
        if not self._sends[number]:
            return
        self._ready.record()
        for peer, copies in self._sends[number].items():
            stream = transport.streams[peer]
            stream.wait_event(self._ready)
            with stream:
                transport.wait(self._room_here[number][peer], turn)
                for target, source, size in copies:
                    runtime.memcpyAsync(target, source, size, runtime.memcpyDeviceToDevice, stream.ptr)
                transport.signal(self._data_there[number][peer], turn)
            self._sent[number][peer].record(stream)

    def _wait(self, number, peer):
        if peer in self._data_here[number] and self._froms[number]:
            self._transport.wait(self._data_here[number][peer], np.uint32(self._turn & 0xFFFFFFFF))

    def _complete(self, number):
        if self._froms[number]:
            self._transport.wait(self._data_here[number][None], np.uint32(self._turn & 0xFFFFFFFF))
        current = cupy.cuda.get_current_stream()
        for event in self._sent[number].values():
            current.wait_event(event)


class P2PTransport(Transport):
    """Peer copies; the transport ``rest`` takes what peers out of reach send and receive.

    ``same_host`` says which ranks share this host.
    """

    name = "p2p"

    def __init__(self, control, device, same_host: list[bool], rest):
        super().__init__(device)
        self.control, self._rest = control, rest
        self._pool = SharedPool()
        self.allocate, self.locate, self.open = self._pool.allocate, self._pool.locate, self._pool.open
        kernels = device.module("wavefabric.exchange.transports", "p2p.cu")
        self._signal, self._await = kernels.get_function("signal"), kernels.get_function("await")
        self.streams = {p: cupy.cuda.Stream(non_blocking=True) for p in range(control.size)}
        self.reachable = self._try(same_host)

    def _try(self, same_host: list[bool]) -> list[bool]:
        """Which peers' memory can be mapped here and ours there: found by doing it."""
        probe = self._probe = self.allocate((64,), np.uint32)
        locations = self.control.all_gather(self.locate(probe.data.ptr))
        mine = []
        for peer, location in enumerate(locations):
            try:
                mine.append(
                    same_host[peer] and (peer == self.control.rank or bool(self.open(peer, location)))
                )
            except runtime.CUDARuntimeError:
                mine.append(False)
        matrix = self.control.all_gather(mine)
        me = self.control.rank
        return [mine[p] and matrix[p][me] for p in range(self.control.size)]

    @property
    def complete(self) -> bool:
        """Whether all ranks reach all others."""
        return all(self.control.all_gather(all(self.reachable)))

    # --- Memory -----------------------------------------------------------------------------------------

    def new_flags(self, levels: int):
        """Zeroed flags for so many levels, and their addresses on all ranks as seen from here."""
        flags = self.allocate((max(1, levels) * 2 * self.control.size,), np.uint32)
        flags.fill(0)
        self._device.synchronize()
        locations = self.control.all_gather(self.locate(flags.data.ptr))  # nobody signals before all are zero
        there = [
            self.open(peer, location) if self.reachable[peer] and peer != self.control.rank else 0
            for peer, location in enumerate(locations)
        ]
        there[self.control.rank] = flags.data.ptr
        return flags, there

    # --- Signals ----------------------------------------------------------------------------------------

    def pack(self, addresses: list[int]):
        """Addresses of flags for a kernel."""
        return self._device.asarray(np.array(addresses or [0], np.uint64)), np.int32(len(addresses))

    def signal(self, flags, value) -> None:
        addresses, count = flags
        self._signal((1,), (32,), (addresses, value, count))

    def wait(self, flags, value) -> None:
        addresses, count = flags
        self._await((1,), (32,), (addresses, value, count))

    # --- Transport --------------------------------------------------------------------------------------

    def bind(self, program, buffers, scratch) -> Exchange:
        rest = None
        if not self.complete:
            rest = self._rest.bind(without(program, self.reachable), buffers, scratch)
        return P2PExchange(program, buffers, scratch, self, rest)

    def describe(self) -> dict[str, str]:
        others = [p for p in range(self.control.size) if p != self.control.rank]
        return {"peers_reached": f"{sum(self.reachable[p] for p in others)} of {len(others)}"}


def without(program, reachable: list[bool]):
    """The program with only the transfers of peers out of reach.

    Only single-level programs are split between two transports: levels of two would not wait for each other.
    """
    if len(program.levels) > 1:
        raise InputError(
            f"transport: p2p cannot run {program.schedule.name}, since some GPUs do not reach others; "
            "allowed: nccl, mpi"
        )
    part = copy.copy(program)
    part.levels = [
        Level(
            [span for span in level.sends if not reachable[span.peer]],
            [span for span in level.receives if not reachable[span.peer]],
        )
        for level in program.levels
    ]
    return part
