"""Ranks that were started together: a communicator for each transport, times, the machines."""

from __future__ import annotations

import gc
import math
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from wavefabric.device import get_device
from wavefabric.device.select import cuda_count
from wavefabric.errors import InputError, MissingExtra
from wavefabric.exchange import Communicator, world
from wavefabric.exchange.launch import environment
from wavefabric.exchange.transports import BY_DEVICE, TRANSPORTS
from wavefabric.execution import measure

_MOST_CALLS = 2000


class Ranks:
    """All ranks that were started together, and communicators between them.

    Parameters
    ----------
    transports : sequence of str
        Of `wavefabric.exchange.TRANSPORTS`, or ``["all"]``.
    device : {"auto", "cpu", "cuda"}
        Each rank has a GPU of its own.
    threads : int, optional
        CPU threads of a rank.
    placement : list of int, optional
        GPU of each rank of a host.
    least : int
        Ranks that are needed.

    Attributes
    ----------
    base : Communicator
        Through host memory: always there.
    sample : float
        Seconds that one sample should last.
    unavailable : dict of str to str
        Transports that could not be used, and why.

    Raises
    ------
    InputError
        For unknown transports, or too few ranks.
    """

    def __init__(
        self,
        transports: Sequence[str] = ("all",),
        device: str = "auto",
        threads: int | None = None,
        placement: list[int] | None = None,
        least: int = 2,
    ):
        allowed = ("all", *list(TRANSPORTS)[1:])
        for name in transports:
            if name not in allowed:
                raise InputError(f"transports: {name!r} given; allowed: {', '.join(allowed)}")
        if environment.ranks() < least:
            raise InputError(
                f"ranks: {environment.ranks()} given; allowed: {least} or more (--ranks K, or mpiexec -n K)"
            )
        chosen: Any = None if device == "auto" else device
        if device == "cpu" or (device == "auto" and not cuda_count()):
            chosen = get_device("cpu", threads or environment.threads() or 1)
        self.sample = 0.1
        self._device, self._placement = chosen, placement
        self.base = world("mpi", chosen, placement)
        self.control, self.device = self.base.control, self.base.device
        self.rank, self.size = self.base.rank, self.base.size
        self.on_gpu = self.device.name != "cpu"
        names = BY_DEVICE["cuda" if self.on_gpu else "cpu"] if "all" in transports else transports
        self.names = tuple(dict.fromkeys(names))
        self.unavailable: dict[str, str] = {}

    def each(self) -> Iterator[Communicator]:
        """A communicator of each transport, one at a time; collective. Notes those that cannot be used."""
        for name in self.names:
            comm, why = self.open(name)
            if comm is None:
                self.unavailable[name] = str(why)
                continue
            yield comm
            del comm
            self.control.barrier()  # nobody frees what another still reads
            gc.collect()

    def open(self, name: str) -> tuple[Communicator | None, str | None]:
        """A communicator of a transport, or None and why it cannot be used; collective."""
        comm, why = None, None
        try:
            comm = world(name, self._device, self._placement) if name != "mpi" else self.base
        except (InputError, MissingExtra, RuntimeError) as error:
            why = str(error).splitlines()[0]
        reasons = [reason for reason in self.control.all_gather(why) if reason]
        return (None, reasons[0]) if reasons else (comm, None)

    def machine(self) -> dict[str, Any]:
        """`measure.machine`, and host and device of every rank."""
        devices = self.control.all_gather([socket.gethostname(), self.device.name])
        return {**measure.machine(self.device), "ranks": self.size, "placement": devices}

    def check_memory(self, needed: int, what: str) -> None:
        """Refuse, on all ranks, what does not fit beside the other ranks of a device."""
        mine = (socket.gethostname(), self.device.name)
        everyone = self.control.all_gather((mine, needed, self.device.memory()[0]))
        for device, _, _ in everyone:
            total = sum(n for d, n, _ in everyone if d == device)
            free = min(f for d, _, f in everyone if d == device)
            if total > free:
                raise InputError(
                    f"{what} needs {total / 2**30:.2f} GiB of memory on {device[1]}; allowed: what the free "
                    f"{free / 2**30:.2f} GiB hold"
                )


def calls(ranks: Ranks, work: Callable[[], Any]) -> int:
    """How many calls make a sample; the same on all ranks. Warms up."""
    work()
    once = times(ranks, work, 2, 1)[-1] * 1e-3
    return max(1, min(_MOST_CALLS, math.ceil(ranks.sample / max(once, 1e-7))))


def times(ranks: Ranks, work: Callable[[], Any], repeats: int, each: int) -> list[float]:
    """Times of one call in ms: device-synchronised wall clock, barrier before, the slowest rank counts.

    A sample is `each` calls, none waiting for the one before but on the device.
    """
    device, control = ranks.device, ranks.control
    samples = []
    for _ in range(repeats):
        device.synchronize()
        control.barrier()
        begun = time.perf_counter()
        for _ in range(each):
            work()
        device.synchronize()
        samples.append(float(control.max((time.perf_counter() - begun) / each * 1e3)))
    return samples


def timed(ranks: Ranks, work: Callable[[], Any], repeats: int) -> dict[str, float]:
    """Median, best and worst of times in ms (see `times`), after warm-up."""
    each = calls(ranks, work)
    return measure.summary(times(ranks, work, repeats, each))
