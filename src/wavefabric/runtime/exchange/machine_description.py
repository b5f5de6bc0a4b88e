"""Describe this machine to a user: transports that work, links between GPUs, and each rank's device."""

import socket
from typing import Any

from wavefabric.base.errors import InputError
from wavefabric.base.system import gpu_topology
from wavefabric.base.system.machine import usable_threads
from wavefabric.runtime.device.select import cuda_count
from wavefabric.runtime.exchange.launch import environment
from wavefabric.runtime.exchange.placement import rank_device
from wavefabric.runtime.exchange.transports import TRANSPORTS, available


def transports() -> dict[str, dict[str, Any]]:
    """Return a dictionary from each transport's name to a dictionary with ``available`` and ``detail``.

    The detail is the library that the transport uses, or what is missing.
    """
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
    """Return a dictionary that says how the GPUs of this host are connected; None if that is unknown.

    ``links[i][j]`` is the class of link between GPUs i and j, ``numa[i]`` the NUMA node of GPU i.
    """
    try:
        topology = gpu_topology.query()
    except InputError:
        return None
    return topology and {"links": [list(row) for row in topology.links], "numa": list(topology.numa)}


def ranks(control) -> list[dict[str, Any]]:
    """Return for each rank its number, host, device, device identity and CPU threads; all ranks call this."""
    hosts = control.all_gather(socket.gethostname())
    device = rank_device(None, hosts[: control.rank].count(hosts[control.rank]))
    description = {
        "rank": control.rank,
        "host": list(dict.fromkeys(hosts)).index(hosts[control.rank]),
        "device": device.name,
        "identity": device.identity,
        "threads": environment.rank_threads() if device.name == "cpu" else usable_threads(),
    }
    return control.all_gather(description)
