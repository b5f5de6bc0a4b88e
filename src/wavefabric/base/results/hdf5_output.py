"""Write HDF5 files to disks that may become full.

When HDF5 closes a file that it could not write, it uses freed memory and the process crashes (HDF5 2.0.0). So
HDF5 writes to a Python stream that hides disk errors, and `OutputFile` raises these errors.
"""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py

from wavefabric.base.system.deferred_interrupt import DeferredInterrupt


class _Stream(io.FileIO):
    """A file stream that raises no errors: the first is stored in ``fault``, then nothing is written."""

    def __init__(self, path: str | Path, mode: str):
        super().__init__(path, mode)
        self.fault: BaseException | None = None

    def write(self, data: Any) -> int:
        self._move(super().write, memoryview(data))
        return len(data)

    def readinto(self, buffer: Any) -> int:
        rest = self._move(super().readinto, memoryview(buffer))
        rest[:] = bytes(len(rest))  # beyond the end of the file, or lost
        return len(buffer)

    def truncate(self, size: int | None = None) -> int:
        cut = super().truncate
        self._move(lambda _: cut(size) and 0, memoryview(b" "))
        return size or 0

    def _move(self, call: Callable[[Any], int | None], remaining: memoryview) -> memoryview:
        """Repeat ``call`` until all ``remaining`` bytes are moved or one fails; return the bytes left."""
        try:
            while remaining and self.fault is None and (count := call(remaining)):
                remaining = remaining[count:]
        except BaseException as error:
            self.fault = error
        return remaining


class OutputFile(h5py.File):
    """An HDF5 file for writing, of whose methods only `check`, `flush` and `close` raise disk errors.

    ``mode`` is ``w`` or ``r+``. Data written after an error are lost. `flush` and `close` defer interrupts.
    """

    def __init__(self, path: str | Path, mode: str = "w", **options: Any):
        self._stream = _Stream(path, {"w": "w+b", "r+": "r+b"}[mode])
        try:
            super().__init__(self._stream, mode, **options)
        except BaseException:
            self._stream.close()
            raise

    def check(self) -> None:
        """Raise the first disk error, if there was one."""
        if self._stream.fault is not None:
            raise self._stream.fault

    def flush(self) -> None:
        """Write the data that HDF5 buffers in memory."""
        self._complete(super().flush)

    def close(self) -> None:
        """Write the data that HDF5 buffers in memory, and close the file."""
        try:
            self._complete(super().close)
        finally:
            self._stream.close()

    def _complete(self, call: Callable[[], None]) -> None:
        with DeferredInterrupt() as interrupt:
            call()
        self.check()
        interrupt.check()
