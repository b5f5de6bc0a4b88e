"""What this machine offers to several ranks: transports, links between GPUs, who has which device."""

from __future__ import annotations

import itertools
import socket
from typing import Any

from wavefabric.device.select import cuda_count
from wavefabric.errors import InputError, MissingExtra
from wavefabric.exchange.launch import environment, mpiexec
from wavefabric.exchange.placement import rank_device
from wavefabric.exchange.transports import TRANSPORTS
from wavefabric.exchange.transports.select import device_pointers_are_safe, nccl_missing
from wavefabric.system import gpu_topology
from wavefabric.system.machine import usable_threads


def transports() -> dict[str, dict[str, Any]]:
    """Each transport: ``available``, and in ``detail`` its library or what is missing. Starts children."""
    gpus = cuda_count()
    looks = {"mpi-cuda": _mpi_cuda, "nccl": _nccl, "p2p": lambda: _p2p(gpus)}
    available, detail = _mpi()
    rows = {"mpi": (available, detail)}
    for name in list(TRANSPORTS)[2:]:
        if not available:
            rows[name] = False, "needs MPI to start with"
        else:
            rows[name] = looks[name]() if gpus else (False, "no CUDA device that can be used")
    return {name: {"available": yes, "detail": text} for name, (yes, text) in rows.items()}


def _mpi() -> tuple[bool, str]:
    try:
        library = mpiexec.library()
        program = mpiexec.find(library)
    except (InputError, MissingExtra) as error:
        return False, str(error)
    return True, f"{library.version}, mpi4py {library.mpi4py}, {program.name}"


def _mpi_cuda() -> tuple[bool, str]:
    safe, why = device_pointers_are_safe()
    return safe, "MPI takes device pointers" if safe else f"MPI takes no device pointers ({why})"


def _nccl() -> tuple[bool, str]:
    missing = nccl_missing()
    if missing is not None:
        return False, missing
    from wavefabric.exchange.transports.nccl import library_version

    return True, f"NCCL {library_version()}"


def _p2p(gpus: int) -> tuple[bool, str]:
    from cupy.cuda import runtime

    pairs = itertools.combinations(range(gpus), 2)
    apart = [f"{a} and {b}" for a, b in pairs if not runtime.deviceCanAccessPeer(a, b)]
    if apart:
        return False, f"GPUs without access to each other: {', '.join(apart)}"
    return True, "all GPUs reach one another" if gpus > 1 else "one GPU, which ranks may share"


def links() -> dict[str, Any] | None:
    """Classes of links between the GPUs here, as rows; None where there are none."""
    try:
        topology = gpu_topology.query()
    except InputError:
        return None
    return topology and {"links": [list(row) for row in topology.links], "numa": list(topology.numa)}


def ranks(control) -> list[dict[str, Any]]:
    """Rank, host (a number, in order of appearance), device and CPU threads of all ranks; collective."""
    device = rank_device(None, environment.local_rank())
    mine = {
        "rank": control.rank,
        "host": socket.gethostname(),
        "device": device.name,
        "threads": device.threads if device.name == "cpu" else usable_threads(),
    }
    table = control.all_gather(mine)
    hosts = list(dict.fromkeys(row["host"] for row in table))
    return [{**row, "host": hosts.index(row["host"])} for row in table]
