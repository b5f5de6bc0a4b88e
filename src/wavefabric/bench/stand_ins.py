"""Communicators that tell costs apart: one that moves nothing, and one whose ranks sit elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wavefabric.collectives import Schedule
from wavefabric.exchange import Communicator


class _Nothing:
    """An exchange that moves nothing."""

    def start(self) -> None:
        pass

    def arrived(self, peer: int) -> None:
        pass

    def finish(self) -> None:
        pass


class _Silent:
    """A transport whose exchanges move nothing and cost nothing."""

    def __init__(self, device, name: str):
        self._device, self.name = device, name

    def allocate(self, shape, dtype):
        return self._device.zeros(shape, dtype)

    def bind(self, program, buffers, scratch) -> Any:
        return _Nothing()

    def describe(self) -> dict:
        return {}


def mute(comm: Communicator) -> Communicator:
    """The same ranks and devices, but nothing is sent: all work, no exchange. Answers are wrong."""
    return Communicator(comm.control, comm.device, _Silent(comm.device, comm.transport))


class Placed(Communicator):
    """The same processes under other numbers: rank r of this communicator is ``places[r]`` of the given one.

    What a placement changes, without starting anew: which device, and so which links, a rank has.

    Parameters
    ----------
    comm : Communicator
    places : sequence of int
        A permutation of its ranks.
    """

    def __init__(self, comm: Communicator, places):
        self._places = [int(place) for place in places]
        control: Any = _PlacedControl(comm.control, self._places)
        super().__init__(control, comm.device, comm._transport)
        self._given = comm

    def bind(self, schedule: Schedule, buffers: dict[str, Any]):
        return self._given.bind(renumbered(schedule, self._places), buffers)


class _PlacedControl:
    def __init__(self, control, places: list[int]):
        self._control, self._places = control, places
        self.rank, self.size = places.index(control.rank), control.size

    def bcast(self, obj, root=0):
        return self._control.bcast(obj, self._places[root])

    def gather(self, obj, root=0):
        found = self._control.gather(obj, self._places[root])
        return None if found is None else [found[place] for place in self._places]

    def all_gather(self, obj):
        found = self._control.all_gather(obj)
        return [found[place] for place in self._places]

    def send_array(self, peer, array, tag=0):
        self._control.send_array(self._places[peer], array, tag)

    def recv_array(self, peer, array, tag=0):
        self._control.recv_array(self._places[peer], array, tag)

    def __getattr__(self, name: str):
        return getattr(self._control, name)


def renumbered(schedule: Schedule, places: list[int]) -> Schedule:
    """A schedule in which rank ``places[r]`` does what rank r did."""
    if places == list(range(schedule.ranks)):
        return schedule
    transfers, sizes = schedule.transfers.copy(), []
    for end in ("src", "dst"):
        transfers[end] = [places[rank] for rank in transfers[end]]
    for given in schedule.sizes:
        moved = given.copy()
        moved[places] = given
        sizes.append(moved)

    def held(holdings):
        return {
            (places[rank], buffer, chunk): (item, sum(1 << p for r, p in enumerate(places) if mask >> r & 1))
            for (rank, buffer, chunk), (item, mask) in holdings.items()
        }

    # Another name: a transport may know a collective by its name, whose chunks are in the order of ranks.
    return replace(
        schedule,
        name=f"{schedule.name}, renumbered",
        sizes=tuple(sizes),
        transfers=transfers,
        pre=held(schedule.pre),
        post=held(schedule.post),
    )
