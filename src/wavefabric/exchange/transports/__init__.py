"""Ways to move data between ranks: MPI from host memory, MPI from device memory, NCCL, peer copies.

A transport is a module with an `Exchange` and a `Transport` (`base.py`), and a line in `TRANSPORTS`.
May import `exchange` below the communicator, and alone CuPy and NCCL.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, NamedTuple

from wavefabric.errors import InputError

if TYPE_CHECKING:
    from wavefabric.exchange.transports.base import RankGroup, Transport


#: What kernels that wait for those of other ranks wait with; to be put before their source.
SIGNALS = f"{__name__}/signals.cu"
#: What kernels read sums through a switch with, and write to all ranks at once.
MULTIMEM = f"{__name__}/multimem.cu"


class TransportDescription(NamedTuple):
    """What tables call a transport, and its class (``module:class``) on CPUs and on GPUs where it serves."""

    label: str
    cpu: str = ""
    cuda: str = ""

    def on(self, device: str) -> str:
        """Its class on a device of this name, or nothing."""
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
    """Names of those that serve a device of this name, the fastest first."""
    return [name for name in reversed(TRANSPORTS) if TRANSPORTS[name].on(device)]


def available(name: str) -> tuple[bool, str]:
    """Whether this machine has what a transport needs, and its library or what is missing."""
    try:
        return resolve_name(TRANSPORTS[name].cpu or TRANSPORTS[name].cuda).available()
    except ImportError as error:
        return False, str(error).splitlines()[0]


def open_transport(name: str, group: RankGroup) -> Transport:
    """A transport by name; collective. `InputError` says why it cannot serve here."""
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
