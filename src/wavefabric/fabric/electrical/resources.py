"""What transfers share on an electrical fabric: wires, and what a GPU can send and receive in all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wavefabric.collectives.arguments import ragged
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.structure import transfer_elements
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.electrical.routing import static_routes


@dataclass(frozen=True, eq=False)
class ResourceUse:
    """Resources that each of a number of pairs of GPUs uses.

    Resources are numbered: wires, then what each GPU sends, then what each receives.
    """

    fabric: Fabric
    pair: np.ndarray  # shape (uses,), ascending
    resource: np.ndarray  # shape (uses,)
    capacity: np.ndarray  # B/s of each resource, infinite where the fabric has no such limit
    latency: np.ndarray  # s of the route of each pair

    def of(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Resources of any pairs, which may repeat: indices into `pairs`, ascending, and resources."""
        first = np.searchsorted(self.pair, np.arange(self.latency.size + 1))
        count = np.diff(first)[pairs]
        which, within = ragged(count)
        return which, self.resource[first[pairs][which] + within]

    def name(self, resource: int) -> str:
        """A resource in words."""
        f = self.fabric
        w = static_routes(f).wires
        if resource < w.source.size:
            names = (*f.gpus, *f.switches)
            return f"link {names[w.source[resource]]} -> {names[w.target[resource]]}"
        gpu, receives = resource - w.source.size, resource - w.source.size >= f.ranks
        return f"{f.gpus[gpu % f.ranks]} {'receives' if receives else 'sends'}"


def resource_use(fabric: Fabric, src: np.ndarray, dst: np.ndarray) -> ResourceUse:
    """Resources of pairs of GPUs by the static routes; `InputError` if a pair has no route."""
    routes = static_routes(fabric)
    pair, wire = routes.wires_of(src, dst)
    latency = np.bincount(pair, routes.wires.latency[wire], len(src))
    capacity = routes.wires.bandwidth
    if fabric.copy_bandwidth is not None:
        n, first = np.arange(len(src)), capacity.size
        pair = np.concatenate((pair, n, n))
        wire = np.concatenate((wire, first + np.asarray(src), first + fabric.ranks + np.asarray(dst)))
        order = np.argsort(pair, kind="stable")
        pair, wire = pair[order], wire[order]
        capacity = np.concatenate((capacity, np.full(2 * fabric.ranks, fabric.copy_bandwidth)))
    return ResourceUse(fabric, pair, wire, capacity, latency)


def transfer_bytes(schedule: Schedule, element_bytes: float) -> np.ndarray:
    """Bytes of each transfer: shape (transfers,)."""
    return transfer_elements(schedule) * float(element_bytes)
