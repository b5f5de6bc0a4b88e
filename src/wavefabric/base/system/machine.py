"""Query facts about the machine: processor, threads, memory."""

import contextlib
import os
import platform
import re
import resource
from pathlib import Path


def cpu_model() -> str:
    """Return the name of the processor."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return " ".join(line.split(":", 1)[1].split())
    return platform.processor() or platform.machine()


def nvidia_driver() -> str:
    """Return the version of NVIDIA's kernel driver, "" if there is none."""
    with contextlib.suppress(OSError):
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")
        if result := re.search(r"Kernel Module.*?\s(\d[\d.]+)\s", text):
            return result[1]
    return ""


_CGROUP = Path("/sys/fs/cgroup")


def host_memory() -> tuple[int, int]:
    """Return free and total host memory in bytes, within limits of the control group and ``ulimit -v``."""
    page = os.sysconf("SC_PAGE_SIZE")
    free = total = page * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError):
        free = _status_bytes("/proc/meminfo", "MemAvailable") or free
        limit = (_CGROUP / "memory.max").read_text().strip()
        if limit != "max":
            used = int((_CGROUP / "memory.current").read_text())
            total, free = min(total, int(limit)), min(free, int(limit) - used)
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    if most != resource.RLIM_INFINITY:
        with contextlib.suppress(OSError):
            used = int(Path("/proc/self/statm").read_text().split()[0]) * page
            total, free = min(total, most), min(free, most - used)
    return max(free, 0), total


def usable_threads() -> int:
    """Return the number of hardware threads that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def peak_memory() -> int:
    """Return the largest resident size of this process so far in bytes (0 if the system does not say)."""
    # Not ``ru_maxrss``, which inherits the size of the parent process at the start.
    with contextlib.suppress(OSError):
        return _status_bytes("/proc/self/status", "VmHWM")
    return 0


def _status_bytes(file: str, key: str) -> int:
    """Return a size in bytes that a Linux status file gives in KiB after ``key``; 0 without this key."""
    for line in Path(file).read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    return 0
