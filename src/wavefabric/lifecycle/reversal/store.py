"""Stored states, on the device, in host memory and on disk; and how many of them fit where."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from bisect import bisect_left
from collections import defaultdict
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wavefabric.errors import InputError
from wavefabric.lifecycle.agreement import device_identity, on_all_ranks
from wavefabric.lifecycle.reversal.binomial import repetitions
from wavefabric.system.machine import host_memory
from wavefabric.units import binary_bytes

if TYPE_CHECKING:
    from wavefabric.device import Device
    from wavefabric.exchange.communicator import Communicator


class Tiers(NamedTuple):
    """Numbers of states on the device, in the memory of its host, and on disk in the folder ``scratch``."""

    device: int
    host: int = 0
    disk: int = 0
    scratch: Path | None = None


class StateStore(AbstractContextManager):
    """A stack of states of ``nbytes`` bytes; the lowest, which are read least, on the slowest tier.

    Memory is taken when a position is first written, and kept until `close`. Disk is reserved at once, in
    files without a name, which vanish with the process however it ends; `InputError` if that fails.
    """

    def __init__(self, device: Device, nbytes: int, tiers: Tiers):
        self.states = tiers.device + tiers.host + tiers.disk
        self._device, self._on_device = device, tiers.disk + tiers.host
        self._slots: list[dict[str, Any]] = [{} for _ in range(self.states)]
        self._files = [_reserved(tiers.scratch, nbytes, tiers.disk) for _ in range(tiers.disk)]

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release memory and disk; the states are lost."""
        self._slots.clear()
        for file in self._files:
            file.close()

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
        return self._slots[position] if position >= self._on_device else None

    def _allocated(self, position: int, arrays: dict[str, Any]) -> dict[str, Any]:
        if position >= len(self._files):
            empty = self._device.empty if position >= self._on_device else self._device.host_empty
            return {name: empty(array.shape, array.dtype) for name, array in arrays.items()}
        rest, slot = np.memmap(self._files[position], np.uint8, "r+"), {}
        for name, array in arrays.items():
            slot[name] = rest[: array.nbytes].view(array.dtype).reshape(array.shape)
            rest = rest[array.nbytes :]
        return slot


def _reserved(folder: Path | None, nbytes: int, count: int) -> Any:
    """A file without a name for one of ``count`` states; `InputError` if it cannot be made."""
    try:
        file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - the caller closes it
        os.posix_fallocate(file.fileno(), 0, max(nbytes, 1))
    except OSError as error:
        what = f"{folder} cannot take {count} x {binary_bytes(nbytes)} ({error.strerror})"
        raise InputError(f"scratch: {what}; allowed: a folder to write in, with that much free") from None
    return file


def choose_tiers(
    comm: Communicator,
    device: Device,
    nbytes: int,
    steps: int,
    states: int | None = None,
    scratch: str | Path | None = None,
    store_start: bool = False,
) -> Tiers:
    """How many states of ``nbytes`` bytes on this rank to store, the same on all ranks; collective.

    As many on the device as a run of ``steps`` steps can use, at most ``states`` in all; then so many in host
    memory, and on disk in the folder ``scratch``, as lower the repetitions most. A tenth of memory stays
    free, and of what is free on disk, which ranks are taken to have in common. `InputError` if ``states`` is
    below 1, ``scratch`` cannot take a state, or none fits and one of them is state 0 (``store_start``).
    """
    if states is not None and states < 1:
        raise InputError(f"states: {states} given; allowed: 1 or more")
    fits = _fits(comm, device, nbytes, folder := None if scratch is None else Path(scratch))
    anew = 0 if store_start else 1
    most = max(steps - anew, 0)  # the last state is in the working arrays
    most = most if states is None else min(most, states)

    def repeated(number: int) -> int:
        return repetitions(steps, number + anew) if number + anew else steps + 1

    counts = [min(fits[0], most)]
    for fit in fits[1:]:
        have = sum(counts)
        numbers = range(have, have + min(fit, most - have))
        counts.append(bisect_left(numbers, -repeated(numbers.stop), key=lambda each: -repeated(each)))
    if store_start and steps and not sum(counts):
        what = (
            f"a state needs {binary_bytes(nbytes)}, {device.name} has {binary_bytes(device.memory()[0])} free"
        )
        raise InputError(
            f"memory: {what}; allowed: a smaller problem, more ranks, or a scratch folder for it"
        )
    return Tiers(*counts, scratch=folder)


def _fits(comm: Communicator, device: Device, nbytes: int, folder: Path | None) -> list[int]:
    """How many states all ranks can have on the device, in host memory and on disk; collective."""

    def free() -> dict[tuple[str, ...], int]:
        """Bytes, by tier and by whose they are."""
        if folder is not None:
            _reserved(folder, nbytes, 1).close()
        disk = 0 if folder is None else shutil.disk_usage(folder).free * 9 // 10
        host = (0, 0) if device.name == "cpu" else host_memory()  # the memory of a CPU is the host's
        usable = [free - total // 10 for free, total in (device.memory(), host)]
        owners = ("device", *device_identity(device)), ("host", socket.gethostname()), ("disk",)
        return dict(zip(owners, (*usable, disk), strict=True))

    needed, least = defaultdict(int), {}
    for size, memory in comm.control.all_gather((nbytes, on_all_ranks(comm, free))):
        for owner, usable in memory.items():
            needed[owner] += max(size, 1)
            least[owner] = min(usable, least.get(owner, usable))
    tiers = {tier: [least[o] // n for o, n in needed.items() if o[0] == tier] for tier in Tiers._fields[:3]}
    return [max(min(numbers), 0) for numbers in tiers.values()]
