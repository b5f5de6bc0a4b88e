"""Find the mpiexec that belongs to mpi4py's MPI, and build its command line; `launcher` starts it."""

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from wavefabric.base.errors import InputError, MissingExtra

#: Run in a child: importing mpi4py.MPI here would initialise MPI in the process that starts the ranks.
_ASK = """\
import json, mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
print(json.dumps([MPI.get_vendor()[0], MPI.Get_library_version(), mpi4py.__version__]))
"""
#: Words that identify an MPI or its mpiexec. Intel MPI and MVAPICH start ranks as MPICH does.
_FAMILIES = {
    "Open MPI": ("open mpi", "openmpi", "openrte", "open-mpi", "prterun", "spectrum"),
    "MPICH": ("mpich", "hydra", "intel", "mvapich"),
}


class MPILibrary(NamedTuple):
    """Describes an MPI library: family (``"MPICH"`` or ``"Open MPI"``), its version, and mpi4py's version."""

    family: str
    version: str
    mpi4py: str


@cache
def library() -> MPILibrary:
    """Return the MPI library of mpi4py, found by a child process; `InputError` if it cannot be loaded.

    `MissingExtra` without mpi4py.
    """
    if find_spec("mpi4py") is None:
        raise MissingExtra("more than one rank", "mpi")
    try:
        vendor, version, package = json.loads(_captured_run(sys.executable, "-c", _ASK).stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        allowed = "pip install 'wavefabric[mpi]', or mpi4py built for the MPI of this machine"
        raise InputError(f"mpi4py: it cannot load an MPI library; allowed: {allowed}") from None
    first = " ".join(version.split("\n")[0].strip("\0 ").split())
    name = first.split(", package")[0].replace(" Version:", "")
    return MPILibrary(_family(f"{vendor} {first}"), name, package)


def _family(text: str) -> str:
    known = (family for family, names in _FAMILIES.items() if any(name in text.lower() for name in names))
    return next(known, text.split(" ")[0])


def find(library: MPILibrary) -> Path:
    """Return the path of an mpiexec that belongs to ``library``: next to Python (MPI wheels) or on PATH.

    `MissingExtra` if there is no mpiexec, `InputError` if all that were found belong to another MPI.
    """
    other_libraries: list[str] = []
    folders = [str(Path(sys.executable).parent), *os.environ.get("PATH", "").split(os.pathsep)]
    for folder in dict.fromkeys(filter(None, folders)):
        for path in filter(None, (shutil.which(name, path=folder) for name in ("mpiexec", "mpirun"))):
            family = _family_of(path)
            if family == library.family:
                return Path(path)
            other_libraries.append(f"{path} ({family})")
    if not other_libraries:
        raise MissingExtra("mpiexec, which starts more than one rank,", "mpi")
    actual = f"mpi4py uses {library.version}, but {', '.join(dict.fromkeys(other_libraries))} given"
    raise InputError(f"mpiexec: {actual}; allowed: the mpiexec of mpi4py's MPI beside Python or on PATH")


def _captured_run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program and arguments ``arguments``, and capture the output."""
    return subprocess.run(arguments, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)


def _family_of(path: str) -> str:
    try:
        done = _captured_run(path, "--version")
    except (OSError, subprocess.TimeoutExpired):
        return "not usable"
    return _family(" ".join((done.stdout + done.stderr).split())) or "unknown"


def command(ranks: int, transport: str, variables: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return mpiexec's command line, up to the program of the ranks, and environment. Errors as for `find`.

    For the transport ``"mpi-cuda"`` Open MPI uses UCX on device memory.
    """
    mpiexec, variables, options = find(library()), dict(variables), []
    if library().family == "Open MPI":
        if os.geteuid() == 0:
            variables |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        options = ["--oversubscribe", "--bind-to", "none"]
        if transport == "mpi-cuda":
            # Libraries of the ``libucx`` wheel, and its CUDA plug-ins.
            package = find_spec("libucx")
            roots = (package.submodule_search_locations if package else None) or []
            own = next((f"{root}/lib:{root}/lib/ucx" for root in roots if Path(root, "lib").is_dir()), "")
            if folders := [*filter(None, (own, variables.get("LD_LIBRARY_PATH")))]:
                variables["LD_LIBRARY_PATH"] = os.pathsep.join(folders)
                options += ["-x", "LD_LIBRARY_PATH"]
            options += ["--mca", "pml", "ucx"]
            options += ["--mca", "opal_common_ucx_devices", "any", "--mca", "opal_common_ucx_tls", "any"]
    return [str(mpiexec), *options, "-n", str(ranks)], variables
