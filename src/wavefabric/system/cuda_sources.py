"""Which CUDA kernels this copy of the package has: others may round otherwise."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import wavefabric

#: Kernels, their launches, and how transforms are split for them.
PATTERNS = ("*.cu", "*_cuda.py", "fused_plan.py")


@cache
def cuda_source_hash() -> str:
    """SHA-256 of the sources that decide what a GPU computes, and of their names."""
    package = Path(wavefabric.__file__).parent
    digest = hashlib.sha256()
    for file in sorted({file for pattern in PATTERNS for file in package.rglob(pattern)}):
        digest.update(f"{file.relative_to(package).as_posix()}\0".encode())
        digest.update(file.read_bytes() + b"\0")
    return digest.hexdigest()
