"""What every run of the command line has in common: its end, and what is left after a failure."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import typer

from wavefabric.cli.common.ranks import is_rank_zero
from wavefabric.errors import InputError
from wavefabric.system.interrupt import exit_code
from wavefabric.system.progress import Progress


@contextlib.contextmanager
def guarded(
    progress: Progress,
    checkpoint: Path | None,
    abandon: Callable[[bool], object] = lambda keep: None,
    command: str = "the same command",
) -> Iterator[None]:
    """Run inside: ends the progress; after Ctrl-C or SIGTERM tells of the checkpoint, and exits.

    After any failure ``abandon`` is called with whether there is a checkpoint: then output is kept.
    """
    try:
        yield
    except BaseException as error:
        progress.finish()
        saved = checkpoint is not None and checkpoint.exists()
        abandon(saved)
        if not isinstance(error, KeyboardInterrupt):
            raise
        if is_rank_zero():
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
    except InputError as error:
        if not str(error).endswith("to start anew"):
            raise
        raise InputError(f"{error} (--no-resume)") from None
