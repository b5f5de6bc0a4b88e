"""How the library of CPU kernels is compiled: an object of each ``cpu/*.cpp`` and precision, then linked.

`hatch_build.py` calls this when a wheel or an editable installation is made, `library` when a source has
changed since. Nothing of the C++ run-time library is used, so that one file serves every distribution of an
operating system with the same processor.
"""

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
#: Where libraries are, one for each variant, and the hash of the sources that they are made of.
LIBRARIES = HERE / "lib"
HASH = LIBRARIES / "sources.sha256"
#: What each variant is compiled for: the machine's own processor, or a level of x86-64, or any arm64.
VARIANTS = {
    "native": ["-march=native"],
    "x86-64-v2": ["-march=x86-64-v2"],
    "x86-64-v3": ["-march=x86-64-v3"],
    "x86-64-v4": ["-march=x86-64-v4", "-mprefer-vector-width=512"],
    "arm64": [],
}
# No product is joined with a sum unless a formula asks for it: results do not depend on compilers' choices.
_FLAGS = [
    "-std=c++20",
    "-O3",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-exceptions",
]
_FLAGS += ["-fno-rtti", "-fvisibility=hidden", "-Wall", "-Wno-unused-variable", "-Wno-maybe-uninitialized"]
#: Sources that are compiled once: `pool` has no numbers, the others are for double precision alone.
_ONCE = {"pool": "float", "flow": "double", "interference": "double", "correlation": "double"}


class NoCompiler(Exception):
    """No C++ compiler was found, or it failed; the text says what to do."""


def source_hash() -> str:
    """Return the SHA-256 of all C++ sources and of this file."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for path in [*sorted(HERE.glob("*.h")), *sorted(HERE.glob("cpu/*"))]:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def compiler() -> list[str]:
    """Return the command of the C++ compiler: ``$CXX``, g++, clang++, or zig of the package ``ziglang``."""
    if command := shlex.split(os.environ.get("CXX", "")):
        return command
    for name in ("g++", "clang++"):
        if path := shutil.which(name):
            return [path]
    if find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "c++"]
    raise NoCompiler("no C++ compiler: set CXX, or install g++, clang++ or the Python package ziglang")


def suffix(target: str = "") -> str:
    """Return how names of libraries end on this system, or on that of a target of zig."""
    system = target or platform.system().lower()
    return ".dll" if "windows" in system else ".dylib" if "macos" in system or "darwin" in system else ".so"


def build(folder: Path = LIBRARIES, variants: tuple[str, ...] = (), target: str = "") -> list[Path]:
    """Compile the library into a folder, for each variant; ``target``: one of zig's, else this machine."""
    command = compiler() + (["-target", target] if target else [])
    zig = "ziglang" in command
    folder.mkdir(parents=True, exist_ok=True)
    built = []
    for variant in variants or ("native",):
        flags = [*_FLAGS, *_architecture(variant, zig), *(["-Wno-pass-failed"] if zig else [])]
        if suffix(target) != ".dll":
            flags.append("-fPIC")
        path = folder / f"{variant}{suffix(target)}"
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            _compile(command, flags, Path(scratch), path, zig)
        built.append(path)
    (folder / HASH.name).write_text(source_hash() + "\n")
    return built


def _architecture(variant: str, zig: bool) -> list[str]:
    """Return the flags of a variant; zig writes the names of processors with underscores."""
    flags = VARIANTS[variant]
    if not zig:
        return flags if variant != "native" else [*flags, *_wide()]
    named = [flag.removeprefix("-march=") for flag in flags if flag.startswith("-march=")]
    return [f"-mcpu={name.replace('-', '_')}" for name in named] + [f for f in flags if "-march" not in f]


def _wide() -> list[str]:
    """Let compilers use all of a 512-bit vector where there is one."""
    return ["-mprefer-vector-width=512"] if platform.machine().lower() in ("x86_64", "amd64") else []


def _compile(command: list[str], flags: list[str], scratch: Path, path: Path, zig: bool) -> None:
    """Compile all sources, as many at once as there are processors, and put the library in its place."""
    jobs = []
    for source in sorted(HERE.glob("cpu/*.cpp")):
        for real in (_ONCE[source.stem],) if source.stem in _ONCE else ("float", "double"):
            out = scratch / f"{source.stem}-{real}.o"
            jobs.append([*command, *flags, f"-DREAL={real}", "-c", str(source), "-o", str(out)])
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(_run, jobs))
    linked = scratch / path.name
    objects = [job[-1] for job in jobs]
    link = ["-shared", *(["-nostdlib++"] if zig else ["-Wl,--as-needed"] if path.suffix == ".so" else [])]
    threads = [] if path.suffix == ".dll" else ["-lpthread"]
    # The architecture matters for zig, which links its own run-time code.
    _run(
        [
            *command,
            *[f for f in flags if f.startswith(("-m", "-f"))],
            *link,
            *objects,
            *threads,
            "-o",
            str(linked),
        ]
    )
    os.replace(linked, path)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        errors = [line for line in lines if "error" in line] or lines or [f"exit code {done.returncode}"]
        raise NoCompiler(f"{' '.join(command[:3])} … {command[-3]}: {errors[0]}")
