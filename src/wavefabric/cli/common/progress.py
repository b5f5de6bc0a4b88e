"""Show the progress of a run on rank 0, as a bar or as lines in a log, and end the run, also on Ctrl-C."""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from click.exceptions import Exit

from wavefabric.base.errors import InputError, UnusableCheckpoint
from wavefabric.base.system.compilation_clock import CLOCK
from wavefabric.base.system.deferred_interrupt import exit_code
from wavefabric.base.system.progress import Bar, Progress, terminal_bar
from wavefabric.cli.common.ranks import RankOptions, open_ranks, start
from wavefabric.runtime.exchange.launch import environment

if TYPE_CHECKING:
    from wavefabric.collectives import Schedule
    from wavefabric.runtime.exchange.communicator import Communicator


class Lines(Progress):
    """Prints progress as one line on stdout every ``percent`` percent (1 to 100), for logs."""

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
    """Return a progress bar on a terminal, else `Lines` with ``percent``; silent if ``quiet`` or rank > 0."""
    if quiet or environment.rank() > 0:
        return Progress()
    bar = terminal_bar()
    return bar if isinstance(bar, Bar) or percent is None else Lines(percent)


@contextlib.contextmanager
def running(
    ranks: RankOptions,
    schedule: "Callable[[], Schedule]",
    checkpoint: Path | None,
    check: Callable[[], object],
    quiet: bool,
    progress: Progress | None = None,
    command: str = "the same command",
) -> Iterator[tuple["Communicator | None", Progress]]:
    """Run the ``with`` block on running ranks or alone; if ranks must be started first, start them and exit.

    ``check`` is called before ranks are started. Yields the communicator (None for one rank), and
    ``progress`` or the result of `make_progress`, which ends with the block. After Ctrl-C or SIGTERM a line
    names the ``command`` that resumes from ``checkpoint``, and the process exits.
    """
    start(ranks, checkpoint, schedule, quiet, check)
    comm = open_ranks(ranks, schedule, quiet)
    CLOCK.announces = not quiet and environment.rank() == 0  # prints a line when kernels are compiled
    progress = progress or make_progress(quiet)
    try:
        yield comm, progress
    except KeyboardInterrupt:
        progress.finish()  # else the bar would overwrite the line
        if environment.rank() == 0:
            saved = checkpoint is not None and os.path.exists(checkpoint)  # False for a name that is too long
            advice = f"{command} resumes from {checkpoint}" if saved else "no checkpoint yet"
            print(f"wavefabric: interrupted; {advice}", file=sys.stderr)
        raise Exit(exit_code()) from None
    finally:
        progress.finish()


@contextlib.contextmanager
def naming_no_resume() -> Iterator[None]:
    """Within this context, name the option ``--no-resume`` in the error for an unusable checkpoint."""
    try:
        yield
    except UnusableCheckpoint as error:
        raise InputError(f"{error} (--no-resume)") from None
