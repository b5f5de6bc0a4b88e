"""Define the base classes of transports, which run one rank's part of a schedule level by level.

A level is a set of transfers that may run at once, since they depend only on transfers of earlier levels.
What a rank sends and receives are spans (parts) of 1-D buffers. Sums are computed in the schedule's order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.runtime.device import Device
from wavefabric.runtime.exchange.control import Control

if TYPE_CHECKING:
    from wavefabric.collectives import Schedule


@dataclass(frozen=True)
class Span:
    """Describes the part of a buffer that a rank sends to ``peer`` or receives from it, in elements.

    ``number`` is the transfer's index in the schedule, the same on both ranks. With ``reduce`` the received
    data are added.
    """

    peer: int
    buffer: int
    first: int
    size: int
    number: int
    reduce: bool = False

    def of(self, buffers: list):
        """Return a view of this part of the buffer; ``buffers`` are all buffers of the rank."""
        return buffers[self.buffer][self.first : self.first + self.size]


@dataclass
class Level:
    """Holds a rank's transfers that may run at once, since they depend only on those of earlier levels.

    Receives are in the schedule's order.
    """

    sends: list[Span] = field(default_factory=list)
    receives: list[Span] = field(default_factory=list)
    #: Copies within this rank, (source, target).
    local: list[tuple[Span, Span]] = field(default_factory=list)


class Program:
    """One rank's part of a schedule, divided into a sequence of `Level`, equally long on all ranks."""

    def __init__(self, schedule: Schedule, rank: int):
        from wavefabric.collectives import levels

        self.schedule, self.rank = schedule, rank
        #: Start of this program's message tags; set in the first bind by transports that need it.
        self.label: int | None = None
        depth = levels(schedule)
        self.levels = [Level() for _ in range(int(depth.max(initial=-1)) + 1)]
        offsets = [schedule.offsets(b, rank) for b in range(len(schedule.buffers))]

        def span(number: int, peer: int, end: str) -> Span:
            transfer = schedule.transfers[number]
            buffer, chunk = int(transfer[f"{end}_buffer"]), int(transfer[f"{end}_chunk"])
            first, last = (int(offsets[buffer][each]) for each in (chunk, chunk + int(transfer["count"])))
            return Span(peer, buffer, first, last - first, number, bool(transfer["reduce"]))

        is_local = (schedule.transfers["src"] == rank) | (schedule.transfers["dst"] == rank)
        for number in map(int, np.flatnonzero(is_local)):
            src, dst = (int(schedule.transfers[number][end]) for end in ("src", "dst"))
            level = self.levels[depth[number]]
            if src == dst:
                level.local.append((span(number, dst, "src"), span(number, src, "dst")))
                continue
            peer, end, spans = (dst, "src", level.sends) if src == rank else (src, "dst", level.receives)
            part = span(number, peer, end)
            if part.size:
                spans.append(part)
        #: Elements of the scratch buffer: the maximum over levels of received elements that are to be added.
        added = (sum(span.size for span in level.receives if span.reduce) for level in self.levels)
        self.scratch = max(added, default=0)
        self.sizes = [int(o[-1]) for o in offsets]


class Exchange:
    """A schedule bound to 1-D buffers, which can be run repeatedly; this base class serves one rank alone.

    A subclass moves the data of one `Level` after another with ``_begin``, ``_wait`` (for data from one peer)
    and ``_complete``. For each level ``_sent`` and ``_received`` list the parts of arrays to send and
    receive, each with its `Span`. Data to be added are received in ``scratch`` and added in the schedule's
    order, whatever the timing.
    """

    #: The protocol, of the transport's `Transport.protocols`, that moves the data.
    protocol = "auto"

    def __init__(self, program: Program, buffers: list, scratch, transport: Any):
        if program.levels:  # plan kernels have no levels
            from wavefabric.collectives.structure import refuse_switches

            refuse_switches(program.schedule, f"{transport.name} (signals of p2p can)")
        self._program, self._buffers, self._scratch = program, buffers, scratch
        self._transport = transport
        self._running = False
        # Slice the arrays once: slicing takes as much host time as a launch.
        self._sent = [[(span, span.of(buffers)) for span in level.sends] for level in program.levels]
        self._received = [self._incoming(level) for level in program.levels]
        self._sums = [
            [(span.of(buffers), part) for span, part in received if span.reduce]
            for received in self._received
        ]
        self._local = [
            [(source.of(buffers), target.of(buffers), target.reduce) for source, target in level.local]
            for level in program.levels
        ]

    def start(self) -> None:
        """Start the exchange; the data to send may be results of work already enqueued on the device."""
        if self._running:
            raise RuntimeError("an exchange was started again before it was finished")
        self._running = True
        if self._program.levels:
            self._start_level(0)

    def wait_for(self, peer: int | None = None) -> None:
        """Make later work on the device wait for the data from rank ``peer``, by default from all ranks."""
        if len(self._program.levels) == 1 and self._running:
            self._wait(0, peer)
        else:
            self.finish()

    def arrived(self, peer: int | None = None) -> None:
        """Call `wait_for`, whose former name this is."""
        self.wait_for(peer)

    def finish(self) -> None:
        """Make later work on the device wait until all data have arrived and sent data may be overwritten."""
        if not self._running:
            return
        for number, sums in enumerate(self._sums):
            if number:
                self._start_level(number)
            self._complete(number)
            for target, part in sums:
                target += part
        self._running = False

    def run(self) -> None:
        """Run the whole exchange: `start`, then `finish`."""
        self.start()
        self.finish()

    def check(self) -> None:
        """Raise `LateRank` if another rank is known by now to have timed out."""

    def _start_level(self, number: int) -> None:
        self._begin(number)
        # Copies within the rank run beside those between ranks: transfers of a level are independent.
        for source, target, reduce in self._local[number]:
            if reduce:
                target += source
            else:
                target[...] = source

    def _incoming(self, level: Level) -> list[tuple[Span, Any]]:
        """Return a list of (span, array to receive into) for the receives of ``level``.

        The array is part of a buffer or, for data that are then added, of the scratch array.
        """
        parts, offset = [], 0
        for span in level.receives:
            if span.reduce:
                parts.append((span, self._scratch[offset : offset + span.size]))
                offset += span.size
            else:
                parts.append((span, span.of(self._buffers)))
        return parts

    def _moves(self) -> list[tuple[list, list]]:
        """Return for each level the pair (sends, receives): two lists of (device address, bytes, peer)."""

        def memory(parts) -> list[tuple[int, int, int]]:
            return [(part.data.ptr, part.nbytes, span.peer) for span, part in parts]

        levels = zip(self._sent, self._received, strict=True)
        return [(memory(sent), memory(received)) for sent, received in levels]

    def _begin(self, number: int) -> None: ...

    def _wait(self, number: int, peer: int | None) -> None: ...

    def _complete(self, number: int) -> None: ...


@dataclass(frozen=True)
class RankGroup:
    """Describes the ranks that open a transport together.

    ``comm`` is mpi4py's communicator; ``same_host[r]`` says whether rank r is on the host of this rank.
    """

    comm: Any
    same_host: list[bool]
    control: Control
    device: Device


class SymmetricArray(NamedTuple):
    """An array of the same shape on every rank, into which kernels of all ranks may write; zero at first."""

    #: This rank's array.
    local: Any
    #: Start address of each rank's array as seen by kernels of this rank: (ranks,) uint64, on the device.
    addresses: Any


class Transport:
    """Moves data between ranks; this base class serves a single rank."""

    name = "solo"
    #: Class of the exchanges that `bind` returns.
    exchange: type[Exchange] = Exchange
    #: Protocols with which `bind` and `bind_plan` may run a schedule. p2p has ``"copies"`` (copy engines) and
    #: kernels that run execution plans with ``"signals"`` or ``"packets"`` (`wavefabric.collectives.plans`).
    protocols: tuple[str, ...] = ("auto",)
    #: The protocol that ``"auto"`` stands for, if it is always the same.
    protocol = "auto"
    #: Whether ranks communicate in every `bind`. If not, one rank alone may bind a program, which all ranks
    #: have bound, to other buffers; only one exchange of a program runs at a time.
    talks_in_bind = False

    def __init__(self, device):
        self._device = device

    @classmethod
    def available(cls) -> tuple[bool, str]:
        """Return whether this machine supports the transport and, as text, its library or what is missing."""
        return True, ""

    @classmethod
    def open(cls, group: RankGroup) -> Transport:
        """Open the transport between ranks, which call this together; `InputError` says why it cannot."""
        raise NotImplementedError

    @classmethod
    def automatic(cls, group: RankGroup) -> Transport | None:
        """Open the transport, or return None if ``auto`` should not use it here; all ranks call this."""
        return None

    def allocate(self, shape, dtype) -> Any:
        """Return an uninitialised array that peers may access."""
        return self._device.empty(shape, dtype)

    def address(self, array) -> Hashable | None:
        """Return a value that identifies a contiguous array's memory; None if exchanges cannot use it."""
        return self._device.address(array)

    def bind(self, program: Program, buffers: list, scratch) -> Exchange:
        """Return an exchange that runs ``program`` on ``buffers``; all ranks make this call.

        ``scratch``, for received data that are to be added, has at least ``program.scratch`` elements.
        """
        return self.exchange(program, buffers, scratch, self)

    def bind_plan(
        self, program: Program, buffers: list, protocol: str, blocks: int | None, concurrent: int = 1
    ) -> Exchange:
        """Return an exchange that runs ``program`` on ``buffers`` as one GPU kernel; all ranks call this.

        The kernel runs the schedule's execution plan. It has ``blocks`` blocks of threads, by default as many
        as are fastest if ``concurrent`` exchanges are in progress at once. ``protocol`` is in
        `wavefabric.collectives.plans.plan.PROTOCOLS` and in this transport's `protocols`.
        """
        raise NotImplementedError

    def protocol_for(self, schedule: Schedule, protocol: str, dtype) -> str:
        """Return the protocol for a schedule of elements of ``dtype``, the same on all ranks.

        A transport may replace ``"auto"`` by its own choice, which uses switches if the schedule needs them.
        Any other ``protocol`` is returned unchanged.
        """
        switched = protocol == "auto" and schedule.transfers["switch"].any()
        return "signals" if switched and "signals" in self.protocols else protocol

    def symmetric(self, shape, dtype) -> SymmetricArray:
        """Allocate an array of zeros of this shape on each rank, into which kernels of all ranks may write.

        All ranks make this call. Requires a transport whose `one_sided` is true.
        """
        raise NotImplementedError

    @property
    def one_sided(self) -> bool:
        """Return whether solver kernels write into other ranks' memory and wait for ranks themselves.

        True for p2p if the kernels of all ranks can run at once, unless ``WAVEFABRIC_PROTOCOL`` is copies.
        """
        return False

    def timeout(self, name: str):
        """Return a time limit (`Timeout`) for kernels that wait for other ranks; all ranks call this.

        ``name`` is the operation of all ranks, for error messages. Requires a transport whose `one_sided` is
        true. `InputError` if ranks share a GPU.
        """
        raise NotImplementedError

    def why_no_switch(self) -> str | None:
        """Return why no NVSwitch can multicast and add for these ranks, or None; all ranks call this."""
        return f"{self.name} has no multicasts and sums by a switch (signals of p2p have)"

    def why_refused(self, protocol: str) -> str | None:
        """Return in one line why these ranks cannot use ``protocol``, or None; all ranks call this."""
        return None

    def check(self) -> None:
        """Raise `LateRank` if another rank has timed out in an exchange that is still bound.

        Only past timeouts are reported: call this after the device has done the enqueued work and before the
        data are used. Exchanges that are run again report timeouts themselves.
        """

    def own_collective(self, collective: str, buffers: list, root: int = 0) -> Callable[[], None]:
        """Return a function that runs NCCL's own version of a collective operation; all ranks call this.

        ``buffers`` have the layout of `wavefabric.collectives.conditions.layout`: one buffer, in which the
        operation works in place, or two for all-to-all. The parts of all ranks are equal. `InputError` if the
        transport is not NCCL, or does not support the operation.
        """
        raise InputError(f"transport: {self.name!r} has no collective operations of its own; allowed: nccl")

    def describe(self) -> dict[str, str]:
        """Return facts about the transport for reports."""
        return {}
