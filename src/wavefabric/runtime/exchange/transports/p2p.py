"""Transfer data between GPUs of one host that map each other's memory, by kernels (`p2p_plan`) or by copies.

Copies use the GPUs' copy engines. Addresses are exchanged once, and no step calls MPI. For each copy the
receiver signals that its buffer may be overwritten; the sender's stream waits for this, copies, and signals
that the data have arrived. Both signals are words in the other GPU's memory; the host waits for nothing.
Data for peers whose memory cannot be mapped go through MPI and host memory.
"""

import itertools
import os
import weakref
from typing import Any, NamedTuple

import cupy
import numpy as np
from cupy.cuda import runtime

from wavefabric.base.errors import InputError
from wavefabric.collectives.plans.plan import PROTOCOLS
from wavefabric.collectives.structure import transfer_elements
from wavefabric.runtime.exchange.control import check_agreement
from wavefabric.runtime.exchange.launch.environment import PROTOCOL
from wavefabric.runtime.exchange.transports import plan_code
from wavefabric.runtime.exchange.transports.base import Exchange, RankGroup, SymmetricArray, Transport
from wavefabric.runtime.exchange.transports.mpi_staged import StagedTransport
from wavefabric.runtime.exchange.transports.multicast import MulticastPool, check_multicast
from wavefabric.runtime.exchange.transports.p2p_plan import PlanExchange, Timeout
from wavefabric.runtime.exchange.transports.shared_pool import SharedPool

#: Bytes of the largest transfer up to which packets are faster than signals on H200s (docs/performance.md).
_PACKETS = 1 << 18

#: Addresses of flags on the device, and their number.
Flags = tuple[Any, np.int32]


class _Copies(NamedTuple):
    """Holds the copies to other GPUs of one level of an exchange, and the flags that synchronise them.

    This rank sets the flags ``free_there`` to tell senders that its buffers may be overwritten. Senders set
    the flags ``data_here`` to tell this rank that their data have arrived.
    """

    free_there: Flags
    data_here: dict[int | None, Flags]  # Key None: the flags of all senders.
    #: Per peer: stream, flag "free", (target, source, bytes) of each part, flag "data", event.
    sends: list[tuple[Any, Flags, list, Flags, Any]]


class P2PExchange(Exchange):
    """Copies data to each peer on a separate stream; ranks are synchronised by flags.

    For each level (transfers that may run at once) and peer the sender has a flag for "the receiver's buffer
    is free", and the receiver one for "data have arrived". A flag is set to the number of the exchange, 1 in
    the first run.
    """

    protocol = "copies"

    def __init__(self, program, buffers, scratch, transport):
        super().__init__(program, buffers, scratch, transport)
        self._turn, self._transfer = 0, None
        #: Sends and receives of each level with peers whose memory cannot be mapped.
        self._apart = [
            [[move for move in moves if not transport.reachable[move[-1]]] for moves in level]
            for level in self._moves()
        ]
        self._ready = cupy.cuda.Event(disable_timing=True)
        targets = self._exchange_addresses()
        # Zeroed flags of this rank for all levels, and addresses by which this rank reaches all ranks' flags.
        flags = max(1, len(program.levels)) * 2 * transport.control.size
        self._flags, there = transport.zeroed((flags,), np.uint32)
        self._levels = [self._copies(number, targets, there) for number in range(len(program.levels))]

    def _copies(self, number: int, targets: dict[int, int], there: list[int]) -> _Copies:
        transport, level = self._transport, self._program.levels[number]
        own, ranks, pack = transport.control.rank, transport.control.size, transport.pack
        parts: dict[int, list] = {}
        for span, part in self._sent[number]:
            if transport.reachable[span.peer]:
                parts.setdefault(span.peer, []).append((targets[span.number], part.data.ptr, part.nbytes))
        sources = sorted({span.peer for span in level.receives if transport.reachable[span.peer]})

        def flag(owner: int, kind: int, peer: int) -> int:
            # Flags of a rank: (level, free or data, rank at the other end).
            return there[owner] + 4 * ((number * 2 + kind) * ranks + peer)

        def send(peer: int) -> tuple[Any, Flags, list, Flags, Any]:
            free, data = pack([flag(own, 0, peer)]), pack([flag(peer, 1, own)])
            return transport.streams[peer], free, parts[peer], data, cupy.cuda.Event(disable_timing=True)

        arrived = {p: flag(own, 1, p) for p in sources}
        return _Copies(
            pack([flag(p, 0, own) for p in sources]),
            {**{p: pack([at]) for p, at in arrived.items()}, None: pack(list(arrived.values()))},
            list(map(send, parts)),
        )

    def _exchange_addresses(self) -> dict[int, int]:
        """Return a dictionary from the number of each transfer this rank sends to an address on the peer."""
        transport = self._transport
        mine: dict[int, dict[int, tuple]] = {}
        for span, part in itertools.chain(*self._received):
            if transport.reachable[span.peer]:
                mine.setdefault(span.peer, {})[span.number] = transport.locate(part.data.ptr)
        return {
            number: transport.map(peer, location)
            for peer, offered in enumerate(transport.control.all_gather(mine))
            for number, location in offered.get(transport.control.rank, {}).items()
        }

    def _begin(self, number):
        self._turn += number == 0
        # The value of flags for this exchange.
        self._value = np.uint32(self._turn & 0xFFFFFFFF)
        transport, level, value = self._transport, self._levels[number], self._value
        if level.free_there[1]:
            transport.signal(level.free_there, value)
        if level.sends:
            self._ready.record()
        for stream, free, parts, data, sent in level.sends:
            stream.wait_event(self._ready)
            with stream:
                transport.wait(free, value)
                for target, source, size in parts:
                    runtime.memcpyAsync(target, source, size, runtime.memcpyDeviceToDevice, stream.ptr)
                transport.signal(data, value)
            sent.record(stream)
        self._transfer = None
        if any(self._apart[number]):
            ready = cupy.cuda.Event(disable_timing=True)
            ready.record()
            self._transfer = transport.staged.enqueue(*self._apart[number], ready)

    def _wait(self, number, peer):
        flags = self._levels[number].data_here.get(peer)
        if flags and flags[1]:
            self._transport.wait(flags, self._value)
        if self._transfer is not None and (peer is None or not self._transport.reachable[peer]):
            self._transport.staged.await_pieces(self._transfer, peer)

    def _complete(self, number):
        self._wait(number, None)
        current = cupy.cuda.get_current_stream()
        for *_, sent in self._levels[number].sends:
            current.wait_event(sent)


class P2PTransport(Transport):
    """Transfers data by kernels and by copies between GPUs of a host that map each other's memory.

    ``same_host`` says for each rank whether it is on this host. For peers whose memory cannot be mapped data
    go through ``staged``, a transport by MPI.
    """

    name = "p2p"
    #: ``"auto"`` means the value of `PROTOCOL` if set, else kernels if those of all ranks can run at once.
    protocols = ("auto", "copies", *PROTOCOLS)
    talks_in_bind = True
    exchange = P2PExchange

    def __init__(self, control, device, same_host: list[bool], staged: StagedTransport | None):
        super().__init__(device)
        self.control, self.staged = control, staged
        self._waiting: weakref.WeakSet[Any] = weakref.WeakSet()
        self.protocol = os.environ.get(PROTOCOL, "auto")
        check_agreement(control, {PROTOCOL: self.protocol})
        if self.protocol not in self.protocols:
            allowed = ", ".join(self.protocols)
            raise InputError(f"{PROTOCOL}: {self.protocol!r} given; allowed: {allowed}")
        self._pool = SharedPool()
        self.multicast = MulticastPool(self)
        self.allocate, self.locate, self.map = self._pool.allocate, self._pool.locate, self._pool.open
        kernels = device.module("wavefabric.runtime.exchange.transports", "p2p.cu")
        self._signal, self._await = kernels.get_function("signal"), kernels.get_function("await")
        self.streams = {p: cupy.cuda.Stream(non_blocking=True) for p in range(control.size)}
        self.reachable = self._try(same_host)
        #: Whether every rank reaches every other rank.
        self.complete = all(control.all_gather(all(self.reachable)))
        self._multiprocessors, self._no_kernels = self._resident()

    def _try(self, same_host: list[bool]) -> list[bool]:
        """Return for each rank whether it and this rank can map each other's memory, which all ranks try."""
        probe = self._probe = self.allocate((64,), np.uint32)
        me, mine = self.control.rank, list(same_host)
        for peer, location in enumerate(self.control.all_gather(self.locate(probe.data.ptr))):
            try:
                mine[peer] = same_host[peer] and (peer == me or bool(self.map(peer, location)))
            except runtime.CUDARuntimeError:
                mine[peer] = False
        return [here and there[me] for here, there in zip(mine, self.control.all_gather(mine), strict=True)]

    def _resident(self) -> tuple[int, str | None]:
        """Find out whether the kernels of all ranks can run at once.

        If they can, return the smallest number of multiprocessors of the ranks' GPUs, and None; else 0 and
        the reason.
        """
        if not self.complete:  # first, since GPUs of different hosts may have the same address
            return 0, "protocol: some GPUs do not reach others; allowed: copies"
        own = cupy.cuda.Device()
        gpus = self.control.all_gather((own.pci_bus_id, own.attributes["MultiProcessorCount"]))
        shared = [rank for rank, (gpu, _) in enumerate(gpus) if [own for own, _ in gpus].count(gpu) > 1]
        if shared:
            ranks = ", ".join(map(str, shared))
            return 0, f"protocol: ranks {ranks} share a GPU; allowed: copies, or a GPU for each rank"
        return min(count for _, count in gpus), None

    @classmethod
    def available(cls) -> tuple[bool, str]:
        gpus = runtime.getDeviceCount()
        pairs = itertools.combinations(range(gpus), 2)
        apart = [f"{a} and {b}" for a, b in pairs if not runtime.deviceCanAccessPeer(a, b)]
        if apart:
            return False, f"GPUs without access to each other: {', '.join(apart)}"
        return True, "all GPUs reach one another" if gpus > 1 else "one GPU, which ranks may share"

    @classmethod
    def open(cls, group: RankGroup) -> "P2PTransport":
        return cls._between(group)._checked()

    @classmethod
    def _between(cls, group: RankGroup) -> "P2PTransport":
        staged = StagedTransport(group.comm.Dup(), group.device)
        return cls(group.control, group.device, group.same_host, staged)

    @classmethod
    def automatic(cls, group: RankGroup) -> "P2PTransport | None":
        if not all(group.control.all_gather(all(group.same_host))):
            return None
        opened = cls._between(group)
        return opened._checked() if opened.complete else None

    def _checked(self) -> "P2PTransport":
        """Return this transport; `InputError` if ranks cannot use the protocol in WAVEFABRIC_PROTOCOL."""
        why = self.why_refused(self.protocol)
        if why is not None:
            raise InputError(f"{PROTOCOL}: {self.protocol!r} given; {why.removeprefix('protocol: ')}")
        return self

    def zeroed(self, shape, dtype) -> tuple[Any, list[int]]:
        """Allocate an array of zeros on each rank; return this rank's array and a list of addresses.

        Entry r is the address at which this rank reaches the array of rank r, 0 if it cannot. All ranks make
        this call, and none returns before all arrays are zero.
        """
        array = self.allocate(shape, dtype)
        array.fill(0)
        self._device.synchronize()
        there = [
            self.map(peer, location) if self.reachable[peer] and peer != self.control.rank else 0
            for peer, location in enumerate(self.control.all_gather(self.locate(array.data.ptr)))
        ]
        there[self.control.rank] = array.data.ptr
        return array, there

    def pack(self, addresses: list[int]) -> Flags:
        """Return flags as arguments of kernels: a device array of their addresses, and their number."""
        return self._device.asarray(np.array(addresses or [0], np.uint64)), np.int32(len(addresses))

    def signal(self, flags: Flags, value) -> None:
        """Set ``flags`` to ``value`` after the work in the current stream."""
        self._signal((1,), (32,), (flags[0], value, flags[1]))

    def wait(self, flags: Flags, value) -> None:
        """Let the current stream wait until ``flags`` have reached ``value``."""
        self._await((1,), (32,), (flags[0], value, flags[1]))

    def address(self, array):
        return self._pool.loan(array.data.ptr)

    def bind(self, program, buffers, scratch) -> Exchange:
        check_agreement(self.control, {"protocol": "copies"})
        return super().bind(program, buffers, scratch)

    def bind_plan(self, program, buffers, protocol, blocks, concurrent=1) -> Exchange:
        check_agreement(self.control, {"protocol": protocol})
        exchange = PlanExchange(program, buffers, self, self._device, protocol, blocks, concurrent)
        self._waiting.add(exchange)
        return exchange

    @property
    def one_sided(self) -> bool:
        return self._no_kernels is None if self.protocol == "auto" else self.protocol in PROTOCOLS

    def protocol_for(self, schedule, protocol, dtype):
        chosen = super().protocol_for(schedule, protocol, dtype)
        chosen = self.protocol if chosen == "auto" else chosen
        if chosen != "auto":
            return chosen
        known = plan_code.known_type(dtype, bool(schedule.transfers["reduce"].any()))
        if self._no_kernels or known is None:
            return "copies"
        largest = int(transfer_elements(schedule).max(initial=0)) * np.dtype(dtype).itemsize
        return "packets" if largest <= _PACKETS else "signals"

    def symmetric(self, shape, dtype) -> SymmetricArray:
        own, there = self.zeroed(shape, dtype)
        return SymmetricArray(own, self._device.asarray(np.array(there, np.uint64)))

    def timeout(self, name: str):
        timeout = Timeout(name, self.multiprocessors())
        self._waiting.add(timeout)
        return timeout

    def check(self) -> None:
        for each in list(self._waiting):
            each.check()

    def why_refused(self, protocol) -> str | None:
        return self._no_kernels if protocol in PROTOCOLS else None

    def why_no_switch(self) -> str | None:
        try:
            check_multicast(self)
        except (InputError, OSError) as error:  # OSError: no driver
            return str(error)
        return None

    def multiprocessors(self) -> int:
        """Return the GPUs' smallest multiprocessor count; `InputError` if kernels cannot all run at once."""
        if self._no_kernels is not None:
            raise InputError(self._no_kernels)
        return self._multiprocessors

    def describe(self) -> dict[str, str]:
        others = [p for p in range(self.control.size) if p != self.control.rank]
        return {"peers_reached": f"{sum(self.reachable[p] for p in others)} of {len(others)}"}
