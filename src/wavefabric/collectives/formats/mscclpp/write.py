"""Write schedules as MSCCL++ execution plans (JSON)."""

import json
from itertools import product
from pathlib import Path

from wavefabric.base.arguments import whole
from wavefabric.base.errors import InputError, ensure
from wavefabric.base.files.output import write_text
from wavefabric.collectives.formats.moves import LimitExceeded, written
from wavefabric.collectives.formats.mscclpp import format as fmt
from wavefabric.collectives.formats.mscclpp.blocks import PlanWriter
from wavefabric.collectives.formats.mscclpp.read import from_mscclpp
from wavefabric.collectives.plans.plan import MOST_RANKS
from wavefabric.collectives.schedule import Schedule

#: Protocols of an execution plan: signals, or flags in each packet.
PLAN_PROTOCOLS = ("Simple", "LL")


def to_mscclpp(schedule: Schedule, *, proto: str = "Simple", instances: int = 1) -> str:
    """Verify a schedule and return it as an execution plan (JSON) for MSCCL++ 0.8.0 or later.

    Chunks in use must have one size. Buffers are in place as for `to_msccl`. Each GPU has a thread block per
    peer, or fewer where the executor's limits require it, on memory channels: the sender puts copies, the
    receiver reads sums (``rre``), and signals and semaphores add the order that data alone do not ensure.
    With ``proto`` ``"LL"`` all data go in packets, through scratch whose two halves alternate between calls.
    ``instances`` divides every chunk into that many parts, moved by separate thread blocks. A multicast by a
    switch becomes ``gstore``, which is newer than 0.9.0, and a reduction with the multicast of its sum
    ``glres``. The result is read back and checked like any plan.

    `InputError`: sizes differ, a chunk is empty, or a limit of the executor cannot be satisfied.
    `ScheduleError`: the schedule does not do what it states.

    Examples
    --------
    >>> import json
    >>> from wavefabric.collectives import ring_all_gather
    >>> from wavefabric.collectives.formats.mscclpp.write import to_mscclpp
    >>> plan = json.loads(to_mscclpp(ring_all_gather([8, 8])))
    >>> [op["name"] for op in plan["gpus"][0]["threadblocks"][0]["ops"]]
    ['rlxsignal', 'rlxwait', 'nop', 'put', 'nop', 'signal', 'wait']
    """
    ensure(proto in PLAN_PROTOCOLS, "proto", f"{proto!r}", ", ".join(PLAN_PROTOCOLS))
    whole("ranks", schedule.ranks, 1, MOST_RANKS)
    instances = whole("instances", instances, 1, fmt.BLOCKS)
    arrays, moves = written(schedule, instances, "MSCCL++")
    groups = [n for n in (schedule.ranks, 4, 2, 1) if n <= schedule.ranks]
    why = ""
    for number, longest in product(groups, (fmt.OPERATIONS, 16, 8, 4)):
        try:
            gpus = PlanWriter(arrays, moves, proto == "LL", number, longest).gpus()
        except LimitExceeded as error:
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
    """Write the text of `to_mscclpp` to a file atomically; `InputError` if it cannot be written."""
    return write_text(path, to_mscclpp(schedule, **options), "mscclpp", force)
