"""MSCCL++'s execution plans (JSON) as schedules."""

import re
from collections import defaultdict
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from wavefabric.collectives.builders.transfers import joined
from wavefabric.collectives.formats.moves import proved
from wavefabric.collectives.formats.mscclpp.check import run_order
from wavefabric.collectives.formats.mscclpp.format import PLAN
from wavefabric.collectives.formats.mscclpp.operations import PlanOperation, PlanProgram
from wavefabric.collectives.schedule import TRANSFER, Schedule
from wavefabric.files.faults import checked
from wavefabric.files.input import MOST_SCHEDULE, parse_json, parsed
from wavefabric.quantities import whole


def from_mscclpp(text: str, *, elements: int = 1) -> Schedule:
    """The schedule of an execution plan (JSON), checked and proved; chunks have so many `elements`.

    Rounds are as early as the data allow. Buffers are ``data`` (in place), or ``input`` and ``output``
    (``send`` and ``recv`` of an all-to-all), ``scratch`` if there is any, and ``packets`` for those that are
    read several times; others go from their source to where they are unpacked or added. If a group of thread
    blocks shares an operation, chunks are cut into what each moves. A pipeline moves whole chunks, its units
    one after the other; it is checked with chunks so large that it comes around its scratch again.

    `InputError` for what the executor would refuse, with the key; `ScheduleError` for a race, a deadlock, or
    data that are not what the collective states: rank, thread block and operation in one line.
    """
    plan = checked(PLAN, parse_json(text, "execution plan"))
    elements = whole("elements", elements, 1)
    if any(op.name == "pipeline" for gpu in plan.gpus for block in gpu.threadblocks for op in block.ops):
        run_order(PlanProgram(plan, many=True))
    made = PlanProgram(plan)
    pieces, names = made.chunk[0], made.buffers.names
    rows = _without_packets(_rows(run_order(made)), len(names))
    tables = [np.repeat(table, pieces, axis=1) for table in made.buffers.present]
    lasts = [at[2] + row[2] for row in rows for at in row[:2] if at[1] == len(names)]
    if lasts:
        names, tables = (*names, "packets"), [*tables, np.ones((len(plan.gpus), max(lasts)), bool)]
    elif names[-1] == "scratch" and all(at[1] < len(names) - 1 for row in rows for at in row[:2]):
        names, tables = names[:-1], tables[:-1]
    columns = [(i, src[0], dst[0], *src[1:], *dst[1:], *more) for i, (src, dst, *more) in enumerate(rows)]
    transfers = np.array(columns, TRANSFER)
    # An operation of a switch is in one round.
    same = (transfers["switch"][1:] > 0) & (transfers["switch"][1:] == transfers["switch"][:-1])
    transfers["round"] -= np.cumsum(np.concatenate(([False], same)))[: transfers.size]
    sizes = tuple(elements * table.astype(np.int64) for table in tables)
    schedule = Schedule(plan.name, len(plan.gpus), names, sizes, transfers, {}, {})
    arrays = replace(made.arrays, chunks=made.arrays.chunks * pieces, sizes=made.arrays.sizes * pieces)
    schedule = proved(arrays, schedule)
    return replace(schedule, transfers=joined(schedule.transfers, schedule.ranks))


def is_mscclpp(text: str) -> bool:
    """Whether a JSON text is an execution plan, and not a schedule of ours."""
    return re.search(r'"threadblocks"\s*:', text) is not None


def load_mscclpp(path: str | Path, **options) -> Schedule:
    """`from_mscclpp` of a file; an error begins with its path."""
    return parsed(path, "mscclpp", partial(from_mscclpp, **options), MOST_SCHEDULE)


def _rows(order: list[PlanOperation]) -> list[tuple]:
    """Source, target, chunks, whether they are added, and the number of the operation if a switch does it."""
    rows: list[tuple] = []
    for number, op in enumerate(order):
        for sources, targets in op.parts:
            if op.name in ("glres", "gstore", "gstorepkt"):
                source, count = sources[0], sources[0].count
                if op.name == "glres":
                    source = next(each for each in targets if each.rank == op.rank)
                    rows += [(each[:3], source[:3], count, False, 2 * number + 1) for each in sources]
                rows += [(source[:3], each[:3], count, False, 2 * number + 2) for each in targets]
                continue
            for n in range(sources[0].count):
                reads, writes = ([(*s[:2], s.first + n) for s in side] for side in (sources, targets))
                if len(reads) > 1:  # the sum stands in the first target, to which the others are added
                    into = writes.pop(0)
                    base = into if into in reads else reads[0]
                    reads.remove(base)
                    rows += [(base, into, 1, False, 0)] * (base != into)
                    rows += [(each, into, 1, True, 0) for each in reads]
                    reads = [into]
                rows += [(reads[0], each, 1, False, 0) for each in writes]
    return rows


def _without_packets(rows: list[tuple], packets: int) -> list[tuple]:
    """Data that come in packets and are read once go from their source, if it is not overwritten before."""
    uses: dict[tuple, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))  # who reads, and writes
    for number, (src, dst, count, *_) in enumerate(rows):
        for at, which in ((src, 0), (dst, 1)):
            for n in range(count):
                uses[(*at[:2], at[2] + n)][which].append(number)
    gone = set()
    for number, (src, dst, _, reduce, switch) in enumerate(rows):
        reads, writes = uses[dst]
        if dst[1] != packets or switch or reduce or len(reads) != 1 or len(writes) != 1 or rows[reads[0]][4]:
            continue
        src = rows[number][0]
        if not any(number < other < reads[0] for other in uses[src][1]):
            rows[reads[0]] = (src, *rows[reads[0]][1:])
            uses[src][0].append(reads[0])
            gone.add(number)
    return [row for number, row in enumerate(rows) if number not in gone]
