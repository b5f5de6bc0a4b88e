"""Options of several ranks: what is allowed together, starting them, and opening their communicator."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wavefabric.errors import InputError, quoted
from wavefabric.system.machine import usable_threads

if TYPE_CHECKING:
    from wavefabric.collectives import Schedule
    from wavefabric.exchange import Communicator

TRANSPORTS = ("auto", "mpi", "mpi-cuda", "nccl", "p2p")
PANEL = "Several ranks"

#: Arguments of the command, for the ranks that it starts; set by `wavefabric.cli.main`.
words: list[str] = []
#: The communicator of this process, once there is one of several ranks.
opened: Communicator | None = None

Ranks = Annotated[
    int | None,
    typer.Option("--ranks", help="Processes, each with a GPU or CPU threads.", rich_help_panel=PANEL),
]
Transport = Annotated[
    str | None,
    typer.Option(
        "--transport",
        help=f"How they talk: {', '.join(TRANSPORTS)}. \\[default: auto]",
        rich_help_panel=PANEL,
    ),
]
Placement = Annotated[
    str | None,
    typer.Option(
        "--placement",
        help="GPU of each rank: a file, or auto (least traffic over slow links).",
        rich_help_panel=PANEL,
    ),
]


#: Most ranks, whatever the machine: a bound on absurd input.
MOST_RANKS = 4096


@dataclass(frozen=True)
class RankOptions:
    """What was asked for.

    Parameters
    ----------
    ranks : int, optional
    transport : str, optional
    placement : str, optional
        A path, or ``"auto"``.
    device : str, optional
    threads : int, optional
        CPU threads of a rank.
    """

    ranks: int | None = None
    transport: str | None = None
    placement: str | None = None
    device: str | None = None
    threads: int | None = None

    @property
    def count(self) -> int:
        """Ranks that will run, however they are started."""
        from wavefabric.exchange.launch import environment

        return max(environment.ranks(), self.ranks or 1)

    def check(self) -> None:
        """Refuse what cannot be, before anything starts.

        Raises
        ------
        InputError
        """
        from wavefabric.exchange.launch import environment

        here = environment.ranks()
        if self.ranks is not None and self.ranks < 1:
            raise InputError(f"--ranks: {self.ranks} given; allowed: a whole number from 1")
        if here == 1 and self.ranks is not None and self.ranks > MOST_RANKS:
            raise InputError(f"--ranks: {quoted(self.ranks)} given; allowed: 1 to {MOST_RANKS}")
        if starting(self) and self.count > (most := most_ranks()):
            raise InputError(f"--ranks: {self.count} given; allowed: 1 to {most} on this machine")
        if here > 1 and self.ranks not in (None, here):
            raise InputError(
                f"--ranks: {self.ranks} given, but {here} were started; allowed: {here}, or without"
            )
        if self.transport is not None and self.transport not in TRANSPORTS:
            raise InputError(f"--transport: {self.transport} given; allowed: {', '.join(TRANSPORTS)}")
        alone = self.count == 1 and environment.expected_ranks() is None
        for name, value in (("--transport", self.transport), ("--placement", self.placement)):
            if value is not None and alone:
                raise InputError(f"{name}: {value} given for one rank; allowed: with --ranks 2 or more")
        if self.device == "cpu":
            if self.transport not in (None, "auto", "mpi"):
                raise InputError(f"--transport: {self.transport} given with --device cpu; allowed: auto, mpi")
            if self.placement is not None:
                raise InputError(f"--placement: {self.placement} given with --device cpu; allowed: with GPUs")
        if self.placement is not None and (self.device or "").startswith("cuda:"):
            raise InputError(
                f"--placement: {self.placement} given with --device {self.device}; allowed: cuda or auto"
            )
        if self.placement not in (None, "auto"):
            self.gpus(None)

    def gpus(self, schedule: Callable[[], Schedule] | None, quiet: bool = True) -> list[int] | None:
        """GPU of each rank of this host, None where no placement was asked for.

        Parameters
        ----------
        schedule : callable
            Gives what the ranks will exchange; for ``auto``.
        quiet : bool
            Do not say what was found.
        """
        from wavefabric.exchange.launch import environment

        if self.placement is None:
            return None
        here = environment.local_size() if environment.ranks() > 1 else self.count
        given = os.environ.get(environment.PLACEMENT)
        if given and environment.expected_ranks() is not None:
            return [int(word) for word in given.split()]
        from wavefabric.exchange.placement import place, read_placement

        if self.placement != "auto":
            return read_placement(self.placement, here)
        if here != self.count:
            raise InputError(
                "--placement: auto given with ranks on several hosts; allowed: a file, for one host"
            )
        from wavefabric.exchange import topology

        found = topology.query()
        if found is None or schedule is None:
            raise InputError(
                "--placement: auto given, but nvidia-smi topo -m names no GPUs; allowed: a file, or without"
            )
        best = place(schedule(), found)
        if not quiet:
            typer.echo(str(best))
        return best.gpus


def starting(options: RankOptions) -> bool:
    """Whether this process has to start the ranks: several were asked for, and none has been started."""
    from wavefabric.exchange.launch import environment

    return environment.ranks() == 1 and environment.expected_ranks() is None and options.count > 1


def start(
    options: RankOptions, checkpoint: Path | None, schedule: Callable[[], Schedule], quiet: bool
) -> None:
    """Start the ranks and leave with their exit code; nothing if they are there, or one is enough.

    Parameters
    ----------
    options : RankOptions
        Checked.
    checkpoint : Path, optional
        Where they will save.
    schedule : callable
        What they will exchange, for the placement.
    quiet : bool

    Raises
    ------
    Exit
    InputError, MissingExtra
        If they cannot be started.
    """
    if not starting(options):
        return
    from wavefabric.exchange.launch.launch import Job, launch

    job = Job(
        list(words),
        options.count,
        options.transport or "auto",
        options.gpus(schedule, quiet) or [],
        options.threads or max(1, usable_threads() // options.count),
        checkpoint,
    )
    sys.stdout.flush()
    raise typer.Exit(launch(job))


def open_ranks(options: RankOptions, schedule: Callable[[], Schedule], quiet: bool) -> Communicator | None:
    """The communicator of several ranks, None for one; collective.

    Raises
    ------
    InputError, MissingExtra
        As `wavefabric.exchange.world`.
    """
    global opened
    from wavefabric.exchange import world
    from wavefabric.exchange.launch import environment

    if environment.ranks() == 1 and environment.expected_ranks() is None:
        return None
    from wavefabric.device import get_device
    from wavefabric.device.select import cuda_count

    device = options.device or "auto"
    gpus = options.gpus(schedule, quiet or environment.rank() > 0)
    if device == "cpu" or (device == "auto" and not cuda_count()):
        if gpus is not None:
            raise InputError(f"--placement: {options.placement} given, but there are no GPUs here")
        device = get_device("cpu", options.threads or default_threads())
    opened = world(options.transport or "auto", device, gpus)
    return opened


def most_ranks() -> int:
    """Ranks that are started here at most: eight for each hardware thread, and 16 on any machine."""
    return max(16, 8 * usable_threads())


def default_threads() -> int:
    """CPU threads of a rank: what its launcher says, else its share of what it may use."""
    from wavefabric.exchange.launch import environment

    given = os.environ.get(environment.THREADS, "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    return max(1, usable_threads() // environment.local_size())


def first() -> bool:
    """Whether this process is the one that prints."""
    from wavefabric.exchange.launch import environment

    return environment.rank() == 0
