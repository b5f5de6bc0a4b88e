"""Encode one rank's part of a plan for `plan.cu`: instructions, operand addresses, signal counters."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.collectives.plans.moves import STAGING, Address, Move
from wavefabric.collectives.plans.order import Signal, Wait
from wavefabric.collectives.plans.plan import ExecutionPlan, compile_plan
from wavefabric.collectives.schedule import Schedule
from wavefabric.runtime.device import bfloat16

#: Maximum number of blocks of a kernel; each block has its own counters.
MOST_BLOCKS = 128
#: Bytes of shared memory of a block: a program that fits is copied there.
SHARED = 48 * 1024

INSTRUCTION = np.dtype(
    [(name, np.int32) for name in ("kind", "first")]
    + [(name, np.uint16) for name in ("sources", "targets", "packed_sources", "packed_targets")]
    + [("size", np.int64)]
)
OPERAND = np.dtype([("at", np.uint64), ("stride", np.int64), ("sender", np.int64)])
MARK = np.dtype([("counters", np.uint64), ("each", np.uint32), ("number", np.uint32), ("rank", np.int64)])
_MOVE, _SIGNAL, _WAIT, _BARRIER, _SWITCHED = range(5)

#: Element types that can be summed: kind and bytes → type in C, numbers per element.
_SUMS = {
    "f2": ("float16", 1), "f4": ("float", 1), "f8": ("double", 1), "c8": ("float", 2), "c16": ("double", 2),
    "i4": ("int", 1), "i8": ("long long", 1), "u4": ("unsigned", 1), "u8": ("unsigned long long", 1),
    bfloat16.NAME: ("bfloat16", 1),
}  # fmt: skip
#: Types for elements that are only copied, by bytes per element.
_COPIES = {
    1: ("unsigned char", 1), 2: ("unsigned short", 1), 4: ("int", 1), 8: ("long long", 1),
    16: ("long long", 2),
}  # fmt: skip


def known_type(dtype, sums: bool) -> tuple[str, int] | None:
    """Return the C type for elements of ``dtype`` and the numbers per element; None if there is no type.

    For example complex64 is two floats. ``sums`` says whether elements are added, not only copied.
    """
    dtype = np.dtype(dtype)
    if not sums:
        return _COPIES.get(dtype.itemsize)
    return _SUMS.get(dtype.name if dtype.name == bfloat16.NAME else dtype.str[1:]) if dtype.isnative else None


def element_type(dtype, sums: bool) -> tuple[str, int]:
    """Return the C type for elements of ``dtype``, and the numbers per element; `InputError` without one."""
    if (known := known_type(dtype, sums)) is not None:
        return known
    names = (each if each == bfloat16.NAME else np.dtype(each).name for each in _SUMS)
    allowed = f" for sums: {', '.join(names)}" if sums else ": elements of 1, 2, 4, 8 or 16 bytes"
    raise InputError(f"dtype: {np.dtype(dtype)} given; allowed{allowed}")


def has_sums(plan: ExecutionPlan) -> bool:
    """Return whether the plan contains any sum."""
    return any(len(move.sources) > 1 for move in plan.moves)


def check_switched(plan: ExecutionPlan, dtype) -> bool:
    """Return whether a plan uses switches; `InputError` if multicast memory cannot do what the plan asks.

    Multicast memory has the same layout on all ranks; switches add and write words of 4 bytes (8 for larger
    numbers).
    """
    if not any(move.switched for move in plan.moves):
        return False
    fault, ranks = "", set(range(plan.schedule.ranks))
    itemsize = np.dtype(dtype).itemsize
    word = 8 if itemsize // element_type(dtype, has_sums(plan))[1] > 4 else 4
    for move in plan.moves:
        ends = (move.sources, move.summed), (move.targets, move.multicast)
        for addresses in (addresses for addresses, switched in ends if switched):
            if {a.rank for a in addresses} != ranks or len({(a.buffer, a.first) for a in addresses}) > 1:
                fault = "operations of a switch on some ranks, or at several positions"
        if any(a.rank != move.rank for a in move.targets) and not move.multicast:
            fault = "transfers between ranks beside operations of a switch"
        sizes = {move.size, *(a.first for a in (*move.sources, *move.targets))}
        if move.switched and any(size * itemsize % word for size in sizes):
            fault = f"parts of {np.dtype(dtype)} that are not whole words of {word} bytes"
    if fault:
        allowed = "such operations alone, each on all ranks at one position"
        raise InputError(
            f"schedule: {plan.schedule.name} has {fault}; allowed for multicast memory: {allowed}"
        )
    return True


def switches_take(schedule: Schedule, dtype) -> bool:
    """Return whether a schedule uses switches, and they can carry it out for elements of ``dtype``."""
    try:
        return check_switched(compile_plan(schedule), dtype)
    except InputError:
        return False


class StagingLayout:
    """Holds the layout of one rank's staging buffers, which receive data from other ranks.

    ``offsets`` is a dictionary from the number of a staging buffer to its first byte; ``nbytes`` is the size
    of all. Without packets a staging buffer has the same address modulo 16 as element `StagingBuffer.first`
    of one of the schedule's buffers.
    """

    def __init__(self, plan: ExecutionPlan, rank: int, itemsize: int):
        self.offsets: dict[int, int] = {}
        end = 0
        for number, each in enumerate(plan.staging):
            if each.rank != rank:
                continue
            offset = -(-end // 16) * 16
            if plan.packets:
                end = offset + -(-each.size * itemsize // 8) * 16
            else:
                offset += each.first * itemsize % 16
                end = offset + each.size * itemsize
            self.offsets[number] = offset
        self.nbytes = -(-end // 128) * 128


def staging_bytes(plan: ExecutionPlan, rank: int, itemsize: int) -> int:
    """Return the bytes that one rank needs for ``plan.slots`` copies of its staging buffers.

    The size is a power of two: memory that one exchange releases fits many others, and mapped memory is never
    freed.
    """
    needed = StagingLayout(plan, rank, itemsize).nbytes * plan.slots
    return 1 << max(0, needed - 1).bit_length()


@dataclass(frozen=True)
class RankMemory:
    """Holds the addresses at which one rank reaches the buffers, staging buffers and counters of another.

    A rank has such addresses for itself too; only these have ``multicast``, multicast addresses of the
    buffers.
    """

    buffers: Sequence[int]
    staging: int
    counters: int
    multicast: Sequence[int] = ()


@dataclass(frozen=True)
class PlanCode:
    """Holds the encoded program of one rank: its instructions, addresses of operands, and signals (marks)."""

    instructions: np.ndarray
    operands: np.ndarray
    marks: np.ndarray

    def program(self) -> np.ndarray:
        """Return the three arrays as bytes, (nbytes,); never empty, since an empty array has no address."""
        parts = (self.instructions, self.operands, self.marks)
        return np.frombuffer(b"".join(part.tobytes() for part in parts) or bytes(8), np.uint8)

    def arguments(self, program, shared: int) -> tuple:
        """Return the arguments of the kernel ``run_plan`` that describe the program.

        ``program`` is the program on the device, ``shared`` the bytes of shared memory per block.
        """
        counts = (len(part) for part in (self.instructions, self.operands, self.marks))
        switched = 2 * bool((self.instructions["kind"] == _SWITCHED).any())
        return program, *map(np.int32, counts), np.int32((shared >= program.nbytes) | switched)


def encode(plan: ExecutionPlan, rank: int, dtype, memory: Sequence[RankMemory]) -> PlanCode:
    """Encode the instructions of ``rank``; ``memory[r]`` has the addresses at which it reaches rank r.

    A rank's counters, uint32 of shape (ranks, MOST_BLOCKS), count the signals from each rank to each block.
    """
    itemsize = np.dtype(dtype).itemsize
    numbers = element_type(dtype, has_sums(plan))[1]
    layout = cache(lambda owner: StagingLayout(plan, owner, itemsize))

    def operand(address: Address) -> tuple:
        peer_memory = memory[address.rank]
        if address.buffer != STAGING:
            return peer_memory.buffers[address.buffer] + address.first * itemsize, 0, -1
        staging, number = layout(address.rank), -1 - address.key
        return peer_memory.staging + staging.offsets[number], staging.nbytes, plan.staging[number].sender

    def mark(peer: int, number: int, is_local: bool) -> tuple:
        src, dst = (peer, rank) if is_local else (rank, peer)
        counters = memory[dst].counters + 4 * MOST_BLOCKS * src
        return counters, plan.signals[src, dst], number, peer

    def packed(addresses: Sequence[Address]) -> int:
        """Return a bit mask: bit k is set if ``addresses[k]`` is a staging buffer with packets."""
        return sum(1 << k for k, at in enumerate(addresses) if plan.packets and at.buffer == STAGING)

    instructions, operands, marks = [], [], []
    sent: Counter[int] = Counter()
    for each in plan.instructions[rank]:
        if isinstance(each, Move) and each.switched:
            flags = int(each.summed), int(each.multicast)
            instructions.append((_SWITCHED, len(operands), 1, 1, *flags, each.size * numbers))
            ends = (each.sources[0], each.summed), (each.targets[0], each.multicast)
            for address, switched in ends:
                at = memory[rank].multicast if switched else memory[rank].buffers
                operands.append((at[address.buffer] + address.first * itemsize, 0, -1))
        elif isinstance(each, Move):
            counts = len(each.sources), len(each.targets), packed(each.sources), packed(each.targets)
            instructions.append((_MOVE, len(operands), *counts, each.size * numbers))
            operands += [operand(address) for address in (*each.sources, *each.targets)]
        elif isinstance(each, Signal):
            instructions.append((_SIGNAL, len(marks), len(each.to), 0, 0, 0, 0))
            for peer in each.to:
                sent[peer] += 1
                marks.append(mark(peer, sent[peer], False))
        elif isinstance(each, Wait):
            instructions.append((_WAIT, len(marks), len(each.signals), 0, 0, 0, 0))
            marks += [mark(peer, number, True) for peer, number in each.signals]
        else:
            instructions.append((_BARRIER, 0, 0, 0, 0, 0, 0))
    return PlanCode(np.array(instructions, INSTRUCTION), np.array(operands, OPERAND), np.array(marks, MARK))
