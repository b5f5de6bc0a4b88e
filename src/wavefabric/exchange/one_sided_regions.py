"""Boxes between ranks whose kernels store in each other's memory: packing is sending, unpacking waits."""

from __future__ import annotations

from typing import Any

import numpy as np

from wavefabric.exchange.communicator import Communicator
from wavefabric.exchange.halos_transposes import Message, RegionExchange
from wavefabric.exchange.pack_cuda import ROUTE


class OneSidedRegionExchange(RegionExchange):
    """`RegionExchange` of a one-sided communicator, where ranks that send to one another also receive.

    Messages go to one of two staging buffers by turns. No acknowledgement is sent: a receiver unpacks the
    message of two calls ago before it sends its own of the last call, and that one has been waited for.
    """

    def _connect(self, comm: Communicator, messages: list[Message], elements: list[int], dtype) -> None:
        device = comm.device
        # Elements and number of messages for each receiver; of each message, those before it.
        sizes, counts, before = [0] * comm.size, [0] * comm.size, []
        for message, size in zip(messages, elements, strict=True):
            before.append((sizes[message.dst], counts[message.dst]))
            sizes[message.dst] += size
            counts[message.dst] += 1
        most = max(1, *sizes)
        self._timeout = comm.timeout("boxes of fields")
        staging = comm.symmetric((2, most), dtype)
        flags = comm.symmetric((max(1, *counts),), np.uint32)
        ends = device.to_host(staging.addresses), device.to_host(flags.addresses)

        def routes(here: str, there: str) -> tuple[Any, Any]:
            own = [(m, *b) for m, b in zip(messages, before, strict=True) if getattr(m, here) == comm.rank]
            counters = device.zeros((max(1, len(own)), 2), np.uint32)
            table = np.zeros(max(1, len(own)), ROUTE)
            for row, (message, at, number) in enumerate(own):
                counter = device.address(counters) + 8 * row
                table[row] = (
                    int(ends[0][message.dst]) + at * dtype.itemsize,
                    most,
                    int(ends[1][message.dst]) + 4 * number if self._timeout.waits else 0,
                    counter,
                    counter + 4,
                    getattr(message, there),
                )
            return device.asarray(table.view(np.uint8)), counters

        self._to, sent = routes("src", "dst")
        self._from, taken = routes("dst", "src")
        self._in_progress = False
        # Kernels know addresses alone.
        self._kept = staging, flags, sent, taken
        device.synchronize()  # calls may be in other streams

    def _start(self, arrays: list[Any]) -> None:
        if self._in_progress:
            raise RuntimeError("an exchange was started again before it was finished")
        self._in_progress = True
        self._kernels.put(self._to, arrays, self._out)

    def _finish(self, arrays: list[Any], weights) -> None:
        self._in_progress = False
        self._kernels.take(self._from, arrays, self._in, weights, self._timeout)


def region_exchange(comm: Communicator, messages: list[Message], *shape, **how) -> RegionExchange:
    """A `RegionExchange`, by kernels alone where the communicator's kernels store in other ranks' memory."""
    pairs = {(m.src, m.dst) for m in messages}
    mutual = all((b, a) in pairs for a, b in pairs)
    return (OneSidedRegionExchange if comm.one_sided and mutual else RegionExchange)(
        comm, messages, *shape, **how
    )
