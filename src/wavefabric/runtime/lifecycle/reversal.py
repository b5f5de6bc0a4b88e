"""Visit the states of a run in reverse, for adjoint gradients: store some states, recompute the others.

States are stored on the device, in host memory and on disk, chosen such that the fewest steps are repeated:
binomial checkpointing, Griewank & Walther, "Algorithm 799: revolve", ACM TOMS 26, 19 (2000),
doi:10.1145/347837.347846. Here a run of l steps needs all its states l, l − 1, …, 0 in this order, like a run
of l + 1 steps in the article. In the formulas ``states`` is the number s of stored states, plus 1 if the
system can recompute state 0, which is then not stored.
"""

import errno
import math
import os
import shutil
import socket
import tempfile
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.base.system.machine import host_memory
from wavefabric.base.units import binary_bytes
from wavefabric.runtime.device import Device
from wavefabric.runtime.exchange.communicator import Communicator
from wavefabric.runtime.lifecycle.collective_checks import device_identity, on_all_ranks
from wavefabric.runtime.lifecycle.state_copies import StateCopies, state_bytes

#: Maximum bytes of an allocation in which several small states are stored.
_SLAB_BYTES = 16 << 20


class Tiers(NamedTuple):
    """Holds how many states to store on the device, in host memory, and on disk in folder ``scratch``."""

    device: int
    host: int = 0
    disk: int = 0
    scratch: Path | None = None


class StateStore(AbstractContextManager):
    """Stores copies of ``arrays`` by position; low positions, read least often, are in the slowest memory.

    Memory is allocated when a position is first written, and released by `close`; small states share an
    allocation. Disk space is reserved when the object is created, in an unnamed file, which vanishes with the
    process; `InputError` if that fails.
    """

    def __init__(self, device: Device, arrays: dict[str, Any], tiers: Tiers):
        nbytes = state_bytes(arrays)
        self.states = tiers.device + tiers.host + tiers.disk
        self._device, self._nbytes, self._tiers = device, nbytes, tiers
        #: Memory of each state, in bytes, None until it is written.
        self._slots: list[Any] = [None] * self.states
        self._copies: Any = StateCopies(device, arrays)
        self._disk = _reserved(tiers.scratch, nbytes * tiers.disk) if tiers.disk else None
        #: Device memory that no state uses yet.
        self._free: Any = device.empty(0, np.uint8)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release memory and disk space; the stored states are lost."""
        self._slots.clear()
        self._disk = self._free = self._copies = None

    def write(self, position: int) -> None:
        """Store a copy of the arrays at ``position``."""
        if self._slots[position] is None:
            self._slots[position] = self._allocated(position)
        self._copies.store(self._slots[position], self._is_on_device(position))

    def by_clock(self, clock: Any) -> Callable[[], None]:
        """Return a function that stores the arrays at the position ``clock``, a number on the GPU.

        All states must be on the GPU. The function may be captured in a graph of a time step. It does nothing
        if ``clock`` is beyond the last position.
        """
        size, memory = self._nbytes, self._device.empty(self.states * self._nbytes, np.uint8)
        self._slots = [memory[k * size : (k + 1) * size] for k in range(self.states)]
        return self._copies.by_clock(memory, clock, self.states)

    def read(self, position: int) -> None:
        """Copy the state at ``position`` into the arrays."""
        self._copies.load(self._slots[position], self._is_on_device(position))

    def peek(self, position: int) -> Any:
        """Return the device memory with the state at ``position``; None if it is stored on host or disk."""
        return self._slots[position] if self._is_on_device(position) else None

    def _is_on_device(self, position: int) -> bool:
        return position >= self._tiers.disk + self._tiers.host

    def _allocated(self, position: int) -> Any:
        size = self._nbytes
        if self._disk is not None and position < self._tiers.disk:
            return self._disk[position * size : (position + 1) * size]
        if not self._is_on_device(position):
            return self._device.host_empty((size,), np.uint8)
        if self._free.size < size:
            most = max(1, min(self.states - position, _SLAB_BYTES // size))
            self._free = self._device.empty(most * size, np.uint8)
        slot, self._free = self._free[:size], self._free[size:]
        return slot


def _reserved(folder: Path | None, nbytes: int) -> np.ndarray:
    """Reserve disk space for ``nbytes`` bytes; return it as an array, which is mapped to an unnamed file.

    `InputError` if ``folder`` cannot be written or has not enough space.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            if shutil.disk_usage(file.fileno()).free < nbytes:  # some disks fill up before they report it
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.posix_fallocate(file.fileno(), 0, max(nbytes, 1))
            return np.memmap(file, np.uint8, "r+")  # this keeps the file open
    except OSError as error:
        what = f"{folder} cannot take {binary_bytes(nbytes)} of states ({error.strerror})"
        raise InputError(f"scratch: {what}; allowed: a folder to write in, with that much free") from None


def choose_tiers(
    comm: Communicator,
    device: Device,
    nbytes: int,
    steps: int,
    states: int | None = None,
    scratch: str | Path | None = None,
    store_start: bool = False,
    reserve: int = 0,
) -> Tiers:
    """Return how many states to store on the device, in host memory and on disk, the same on all ranks.

    All ranks make this call. A state takes ``nbytes`` bytes. The device stores as many as a run of ``steps``
    steps can use, at most ``states``. Host memory and the disk folder ``scratch`` store more as long as that
    lowers `repetitions`. A tenth of memory and ``reserve`` bytes of the device stay free, and a tenth of the
    free disk space, which ranks share. With ``store_start`` state 0 is stored, not recomputed. `InputError`
    if ``states`` is below 1, or a state does not fit into ``scratch`` or, with ``store_start``, anywhere.
    """
    if states is not None and states < 1:
        raise InputError(f"states: {states} given; allowed: 1 or more")
    folder = None if scratch is None else Path(scratch)
    capacities = _capacities(comm, device, nbytes, folder, reserve)
    anew = 0 if store_start else 1
    most = min(max(steps - anew, 0), steps if states is None else states)

    def repeated(number: int) -> int:
        return repetitions(steps, number + anew) if number + anew else steps + 1

    on_device, end = min(capacities[0], most), min(sum(capacities), most)
    slower = bisect_left(range(on_device, end), -repeated(end), key=lambda number: -repeated(number))
    host = min(capacities[1], slower)
    if store_start and steps and not on_device + slower:
        needed, free = binary_bytes(nbytes), binary_bytes(device.memory()[0])
        allowed = "a smaller problem, more ranks, or a scratch folder for it"
        raise InputError(f"memory: a state needs {needed}, {device.name} has {free} free; allowed: {allowed}")
    return Tiers(on_device, host, slower - host, folder)


def _capacities(comm: Communicator, device: Device, nbytes: int, folder: Any, reserve: int) -> list[int]:
    """Return how many states fit on the device, on the host and on the disk of every rank; all call this."""

    def free() -> list[tuple[tuple[str, ...], int]]:
        if folder is not None:
            _reserved(folder, nbytes)
        disk = 0 if folder is None else shutil.disk_usage(folder).free * 9 // 10
        host = (0, 0) if device.name == "cpu" else host_memory()  # a CPU's memory is host memory
        usable = [free - total // 10 for free, total in (device.memory(), host)]
        usable[0] -= reserve
        owners = ("device", *device_identity(device)), ("host", socket.gethostname()), ("disk",)
        return list(zip(owners, (*usable, disk), strict=True))

    ranks = comm.control.all_gather((max(nbytes, 1), on_all_ranks(comm, free)))
    needed = Counter()
    for size, tiers in ranks:
        needed.update({owner: size for owner, _ in tiers})
    return [max(min(tiers[i][1] // needed[tiers[i][0]] for _, tiers in ranks), 0) for i in range(3)]


def capacity(states: int, repetitions: int) -> int:
    """Return C(s + r, s), the largest number of states of a run that can be reversed.

    s, ``states``, are stored at once, and no step is taken more than r times, ``repetitions``.
    """
    return math.comb(states + repetitions, states)


def repetitions(steps: int, states: int) -> int:
    """Return how often the most repeated step is taken, forward run included, with ``states`` stored states.

    ValueError for no states.
    """
    if states < 1:
        raise ValueError(f"states: {states} given; allowed: 1 or more")
    number, reached = 0, 1
    while reached <= steps:
        number += 1
        reached = reached * (states + number) // number
    return number


def advances(steps: int, states: int) -> int:
    """Return the smallest total number of steps with which a run of ``steps`` steps can be reversed.

    The forward run counts too. This is t(l + 1, s) of the article, t(l, s) = r l − C(s + r, s + 1), with l =
    ``steps``, s = ``states`` and r = `repetitions`.
    """
    number = repetitions(steps, states)
    return number * (steps + 1) - math.comb(states + number, states + 1)


def next_stored_distance(steps: int, states: int) -> int:
    """Return how many steps after a stored state the next one is to be stored.

    ``steps`` is the number of steps of the run after that state, and the result if no other state is stored.
    ``states`` is the number of states that can be stored, that one included.
    """
    number = repetitions(steps, states)
    if states == 1 or number == 0:
        return steps
    # The largest optimal number: both parts of the run stay within their repetitions.
    return min(capacity(states, number - 1), steps + 1 - capacity(states - 1, number - 1))


class Reversible(Protocol):
    """A system that steps in time; state k is the state after k steps."""

    def arrays(self) -> dict[str, Any]:
        """Return a dictionary from names to the device arrays of the working state, the same in each call."""
        ...

    def begin(self) -> None:
        """Write state 0 into the working arrays."""

    def restored(self, step: int) -> None:
        """Recompute data that depend on the working arrays, which were set to the stored state ``step``."""

    def advance(self, step: int) -> None:
        """Take step ``step``, from state ``step`` to the next."""


class Reversal:
    """Restores the states of a run of ``steps`` steps, from the last to state 0.

    The forward run calls `after` after each step; then `restore` is called with decreasing numbers of states.
    As few steps are repeated as the states in ``store`` allow; `Reversible.begin` recomputes state 0. With
    ``store_start`` state 0, now in the working arrays, is stored, and `begin` is never called.

    A forward run resumed from state ``at`` stores no earlier states, and calls `after` for ``at`` too. After
    an error in `Reversible.advance` the object is unusable.
    """

    def __init__(self, system: Reversible, steps: int, store: StateStore, at=0, store_start=False):
        if store_start and (at or not store.states):
            raise ValueError("store_start: state 0 cannot be stored; allowed: at 0, with a state or more")
        self.steps = steps
        #: Number of steps that `restore` has taken.
        self.advanced = 0
        self._system, self._store, self._last = system, store, steps
        #: Numbers of the stored states; each is in the store at its index in this list.
        self._stored: list[int] = []
        if store_start:
            self._push(0)
        # The cost is convex in the first stored state: the first one that the run still passes is best.
        self._next = max(at, self._next_stored(0, steps))

    def after(self, step: int) -> None:
        """Store state ``step`` of the forward run, now in the working arrays, if it is one to be stored."""
        if self._next <= step < self.steps and len(self._stored) < self._store.states:
            self._push(step)
            self._next = self._next_stored(step, self.steps)

    def note_stored(self, step: int) -> None:
        """Note that `StateStore.by_clock` has stored states 1 to ``step``, as far as there are positions."""
        self._stored = list(range(1, min(step, self._store.states) + 1))

    def restore(self, step: int) -> None:
        """Restore state ``step`` in the working arrays; stored states after this one are dropped.

        ValueError if ``step`` is above the last one restored, or below 0.
        """
        if not 0 <= step <= self._last:
            raise ValueError(f"step: {step} given; allowed: 0 to {self._last}, the last one brought")
        self._last, position = step, 0
        while self._stored and self._stored[-1] > step:
            self._stored.pop()
        if self._stored:
            position = self._stored[-1]
            self._store.read(len(self._stored) - 1)
            self._system.restored(position)
        else:
            self._system.begin()
        due = self._next_stored(position, step)
        while position < step:
            self._system.advance(position)
            self.advanced += 1
            position += 1
            if position == due < step:
                self._push(position)
                due = self._next_stored(position, step)

    def peek(self, step: int) -> Any:
        """Return the memory of state ``step`` if stored on the device, else None; valid until `restore`."""
        position = bisect_left(self._stored, step)
        return self._store.peek(position) if self._stored[position : position + 1] == [step] else None

    def _push(self, step: int) -> None:
        self._store.write(len(self._stored))
        self._stored.append(step)

    def _next_stored(self, step: int, end: int) -> int:
        """Return the step of the next state to store after ``step``, or ``end`` if none lies between."""
        return step + next_stored_distance(end - step, self._store.states - len(self._stored) + 1)
