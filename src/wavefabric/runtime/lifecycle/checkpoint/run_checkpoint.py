"""Decide when to save a run, define the contents of its checkpoint, and resume from it.

With several ranks each writes its own part, and a manifest lists the valid parts. The manifest has the name
and format of a single-rank checkpoint. The parts of rank r of K are ``NAME.rank{r}of{K}.0`` and ``….1``: two
slots. A save fills the slot that the manifest does not name; the manifest is written when all parts are on
disk, so that a kill at any moment leaves the complete old generation or the complete new one.
"""

import contextlib
import os
import re
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.base.errors import InputError, UnusableCheckpoint
from wavefabric.base.files.output import check_output
from wavefabric.base.results.file import Rows
from wavefabric.base.results.lock import check_held
from wavefabric.base.results.provenance import cuda_source_hash, fingerprint
from wavefabric.base.system.machine import cpu_model
from wavefabric.base.units import counted
from wavefabric.runtime.exchange.communicator import Communicator
from wavefabric.runtime.lifecycle.checkpoint import file as checkpoint_file
from wavefabric.runtime.lifecycle.checkpoint.file import Arrays, Targets, unusable
from wavefabric.runtime.lifecycle.collective_checks import on_all_ranks, on_first_rank

#: Key of the state that identifies a manifest.
_PARTS = "rank_parts"


@dataclass(frozen=True)
class Checkpoints:
    """Says where and how often to save a run.

    ``path`` is the checkpoint file; with several ranks each writes a file next to it. ``interval`` is the
    time between saves in s, ``every`` additionally the number of time steps between saves. With ``stop`` the
    run ends after its first save, as in k-Wave; the same command then resumes it. With ``resume`` a run
    resumes from the file if it exists.
    """

    path: Path
    interval: float = 600.0
    every: int | None = None
    stop: bool = False
    resume: bool = True


class RankCheckpoint:
    """Manages the checkpoint files of all ranks of a run; all ranks call its methods together.

    Errors are raised on all ranks. ``fingerprint`` identifies the run on this rank, and files with another
    fingerprint are refused; ``layout`` describes, as text, how the run is divided among its ranks.
    """

    def __init__(self, comm: Communicator, path: str | Path, fingerprint: str, layout: str = ""):
        self.comm, self.path, self.fingerprint = comm, Path(path), fingerprint
        self._layout = layout if comm.size > 1 else ""

    def exists(self) -> bool:
        """Return whether rank 0 sees a checkpoint."""
        return on_first_rank(self.comm, self.path.exists)

    def save(self, arrays: Arrays, state: dict[str, Any], last: bool = True) -> None:
        """Write the arrays and JSON state of every rank; an OSError leaves the previous checkpoint unchanged.

        The OSError becomes a warning if there is an earlier checkpoint and this is not the last save.
        """
        try:
            self._save(arrays, state)
        except OSError as error:
            if last or not self.exists():
                raise
            if self.comm.rank == 0:
                outcome = f"the run continues, its last checkpoint {self.path} is whole"
                text = f"{error.filename}: {error.strerror}; {outcome}"
                warnings.warn(text, RuntimeWarning, stacklevel=3)

    def _save(self, arrays: Arrays, state: dict[str, Any]) -> None:
        if self.comm.size == 1:
            checkpoint_file.save(self.path, arrays, state, self.fingerprint)
            return
        old = on_first_rank(self.comm, self._current_slot)
        slot = 0 if old is None else 1 - old
        token = self.comm.control.bcast(os.urandom(8).hex())

        def write_part() -> None:
            part = self._part(slot)
            checkpoint_file.remove(part)  # an old part that no manifest names
            checkpoint_file.save(part, arrays, {"token": token, "state": state}, self.fingerprint)

        def write_manifest() -> None:
            parts = {"ranks": self.comm.size, "slot": slot, "token": token, "layout": self._layout}
            checkpoint_file.save(self.path, {}, {**state, _PARTS: parts}, self.fingerprint)

        on_all_ranks(self.comm, write_part)
        on_first_rank(self.comm, write_manifest)
        if old is not None:
            with contextlib.suppress(OSError):
                checkpoint_file.remove(self._part(old))

    def load(self, targets: Targets | None = None) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return the arrays and the state that this rank saved; ``targets`` as for `checkpoint_file.load`.

        InputError if the checkpoint is missing, for another number of ranks or another layout, or if one of
        its parts is missing, damaged or from another run.
        """
        return self._read(lambda path: checkpoint_file.load(path, self.fingerprint, targets))

    def read_state(self) -> dict[str, Any]:
        """Return only the state that this rank saved; errors as for `load`."""
        return self._read(lambda path: ({}, checkpoint_file.read_state(path, self.fingerprint)))[1]

    def remove(self) -> None:
        """Remove the checkpoint, the parts for any number of ranks, and the remains of killed saves."""
        pattern = re.compile(re.escape(self.path.name) + r"\.rank\d+of\d+\.[01](\.partial)?")

        def remove_parts() -> None:
            for file in list(self.path.parent.iterdir()) if self.path.parent.is_dir() else []:
                if pattern.fullmatch(file.name):
                    file.unlink(missing_ok=True)

        # The manifest first: without it, parts are ignored.
        on_first_rank(self.comm, lambda: checkpoint_file.remove(self.path))
        on_all_ranks(self.comm, remove_parts)

    def _part(self, slot: int) -> Path:
        return self.path.with_name(f"{self.path.name}.rank{self.comm.rank}of{self.comm.size}.{slot}")

    def _read(self, read: Callable[[Path], tuple[dict, dict]]) -> tuple[dict, dict]:
        parts = on_first_rank(self.comm, self._manifest)
        if self.comm.size == 1:
            return read(self.path)

        def read_part() -> tuple[dict, dict]:
            part = self._part(parts["slot"])
            if not part.exists():
                raise unusable(self.path, f"its part {part.name} is missing")
            arrays, state = read(part)
            if state.get("token") != parts["token"]:
                raise unusable(self.path, f"its part {part.name} was saved at another time")
            return arrays, state["state"]

        return on_all_ranks(self.comm, read_part)

    def _manifest(self) -> dict[str, Any]:
        """Return what the manifest says about the parts; `UnusableCheckpoint` if ranks or run differ."""
        parts = checkpoint_file.read_state(self.path, None).get(_PARTS, {"ranks": 1, "layout": ""})
        saved, here = (parts["ranks"], parts["layout"]), (self.comm.size, self._layout)
        if saved != here:
            fault = f"this checkpoint was saved by {_in_words(*saved)}, this run has {_in_words(*here)}"
            raise UnusableCheckpoint(f"{self.path}: {fault}; go on as it was, or remove it to start anew")
        checkpoint_file.read_state(self.path, self.fingerprint)
        return parts

    def _current_slot(self) -> int | None:
        """Return the slot, 0 or 1, named by the manifest; None without one for this number of ranks."""
        try:
            parts = checkpoint_file.read_state(self.path, None).get(_PARTS, {})
        except (InputError, OSError):
            return None  # nothing worth keeping
        return parts["slot"] if parts.get("ranks") == self.comm.size else None


class RunCheckpoint(RankCheckpoint):
    """Manages the checkpoint of one run, of device arrays and a state; all ranks call its methods together.

    ``identity`` is a digest of the run's inputs. The fingerprint also depends on the processor, since other
    vector units may change the last bits of results, or on a GPU on the sources of the kernels.
    """

    def __init__(self, comm: Communicator, policy: Checkpoints, identity: str, layout: str = ""):
        device = comm.device
        self.policy, self._device, self._on_cpu = policy, device, device.name == "cpu"
        hardware = f"CUDA kernels {cuda_source_hash()}"
        if self._on_cpu:
            hardware = cpu_model()
        kind = device.name.partition(":")[0]
        super().__init__(
            comm, policy.path, fingerprint(identity, device=kind, fft=hardware, layout=layout), layout
        )
        self._last_save = time.monotonic()

    def find(self) -> dict[str, Any] | None:
        """Return the state of the checkpoint to resume from, or None.

        InputError if the checkpoint belongs to another run or is damaged, or if none can be written there.
        """
        on_all_ranks(self.comm, lambda: check_output(self.path, True, "checkpoint"))
        if not (self.policy.resume and self.exists()):
            return None
        return self.read_state()

    def due(self) -> bool:
        """Return whether the save interval has passed on this rank's clock; any rank may call this alone."""
        return time.monotonic() - self._last_save >= self.policy.interval

    def save(self, arrays: Mapping[str, Any], state: dict[str, Any], last: bool = False) -> None:
        """Save arrays (of the device or the host) and a JSON state; rank 0 must still hold its locks.

        An OSError is raised in the first save and in the ``last``, which ends the run; else a warning.
        """
        on_first_rank(self.comm, check_held)
        rows = {name: self._rows(array) for name, array in arrays.items()}
        super().save(rows, dict(state), last)
        self._last_save = time.monotonic()

    def restore(self, fields: dict[str, Any]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Copy saved arrays to those of ``fields`` with the same names; return the others and the state."""

        def by_rows(array: Any) -> Callable[[int, np.ndarray], None]:
            # The host needs no copy of the whole field.
            return lambda i, row: array.__setitem__(i, self._device.asarray(row))

        if self._on_cpu:
            targets = {name: array for name, array in fields.items() if array.ndim}
        else:
            targets = {name: by_rows(array) for name, array in fields.items() if array.ndim > 1}
        arrays, saved = self.load(targets)
        for name in fields.keys() & arrays.keys():
            array = arrays.pop(name)
            if array is not fields[name]:
                fields[name][...] = self._device.asarray(array)
        return arrays, saved

    def _rows(self, array: Any) -> np.ndarray | Rows:
        to_host = self._device.to_host
        if self._on_cpu or array.ndim == 1 or isinstance(array, np.ndarray):
            return np.ascontiguousarray(to_host(array))
        return Rows(tuple(array.shape), np.dtype(array.dtype), lambda i: np.asarray(to_host(array[i])))


def _in_words(ranks: int, layout: str) -> str:
    return counted(ranks, "rank") + (f" ({layout})" if layout else "")
