"""Select a device by name, and describe the devices of this machine."""

import sys
from importlib.util import find_spec
from typing import Any

from wavefabric.base.errors import InputError, MissingExtra, quoted
from wavefabric.base.system.gpu_context import begin_context
from wavefabric.base.system.machine import cpu_model, usable_threads
from wavefabric.runtime.device.base import Device


def cuda_count() -> int:
    """Return the number of usable CUDA devices; 0 without CuPy or a driver."""
    cuda, _ = _cuda()
    return cuda.count() if cuda else 0


def _cuda(index: int | None = None) -> tuple[Any, str]:
    """Return the module `device.cuda` and "available", or None and the reason why no GPU can be used.

    With ``index`` the CUDA context of that GPU is created while CuPy is imported.
    """
    if find_spec("cupy") is None:
        return None, "not installed"
    try:
        if index is not None and "cupy" not in sys.modules:
            begin_context(index)
        from wavefabric.runtime.device import cuda

        return (cuda, "available") if cuda.count() else (None, "no CUDA device found")
    except Exception as error:  # A broken driver or toolkit counts as "no GPU".
        return None, f"not usable: {error}".splitlines()[0]


def get_device(name: str | Device = "auto", threads: int | None = None) -> Device:
    """Return the device that ``name`` names; a `Device` is returned unchanged.

    ``name`` is ``"cpu"``, ``"cuda"``, ``"cuda:K"``, or ``"auto"`` (the first GPU if there is one);
    ``threads`` is for a CPU, by default all that this process may use. `InputError` if the name is unknown or
    the GPU does not exist; `MissingExtra` if a GPU is requested and CuPy is not installed.
    """
    if not isinstance(name, str):
        if not hasattr(name, "xp"):
            raise InputError(f"device: {quoted(name)} given; allowed: auto, cpu, cuda, cuda:K, or a device")
        return name
    if name == "auto":
        name = "cuda" if _cuda(0)[0] else "cpu"
    if name == "cpu":
        from wavefabric.runtime.device.cpu import CpuDevice

        return CpuDevice(threads)
    kind, _, index = name.partition(":")
    if kind != "cuda" or (index and not index.isdigit()):
        raise InputError(f"device: {name!r} is unknown; allowed: auto, cpu, cuda, cuda:K")
    if find_spec("cupy") is None:
        raise MissingExtra(f"device {name!r}", "cuda")
    cuda, _ = _cuda(int(index or 0))
    gpus = cuda.count() if cuda else 0
    if int(index or 0) >= gpus:
        raise InputError(f"device: {name!r} is not there; this machine has {gpus} usable CUDA device(s)")
    return cuda.CudaDevice(int(index or 0))


def describe() -> dict:
    """Return the processor and GPUs of this machine, and whether CUDA can be used, as a dictionary."""
    cuda, state = _cuda()
    return {
        "cpu": {"model": cpu_model(), "threads": usable_threads()},
        "gpus": cuda.describe() if cuda else [],
        "cuda": state,
    }
