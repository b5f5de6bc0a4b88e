"""Boxes between ranks whose kernels store in each other's memory: packing is sending, unpacking waits."""

from __future__ import annotations

from typing import Any

import numpy as np

from wavefabric.exchange.communicator import Communicator
from wavefabric.exchange.halos_transposes import Message, RegionExchange
from wavefabric.exchange.pack_cuda import ROUTE


class OneSidedRegionExchange(RegionExchange):
    """`RegionExchange` of a one-sided communicator, where ranks that send to one another also receive.

    What is sent in a call goes to one of two places by turns. That of a call is free: its receiver took what
    was there two calls ago before it sent its own message of the last call, which has been waited for.
    """

    def _connect(self, comm: Communicator, messages: list[Message], elements: list[int], dtype) -> None:
        device = comm.device
        incoming = [[k for k, m in enumerate(messages) if m.dst == r] for r in range(comm.size)]
        # Where a message lies among those of its receiver, and its number there.
        place: dict[int, tuple[int, int]] = {}
        for numbers in incoming:
            ends = np.cumsum([0, *(elements[k] for k in numbers)]).tolist()
            place |= {k: (at, n) for n, (k, at) in enumerate(zip(numbers, ends, strict=False))}
        most = max([1, *(sum(elements[k] for k in numbers) for numbers in incoming)])
        self._timeout = comm.timeout("boxes of fields")
        staging = comm.symmetric((2, most), dtype)
        flags = comm.symmetric((max([1, *map(len, incoming)]),), np.uint32)
        ends = device.to_host(staging.addresses), device.to_host(flags.addresses)

        def routes(numbers: list[int], here: str, there: str) -> tuple[Any, Any]:
            counters = device.zeros((max(1, len(numbers)), 2), np.uint32)
            table = np.zeros(max(1, len(numbers)), ROUTE)
            for row, k in enumerate(numbers):
                receiver, (at, number) = messages[k].dst, place[k]
                assert getattr(messages[k], here) == comm.rank
                counter = device.address(counters) + 8 * row
                table[row] = (
                    int(ends[0][receiver]) + at * dtype.itemsize,
                    most,
                    int(ends[1][receiver]) + 4 * number if self._timeout.waits else 0,
                    counter,
                    counter + 4,
                    getattr(messages[k], there),
                )
            return device.asarray(table.view(np.uint8)), counters

        outgoing = [k for k, m in enumerate(messages) if m.src == comm.rank]
        self._to, sent = routes(outgoing, "src", "dst")
        self._from, taken = routes(incoming[comm.rank], "dst", "src")
        self._under_way = False
        # Kernels know addresses alone.
        self._kept = staging, flags, sent, taken
        device.synchronize()  # calls may be in other streams

    def _start(self, arrays: list[Any]) -> None:
        if self._under_way:
            raise RuntimeError("an exchange was started again before it was finished")
        self._under_way = True
        self._kernels.put(self._to, arrays, self._out)

    def _finish(self, arrays: list[Any], weights) -> None:
        self._under_way = False
        self._kernels.take(self._from, arrays, self._in, weights, self._timeout)


def region_exchange(comm: Communicator, messages: list[Message], *shape, **how) -> RegionExchange:
    """A `RegionExchange`, by kernels alone where the communicator's kernels store in other ranks' memory."""
    pairs = {(m.src, m.dst) for m in messages}
    mutual = all((b, a) in pairs for a, b in pairs)
    return (OneSidedRegionExchange if comm.one_sided and mutual else RegionExchange)(
        comm, messages, *shape, **how
    )
