"""Exchange small Python objects and host arrays between ranks, by MPI, or without MPI for one rank.

The module also finds the other ranks, and checks that all ranks have the same inputs.
"""

import sys
import time
from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from typing import Any, NoReturn, TypeVar

import numpy as np

from wavefabric.base.errors import InputError, MissingExtra, UnusableCheckpoint
from wavefabric.runtime.exchange.launch import dev_shm, environment, rank_status, watch
from wavefabric.runtime.exchange.launch.watch import waiting

#: MPI counts are 32-bit integers in many calls: larger messages are split into pieces of this size.
_PIECE = 1 << 30
_FAILURE_BYTES = 4096
#: Characters of a value that a message shows.
_SHOWN = 60
#: Seconds that a rank with an uncaught error waits for the other ranks to fail as well.
_TIMEOUT = 5.0
_guarded: "list[Control]" = []
_T = TypeVar("_T")


class Control:
    """Exchanges small Python objects between ranks; this base class serves a single rank.

    All ranks make each call together, except `abort`, `send_array` and `recv_array`.
    """

    rank, size = 0, 1

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """Return ``obj`` of rank ``root`` on all ranks."""
        return obj

    def gather(self, obj: Any, root: int = 0) -> list | None:
        """Return the objects of all ranks on rank ``root``, None on the others."""
        return [obj]

    def all_gather(self, obj: Any) -> list:
        """Return the objects of all ranks, on all ranks."""
        return [obj]

    def barrier(self) -> None:
        """Wait until all ranks have called this."""

    def max(self, value: Any) -> Any:
        """Return the maximum over ranks of a number, or of each element of an array; NaN if one is NaN."""
        return value

    def sum(self, value: Any) -> Any:
        """Return the sum of all ranks' numbers or arrays, added in rank order: the same bits on all ranks."""
        return value

    def send_array(self, peer: int, array: np.ndarray, tag: int = 0) -> None:
        """Send a contiguous host array to rank ``peer``, which receives it with the same ``tag``."""

    def recv_array(self, peer: int, array: np.ndarray, tag: int = 0) -> None:
        """Receive from rank ``peer`` into a contiguous host array of the same size."""

    def gather_failures(self, message: str, code: int, timeout: float) -> list[tuple[str, int]] | None:
        """Wait up to ``timeout`` s until all ranks call this, as each does when it has failed.

        Return a list with (message, exit code) of each rank, or None if some ranks have not called in time.
        """
        return [(message, code)]

    def abort(self, code: int) -> NoReturn:
        """End all ranks with the exit code ``code``."""
        raise SystemExit(code)


class MPIControl(Control):
    """Exchanges small objects between ranks by MPI, apart from the other messages on ``comm`` of mpi4py."""

    def __init__(self, comm):
        self._comm, self._failures = comm.Dup(), comm.Dup()
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        own, told = self._comm, waiting()
        self.bcast, self.gather, self.all_gather = told(own.bcast), told(own.gather), told(own.allgather)
        self.barrier, self._all_gather_array = told(own.Barrier), told(own.Allgather)
        rank_status.note_shared_files()
        watch.start(comm)

    def max(self, value):
        return self._reduce(np.maximum, value)

    def sum(self, value):
        return self._reduce(np.add, value)

    def _reduce(self, operation, value):
        array = np.asarray(value)
        values = np.empty((self.size, *array.shape), array.dtype)
        self._all_gather_array(np.ascontiguousarray(array), values)
        result = reduce(operation, values)
        return result if array.ndim else result.item()

    def send_array(self, peer, array, tag=0):
        self._move(self._comm.Send, peer, array, tag)

    def recv_array(self, peer, array, tag=0):
        self._move(self._comm.Recv, peer, array, tag)

    def _move(self, call, peer, array, tag):
        flat = array.reshape(-1).view(np.uint8)
        for first in range(0, flat.size, _PIECE):
            with waiting(peer):
                call(flat[first : first + _PIECE], peer, tag)

    def gather_failures(self, message, code, timeout):
        mine = np.zeros(_FAILURE_BYTES, np.uint8)
        text = f"{code} {message}".encode()[: _FAILURE_BYTES - 1]
        mine[: len(text)] = np.frombuffer(text, np.uint8)
        rows = np.zeros((self.size, _FAILURE_BYTES), np.uint8)
        request = self._failures.Iallgather(mine, rows)
        deadline = time.monotonic() + timeout
        while not request.Test():
            if time.monotonic() > deadline:
                return None
            time.sleep(0.01)
        texts = [bytes(row).rstrip(b"\0").decode(errors="replace").partition(" ") for row in rows]
        return [(said, int(number)) for number, _, said in texts]

    def abort(self, code) -> NoReturn:
        dev_shm.remove_own()  # MPI_Abort does not remove files
        rank_status.close_output()
        self._comm.Abort(code)
        raise SystemExit(code)


def check_agreement(control: Control, facts: dict[str, str]) -> None:
    """Check that ``facts``, such as versions or options, are equal on all ranks, which call this together.

    If a fact differs, all ranks raise the same `InputError`, with its key, two ranks and their values.
    """
    compare(control.all_gather(facts))


def on_first_rank(control: Control, call: Callable[[], _T]) -> _T:
    """Run ``call`` on rank 0; return its value, or raise its error, on all ranks.

    All ranks enter this function together. The value should be small, since it is sent to all. On other ranks
    than 0 an error that is no InputError or OSError becomes a RuntimeError.
    """
    value, error = _attempt(call) if control.rank == 0 else (None, None)
    value, told = control.bcast((value, _for_all(error)))
    if told is not None:
        raise error or told
    return value


def on_all_ranks(control: Control, call: Callable[[], _T]) -> _T:
    """Run ``call`` on every rank and return its value; if it fails on one rank, all ranks raise the error.

    ``call`` must not communicate. All ranks enter this function together. Errors are passed on as in
    `on_first_rank`.
    """
    value, error = _attempt(call)
    for rank, told in enumerate(control.all_gather(_for_all(error))):
        if told is not None:
            raise error if error is not None and rank == control.rank else told
    return value  # type: ignore[return-value]


def _attempt(call: Callable[[], _T]) -> tuple[_T | None, Exception | None]:
    try:
        return call(), None
    except Exception as error:
        return None, error


def _for_all(error: Exception | None) -> Exception | None:
    """Return a copy of ``error``, without references to this process, that other ranks can raise.

    The class stays the same for InputError and OSError; other errors become RuntimeError.
    """
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


def compare(gathered: Sequence[dict[str, str]]) -> None:
    """Raise `InputError` for the first key whose value differs between ranks; ``gathered`` is by rank."""
    for key in dict.fromkeys(key for each in gathered for key in each):
        values = [each.get(key, "nothing") for each in gathered]
        other = next((rank for rank, value in enumerate(values) if value != values[0]), None)
        if other is not None:
            differ = f"rank 0 has {values[0][:_SHOWN]}, rank {other} has {values[other][:_SHOWN]}"
            raise InputError(f"{key}: {differ}; allowed: the same on all ranks")


def mpi_world():
    """Return mpi4py's communicator of all ranks; `InputError` unless it has as many ranks as were started."""
    started = environment.expected_ranks() or environment.ranks()
    fault = "they do not see one another" if environment.ranks() == 1 else ""
    if not fault:
        try:
            from mpi4py import MPI
        except ImportError:
            raise MissingExtra("more than one rank", "mpi") from None
        if MPI.COMM_WORLD.Get_size() == started:
            return MPI.COMM_WORLD
        fault = f"mpi4py sees {MPI.COMM_WORLD.Get_size()}"
    allowed = "mpiexec and mpi4py must belong to the same MPI"
    raise InputError(f"ranks: {started} were started, but {fault}; {allowed}")


@lru_cache(maxsize=1)
def world_control() -> Control:
    """Return the `Control` of all ranks, which make the first call together; errors as for `mpi_world`."""
    return Control() if environment.ranks() == 1 else MPIControl(mpi_world())


def abort_on_uncaught_error(control: Control) -> None:
    """Make an uncaught error of one rank's script end all ranks, which would otherwise wait for ever."""
    if _guarded:
        return
    _guarded.append(control)
    before = sys.excepthook

    def hook(kind, error, trace) -> None:
        before(kind, error, trace)
        sys.stderr.flush()
        if control.gather_failures("", 1, _TIMEOUT) is None:
            control.abort(1)

    sys.excepthook = hook
