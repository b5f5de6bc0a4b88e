"""Choose a device by name, and describe what this machine has."""

from __future__ import annotations

from importlib.util import find_spec

from wavefabric.device.base import Device
from wavefabric.errors import InputError, MissingExtra
from wavefabric.system.machine import cpu_model, usable_threads


def cuda_count() -> int:
    """Number of CUDA devices that can be used, 0 where CuPy or a driver is missing."""
    if find_spec("cupy") is None:
        return 0
    try:
        from wavefabric.device import cuda

        return cuda.count()
    except Exception:  # A broken driver or toolkit reads as "no GPU" here; `info` says why.
        return 0


def get_device(name: str = "auto", threads: int | None = None) -> Device:
    """Device by name.

    Parameters
    ----------
    name : str
        ``"cpu"``, ``"cuda"``, ``"cuda:K"``, or ``"auto"`` (the first GPU if there is one).
    threads : int, optional
        CPU threads; all that this process may use by default.

    Raises
    ------
    InputError
        If the name is unknown or the GPU does not exist.
    MissingExtra
        If a GPU is asked for and CuPy is not installed.
    """
    if name == "auto":
        name = "cuda" if cuda_count() else "cpu"
    if name == "cpu":
        from wavefabric.device.cpu import CpuDevice

        return CpuDevice(threads)
    kind, _, index = name.partition(":")
    if kind != "cuda" or (index and not index.isdigit()):
        raise InputError(f"device: {name!r} is unknown; allowed: auto, cpu, cuda, cuda:K")
    if find_spec("cupy") is None:
        raise MissingExtra(f"device {name!r}", "cuda")
    gpus = cuda_count()
    if int(index or 0) >= gpus:
        raise InputError(f"device: {name!r} is not there; this machine has {gpus} usable CUDA device(s)")
    from wavefabric.device.cuda import CudaDevice

    return CudaDevice(int(index or 0))


def describe() -> dict:
    """What this machine offers: CPU, FFT library, GPUs."""
    from wavefabric.device import fftw

    facts: dict = {
        "cpu": {"model": cpu_model(), "threads": usable_threads()},
        "fft": {"library": fftw.library(), "wisdom": fftw.wisdom_state()},
        "gpus": [],
    }
    if find_spec("cupy") is None:
        facts["cuda"] = "not installed"
        return facts
    try:
        from wavefabric.device import cuda

        facts["gpus"] = cuda.describe()
        facts["cuda"] = "available" if facts["gpus"] else "no CUDA device found"
    except Exception as error:  # Say why rather than fail: this is a diagnosis.
        facts["cuda"] = f"not usable: {error}".splitlines()[0]
    return facts
