"""The checkpoint of a run: which run it belongs to, saving, and going on from it."""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.errors import InputError
from wavefabric.files.output import check_output
from wavefabric.results import checkpoint as files
from wavefabric.results import rank_checkpoint
from wavefabric.results.agree import together
from wavefabric.results.provenance import fingerprint
from wavefabric.system.machine import cpu_model


@dataclass(frozen=True)
class Checkpoints:
    """Where and how often a run is saved.

    Parameters
    ----------
    path : Path
        The checkpoint file. With several ranks each writes a file of its own beside it.
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


class Saves:
    """The checkpoint of one run; everything is collective with several ranks.

    Parameters
    ----------
    comm : Communicator
    plan : Checkpoints
    identity : str
        What problem and recording are (`identity`).
    device : Device
    dtype : dtype
    decomposition : Decomposition, optional
        With several ranks.

    Attributes
    ----------
    found : bool
        Whether there is a checkpoint to go on from; known after `look`.
    """

    def __init__(self, comm, plan: Checkpoints, identity: str, device, dtype, decomposition=None):
        self.plan, self.found = plan, False
        self._comm, self._device = comm, device
        shared, self._layout = {}, ""
        if decomposition is not None:
            self._layout = in_words(decomposition)
            shared["ranks"] = json.dumps(decomposition.describe(), sort_keys=True) + repr(
                decomposition.subdomains
            )
        from wavefabric.device import fftw

        cpu = f"{device.threads} threads, {cpu_model()}" if device.name == "cpu" else ""
        self._identity = fingerprint(
            identity, precision=str(np.dtype(dtype)), device=device.name.split(":")[0], cpu=cpu,
            fft=fftw.library() if cpu else "cufft", **shared,
        )  # fmt: skip

    def look(self) -> None:
        """Refuse a checkpoint of another run, and a place that cannot be written, before anything else.

        Raises
        ------
        InputError
        """
        path = self.plan.path
        together(self._comm, lambda: check_output(path, True, "checkpoint"))
        self.found = self.plan.resume and rank_checkpoint.exists(self._comm, path)
        if self.found:
            rank_checkpoint.read_state(self._comm, path, self._identity, self._layout)

    def save(self, arrays: dict[str, Any], state: dict[str, Any], last: bool = False) -> None:
        """Save device arrays and a state, and FFTW's wisdom with them; the run ends if it is the last one."""
        rows: dict[str, Any] = {name: _rows(self._device, array) for name, array in arrays.items()}
        rows["wisdom"] = np.frombuffer(self._wisdom(), np.uint8)
        rank_checkpoint.save_if_possible(
            self._comm, self.plan.path, rows, state, self._identity, self._layout, last=last
        )

    def remove(self) -> None:
        """The run is complete, or begins anew."""
        rank_checkpoint.remove(self._comm, self.plan.path)

    def there(self) -> bool:
        """Whether there is a checkpoint now; of this rank alone."""
        return self.plan.path.exists()

    def import_wisdom(self) -> None:
        """FFTW must choose as it did, before any plan is made."""
        if self._device.name != "cpu":
            return
        from wavefabric.device import fftw

        arrays, _ = self._load(lambda name, *_: None if name == "wisdom" else _ignore)
        fftw.import_wisdom(arrays["wisdom"].tobytes())

    def restore(self, held: dict[str, Any]) -> dict[str, Any]:
        """Fill device arrays with what was saved under their names; the state."""
        device = self._device

        def into(name, shape, dtype):
            if name == "wisdom" or not shape:
                return None
            if device.name == "cpu":
                return held[name]
            if len(shape) == 1:
                return None
            return lambda i, row: held[name].__setitem__(i, device.asarray(row))

        arrays, state = self._load(into)
        if device.name != "cpu":
            for name in arrays.keys() & held.keys():
                held[name][...] = device.asarray(arrays[name])
        return state

    def _load(self, into: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return rank_checkpoint.load(self._comm, self.plan.path, self._identity, into, self._layout)

    def _wisdom(self) -> bytes:
        from wavefabric.device import fftw

        return fftw.export_wisdom() if self._device.name == "cpu" else b""


def in_words(decomposition) -> str:
    """A decomposition for people: ``local, grid 2x2x1, overlap 16, bell nested-sine``."""
    facts = decomposition.describe()
    rest = {name: value for name, value in facts.items() if name not in ("decomposition", "ranks")}
    return ", ".join([str(facts["decomposition"]), *(f"{name} {value}" for name, value in rest.items())])


def identity(problem, recording) -> str:
    """A digest of everything that a run was given."""
    digest = hashlib.sha256()
    _digest(digest, problem)
    _digest(digest, recording)
    return digest.hexdigest()


def compare(comm, identity: str) -> None:
    """Whether all ranks were given the same; collective.

    Raises
    ------
    InputError
        On all ranks, if not.
    """
    found = comm.control.all_gather(identity)
    other = next((rank for rank, one in enumerate(found) if one != found[0]), None)
    if other is not None:
        raise InputError(
            f"ranks: rank {other} was given another problem, recording or options than rank 0; allowed: the "
            "same on all (random numbers need a fixed seed)"
        )


def _ignore(number: int, row: np.ndarray) -> None:
    """Row sink for what is not wanted."""


def _rows(device, array):
    """An array for a checkpoint, read row by row from a GPU."""
    if device.name == "cpu" or array.ndim == 1:
        return np.ascontiguousarray(device.to_host(array))
    return files.Rows(
        tuple(array.shape), np.dtype(array.dtype), lambda i: np.asarray(device.to_host(array[i]))
    )


def _digest(digest, value) -> None:
    """Feed a dataclass with arrays into a hash; arrays by their CRC, which is enough against mistakes."""
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            digest.update(field.name.encode())
            _digest(digest, getattr(value, field.name))
    elif isinstance(value, np.ndarray):
        data = np.ascontiguousarray(value)
        digest.update(f"{data.dtype}{data.shape}{zlib.crc32(data.view(np.uint8).reshape(-1).data)}".encode())
    elif isinstance(value, tuple):
        for part in value:
            _digest(digest, part)
    else:
        digest.update(repr(value).encode())
