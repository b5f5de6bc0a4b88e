"""Read MSCCL++ execution plans (JSON) as schedules."""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from wavefabric.base.arguments import whole
from wavefabric.base.files.input import MOST_SCHEDULE, parse_json, parsed
from wavefabric.base.files.validation_errors import checked
from wavefabric.collectives.builders.transfers import joined
from wavefabric.collectives.formats.moves import Row, proved, straight
from wavefabric.collectives.formats.mscclpp.check import run_order
from wavefabric.collectives.formats.mscclpp.format import PLAN
from wavefabric.collectives.formats.mscclpp.operations import PlanOperation, PlanProgram
from wavefabric.collectives.schedule import Schedule


def from_mscclpp(text: str, *, elements: int = 1) -> Schedule:
    """Return the verified schedule of an execution plan (JSON); a chunk has ``elements`` elements.

    Rounds are as early as the data allow. Buffers are ``data`` (in place), or ``input`` and ``output``
    (``send`` and ``recv`` of an all-to-all), ``scratch`` if used, and ``packets`` for packets that are read
    several times; a packet that is read once becomes one transfer from its source to its destination. If
    several thread blocks share an operation, each block's part is a chunk. A pipeline, which moves a chunk in
    units, becomes one transfer per chunk; it is also checked with chunks that fill scratch more than once.

    `InputError` for a plan that the executor would refuse, with the key; `ScheduleError` for a race, a
    deadlock, or data that are not what the collective states: rank, thread block and operation in one line.
    """
    plan = checked(PLAN, parse_json(text, "execution plan"))
    elements = whole("elements", elements, 1)
    if any(op.name == "pipeline" for gpu in plan.gpus for block in gpu.threadblocks for op in block.ops):
        run_order(PlanProgram(plan, many=True))
    made = PlanProgram(plan)
    buffers, pieces, sizes = made.buffers, made.chunk[0], made.arrays.sizes * made.chunk[0]
    packets = len(buffers.names)
    rows = straight(_rows(run_order(made)), packets)
    lasts, passing = [at[2] + row[2] for row in rows for at in row[:2] if at[1] == packets], None
    if lasts:
        passing = "packets", np.ones((len(plan.gpus), max(lasts)), bool)
    elif all(at[1] != buffers.buffer[2] for row in rows for at in row[:2]):
        sizes[:, 2] = 0
    arrays = replace(made.arrays, chunks=made.arrays.chunks * pieces, sizes=sizes)
    schedule = proved(plan.name, arrays, rows, elements, passing)
    return replace(schedule, transfers=joined(schedule.transfers, schedule.ranks))


def is_mscclpp(text: str) -> bool:
    """Whether a JSON text is an execution plan, and not a schedule of `to_json`."""
    return re.search(r'"threadblocks"\s*:', text) is not None


def load_mscclpp(path: str | Path, **options) -> Schedule:
    """Read a file with `from_mscclpp`; an error begins with the path."""
    return parsed(path, "mscclpp", partial(from_mscclpp, **options), MOST_SCHEDULE)


def _rows(order: list[PlanOperation]) -> list[Row]:
    """Return the transfers of operations as rows: source, target, number of pieces, adds, switch.

    ``order``: all operations, as they run. *Adds*: whether the data are added to the target. *Switch*: number
    of an operation of a switch, 0 for other transfers.
    """
    rows: list[Row] = []
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
                if len(reads) > 1:  # the first target holds the sum, the other sources are added to it
                    into = writes.pop(0)
                    base = into if into in reads else reads[0]
                    reads.remove(base)
                    rows += [(base, into, 1, False, 0)] * (base != into)
                    rows += [(each, into, 1, True, 0) for each in reads]
                    reads = [into]
                rows += [(reads[0], each, 1, False, 0) for each in writes]
    return rows
