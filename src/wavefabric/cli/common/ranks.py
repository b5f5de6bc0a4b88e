"""Define the options of several ranks, check them, start the ranks, and open their communicator."""

import os
import sys
from collections.abc import Callable
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from click.exceptions import Exit

from wavefabric.base.errors import InputError, quoted
from wavefabric.base.system.machine import usable_threads
from wavefabric.cli.common.options import Invocation, changed, option, options, refuse
from wavefabric.runtime.exchange.launch import environment
from wavefabric.runtime.exchange.transports import serving

if TYPE_CHECKING:
    from wavefabric.collectives import Schedule
    from wavefabric.runtime.exchange.communicator import Communicator

PANEL = "Several ranks"
#: Largest number of ranks on any machine, to refuse absurd input.
MOST_RANKS = 4096
#: Number of ranks that every machine may start; with many hardware threads it is eight per thread.
MOST_STARTED = 16


def is_alone() -> bool:
    """Return whether this process runs alone: no launcher started it as one of several ranks."""
    return environment.ranks() == 1 and environment.expected_ranks() is None


@options(PANEL)
class RankOptions:
    """Holds the options for running on several ranks; `checked` adds the command's device and threads."""

    ranks: int | None = option("Processes, each with a GPU or CPU threads.", limits=(1,))
    transport: str | None = option(
        "How ranks exchange data: {wavefabric.runtime.exchange.transports:TRANSPORTS}. [default: auto]"
    )
    placement: str | None = option("GPU of each rank: a file, or auto (least traffic over slow links).")
    device: str | None = None
    threads: int | None = None
    #: GPU of each rank, if a plan sets it; else empty.
    order: tuple[int, ...] = ()
    #: JSON of the plan that the ranks follow; empty without one.
    followed: str = ""
    invocation: Invocation = field(default_factory=Invocation)

    @property
    def count(self) -> int:
        """Return the number of ranks that will run, whether already started or yet to be started."""
        return max(environment.ranks(), self.ranks or 1)

    def checked(self, device: str | None, threads: int | None) -> Self:
        """Return a copy with the device and threads of the command; raise `InputError` as `check` does."""
        chosen = replace(self, device=device, threads=threads)
        chosen.check()
        return chosen

    def check(self) -> None:
        """Raise `InputError` for options that contradict each other, before any rank starts."""
        self._check_count(environment.ranks())
        placement = changed(self, "placement")
        if self.count == 1 and is_alone():
            refuse(changed(self, "transport", "placement"), "for one rank", "with --ranks 2 or more")
        if self.device == "cpu":
            if self.transport not in (allowed := ["auto", *serving("cpu")]):
                refuse(changed(self, "transport"), "with --device cpu", ", ".join(allowed))
            refuse(placement, "with --device cpu", "with GPUs")
        if (self.device or "").startswith("cuda:"):
            refuse(placement, f"with --device {self.device}", "cuda or auto")
        if self.placement not in (None, "auto"):
            self.gpus(None)

    def _check_count(self, started: int) -> None:
        options, allowed = changed(self, "ranks"), ""
        if started == 1 and self.ranks is not None and self.ranks > MOST_RANKS:
            options, allowed = {"ranks": quoted(self.ranks)}, f"1 to {MOST_RANKS}"
        elif is_alone() and self.count > (most := max(MOST_STARTED, 8 * usable_threads())):
            allowed = f"1 to {most} on this machine"
        elif started > 1 and self.ranks not in (None, started):
            allowed = f"{started}, as were started, or without"
        if allowed:
            raise InputError(f"--ranks: {options['ranks']} given; allowed: {allowed}")

    def gpus(self, schedule: "Callable[[], Schedule] | None", quiet: bool = True) -> list[int] | None:
        """Return the GPU of each rank of this host, None without a placement.

        ``schedule`` returns the exchange between the ranks, which ``--placement auto`` optimises for.
        """
        if self.order:
            return list(self.order)
        if self.placement is None:
            return None
        local_ranks = environment.local_size() if environment.ranks() > 1 else self.count
        chosen = os.environ.get(environment.PLACEMENT)
        if chosen and environment.expected_ranks() is not None:
            return [int(word) for word in chosen.split()]
        from wavefabric.base.system import gpu_topology
        from wavefabric.runtime.exchange.placement import best_placement, read_placement

        if self.placement != "auto":
            return read_placement(self.placement, local_ranks)
        if local_ranks != self.count:
            allowed = "a file of GPUs, for each host alike"
            refuse(changed(self, "placement"), "with ranks on several hosts", allowed)
        topology = gpu_topology.query()
        if topology is None or schedule is None:
            actual = "auto given, but nvidia-smi topo -m names no GPUs"
            raise InputError(f"--placement: {actual}; allowed: a file, or without")
        best = best_placement(schedule(), topology)
        if not quiet:
            print(str(best))
        return best.gpus


def start(
    options: RankOptions,
    checkpoint: Path | None,
    schedule: "Callable[[], Schedule]",
    quiet: bool,
    check: Callable[[], object] = lambda: None,
) -> None:
    """Call ``check``, start the ranks, and exit with their exit code.

    Do nothing if ranks are already running, or one is enough. ``checkpoint`` is the file that the ranks will
    write, ``schedule`` returns the exchange between them.
    """
    if not is_alone() or options.count == 1:
        return
    check()
    from wavefabric.runtime.exchange.launch import launcher

    launched = launcher.LaunchOptions(
        list(options.invocation.words),
        options.count,
        options.transport or "auto",
        options.gpus(schedule, quiet) or [],
        options.threads or max(1, usable_threads() // options.count),
        checkpoint,
        options.invocation.program,
        options.followed,
    )
    sys.stdout.flush()
    raise Exit(launcher.launch(launched))


def open_ranks(
    options: RankOptions, schedule: "Callable[[], Schedule]", quiet: bool
) -> "Communicator | None":
    """Open and return the communicator of several ranks; return None for one process; collective."""
    if is_alone():
        return None
    from wavefabric.runtime.device.select import cuda_count, get_device
    from wavefabric.runtime.exchange import world

    device = options.device or "auto"
    gpus = options.gpus(schedule, quiet or environment.rank() > 0)
    if device == "cpu" or (device == "auto" and not cuda_count()):
        if gpus is not None:
            raise InputError(f"--placement: {options.placement} given, but there are no GPUs here")
        device = get_device("cpu", options.threads or environment.rank_threads())
    comm = options.invocation.comm = world(options.transport or "auto", device, gpus)
    comm.plan = options.followed
    return comm
