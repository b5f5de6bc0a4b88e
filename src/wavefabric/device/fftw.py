"""FFTW plans whose choice survives the process, so that a resumed run is bit-identical.

Planning by measurement is 1.5 times faster in use than by estimate, but may choose differently
each time. The choice (FFTW's *wisdom*) is therefore stored on disk before the first transform and
read again by every later process; a checkpoint carries it too.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.errors import InputError
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

_lock = threading.Lock()
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
    """Take wisdom from :func:`export_wisdom`. It wins over what the disk cache holds."""
    global _size, _stored
    if pyfftw and stored:
        with _lock:
            try:
                wisdom = _wisdom_tuple(stored)
            except (ValueError, pickle.UnpicklingError, EOFError):
                raise InputError("checkpoint: FFTW wisdom cannot be read; remove it to start anew") from None
            pyfftw.forget_wisdom()
            pyfftw.import_wisdom(wisdom)
            _size, _stored = None, _FIXED


def _wisdom_tuple(stored: bytes) -> tuple[bytes, ...]:
    wisdom = _BytesOnly(stored).load()
    three = isinstance(wisdom, tuple) and len(wisdom) == 3  # double, single, long double
    if not (three and all(isinstance(part, bytes) for part in wisdom)):
        raise ValueError("not FFTW wisdom")
    return wisdom


class _BytesOnly:
    """Unpickle tuples of bytes and nothing else: a checkpoint must not be able to run code."""

    def __init__(self, stored: bytes):
        import io

        class Reader(pickle.Unpickler):
            def find_class(self, module, name):
                raise pickle.UnpicklingError(f"{module}.{name} is not allowed here")

        self._reader = Reader(io.BytesIO(stored))

    def load(self):
        return self._reader.load()


#: Stands for wisdom that came from a checkpoint: what is stored is not looked at any more.
_FIXED = (-1, -1)


def _load() -> None:
    """Take the stored wisdom, again if another process has added to it."""
    global _size, _stored
    if _stored == _FIXED:
        return
    with contextlib.suppress(OSError, ValueError, pickle.UnpicklingError, EOFError):
        file = _wisdom_file()
        found = _stamp(file)
        if found != _stored:
            _stored, _size = found, None
            pyfftw.import_wisdom(_wisdom_tuple(file.read_bytes()))


def _stamp(file: Path) -> tuple[int, int]:
    facts = file.stat()
    return facts.st_mtime_ns, facts.st_size


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """One process of this machine plans at a time: of ranks that plan at once, all take the same plans."""
    try:
        import fcntl

        path = _wisdom_file().with_suffix(".lock")
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = open(path, "w")  # noqa: SIM115 - closed below, and with it unlocked
        fcntl.flock(lock, fcntl.LOCK_EX)
    except (ImportError, OSError):
        lock = None
    try:
        yield
    finally:
        if lock is not None:
            lock.close()


def _store() -> None:
    global _stored
    file = _wisdom_file()
    with contextlib.suppress(OSError):  # No cache folder: slower next time, not wrong.
        file.parent.mkdir(parents=True, exist_ok=True)
        wisdom = pyfftw.export_wisdom()
        if _stored == _FIXED and file.exists():
            # A process with the wisdom of a checkpoint knows less than what is stored. Without that others
            # would plan anew, and round otherwise.
            with contextlib.suppress(ValueError, pickle.UnpicklingError, EOFError):
                kept = _wisdom_tuple(file.read_bytes())
                wisdom = tuple(_joined(old, new) for old, new in zip(kept, wisdom, strict=True))
        handle, name = tempfile.mkstemp(dir=file.parent)
        with os.fdopen(handle, "wb") as out:
            out.write(pickle.dumps(wisdom))
        os.replace(name, file)
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
    with _lock, _alone():
        _load()
        before, _size = _size if _size is not None else _wisdom_size(), None
        yield
        _size = _wisdom_size()
        if _size != before:
            _store()


def _wisdom_size() -> int:
    return sum(map(len, pyfftw.export_wisdom()))  # It only grows; its lines come in any order.


class RowPlans:
    """In-place transforms of single rows of ``n`` samples; one set of plans a thread.

    Parameters
    ----------
    n : int
        Samples a row.
    dtype : dtype
        complex64 or complex128.
    threads : int
        Threads inside one transform.
    """

    def __init__(self, n: int, dtype, threads: int = 1):
        self.n, self.dtype, self.threads = n, np.dtype(dtype), threads
        # Rows after the first are aligned only if a row is a whole number of vectors.
        aligned = (n * self.dtype.itemsize) % 64 == 0
        self._flags = ("FFTW_MEASURE",) if aligned else ("FFTW_MEASURE", "FFTW_UNALIGNED")
        self._mine = threading.local()
        with planning():
            buffer = pyfftw.empty_aligned(n, self.dtype, n=64)
            for direction in ("FFTW_FORWARD", "FFTW_BACKWARD"):
                pyfftw.FFTW(buffer, buffer, direction=direction, flags=self._flags, threads=threads)

    def _plan(self, direction: str):
        plans = self._mine.__dict__
        if direction not in plans:
            with _lock:
                buffer = pyfftw.empty_aligned(self.n, self.dtype, n=64)
                plans[direction] = pyfftw.FFTW(
                    buffer, buffer, direction=direction, flags=self._flags, threads=self.threads
                )
        return plans[direction]

    def execute(self, row, direction: str) -> None:
        """Transform ``row`` (n,), contiguous, in place; ``direction`` as FFTW names it."""
        plan = self._plan(direction)
        plan.update_arrays(row, row)
        plan.execute()


class RealPlans:
    """Out-of-place real transforms of whole fields; ``backward`` is unscaled and spoils its input.

    Parameters
    ----------
    shape : tuple of int
        Of the real field; the last axis is halved.
    dtype : dtype
        float32 or float64.
    axes : tuple of int
        Axes transformed, the last among them.
    threads : int
        Threads inside one transform.
    """

    def __init__(self, shape: tuple[int, ...], dtype, axes: tuple[int, ...], threads: int):
        half = (*shape[:-1], shape[-1] // 2 + 1)
        with planning():
            real = pyfftw.empty_aligned(shape, dtype, n=64)
            spectrum = pyfftw.empty_aligned(half, np.result_type(dtype, np.complex64), n=64)
            common = dict(axes=axes, threads=threads)
            self._forward = pyfftw.FFTW(real, spectrum, flags=("FFTW_MEASURE",), **common)
            self._backward = pyfftw.FFTW(
                spectrum,
                real,
                direction="FFTW_BACKWARD",
                flags=("FFTW_MEASURE", "FFTW_DESTROY_INPUT"),
                **common,
            )

    def forward(self, real, spectrum) -> None:
        """``spectrum`` of ``real``."""
        self._forward.update_arrays(real, spectrum)
        self._forward.execute()

    def backward(self, spectrum, real) -> None:
        """``real`` of ``spectrum``."""
        self._backward.update_arrays(spectrum, real)
        self._backward.execute()


class AxisPlans:
    """In-place complex transforms along one axis; ``backward`` is unscaled.

    Parameters
    ----------
    shape : tuple of int
    dtype : dtype
        complex64 or complex128.
    axis : int
    threads : int
    """

    def __init__(self, shape: tuple[int, ...], dtype, axis: int, threads: int):
        with planning():
            array = pyfftw.empty_aligned(shape, dtype, n=64)
            self._forward, self._backward = (
                pyfftw.FFTW(
                    array, array, axes=(axis,), direction=direction, flags=("FFTW_MEASURE",), threads=threads
                )
                for direction in ("FFTW_FORWARD", "FFTW_BACKWARD")
            )

    def forward(self, array) -> None:
        """Transform in place."""
        self._execute(self._forward, array)

    def backward(self, array) -> None:
        """Inverse in place."""
        self._execute(self._backward, array)

    @staticmethod
    def _execute(plan, array) -> None:
        plan.update_arrays(array, array)
        plan.execute()
