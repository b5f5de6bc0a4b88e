"""How a long computation reports its progress, in a bar where stderr is a terminal, and warns."""

import os
import sys
from typing import Any


class Progress:
    """Shows where a long computation is; this one shows nothing."""

    def start(self, total_steps: float | None, label: str) -> None:
        """Begin; ``total_steps`` is None if it is not known."""

    def update(self, done: float, message: str = "") -> None:
        """So many steps are done, counted from `start`."""

    def finish(self) -> None:
        """End, also after an error."""


class Bar(Progress):
    """A bar with the time left on stderr; a further `start` replaces the one before."""

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
    """A bar if stderr is a terminal, or leads to the launcher's; else what shows nothing."""
    return Bar() if sys.stderr.isatty() or _columns() else Progress()


def _columns() -> int:
    """Columns of the launcher's terminal, on its ranks; else 0."""
    text = os.environ.get("WAVEFABRIC_TERMINAL", "")
    return int(text) if text.isdecimal() else 0


def warn(text: str) -> None:
    """One line on stderr: nothing is refused, but the result may not be what it seems."""
    print(f"wavefabric: warning: {text}", file=sys.stderr, flush=True)
