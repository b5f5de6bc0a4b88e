"""A communicator that moves nothing, so that work can be timed without its exchanges."""

from typing import Any

import numpy as np

from wavefabric.runtime.exchange.communicator import Communicator
from wavefabric.runtime.exchange.transports.base import SymmetricArray, Transport


class NoExchange:
    """An exchange that moves nothing; of overlaps: nothing is packed or unpacked either."""

    def start(self, *_) -> None:
        pass

    def wait_for(self, peer: int | None = None) -> None:
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
