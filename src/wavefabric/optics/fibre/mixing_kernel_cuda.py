"""Launches of ``mixing_kernel.cu``: the names and argument order of ``mixing_kernel.py``."""

import numpy as np

#: Samples and rows of threads of a block, as in ``mixing_kernel.cu``.
TILE, LANES = 32, 8


class MixingKernels:
    """The functions of ``mixing_kernel.py`` on one CUDA device."""

    def __init__(self, device):
        self._functions = {}
        for real, dtype in (("float", np.complex64), ("double", np.complex128)):
            module = device.module("wavefabric.optics.fibre", "mixing_kernel.cu", (f"-DREAL={real}",))
            self._functions[np.dtype(dtype)] = module.get_function("mix_rows")

    def mix(self, device, field, matrices, starts) -> None:
        """See ``mixing_kernel.py``."""
        function, samples = self._functions[field.dtype], field.shape[1]
        for start, u in zip(starts, matrices, strict=True):
            shared = len(u) * TILE * field.dtype.itemsize
            if shared > 48 * 1024:
                function.max_dynamic_shared_size_bytes = shared
            arguments = field[start:], device.asarray(u), np.int32(len(u)), np.int64(samples)
            device.launch(function, (-(-samples // TILE),), (TILE, LANES), arguments, shared)


#: What `Device.kernels` makes on a GPU.
KERNELS = MixingKernels
