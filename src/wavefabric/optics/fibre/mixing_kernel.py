"""Multiply rows of a field by unitary matrices, in place, on a CPU; ``mixing.h`` has the formula."""

from typing import Any

import numpy as np

from wavefabric.runtime.kernels.table import kernel_table

#: Number of samples mixed at once, as in ``mixing.cpp``.
_SIDE = 16
TABLE = kernel_table(
    "items mix_rows(shape array field, doubles matrix, doubles scratch)",
    __package__ or "",
    "mixing_kernel.cu",
)


class CpuMixingKernels:
    """Multiplies fields by matrices that mix modes, on a CPU."""

    def __init__(self, device):
        self._kernels: Any = device.kernels(TABLE)

    def mix(self, device, field, matrices, starts) -> None:
        """Multiply in place, for each k, n rows of ``field`` from row ``starts[k]`` by ``matrices[k]``."""
        tallest = max(map(len, matrices))
        scratch = device.empty((device.threads, 2, tallest, _SIDE), np.float64)
        for start, u in zip(starts, matrices, strict=True):
            self._kernels.mix_rows(field[start : start + len(u)], u, scratch)


#: Class that `Device.kernels` creates on a CPU.
KERNELS = CpuMixingKernels
