"""What ranks agree on: errors that one meets are raised on all, so that none waits for another that has given
up; whether all devices have the memory for a run; and between steps whether to stop or save.
"""

import contextlib
import socket
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from wavefabric.device import Device
from wavefabric.errors import InputError, UnusableCheckpoint
from wavefabric.exchange.communicator import Communicator
from wavefabric.results.lock import locked

_T = TypeVar("_T")
_GIB = 1 << 30


def on_first_rank(comm: Communicator, call: Callable[[], _T]) -> _T:
    """Run ``call`` on rank 0; all ranks get its (small) return value or raise its error. Collective.

    Other ranks raise InputError and OSError as they are, and RuntimeError for other errors.
    """
    if comm.size == 1:
        return call()
    value, error = _attempt(call) if comm.rank == 0 else (None, None)
    value, told = comm.control.bcast((value, _for_all(error)))
    if told is not None:
        raise error or told
    return value


def on_all_ranks(comm: Communicator, call: Callable[[], _T]) -> _T:
    """Run ``call``, which is not collective, on every rank; if one fails, all raise as `on_first_rank`."""
    if comm.size == 1:
        return call()
    value, error = _attempt(call)
    errors = comm.control.all_gather(_for_all(error))
    for rank, told in enumerate(errors):
        if told is not None:
            raise error if error is not None and rank == comm.rank else told
    return value  # type: ignore[return-value]


@contextlib.contextmanager
def locked_by_first_rank(comm: Communicator, path: str | Path | None, key: str) -> Iterator[None]:
    """Hold the lock of a file on rank 0, for all ranks; entering is collective. Errors: `FileLock`."""
    with contextlib.ExitStack() as stack:
        on_first_rank(comm, lambda: stack.enter_context(locked(path, key)))
        yield


def _for_all(error: Exception | None) -> Exception | None:
    """An error as all ranks can raise it: without what cannot be sent."""
    match error:
        case None:
            return None
        case OSError(errno=int()):
            return OSError(error.errno, error.strerror, error.filename)
        case UnusableCheckpoint():
            return UnusableCheckpoint(str(error))
        case InputError():
            return InputError(str(error))
    return RuntimeError(f"{type(error).__name__}: {error}")


def _attempt(call: Callable[[], _T]) -> tuple[_T | None, Exception | None]:
    try:
        return call(), None
    except Exception as error:
        return None, error


def device_identity(device: Device) -> tuple[str, str]:
    """What tells a device of this rank from those of others, on this host and elsewhere."""
    return socket.gethostname(), device.identity


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
    """The status of all ranks, the same on each of them; collective."""
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
