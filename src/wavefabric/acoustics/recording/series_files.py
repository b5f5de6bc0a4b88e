"""A sink whose time series outlive the process, so that a run can go on from its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from wavefabric.acoustics.recording.sinks import Layout, Report
from wavefabric.errors import InputError

_ENDING = ".series.partial"


class SeriesFiles:
    """Keeps each series in a file beside the checkpoint, and everything in memory at the end.

    Parameters
    ----------
    checkpoint : str or Path
        The checkpoint's file; series ``p`` goes to ``<checkpoint>.<run>.p.series.partial``, so that no
        other run takes it for its own.
    """

    def __init__(self, checkpoint: str | Path):
        self.arrays: dict[str, np.ndarray] = {}
        self._checkpoint = Path(checkpoint)
        self._maps: dict[str, np.memmap] = {}
        self._run = ""

    def _path(self, name: str) -> Path:
        run = f".{self._run}" if self._run else ""
        return self._checkpoint.with_name(f"{self._checkpoint.name}{run}.{name}{_ENDING}")

    def begin(self, layout: Layout, rows_done: int) -> None:
        """Make the files, or open those of an earlier leg.

        Raises
        ------
        InputError
            If rows were recorded and their file is gone or is another's.
        """
        self._run = layout.run
        if not rows_done:
            self._remove_older()
        for name, shape in layout.series.items():
            path = self._path(name)
            if not rows_done:
                self._maps[name] = np.lib.format.open_memmap(path, "w+", layout.dtype, shape)
                continue
            try:
                found = np.lib.format.open_memmap(path, "r+")
            except (OSError, ValueError):
                found = None
            if found is None or found.shape != shape or found.dtype != layout.dtype:
                raise InputError(
                    f"checkpoint: {self._checkpoint.name} has no matching {path.name} beside it; "
                    "allowed: both, or none to start again"
                )
            self._maps[name] = found

    def rows(self, name: str, first: int, block: np.ndarray) -> None:
        """Store rows."""
        self._maps[name][first : first + len(block)] = block

    def flush(self) -> None:
        """Bring all rows to the disk."""
        for series in self._maps.values():
            series.flush()

    def finish(self, arrays: Mapping[str, np.ndarray], report: Report) -> None:
        """Take the series into memory and remove their files."""
        self.arrays = {name: np.array(series) for name, series in self._maps.items()} | dict(arrays)
        self._remove()

    def abandon(self, keep: bool) -> None:
        """Leave the files only if a checkpoint refers to them."""
        if keep:
            self.flush()
            self._maps.clear()
        else:
            self._remove()

    def _remove_older(self) -> None:
        """Files of runs that were killed before their first checkpoint."""
        first = f"{self._checkpoint.name}."
        for found in self._checkpoint.parent.iterdir():
            if found.name.startswith(first) and found.name.endswith(_ENDING):
                found.unlink(missing_ok=True)

    def _remove(self) -> None:
        names = list(self._maps)
        # Windows removes no file that is mapped.
        self._maps.clear()
        for name in names:
            self._path(name).unlink(missing_ok=True)
