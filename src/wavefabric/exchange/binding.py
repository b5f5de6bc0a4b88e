"""Which GPU a rank uses."""

from __future__ import annotations

from wavefabric.device import get_device
from wavefabric.device.select import cuda_count
from wavefabric.errors import InputError


def bind_device(device, local_rank: int, placement: list[int] | None = None):
    """The device of a rank.

    Parameters
    ----------
    device : str, Device or None
        ``None``, ``"auto"`` and ``"cuda"`` give the rank its own GPU (or the CPU, not for ``"cuda"``, where
        there is none); anything else is taken as it is.
    local_rank : int
        Rank among those of this host.
    placement : list of int, optional
        GPU of each local rank. By default rank r takes GPU r, and starts again when there are no more.

    Raises
    ------
    InputError
        If the placement does not name a GPU for this rank.
    """
    if device not in (None, "auto", "cuda"):
        return get_device(device) if isinstance(device, str) else device
    gpus = cuda_count()
    if not gpus:
        return get_device("cuda" if device == "cuda" else "cpu", None if device == "cuda" else threads())
    if placement is None:
        return get_device(f"cuda:{local_rank % gpus}")
    if local_rank >= len(placement):
        raise InputError(f"placement: {len(placement)} GPUs for {local_rank + 1} or more ranks of this host")
    return get_device(f"cuda:{placement[local_rank]}")


def threads() -> int | None:
    """CPU threads of a rank: what its environment says, or one of several that share a machine."""
    import os

    given = os.environ.get("WAVEFABRIC_THREADS")
    return int(given) if given and given.isdigit() and int(given) > 0 else 1
