"""Read the environment variables that starters of ranks set (mpiexec, srun, `wavefabric run --ranks`)."""

import os
import re

from wavefabric.base.system.machine import usable_threads

#: Variables with rank, number of ranks, rank on this host, ranks on this host. Open MPI; MPICH's hydra, Intel
#: MPI, MVAPICH and srun with PMI; srun alone or with PMIx. Batch scripts have Slurm's SLURM_PROCID too, but
#: only srun sets the number of tasks of a *step*.
_STARTERS = (
    tuple(f"OMPI_COMM_WORLD_{name}" for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"),
)
_PREFIXES = ("PMI_", "PMIX_", "OMPI_COMM_WORLD_", "MPI_LOCAL")
#: Variables of batch systems, including a job's hosts: mpiexec would start ranks on all of them.
_BATCH = ("SLURM_", "PBS_", "LSB_", "PE_HOSTFILE")

#: Set by `wavefabric run --ranks` for its ranks.
RANKS = "WAVEFABRIC_RANKS"
PLACEMENT = "WAVEFABRIC_PLACEMENT"
THREADS = "WAVEFABRIC_THREADS"
FOLDER = "WAVEFABRIC_RECORDS"  # folder shared by launcher and ranks, see `rank_status`
TERMINAL = "WAVEFABRIC_TERMINAL"
PLAN = "WAVEFABRIC_PLAN"  # the plan that the ranks follow, JSON
#: Default protocol of exchanges over p2p, as ``NCCL_PROTO`` for NCCL.
PROTOCOL = "WAVEFABRIC_PROTOCOL"


def _number(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else None


def _starter() -> tuple[int | None, ...]:
    """Return rank, number of ranks, rank on this host, ranks on this host; None for each that is not set."""
    for names in _STARTERS:
        rank, size, *local = map(_number, names)
        if rank is not None and size is not None and rank < size:
            return rank, size, *local
    return (None,) * 4


def ranks() -> int:
    """Return the number of ranks that were started together, 1 if this process was started alone."""
    return _starter()[1] or 1


def rank() -> int:
    """Return the number of this rank, 0 if this process was started alone."""
    return _starter()[0] or 0


def local_rank() -> int:
    """Return the number of this rank among the ranks of its host, or if unknown among all ranks."""
    rank, _, local, _ = _starter()
    numbers = (local, _number("SLURM_LOCALID"), rank) if rank is not None else ()
    return next((number for number in numbers if number is not None), 0)


def local_size() -> int:
    """Return the number of ranks on this host; if that is unknown, the number of all ranks."""
    _, size, _, local = _starter()
    if size is None:
        return 1
    # Slurm's ``4(x2),3``: tasks per node.
    parts = re.findall(r"(\d+)(?:\(x(\d+)\))?", os.environ.get("SLURM_STEP_TASKS_PER_NODE", ""))
    counts = [int(tasks) for tasks, nodes in parts for _ in range(int(nodes or 1))]
    return local or next(iter(counts[_number("SLURM_NODEID") or 0 :]), size)


def expected_ranks() -> int | None:
    """Return the number of ranks that `wavefabric run --ranks` started; None if it started none."""
    return _number(RANKS)


def threads() -> int | None:
    """Return the CPU threads per rank that `wavefabric run --ranks` sets; None if not set."""
    return _number(THREADS) or None


def rank_threads() -> int:
    """Return the default CPU threads per rank: set by launcher or srun, else an equal part of the host's."""
    # srun binds a task to its CPUs: do not divide these again.
    chosen = threads() or min(_number("SLURM_CPUS_PER_TASK") or 0, usable_threads())
    return chosen or max(1, usable_threads() // local_size())


def without_ranks(variables: dict[str, str]) -> dict[str, str]:
    """Return environment variables without those about ranks and batch jobs, to start a new mpiexec here."""
    return {name: value for name, value in variables.items() if not name.startswith((*_PREFIXES, *_BATCH))}
