"""A progress bar with the time left, on a terminal only, and of the first rank only."""

from __future__ import annotations

import os
import sys
from typing import Any

from wavefabric.system.progress import Silent


class Bar:
    """A bar on stderr; a further `start` replaces the one before."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None

    def start(self, total_steps: float | None, label: str) -> None:
        """Show the bar."""
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as RichProgress

        self.finish()
        self._bar = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[message]}", markup=False),
            console=_console(),
            refresh_per_second=4,
        )
        self._task = self._bar.add_task(label, total=total_steps, message="")
        self._bar.start()

    def update(self, done: float, message: str = "") -> None:
        """Move the bar."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done, message=message)

    def finish(self) -> None:
        """Stop the bar and leave it on the screen."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def on_terminal() -> bool:
    """Whether a bar has a place: stderr is a terminal, or leads to the one of the launcher of this rank."""
    return sys.stderr.isatty() or _columns() > 0


def make_progress(quiet: bool = False) -> Bar | Silent:
    """A bar if stderr is a terminal, this is the first rank, and nobody asked for quiet."""
    from wavefabric.cli.common.ranks import first

    return Silent() if quiet or not on_terminal() or not first() else Bar()


def tell_of_compiling(quiet: bool = False) -> None:
    """One line on stderr should this run have to compile kernels; nothing if they are in Numba's cache."""
    from wavefabric.cli.common.ranks import first
    from wavefabric.device import compiling

    compiling.before_first(None if quiet or not first() else _compiling)


def _compiling() -> None:
    print(
        "wavefabric: compiling kernels for this processor, about 15 s; later runs find them in the cache",
        file=sys.stderr,
        flush=True,
    )


def _columns() -> int:
    text = os.environ.get("WAVEFABRIC_TERMINAL", "")
    return int(text) if text.isdecimal() else 0


def _console():
    from rich.console import Console

    columns = _columns()
    return Console(stderr=True, force_terminal=True, width=columns) if columns else Console(stderr=True)
