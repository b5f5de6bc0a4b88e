"""Predicts how long a run's exchanges take on a fabric, for each transport and each order of the GPUs."""

from dataclasses import dataclass, replace
from functools import cached_property

from wavefabric.base.errors import InputError, choice
from wavefabric.collectives import Schedule, ring_all_gather
from wavefabric.collectives.structure import transfer_elements
from wavefabric.fabric.cost_models.alpha_beta import alpha_beta_seconds
from wavefabric.fabric.cost_models.cost import AnyFabric, cost
from wavefabric.fabric.electrical.fabric import Fabric, KernelTimes, TransportTimes
from wavefabric.fabric.planner.rates import SolverRates
from wavefabric.fabric.rank_order import best_order, depends_on_pair, reordered

#: Carriers of the data: transports, and (`SIGNALS`) kernels that store directly in other GPUs' memory.
SIGNALS = "p2p, signals"
CARRIERS = ("p2p", SIGNALS, "nccl", "mpi-cuda", "mpi")
#: How often each byte that a GPU sends or receives passes through its memory: NCCL copies via buffers.
_PASSES = {"nccl": 2.0}
#: Defaults for fabrics without these values, measured on two H200s: B/s through the memory of a host, and
#: seconds that a GPU is idle whenever its host waits for an exchange.
_HOST_BANDWIDTH, _OVERHEAD = 12e9, 40e-6
#: Seconds that Python needs to launch a kernel.
_HOST_LAUNCH = 10e-6


@dataclass(frozen=True)
class ExchangeTimes:
    """Computes the times of exchanges between ranks, over a transport or by one-sided kernels.

    ``carrier`` is one of `CARRIERS`. Rank r is GPU ``order[r]``, by default GPU r.
    """

    fabric: AnyFabric
    carrier: str
    order: tuple[int, ...] = ()

    def __post_init__(self):
        choice("transport", self.carrier, CARRIERS)
        if self.one_sided:
            _ = self.kernels

    @property
    def one_sided(self) -> bool:
        """Return whether kernels store directly in other GPUs' memory, without a transport."""
        return self.carrier == SIGNALS

    @property
    def kernels(self) -> KernelTimes:
        """Return the fabric's times of kernels; `InputError` if it has none."""
        kernels = self.fabric.kernels if isinstance(self.fabric, Fabric) else None
        if kernels is None:
            raise InputError(f"transport: {SIGNALS} given; {self.fabric.name} has no times of kernels")
        return kernels

    @cached_property
    def own(self) -> TransportTimes:
        """Return the fabric's data on the transport ``carrier``, or defaults if the fabric has none."""
        for each in self.fabric.transports if isinstance(self.fabric, Fabric) else ():
            if each.name == self.carrier:
                return each
        host = _HOST_BANDWIDTH if self.carrier == "mpi" else None
        waits = _OVERHEAD if self.carrier.startswith("mpi") else 0.0
        return TransportTimes(self.carrier, host_bandwidth=host, overhead=waits)

    @cached_property
    def carried(self) -> AnyFabric:
        """Return the fabric with the latency and bandwidth of ``carrier``, its GPUs in ``order``."""
        fabric, own = self.fabric, self.own
        if not isinstance(fabric, Fabric):
            return fabric
        changed = {key: getattr(own, key) for key in ("alpha", "flow_bandwidth")}
        fabric = replace(fabric, **{key: value for key, value in changed.items() if value is not None})
        if self.carrier != "p2p":  # remove what describes copy engines and copies launched by Python
            fabric = replace(fabric, round_overhead=0.0, peer_overhead=0.0, copy_bandwidth=None)
        return reordered(fabric, self.order) if self.order else fabric

    @property
    def passes(self) -> float:
        """Return how often each byte that a GPU sends or receives passes through the GPU's memory."""
        return _PASSES.get(self.carrier, 1.0)

    def seconds(self, schedule: Schedule, item: int) -> float:
        """Return the time in s of an exchange, ``item`` bytes per element, if all ranks start together."""
        if not schedule.transfers.size:
            return 0.0
        if self.one_sided:
            return self.wire(schedule, item) + self.kernels.signal
        if self.own.ring and schedule.name.endswith("all-gather"):
            return _seconds(ring_all_gather(schedule.sizes[0].max(axis=0)), self.carried, item)
        taken = _seconds(schedule, self.carried, item)
        if self.own.host_bandwidth is not None:
            away = schedule.transfers["src"] != schedule.transfers["dst"]
            total = float(transfer_elements(schedule)[away].sum()) * item
            taken = max(taken, self.carried.alpha + total / self.own.host_bandwidth)
        return taken

    def wire(self, schedule: Schedule, item: int) -> float:
        """Return the time in s in which links carry kernels' stores to other GPUs, without ``alpha``."""
        fabric, rate = self.carried, self.kernels.bandwidth
        assert isinstance(fabric, Fabric)
        stored = replace(fabric, alpha=0.0, flow_bandwidth=None, copy_bandwidth=rate)
        return _seconds(schedule, stored, item)

    def placed(self, schedule: Schedule, item: int) -> "ExchangeTimes":
        """Return a copy with the GPU order that makes ``schedule`` fastest, or ``self`` if none is faster."""
        carried, staged = self.carried, self.own.host_bandwidth is not None
        if staged or not depends_on_pair(carried) or not isinstance(carried, Fabric):
            return self
        order = best_order(schedule, carried, item)
        best = replace(self, order=tuple(order[: schedule.ranks]))
        same = order == tuple(range(self.fabric.ranks))
        return self if same or best.seconds(schedule, item) >= self.seconds(schedule, item) else best


def host_launch(exchange: ExchangeTimes | None, rates: SolverRates) -> float:
    """Return the seconds that Python needs to launch a kernel of a step; 0 on CPUs and in CUDA graphs."""
    graph = exchange is None or exchange.one_sided or rates.name == "cpu"
    return 0.0 if graph else _HOST_LAUNCH


def _seconds(schedule: Schedule, fabric: AnyFabric, item: int) -> float:
    if isinstance(fabric, Fabric):
        return alpha_beta_seconds(schedule, fabric, item)
    return cost(schedule, fabric, item).seconds
