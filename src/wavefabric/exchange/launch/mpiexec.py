"""Find the mpiexec that belongs to mpi4py's MPI, and know how to call it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from wavefabric.errors import InputError, MissingExtra

_NAMES = ("mpiexec", "mpirun")
_SECONDS = 60

#: In a child: importing mpi4py.MPI here would initialise MPI in the process that starts the ranks.
_ASK = """\
import json, mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
print(json.dumps([MPI.get_vendor()[0], MPI.Get_library_version(), mpi4py.__version__]))
"""


@dataclass(frozen=True)
class Library:
    """The MPI that mpi4py uses: its family (``"MPICH"`` or ``"Open MPI"``), name and version in words."""

    family: str
    version: str
    mpi4py: str


def library() -> Library:
    """Ask a child process which MPI mpi4py uses.

    Raises
    ------
    MissingExtra
        Without mpi4py.
    InputError
        If mpi4py cannot load its MPI.
    """
    if find_spec("mpi4py") is None:
        raise MissingExtra("more than one rank", "mpi")
    try:
        done = subprocess.run(
            [sys.executable, "-c", _ASK], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        vendor, version, package = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        raise InputError(
            "mpi4py: it cannot load an MPI library; allowed: pip install 'wavefabric[mpi]', or mpi4py "
            "built for the MPI of this machine"
        ) from None
    first = " ".join(version.split("\n")[0].strip("\0 ").split())
    words = first.split(", package")[0].replace(" Version:", "")
    return Library(_family(f"{vendor} {first}"), words, package)


def _family(text: str) -> str:
    # Intel MPI and MVAPICH start ranks as MPICH does.
    words = text.lower()
    if any(name in words for name in ("open mpi", "openmpi", "openrte", "open-mpi", "prterun", "spectrum")):
        return "Open MPI"
    if any(name in words for name in ("mpich", "hydra", "intel", "mvapich")):
        return "MPICH"
    return text.split(" ")[0]


def find(wanted: Library) -> Path:
    """The mpiexec of an MPI: beside this Python first (the wheels of MPICH and Open MPI), then on PATH.

    Raises
    ------
    MissingExtra
        If there is none at all.
    InputError
        If those there are belong to another MPI.
    """
    seen: list[str] = []
    folders = [str(Path(sys.executable).parent), *os.environ.get("PATH", "").split(os.pathsep)]
    for folder in dict.fromkeys(filter(None, folders)):
        for name in _NAMES:
            path = shutil.which(name, path=folder)
            if path is None:
                continue
            family = _family_of(path)
            if family == wanted.family:
                return Path(path)
            seen.append(f"{path} ({family})")
    if not seen:
        raise MissingExtra("mpiexec, which starts more than one rank,", "mpi")
    raise InputError(
        f"mpiexec: mpi4py uses {wanted.version}, but {', '.join(dict.fromkeys(seen))} given; allowed: the "
        "mpiexec of mpi4py's MPI beside Python or on PATH"
    )


def _family_of(path: str) -> str:
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=_SECONDS, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return "not usable"
    return _family(" ".join((done.stdout + done.stderr).split())) or "unknown"


def command(
    mpiexec: Path, family: str, ranks: int, transport: str, environment: dict[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Words and environment that start ranks; the ranks' own command goes behind the words.

    Parameters
    ----------
    mpiexec : Path
    family : str
        Of `Library`.
    ranks : int
    transport : str
        ``"mpi-cuda"`` makes Open MPI use UCX on device memory.
    environment : dict
        Not changed.
    """
    environment = dict(environment)
    words = [str(mpiexec)]
    if family == "Open MPI":
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        words += ["--oversubscribe", "--bind-to", "none"]
        if transport == "mpi-cuda":
            folders = [str(path) for path in _ucx_folders()]
            if folders:
                before = environment.get("LD_LIBRARY_PATH")
                environment["LD_LIBRARY_PATH"] = os.pathsep.join([*folders, *([before] if before else [])])
            words += ["-x", "LD_LIBRARY_PATH"] if "LD_LIBRARY_PATH" in environment else []
            words += ["--mca", "pml", "ucx"]
            words += ["--mca", "opal_common_ucx_devices", "any", "--mca", "opal_common_ucx_tls", "any"]
    return [*words, "-n", str(ranks)], environment


def _ucx_folders() -> list[Path]:
    """Libraries of the ``libucx`` wheel, and the plug-ins beside them, which know CUDA."""
    found = find_spec("libucx")
    for root in (found.submodule_search_locations or []) if found else []:
        library = Path(root) / "lib"
        if library.is_dir():
            return [library, library / "ucx"]
    return []
