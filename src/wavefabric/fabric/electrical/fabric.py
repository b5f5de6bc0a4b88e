"""Defines an electrical fabric: GPUs, switches, and links that carry packets."""

from dataclasses import dataclass
from typing import Annotated

# Numbers annotated with the unit used in fabric files.
Seconds = Annotated[float, "s"]
Bandwidth = Annotated[float, "B/s"]
#: How a transfer uses switches that are equally close: all of them at once, or one that a hash chooses.
MULTIPATH = ("split", "ecmp")


@dataclass(frozen=True)
class Link:
    """A one-way link from one node (a GPU or switch) to a neighbour."""

    source: str
    target: str
    bandwidth: float  # B/s
    latency: float = 0.0  # s, in addition to `Fabric.alpha`
    #: "nvlink", "pcie", "qpi", "network", …; parallel routes split bytes over links of one kind only.
    kind: str = "wire"


@dataclass(frozen=True)
class KernelTimes:
    """Holds times of kernels that run execution plans (`wavefabric.collectives.plans`)."""

    launch: Seconds  # overhead per call in a CUDA graph
    signal: Seconds  # from sending a signal until the block of another GPU that waits for it resumes
    packet: Seconds  # from sending a packet until a block that waits for its flags resumes
    bandwidth: Bandwidth  # of stores to another GPU
    memory: Bandwidth  # of reads plus writes of a GPU's own memory
    issue: Seconds = 0.0  # per call, for a host that launches repeatedly
    gap: Seconds = 0.0  # between calls launched by hosts, in addition to the gap in a graph
    move: Seconds = 0.0  # before the first byte of a move that waited for a signal


@dataclass(frozen=True)
class TransportTimes:
    """Holds latency, bandwidth and overhead of a transport.

    If ``alpha`` or ``flow_bandwidth`` is None, the value of the fabric holds.
    """

    name: str  # one of `wavefabric.runtime.exchange.transports.TRANSPORTS`
    alpha: Seconds | None = None  # per round
    flow_bandwidth: Bandwidth | None = None  # limit of a single transfer
    #: Total rate of all ranks of a host through the host's memory; None: data do not pass through it.
    host_bandwidth: Bandwidth | None = None
    overhead: Seconds = 0.0  # idle time of a GPU whenever its host waits for an exchange
    ring: bool = False  # whether an all-gather uses a ring instead of direct sends


@dataclass(frozen=True)
class Fabric:
    """An electrical fabric: GPUs, switches, and the links between them, which transfers share."""

    name: str
    gpus: tuple[str, ...]  # rank r is ``gpus[r]``
    switches: tuple[str, ...]  # nodes that only forward, including PCIe bridges and CPU sockets
    links: tuple[Link, ...]  # directed; bandwidths of parallel links add up
    alpha: Seconds  # latency of any transfer before its first byte
    copy_bandwidth: Bandwidth | None = None  # total rate at which a GPU sends, or receives; None: no limit
    flow_bandwidth: Bandwidth | None = None  # limit of a single transfer; None: no limit
    #: Whether data may pass through other GPUs (without using their memory, as on a torus whose nodes route).
    forwards: bool = False
    description: str = ""
    source: str = ""  # origin of the numbers, for people
    #: Rate at which a GPU adds received data, or copies within itself, after a transfer; None: instantly.
    reduce_bandwidth: Bandwidth | None = None
    reduce_alpha: Seconds = 0.0  # latency of each addition of received data, or copy within a GPU
    # Time in which a host issues a round that its GPU takes part in, each further peer sent to in the round,
    # and each addition or copy within the GPU. Hosts run ahead of their GPUs: the sum is a lower bound of a
    # schedule's time, not an addition to it.
    round_overhead: Seconds = 0.0
    peer_overhead: Seconds = 0.0
    reduce_overhead: Seconds = 0.0
    kernels: KernelTimes | None = None  # for schedules run as one kernel per GPU
    transports: tuple[TransportTimes, ...] = ()  # for exchanges other than peer copies
    #: GPUs in the order of their numbers in the machine, which decides between routes that are equally good
    #: (`wavefabric.fabric.rank_order.reordered` sets it); empty: the order of `gpus`.
    numbering: tuple[str, ...] = ()
    #: Switches that multicast and reduce (NVLink SHARP, SHARP): one write reaches many, one read sums many.
    multicast_switches: tuple[str, ...] = ()
    multipath: str = MULTIPATH[0]

    @property
    def ranks(self) -> int:
        """Return the number of GPUs."""
        return len(self.gpus)
