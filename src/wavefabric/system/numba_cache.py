"""Compiled kernels are kept between runs in a directory that is named by the source of all of them.

Numba looks for changes in the file of a function alone, not in the files of the functions that it calls: a
kernel would stay as it was when a helper in another file changes, also after an update of the package. Here
any change of `SOURCES` makes another directory: ``numba/<hash>`` in the cache of the user, or ``<hash>`` in
``$NUMBA_CACHE_DIR``.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import IO, Any, ClassVar

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator

from wavefabric.system.compiling import compiling
from wavefabric.system.user_cache import cache_directory

#: All files of the package with code that Numba compiles, or that emit the vector code it calls, give the
#: constants in it or define types of its arguments, below the package's own directory.
SOURCES = (
    "acoustics/materials/number_sets.py",
    "device/parallel_kernels.py",
    "device/philox.py",
    "fabric/cost_models/flow_kernel.py",
    "optics/theory/correlated_kernels.py",
    "optics/theory/kernels.py",
    "system/numba_cache.py",
)
# Kernels of other versions are removed once nobody has used them for so long, s.
_UNUSED = 30 * 86400.0
# How long a process waits for another one that compiles the same kernel, and how often it looks, s.
_TIMEOUT, _POLL = 120.0, 0.02


class _Locator(_CacheLocator):
    """A kernel's files, named by its module: every copy of the package shares what one has compiled."""

    def __init__(self, function: Callable) -> None:
        self._path = directory() / function.__module__
        self._line = function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        return str(self._path)

    def get_source_stamp(self) -> str:
        return source_hash()

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Callable, py_file: str) -> "_Locator":
        return cls(py_func)


class _Files(CompileResultCacheImpl):
    _locator_classes: ClassVar[list] = [_Locator]


class _KernelCache(FunctionCache):
    """Of processes that want the same kernel at the same time, as ranks do, one compiles it for all.

    ``kinds`` tell what is kept as one function apart, beside the types of its arguments.
    """

    _impl_class = _Files
    _lock: IO[bytes] | None = None

    def __init__(self, function: Callable, kinds: Any = None) -> None:
        super().__init__(function)
        self._kinds = kinds

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return super()._index_key((sig, self._kinds), codegen)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        kernel = super().load_overload(sig, target_context)
        if kernel is None and self._enabled:
            self._wait()
            if (kernel := super().load_overload(sig, target_context)) is not None:
                self._release()
        return kernel

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            with contextlib.suppress(OSError):  # a full disk: compiled again next time
                super().save_overload(sig, data)
        finally:
            self._release()

    def _wait(self) -> None:
        """For another process that compiles this kernel; not for ever, nor where files cannot be locked."""
        self._release()
        with contextlib.suppress(OSError):
            self._impl.locator.ensure_cache_path()
            self._lock = open(f"{self._cache_file._index_path}.lock", "wb")  # noqa: SIM115
            with compiling():
                for _ in range(round(_TIMEOUT / _POLL)):
                    try:
                        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        return
                    except BlockingIOError:
                        time.sleep(_POLL)

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def njit(*, part_of: Callable | None = None, kinds: Any = None, **options: Any) -> Callable[[Callable], Any]:
    """`numba.njit` with ``cache=True`` in our directory.

    Code without a source file is kept as ``part_of`` a function that has one, told apart by ``kinds``.

    Kernels take no ``fastmath``: contraction and reassociation depend on what the compiler has inlined, and a
    kernel just compiled would then give other bits than the same one read from the cache.
    """
    if options.get("fastmath"):
        raise TypeError("kernels are compiled without fastmath")

    def decorate(function: Callable) -> Any:
        kernel: Any = numba.njit(**options)(function)
        kernel._cache = _KernelCache(part_of or function, kinds)  # cache=True knows Numba's directory alone
        return kernel

    return decorate


@cache
def source_hash() -> str:
    """Of all kernels: other kernels round otherwise."""
    package, digest = Path(__file__).parents[1], hashlib.sha256()
    for name in SOURCES:
        text = (package / name).read_bytes()
        digest.update(f"{name} {len(text)}\n".encode() + text)
    return digest.hexdigest()[:16]


@cache
def directory() -> Path:
    """The directory of these kernels; those of other versions that are no longer used are removed."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    root = Path(chosen) if chosen else cache_directory("numba")
    own = root / source_hash()
    new = not own.exists()
    own.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError):
        os.utime(own)
    if new:
        for other in root.iterdir():
            with contextlib.suppress(OSError):
                if len(other.name) == len(own.name) and time.time() - other.stat().st_mtime > _UNUSED:
                    shutil.rmtree(other)
    return own
