"""Record the origin of a result: versions, commit, processor, command, times; no host name, no paths."""

import contextlib
import platform
import sys
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import wavefabric
from wavefabric.base.system.machine import cpu_model, usable_threads

#: CUDA kernels, formulas that they include, their launches, and the splitting of transforms for them.
CUDA_SOURCES = ("*.cu", "kernels/*.h", "*_cuda.py", "cuda_*.py", "fused_plan.py")
#: Kernels of CPUs, compiled from C++.
CPU_SOURCES = ("kernels/*.h", "kernels/cpu/*")
_STARTED = datetime.now(UTC)
#: Packages whose version may change a result by round-off.
NUMERICAL = ("numpy", "scipy", "cupy-cuda13x", "cupy-cuda12x")


def provenance(device: str = "cpu", plan: str = "") -> dict[str, str]:
    """Return attributes of a file that describe a run on ``device``, with the ``plan`` it followed."""
    facts = {
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
    return {key: text for key, text in (facts | versions((*NUMERICAL, "h5py"))).items() if text}


def fingerprint(identity: str, **more: str) -> str:
    """Return the SHA-256 of a run's identity (all settings and inputs) and of versions that affect its
    result.

    ``more`` must match too for a bit-identical resume: device, its kernels, layout.
    """
    import hashlib

    kernels = _hash_of(CPU_SOURCES)
    facts = {"identity": identity, "wavefabric": wavefabric.__version__, "kernels": kernels}
    facts |= versions(NUMERICAL) | more
    text = "".join(f"{key}={len(value)}:{value};" for key, value in sorted(facts.items()))
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def cuda_source_hash() -> str:
    """Return the SHA-256 of the sources that determine results on a GPU, and of their names."""
    return _hash_of(CUDA_SOURCES)


def _hash_of(patterns: tuple[str, ...]) -> str:
    import hashlib

    package, digest = Path(wavefabric.__file__).parent, hashlib.sha256()
    for file in sorted({file for pattern in patterns for file in package.rglob(pattern)}):
        digest.update(f"{file.relative_to(package).as_posix()}\0".encode())
        digest.update(file.read_bytes() + b"\0")
    return digest.hexdigest()


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of those ``packages`` that are installed."""
    from importlib.metadata import PackageNotFoundError, version

    result = {}
    for name in packages:
        with contextlib.suppress(PackageNotFoundError):
            result[name] = version(name)
    return result


def git_commit() -> str:
    """Return the commit of the package's checkout, with "+" if edited; "" outside a checkout."""
    import subprocess

    package = Path(wavefabric.__file__).resolve().parent

    def git(*words: str) -> str:
        answer = subprocess.run(
            ["git", *words], cwd=package, capture_output=True, text=True, timeout=5, check=True
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
    """Return the command, with absolute paths reduced to their last part."""

    def short(word: str) -> str:
        option, equals, value = word.partition("=")
        if equals and option.startswith("-"):
            return f"{option}={short(value)}"
        return Path(word).name if Path(word).is_absolute() else word

    words = " ".join([Path(argv[0]).name, *map(short, argv[1:])]) if argv else ""
    # File names may be any bytes; result files contain UTF-8.
    return words.encode("utf-8", "backslashreplace").decode("utf-8")


def stamp(moment: datetime | None = None) -> str:
    """Return a time, now by default, as text in UTC."""
    return (moment or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
