"""Defines and checks the settings of a run: the keywords of `simulate` and similar functions."""

import math
import os
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np

from wavefabric.acoustics.decomposition.decompose import Decomposition
from wavefabric.base.arguments import is_whole
from wavefabric.base.errors import choice, require
from wavefabric.base.system.machine import usable_threads
from wavefabric.base.system.progress import Progress
from wavefabric.runtime.device import get_device
from wavefabric.runtime.device.select import cuda_count
from wavefabric.runtime.exchange.communicator import Communicator, world
from wavefabric.runtime.exchange.launch import environment
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import Checkpoints

PRECISIONS = {"single": np.float32, "double": np.float64}
#: Grid points per thread. On an idle machine more threads pay on smaller grids too (eight on 256²: 2.6 times
#: faster). On a busy machine a thread that waits for another costs far more than it can gain.
POINTS_EACH = 1 << 16


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Holds the settings of a run; `InputError` if a value has a wrong type or is not an allowed word.

    Parameters
    ----------
    device : str or Device
        ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:K"``, or an open device. With ``"auto"`` and ``"cuda"``
        each rank uses a different GPU. Ignored with ``comm``, which has a device.
    threads : int, optional
        CPU threads. Default: one per 2¹⁶ points, at least one and at most all; under ``mpiexec`` one per
        rank.
    precision : str
        ``"single"`` or ``"double"``.
    progress : Progress, optional
        Display of the progress, used on rank 0.
    checkpoint : path or Checkpoints, optional
        File in which the run is saved every ten minutes, or as `Checkpoints` says. Repeat the call to resume
        from it; it is removed at the end.
    check_stability : bool
        False allows an unstable time step (`acoustics.stability`); the run stops once the field has grown.
    comm : Communicator, optional
        Ranks that share the grid; by default all that were started together. Use `exchange.solo()` to let
        each rank run a separate simulation.
    decomposition : Decomposition, optional
        How the ranks share the grid; by default a global decomposition.
    """

    device: Any = "auto"
    threads: int | None = None
    precision: str = "single"
    progress: Progress | None = None
    checkpoint: str | Path | Checkpoints | None = None
    check_stability: bool = True
    comm: Communicator | None = None
    decomposition: Decomposition | None = None

    def __post_init__(self) -> None:
        device, threads = self.device, self.threads
        known = isinstance(device, str) or hasattr(device, "xp")
        require(known, "device", device, "'auto', 'cpu', 'cuda', 'cuda:N'")
        right = threads is None or (is_whole(threads) and threads > 0)
        require(right, "threads", threads, "a whole number from 1")
        choice("precision", self.precision, PRECISIONS)
        if not isinstance(self.checkpoint, Checkpoints):
            self._require_files("checkpoint")
        self._require_flags("check_stability")
        for key, kind in (("progress", Progress), ("comm", Communicator), ("decomposition", Decomposition)):
            value = getattr(self, key)
            require(value is None or isinstance(value, kind), key, value, f"a {kind.__name__}")

    def _require_files(self, *keys: str) -> None:
        for key in keys:
            value = getattr(self, key)
            require(value is None or isinstance(value, str | os.PathLike), key, value, "the name of a file")

    def _require_flags(self, *keys: str) -> None:
        for key in keys:
            require(isinstance(getattr(self, key), bool), key, getattr(self, key), "True or False")

    @property
    def checkpoints(self) -> Checkpoints | None:
        """Return where and how often the run is saved; None without checkpoints."""
        if self.checkpoint is None or isinstance(self.checkpoint, Checkpoints):
            return self.checkpoint
        return Checkpoints(Path(self.checkpoint))

    def with_ranks(self, shape: tuple[int, int, int] | None = None) -> Self:
        """Return settings in which ``comm`` is set; by default it has all ranks that were started together.

        A lone rank gets as many CPU threads as suit a grid of ``shape``, unless ``threads`` is set.
        """
        if self.comm is not None:
            return self
        if environment.ranks() > 1:
            return replace(self, comm=_world(self.device, self.threads))
        threads = self.threads
        if threads is None and shape is not None:
            threads = default_threads(shape)
        return replace(self, comm=world(device=get_device(self.device, threads)))

    @property
    def ranks(self) -> Communicator:
        """Return the communicator that `with_ranks` has set."""
        assert self.comm is not None
        return self.comm

    @property
    def dtype(self) -> np.dtype:
        """Return the type of real numbers for ``precision``."""
        return np.dtype(PRECISIONS[self.precision])


@lru_cache
def _world(device: Any, threads: int | None) -> Communicator:
    """Return the communicator of all ranks; cached, because MPI allows only a few thousand communicators."""
    if device == "cpu" or (device == "auto" and threads is not None and not cuda_count()):
        device = get_device("cpu", threads or environment.threads() or 1)
    return world(device=device)


def default_threads(shape: tuple[int, int, int]) -> int:
    """Return the default CPU threads for (Nx, Ny, Nz): one per `POINTS_EACH` points, at most all usable."""
    return max(1, min(usable_threads(), math.prod(shape) // POINTS_EACH))
