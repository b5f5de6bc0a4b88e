"""What this machine offers to several ranks: transports, links between GPUs, who has which device."""

import socket
from typing import Any

from wavefabric.device.select import cuda_count
from wavefabric.errors import InputError
from wavefabric.exchange.launch import environment
from wavefabric.exchange.placement import rank_device
from wavefabric.exchange.transports import TRANSPORTS, available
from wavefabric.system import gpu_topology
from wavefabric.system.machine import usable_threads


def transports() -> dict[str, dict[str, Any]]:
    """Each transport: ``available``, and in ``detail`` its library or what is missing. Starts children."""
    gpus, rows = cuda_count(), {"mpi": available("mpi")}
    for name, description in list(TRANSPORTS.items())[2:]:
        if not rows["mpi"][0]:
            rows[name] = False, "needs MPI to start with"
        elif not gpus and not description.cpu:
            rows[name] = False, "no CUDA device that can be used"
        else:
            rows[name] = available(name)
    return {name: {"available": yes, "detail": text} for name, (yes, text) in rows.items()}


def links() -> dict[str, Any] | None:
    """Classes of links between the GPUs here, as rows; None where there are none."""
    try:
        topology = gpu_topology.query()
    except InputError:
        return None
    return topology and {"links": [list(row) for row in topology.links], "numa": list(topology.numa)}


def ranks(control) -> list[dict[str, Any]]:
    """Rank, host (a number, in order of appearance), device, its identity, CPU threads; collective."""
    hosts = control.all_gather(socket.gethostname())
    device = rank_device(None, hosts[: control.rank].count(hosts[control.rank]))
    mine = {
        "rank": control.rank,
        "host": list(dict.fromkeys(hosts)).index(hosts[control.rank]),
        "device": device.name,
        "identity": device.identity,
        "threads": environment.rank_threads() if device.name == "cpu" else usable_threads(),
    }
    return control.all_gather(mine)
