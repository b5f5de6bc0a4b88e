"""Where recorded quantities go: one protocol, and the one that keeps them in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from wavefabric.errors import InputError


@dataclass(frozen=True)
class Layout:
    """What a run will record.

    Parameters
    ----------
    series : dict of str to tuple of int
        Time series: name (``"p"``, ``"ux"``, ``"ux_non_staggered"``, ``"Ix"`` …) to (rows, samples); a
        row is a time step, a sample a sensor point (cuboids: box after box, x fastest).
    points : dict of str to int
        Statistics over time at the sensor (``"p_max"``, ``"ux_rms"``, ``"Ix_avg"`` …) to samples.
    fields : tuple of str
        Whole-domain quantities (``"p_max_all"``, ``"ux_final"`` …), shape (Nz, Ny, Nx) each.
    dtype : dtype
        float32 or float64.
    run : str
        Identifies the run in its checkpoint and in the files that go with it; empty if there are none.
    """

    series: dict[str, tuple[int, int]]
    points: dict[str, int]
    fields: tuple[str, ...]
    dtype: np.dtype
    run: str = ""


@dataclass
class Report:
    """What a run cost: steps done now, all steps, seconds by phase, bytes; the same on all ranks."""

    steps: int = 0
    total_steps: int = 0
    device: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    """``"loading"``, ``"preprocessing"``, ``"simulation"``, ``"postprocessing"``, over all legs, rank 0's."""
    transforms_per_step: float = 0.0
    peak_bytes: int = 0
    """Of the rank that used most."""
    resumed_at: int = 0
    ranks: int = 1
    transport: str = ""
    """How the ranks talked; empty for one."""
    decomposition: str = ""
    """How the grid was shared, in words; empty for one rank."""
    notes: list[str] = field(default_factory=list)
    """Advice: sizes of blocks that slow the run down."""


class Sink(Protocol):
    """Takes what is recorded. `rows` is called from a second thread, in order, one call at a time.

    A sink that makes a file has its name as ``path``: no other process may write it during the run.
    """

    def begin(self, layout: Layout, rows_done: int) -> None:
        """Before the first step. ``rows_done`` rows of every series are there from an earlier leg."""
        ...

    def rows(self, name: str, first: int, block: np.ndarray) -> None:
        """Rows ``first`` … of series ``name``; ``block`` (n, samples) is valid during the call only."""
        ...

    def flush(self) -> None:
        """Make all rows so far last through a kill; called before a checkpoint is written."""
        ...

    def finish(self, arrays: Mapping[str, np.ndarray], report: Report) -> None:
        """The run is complete: statistics (samples,) and fields (Nz, Ny, Nx), by name.

        From several ranks each comes together when it is taken out: take each once, and keep no more than one
        in memory where that can be.
        """
        ...

    def abandon(self, keep: bool) -> None:
        """The run ends early; ``keep`` what is there if a checkpoint refers to it."""
        ...


class Memory:
    """Keeps everything: ``arrays[name]``, time series as (rows, samples)."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}

    def begin(self, layout: Layout, rows_done: int) -> None:
        """Make room for the series."""
        if rows_done:
            raise ValueError("time series in memory cannot be resumed")
        for name, (rows, samples) in layout.series.items():
            try:
                self.arrays[name] = np.empty((rows, samples), layout.dtype)
            except (ValueError, MemoryError):
                needed = rows * samples * layout.dtype.itemsize / 2**30
                raise InputError(
                    f"steps: {rows} rows of {name} at {samples} points take {needed:.1f} GiB; record less"
                ) from None

    def rows(self, name: str, first: int, block: np.ndarray) -> None:
        """Store rows."""
        self.arrays[name][first : first + len(block)] = block

    def flush(self) -> None:
        """Nothing outlives the process here."""

    def finish(self, arrays: Mapping[str, np.ndarray], report: Report) -> None:
        """Keep the rest."""
        self.arrays.update(arrays)

    def abandon(self, keep: bool) -> None:
        """Nothing to undo."""
