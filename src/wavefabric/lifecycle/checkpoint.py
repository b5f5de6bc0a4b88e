"""The checkpoint of a run: when it is saved, what it holds, and going on from it."""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wavefabric.device import fftw
from wavefabric.files.output import check_output
from wavefabric.lifecycle.collective_errors import on_all_ranks, on_first_rank
from wavefabric.lifecycle.rank_checkpoint import RankCheckpoint
from wavefabric.results.checkpoint_file import Rows
from wavefabric.results.lock import FileLock
from wavefabric.results.provenance import fingerprint
from wavefabric.system.machine import cpu_model

if TYPE_CHECKING:
    from wavefabric.exchange import Communicator


@dataclass(frozen=True)
class Checkpoints:
    """Where and how often a run is saved.

    Parameters
    ----------
    path : Path
        The checkpoint file. With several ranks each writes a file of its own next to it.
    interval : float
        Seconds between saves.
    every : int, optional
        Time steps between saves, besides the interval.
    stop : bool
        k-Wave's way: the run ends with its first save, and the same command goes on from there.
    resume : bool
        Go on from the file if it is there.
    """

    path: Path
    interval: float = 600.0
    every: int | None = None
    stop: bool = False
    resume: bool = True


class RunCheckpoint:
    """The checkpoint of one run: solver's arrays and state, and FFTW's plans; methods are collective.

    Parameters
    ----------
    comm : Communicator
    policy : Checkpoints
    identity : str
        Digest of what was given to the run; processor, threads and FFT library are added, since another FFT
        plan means other bits.
    layout : str
        How the run is divided among ranks, in words.
    """

    def __init__(self, comm: Communicator, policy: Checkpoints, identity: str, layout: str = ""):
        device = comm.device
        on_cpu = device.name == "cpu"
        self.policy = policy
        self._device = device
        self.fingerprint = fingerprint(
            identity,
            device=device.name.partition(":")[0],
            fft=f"{fftw.library()}, {device.threads} threads, {cpu_model()}" if on_cpu else "cufft",
            layout=layout,
        )
        self._files = RankCheckpoint(comm, policy.path, self.fingerprint, layout)
        self._last_save = time.monotonic()

    def find(self) -> dict[str, Any] | None:
        """The state of the checkpoint to go on from, if there is one; FFTW will then plan as it did.

        To be called before any transform is planned.

        Raises
        ------
        InputError
            If it belongs to another run or is damaged, or if no checkpoint can be written there.
        """
        path = self.policy.path
        on_all_ranks(self._files.comm, lambda: check_output(path, True, "checkpoint"))
        if not (self.policy.resume and self._files.exists()):
            return None
        saved = self._files.read_state()
        if self._device.name == "cpu":
            fftw.import_wisdom(base64.b64decode(saved["wisdom"]))
        return saved

    def due(self) -> bool:
        """Whether the interval is over by the clock of this rank; not collective."""
        return time.monotonic() - self._last_save >= self.policy.interval

    def save(
        self, arrays: dict[str, Any], state: dict[str, Any], locks: Sequence[FileLock], last: bool = False
    ) -> None:
        """Save arrays (of the device or the host) and a JSON state.

        Parameters
        ----------
        arrays : dict of array
        state : dict
        locks : sequence of FileLock
            Must still be held on rank 0.
        last : bool
            The run ends with this save.

        Raises
        ------
        OSError
            On all ranks, if it is the last one or there is no earlier one; else a failure is only warned of.
        """
        comm = self._files.comm

        def check_locks() -> None:
            for lock in locks:
                lock.check()

        on_first_rank(comm, check_locks)
        wisdom = fftw.export_wisdom() if self._device.name == "cpu" else b""
        rows = {name: self._rows(array) for name, array in arrays.items()}
        saved = {**state, "wisdom": base64.b64encode(wisdom).decode()}
        self._files.save_if_possible(rows, saved, last)
        self._last_save = time.monotonic()

    def restore(self, held: dict[str, Any]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Fill device arrays with what was saved under their names; the other arrays, and the state."""
        device = self._device
        on_cpu = device.name == "cpu"

        def into(name: str, shape: tuple[int, ...], dtype: np.dtype):
            if name not in held or not shape:
                return None
            if on_cpu:
                return held[name]
            # A row at a time: the host need not hold the whole field.
            return (lambda i, row: held[name].__setitem__(i, device.asarray(row))) if len(shape) > 1 else None

        arrays, saved = self._files.load(into)
        for name in held.keys() & arrays.keys():
            array = arrays.pop(name)
            if array is not held[name]:
                held[name][...] = device.asarray(array)
        return arrays, saved

    def exists_here(self) -> bool:
        """Whether this rank sees one now; not collective."""
        return self.policy.path.exists()

    def remove(self) -> None:
        """The run is complete, or begins anew."""
        self._files.remove()

    def _rows(self, array: Any) -> np.ndarray | Rows:
        device = self._device
        if device.name == "cpu" or array.ndim == 1 or isinstance(array, np.ndarray):
            return np.ascontiguousarray(device.to_host(array))
        return Rows(tuple(array.shape), np.dtype(array.dtype), lambda i: np.asarray(device.to_host(array[i])))
