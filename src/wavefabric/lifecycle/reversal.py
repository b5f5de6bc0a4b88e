"""A run of time steps in reverse, for adjoint gradients: its states from the last to the first, from few that
are stored, on the device, in host memory and on disk, and steps that are taken again.

Which are stored, so that fewest steps are taken again: binomial checkpointing, Griewank & Walther, "Algorithm
799: revolve", ACM TOMS 26, 19 (2000), doi:10.1145/347837.347846. There the state before the last step is
still in the working arrays. Here the forward run takes that step too: a run of l steps needs the states l,
l − 1, …, 0 in this order, as one of l + 1 steps does there. In its formulas ``states`` are those stored, with
state 0: one more than the store holds where the system makes that anew.
"""

import errno
import math
import os
import shutil
import socket
import tempfile
from bisect import bisect_left
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from wavefabric.device import Device
from wavefabric.errors import InputError
from wavefabric.exchange.communicator import Communicator
from wavefabric.lifecycle.agreement import device_identity, on_all_ranks
from wavefabric.system.machine import host_memory
from wavefabric.units import binary_bytes

#: Bytes of the memory that small states share, at most; where arrays in it begin.
_SLAB_BYTES, _ALIGNED = 16 << 20, 256


class Tiers(NamedTuple):
    """Numbers of states on the device, in the memory of its host, and on disk in the folder ``scratch``."""

    device: int
    host: int = 0
    disk: int = 0
    scratch: Path | None = None


class StateStore(AbstractContextManager):
    """A stack of states of ``nbytes`` bytes; the lowest, which are read least, on the slowest tier.

    Memory is taken when a position is first written, for several small states at once, and kept until
    `close`. Disk is reserved at once, in a file without a name, which vanishes with the process however it
    ends; `InputError` if that fails.
    """

    def __init__(self, device: Device, nbytes: int, tiers: Tiers):
        self.states = tiers.device + tiers.host + tiers.disk
        self._device, self._nbytes, self._tiers = device, nbytes, tiers
        self._slots: list[dict[str, Any]] = [{} for _ in range(self.states)]
        self._disk = _reserved(tiers.scratch, nbytes * tiers.disk) if tiers.disk else None
        #: Memory of the device that no state has taken yet.
        self._free: Any = device.empty(0, np.uint8)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release memory and disk; the states are lost."""
        self._slots.clear()
        self._disk = self._free = None

    def write(self, position: int, arrays: dict[str, Any]) -> None:
        """Store a state; always of the same arrays."""
        if not self._slots[position]:
            self._slots[position] = self._allocated(position, arrays)
        for name, array in arrays.items():
            self._device.copy(self._slots[position][name], array)

    def read(self, position: int, arrays: dict[str, Any]) -> None:
        """Copy a state into arrays."""
        for name, array in self._slots[position].items():
            self._device.copy(arrays[name], array)

    def peek(self, position: int) -> dict[str, Any] | None:
        """The arrays of a state on the device itself; None of one elsewhere."""
        return self._slots[position] if position >= self._tiers.disk + self._tiers.host else None

    def _allocated(self, position: int, arrays: dict[str, Any]) -> dict[str, Any]:
        if self._disk is not None and position < self._tiers.disk:
            return _parts(self._disk[position * self._nbytes : (position + 1) * self._nbytes], arrays, 1)
        if position < self._tiers.disk + self._tiers.host:
            return {name: self._device.host_empty(a.shape, a.dtype) for name, a in arrays.items()}
        size = sum(-(-array.nbytes // _ALIGNED) * _ALIGNED for array in arrays.values())
        if self._free.size < size:
            most = max(1, min(self.states - position, _SLAB_BYTES // size))
            self._free = self._device.empty(most * size, np.uint8)
        slot, self._free = _parts(self._free[:size], arrays, _ALIGNED), self._free[size:]
        return slot


def _parts(memory: Any, arrays: dict[str, Any], aligned: int) -> dict[str, Any]:
    """Divide bytes among arrays like these, each from a multiple of ``aligned`` bytes on."""
    parts = {}
    for name, array in arrays.items():
        parts[name] = memory[: array.nbytes].view(array.dtype).reshape(array.shape)
        memory = memory[-(-array.nbytes // aligned) * aligned :]
    return parts


def _reserved(folder: Path | None, nbytes: int) -> np.ndarray:
    """Bytes of a file without a name; `InputError` if it cannot be made."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            if shutil.disk_usage(file.fileno()).free < nbytes:  # some disks would be full before they refuse
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.posix_fallocate(file.fileno(), 0, max(nbytes, 1))
            return np.memmap(file, np.uint8, "r+")  # which keeps the file
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
    """How many states of ``nbytes`` bytes on this rank to store, the same on all ranks; collective.

    As many on the device as a run of ``steps`` steps can use, at most ``states`` in all; then the fewest
    in host memory, and on disk in the folder ``scratch``, that lower the repetitions most. A tenth of memory
    and ``reserve`` bytes of the device stay free, and a tenth of what is free on disk, which ranks share.
    `InputError` if ``states`` is below 1, a state does not fit into ``scratch``, or nowhere with
    ``store_start``.
    """
    if states is not None and states < 1:
        raise InputError(f"states: {states} given; allowed: 1 or more")
    folder = None if scratch is None else Path(scratch)
    fits = _fits(comm, device, nbytes, folder, reserve)
    anew = 0 if store_start else 1
    most = min(max(steps - anew, 0), steps if states is None else states)

    def repeated(number: int) -> int:
        return repetitions(steps, number + anew) if number + anew else steps + 1

    on_device, end = min(fits[0], most), min(sum(fits), most)
    slower = bisect_left(range(on_device, end), -repeated(end), key=lambda number: -repeated(number))
    host = min(fits[1], slower)
    if store_start and steps and not on_device + slower:
        needed, free = binary_bytes(nbytes), binary_bytes(device.memory()[0])
        allowed = "a smaller problem, more ranks, or a scratch folder for it"
        raise InputError(f"memory: a state needs {needed}, {device.name} has {free} free; allowed: {allowed}")
    return Tiers(on_device, host, slower - host, folder)


def _fits(comm: Communicator, device: Device, nbytes: int, folder: Path | None, reserve: int) -> list[int]:
    """How many states all ranks can have on the device, in host memory and on disk; collective."""

    def free() -> list[tuple[tuple[str, ...], int]]:
        if folder is not None:
            _reserved(folder, nbytes)
        disk = 0 if folder is None else shutil.disk_usage(folder).free * 9 // 10
        host = (0, 0) if device.name == "cpu" else host_memory()  # the memory of a CPU is the host's
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
    """C(s + r, s): most states of a run, of which s are stored and no step is taken more than r times."""
    return math.comb(states + repetitions, states)


def repetitions(steps: int, states: int) -> int:
    """Most times that a step is taken, the forward run included; ValueError if ``states`` is below 1."""
    if states < 1:
        raise ValueError(f"states: {states} given; allowed: 1 or more")
    number, reached = 0, 1
    while reached <= steps:
        number += 1
        reached = reached * (states + number) // number
    return number


def advances(steps: int, states: int) -> int:
    """Least number of steps in all: t(l + 1, s) of the article, with t(l, s) = r l − C(s + r, s + 1)."""
    number = repetitions(steps, states)
    return number * (steps + 1) - math.comb(states + number, states + 1)


def split(steps: int, states: int) -> int:
    """How many of ``steps`` steps to take from one of ``states`` states to the next to store; all if none."""
    number = repetitions(steps, states)
    if states == 1 or number == 0:
        return steps
    # The most of all optimal numbers: both parts of the run stay within their repetitions.
    return min(capacity(states, number - 1), steps + 1 - capacity(states - 1, number - 1))


class Reversible(Protocol):
    """A system that steps in time; state k is that after k steps."""

    def arrays(self) -> dict[str, Any]:
        """The working state by names: arrays of the device, always the same ones."""
        ...

    def begin(self) -> None:
        """Make state 0 in the working arrays."""

    def restored(self, step: int) -> None:
        """The working arrays have just been overwritten by state ``step``."""

    def advance(self, step: int) -> None:
        """Take step ``step``, from state ``step`` to the next."""


class Reversal:
    """Brings back the states of a run of ``steps`` steps, from the last to state 0.

    The forward run calls `after` after each step; then `bring` is called for falling numbers. Steps are the
    fewest for the states of ``store``: `advances` of one more, as `Reversible.begin` makes state 0
    anew. With ``store_start`` state 0, now in the working arrays, is stored, and `begin` is never called.

    ``at``: the forward run is resumed there, so states before it are not stored; call `after` for it too.
    After an error of `Reversible.advance` the object is of no more use.
    """

    def __init__(self, system: Reversible, steps: int, store: StateStore, at=0, store_start=False):
        if store_start and (at or not store.states):
            raise ValueError("store_start: state 0 cannot be stored; allowed: at 0, with a state or more")
        self.steps = steps
        #: Steps that `bring` has taken.
        self.advanced = 0
        self._system, self._store, self._last = system, store, steps
        #: Numbers of the stored states; each lies in the store at its position in this list.
        self._stored: list[int] = []
        if store_start:
            self._push(0)
        # The cost is convex in the first state stored: the first that the run still comes by is best.
        self._next = max(at, self._following(0, steps))

    def after(self, step: int) -> None:
        """The working arrays of the forward run hold state ``step``; it is stored if it is due."""
        if self._next <= step < self.steps and len(self._stored) < self._store.states:
            self._push(step)
            self._next = self._following(step, self.steps)

    def bring(self, step: int) -> None:
        """Make state ``step`` in the working arrays; stored states above it are dropped.

        ValueError if it is above the last one brought, or below 0.
        """
        if not 0 <= step <= self._last:
            raise ValueError(f"step: {step} given; allowed: 0 to {self._last}, the last one brought")
        self._last, position = step, 0
        while self._stored and self._stored[-1] > step:
            self._stored.pop()
        if self._stored:
            position = self._stored[-1]
            self._store.read(len(self._stored) - 1, self._system.arrays())
            self._system.restored(position)
        else:
            self._system.begin()
        due = self._following(position, step)
        while position < step:
            self._system.advance(position)
            self.advanced += 1
            position += 1
            if position == due < step:
                self._push(position)
                due = self._following(position, step)

    def peek(self, step: int) -> dict[str, Any] | None:
        """Arrays of state ``step`` where it is stored on the device, to be read until the next `bring`."""
        return self._store.peek(self._stored.index(step)) if step in self._stored else None

    def _push(self, step: int) -> None:
        self._store.write(len(self._stored), self._system.arrays())
        self._stored.append(step)

    def _following(self, step: int, end: int) -> int:
        """Return the number of the next state to store between ``step`` and ``end``, or ``end`` if none."""
        return step + split(end - step, self._store.states - len(self._stored) + 1)
