"""The control plane: small Python objects and host arrays between ranks, by MPI, or none for one rank."""

from __future__ import annotations

import time
from functools import reduce
from typing import Any, NoReturn, Protocol

import numpy as np

from wavefabric.exchange.launch import rank_status, shared_files, watch
from wavefabric.exchange.launch.watch import waiting


class Control(Protocol):
    """What ranks agree through. Every method but ``abort`` and the two array calls is collective."""

    rank: int
    size: int

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """``obj`` of rank ``root``, on all ranks."""
        ...

    def gather(self, obj: Any, root: int = 0) -> list | None:
        """What each rank gave, on rank ``root``."""
        ...

    def all_gather(self, obj: Any) -> list:
        """What each rank gave, on all ranks."""
        ...

    def barrier(self) -> None:
        """Nobody leaves before all have come."""
        ...

    def max(self, value: Any) -> Any:
        """Largest value; NaN if there is one."""
        ...

    def min(self, value: Any) -> Any:
        """Smallest value; NaN if there is one."""
        ...

    def sum(self, value: Any) -> Any:
        """Sum in rank order of numbers or equal-shaped arrays: the same bits on all ranks."""
        ...

    def send_array(self, peer: int, array: np.ndarray, tag: int = 0) -> None:
        """Send a host array; it must be contiguous."""
        ...

    def recv_array(self, peer: int, array: np.ndarray, tag: int = 0) -> None:
        """Receive into a contiguous host array of the same size."""
        ...

    def settle(self, message: str, code: int, patience: float) -> list[tuple[str, int]] | None:
        """A rank that fails says why. Messages and codes of all ranks if all come within ``patience``
        seconds, None if some go on."""
        ...

    def abort(self, code: int) -> NoReturn:
        """End all ranks."""
        ...


class SoloControl:
    """One rank: nothing to agree on."""

    rank, size = 0, 1

    def bcast(self, obj, root=0):
        return obj

    def gather(self, obj, root=0):
        return [obj]

    def all_gather(self, obj):
        return [obj]

    def barrier(self):
        pass

    def max(self, value):
        return value

    def min(self, value):
        return value

    def sum(self, value):
        return value

    def send_array(self, peer, array, tag=0):
        raise ValueError("one rank has nobody to send to")

    def recv_array(self, peer, array, tag=0):
        raise ValueError("one rank has nobody to receive from")

    def settle(self, message, code, patience):
        return [(message, code)]

    def abort(self, code) -> NoReturn:
        raise SystemExit(code)


#: MPI counts are 32-bit integers in many calls: pieces below that.
_PIECE = 1 << 30
_SETTLE_BYTES = 4096


class MPIControl:
    """MPI as the control plane; a communicator of its own keeps its messages apart.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
    """

    def __init__(self, comm):
        self._comm, self._failures = comm.Dup(), comm.Dup()
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        rank_status.note_shared()
        watch.begin(comm)

    def bcast(self, obj, root=0):
        with waiting():
            return self._comm.bcast(obj, root)

    def gather(self, obj, root=0):
        with waiting():
            return self._comm.gather(obj, root)

    def all_gather(self, obj):
        with waiting():
            return self._comm.allgather(obj)

    def barrier(self):
        with waiting():
            self._comm.Barrier()

    def max(self, value):
        return self._reduce(np.maximum, value)

    def min(self, value):
        return self._reduce(np.minimum, value)

    def sum(self, value):
        return self._reduce(np.add, value)

    def _reduce(self, operation, value):
        array = np.asarray(value)
        everything = np.empty((self.size, *array.shape), array.dtype)
        with waiting():
            self._comm.Allgather(np.ascontiguousarray(array), everything)
        found = reduce(operation, everything)
        return found if array.ndim else found.item()

    def send_array(self, peer, array, tag=0):
        flat = array.reshape(-1).view(np.uint8)
        for first in range(0, flat.size, _PIECE):
            with waiting(peer):
                self._comm.Send(flat[first : first + _PIECE], peer, tag)

    def recv_array(self, peer, array, tag=0):
        flat = array.reshape(-1).view(np.uint8)
        for first in range(0, flat.size, _PIECE):
            with waiting(peer):
                self._comm.Recv(flat[first : first + _PIECE], peer, tag)

    def settle(self, message, code, patience):
        mine = np.zeros(_SETTLE_BYTES, np.uint8)
        text = f"{code} {message}".encode()[: _SETTLE_BYTES - 1]
        mine[: len(text)] = np.frombuffer(text, np.uint8)
        everything = np.zeros((self.size, _SETTLE_BYTES), np.uint8)
        request = self._failures.Iallgather(mine, everything)
        until = time.monotonic() + patience
        while not request.Test():
            if time.monotonic() > until:
                return None
            time.sleep(0.01)
        found = []
        for row in everything:
            word, _, rest = bytes(row).rstrip(b"\0").decode(errors="replace").partition(" ")
            found.append((rest, int(word)))
        return found

    def abort(self, code) -> NoReturn:
        shared_files.remove_own()  # MPI_Abort does not
        self._comm.Abort(code)
        raise SystemExit(code)
