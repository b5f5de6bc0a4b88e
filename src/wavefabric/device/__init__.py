"""Where arrays live: NumPy, FFTW and Numba on a CPU; CuPy, cuFFT and NVRTC on a GPU."""

from wavefabric.device.base import Device, RowFFT
from wavefabric.device.select import describe, get_device

__all__ = ["Device", "RowFFT", "describe", "get_device"]
