"""Measures times, bandwidth and machine facts in the same way for all benchmarks, also over ranks."""

import gc
import math
import socket
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from wavefabric.base.errors import InputError, MissingExtra, ensure
from wavefabric.base.results.provenance import provenance
from wavefabric.runtime.device import Device, describe, get_device
from wavefabric.runtime.device.select import cuda_count
from wavefabric.runtime.exchange.communicator import Communicator, world
from wavefabric.runtime.exchange.launch import environment
from wavefabric.runtime.exchange.transports import TRANSPORTS, serving
from wavefabric.runtime.lifecycle.collective_checks import check_memory

_MOST_CALLS = 2000


def machine(device: Device) -> dict[str, Any]:
    """Return versions, commit, processor and GPU, to be recorded with measured times."""
    facts: dict[str, Any] = dict(provenance(device=device.name))
    here = describe()
    facts["threads"] = device.threads
    for gpu in here["gpus"]:
        if gpu["name"] == device.name:
            facts |= {"gpu": gpu["model"], "gpu_memory_bytes": gpu["memory_bytes"]}
    return facts


def milliseconds(
    device: Device,
    work: Callable[[], Any],
    repeats: int,
    each: int = 1,
    between: Callable[[], Any] | None = None,
) -> list[float]:
    """Return the ms per call of ``work`` in each of ``repeats`` samples, after a warm-up.

    A sample is ``each`` calls; ``between`` is called before the warm-up and before each sample.
    """
    prepare = between or (lambda: None)
    prepare()
    work()
    return [_sample(device, work, each, prepare) for _ in range(repeats)]


def _sample(device: Device, work: Callable[[], Any], each: int, prepare: Callable[[], Any]) -> float:
    """Call ``prepare``, then ``work`` ``each`` times; return the ms per call of ``work``."""
    prepare()
    device.synchronize()
    begun = time.perf_counter()
    for _ in range(each):
        work()
    device.synchronize()
    return (time.perf_counter() - begun) / each * 1e3


def summary(samples: list[float]) -> dict[str, float]:
    """Return the median, smallest and largest of times in ms."""
    return {"ms": statistics.median(samples), "ms_best": min(samples), "ms_worst": max(samples)}


def copy_bandwidth(device: Device) -> float:
    """Return bytes read plus written per second while all threads copy 256 MiB, more than any cache."""
    rows = 4 * device.threads
    shape = (rows, (1 << 24) // rows)
    source, target = device.zeros(shape, np.complex128), device.zeros(shape, np.complex128)

    def copy() -> None:
        device.map_rows(rows, lambda part: device.xp.copyto(target[part], source[part]))

    times = milliseconds(device, copy, 5)
    return 2 * source.nbytes / (statistics.median(times) * 1e-3)


class Ranks:
    """Holds all ranks that were started together, and opens communicators between them.

    ``transports`` are names of `runtime.exchange.TRANSPORTS`, or ``["all"]``; ``device`` is auto, cpu or
    cuda (a GPU for each rank), ``threads`` is per rank, ``placement`` the GPU of each rank of a host,
    ``least`` the smallest number of ranks. `InputError` for unknown transports, or too few ranks.

    ``base`` is a communicator through host memory, which always works; ``sample`` is the length of one sample
    in s; ``unavailable``: transports that could not be used, and why.
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
            ensure(name in allowed, "transports", f"{name!r} given", ", ".join(allowed))
        ranks, allowed = environment.ranks(), f"{least} or more (--ranks K, or mpiexec -n K)"
        ensure(ranks >= least, "ranks", f"{ranks} given", allowed)
        self._device: Any = None if device == "auto" else device
        if device == "cpu" or (device == "auto" and not cuda_count()):
            self._device = get_device("cpu", threads or environment.threads() or 1)
        self.sample, self._placement = 0.1, placement
        self.base = world("mpi", self._device, placement)
        self.control, self.device = self.base.control, self.base.device
        self.rank, self.size = self.base.rank, self.base.size
        self.on_gpu = self.device.name != "cpu"
        self.names = tuple(dict.fromkeys(serving(self.device.name) if "all" in transports else transports))
        self.unavailable: dict[str, str] = {}

    def each(self) -> Iterator[Communicator]:
        """Yield a communicator per transport in turn; note which of them fail. All ranks must call it."""
        for name in self.names:
            comm, why = self.open(name)
            if comm is None:
                self.unavailable[name] = str(why)
                continue
            yield comm
            del comm
            self.control.barrier()  # no rank frees memory that another still reads
            gc.collect()

    def open(self, name: str) -> tuple[Communicator | None, str | None]:
        """Return a communicator of a transport, or None and why it has none; all ranks must call it."""
        comm, why = self.base, None
        try:
            if name != "mpi":
                comm = world(name, self._device, self._placement)
        except (InputError, MissingExtra, RuntimeError) as error:
            why = str(error).splitlines()[0]
        reasons = list(filter(None, self.control.all_gather(why)))
        return (None, reasons[0]) if reasons else (comm, None)

    def machine(self) -> dict[str, Any]:
        """Return the facts of `machine`, and host and device of every rank."""
        devices = self.control.all_gather([socket.gethostname(), self.device.name])
        return {**machine(self.device), "ranks": self.size, "placement": devices}

    def check_memory(self, needed: int, what: str) -> None:
        """Raise `InputError` on all ranks if the ``needed`` bytes of any do not fit; all must call it."""
        check_memory(self.base, self.device, needed, what, "allowed: what fits")


def check_options(repeats: int, sizes: Sequence[int], multiple: int) -> None:
    """Raise `InputError` for fewer than one sample, and for sizes that are no whole number of elements."""
    ensure(repeats >= 1, "repeats", f"{repeats} given", "at least 1")
    for size in sizes:
        if size < multiple or size % multiple:
            raise InputError(f"sizes: {size} bytes given; allowed: multiples of {multiple}")


def times(ranks: Ranks, work: Callable[[], Any], repeats: int, each: int) -> list[float]:
    """Return the slowest rank's ms per call in samples of ``each`` calls, begun by all ranks together."""
    device, control = ranks.device, ranks.control

    def together() -> None:
        device.synchronize()
        control.barrier()

    return [float(control.max(_sample(device, work, each, together))) for _ in range(repeats)]


def timed(ranks: Ranks, work: Callable[[], Any], repeats: int) -> dict[str, float]:
    """Return median, best, worst ms per call of the slowest rank, after a warm-up; all ranks must call it."""
    work()
    once = times(ranks, work, 2, 1)[-1] * 1e-3
    each = max(1, min(_MOST_CALLS, math.ceil(ranks.sample / max(once, 1e-7))))
    return summary(times(ranks, work, repeats, each))
