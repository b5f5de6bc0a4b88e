"""How a problem is run: the keywords of `simulate` and its like, checked before anything is made of them."""

import math
import os
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np

from wavefabric.acoustics.arguments import is_whole, require
from wavefabric.acoustics.decomposition.decompose import Decomposition
from wavefabric.device import get_device
from wavefabric.device.select import cuda_count
from wavefabric.errors import choice
from wavefabric.exchange.communicator import Communicator, world
from wavefabric.exchange.launch import environment
from wavefabric.lifecycle.checkpoint.when import Checkpoints
from wavefabric.system.machine import usable_threads
from wavefabric.system.progress import Progress

PRECISIONS = {"single": np.float32, "double": np.float64}
#: Grid points for each thread. Where nothing else runs more threads gain on smaller grids too (eight on 256²:
#: 2.6 times). On a busy machine a thread that waits for another costs far more than it can gain there.
POINTS_EACH = 1 << 16


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Says how a problem is run; `InputError`: a value is of another type, or no word that is allowed.

    Parameters
    ----------
    device : str or Device
        ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:K"``, or one that is open. Each rank has a GPU of its own
        with ``"auto"`` and ``"cuda"``. Not used with `comm`, which has one.
    threads : int, optional
        CPU threads. By default one for each 2¹⁶ points, at least one and at most all; under ``mpiexec`` one
        for each rank.
    precision : str
        ``"single"`` or ``"double"``.
    progress : Progress, optional
        Is shown where the run is, on rank 0.
    checkpoint : path or Checkpoints, optional
        File that is saved every ten minutes, or as `Checkpoints` says. The same call goes on from it; it is
        removed at the end.
    check_stability : bool
        False runs a time step that is not stable (`acoustics.stability`) until the field has grown.
    comm : Communicator, optional
        Ranks that share the grid; by default all that were started together. Give `exchange.solo()` to let
        each rank run a simulation of its own.
    decomposition : Decomposition, optional
        How they share it; a global decomposition by default.
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
        """Where and how often the run is saved."""
        if self.checkpoint is None or isinstance(self.checkpoint, Checkpoints):
            return self.checkpoint
        return Checkpoints(Path(self.checkpoint))

    def with_ranks(self, shape: tuple[int, int, int] | None = None) -> Self:
        """These with a communicator: all ranks that were started together, on devices for such a grid."""
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
        """The communicator of `with_ranks`."""
        assert self.comm is not None
        return self.comm

    @property
    def dtype(self) -> np.dtype:
        """The type of real numbers that ``precision`` stands for."""
        return np.dtype(PRECISIONS[self.precision])


@lru_cache
def _world(device: Any, threads: int | None) -> Communicator:
    """Kept: MPI has few thousand communicators, and a script may simulate often."""
    if device == "cpu" or (device == "auto" and threads is not None and not cuda_count()):
        device = get_device("cpu", threads or environment.threads() or 1)
    return world(device=device)


def default_threads(shape: tuple[int, int, int]) -> int:
    """Return one CPU thread for each `POINTS_EACH` points of (Nx, Ny, Nz), at most all usable ones."""
    return max(1, min(usable_threads(), math.prod(shape) // POINTS_EACH))
