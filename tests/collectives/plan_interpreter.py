"""A plan run on the CPU, one block of one rank at a time, in any order that its waits allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from wavefabric.collectives.plans.moves import STAGING, Address, Move
from wavefabric.collectives.plans.order import Signal, Wait
from wavefabric.collectives.plans.plan import ExecutionPlan
from wavefabric.collectives.structure import ScheduleError

#: What a block waits for before it goes on.
_Condition = Callable[[], bool]


def slice_of(size: int, block: int, blocks: int, unit: int) -> tuple[int, int]:
    """First and last + 1 of the elements of a piece that a block has: whole units but for the last."""
    units = -(-size // unit)
    first, last = (min(size, units * b // blocks * unit) for b in (block, block + 1))
    return first, last


class Interpreter:
    """The memory of all ranks, and their kernels; the reference for `exchange/transports/plan.cu`.

    Parameters
    ----------
    plan : ExecutionPlan
    buffers : sequence of sequences of arrays
        For each rank one a buffer of the schedule, shape (elements,), all of one dtype.
    blocks : int
        Of each kernel.
    unit : int
        Elements that slices are whole numbers of.
    """

    def __init__(
        self, plan: ExecutionPlan, buffers: Sequence[Sequence[np.ndarray]], blocks: int = 1, unit: int = 4
    ):
        self._plan, self._buffers, self._blocks, self._unit = plan, buffers, blocks, unit
        dtype = buffers[0][0].dtype
        slots = range(plan.slots)
        self._staging = [
            [np.zeros(staging_buffer.size, dtype) for _ in slots] for staging_buffer in plan.staging
        ]
        #: Of packets: the call that each element belongs to.
        self._flags = [[np.full(staging_buffer.size, -1) for _ in slots] for staging_buffer in plan.staging]
        self._counters: dict[tuple[int, int, int], int] = {}

    def run(
        self, choose: Callable[[int], int], calls: int = 1, before: Callable[[int, int], None] | None = None
    ):
        """Let all ranks make so many calls; nothing but their own waits keeps them together.

        ``choose(n)`` picks one of n blocks that could go on; ``before(rank, call)`` is what the rank's caller
        does before a call. `ScheduleError` if none can go on.
        """
        waiting = {rank: self._calls(rank, calls, before) for rank in range(self._plan.schedule.ranks)}
        conditions: dict[int, list] = {rank: next(kernels) for rank, kernels in waiting.items()}
        while waiting:
            ready = [
                (rank, block)
                for rank, blocks in conditions.items()
                for block, (_, go) in enumerate(blocks)
                if go()
            ]
            if not ready:
                raise ScheduleError(f"{self._plan.schedule.name}: ranks {sorted(waiting)} wait for ever")
            rank, block = ready[choose(len(ready))]
            kernel, _ = conditions[rank][block]
            condition = next(kernel, None)
            if condition is not None:
                conditions[rank][block] = kernel, condition
                continue
            del conditions[rank][block]
            if not conditions[rank]:  # the kernel has ended: the next call
                conditions[rank] = next(waiting[rank], [])
                if not conditions[rank]:
                    del waiting[rank], conditions[rank]

    def _calls(self, rank: int, calls: int, before) -> Iterator[list]:
        for call in range(calls):
            if before is not None:
                before(rank, call)
            yield [(self._kernel(rank, block, call), lambda: True) for block in range(self._blocks)]

    def _kernel(self, rank: int, block: int, call: int) -> Iterator[_Condition]:
        """One block: it hands over before each instruction, and within moves."""
        for each in self._plan.instructions[rank]:
            if isinstance(each, Move):
                yield from self._move(each, block, call)
            elif isinstance(each, Signal):
                for peer in each.to:
                    yield lambda: True
                    key = rank, peer, block
                    self._counters[key] = self._counters.get(key, 0) + 1
            elif isinstance(each, Wait):
                for peer, number in each.signals:
                    value = call * self._plan.signals[peer, rank] + number
                    yield lambda key=(peer, rank, block), value=value: self._counters.get(key, 0) >= value

    def _move(self, move: Move, block: int, call: int) -> Iterator[_Condition]:
        first, last = slice_of(move.size, block, self._blocks, self._unit)
        for start in range(first, last, self._unit):
            part = slice(start, min(start + self._unit, last))
            flags = [
                self._part(self._flags, address, part, call)
                for address in move.sources
                if self._flagged(address)
            ]
            yield lambda flags=flags: all((flag == call).all() for flag in flags)
            total = self._of(move.sources[0], part, call).copy()
            for address in move.sources[1:]:
                total += self._of(address, part, call)
            for address in move.targets:
                yield lambda: True
                self._of(address, part, call)[...] = total
                if self._flagged(address):
                    self._part(self._flags, address, part, call)[...] = call

    def _flagged(self, address: Address) -> bool:
        return self._plan.packets and address.buffer == STAGING

    def _part(self, arrays, address: Address, part: slice, call: int) -> np.ndarray:
        return arrays[-1 - address.key][call % self._plan.slots][part]

    def _of(self, address: Address, part: slice, call: int) -> np.ndarray:
        if address.buffer == STAGING:
            return self._part(self._staging, address, part, call)
        whole = self._buffers[address.rank][address.buffer]
        return whole[address.first + part.start : address.first + part.stop]
