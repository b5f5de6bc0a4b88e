"""Whether MPI takes device pointers: tried in a process of its own, since one that does not would crash."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import lru_cache

# A message from a process to itself goes through the same layer as one to a peer.
_PROGRAM = """
import cupy
from mpi4py import MPI
a, b = cupy.arange(1 << 16, dtype=cupy.int32), cupy.zeros(1 << 16, cupy.int32)
cupy.cuda.get_current_stream().synchronize()
MPI.COMM_SELF.Sendrecv(a, 0, recvbuf=b, source=0)
assert (a == b).all()
print("safe")
"""
_ALONE = ("PMI_", "PMIX_", "PMI2_", "OMPI_COMM", "OMPI_UNIVERSE", "ORTE_", "OMPI_MCA_orte", "OMPI_MCA_ess",
          "HYDI_", "HYDRA_", "MPI_LOCAL", "SLURM_")  # fmt: skip


@lru_cache(maxsize=1)
def device_pointers_are_safe() -> tuple[bool, str]:
    """(True, "") or (False, why not); found once a process."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(_ALONE)}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM], env=environment, capture_output=True, text=True, timeout=60
        )
    except subprocess.TimeoutExpired:
        return False, "a message of device memory did not arrive within a minute"
    if done.returncode == 0 and "safe" in done.stdout:
        return True, ""
    last = [line for line in done.stderr.strip().splitlines() if line.strip()]
    why = f"a try ended with code {done.returncode}" + (f": {last[-1][:120]}" if last else "")
    return False, why
