"""Schedules as MSCCL++'s execution plans (JSON)."""

import json
from itertools import product
from pathlib import Path

from wavefabric.collectives.formats.moves import written
from wavefabric.collectives.formats.mscclpp import format as fmt
from wavefabric.collectives.formats.mscclpp.blocks import PlanLimitExceeded, PlanWriter
from wavefabric.collectives.formats.mscclpp.read import from_mscclpp
from wavefabric.collectives.plans.plan import MOST_RANKS
from wavefabric.collectives.schedule import Schedule
from wavefabric.errors import InputError, require
from wavefabric.files.output import write_text
from wavefabric.quantities import whole

#: Protocols of an execution plan: signals, or flags in each packet.
PLAN_PROTOCOLS = ("Simple", "LL")


def to_mscclpp(schedule: Schedule, *, proto: str = "Simple", instances: int = 1) -> str:
    """A schedule, which is proved here, as an execution plan (JSON) for MSCCL++ 0.8.0 or later.

    Chunks that take part must be of one size. Buffers are in place as of `to_msccl`. Each GPU has a thread
    block for each peer, or fewer where the executor's limits want it, on memory channels: copies are put by
    the sender, sums are read by the receiver (``rre``), and signals and semaphores order what data alone do
    not. With `proto` ``"LL"`` all data go in packets, through scratch of which calls use two halves in turn.
    ``instances`` cuts every chunk in so many parts, moved by thread blocks of their own. A multicast of a
    switch becomes ``gstore``, which is younger than 0.9.0, and a reduction with the multicast of its sum
    ``glres``. What is written was read back, and checked like any plan.

    `InputError`: sizes differ, a chunk is empty, or a limit of the executor cannot be kept. `ScheduleError`:
    the schedule does not do what it states.

    Examples
    --------
    >>> import json
    >>> from wavefabric.collectives import ring_all_gather
    >>> from wavefabric.collectives.formats.mscclpp.write import to_mscclpp
    >>> plan = json.loads(to_mscclpp(ring_all_gather([8, 8])))
    >>> [op["name"] for op in plan["gpus"][0]["threadblocks"][0]["ops"]]
    ['rlxsignal', 'rlxwait', 'nop', 'put', 'nop', 'signal', 'wait']
    """
    require(proto in PLAN_PROTOCOLS, "proto", f"{proto!r}", ", ".join(PLAN_PROTOCOLS))
    whole("ranks", schedule.ranks, 1, MOST_RANKS)
    instances = whole("instances", instances, 1, fmt.BLOCKS)
    arrays, moves = written(schedule, instances, "MSCCL++")
    groups = [n for n in (schedule.ranks, 4, 2, 1) if n <= schedule.ranks]
    why = ""
    for number, longest in product(groups, (fmt.OPERATIONS, 16, 8, 4)):
        try:
            gpus = PlanWriter(arrays, moves, proto == "LL", number, longest).gpus()
        except PlanLimitExceeded as error:
            why = str(error)
            continue
        names = {op["name"] for gpu in gpus for block in gpu["threadblocks"] for op in block["ops"]}
        head = {
            "name": schedule.name,
            "collective": "custom" if arrays.collective is None else arrays.collective.replace("-", ""),
            "requires": f"MSCCL++ {'after 0.9.0' if 'gstore' in names else '0.8.0'}",
            "protocol": proto,
            "inplace": arrays.inplace,
            "use_double_scratch_buffer": proto == "LL",
        }
        root = {} if arrays.root is None else {"root": arrays.root}
        text = json.dumps(head | root | {"gpus": gpus}, indent=1) + "\n"
        from_mscclpp(text)
        return text
    raise InputError(f"MSCCL++: {why}; allowed: what its executor takes")


def save_mscclpp(path: str | Path, schedule: Schedule, force: bool = False, **options) -> Path:
    """Write what `to_mscclpp` gives to a file, whole or not at all; `InputError` if it cannot be written."""
    return write_text(path, to_mscclpp(schedule, **options), "mscclpp", force)
