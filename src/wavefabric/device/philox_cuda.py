"""Launches of ``philox.cu``: the names and argument order of ``philox.py``."""

import numpy as np


class PhiloxKernels:
    """The functions of ``philox.py`` on one CUDA device."""

    def __init__(self, device):
        self._device = device
        self._module = device.module("wavefabric.device", "philox.cu")

    def _launch(self, name, out, *arguments):
        grid = (min(-(-out.size // 256), 4096),)
        function = self._module.get_function(name)
        self._device.launch(function, grid, (256,), (out, np.int64(out.size), *arguments))

    def philox_uint32(self, out, *counter):
        self._launch("philox_uint32", out, *map(np.uint64, counter))

    def add_complex_normal(self, out, sigma, *counter):
        letter = "f32" if out.dtype == np.complex64 else "f64"
        self._launch(f"add_complex_normal_{letter}", out, np.float64(sigma), *map(np.uint64, counter))


#: What `Device.kernels` makes on a GPU.
KERNELS = PhiloxKernels
