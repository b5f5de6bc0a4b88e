"""Transfer arrays that MPI can access directly: in host memory, or on GPUs with a CUDA-aware MPI."""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from wavefabric.base.errors import InputError, MissingExtra
from wavefabric.runtime.exchange.launch import environment, mpiexec_command
from wavefabric.runtime.exchange.launch.watch import waiting
from wavefabric.runtime.exchange.transports.base import Exchange, Program, RankGroup, Transport

#: Maximum bytes per message: Open MPI 4 counts in 32-bit integers.
_PIECE = 1 << 30
_TAGS = 1 << 14  # MPI guarantees tags up to 32767
# Tries device pointers: a message of a process to itself goes through the same layer as one to a peer.
_PROBE = """
import cupy
from mpi4py import MPI
a, b = cupy.arange(1 << 16, dtype=cupy.int32), cupy.zeros(1 << 16, cupy.int32)
cupy.cuda.get_current_stream().synchronize()
MPI.COMM_SELF.Sendrecv(a, 0, recvbuf=b, source=0)
assert (a == b).all()
print("safe")
"""


class MPIExchange(Exchange):
    """An exchange by persistent MPI requests; one call starts all messages that may move at once."""

    def __init__(self, program, buffers, scratch, transport):
        super().__init__(program, buffers, scratch, transport)
        mpi, comm, label = transport.mpi, transport.comm, transport.label(program)
        self._is_finalized = mpi.Is_finalized  # Python empties modules before it deletes the last objects

        def requests(make: Callable, parts) -> list[tuple[int, Any]]:
            result = []
            for span, part in parts:
                flat, tag = part.view(np.uint8), (label + span.number) % _TAGS
                pieces = [[flat[at : at + _PIECE], mpi.BYTE] for at in range(0, flat.size, _PIECE)]
                result += [(span.peer, make(piece, span.peer, tag)) for piece in pieces]
            return result

        #: Per level: (peer, request) of all receives, and of all sends.
        self._requests = []
        for sent, received in zip(self._sent, self._received, strict=True):
            self._requests.append((requests(comm.Recv_init, received), requests(comm.Send_init, sent)))

    def _begin(self, number):
        self._transport.synchronize()
        receives, sends = self._requests[number]
        if receives or sends:
            self._transport.mpi.Prequest.Startall([request for _, request in (*receives, *sends)])

    def _wait(self, number, peer):
        self._wait_all([each for each in self._requests[number][0] if peer in (None, each[0])])

    def _complete(self, number):
        receives, sends = self._requests[number]
        self._wait_all([*receives, *sends])

    def _wait_all(self, requests: list[tuple[int, Any]]) -> None:
        if requests:
            with waiting(*{peer for peer, _ in requests}):
                self._transport.mpi.Request.Waitall([request for _, request in requests])

    def __del__(self):
        if not self._is_finalized():
            for receives, sends in self._requests:
                for _, request in (*receives, *sends):
                    request.Free()


class MPITransport(Transport):
    """Transfers host memory by MPI; ``comm`` is an mpi4py communicator that is used only for data."""

    name = "mpi"
    exchange = MPIExchange

    def __init__(self, comm, device):
        from mpi4py import MPI

        super().__init__(device)
        self.mpi, self.comm = MPI, comm
        self._labels = 0

    @classmethod
    def available(cls) -> tuple[bool, str]:
        try:
            library = mpiexec_command.library()
            program = mpiexec_command.find(library)
        except (InputError, MissingExtra) as error:
            return False, str(error)
        return True, f"{library.version}, mpi4py {library.mpi4py}, {program.name}"

    @classmethod
    def open(cls, group: RankGroup) -> Transport:
        return cls(group.comm.Dup(), group.device)

    automatic = open

    def label(self, program: Program) -> int:
        """Return the first message tag of a program; programs that run at once have different tags."""
        if program.label is None:
            self._labels += 257
            program.label = self._labels
        return program.label

    def synchronize(self) -> None:
        """Wait until the device has written the data that MPI is about to read."""

    def describe(self) -> dict[str, str]:
        return {"mpi": self.mpi.Get_library_version().split("\n")[0].strip("\0 ")}


class DeviceMPITransport(MPITransport):
    """Transfers arrays in GPU memory by a CUDA-aware MPI."""

    name = "mpi-cuda"

    @classmethod
    def available(cls) -> tuple[bool, str]:
        why = _no_device_pointers()
        return not why, f"MPI takes no device pointers ({why})" if why else "MPI takes device pointers"

    @classmethod
    def open(cls, group: RankGroup) -> Transport:
        usable, why = group.control.bcast(cls.available() if group.control.rank == 0 else None)
        if not usable:
            raise InputError(f"transport: 'mpi-cuda' cannot be used ({why}); allowed here: mpi, nccl, p2p")
        return super().open(group)

    automatic = Transport.automatic

    def synchronize(self) -> None:
        self._device.synchronize()


@lru_cache(maxsize=1)
def _no_device_pointers() -> str:
    """Return why MPI rejects device pointers; "" if it accepts them. A separate process tries it."""
    starters = ("PMI2_", "OMPI_COMM", "OMPI_UNIVERSE", "ORTE_", "OMPI_MCA_orte", "OMPI_MCA_ess", "HYDI_")
    starters += ("HYDRA_", "SLURM_")
    kept = environment.without_ranks(dict(os.environ))
    variables = {key: value for key, value in kept.items() if not key.startswith(starters)}
    probe = [sys.executable, "-c", _PROBE]
    try:
        done = subprocess.run(probe, env=variables, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return "a message of device memory did not arrive within a minute"
    if done.returncode == 0 and "safe" in done.stdout:
        return ""
    last = [line for line in done.stderr.strip().splitlines() if line.strip()]
    return f"a try ended with code {done.returncode}" + (f": {last[-1][:120]}" if last else "")
