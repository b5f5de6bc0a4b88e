"""Whether the devices of all ranks have the memory that a run needs, asked before anything is allocated."""

from __future__ import annotations

import os
import socket
from collections import defaultdict
from typing import TYPE_CHECKING

from wavefabric.errors import InputError

if TYPE_CHECKING:
    from wavefabric.device import Device
    from wavefabric.exchange import Communicator

_GIB = 1 << 30


def check_memory(comm: Communicator | None, device: Device, needed: int, what: str, advice: str) -> None:
    """Raise InputError on all ranks if ``needed`` bytes on each do not fit; collective.

    Ranks on the same device need what they need together. ``what`` needs them, and ``advice`` needs less.
    """
    free, total = device.memory()
    ranks = 1
    if comm is not None and comm.size > 1:
        place = (socket.gethostname(), os.environ.get("CUDA_VISIBLE_DEVICES", ""), device.name)
        devices = defaultdict(list)
        for key, *facts in comm.control.all_gather((place, needed, free, total)):
            devices[key].append(facts)
        needed, free, total, ranks = max(
            (
                (sum(n for n, _, _ in each), min(f for _, f, _ in each), each[0][2], len(each))
                for each in devices.values()
            ),
            key=lambda device: device[0] - device[1],
        )
    if needed > free:
        where = device.name if ranks == 1 else f"{device.name} for {ranks} ranks"
        raise InputError(
            f"memory: {what} needs {needed / _GIB:.2f} GiB on {where}, where {free / _GIB:.2f} of "
            f"{total / _GIB:.2f} GiB are free; {advice}"
        )
