"""Let ranks agree: raise an error of one rank on all, check memory on all devices, decide to stop or save.

Errors are raised on all ranks so that none waits for a rank that has given up.
"""

import contextlib
import platform
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.base.results.lock import locked
from wavefabric.runtime.device import Device
from wavefabric.runtime.exchange import control
from wavefabric.runtime.exchange.communicator import Communicator

_T = TypeVar("_T")
_GIB = 1 << 30


def on_first_rank(comm: Communicator, call: Callable[[], _T]) -> _T:
    """Run ``call`` on rank 0 by `control.on_first_rank`; all ranks return its value or raise its error."""
    return control.on_first_rank(comm.control, call)


def on_all_ranks(comm: Communicator, call: Callable[[], _T]) -> _T:
    """Run ``call`` on every rank by `control.on_all_ranks`; if one fails, all ranks raise an error."""
    return control.on_all_ranks(comm.control, call)


@contextlib.contextmanager
def locked_by_first_rank(comm: Communicator, path: str | Path | None, key: str) -> Iterator[None]:
    """Lock a file on rank 0 during the block, which all ranks enter together. Errors as for `FileLock`."""
    with contextlib.ExitStack() as stack:
        on_first_rank(comm, lambda: stack.enter_context(locked(path, key)))
        yield


def device_identity(device: Device) -> tuple[str, str]:
    """Return a key that identifies this rank's device among those of all hosts."""
    return platform.node(), device.identity


def check_memory(comm: Communicator | None, device: Device, needed: int, what: str, advice: str) -> None:
    """Raise `InputError` on all ranks, which call this together, if ``needed`` bytes do not fit on a device.

    The needs of ranks on the same device are added. Messages use ``what`` for the run that needs the memory
    and ``advice`` for ways to need less.
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
    """Holds the status of one rank, or the combined status of all ranks."""

    #: Whether Ctrl-C or SIGTERM was received; combined: on any rank.
    interrupted: bool = False
    #: Whether a checkpoint is due by the clock; combined: by that of rank 0.
    save_due: bool = False
    #: Largest magnitude of the field, 0 if not computed, NaN if the field is lost; combined: the largest.
    peak: float = 0.0
    #: Energy, 0 if not computed; combined: the sum over ranks.
    energy: float = 0.0
    #: Wall time per step in s; combined: that of rank 0.
    seconds_per_step: float = 0.0


def combine(comm: Communicator, status: Status) -> Status:
    """Combine the status of all ranks, as `Status` says; all ranks make this call and get the same result."""
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
