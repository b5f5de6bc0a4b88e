"""Record the origin of a result: versions, commit, processor, command, times; no host name, no paths."""

import contextlib
import platform
import sys
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import wavefabric
from wavefabric.base.system.machine import cpu_model, usable_threads

#: Files that determine results on a GPU: kernels, included formulas, launch code, plans of transforms.
CUDA_SOURCES = ("*.cu", "kernels/*.h", "*_cuda.py", "cuda_*.py", "fused_plan.py")
#: Files that determine results on a CPU: the C++ kernels and the formulas that they include.
CPU_SOURCES = ("kernels/*.h", "kernels/cpu/*")
_STARTED = datetime.now(UTC)
#: Packages whose version may change a result by round-off.
NUMERICAL = ("numpy", "scipy", "cupy-cuda13x", "cupy-cuda12x")


def provenance(device: str = "cpu", plan: str = "") -> dict[str, str]:
    """Return the origin of a result as file attributes; ``plan`` is the plan of the run, empty for none."""
    result = {
        "wavefabric": wavefabric.__version__,
        "git_commit": git_commit(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": cpu_model(),
        "cpu_threads": str(usable_threads()),
        "device": device,
        "command": command_line(sys.argv),
        "started_utc": stamp(_STARTED),
        "written_utc": stamp(),
        "plan": plan,
    }
    return {key: text for key, text in (result | versions((*NUMERICAL, "h5py"))).items() if text}


def fingerprint(identity: str, **more: str) -> str:
    """Return the SHA-256 of a run's ``identity`` (settings and inputs) and of versions that affect results.

    ``more`` has further facts that must match for a bit-identical resume: device, kernels, layout.
    """
    import hashlib

    kernels = _hash_of(CPU_SOURCES)
    facts = {"identity": identity, "wavefabric": wavefabric.__version__, "kernels": kernels}
    facts |= versions(NUMERICAL) | more
    text = "".join(f"{key}={len(value)}:{value};" for key, value in sorted(facts.items()))
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def cuda_source_hash() -> str:
    """Return the SHA-256 of the names and contents of all sources that determine results on a GPU."""
    return _hash_of(CUDA_SOURCES)


def _hash_of(patterns: tuple[str, ...]) -> str:
    import hashlib

    package, digest = Path(wavefabric.__file__).parent, hashlib.sha256()
    for file in sorted({file for pattern in patterns for file in package.rglob(pattern)}):
        digest.update(f"{file.relative_to(package).as_posix()}\0".encode())
        digest.update(file.read_bytes() + b"\0")
    return digest.hexdigest()


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Return a dictionary from the name of each of ``packages`` that is installed to its version."""
    from importlib.metadata import PackageNotFoundError, version

    result = {}
    for name in packages:
        with contextlib.suppress(PackageNotFoundError):
            result[name] = version(name)
    return result


def git_commit() -> str:
    """Return the Git commit of wavefabric's checkout, with "+" if files are edited; "" without a checkout."""
    import subprocess

    package = Path(wavefabric.__file__).resolve().parent

    def git(*arguments: str) -> str:
        answer = subprocess.run(
            ["git", *arguments], cwd=package, capture_output=True, text=True, timeout=5, check=True
        )
        return answer.stdout.strip()

    try:
        # An installed copy may lie inside an unrelated repository, whose commit is meaningless.
        if git("rev-parse", "--show-prefix") != "src/wavefabric/":
            return ""
        edited = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "HEAD") + ("+" if edited else "")
    except (OSError, subprocess.SubprocessError):
        return ""


def command_line(argv: list[str]) -> str:
    """Return a command line as text, with absolute paths reduced to their last part."""

    def short(word: str) -> str:
        option, equals, value = word.partition("=")
        if equals and option.startswith("-"):
            return f"{option}={short(value)}"
        return Path(word).name if Path(word).is_absolute() else word

    words = " ".join([Path(argv[0]).name, *map(short, argv[1:])]) if argv else ""
    # File names may be any bytes; result files contain UTF-8.
    return words.encode("utf-8", "backslashreplace").decode("utf-8")


def stamp(moment: datetime | None = None) -> str:
    """Return a time, by default the present, as UTC text such as 2025-01-31T12:00:00Z."""
    return (moment or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
