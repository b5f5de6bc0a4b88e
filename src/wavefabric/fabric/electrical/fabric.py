"""A fabric of GPUs, switches and links that carry packets."""

from dataclasses import dataclass
from typing import Annotated

# Numbers with their unit, in which files of fabrics have them.
Seconds = Annotated[float, "s"]
Bandwidth = Annotated[float, "B/s"]


@dataclass(frozen=True)
class Link:
    """A way from one node (a GPU or switch) to a neighbour, in one direction."""

    source: str
    target: str
    bandwidth: float  # B/s
    latency: float = 0.0  # s, added to what a transfer costs anyway (`Fabric.alpha`)
    #: "nvlink", "pcie", "qpi", "network", …: for tables and pictures, and which links share bytes as equals.
    kind: str = "wire"


@dataclass(frozen=True)
class KernelTimes:
    """What kernels that run execution plans (`wavefabric.collectives.plans`) take."""

    launch: Seconds  # from one call to the next beside what it does, in a CUDA graph
    signal: Seconds  # until a block of another GPU that waits for it goes on
    packet: Seconds  # the same of the flags in a packet
    bandwidth: Bandwidth  # of stores to another GPU
    memory: Bandwidth  # of a GPU's own memory, what is read and written together
    issue: Seconds = 0.0  # that a host needs to launch one call after another
    gap: Seconds = 0.0  # from one call to the next where hosts launch them, beyond that in a graph
    move: Seconds = 0.0  # before the first byte of a move of what a signal announced


@dataclass(frozen=True)
class TransportTimes:
    """What a transport other than peer copies reaches on a fabric; None: as peer copies do."""

    name: str  # of `wavefabric.exchange.transports.TRANSPORTS`
    alpha: Seconds | None = None  # of a round
    flow_bandwidth: Bandwidth | None = None  # of a single transfer
    #: That all ranks of a host together bring through its memory; None: data do not go there.
    host_bandwidth: Bandwidth | None = None
    overhead: Seconds = 0.0  # that a GPU stands still whenever its host waits for an exchange
    ring: bool = False  # whether an all-gather goes round a ring instead of straight to all


@dataclass(frozen=True)
class Fabric:
    """An electrical fabric: transfers share links."""

    name: str
    gpus: tuple[str, ...]  # rank r is ``gpus[r]``
    switches: tuple[str, ...]  # nodes that only pass on: also PCIe bridges, CPU sockets
    links: tuple[Link, ...]  # directed; several between the same two nodes add up
    alpha: Seconds  # what any transfer costs before its first byte moves
    copy_bandwidth: Bandwidth | None = None  # that a GPU can send, and receive, in all; None: no such limit
    flow_bandwidth: Bandwidth | None = None  # that a single transfer reaches, however fast the links are
    #: Whether data may pass through other GPUs (not through their memory: as on a torus whose nodes route).
    forwards: bool = False
    description: str = ""
    source: str = ""  # where the numbers are from, for people
    #: At which a GPU adds what it received, or copies within itself, after a transfer; None: at once.
    reduce_bandwidth: Bandwidth | None = None
    reduce_alpha: Seconds = 0.0  # what each such addition or copy costs before its first byte
    # What a host takes to issue a round that its GPU takes part in, to send to each further peer in it, and
    # each addition or copy within the GPU. Hosts run ahead of their GPUs: a schedule takes at least the sum,
    # but it is not added to the rest.
    round_overhead: Seconds = 0.0
    peer_overhead: Seconds = 0.0
    reduce_overhead: Seconds = 0.0
    kernels: KernelTimes | None = None  # of schedules run as one kernel a GPU
    transports: tuple[TransportTimes, ...] = ()  # of exchanges that are no peer copies
    #: GPUs in the order of their numbers in the machine, by which it picks among routes that are equally good
    #: (`wavefabric.fabric.rank_order.reordered` sets it); empty: the order of `gpus`.
    numbering: tuple[str, ...] = ()
    #: Switches that multicast and add up (NVLink SHARP, SHARP): one write reaches many, one read sums many.
    multicast_switches: tuple[str, ...] = ()

    @property
    def ranks(self) -> int:
        """Number of GPUs."""
        return len(self.gpus)
