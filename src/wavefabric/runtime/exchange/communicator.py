"""Define communicators: groups of ranks, each with a device, that exchange data by schedules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import wavefabric
from wavefabric.base.errors import InputError, not_one_of
from wavefabric.base.results.provenance import NUMERICAL, versions
from wavefabric.base.system.compilation_clock import CLOCK
from wavefabric.runtime.device import Device, get_device
from wavefabric.runtime.device.bfloat16 import named
from wavefabric.runtime.exchange.collective_calls import CollectiveCalls, checked_tuning
from wavefabric.runtime.exchange.control import (
    Control,
    MPIControl,
    abort_on_uncaught_error,
    check_agreement,
    mpi_world,
)
from wavefabric.runtime.exchange.launch import environment
from wavefabric.runtime.exchange.transports import TRANSPORTS, open_transport
from wavefabric.runtime.exchange.transports.base import Program, RankGroup, Transport

if TYPE_CHECKING:
    from wavefabric.collectives import Schedule
    from wavefabric.collectives.tuning import Tuning
    from wavefabric.runtime.exchange.prepared_calls import PreparedCalls
    from wavefabric.runtime.exchange.step_recorder import StepRecorder
    from wavefabric.runtime.exchange.transports.base import Exchange, SymmetricArray


class Communicator(CollectiveCalls):
    """A group of ranks that run schedules together, created by `world` or `solo`.

    This rank is number ``rank`` of ``size`` and uses ``device``; ``control`` carries small objects between
    ranks, the transport named ``transport`` carries data. Collective operations on arrays: see
    `CollectiveCalls`. Methods and attributes of `Transport` that are available here too: ``protocols``,
    ``why_refused``, ``why_no_switch``, ``one_sided``, ``timeout``, ``check``, ``own_collective``.
    """

    def __init__(self, control: Control, device, transport: Transport, tuning: Tuning | None = None):
        self.control, self.device = control, device
        self.rank, self.size = control.rank, control.size
        self._transport, self.transport = transport, transport.name
        self.protocols, self.why_refused = transport.protocols, transport.why_refused
        self.why_no_switch = transport.why_no_switch
        self.one_sided, self.timeout, self.check = transport.one_sided, transport.timeout, transport.check
        self.own_collective = transport.own_collective
        #: JSON of the plan that a run of these ranks follows, saved with its result; empty for none.
        self.plan = ""
        #: Records a step while `recording`.
        self.step_recorder: StepRecorder | None = None
        self._exchanges: dict[tuple, tuple[Any, Exchange]] = {}
        self._tuning = tuning
        self._prepared_calls: PreparedCalls | None = None

    @property
    def _prepared(self) -> PreparedCalls:
        if self._prepared_calls is None:  # collective, as calls are
            from wavefabric.runtime.exchange.prepared_calls import PreparedCalls

            self._prepared_calls = PreparedCalls(self.control, self.device, self._transport, self._tuning)
        return self._prepared_calls

    def allocate(self, shape, dtype):
        """Return an uninitialised device array that other ranks may access; call before time stepping."""
        return self._transport.allocate(shape, named(dtype))

    def bind(
        self,
        schedule: Schedule,
        buffers: dict[str, Any],
        protocol: str = "auto",
        blocks: int | None = None,
        concurrent: int = 1,
    ) -> Exchange:
        """Bind a schedule to this rank's buffers; return an exchange, which can be run repeatedly.

        All ranks make this call with the same schedule. ``buffers`` are 1-D contiguous arrays from
        `allocate`, by name, of one dtype and at least as long as the schedule says. ``protocol`` is one of
        `protocols`. ``blocks`` is the number of thread blocks if the exchange is a GPU kernel; by default it
        is so small that the kernels of ``concurrent`` exchanges run at once. `InputError` if the schedule is
        for another number of ranks, buffers are missing or unsuitable, or the protocol cannot be used.
        """
        from wavefabric.collectives.plans.plan import PROTOCOLS

        if protocol not in self.protocols:
            allowed = ", ".join(self.protocols)
            raise InputError(f"protocol: {protocol!r} given; allowed for {self.transport}: {allowed}")
        program = self.program(schedule)
        arrays = []
        for name, size in zip(schedule.buffers, program.sizes, strict=True):
            array = buffers.get(name)
            if array is None or array.ndim != 1 or array.size < size:
                actual = "nothing" if array is None else f"an array of shape {array.shape}"
                raise InputError(f"buffers: {actual} for {name!r}; allowed: {size} elements in a row")
            if not array.flags.c_contiguous:
                raise InputError(f"buffers: {name!r} has gaps; allowed: contiguous arrays")
            arrays.append(array)
        if len({array.dtype for array in arrays}) > 1:
            actual = ", ".join(str(array.dtype) for array in arrays)
            raise InputError(f"buffers: {actual} given; allowed: one dtype")
        dtype = arrays[0].dtype if arrays else np.dtype(np.float64)
        chosen = self._transport.protocol_for(schedule, protocol, dtype)
        if chosen in PROTOCOLS:
            exchange = self._transport.bind_plan(program, arrays, chosen, blocks, concurrent)
        elif blocks is not None:
            raise InputError(f"blocks: {blocks} given; allowed: with a protocol of {', '.join(PROTOCOLS)}")
        else:
            # Not empty even if nothing is reduced: an empty array has no address.
            scratch = self.allocate((max(1, program.scratch),), dtype)
            exchange = self._transport.bind(program, arrays, scratch)
        if self.step_recorder is not None:
            for method in ("start", "run"):
                self.step_recorder.note_starts(exchange, method, schedule, dtype)
        return exchange

    def program(self, schedule: Schedule) -> Program:
        """Return this rank's part of a schedule; `InputError` for a schedule of another number of ranks."""
        if schedule.ranks != self.size:
            raise InputError(f"schedule: {schedule.name} is for {schedule.ranks} ranks; here are {self.size}")
        return Program(schedule, self.rank)

    def run(self, schedule: Schedule, buffers: dict[str, Any]) -> None:
        """Run a schedule to its end on ``buffers``; `bind` it first unless it is bound to them already."""
        key = (id(schedule), *(id(buffers.get(name)) for name in schedule.buffers))
        if key not in self._exchanges:
            # Keep the objects alive too, so that their ids in the key are not reused.
            self._exchanges[key] = (schedule, dict(buffers)), self.bind(schedule, buffers)
        self._exchanges[key][1].run()

    @contextmanager
    def recording(self, path: str | Path | None = None, force: bool = False) -> Iterator[StepRecorder]:
        """Record the exchanges of one time step in this block as a schedule, and write it to a JSON file.

        All ranks enter the block. Only exchanges that are bound in the block are recorded. A simulation that
        runs in the block is recorded in its second step; other programs mark a step by `StepRecorder.step`.
        `InputError` for one rank, a run of one step, ranks that start different exchanges, and a file that
        exists (without ``force``) or cannot be written.
        """
        from wavefabric.runtime.exchange.step_recorder import StepRecorder

        self.step_recorder = recorder = StepRecorder(self.control, path, force)
        try:
            yield recorder
            recorder.build_schedule()
            recorder.tell_missing()
        except KeyboardInterrupt:
            recorder.tell_missing()
            raise
        finally:
            self.step_recorder = None

    @property
    def label(self) -> str:
        """Return the transport's name, with the protocol if solver kernels write into other ranks' memory."""
        protocol = self._transport.protocol
        by = "signals" if protocol == "auto" else protocol
        return f"{self.transport}, {by}" if self.one_sided else self.transport

    def symmetric(self, shape, dtype) -> SymmetricArray:
        """Allocate an array on each rank into which kernels of all ranks may write; all ranks call this."""
        return self._transport.symmetric(shape, np.dtype(dtype))

    def describe(self) -> dict[str, Any]:
        """Return the number of ranks, the transport and the device, with facts about the transport."""
        facts = {"ranks": self.size, "transport": self.transport, "device": self.device.name}
        return facts | self._transport.describe()


def solo(device: str | Device | None = None, *, tuning: str | Path | Tuning | None = None) -> Communicator:
    """Return a communicator of one rank, by default on the device of ``get_device("auto")``.

    ``tuning`` is as in `world`.
    """
    if device is None or isinstance(device, str):
        device = get_device(device or "auto")
    control = Control()
    return Communicator(control, device, Transport(device), checked_tuning(control, tuning))


def world(
    transport: str = "auto",
    device: str | Device | None = None,
    placement: list[int] | None = None,
    *,
    tuning: str | Path | Tuning | None = None,
) -> Communicator:
    """Return the communicator of all ranks started together; one rank if this process was started alone.

    ``transport`` is one of `TRANSPORTS`. ``device`` is by default the GPU of this rank, or without a GPU the
    CPU (``"cuda"`` requires a GPU); ``placement`` lists the GPU of each rank of a host. ``tuning``,
    a `Tuning` or its JSON file (`wavefabric.collectives.tuning`), gives the default algorithms and protocols
    of calls. `InputError` for a transport that is unknown or cannot be used, for ranks that do not see one
    another and for a tuning for another number of ranks; `MissingExtra` if mpi4py is needed and missing.
    """
    if transport not in TRANSPORTS:
        raise InputError(f"transport: {not_one_of(transport, TRANSPORTS)}")
    if max(environment.ranks(), environment.expected_ranks() or 1) == 1:
        return solo(device, tuning=tuning)
    comm = mpi_world()
    from mpi4py import MPI

    from wavefabric.runtime.exchange.placement import rank_device

    control = MPIControl(comm)
    CLOCK.announces &= control.rank == 0
    abort_on_uncaught_error(control)
    shared = {"wavefabric": wavefabric.__version__, **versions(NUMERICAL), "tuning": str(tuning)}
    check_agreement(control, shared)
    local = comm.Split_type(MPI.COMM_TYPE_SHARED)
    device = rank_device(device, local.Get_rank(), placement)
    on_this_host = set(local.allgather(control.rank))
    same_host = [peer in on_this_host for peer in range(control.size)]
    tuned = checked_tuning(control, tuning)
    opened = open_transport(transport, RankGroup(comm, same_host, control, device))
    return Communicator(control, device, opened, tuned)
