"""The control plane: small Python objects and host arrays between ranks, by MPI, or none for one rank."""

from __future__ import annotations

import time
from functools import reduce
from typing import Any, NoReturn

import numpy as np

from wavefabric.exchange.launch import dev_shm, rank_status, watch
from wavefabric.exchange.launch.watch import waiting

#: MPI counts are 32-bit integers in many calls: pieces below that.
_PIECE = 1 << 30
_FAILURE_BYTES = 4096


class Control:
    """What ranks agree through; here, of one rank. Collective but for `abort` and the two array calls."""

    rank, size = 0, 1

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """``obj`` of rank ``root``, on all ranks."""
        return obj

    def gather(self, obj: Any, root: int = 0) -> list | None:
        """The objects of all ranks, on rank ``root``."""
        return [obj]

    def all_gather(self, obj: Any) -> list:
        """The objects of all ranks, on all ranks."""
        return [obj]

    def barrier(self) -> None:
        """Nobody leaves before all have come."""

    def max(self, value: Any) -> Any:
        """Largest value; NaN if there is one."""
        return value

    def sum(self, value: Any) -> Any:
        """Sum in rank order of numbers or equal-shaped arrays: the same bits on all ranks."""
        return value

    def send_array(self, peer: int, array: np.ndarray, tag: int = 0) -> None:
        """Send a contiguous host array."""
        raise ValueError("one rank has nobody to send to")

    def recv_array(self, peer: int, array: np.ndarray, tag: int = 0) -> None:
        """Receive into a contiguous host array of the same size."""
        raise ValueError("one rank has nobody to receive from")

    def gather_failures(self, message: str, code: int, patience: float) -> list[tuple[str, int]] | None:
        """Messages and exit codes of all ranks if all fail within so many seconds, None if some go on."""
        return [(message, code)]

    def abort(self, code: int) -> NoReturn:
        """End all ranks."""
        raise SystemExit(code)


class MPIControl(Control):
    """MPI as the control plane; a duplicate of ``comm`` (an mpi4py communicator) keeps its messages apart."""

    def __init__(self, comm):
        self._comm, self._failures = comm.Dup(), comm.Dup()
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        rank_status.note_shared_files()
        watch.start(comm)

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

    def sum(self, value):
        return self._reduce(np.add, value)

    def _reduce(self, operation, value):
        array = np.asarray(value)
        values = np.empty((self.size, *array.shape), array.dtype)
        with waiting():
            self._comm.Allgather(np.ascontiguousarray(array), values)
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

    def gather_failures(self, message, code, patience):
        mine = np.zeros(_FAILURE_BYTES, np.uint8)
        text = f"{code} {message}".encode()[: _FAILURE_BYTES - 1]
        mine[: len(text)] = np.frombuffer(text, np.uint8)
        rows = np.zeros((self.size, _FAILURE_BYTES), np.uint8)
        request = self._failures.Iallgather(mine, rows)
        deadline = time.monotonic() + patience
        while not request.Test():
            if time.monotonic() > deadline:
                return None
            time.sleep(0.01)
        texts = [bytes(row).rstrip(b"\0").decode(errors="replace").partition(" ") for row in rows]
        return [(said, int(number)) for number, _, said in texts]

    def abort(self, code) -> NoReturn:
        dev_shm.remove_own()  # MPI_Abort does not
        rank_status.close_output()
        self._comm.Abort(code)
        raise SystemExit(code)
