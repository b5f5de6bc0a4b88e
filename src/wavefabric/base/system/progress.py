"""Report the progress of a long computation, as a bar if stderr is a terminal, and print warnings."""

import os
import sys
from typing import Any


class Progress:
    """Shows the progress of a long computation; this base class shows nothing."""

    def start(self, total_steps: float | None, label: str) -> None:
        """Begin to show the progress of a computation of ``total_steps`` steps (None: unknown)."""

    def update(self, done: float, message: str = "") -> None:
        """Report that ``done`` steps are complete since `start`."""

    def finish(self) -> None:
        """End the display, also after an error."""


class Bar(Progress):
    """A bar on stderr with the remaining time; another `start` replaces the current bar."""

    _bar: Any = None
    _task: Any = None

    def start(self, total_steps: float | None, label: str) -> None:
        from rich import progress
        from rich.console import Console

        self.finish()
        columns = _columns()
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TextColumn("left"),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[message]}", markup=False),
            console=Console(stderr=True, force_terminal=bool(columns) or None, width=columns or None),
            refresh_per_second=4,
        )
        self._task = self._bar.add_task(label, total=total_steps, message="")
        self._bar.start()

    def update(self, done: float, message: str = "") -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=done, message=message)

    def finish(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def terminal_bar() -> Progress:
    """Return a bar if stderr (for a rank: the launcher's) is a terminal; otherwise a silent `Progress`."""
    return Bar() if sys.stderr.isatty() or _columns() else Progress()


def _columns() -> int:
    """Return the width in columns of the terminal of this rank's launcher; 0 if there is none."""
    text = os.environ.get("WAVEFABRIC_TERMINAL", "")
    return int(text) if text.isdecimal() else 0


def warn(text: str) -> None:
    """Print a warning on stderr: the run continues, but its result may be misleading."""
    print(f"wavefabric: warning: {text}", file=sys.stderr, flush=True)
