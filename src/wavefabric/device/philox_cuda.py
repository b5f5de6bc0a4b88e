"""Launches of ``philox.cu``: the names and argument order of ``philox.py``."""

from __future__ import annotations

import numpy as np


class Kernels:
    """The functions of ``philox.py`` on one CUDA device."""

    def __init__(self, device):
        self._device = device
        self._module = device.module("wavefabric.device", "philox.cu")

    def _launch(self, name, out, *arguments):
        grid = (min(-(-out.size // 256), 4096),)
        function = self._module.get_function(name)
        self._device.launch(function, grid, (256,), (out, np.int64(out.size), *arguments))

    def philox_uint32(self, out, seed, stream, offset):
        self._launch("philox_uint32", out, np.uint64(seed), np.uint64(stream), np.uint64(offset))

    def add_complex_normal(self, out, sigma, seed, stream, offset):
        letter = "f32" if out.dtype == np.complex64 else "f64"
        self._launch(
            f"add_complex_normal_{letter}",
            out,
            np.float64(sigma),
            np.uint64(seed),
            np.uint64(stream),
            np.uint64(offset),
        )
