"""When a run is saved, what its checkpoint holds, and going on from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wavefabric.files.output import check_output
from wavefabric.lifecycle.agreement import on_all_ranks, on_first_rank
from wavefabric.lifecycle.checkpoint.manifest import RankCheckpoint
from wavefabric.results.file import Rows
from wavefabric.results.lock import check_held
from wavefabric.results.provenance import cuda_source_hash, fingerprint
from wavefabric.system.machine import cpu_model

if TYPE_CHECKING:
    from wavefabric.exchange.communicator import Communicator


@dataclass(frozen=True)
class Checkpoints:
    """Where and how often a run is saved.

    ``path`` is the checkpoint file; with several ranks each writes a file of its own next to it. ``interval``
    are the seconds between saves, ``every`` the time steps between saves besides. ``stop`` is k-Wave's way:
    the run ends with its first save, and the same command goes on from there. ``resume``: go on from the file
    if it is there.
    """

    path: Path
    interval: float = 600.0
    every: int | None = None
    stop: bool = False
    resume: bool = True


class RunCheckpoint(RankCheckpoint):
    """The checkpoint of one run: arrays of its device, and state; methods are collective.

    ``identity`` is a digest of what was given to the run; the processor is added, since other vectors may
    mean other bits, or on a GPU the sources of its kernels.
    """

    def __init__(self, comm: Communicator, policy: Checkpoints, identity: str, layout: str = ""):
        device = comm.device
        self.policy, self._device, self._on_cpu = policy, device, device.name == "cpu"
        here = f"CUDA kernels {cuda_source_hash()}"
        if self._on_cpu:
            here = cpu_model()
        kind = device.name.partition(":")[0]
        super().__init__(
            comm, policy.path, fingerprint(identity, device=kind, fft=here, layout=layout), layout
        )
        self._last_save = time.monotonic()

    def find(self) -> dict[str, Any] | None:
        """The state of the checkpoint to go on from, if there is one.

        InputError if it belongs to another run or is damaged,
        or if no checkpoint can be written there.
        """
        on_all_ranks(self.comm, lambda: check_output(self.path, True, "checkpoint"))
        if not (self.policy.resume and self.exists()):
            return None
        return self.read_state()

    def due(self) -> bool:
        """Whether the interval is over by the clock of this rank; not collective."""
        return time.monotonic() - self._last_save >= self.policy.interval

    def save(self, arrays: Mapping[str, Any], state: dict[str, Any], last: bool = False) -> None:
        """Save arrays (of the device or the host) and a JSON state; the locks of rank 0 must still be held.

        OSError if it is the ``last``, with which the run ends, or there is no earlier one; else a warning.
        """
        on_first_rank(self.comm, check_held)
        rows = {name: self._rows(array) for name, array in arrays.items()}
        super().save(rows, dict(state), last)
        self._last_save = time.monotonic()

    def restore(self, held: dict[str, Any]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Fill device arrays with what was saved under their names; the other arrays, and the state."""

        def by_rows(array: Any) -> Callable[[int, np.ndarray], None]:
            # The host need not hold the whole field.
            return lambda i, row: array.__setitem__(i, self._device.asarray(row))

        if self._on_cpu:
            targets = {name: array for name, array in held.items() if array.ndim}
        else:
            targets = {name: by_rows(array) for name, array in held.items() if array.ndim > 1}
        arrays, saved = self.load(targets)
        for name in held.keys() & arrays.keys():
            array = arrays.pop(name)
            if array is not held[name]:
                held[name][...] = self._device.asarray(array)
        return arrays, saved

    def _rows(self, array: Any) -> np.ndarray | Rows:
        to_host = self._device.to_host
        if self._on_cpu or array.ndim == 1 or isinstance(array, np.ndarray):
            return np.ascontiguousarray(to_host(array))
        return Rows(tuple(array.shape), np.dtype(array.dtype), lambda i: np.asarray(to_host(array[i])))
