"""The library of CPU kernels: found beside this file, compiled again if a source has changed, loaded once."""

import ctypes
import fcntl
import platform
import sys
from functools import cache
from pathlib import Path

from wavefabric.errors import InputError
from wavefabric.kernels import build
from wavefabric.system.compiling import compiling

#: A file of a checkout, beside which sources may change after the installation.
_PROJECT = Path(__file__).parents[3] / "pyproject.toml"


class Library:
    """The loaded library: addresses of kernels by name, and calls of them on so many threads."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self.path = path
        self.call = self._library.wavefabric_call
        self.call.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
        self.call.restype = None
        self.run = self._library.wavefabric_run
        self.run.argtypes = [ctypes.c_void_p, ctypes.c_longlong, ctypes.c_longlong, ctypes.c_int]
        self.run.restype = None

    def address(self, name: str) -> int:
        """Return where a kernel begins, such as ``update_velocity_float``."""
        address = ctypes.cast(getattr(self._library, name), ctypes.c_void_p).value
        assert address is not None
        return address


@cache
def library() -> Library:
    """Load the variant for this processor; in a checkout build it first if its sources have changed.

    `InputError` if there is none, and no compiler to make one.
    """
    if _PROJECT.is_file():
        _build_if_changed()
    for variant in _variants():
        path = build.LIBRARIES / f"{variant}{build.suffix()}"
        if path.is_file():
            return Library(path)
    machine = f"{platform.system()} {platform.machine()}"
    raise InputError(
        f"kernels: no library for {machine}; allowed: an installation from source (pip install .)"
    )


def _build_if_changed() -> None:
    """Compile the library of a checkout again if a source has changed, one process for all."""
    if _is_current():
        return
    build.LIBRARIES.mkdir(parents=True, exist_ok=True)
    with (build.LIBRARIES / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_current():
            return
        print("wavefabric: compiling kernels, whose sources have changed", file=sys.stderr, flush=True)
        try:
            with compiling():
                build.build()
        except build.NoCompiler as error:
            raise InputError(f"kernels: {error}") from None


def _is_current() -> bool:
    try:
        return build.HASH.read_text().strip() == build.source_hash()
    except OSError:
        return False


def _variants() -> list[str]:
    """Return names of variants to look for, the fastest first; `native` was built for this processor."""
    if platform.machine().lower() in ("arm64", "aarch64"):
        return ["native", "arm64"]
    flags = _flags()
    levels = {
        "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
        "x86-64-v3": {"avx2", "fma", "bmi2"},
    }
    return ["native", *(level for level, needs in levels.items() if needs <= flags), "x86-64-v2"]


def _flags() -> set[str]:
    """Return what the processor says that it can do; empty where the system does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return next((set(line.split(":")[1].split()) for line in lines if line.startswith("flags")), set())
