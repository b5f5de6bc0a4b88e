"""Define execution plans, the instructions of each rank's kernel, and compile schedules to them."""

from dataclasses import dataclass, field
from functools import cached_property

from wavefabric.base.errors import InputError, ensure
from wavefabric.collectives.plans.moves import Move, StagingBuffer, joined, moves
from wavefabric.collectives.plans.order import Barrier, Signal, Wait, ordered
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.structure import checked_structure

#: How receivers learn that data have come: by flags in every packet of 16 bytes, or by signals.
PROTOCOLS = ("packets", "signals")
#: Largest number of ranks of a plan: each rank tracks the progress of all others.
MOST_RANKS = 72

Instruction = Move | Signal | Wait | Barrier


@dataclass(frozen=True, eq=False)
class ExecutionPlan:
    """Holds a schedule as instructions for each rank.

    A kernel runs in blocks. Each block has a slice of every piece and separate signals, and executes all
    instructions of its rank in order; blocks never wait for one another. Packets are 16 bytes, 8 of them
    data, and are always written to staging buffers, of which there are ``slots`` copies, used in turn by
    consecutive calls. ``signals``: from (sender, receiver) to the number of signals per call.
    """

    schedule: Schedule
    protocol: str
    slots: int
    instructions: tuple[tuple[Instruction, ...], ...]
    staging: tuple[StagingBuffer, ...] = field(repr=False)
    signals: dict[tuple[int, int], int] = field(repr=False)

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """Return the moves of all ranks, rank by rank."""
        return tuple(each for code in self.instructions for each in code if isinstance(each, Move))

    @property
    def packets(self) -> bool:
        """Whether staging buffers receive packets, whose flags tell that they have come, not plain data."""
        return self.protocol == "packets"


def protocols_for(schedule: Schedule) -> tuple[str, ...]:
    """Return the protocols that a schedule may use: packets cannot go through a multicasting switch."""
    return PROTOCOLS[1:] if schedule.transfers["switch"].any() else PROTOCOLS


def compile_plan(schedule: Schedule, protocol: str = "signals", slots: int | None = None) -> ExecutionPlan:
    """Compile a schedule that `verify` accepts to an execution plan, which is the same on all ranks.

    Terms of sums are added in the order of the schedule. Staging buffers have ``slots`` slots, used in turn
    by consecutive calls. With one slot a sender may have to wait until the receiver has begun the call. The
    default is one slot if no sender would ever wait, else two; packets need two. `InputError` for a protocol
    (of `PROTOCOLS`) or slots that are not allowed, more than `MOST_RANKS` ranks, or an inconsistent schedule.

    Examples
    --------
    >>> from wavefabric.collectives import ring_all_reduce
    >>> from wavefabric.collectives.plans.plan import compile_plan
    >>> plan = compile_plan(ring_all_reduce(2, 100), "packets")
    >>> [[type(each).__name__ for each in one] for one in plan.instructions]
    [['Move', 'Move', 'Move'], ['Move', 'Move', 'Move']]
    """
    ensure(protocol in PROTOCOLS, "protocol", f"{protocol!r} given", ", ".join(PROTOCOLS))
    packets = protocol == "packets"
    ensure(slots in (1, 2, None)[packets:], "rooms", f"{slots} given", "1 or 2, 2 for packets")
    if schedule.ranks > MOST_RANKS:
        raise InputError(f"ranks: {schedule.ranks} given; allowed: up to {MOST_RANKS} for an execution plan")
    checked_structure(schedule)
    if packets and schedule.transfers["switch"].any():
        raise InputError("protocol: packets given for multicasts or sums by a switch; allowed: signals")
    made, staging = moves(schedule, packets)
    instructions, signals, slots = ordered(joined(made), staging, schedule.ranks, packets, slots)
    return ExecutionPlan(schedule, protocol, slots, instructions, tuple(staging), signals)
