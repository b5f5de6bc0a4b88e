"""Stored states, on the device, in host memory and on disk; and how many of them fit where."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from bisect import bisect_left
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wavefabric.errors import InputError
from wavefabric.files.output import unwritable
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


class StateStore:
    """States of ``nbytes`` bytes by their position in a stack, the first on disk, the last on the device.

    A state lower in the stack is read no more often than one above it. Memory is taken when a position is
    first written, and kept until `close`; disk is reserved at once, in files without a name, which vanish with
    the process however it ends. `InputError` if the disk has too little space, or no file can be made there.
    """

    def __init__(self, device: Device, nbytes: int, tiers: Tiers):
        self.states = tiers.device + tiers.host + tiers.disk
        self._device = device
        self._slots: list[dict[str, Any]] = [{} for _ in range(self.states)]
        self._files: list[Any] = []
        self._on_device = self.states - tiers.device
        try:
            for _ in range(tiers.disk):
                self._files.append(tempfile.TemporaryFile(dir=tiers.scratch))  # noqa: SIM115 - until close
                os.posix_fallocate(self._files[-1].fileno(), 0, max(nbytes, 1))
        except OSError as error:
            self.close()
            size = binary_bytes(nbytes * tiers.disk)
            why = f"{error.strerror}; {tiers.disk} states need {size} there"
            raise InputError(unwritable(Path(str(tiers.scratch)), "scratch", why)) from None

    def __enter__(self) -> StateStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release memory and disk; the states are lost."""
        self._slots.clear()
        for file in self._files:
            file.close()
        self._files.clear()

    def write(self, position: int, arrays: dict[str, Any]) -> None:
        """Store a state; always of the same arrays."""
        slot = self._slots[position]
        if not slot:
            slot.update(self._allocate(position, arrays))
        for name, array in arrays.items():
            self._device.copy(slot[name], array)

    def read(self, position: int, arrays: dict[str, Any]) -> None:
        """Copy a state into arrays, one copy each."""
        for name, array in arrays.items():
            self._device.copy(array, self._slots[position][name])

    def peek(self, position: int) -> dict[str, Any] | None:
        """The arrays of a state on the device itself; None of one elsewhere."""
        return self._slots[position] if position >= self._on_device else None

    def _allocate(self, position: int, arrays: dict[str, Any]) -> dict[str, Any]:
        if position < len(self._files):
            return _mapped(self._files[position], arrays)
        empty = self._device.empty if position >= self._on_device else self._device.host_empty
        return {name: empty(array.shape, array.dtype) for name, array in arrays.items()}


def _mapped(file: Any, arrays: dict[str, Any]) -> dict[str, Any]:
    """Arrays like these whose memory is a file."""
    result, offset = {}, 0
    for name, array in arrays.items():
        dtype, shape = np.dtype(array.dtype), tuple(array.shape)
        empty = 0 in shape  # which cannot be mapped
        result[name] = np.empty(shape, dtype) if empty else np.memmap(file, dtype, "r+", offset, shape)
        offset += array.nbytes
    return result


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

    As many as a run of ``steps`` steps can use, at most ``states``, on the device; then so many in host memory,
    and then on disk in the folder ``scratch``, as lower the repetitions most. A tenth of memory stays free, and a
    tenth of what is free on disk, which ranks are taken to have in common. With ``store_start`` state 0 is one
    of the states (see `Reversal`). `InputError` if ``states`` is below 1, ``scratch`` is no folder that can be
    written, or no state fits and the first must be stored.
    """
    if states is not None and states < 1:
        raise InputError(f"states: {states} given; allowed: 1 or more")
    folder = None if scratch is None else Path(scratch)
    free = on_all_ranks(comm, lambda: _free(device, folder))
    fits = _fits(comm.control.all_gather((nbytes, *free)))
    # The last state needed is in the working arrays, and state 0 where it is made anew.
    most = max(steps - (not store_start), 0)
    most = most if states is None else min(most, states)

    def taken_at_most(number: int) -> int:
        stored = number + (not store_start)
        return repetitions(steps, stored) if stored else steps + 1

    counts = [min(fits[0], most)]
    for fit in fits[1:]:
        have = sum(counts)
        more = min(fit, most - have)
        least = -taken_at_most(have + more)
        counts.append(bisect_left(range(more), least, key=lambda each, n=have: -taken_at_most(n + each)))
    if store_start and steps and not sum(counts):
        sizes = ", ".join(f"{binary_bytes(f[1])} free {where}" for f, where in zip(free, _TIERS, strict=True))
        help = "a smaller problem, more ranks" + (", or a scratch folder" if folder is None else "")
        raise InputError(f"memory: a state needs {binary_bytes(nbytes)}; {sizes}; allowed: {help}")
    return Tiers(*counts, scratch=folder)


_TIERS = ("on the device", "in host memory", "on disk")


def _free(device: Device, folder: Path | None) -> list[tuple[tuple, int]]:
    """Bytes that each tier has for states, and who has a part in them."""
    host = socket.gethostname()
    on_host, on_disk = 0, 0
    if device.name != "cpu":  # whose own memory is the host's
        on_host = _usable(*host_memory())
    if folder is not None:
        try:
            with tempfile.TemporaryFile(dir=folder):
                on_disk = shutil.disk_usage(folder).free * 9 // 10
        except OSError as error:
            raise InputError(unwritable(folder, "scratch", str(error.strerror))) from None
    return [(device_identity(device), _usable(*device.memory())), ((host,), on_host), ((), on_disk)]


def _usable(free: int, total: int) -> int:
    return max(free - total // 10, 0)


def _fits(ranks: list[tuple]) -> list[int]:
    """States that every rank can have in each tier: (bytes of a state, tiers of `_free`) of all ranks."""
    result = []
    for tier in range(len(_TIERS)):
        owners = defaultdict(list)
        for nbytes, *tiers in ranks:
            identity, free = tiers[tier]
            owners[identity].append((nbytes, free))
        result.append(
            min(min(f for _, f in each) // max(sum(n for n, _ in each), 1) for each in owners.values())
        )
    return result
