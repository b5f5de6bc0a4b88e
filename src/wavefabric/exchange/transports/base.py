"""What all transports share: a schedule made ready for one rank, as levels that run in order.

Each level has sends and receives as spans of flat buffers. Sums are taken in order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wavefabric.device import Device
from wavefabric.errors import InputError
from wavefabric.exchange.control import Control

if TYPE_CHECKING:
    from wavefabric.collectives import Schedule


@dataclass(frozen=True)
class Span:
    """Part of a buffer, in elements, that goes to or comes from a peer.

    Both ends know it by the ``number`` of the transfer in the schedule.
    """

    peer: int
    buffer: int
    first: int
    size: int
    number: int
    reduce: bool = False

    def of(self, buffers: list):
        """The elements themselves."""
        return buffers[self.buffer][self.first : self.first + self.size]


@dataclass
class Level:
    """Transfers that depend on nothing but earlier levels. Receives are in the schedule's order."""

    sends: list[Span] = field(default_factory=list)
    receives: list[Span] = field(default_factory=list)
    #: (from, to) within this rank.
    local: list[tuple[Span, Span]] = field(default_factory=list)


class Program:
    """What one rank does in a schedule. Levels are the same on all ranks: collective calls match."""

    def __init__(self, schedule: Schedule, rank: int):
        from wavefabric.collectives import levels

        self.schedule, self.rank = schedule, rank
        #: Tells messages of this program from others'; a transport that needs it sets it when it first binds.
        self.label: int | None = None
        depth = levels(schedule)
        self.levels = [Level() for _ in range(int(depth.max(initial=-1)) + 1)]
        offsets = [schedule.offsets(b, rank) for b in range(len(schedule.buffers))]

        def span(number: int, peer: int, end: str) -> Span:
            t = schedule.transfers[number]
            buffer, chunk = int(t[f"{end}_buffer"]), int(t[f"{end}_chunk"])
            first, last = (int(offsets[buffer][at]) for at in (chunk, chunk + int(t["count"])))
            return Span(peer, buffer, first, last - first, number, bool(t["reduce"]))

        own = (schedule.transfers["src"] == rank) | (schedule.transfers["dst"] == rank)
        for number in map(int, np.flatnonzero(own)):
            src, dst = (int(schedule.transfers[number][end]) for end in ("src", "dst"))
            level = self.levels[depth[number]]
            if src == dst:
                level.local.append((span(number, dst, "src"), span(number, src, "dst")))
                continue
            peer, end, spans = (dst, "src", level.sends) if src == rank else (src, "dst", level.receives)
            part = span(number, peer, end)
            if part.size:
                spans.append(part)
        #: Elements of scratch: of what arrives to be added, the most in one level.
        added = (sum(span.size for span in level.receives if span.reduce) for level in self.levels)
        self.scratch = max(added, default=0)
        self.sizes = [int(o[-1]) for o in offsets]


class Exchange:
    """A schedule bound to buffers (1-D arrays), to be run many times; within one rank only copies.

    A transport moves one level: ``_begin``, ``_wait`` for what comes from one peer, ``_complete``. For each
    level ``_sent`` and ``_received`` have the parts of arrays that go out and come in, each with its `Span`.
    What is to be added arrives in ``scratch`` and is added in the schedule's order, whatever the timing.
    """

    #: Of its transport's `Transport.protocols`, what moves the data.
    protocol = "auto"

    def __init__(self, program: Program, buffers: list, scratch, transport: Any):
        if program.levels:  # kernels that run plans have none
            from wavefabric.collectives.structure import refuse_switches

            refuse_switches(program.schedule, f"{transport.name} (signals of p2p can)")
        self._program, self._buffers, self._scratch = program, buffers, scratch
        self._transport = transport
        self._running = False
        # Parts of arrays once: cutting them costs a host as much as a launch.
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
        """Begin: what is enqueued on the device so far is in the source buffers."""
        if self._running:
            raise RuntimeError("an exchange was started again before it was finished")
        self._running = True
        if self._program.levels:
            self._start_level(0)

    def arrived(self, peer: int | None = None) -> None:
        """Work enqueued from now on may read all that comes from ``peer``; from all peers by default."""
        if len(self._program.levels) == 1 and self._running:
            self._wait(0, peer)
        else:
            self.finish()

    def finish(self) -> None:
        """Work enqueued from now on may read everything received and overwrite everything sent."""
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
        """Start and finish."""
        self.start()
        self.finish()

    def check(self) -> None:
        """Raise `LateRank` if another rank did not come in time, as far as is known by now."""

    def _start_level(self, number: int) -> None:
        self._begin(number)
        # Copies within the rank run beside those between ranks: transfers of a level are independent.
        for source, target, reduce in self._local[number]:
            if reduce:
                target += source
            else:
                target[...] = source

    def _incoming(self, level: Level) -> list[tuple[Span, Any]]:
        """Where each receive of a level goes: part of a buffer, or of scratch."""
        parts, at = [], 0
        for span in level.receives:
            if span.reduce:
                parts.append((span, self._scratch[at : at + span.size]))
                at += span.size
            else:
                parts.append((span, span.of(self._buffers)))
        return parts

    def _moves(self) -> list[tuple[list, list]]:
        """What goes out and what comes in at each level: address and bytes of device memory, and the peer."""

        def memory(parts) -> list[tuple[int, int, int]]:
            return [(part.data.ptr, part.nbytes, span.peer) for span, part in parts]

        return [(memory(sent), memory(come)) for sent, come in zip(self._sent, self._received, strict=True)]

    def _begin(self, number: int) -> None: ...

    def _wait(self, number: int, peer: int | None) -> None: ...

    def _complete(self, number: int) -> None: ...


@dataclass(frozen=True)
class RankGroup:
    """For whom a transport is opened; ``comm`` is mpi4py's, ``same_host`` says who shares this host."""

    comm: Any
    same_host: list[bool]
    control: Control
    device: Device


class SymmetricArray(NamedTuple):
    """An array of the same shape on every rank, in which kernels of all ranks may store; zero at first."""

    #: That of this rank.
    own: Any
    #: Where each rank's begins, as kernels of this rank see it: (ranks,) uint64, on the device.
    addresses: Any


class Transport:
    """Moves data between ranks; here, for one rank."""

    name = "solo"
    #: What `bind` makes.
    exchange: type[Exchange] = Exchange
    #: What `bind` and `bind_plan` may use to run a schedule. Of p2p: ``"copies"`` by the copy engines, and
    #: kernels that run execution plans with ``"signals"`` or ``"packets"`` (`wavefabric.collectives.plans`).
    protocols: tuple[str, ...] = ("auto",)
    #: The one of them that is meant by ``"auto"``, if it is always the same.
    protocol = "auto"
    #: Whether ranks talk in every `bind`. Otherwise a program that all have bound may be bound to other
    #: buffers by one rank alone; of its exchanges one is run at a time.
    talks_in_bind = False

    def __init__(self, device):
        self._device = device

    @classmethod
    def available(cls) -> tuple[bool, str]:
        """Whether this machine has what it needs, and its library or what is missing, in words."""
        return True, ""

    @classmethod
    def open(cls, group: RankGroup) -> Transport:
        """The transport between these ranks; collective. `InputError` says why it cannot serve them."""
        raise NotImplementedError

    @classmethod
    def automatic(cls, group: RankGroup) -> Transport | None:
        """The same for ``auto``, or None: it does not serve all ranks well."""
        return None

    def allocate(self, shape, dtype) -> Any:
        """An array that peers may reach."""
        return self._device.empty(shape, dtype)

    def address(self, array) -> Hashable | None:
        """What tells the memory of a contiguous array from other memory; None if it cannot be bound."""
        return self._device.address(array)

    def bind(self, program: Program, buffers: list, scratch) -> Exchange:
        """Make ready what repeats; collective. ``scratch`` has at least ``program.scratch`` elements."""
        return self.exchange(program, buffers, scratch, self)

    def bind_plan(
        self, program: Program, buffers: list, protocol: str, blocks: int | None, concurrent: int = 1
    ) -> Exchange:
        """The same as a kernel of so many blocks that runs an execution plan; collective.

        By default as many as are fastest where so many exchanges are under way at once.

        ``protocol`` is of `wavefabric.collectives.plans.plan.PROTOCOLS`; asked only of transports whose
        `protocols` have it.
        """
        raise NotImplementedError

    def protocol_for(self, schedule: Schedule, protocol: str, dtype) -> str:
        """A protocol; instead of ``"auto"``, of multicasts and sums by a switch, the one that has them.

        ``dtype``: of what is moved. The same on all ranks.
        """
        switched = protocol == "auto" and schedule.transfers["switch"].any()
        return "signals" if switched and "signals" in self.protocols else protocol

    def symmetric(self, shape, dtype) -> SymmetricArray:
        """An array of the same shape on every rank, in which kernels of all may store; collective.

        Only where `one_sided` is true.
        """
        raise NotImplementedError

    @property
    def one_sided(self) -> bool:
        """Whether kernels of the solvers are to store in other ranks' memory and wait there themselves.

        So it is with p2p where kernels of all can run at once, unless ``WAVEFABRIC_PROTOCOL`` is copies.
        """
        return False

    def timeout(self, name: str):
        """The `Timeout` of kernels that wait for other ranks in what all do under a name; collective.

        Only where `one_sided` is true. `InputError` if these ranks cannot: they share a GPU.
        """
        raise NotImplementedError

    def why_no_switch(self) -> str | None:
        """Return why no switch multicasts and adds up for these ranks; None if one does. Collective."""
        return f"{self.name} has no multicasts and sums by a switch (signals of p2p have)"

    def why_refused(self, protocol: str) -> str | None:
        """Why one of `protocols` cannot serve these ranks, in one line; None if it can. Collective."""
        return None

    def check(self) -> None:
        """Raise `LateRank` if in an exchange that is still bound another rank did not come in time.

        As far as is known by now: to be called when the device has done what was enqueued, before data are
        used. Exchanges that are run again say so themselves.
        """

    def own_collective(self, collective: str, buffers: list, root: int = 0) -> Callable[[], None]:
        """The transport library's own form of a collective operation, to be run many times; collective.

        Buffers are those of `wavefabric.collectives.conditions.layout`, whole: the operation is in place in
        the one buffer, all-to-all goes from the first to the second. Ranks' parts are equal. `InputError`
        if the transport is not NCCL, or cannot do this.
        """
        raise InputError(f"transport: {self.name!r} has no collective operations of its own; allowed: nccl")

    def describe(self) -> dict[str, str]:
        """Facts for reports."""
        return {}
