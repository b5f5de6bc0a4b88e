"""What ``nvidia-smi topo -m`` says here about the GPUs of this host."""

from __future__ import annotations

import os
import shutil
import subprocess

from wavefabric.system.gpu_topology import Topology, parse

_SECONDS = 30


def table() -> str | None:
    """What ``nvidia-smi topo -m`` prints here, None where there is no nvidia-smi or no GPU."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, "topo", "-m"], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 and "GPU0" in done.stdout else None


def query() -> Topology | None:
    """The GPUs of this host that CUDA may use here, in its order; None where that is not known."""
    text = table()
    if text is None:
        return None
    found = parse(text)
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return found
    words = [word.strip() for word in chosen.split(",") if word.strip()]
    if not all(word.isdecimal() and int(word) < found.gpus for word in words):
        return None  # names instead of numbers
    return found.only([int(word) for word in words])
