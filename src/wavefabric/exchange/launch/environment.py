"""What the starter of ranks (mpiexec, mpirun, srun, `wavefabric run --ranks`) left in the environment."""

from __future__ import annotations

import os
import re
from typing import NamedTuple


class _Starter(NamedTuple):
    rank: str
    size: str
    local_rank: str
    local_size: str


#: Open MPI; MPICH's hydra, Intel MPI, MVAPICH and srun with PMI; srun alone or with PMIx. Slurm's own
#: SLURM_PROCID is set in batch scripts too; the number of tasks of a *step* only where srun started them.
_STARTERS = (
    _Starter(
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    _Starter("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    _Starter("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"),
)

#: Set by `wavefabric run --ranks` for its ranks.
RANKS = "WAVEFABRIC_RANKS"
TRANSPORT = "WAVEFABRIC_TRANSPORT"
PLACEMENT = "WAVEFABRIC_PLACEMENT"
THREADS = "WAVEFABRIC_THREADS"
RECORDS = "WAVEFABRIC_RECORDS"
TERMINAL = "WAVEFABRIC_TERMINAL"

_PREFIXES = ("PMI_", "PMIX_", "OMPI_COMM_WORLD_", "MPI_LOCAL")


def _number(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else None


def _starter() -> _Starter | None:
    for starter in _STARTERS:
        rank, size = _number(starter.rank), _number(starter.size)
        if rank is not None and size is not None and rank < size:
            return starter
    return None


def ranks() -> int:
    """Number of ranks that were started together, 1 if this process was started alone."""
    starter = _starter()
    return (starter and _number(starter.size)) or 1


def rank() -> int:
    """Number of this rank, 0 if alone."""
    starter = _starter()
    return (starter and _number(starter.rank)) or 0


def local_rank() -> int:
    """Number of this rank among those of its host; its rank where the starter does not say."""
    starter = _starter()
    if starter is None:
        return 0
    for name in (starter.local_rank, "SLURM_LOCALID"):
        if (found := _number(name)) is not None:
            return found
    return rank()


def local_size() -> int:
    """Ranks on this host; all of them where the starter does not say."""
    starter = _starter()
    if starter is None:
        return 1
    found = _number(starter.local_size)
    if found is None:
        found = _tasks_here(os.environ.get("SLURM_STEP_TASKS_PER_NODE", ""), _number("SLURM_NODEID") or 0)
    return found or ranks()


def _tasks_here(text: str, node: int) -> int | None:
    """Tasks of a node, from Slurm's ``4(x2),3``."""
    counts: list[int] = []
    for word in filter(None, text.split(",")):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", word)
        if match is None:
            return None
        counts += [int(match[1])] * int(match[2] or 1)
    return counts[node] if node < len(counts) else None


def expected_ranks() -> int | None:
    """Ranks that `wavefabric run --ranks` started, None without it."""
    return _number(RANKS)


def without_ranks(environment: dict[str, str]) -> dict[str, str]:
    """An environment for a new mpiexec: nothing in it says that this process is a rank of an older one."""
    names = {name for starter in _STARTERS[1:] for name in starter}
    return {
        name: value
        for name, value in environment.items()
        if name not in names and not name.startswith(_PREFIXES)
    }
