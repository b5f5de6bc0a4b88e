"""The proof that a plan gives what its schedule says: the same sums, in the same order, in the same
addresses.

Where all accesses are ordered (`check.py`) any interleaving gives the same: one is replayed, on expressions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wavefabric.collectives.plans.moves import STAGING, Address, Move
from wavefabric.collectives.plans.order import Signal, Wait
from wavefabric.collectives.plans.pieces import Pieces, pieces
from wavefabric.collectives.plans.plan import ExecutionPlan
from wavefabric.collectives.structure import ScheduleError, chunk_name

#: Rank, buffer, first element and number of elements.
_Extent = tuple[int, int, int, int]


@dataclass
class _Values:
    """Expressions by the key of their place: −1 − key is what was there at first, from 0 on they are sums."""

    sums: dict[tuple[int, int], int]
    at: dict[int, int] = field(default_factory=dict)

    def read(self, key: int) -> int:
        return self.at.get(key, -1 - key)

    def add(self, a: int, b: int) -> int:
        """The number of a sum of two; a + b is b + a, to the bit."""
        return self.sums.setdefault((min(a, b), max(a, b)), len(self.sums))


def check_values(plan: ExecutionPlan) -> None:
    """Compare what a plan that `check_execution_plan` accepts leaves with what its schedule does.

    Raises
    ------
    ScheduleError
        In one line: an address that is none of the schedule's, a staging buffer read before it is filled, or
        the first chunk of ``post`` that does not hold the schedule's sum at the end.
    """
    schedule, parts = plan.schedule, pieces(plan.schedule)
    wanted = _Values({})
    result = _Values(wanted.sums)
    reduces = schedule.transfers["reduce"][parts.transfer].tolist()
    for src, dst, reduce in zip(parts.src_key.tolist(), parts.dst_key.tolist(), reduces, strict=True):
        value = wanted.read(src)
        wanted.at[dst] = wanted.add(wanted.read(dst), value) if reduce else value
    extents = _extents(plan, parts)
    _replay(plan, result, extents)
    wrong: dict[tuple[int, int], list[tuple[int, int]]] = {}  # (rank, buffer) → first, last + 1 element
    for key, (rank, buffer, first, size) in extents.items():
        if result.read(key) != wanted.read(key):
            wrong.setdefault((rank, buffer), []).append((first, first + size))
    for rank, buffer, chunk in sorted(at for at in schedule.post if at[:2] in wrong):
        begin = schedule.offsets(buffer, rank)[chunk]
        if any(first <= begin < last for first, last in wrong[rank, buffer]):
            where = chunk_name(schedule, rank, buffer, chunk)
            raise ScheduleError(f"{schedule.name}: {where} does not hold the schedule's sum at the end")


def _extents(plan: ExecutionPlan, parts: Pieces) -> dict[int, _Extent]:
    """Places of the schedule by their keys."""
    result: dict[int, _Extent] = {}
    for end in ("src", "dst"):
        rank, buffer = (plan.schedule.transfers[name][parts.transfer] for name in (end, f"{end}_buffer"))
        first, keys = getattr(parts, f"{end}_first"), getattr(parts, f"{end}_key")
        columns = (column.tolist() for column in (keys, rank, buffer, first, parts.size))
        result |= {key: tuple(extent) for key, *extent in zip(*columns, strict=True)}
    return result


def _replay(plan: ExecutionPlan, values: _Values, extents: dict[int, _Extent]) -> None:
    """One call: rank by rank, each as far as its waits, or packets that have not come, allow."""
    at = [0] * len(plan.instructions)
    sent: dict[tuple[int, int], int] = {}

    def may(rank: int, each) -> bool:
        if isinstance(each, Wait):
            return all(sent.get((peer, rank), 0) >= number for peer, number in each.signals)
        packets = plan.packets and isinstance(each, Move)
        return not packets or all(p.key in values.at for p in each.sources if p.buffer == STAGING)

    def do(rank: int, each) -> None:
        if isinstance(each, Signal):
            for peer in each.to:
                sent[rank, peer] = sent.get((rank, peer), 0) + 1
        elif isinstance(each, Move):
            for address in (*each.sources, *each.targets):
                _check_address(plan, address, each.size, extents)
            early = [p.key for p in each.sources if p.buffer == STAGING and p.key not in values.at]
            if early:
                raise ScheduleError(
                    f"{plan.schedule.name}: rank {rank}, instruction {at[rank]}, {each} reads staging buffer "
                    f"{-1 - early[0]} before it has come"
                )
            total = values.read(each.sources[0].key)
            for address in each.sources[1:]:
                total = values.add(total, values.read(address.key))
            values.at |= {address.key: total for address in each.targets}

    moved = True
    while moved:
        moved = False
        for rank, code in enumerate(plan.instructions):
            while at[rank] < len(code) and may(rank, code[at[rank]]):
                do(rank, code[at[rank]])
                at[rank] += 1
                moved = True


def _check_address(plan: ExecutionPlan, address: Address, size: int, extents: dict[int, _Extent]) -> None:
    if address.buffer == STAGING:
        staging_buffer = plan.staging[-1 - address.key] if 0 <= -1 - address.key < len(plan.staging) else None
        right = staging_buffer is not None and (staging_buffer.rank, staging_buffer.size) == (
            address.rank,
            size,
        )
    else:
        right = extents.get(address.key) == (address.rank, address.buffer, address.first, size)
    if not right:
        raise ScheduleError(
            f"{plan.schedule.name}: {address} of {size} elements is none of the schedule's addresses"
        )
