"""Communicators: ranks, their devices, and schedules run between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import wavefabric
from wavefabric.collectives import Schedule, direct_all_gather
from wavefabric.device import get_device
from wavefabric.errors import InputError, MissingExtra
from wavefabric.exchange.control import Control, SoloControl
from wavefabric.exchange.launch import environment
from wavefabric.exchange.program import Program
from wavefabric.exchange.transports.base import Bound, Solo, Transport

#: Transports by name. ``auto`` takes ``mpi`` on CPUs; on GPUs ``p2p`` where all can reach one another, else
#: ``nccl``, else ``mpi``.
TRANSPORTS = ("auto", "mpi", "mpi-cuda", "nccl", "p2p")


class Exchange:
    """A schedule bound to buffers, to be run many times."""

    def __init__(self, bound: Bound, program: Program):
        self._bound, self.program = bound, program
        #: Bytes that this rank sends each time.
        self.sent_elements = sum(span.size for level in program.levels for span in level.sends)

    def start(self) -> None:
        """Begin: what is enqueued on the device so far is in the source buffers."""
        self._bound.start()

    def arrived(self, peer: int | None = None) -> None:
        """Work enqueued from now on may read all that comes from ``peer``; from all peers by default."""
        self._bound.arrived(peer)

    def finish(self) -> None:
        """Work enqueued from now on may read everything received and overwrite everything sent."""
        self._bound.finish()


class Communicator:
    """Ranks that run schedules together. Made by `world` or `solo`.

    Attributes
    ----------
    rank, size : int
    device : Device
        This rank's.
    control : Control
        Small objects between ranks.
    """

    def __init__(self, control: Control, device, transport: Transport):
        self.control, self.device = control, device
        self.rank, self.size = control.rank, control.size
        self._transport = transport
        self._kept: dict[tuple, tuple[Any, Exchange]] = {}
        self._reductions: dict[tuple, tuple] = {}

    @property
    def transport(self) -> str:
        """Name of the transport."""
        return self._transport.name

    def allocate(self, shape, dtype):
        """Uninitialised array of the device that peers may reach; made once, before the first step."""
        return self._transport.allocate(shape, np.dtype(dtype))

    def bind(self, schedule: Schedule, buffers: dict[str, Any]) -> Exchange:
        """Make an exchange of a schedule and this rank's buffers; collective.

        Parameters
        ----------
        schedule : Schedule
            The same on all ranks.
        buffers : dict of str to 1-D contiguous array
            From `allocate`; of one dtype, with as many elements as the schedule says.

        Raises
        ------
        InputError
            If the schedule is for another number of ranks, or a buffer is missing or too small.
        """
        if schedule.ranks != self.size:
            raise InputError(f"schedule: {schedule.name} is for {schedule.ranks} ranks; here are {self.size}")
        program = Program(schedule, self.rank)
        found = []
        for name, size in zip(schedule.buffers, program.sizes, strict=True):
            array = buffers.get(name)
            if array is None or array.ndim != 1 or array.size < size:
                given = "nothing" if array is None else f"an array of shape {array.shape}"
                raise InputError(f"buffers: {given} for {name!r}; allowed: {size} elements in a row")
            found.append(array)
        # Not empty even where nothing is reduced: addresses of empty arrays are no addresses.
        scratch = self.allocate((max(1, program.scratch),), found[0].dtype if found else np.float64)
        return Exchange(self._transport.bind(program, found, scratch), program)

    def run(self, schedule: Schedule, buffers: dict[str, Any]) -> None:
        """Execute a schedule: `bind`, which is kept for the next time, start and finish."""
        key = (id(schedule), *(id(buffers.get(name)) for name in schedule.buffers))
        if key not in self._kept:
            # What is kept also keeps the identities in its key from being used again.
            self._kept[key] = (schedule, dict(buffers)), self.bind(schedule, buffers)
        exchange = self._kept[key][1]
        exchange.start()
        exchange.finish()

    def own_collective(self, collective: str, buffers: list[Any], root: int = 0) -> Callable[[], None]:
        """The transport library's own form of a collective operation, to be run many times; collective.

        Parameters
        ----------
        collective : str
            Of `wavefabric.collectives.conditions.COLLECTIVES`.
        buffers : list of 1-D contiguous array
            As `wavefabric.collectives.conditions.layout` lays them out, whole: the operation is in place in
            the one buffer, all-to-all goes from the first to the second. Ranks' shares are equal.
        root : int

        Raises
        ------
        InputError
            If the transport is not NCCL, or cannot do this.
        """
        make = getattr(self._transport, "own_collective", None)
        if make is None:
            raise InputError(
                f"transport: {self.transport!r} has no collective operations of its own; allowed: nccl"
            )
        return make(collective, buffers, root)

    def all_reduce(self, array) -> None:
        """Sum a device array over ranks, in place and in rank order: the same bits everywhere."""
        if self.size == 1:
            return
        if not array.flags.c_contiguous:
            raise ValueError(
                f"an array of shape {array.shape} is not contiguous; it cannot be summed in place"
            )
        key = (array.size, np.dtype(array.dtype).str)
        if key not in self._reductions:
            schedule = direct_all_gather([array.size] * self.size)
            parts = self.allocate((self.size * array.size,), array.dtype)
            self._reductions[key] = parts, self.bind(schedule, {"data": parts})
        parts, exchange = self._reductions[key]
        rows = parts.reshape(self.size, array.size)
        rows[self.rank] = array.reshape(-1)
        exchange.start()
        exchange.finish()
        flat = array.reshape(-1)
        flat[...] = rows[0]
        for row in rows[1:]:
            flat += row

    def describe(self) -> dict[str, Any]:
        """Ranks, transport and device, in words."""
        return {
            "ranks": self.size,
            "transport": self.transport,
            "device": self.device.name,
            **self._transport.describe(),
        }


def solo(device=None) -> Communicator:
    """A communicator of one rank.

    Parameters
    ----------
    device : str or Device, optional
        ``"auto"`` by default.
    """
    place = get_device(device or "auto") if device is None or isinstance(device, str) else device
    return Communicator(SoloControl(), place, Solo(place))


def world(transport: str = "auto", device=None, placement: list[int] | None = None) -> Communicator:
    """All ranks that were started together; one rank if this process was started alone.

    Parameters
    ----------
    transport : str
        Of `TRANSPORTS`.
    device : str or Device, optional
        By default the GPU that belongs to this rank, or the CPU where there is none. ``"cuda"`` means
        this rank's GPU too.
    placement : list of int, optional
        GPU of each rank of a host, in the order of its ranks.

    Raises
    ------
    InputError
        For an unknown transport, or one that cannot serve this device or these ranks; if the ranks do not
        see one another.
    MissingExtra
        If mpi4py is needed and missing.
    """
    from wavefabric.exchange.binding import bind_device

    if transport not in TRANSPORTS:
        raise InputError(f"transport: {transport!r} given; allowed: {', '.join(TRANSPORTS)}")
    if environment.ranks() == 1:
        expected = environment.expected_ranks()
        if expected and expected > 1:
            raise InputError(
                f"ranks: {expected} were started, but they do not see one another; "
                "mpiexec and mpi4py must belong to the same MPI"
            )
        return solo(device)
    try:
        from mpi4py import MPI
    except ImportError:
        raise MissingExtra("more than one rank", "mpi") from None
    comm = MPI.COMM_WORLD
    expected = environment.expected_ranks() or environment.ranks()
    if comm.Get_size() != expected:
        raise InputError(
            f"ranks: {expected} were started, but mpi4py sees {comm.Get_size()}; "
            "mpiexec and mpi4py must belong to the same MPI"
        )
    from wavefabric.exchange.agreement import check_agreement, end_together
    from wavefabric.exchange.control import MPIControl

    control = MPIControl(comm)
    end_together(control)
    from wavefabric.results.provenance import NUMERICAL, versions

    check_agreement(control, {"wavefabric": wavefabric.__version__, **versions(NUMERICAL)})
    local = comm.Split_type(MPI.COMM_TYPE_SHARED)
    place = bind_device(device, local.Get_rank(), placement)
    return Communicator(control, place, _make_transport(transport, comm, control, local, place))


def _make_transport(name: str, comm, control, local, device) -> Transport:
    from wavefabric.exchange.transports.mpi import MPITransport

    on_gpu = device.name != "cpu"
    kinds = control.all_gather(on_gpu)
    if len(set(kinds)) > 1:
        raise InputError("device: some ranks have a GPU and some do not; allowed: all alike")
    if not on_gpu:
        if name not in ("auto", "mpi"):
            raise InputError(f"transport: {name!r} needs GPUs; allowed on CPUs: mpi")
        return MPITransport(comm.Dup(), device)
    from wavefabric.exchange.transports.cuda_select import make_cuda_transport

    return make_cuda_transport(name, comm, control, local, device)
