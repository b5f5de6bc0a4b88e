"""HDF5 files to be written, on disks that may become full.

HDF5 uses memory that it has freed, and the process crashes, when it closes a file that it could not write
(HDF5 2.0.0). So it writes to a stream that hides errors of the disk; `OutputFile` raises them.
"""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py

from wavefabric.system.interrupt import DeferredInterrupt


class _Stream(io.FileIO):
    """The bytes of a file, whose first error is kept as ``fault``; nothing is written after it."""

    def __init__(self, path: str | Path, mode: str):
        super().__init__(path, mode)
        self.fault: BaseException | None = None

    def write(self, data: Any) -> int:
        rest = memoryview(data)

        def write_all() -> None:
            nonlocal rest
            while rest:
                rest = rest[io.FileIO.write(self, rest) :]

        self._try(write_all)
        return len(data)

    def readinto(self, buffer: Any) -> int:
        rest = memoryview(buffer)

        def read_all() -> None:
            nonlocal rest
            while rest and (count := io.FileIO.readinto(self, rest)):
                rest = rest[count:]

        self._try(read_all)
        rest[:] = bytes(len(rest))  # beyond the end of the file, or lost
        return len(buffer)

    def truncate(self, size: int | None = None) -> int:
        self._try(lambda: io.FileIO.truncate(self, size))
        return self.tell() if size is None else size

    def _try(self, call: Callable[[], object]) -> None:
        if self.fault is None:
            try:
                call()
            except BaseException as error:  # an interrupt too: HDF5 must never see a failure
                self.fault = error


class OutputFile(h5py.File):
    """An HDF5 file that is written; errors of the disk are raised by `check`, `flush` and `close` alone.

    ``mode`` is ``w`` or ``r+``. What was written after an error is lost. Interrupts wait for `flush` and
    `close`.
    """

    def __init__(self, path: str | Path, mode: str = "w", **options: Any):
        self._stream = _Stream(path, {"w": "w+b", "r+": "r+b"}[mode])
        try:
            super().__init__(self._stream, mode, **options)
        except BaseException:
            self._stream.close()
            raise

    def check(self) -> None:
        """Raise the first error of the disk."""
        if self._stream.fault is not None:
            raise self._stream.fault

    def flush(self) -> None:
        """Write what HDF5 keeps in memory."""
        with DeferredInterrupt() as interrupt:
            super().flush()
        self.check()
        interrupt.check()

    def close(self) -> None:
        """Write what HDF5 keeps in memory, and end."""
        with DeferredInterrupt() as interrupt:
            super().close()
            self._stream.close()
        self.check()
        interrupt.check()
