"""What ranks agree on: errors that one meets are raised on all, so that none waits for another that has given
up; whether all devices have the memory for a run; and between steps whether to stop or save.
"""

import contextlib
import platform
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from wavefabric.device import Device
from wavefabric.errors import InputError
from wavefabric.exchange import control
from wavefabric.exchange.communicator import Communicator
from wavefabric.results.lock import locked

_T = TypeVar("_T")
_GIB = 1 << 30


def on_first_rank(comm: Communicator, call: Callable[[], _T]) -> _T:
    """`control.on_first_rank` of a communicator's ranks."""
    return control.on_first_rank(comm.control, call)


def on_all_ranks(comm: Communicator, call: Callable[[], _T]) -> _T:
    """`control.on_all_ranks` of a communicator's ranks."""
    return control.on_all_ranks(comm.control, call)


@contextlib.contextmanager
def locked_by_first_rank(comm: Communicator, path: str | Path | None, key: str) -> Iterator[None]:
    """Hold the lock of a file on rank 0, for all ranks; entering is collective. Errors: `FileLock`."""
    with contextlib.ExitStack() as stack:
        on_first_rank(comm, lambda: stack.enter_context(locked(path, key)))
        yield


def device_identity(device: Device) -> tuple[str, str]:
    """What tells a device of this rank from those of others, on this host and elsewhere."""
    return platform.node(), device.identity


def check_memory(comm: Communicator | None, device: Device, needed: int, what: str, advice: str) -> None:
    """Raise InputError on all ranks if ``needed`` bytes on each do not fit; collective.

    Ranks on the same device need what they need together. ``what`` needs them, and ``advice`` needs less.
    """
    free, total = device.memory()
    name, ranks = device.name, 1
    if comm is not None and comm.size > 1:
        devices = defaultdict(list)
        for key, *facts in comm.control.all_gather((device_identity(device), needed, free, total, name)):
            devices[key].append(facts)
        sums = [
            (sum(n for n, *_ in each), min(f for _, f, *_ in each), *each[0][2:], len(each))
            for each in devices.values()
        ]
        needed, free, total, name, ranks = max(sums, key=lambda device: device[0] - device[1])
    if needed > free:
        where = name if ranks == 1 else f"{name} for {ranks} ranks"
        raise InputError(
            f"memory: {what} needs {needed / _GIB:.2f} GiB on {where}, where {free / _GIB:.2f} of "
            f"{total / _GIB:.2f} GiB are free; {advice}"
        )


class Status(NamedTuple):
    """The status of one rank, or of all together."""

    #: Ctrl-C or SIGTERM came; on any rank.
    interrupted: bool = False
    #: A checkpoint is due by the clock; by that of rank 0.
    save_due: bool = False
    #: Largest magnitude of the field, 0 if not computed, NaN if the field is lost; the largest of all ranks.
    peak: float = 0.0
    #: 0 if not computed; the sum over ranks.
    energy: float = 0.0
    #: Wall time of a step; that of rank 0.
    seconds_per_step: float = 0.0


def combine(comm: Communicator, status: Status) -> Status:
    """Combine the status of all ranks as `Status` says; return the same result on each rank. Collective."""
    if comm.size == 1:
        return status
    ranks = [Status(*each) for each in comm.control.all_gather(tuple(status))]
    return Status(
        any(rank.interrupted for rank in ranks),
        ranks[0].save_due,
        float(np.max([rank.peak for rank in ranks])),
        sum(rank.energy for rank in ranks),
        ranks[0].seconds_per_step,
    )
