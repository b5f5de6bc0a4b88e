"""Progress of a run, on rank 0 only: a bar on a terminal, lines in a log; and its end, also by Ctrl-C."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from wavefabric.cli.common.ranks import is_rank_zero
from wavefabric.errors import InputError, UnusableCheckpoint
from wavefabric.system.interrupt import exit_code
from wavefabric.system.progress import Progress


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


class Lines(Progress):
    """A line on stdout every so many percent (1 to 100), for logs."""

    def __init__(self, percent: int):
        self._percent = percent

    def start(self, total_steps: float | None, label: str) -> None:
        self._total, self._done, self._next, self._began = total_steps or 0, 0, self._percent, 0.0

    def update(self, done: float, message: str = "") -> None:
        now = time.perf_counter()
        if not self._began:
            # A resumed run starts somewhere in the middle.
            self._began, self._done = now, done
        fraction = 100 * done / self._total if self._total else 0
        if fraction < self._next:
            return
        self._next = (int(fraction) // self._percent + 1) * self._percent
        elapsed, fresh = now - self._began, done - self._done
        left = f", {elapsed * (self._total - done) / fresh:.1f} s to go" if fresh > 0 else ""
        print(f"{int(fraction):3d} % after {elapsed:.1f} s{left}", flush=True)


def make_progress(quiet: bool = False, percent: int | None = None) -> Progress:
    """A bar if stderr is a terminal, or leads to the launcher's; else lines, if ``percent`` is given."""
    if quiet or not is_rank_zero():
        return Progress()
    if sys.stderr.isatty() or _columns():
        return Bar()
    return Progress() if percent is None else Lines(percent)


def announce_compiling(quiet: bool = False) -> None:
    """One line on stderr should this run have to compile kernels; nothing if they are in Numba's cache."""
    from wavefabric.device import compiling

    line = "compiling kernels for this processor, about 15 s; later runs find them in the cache"

    def say() -> None:
        print(f"wavefabric: {line}", file=sys.stderr, flush=True)

    compiling.before_first(None if quiet or not is_rank_zero() else say)


def _columns() -> int:
    """Columns of the launcher's terminal, on its ranks; else 0."""
    text = os.environ.get("WAVEFABRIC_TERMINAL", "")
    return int(text) if text.isdecimal() else 0


@contextlib.contextmanager
def guarded(progress: Progress, checkpoint: Path | None, command: str = "the same command") -> Iterator[None]:
    """Run inside: ends the progress; after Ctrl-C or SIGTERM tells of the checkpoint, and exits."""
    try:
        yield
    except KeyboardInterrupt:
        progress.finish()  # before anything is said
        if is_rank_zero():
            saved = checkpoint is not None and os.path.exists(checkpoint)  # False for a name that is too long
            left = f"{command} goes on from {checkpoint}" if saved else "no checkpoint yet"
            print(f"wavefabric: interrupted; {left}", file=sys.stderr)
        raise typer.Exit(exit_code()) from None
    finally:
        progress.finish()


@contextlib.contextmanager
def naming_no_resume() -> Iterator[None]:
    """Say which option does what is advised for a checkpoint that cannot be used."""
    try:
        yield
    except UnusableCheckpoint as error:
        raise InputError(f"{error} (--no-resume)") from None
