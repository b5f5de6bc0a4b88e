"""Multiply rows of a field by unitary matrices, in place, on a GPU; interface as in ``mixing_kernel.py``."""

import numpy as np

#: Rows per thread and maximum threads per block, as in ``mixing_kernel.cu``.
ROWS, MOST_THREADS = 4, 256


class MixingKernels:
    """Provides the functions of ``mixing_kernel.py`` on one CUDA device."""

    def __init__(self, device):
        self._functions = {}
        for real, dtype in (("float", np.complex64), ("double", np.complex128)):
            module = device.module("wavefabric.optics.fibre", "mixing_kernel.cu", (f"-DREAL={real}",))
            self._functions[np.dtype(dtype)] = module.get_function("mix_rows")

    def mix(self, device, field, matrices, starts) -> None:
        """Multiply in place, for each k, n rows of ``field`` from row ``starts[k]`` by ``matrices[k]``."""
        function, samples = self._functions[field.dtype], field.shape[1]
        for start, u in zip(starts, matrices, strict=True):
            lanes = min(8, -(-len(u) // ROWS))
            side = MOST_THREADS // lanes // 32 * 32
            shared = len(u) * side * field.dtype.itemsize
            if shared > 48 * 1024:
                function.max_dynamic_shared_size_bytes = shared
            arguments = field[start:], device.asarray(u), np.int32(len(u)), np.int64(samples)
            device.launch(function, (-(-samples // side),), (side, lanes), arguments, shared)


#: Class that `Device.kernels` creates on a GPU.
KERNELS = MixingKernels
