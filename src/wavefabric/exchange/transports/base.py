"""What all transports share: levels of a program run in order, and sums are taken in order."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

from wavefabric.device import Device
from wavefabric.errors import InputError
from wavefabric.exchange.control import Control
from wavefabric.exchange.program import Level, Program, Span


class Exchange:
    """A schedule bound to buffers (1-D arrays), to be run many times; within one rank only copies.

    A transport moves one level: ``_begin``, ``_wait`` for what comes from one peer, ``_complete``. What is to
    be added arrives in ``scratch`` and is added in the schedule's order, so that sums do not depend on
    arrival.
    """

    def __init__(self, program: Program, buffers: list, scratch):
        self._program, self._buffers, self._scratch = program, buffers, scratch
        self._running = False
        # Parts of arrays once: cutting them costs a host as much as a launch.
        self._sums = [
            [(span.of(buffers), part) for span, part in self._incoming(level) if span.reduce]
            for level in program.levels
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

        def places(parts) -> list[tuple[int, int, int]]:
            return [(part.data.ptr, part.nbytes, span.peer) for span, part in parts]

        return [
            (places((s, s.of(self._buffers)) for s in level.sends), places(self._incoming(level)))
            for level in self._program.levels
        ]

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
    #: Ways of `bind` and `bind_plan` to run a schedule.
    protocols: tuple[str, ...] = ("auto",)
    #: The one of them that is meant by ``"auto"``.
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

    def place(self, array) -> Hashable | None:
        """What tells the memory of a contiguous array of the device from other memory, if it can be bound.

        None if it cannot: it must be copied to an array from `allocate`.
        """
        return self._device.address(array)

    def bind(self, program: Program, buffers: list, scratch) -> Exchange:
        """Make ready what repeats; collective. ``scratch`` has at least ``program.scratch`` elements."""
        return Exchange(program, buffers, scratch)

    def bind_plan(self, program: Program, buffers: list, protocol: str, blocks: int | None) -> Exchange:
        """The same as a kernel of so many blocks that runs an execution plan; collective.

        ``protocol`` is of `wavefabric.collectives.plans.plan.PROTOCOLS`; asked only of transports whose
        `protocols` have it.
        """
        raise NotImplementedError

    def symmetric(self, shape, dtype) -> SymmetricArray:
        """An array of the same shape on all ranks; collective, asked where `one_sided` is true."""
        raise NotImplementedError

    @property
    def one_sided(self) -> bool:
        """Whether kernels are to store in other ranks' memory and wait for them, see `timeout`."""
        return False

    def timeout(self, name: str):
        """How long kernels that wait for other ranks do so; `InputError` if these ranks cannot have them.

        Collective; asked where `one_sided` is true.
        """
        raise NotImplementedError

    def why_refused(self, protocol: str) -> str | None:
        """Why one of `protocols` cannot serve these ranks, in one line; None if it can. Collective."""
        return None

    def check(self) -> None:
        """`Exchange.check` of all that are bound."""

    def own_collective(self, collective: str, buffers: list, root: int) -> Callable[[], None]:
        """The library's own operation, see `wavefabric.exchange.Communicator.own_collective`."""
        raise InputError(f"transport: {self.name!r} has no collective operations of its own; allowed: nccl")

    def describe(self) -> dict[str, str]:
        """Facts for reports."""
        return {}
