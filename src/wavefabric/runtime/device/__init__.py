"""Store arrays and run kernels: NumPy and compiled kernels on a CPU; CuPy, cuFFT and NVRTC on a GPU.

This package may import ``files``, ``system`` and ``errors``.
"""

from wavefabric.runtime.device.base import Device
from wavefabric.runtime.device.select import describe, get_device
from wavefabric.runtime.device.user_arrays import host_array

__all__ = ["Device", "describe", "get_device", "host_array"]
