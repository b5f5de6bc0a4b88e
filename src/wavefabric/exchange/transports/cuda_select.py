"""The transport for ranks with GPUs."""

from __future__ import annotations

from wavefabric.errors import InputError
from wavefabric.exchange.transports.base import Transport
from wavefabric.exchange.transports.probe import device_pointers_are_safe


def make_cuda_transport(name: str, comm, control, local, device) -> Transport:
    """Make a transport by name; collective.

    Parameters
    ----------
    name : str
        Of `wavefabric.exchange.TRANSPORTS`.
    comm, local : mpi4py.MPI.Comm
        All ranks, and those of this host.
    control : Control
    device : Device

    Raises
    ------
    InputError
        If the transport cannot serve here; the line says why.
    """
    from wavefabric.exchange.transports.staged import StagedTransport

    if name == "mpi":
        return StagedTransport(comm.Dup(), device)
    if name == "mpi-cuda":
        safe, why = control.bcast(device_pointers_are_safe() if control.rank == 0 else None)
        if not safe:
            raise InputError(
                f"transport: 'mpi-cuda' needs an MPI that takes device pointers ({why}); "
                "allowed here: mpi, nccl, p2p"
            )
        from wavefabric.exchange.transports.mpi import MPITransport

        return MPITransport(comm.Dup(), device, "mpi-cuda")
    if name in ("p2p", "auto"):
        from wavefabric.exchange.transports.p2p import P2PTransport

        mates = set(local.allgather(control.rank))
        same = [peer in mates for peer in range(control.size)]
        if name == "p2p" or all(control.all_gather(all(same))):
            made = P2PTransport(control, device, same, StagedTransport(comm.Dup(), device))
            if name == "p2p" or made.complete:
                return made
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
