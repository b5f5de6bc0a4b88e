"""Compile each ``cpu/*.cpp`` once per precision, and link them into one shared library.

`hatch_build.py` calls `build` for a wheel or an editable installation, `library` calls it if a source has
changed. The kernels do not use the C++ run-time library, so that one file works on every distribution of an
operating system with the same processor type.
"""

import os
import platform
import shlex
import shutil
import sys
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
#: Folder of the installed libraries, one per variant.
LIBRARIES = HERE / "lib"
#: Compiler flags of each variant: the machine's processor, a level of x86-64, or any arm64.
VARIANTS = {
    "native": ["-march=native"],
    "x86-64-v2": ["-march=x86-64-v2"],
    "x86-64-v3": ["-march=x86-64-v3"],
    "x86-64-v4": ["-march=x86-64-v4", "-mprefer-vector-width=512"],
    "arm64": [],
}
_X86 = ("x86-64-v2", "x86-64-v3", "x86-64-v4")


class Target(NamedTuple):
    """Describes a platform for wheels: its name in zig, the wheel's tag, the variants of the library."""

    zig: str
    tag: str
    variants: tuple[str, ...]


#: Platforms by their names in `tools/wheels.sh`.
TARGETS = {
    "linux-x86-64": Target("x86_64-linux-gnu.2.28", "manylinux_2_28_x86_64", _X86),
    "linux-arm64": Target("aarch64-linux-gnu.2.28", "manylinux_2_28_aarch64", ("arm64",)),
    "macos-arm64": Target("aarch64-macos.11.0", "macosx_11_0_arm64", ("arm64",)),
    "windows-x86-64": Target("x86_64-windows-gnu", "win_amd64", _X86),
}
# A product is fused with a sum only where a formula says so: results do not depend on the compiler.
_FLAGS = [
    "-std=c++20",
    "-O3",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-exceptions",
]
_FLAGS += ["-fno-rtti", "-fvisibility=hidden", "-Wall", "-Wno-unused-variable", "-Wno-maybe-uninitialized"]
#: Sources compiled once: `pool` does not depend on the precision, the others only need double.
_ONCE = {"pool": "float", "flow": "double", "interference": "double", "correlation": "double"}


class NoCompiler(Exception):
    """Raised if there is no C++ compiler, or it failed; the text says what to install, or the error."""


def source_hash() -> str:
    """Return a checksum of all C++ sources and of this file, eight hexadecimal digits."""
    total = zlib.crc32(Path(__file__).read_bytes())
    for path in [*sorted(HERE.glob("*.h")), *sorted(HERE.glob("cpu/*"))]:
        total = zlib.crc32(path.name.encode() + path.read_bytes(), total)
    return f"{total:08x}"


def processor_flags() -> set[str]:
    """Return the processor's feature flags; empty if the system does not list them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return set()
    return next((set(line.split(":")[1].split()) for line in lines if line.startswith("flags")), set())


def native_name() -> str:
    """Return the file name, without suffix, of the library of the current sources for this processor."""
    processor = " ".join([platform.system(), platform.machine(), *sorted(processor_flags())])
    return f"native-{zlib.crc32(processor.encode()):08x}-{source_hash()}"


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
    """Return the file suffix of shared libraries on this system, or on the system of a zig target."""
    system = target or platform.system().lower()
    return ".dll" if "windows" in system else ".dylib" if "macos" in system or "darwin" in system else ".so"


def build(folder: Path = LIBRARIES, target: Target | None = None) -> list[Path]:
    """Compile the library for this processor, or by zig all variants of ``target``; return their paths."""
    if target and not find_spec("ziglang"):
        raise NoCompiler("other platforms need the Python package ziglang")
    zig = [sys.executable, "-m", "ziglang", "c++"]
    command = [*zig, "-target", target.zig] if target else compiler()
    folder.mkdir(parents=True, exist_ok=True)
    built = []
    for variant in target.variants if target else ("native",):
        flags = [*_FLAGS, *_architecture(variant, "ziglang" in command)]
        ending = suffix(target.zig if target else "")
        if ending != ".dll":
            flags.append("-fPIC")
        path = folder / f"{variant if target else native_name()}{ending}"
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            _compile(command, flags, Path(scratch), path)
        built.append(path)
    return built


def _architecture(variant: str, zig: bool) -> list[str]:
    """Return the compiler flags of a library variant; ``zig`` says whether zig compiles it."""
    flags = list(VARIANTS[variant])
    if variant == "native" and platform.machine().lower() in ("x86_64", "amd64"):
        flags.append("-mprefer-vector-width=512")  # use the full width of 512-bit vectors
    if not zig:
        return flags
    names = [flag.removeprefix("-march=").replace("-", "_") for flag in flags if "-march" in flag]
    return (
        [f"-mcpu={name}" for name in names]
        + [f for f in flags if "-march" not in f]
        + ["-g0", "-Wno-pass-failed"]
    )


def _compile(command: list[str], flags: list[str], scratch: Path, path: Path) -> None:
    """Compile all sources in parallel on all processors, link them, and move the library to ``path``."""
    jobs = []
    for source in sorted(HERE.glob("cpu/*.cpp")):
        for real in (_ONCE[source.stem],) if source.stem in _ONCE else ("float", "double"):
            out = scratch / f"{source.stem}-{real}.o"
            jobs.append([*command, *flags, f"-DREAL={real}", "-c", str(source), "-o", str(out)])
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(_run, jobs))
    linked, objects = scratch / path.name, [job[-1] for job in jobs]
    plain = ["-nostdlib++"] if "ziglang" in command else ["-Wl,--as-needed"] if path.suffix == ".so" else []
    threads = [] if path.suffix == ".dll" else ["-lpthread"]
    # zig needs the architecture, since it links its own run-time code.
    machine = [flag for flag in flags if flag.startswith(("-m", "-f"))]
    _run([*command, *machine, "-shared", *plain, *objects, *threads, "-o", str(linked)])
    os.replace(linked, path)


def _run(command: list[str]) -> None:
    import subprocess

    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        errors = [line for line in lines if "error" in line] or lines or [f"exit code {done.returncode}"]
        raise NoCompiler(f"{' '.join(command[:3])} … {command[-3]}: {errors[0]}")
