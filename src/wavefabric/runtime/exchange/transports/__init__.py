"""Move data between ranks: by MPI from host or device memory, by NCCL, or by peer access between GPUs.

A transport is a module with an `Exchange` and a `Transport` (`base.py`), and a line in `TRANSPORTS`. It does
not import the communicator. In `exchange` only transports import CuPy and NCCL.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, NamedTuple

from wavefabric.base.errors import InputError

if TYPE_CHECKING:
    from wavefabric.runtime.exchange.transports.base import RankGroup, Transport


#: CUDA source for kernels that wait for kernels of other ranks; compiled before their own source.
SIGNALS = f"{__name__}/signals.cu"
#: CUDA source for kernels that read sums through a switch and write to all ranks at once.
MULTIMEM = f"{__name__}/multimem.cu"


class TransportDescription(NamedTuple):
    """Describes a transport: its label in tables, and its classes for CPUs and for GPUs.

    A class is written ``module:class``; it is empty if the transport does not serve such devices.
    """

    label: str
    cpu: str = ""
    cuda: str = ""

    def on(self, device: str) -> str:
        """Return ``"module:Class"`` of the transport for a device such as "cuda:0", or "" without one."""
        return self.cpu if device == "cpu" else self.cuda


#: Transports by name, the fastest last.
TRANSPORTS = {
    "auto": TransportDescription("automatic"),
    "mpi": TransportDescription(
        "MPI", f"{__name__}.mpi:MPITransport", f"{__name__}.mpi_staged:StagedTransport"
    ),
    "mpi-cuda": TransportDescription("MPI, device memory", cuda=f"{__name__}.mpi:DeviceMPITransport"),
    "nccl": TransportDescription("NCCL", cuda=f"{__name__}.nccl:NCCLTransport"),
    "p2p": TransportDescription("P2P", cuda=f"{__name__}.p2p:P2PTransport"),
}


def serving(device: str) -> list[str]:
    """Return the names of the transports for devices such as "cpu" or "cuda:0", the fastest first."""
    return [name for name in reversed(TRANSPORTS) if TRANSPORTS[name].on(device)]


def available(name: str) -> tuple[bool, str]:
    """Return whether this machine supports a transport and, as text, the library or what is missing."""
    try:
        return resolve_name(TRANSPORTS[name].cpu or TRANSPORTS[name].cuda).available()
    except ImportError as error:
        return False, str(error).splitlines()[0]


def open_transport(name: str, group: RankGroup) -> Transport:
    """Open the transport ``name``, or for "auto" the fastest one, between all ranks of ``group``.

    All ranks make this call. `InputError` says why the transport cannot serve these ranks.
    """
    device = group.device.name
    if len(set(group.control.all_gather(device == "cpu"))) > 1:
        raise InputError("device: some ranks have a GPU and some do not; allowed: all alike")
    names = serving(device)
    if name != "auto" and name not in names:
        raise InputError(f"transport: {name!r} needs GPUs; allowed on CPUs: {', '.join(names)}")
    why = "no other serves all ranks"
    for each in names if name == "auto" else [name]:
        try:
            result = resolve_name(TRANSPORTS[each].on(device))
            opened = result.automatic(group) if name == "auto" else result.open(group)
        except ImportError as error:
            opened, why = None, str(error).splitlines()[0]
        if opened is not None:
            return opened
    raise InputError(f"transport: {name!r} cannot be used ({why}); allowed: others of {', '.join(names)}")
