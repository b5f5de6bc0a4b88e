"""Communicators that separate costs: one that moves nothing, and one whose ranks are permuted."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from wavefabric.collectives import Schedule
from wavefabric.exchange.communicator import Communicator
from wavefabric.exchange.program import Program
from wavefabric.exchange.transports.base import SymmetricArray, Transport


class NoExchange:
    """An exchange that moves nothing; of overlaps: nothing is packed or unpacked either."""

    def start(self, *_) -> None:
        pass

    def arrived(self, peer: int | None = None) -> None:
        pass

    def finish(self, *_) -> None:
        pass


class _NoTransport(Transport):
    """A transport whose exchanges move nothing and cost nothing, in place of another."""

    def __init__(self, device, transport: Transport, ranks: int, one_sided: bool):
        super().__init__(device)
        self.name, self.protocol = transport.name, transport.protocol
        self._transport, self._ranks, self._one_sided = transport, ranks, one_sided

    def allocate(self, shape, dtype):
        return self._device.zeros(shape, dtype)

    def bind(self, program, buffers, scratch) -> Any:
        return NoExchange()

    @property
    def one_sided(self) -> bool:
        return self._one_sided

    def symmetric(self, shape, dtype) -> SymmetricArray:
        own = self.allocate(shape, dtype)
        addresses = np.full(self._ranks, self._device.address(own), np.uint64)
        return SymmetricArray(own, self._device.asarray(addresses))

    def timeout(self, name: str):
        result = self._transport.timeout(name)
        result.waits = False
        return result


def without_transfers(comm: Communicator, one_sided: bool = False) -> Communicator:
    """The same ranks and devices, but nothing is sent: all work, no exchange. Results are wrong.

    ``one_sided``: with the kernels that store in other ranks' memory, which then do not.
    """
    transport = _NoTransport(comm.device, comm._transport, comm.size, one_sided)
    return Communicator(comm.control, comm.device, transport)


class PermutedCommunicator(Communicator):
    """The same processes under other numbers: rank r is ``order[r]`` of the given communicator.

    So a placement is changed without starting anew: which device, and so which links, a rank has.
    """

    def __init__(self, comm: Communicator, order: Sequence[int]):
        self._order = [int(rank) for rank in order]
        control: Any = _PermutedControl(comm.control, self._order)
        super().__init__(control, comm.device, comm._transport)
        self._original = comm

    def program(self, schedule: Schedule) -> Program:
        return self._original.program(permuted(schedule, self._order))

    def symmetric(self, shape, dtype) -> SymmetricArray:
        own, addresses = self._original.symmetric(shape, dtype)
        return SymmetricArray(own, addresses[self.device.asarray(np.array(self._order))])


class _PermutedControl:
    def __init__(self, control, order: list[int]):
        self._control, self._order = control, order
        self.rank, self.size = order.index(control.rank), control.size

    def bcast(self, obj, root=0):
        return self._control.bcast(obj, self._order[root])

    def gather(self, obj, root=0):
        gathered = self.all_gather(obj)
        return gathered if self.rank == root else None

    def all_gather(self, obj):
        gathered = self._control.all_gather(obj)
        return [gathered[rank] for rank in self._order]

    def send_array(self, peer, array, tag=0):
        self._control.send_array(self._order[peer], array, tag)

    def recv_array(self, peer, array, tag=0):
        self._control.recv_array(self._order[peer], array, tag)

    def __getattr__(self, name: str):
        return getattr(self._control, name)


def permuted(schedule: Schedule, order: list[int]) -> Schedule:
    """A schedule in which rank ``order[r]`` does what rank r did."""
    if order == list(range(schedule.ranks)):
        return schedule
    positions, transfers = np.array(order), schedule.transfers.copy()
    for end in ("src", "dst"):
        transfers[end] = positions[transfers[end]]

    def holdings(conditions):
        return {
            (order[rank], buffer, chunk): (item, sum(1 << p for r, p in enumerate(order) if mask >> r & 1))
            for (rank, buffer, chunk), (item, mask) in conditions.items()
        }

    # Another name: a transport may know a collective by its name, whose chunks are in the order of ranks.
    return replace(
        schedule,
        name=f"{schedule.name}, renumbered",
        sizes=tuple(sizes[np.argsort(positions)] for sizes in schedule.sizes),
        transfers=transfers,
        pre=holdings(schedule.pre),
        post=holdings(schedule.post),
    )
