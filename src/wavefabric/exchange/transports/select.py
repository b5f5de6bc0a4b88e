"""Choose a transport for the devices and ranks that there are, and find out which can be used."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import lru_cache

from wavefabric.errors import InputError
from wavefabric.exchange.transports.base import Transport
from wavefabric.exchange.transports.mpi import MPITransport

# A message from a process to itself goes through the same layer as one to a peer.
_PROBE = """
import cupy
from mpi4py import MPI
a, b = cupy.arange(1 << 16, dtype=cupy.int32), cupy.zeros(1 << 16, cupy.int32)
cupy.cuda.get_current_stream().synchronize()
MPI.COMM_SELF.Sendrecv(a, 0, recvbuf=b, source=0)
assert (a == b).all()
print("safe")
"""
#: Variables that make a process one of several ranks.
_OF_RANKS = ("PMI_", "PMIX_", "PMI2_", "OMPI_COMM", "OMPI_UNIVERSE", "ORTE_", "OMPI_MCA_orte", "OMPI_MCA_ess",
             "HYDI_", "HYDRA_", "MPI_LOCAL", "SLURM_")  # fmt: skip


def make_transport(name: str, comm, control, local, device) -> Transport:
    """A transport by name (of `TRANSPORTS`); collective.

    ``comm`` and ``local`` are mpi4py's communicators of all ranks, and of those of this host. `InputError`
    says why a transport cannot serve here.
    """
    on_gpu = device.name != "cpu"
    if len(set(control.all_gather(on_gpu))) > 1:
        raise InputError("device: some ranks have a GPU and some do not; allowed: all alike")
    if on_gpu:
        return _make_cuda_transport(name, comm, control, local, device)
    if name not in ("auto", "mpi"):
        raise InputError(f"transport: {name!r} needs GPUs; allowed on CPUs: mpi")
    return MPITransport(comm.Dup(), device)


def _make_cuda_transport(name: str, comm, control, local, device) -> Transport:
    from wavefabric.exchange.transports.mpi_staged import StagedTransport

    if name == "mpi":
        return StagedTransport(comm.Dup(), device)
    if name == "mpi-cuda":
        safe, why = control.bcast(device_pointers_are_safe() if control.rank == 0 else None)
        if not safe:
            raise InputError(
                f"transport: 'mpi-cuda' needs an MPI that takes device pointers ({why}); "
                "allowed here: mpi, nccl, p2p"
            )
        return MPITransport(comm.Dup(), device, "mpi-cuda")
    if name in ("p2p", "auto"):
        from wavefabric.exchange.transports.p2p import P2PTransport

        on_this_host = set(local.allgather(control.rank))
        same_host = [peer in on_this_host for peer in range(control.size)]
        if name == "p2p" or all(control.all_gather(all(same_host))):
            transport = P2PTransport(control, device, same_host, StagedTransport(comm.Dup(), device))
            if name == "p2p" or transport.complete:
                return transport
    missing = nccl_missing()
    if missing is None:
        from wavefabric.exchange.transports.nccl import NCCLTransport

        return NCCLTransport(control, device)
    if name == "nccl":
        raise InputError(f"transport: 'nccl' cannot be used ({missing}); allowed here: mpi, p2p")
    return StagedTransport(comm.Dup(), device)


def nccl_missing() -> str | None:
    """Why NCCL cannot be used, None if it can."""
    try:
        from cupy.cuda import nccl
    except ImportError as error:
        return str(error).splitlines()[0]
    return None if getattr(nccl, "available", False) else "CuPy was installed without NCCL"


@lru_cache(maxsize=1)
def device_pointers_are_safe() -> tuple[bool, str]:
    """Whether MPI takes device pointers, or why not: tried in a process of its own, which may crash."""
    variables = {key: value for key, value in os.environ.items() if not key.startswith(_OF_RANKS)}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROBE], env=variables, capture_output=True, text=True, timeout=60
        )
    except subprocess.TimeoutExpired:
        return False, "a message of device memory did not arrive within a minute"
    if done.returncode == 0 and "safe" in done.stdout:
        return True, ""
    last = [line for line in done.stderr.strip().splitlines() if line.strip()]
    return False, f"a try ended with code {done.returncode}" + (f": {last[-1][:120]}" if last else "")
