"""A communicator whose ranks have other numbers, so that placements can be compared in one job."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from wavefabric.collectives import Schedule
from wavefabric.runtime.exchange.communicator import Communicator
from wavefabric.runtime.exchange.transports.base import Program, SymmetricArray


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
