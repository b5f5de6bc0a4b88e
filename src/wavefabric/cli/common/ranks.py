"""Options of several ranks: what is allowed together, starting them, and opening their communicator."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from wavefabric.cli.common.options import changed, option, options, refuse
from wavefabric.errors import InputError, quoted
from wavefabric.system.machine import usable_threads

if TYPE_CHECKING:
    from wavefabric.collectives import Schedule
    from wavefabric.exchange import Communicator

PANEL = "Several ranks"
#: Most ranks, whatever the machine: a bound on absurd input.
MOST_RANKS = 4096

#: Arguments of the command, for the ranks that it starts; set by `wavefabric.cli.main`.
arguments: list[str] = []
#: The communicator of this process, once there is one of several ranks.
opened: Communicator | None = None

RANKS_HELP = "Processes, each with a GPU or CPU threads."
PLACEMENT_HELP = "GPU of each rank: a file, or auto (least traffic over slow links)."


def on_ranks() -> bool:
    """Whether this process is one of several ranks."""
    from wavefabric.exchange.launch import environment

    return environment.ranks() > 1


def is_rank_zero() -> bool:
    """Whether this process is the one that prints."""
    from wavefabric.exchange.launch import environment

    return environment.rank() == 0


def rank_zero_only(command: Callable[..., None]) -> Callable[..., None]:
    """A command that other ranks leave at once."""

    @functools.wraps(command)
    def call(*arguments: Any, **options: Any) -> None:
        if is_rank_zero():
            command(*arguments, **options)

    return call


@options(PANEL)
class RankOptions:
    """Options of several ranks; device and threads are those of the command."""

    ranks: int | None = option(RANKS_HELP)
    transport: str | None = option(
        "How they talk: {wavefabric.exchange.transports:TRANSPORTS}. \\[default: auto]"
    )
    placement: str | None = option(PLACEMENT_HELP)
    device: str | None = None
    threads: int | None = None

    @property
    def count(self) -> int:
        """Ranks that will run, however they are started."""
        from wavefabric.exchange.launch import environment

        return max(environment.ranks(), self.ranks or 1)

    def check(self) -> None:
        """Refuse what cannot be, before anything starts."""
        from wavefabric.exchange.launch import environment

        self._check_count(environment.ranks())
        placement = changed(self, "placement")
        if self.count == 1 and environment.expected_ranks() is None:
            refuse(changed(self, "transport", "placement"), "for one rank", "with --ranks 2 or more")
        if self.device == "cpu":
            if self.transport not in ("auto", "mpi"):
                refuse(changed(self, "transport"), "with --device cpu", "auto, mpi")
            refuse(placement, "with --device cpu", "with GPUs")
        if (self.device or "").startswith("cuda:"):
            refuse(placement, f"with --device {self.device}", "cuda or auto")
        if self.placement not in (None, "auto"):
            self.gpus(None)

    def _check_count(self, started: int) -> None:
        if self.ranks is not None and self.ranks < 1:
            raise InputError(f"--ranks: {self.ranks} given; allowed: a whole number from 1")
        if started == 1 and self.ranks is not None and self.ranks > MOST_RANKS:
            raise InputError(f"--ranks: {quoted(self.ranks)} given; allowed: 1 to {MOST_RANKS}")
        if must_start(self) and self.count > (most := most_ranks()):
            raise InputError(f"--ranks: {self.count} given; allowed: 1 to {most} on this machine")
        if started > 1 and self.ranks not in (None, started):
            raise InputError(
                f"--ranks: {self.ranks} given, but {started} were started; allowed: {started}, or without"
            )

    def gpus(self, schedule: Callable[[], Schedule] | None, quiet: bool = True) -> list[int] | None:
        """GPU of each rank of this host, None where no placement was asked for.

        ``schedule`` gives what the ranks will exchange, for ``auto``.
        """
        from wavefabric.exchange.launch import environment

        if self.placement is None:
            return None
        here = environment.local_size() if environment.ranks() > 1 else self.count
        chosen = os.environ.get(environment.PLACEMENT)
        if chosen and environment.expected_ranks() is not None:
            return [int(word) for word in chosen.split()]
        if self.placement != "auto":
            from wavefabric.exchange.placement_file import read_placement

            return read_placement(self.placement, here)
        if here != self.count:
            raise InputError(
                "--placement: auto given with ranks on several hosts; allowed: a file, for one host"
            )
        from wavefabric.exchange.placement import best_placement
        from wavefabric.system import gpu_topology

        topology = gpu_topology.query()
        if topology is None or schedule is None:
            raise InputError(
                "--placement: auto given, but nvidia-smi topo -m names no GPUs; allowed: a file, or without"
            )
        best = best_placement(schedule(), topology)
        if not quiet:
            typer.echo(str(best))
        return best.gpus


def must_start(options: RankOptions) -> bool:
    """Whether this process has to start the ranks: several were asked for, and none has been started."""
    from wavefabric.exchange.launch import environment

    return environment.ranks() == 1 and environment.expected_ranks() is None and options.count > 1


def start(
    options: RankOptions, checkpoint: Path | None, schedule: Callable[[], Schedule], quiet: bool
) -> None:
    """Start the ranks and leave with their exit code; nothing if they are there, or one is enough.

    ``checkpoint`` is where they will save, ``schedule`` what they will exchange.
    """
    if not must_start(options):
        return
    from wavefabric.exchange.launch.launcher import LaunchOptions, launch

    launched = LaunchOptions(
        list(arguments),
        options.count,
        options.transport or "auto",
        options.gpus(schedule, quiet) or [],
        options.threads or max(1, usable_threads() // options.count),
        checkpoint,
    )
    sys.stdout.flush()
    raise typer.Exit(launch(launched))


def open_ranks(options: RankOptions, schedule: Callable[[], Schedule], quiet: bool) -> Communicator | None:
    """The communicator of several ranks, None for one; collective."""
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

    return environment.threads() or max(1, usable_threads() // environment.local_size())
