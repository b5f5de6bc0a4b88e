"""Exchange boxes of 3-D fields between ranks: halos, and transposes of distributed transforms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from wavefabric.runtime.exchange.communicator import Communicator
from wavefabric.runtime.exchange.pack_cuda import ROUTE

if TYPE_CHECKING:
    from wavefabric.collectives import Schedule

Box = tuple[slice, slice, slice]

#: Maximum number of exchanges in progress at once: the components of a vector field, forward and back.
_CONCURRENT = 8


@dataclass(frozen=True)
class Message:
    """A message that copies a box of rank ``src``'s array to a box of rank ``dst``'s array.

    ``src_box`` and ``dst_box`` are (z, y, x) slices of equal shape.
    """

    src: int
    dst: int
    src_box: Box
    dst_box: Box

    @property
    def points(self) -> int:
        """Return the number of grid points in the box."""
        return math.prod(_shape(self.src_box))

    def reversed(self) -> Message:
        """Return the message that moves the box back, from ``dst`` to ``src``."""
        return Message(self.dst, self.src, self.dst_box, self.src_box)

    def __post_init__(self):
        if _shape(self.src_box) != _shape(self.dst_box):
            raise ValueError(f"boxes of {_shape(self.src_box)} and {_shape(self.dst_box)} points differ")


def _shape(box: Box) -> tuple[int, ...]:
    return tuple(s.stop - s.start for s in box)


def message_schedule(ranks: int, messages: list[Message], fields: int = 1) -> Schedule:
    """Return a communication schedule of those ``messages`` that go from one rank to another.

    A message carries its box of each of ``fields`` arrays.
    """
    from wavefabric.collectives import point_to_point

    ends = [(m.src, m.dst, fields * m.points) for m in messages if m.src != m.dst]
    return point_to_point("regions", ranks, ends)


class RegionExchange:
    """Exchanges boxes of 3-D arrays between ranks; one kernel packs all messages of a rank, one unpacks them.

    ``messages`` are the messages of all ranks, the same list on every rank. ``send_shape`` and ``recv_shape``
    are the shapes (Nz, Ny, Nx) of this rank's arrays; a call moves the boxes of ``fields`` arrays. Boxes that
    a rank receives must not overlap. Boxes that a rank copies within one array must not overlap their
    targets.
    """

    def __init__(
        self, comm: Communicator, messages: list[Message], send_shape, recv_shape, dtype, fields: int = 1
    ):
        self._kernels = comm.device.kernels("wavefabric.runtime.exchange.pack")
        self._shapes, self.fields = (tuple(send_shape), tuple(recv_shape)), fields
        rank = comm.rank
        remote = [m for m in messages if m.src != m.dst]
        local = [m for m in messages if m.src == m.dst == rank]
        out = [m for m in remote if m.src == rank]
        boxes = [m.src_box for m in out], [m.dst_box for m in remote if m.dst == rank]
        boxes += [m.src_box for m in local], [m.dst_box for m in local]
        tables = (self._kernels.make_table(comm.device, each, fields) for each in boxes)
        self._out, self._in, self._local_from, self._local_to = tables
        self._has_local = bool(local)
        #: Bytes that this rank sends per exchange.
        self.bytes = fields * sum(m.points for m in out) * np.dtype(dtype).itemsize
        self._sources: list = []
        self._connect(comm, remote, np.dtype(dtype))

    def _connect(self, comm: Communicator, messages: list[Message], dtype) -> None:
        """Allocate send and receive buffers and bind the exchange of the messages between different ranks."""
        schedule = message_schedule(comm.size, messages, self.fields)
        sizes = [schedule.sizes[b][comm.rank].sum() for b in range(2)]
        self._send, self._receive = (comm.allocate((max(1, int(size)),), dtype) for size in sizes)
        # Several exchanges run at once: if each is a kernel, each gets part of the GPU.
        buffers = {"send": self._send, "recv": self._receive}
        self.exchange = comm.bind(schedule, buffers, concurrent=_CONCURRENT)

    def start(self, arrays: list[Any]) -> None:
        """Pack the boxes of ``arrays`` and start to send them to other ranks.

        The arrays may then be changed, but not before `finish` if the rank also sends boxes to itself.
        """
        self._check(arrays, 0)
        self._start(arrays)
        self._sources = arrays if self._has_local else []

    def finish(self, arrays: list[Any], weights=None) -> None:
        """Wait for the boxes of other ranks, multiply them by ``weights`` and write them into ``arrays``.

        ``weights`` are three real vectors w: the value at point (z, y, x) is multiplied by w[0][z] w[1][y]
        w[2][x]. None means no factor.
        """
        self._check(arrays, 1)
        if self._has_local:
            self._kernels.copy_boxes(arrays, self._sources, self._local_to, self._local_from, weights)
        self._finish(arrays, weights)
        self._sources = []

    def _start(self, arrays: list[Any]) -> None:
        self._kernels.pack(self._send, arrays, self._out)
        self.exchange.start()

    def _finish(self, arrays: list[Any], weights) -> None:
        self.exchange.finish()
        self._kernels.unpack(self._receive, arrays, self._in, weights)

    def run(self, sources: list[Any], targets: list[Any]) -> None:
        """Send boxes of the arrays ``sources``, and write the boxes received into ``targets``."""
        self.start(sources)
        self.finish(targets)

    def _check(self, arrays, side: int) -> None:
        shapes, allowed = [tuple(a.shape) for a in arrays], [self._shapes[side]] * self.fields
        if shapes != allowed:
            raise ValueError(f"arrays of shapes {shapes}; allowed: {allowed}")


class RegionSum(RegionExchange):
    """Adds the boxes that come from other ranks to one field, in the order of messages; boxes may overlap."""

    def _connect(self, comm: Communicator, messages: list[Message], dtype) -> None:
        super()._connect(comm, messages, dtype)
        self._boxes = [m.dst_box for m in messages if m.dst == comm.rank]

    def _finish(self, arrays: list[Any], weights) -> None:
        self.exchange.finish()
        first = 0
        for box in self._boxes:
            last = first + math.prod(_shape(box))
            arrays[0][box] += self._receive[first:last].reshape(_shape(box))
            first = last


class OneSidedRegionExchange(RegionExchange):
    """A `RegionExchange` whose kernels write boxes directly into other ranks' memory.

    If rank a sends to b, b must also send to a. A receiver has two staging buffers, which messages use in
    turn. So no acknowledgement is needed: before a sender writes to a buffer again, it has received the other
    rank's message of the call in between, which that rank sent after it had emptied the buffer.
    """

    def _connect(self, comm: Communicator, messages: list[Message], dtype) -> None:
        device = comm.device
        # Per receiver: elements and number of messages. Per message: the counts of earlier messages.
        sizes, counts, before = [0] * comm.size, [0] * comm.size, []
        for message in messages:
            before.append((sizes[message.dst], counts[message.dst]))
            sizes[message.dst] += self.fields * message.points
            counts[message.dst] += 1
        most = max(1, *sizes)
        self._timeout = comm.timeout("boxes of fields")
        staging = comm.symmetric((2, most), dtype)
        flags = comm.symmetric((max(1, *counts),), np.uint32)
        ends = device.to_host(staging.addresses), device.to_host(flags.addresses)

        def routes(end: str, peer_end: str) -> tuple[Any, Any]:
            local = [(m, *b) for m, b in zip(messages, before, strict=True) if getattr(m, end) == comm.rank]
            counters = device.zeros((max(1, len(local)), 2), np.uint32)
            table = np.zeros(max(1, len(local)), ROUTE)
            for row, (message, offset, number) in enumerate(local):
                counter = device.address(counters) + 8 * row
                table[row] = (
                    int(ends[0][message.dst]) + offset * dtype.itemsize,
                    most,
                    int(ends[1][message.dst]) + 4 * number if self._timeout.waits else 0,
                    counter,
                    counter + 4,
                    getattr(message, peer_end),
                )
            return device.asarray(table.view(np.uint8)), counters

        self._to, sent = routes("src", "dst")
        self._from, received = routes("dst", "src")
        self._in_progress = False
        if comm.step_recorder is not None:
            schedule = message_schedule(comm.size, messages, self.fields)
            comm.step_recorder.note_starts(self, "_start", schedule, dtype)
        # Kernels know only addresses: keep the arrays alive.
        self._arrays = staging, flags, sent, received
        device.synchronize()  # calls may be on other streams

    def _start(self, arrays: list[Any]) -> None:
        if self._in_progress:
            raise RuntimeError("an exchange was started again before it was finished")
        self._in_progress = True
        self._kernels.put(self._to, arrays, self._out)

    def _finish(self, arrays: list[Any], weights) -> None:
        self._in_progress = False
        self._kernels.take(self._from, arrays, self._in, weights, self._timeout)


def region_exchange(comm: Communicator, messages: list[Message], *shape, **options) -> RegionExchange:
    """Return an exchange of boxes between ranks, which writes directly into other ranks' memory if possible.

    A `OneSidedRegionExchange` requires a communicator whose ``one_sided`` is true, and between any two ranks
    messages in both directions or none. Otherwise the result is a `RegionExchange`.
    """
    pairs = {(m.src, m.dst) for m in messages}
    mutual = all((b, a) in pairs for a, b in pairs)
    kind = OneSidedRegionExchange if comm.one_sided and mutual else RegionExchange
    return kind(comm, messages, *shape, **options)
