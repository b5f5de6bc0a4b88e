"""What the two commands for k-Wave's files share: progress in lines, and what is left after a failure."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from wavefabric.errors import FieldLost, InputError
from wavefabric.system.interrupt import exit_code
from wavefabric.system.progress import Progress, Silent, warn

if TYPE_CHECKING:
    from wavefabric.acoustics.kwave.output import KWaveOutput
    from wavefabric.acoustics.parallel.decomposition import Options
    from wavefabric.acoustics.problem import Problem
    from wavefabric.cli.common.ranks import RankOptions
    from wavefabric.device.base import Device
    from wavefabric.exchange import Communicator


def domain(problem: Problem) -> str:
    """The size of the grid in words: ``48 x 40 x 32``."""
    return " x ".join(str(n) for n in problem.shape[: problem.dimensions])


def share(
    file: Path,
    target: Path,
    force: bool,
    ranks: RankOptions,
    options: Options | None,
    checkpoint: Path | None,
    quiet: bool,
) -> Communicator | None:
    """Start the ranks that were asked for, or open the communicator of those that are there.

    Returns
    -------
    Communicator or None
        None for one rank.

    Raises
    ------
    Exit
        When the ranks have been started and have ended.
    InputError, MissingExtra
        Before any starts, if the output cannot be written or the grid cannot be shared.
    """
    from wavefabric.cli.common.decomposition import traffic
    from wavefabric.cli.common.ranks import open_ranks, start, starting

    def schedule():
        return traffic(file, ranks.count, options)

    if starting(ranks):
        from wavefabric.files.output import check_output

        check_output(target, force, inputs=[file])
        schedule()
        start(ranks, checkpoint, schedule, quiet)
    return open_ranks(ranks, schedule, quiet)


def single_device(comm: Communicator | None, ranks: RankOptions) -> Device | None:
    """The device of a run on one rank; None for several, which check their memory together."""
    from wavefabric.device import get_device

    return get_device(ranks.device or "auto", ranks.threads) if comm is None else None


def make_sink(comm: Communicator | None, make: Callable[[], KWaveOutput]) -> KWaveOutput | None:
    """The output, on the first rank only; what is wrong with it is an error on all."""
    if comm is None:
        return make()
    from wavefabric.lifecycle.agreement import on_all_ranks

    return on_all_ranks(comm, lambda: make() if comm.rank == 0 else None)


def warn_of_band(file: Path, problem: Problem) -> None:
    """A line on stderr, once, for each source of a file with frequencies that its grid does not carry."""
    from wavefabric.acoustics.check.source_band import band_warnings
    from wavefabric.acoustics.kwave.input import dataset_names
    from wavefabric.cli.common.ranks import first

    if not first():
        return
    for line in band_warnings(problem, dataset_names(file)):
        warn(line)


def check_stable(
    file: Path,
    problem: Problem,
    comm: Communicator,
    precision: str,
    options: Options | None,
    checkpoint: Path | None,
    otherwise: str = "",
) -> None:
    """Refuse a time step that is not stable; collective. A run that goes on was looked at when it began.

    Raises
    ------
    InputError
        ``otherwise`` is what may be done besides.
    """
    from wavefabric.acoustics.run import dtype_of
    from wavefabric.acoustics.stability.time_step import stability
    from wavefabric.lifecycle.agreement import on_first_rank

    goes_on = checkpoint is not None and on_first_rank(comm, checkpoint.exists)
    dtype = dtype_of(precision, problem, comm.device)
    found = stability(problem, comm=comm, dtype=dtype, options=options, trials=not goes_on)
    if found.warning:
        raise InputError(f"{file}: {found.refusal(otherwise)}")


def warn_of_dispersion(file: Path, problem: Problem) -> None:
    """Say on stderr, once, how far absorption moves the speed of sound; nothing below 2 %."""
    from wavefabric.acoustics.check.dispersion import largest_shift
    from wavefabric.cli.common.ranks import first

    if first() and (shift := largest_shift(problem)):
        warn(f"{file}: alpha_power: {shift}")


def interrupted(what_next: str) -> None:
    """Say what Ctrl-C left, once."""
    from wavefabric.cli.common.ranks import first

    if first():
        print(f"wavefabric: interrupted; {what_next}", file=sys.stderr)


class Lines:
    """A line on stdout every so many percent, for logs.

    Parameters
    ----------
    percent : int
        1 to 100.
    """

    def __init__(self, percent: int):
        self._percent = percent
        self._total: float = 0
        self._done: float = 0
        self._next = 0
        self._began = 0.0

    def start(self, total_steps: float | None, label: str) -> None:
        """Begin."""
        self._total, self._done, self._next, self._began = total_steps or 0, 0, self._percent, 0.0

    def update(self, done: float, message: str = "") -> None:
        """Print if another share is done."""
        now = time.perf_counter()
        if not self._began:
            # A resumed run starts somewhere in the middle.
            self._began, self._done = now, done
        share = 100 * done / self._total if self._total else 0
        if share < self._next:
            return
        self._next = (int(share) // self._percent + 1) * self._percent
        elapsed, fresh = now - self._began, done - self._done
        left = f", {elapsed * (self._total - done) / fresh:.1f} s to go" if fresh > 0 else ""
        print(f"{int(share):3d} % after {elapsed:.1f} s{left}", flush=True)

    def finish(self) -> None:
        """Nothing is left to close."""


def make_lines(percent: int, verbose: int) -> Progress:
    """A bar on a terminal, lines elsewhere, nothing if nobody wants to read."""
    from wavefabric.cli.common.progress import make_progress, on_terminal
    from wavefabric.cli.common.ranks import first

    if not verbose or not first():
        return Silent()
    if on_terminal():
        return make_progress()
    return Lines(percent)


@contextlib.contextmanager
def guarded(sink: KWaveOutput | None, checkpoint: Path | None, progress: Progress) -> Iterator[None]:
    """Run inside: leaves no unfinished output without a checkpoint, and says what Ctrl-C left.

    Only the first rank has a sink, and only it speaks.

    Raises
    ------
    InputError
        If the field was lost: its one line.
    Exit
        With the code 130 after Ctrl-C, 143 after SIGTERM.
    """

    def saved() -> bool:
        return checkpoint is not None and checkpoint.exists()

    def abandon() -> None:
        if sink is not None:
            sink.abandon(keep=saved())

    try:
        yield
    except KeyboardInterrupt:
        progress.finish()
        abandon()
        interrupted(f"the same command goes on from {checkpoint}" if saved() else "no checkpoint yet")
        raise typer.Exit(exit_code()) from None
    except FieldLost as lost:
        abandon()
        raise InputError(str(lost)) from None
    except BaseException:
        abandon()
        raise
    finally:
        progress.finish()
