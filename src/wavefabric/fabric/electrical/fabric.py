"""A fabric of GPUs, switches and links that carry packets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """A way from one node (a GPU or switch) to a neighbour, in one direction."""

    source: str
    target: str
    bandwidth: float  # B/s
    latency: float = 0.0  # s, added to what a transfer costs anyway (`Fabric.alpha`)
    kind: str = "wire"  # "nvlink", "pcie", "qpi", "network", …: a word for tables and pictures


@dataclass(frozen=True)
class KernelTimes:
    """What kernels that run execution plans (`wavefabric.collectives.plans`) take; s and B/s."""

    launch: float  # from one call to the next beside what it does, in a CUDA graph
    signal: float  # until a block of another GPU that waits for it goes on
    packet: float  # the same of the flags in a packet
    bandwidth: float  # of stores to another GPU
    memory: float  # of a GPU's own memory, what is read and written together
    issue: float = 0.0  # that a host needs to launch one call after another


@dataclass(frozen=True)
class Fabric:
    """An electrical fabric: transfers share links.

    Parameters
    ----------
    name, description, source : str
        For people; `source` says where the numbers are from.
    gpus, switches : tuple of str
        Rank r is ``gpus[r]``. Switches are nodes that only pass on: also PCIe bridges, CPU sockets.
    links : tuple of Link
        Directed; several between the same two nodes add up.
    alpha : float
        s, what any transfer costs before its first byte moves.
    copy_bandwidth, flow_bandwidth : float or None
        B/s, what a GPU can send, and what it can receive, in all; the most that a single transfer reaches,
        however fast the links are. None: no such limit.
    forwards : bool
        Whether data may pass through other GPUs (not through their memory: as on a torus whose nodes route).
    reduce_bandwidth : float or None
        B/s at which a GPU adds what it received, or copies within itself, after a transfer; None: at once.
    reduce_alpha : float
        s, what each such addition or copy costs before its first byte.
    round_overhead, peer_overhead, reduce_overhead : float
        s that a host takes to issue a round that its GPU takes part in, to send to each further peer in it,
        and each addition or copy within the GPU. Hosts run ahead of their GPUs: a schedule takes at least the
        sum, but it is not added to the rest.
    kernels : KernelTimes or None
        Of schedules run as one kernel a GPU.
    numbering : tuple of str
        GPUs in the order of their numbers in the machine, by which it picks among routes that are equally
        good (`wavefabric.fabric.rank_order.reordered` sets it); empty: the order of `gpus`.
    """

    name: str
    gpus: tuple[str, ...]
    switches: tuple[str, ...]
    links: tuple[Link, ...]
    alpha: float
    copy_bandwidth: float | None = None
    flow_bandwidth: float | None = None
    forwards: bool = False
    description: str = ""
    source: str = ""
    reduce_bandwidth: float | None = None
    reduce_alpha: float = 0.0
    round_overhead: float = 0.0
    peer_overhead: float = 0.0
    reduce_overhead: float = 0.0
    kernels: KernelTimes | None = None
    numbering: tuple[str, ...] = ()

    @property
    def ranks(self) -> int:
        """Number of GPUs."""
        return len(self.gpus)
