"""FFTW plans whose choice (*wisdom*) survives the process, so that a resumed run is bit-identical.

Planning by measurement is 1.5 times faster in use than by estimate, but may choose differently each time.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.errors import InputError
from wavefabric.files.output import replacing
from wavefabric.system.machine import cpu_model
from wavefabric.system.user_cache import cache_directory

# OpenMP threads of Numba and of FFTW would spin between kernels and steal the cores from each other:
# measured up to 1.9 times slower steps, and 20 ms a transform where other programs run. Each runtime reads
# this when it is loaded, FFTW's with the import below.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# About a millisecond of spinning bridges the gap between two passes of a time step: 4 % of it at 128³.
os.environ.setdefault("GOMP_SPINCOUNT", "20000")

pyfftw: Any = None
with contextlib.suppress(ImportError):  # FFTW is GPL: an extra. scipy.fft serves without it.
    import pyfftw

#: Held while plans are made, which FFTW does for one thread at a time.
lock = threading.Lock()
#: Directions of a plan: forward, backward.
SIGNS = ("FFTW_FORWARD", "FFTW_BACKWARD")
#: What reading damaged wisdom raises.
_UNREADABLE = (ValueError, pickle.UnpicklingError, EOFError)
#: Stands for wisdom that came from a checkpoint: what is stored is not looked at any more.
_FIXED = (-1, -1)
_stored: tuple[int, int] | None = None  # time and size of the stored wisdom that this process has
_size: int | None = None  # of the wisdom after the last planning; exporting it takes milliseconds


def library() -> str:
    """Name and version of the FFT library in use on the CPU."""
    if pyfftw is None:
        import scipy

        return f"scipy.fft {scipy.__version__}"
    return f"pyfftw {pyfftw.__version__} ({pyfftw.fftw_version})"


def _wisdom_file() -> Path:
    machine = hashlib.sha256(f"{cpu_model()}|{library()}".encode()).hexdigest()[:16]
    return cache_directory() / f"fftw-{machine}.wisdom"


def wisdom_state() -> str:
    """One line on the stored wisdom, for ``wavefabric info``."""
    if pyfftw is None:
        return "none (pyfftw is not installed)"
    file = _wisdom_file()
    return f"{file.stat().st_size} bytes in {file}" if file.exists() else "none stored yet"


def export_wisdom() -> bytes:
    """The wisdom of this process, to travel in a checkpoint (empty without pyfftw)."""
    return pickle.dumps(pyfftw.export_wisdom()) if pyfftw else b""


def import_wisdom(stored: bytes) -> None:
    """Take wisdom from `export_wisdom`. It wins over what the disk cache holds."""
    global _size, _stored
    if pyfftw and stored:
        with lock:
            try:
                wisdom = _wisdom_tuple(stored)
            except _UNREADABLE:
                raise InputError("checkpoint: FFTW wisdom cannot be read; remove it to start anew") from None
            pyfftw.forget_wisdom()
            pyfftw.import_wisdom(wisdom)
            _size, _stored = None, _FIXED


class _BytesOnly(pickle.Unpickler):
    """Unpickles tuples of bytes and nothing else: a checkpoint must not be able to run code."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed here")


def _wisdom_tuple(stored: bytes) -> tuple[bytes, ...]:
    wisdom = _BytesOnly(io.BytesIO(stored)).load()
    if type(wisdom) is not tuple or [type(part) for part in wisdom] != [bytes] * 3:  # for each precision
        raise ValueError("not FFTW wisdom")
    return wisdom


def _load() -> None:
    """Take the stored wisdom, again if another process has added to it."""
    global _size, _stored
    if _stored == _FIXED:
        return
    with contextlib.suppress(OSError, *_UNREADABLE):
        file = _wisdom_file()
        stamp = _stamp(file)
        if stamp != _stored:
            _stored, _size = stamp, None
            pyfftw.import_wisdom(_wisdom_tuple(file.read_bytes()))


def _stamp(file: Path) -> tuple[int, int]:
    facts = file.stat()
    return facts.st_mtime_ns, facts.st_size


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """One process of this machine plans at a time: of ranks that plan at once, all take the same plans."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            path = _wisdom_file().with_suffix(".lock")
            path.parent.mkdir(parents=True, exist_ok=True)
            fcntl.flock(stack.enter_context(open(path, "w")), fcntl.LOCK_EX)
        yield


def _store() -> None:
    global _stored
    file = _wisdom_file()
    with contextlib.suppress(OSError):  # No cache folder: slower next time, not wrong.
        file.parent.mkdir(parents=True, exist_ok=True)
        wisdom = pyfftw.export_wisdom()
        if _stored == _FIXED and file.exists():
            # A process with the wisdom of a checkpoint knows less than what is stored. Without that others
            # would plan anew, and round otherwise.
            with contextlib.suppress(*_UNREADABLE):
                kept = _wisdom_tuple(file.read_bytes())
                wisdom = tuple(_joined(old, new) for old, new in zip(kept, wisdom, strict=True))
        with replacing(file) as partial:
            partial.write_bytes(pickle.dumps(wisdom))
        if _stored != _FIXED:
            _stored = _stamp(file)


def _joined(old: bytes, new: bytes) -> bytes:
    """Wisdom of both; for the same problem, named by the last four numbers of a line, the old."""
    old_lines, new_lines = old.strip().splitlines(), new.strip().splitlines()
    if len(old_lines) < 2 or len(new_lines) < 2 or old_lines[0] != new_lines[0]:
        return old if len(old_lines) > 1 else new
    known = {tuple(line.rstrip(b")").split()[-4:]) for line in old_lines[1:-1]}
    more = [line for line in new_lines[1:-1] if tuple(line.rstrip(b")").split()[-4:]) not in known]
    return b"\n".join([*old_lines[:-1], *more, old_lines[-1]]) + b"\n"


@contextlib.contextmanager
def planning() -> Iterator[None]:
    """Hold the planner, with the stored wisdom loaded; store what was learnt inside."""
    global _size
    with lock, _alone():
        _load()
        before, _size = _size if _size is not None else _wisdom_size(), None
        yield
        _size = _wisdom_size()
        if _size != before:
            _store()


def _wisdom_size() -> int:
    return sum(map(len, pyfftw.export_wisdom()))  # It only grows; its lines come in any order.


def plan(source, target, sign: str, axes: tuple[int, ...], threads: int, *flags: str):
    """A measured plan of such arrays; hold `planning`, or `lock` where that has been done before."""
    measured = ("FFTW_MEASURE", *flags)
    return pyfftw.FFTW(source, target, axes=axes, direction=sign, flags=measured, threads=threads)


def execute(plan, source, target) -> None:
    """Run a plan on arrays like those it was made for."""
    plan.update_arrays(source, target)
    plan.execute()


def aligned(shape, dtype) -> np.ndarray:
    """An array to plan with."""
    return pyfftw.empty_aligned(shape, dtype, n=64)
