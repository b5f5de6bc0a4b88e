"""What this machine offers to several ranks: transports, links between GPUs, who has which device."""

from __future__ import annotations

import socket
from typing import Any

from wavefabric.device.select import cuda_count
from wavefabric.errors import InputError, MissingExtra
from wavefabric.exchange import topology
from wavefabric.exchange.binding import bind_device
from wavefabric.exchange.launch import environment, mpiexec


def transports() -> dict[str, dict[str, Any]]:
    """Each transport: ``available``, and in ``detail`` its library or what is missing. Starts children."""
    gpus = cuda_count()
    found = {"mpi": _mpi()}
    for name, look in (("mpi-cuda", _mpi_cuda), ("nccl", _nccl), ("p2p", _p2p)):
        if not found["mpi"]["available"]:
            found[name] = _no("needs MPI to start with")
        else:
            found[name] = look(gpus) if gpus else _no("no CUDA device that can be used")
    return found


def _no(why: str) -> dict[str, Any]:
    return {"available": False, "detail": why}


def _yes(what: str) -> dict[str, Any]:
    return {"available": True, "detail": what}


def _mpi() -> dict[str, Any]:
    try:
        library = mpiexec.library()
        program = mpiexec.find(library)
    except (InputError, MissingExtra) as error:
        return _no(str(error))
    return _yes(f"{library.version}, mpi4py {library.mpi4py}, {program.name}")


def _mpi_cuda(gpus: int) -> dict[str, Any]:
    from wavefabric.exchange.transports.probe import device_pointers_are_safe

    safe, why = device_pointers_are_safe()
    return _yes("MPI takes device pointers") if safe else _no(f"MPI takes no device pointers ({why})")


def _nccl(gpus: int) -> dict[str, Any]:
    from wavefabric.exchange.transports.cuda_select import nccl_missing

    missing = nccl_missing()
    if missing is not None:
        return _no(missing)
    from cupy.cuda import nccl

    number = nccl.get_version()
    return _yes(f"NCCL {number // 10000}.{number // 100 % 100}.{number % 100}")


def _p2p(gpus: int) -> dict[str, Any]:
    from cupy.cuda import runtime

    pairs = [(a, b) for a in range(gpus) for b in range(gpus) if a != b]
    apart = [f"{a} and {b}" for a, b in pairs if a < b and not runtime.deviceCanAccessPeer(a, b)]
    if apart:
        return _no(f"GPUs without access to each other: {', '.join(apart)}")
    return _yes("all GPUs reach one another" if pairs else "one GPU, which ranks may share")


def links() -> dict[str, Any] | None:
    """Classes of links between the GPUs here, as rows; None where there are none."""
    try:
        found = topology.query()
    except InputError:
        return None
    return None if found is None else {"links": [list(row) for row in found.links], "numa": list(found.numa)}


def ranks(control) -> list[dict[str, Any]]:
    """Rank, host (a number, in order of appearance), device and CPU threads of all ranks; collective."""
    from wavefabric.system.machine import usable_threads

    device = bind_device(None, environment.local_rank())
    mine = {
        "rank": control.rank,
        "host": socket.gethostname(),
        "device": device.name,
        "threads": device.threads if device.name == "cpu" else usable_threads(),
    }
    table = control.all_gather(mine)
    hosts = list(dict.fromkeys(row["host"] for row in table))
    return [{**row, "host": hosts.index(row["host"])} for row in table]
