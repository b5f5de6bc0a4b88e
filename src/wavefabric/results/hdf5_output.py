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
    """The bytes of a file; the first error, an interrupt too, is kept as ``fault``, and ends all writing."""

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

    def _move(self, call: Callable[[Any], int | None], rest: memoryview) -> memoryview:
        """Call until all is moved, or no more can be; the part that is not."""
        try:
            while rest and self.fault is None and (count := call(rest)):
                rest = rest[count:]
        except BaseException as error:
            self.fault = error
        return rest


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
        self._complete(super().flush)

    def close(self) -> None:
        """Write what HDF5 keeps in memory, and end."""
        try:
            self._complete(super().close)
        finally:
            self._stream.close()

    def _complete(self, call: Callable[[], None]) -> None:
        with DeferredInterrupt() as interrupt:
            call()
        self.check()
        interrupt.check()
