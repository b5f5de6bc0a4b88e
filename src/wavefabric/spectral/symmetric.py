"""Transforms along y of fields that are even or odd about the first point and vanish beyond the last.

With N points and k_m = (m + ½)π/N these are sums of cos or sin k_m j, over whole points j = 0 … N − 1 or half
points j + ½: the even and odd discrete trigonometric transforms of types II, III and IV (Martucci 1994,
doi:10.1109/78.295213, "WSWA" and "HSHA" symmetries). They take the place of a complex transform of 4N points
with mirrored data.
"""

from typing import Any, Literal

import numpy as np
import scipy.fft

from wavefabric.errors import InputError

#: Cosines at whole points; cosines and sines at half points; sines at whole points.
Symmetry = Literal["even", "even_half", "odd_half", "odd"]


def wavenumbers(n: int, spacing: float) -> np.ndarray:
    """k_m of ``n`` points, rad/m."""
    return (np.arange(n) + 0.5) * np.pi / (n * spacing)


def symmetric_fft(device: Any, shape: tuple[int, int, int], dtype: Any) -> Any:
    """Plan in-place transforms along y of complex arrays (Nz, Ny, width).

    ``forward(array, symmetry)`` gives the coefficients, ``backward(array, symmetry)`` the field again, times
    2 Ny. ``"odd"`` has no forward transform. On a GPU Ny is even.
    """
    return CpuSymmetricFFT(device.threads) if device.name == "cpu" else CudaSymmetricFFT(device, shape, dtype)


class CpuSymmetricFFT:
    """By `scipy.fft`, real and imaginary parts as columns of their own."""

    def __init__(self, threads: int):
        self._threads = threads

    def forward(self, array: np.ndarray, symmetry: Symmetry) -> None:
        transform, kind = {
            "even": (scipy.fft.dct, 3),
            "even_half": (scipy.fft.dct, 4),
            "odd_half": (scipy.fft.dst, 4),
        }[symmetry]
        self._put(array, transform, kind)

    def backward(self, array: np.ndarray, symmetry: Symmetry) -> None:
        if symmetry == "even":
            self._put(array, scipy.fft.dct, 2)
        elif symmetry == "odd":
            # Points 1 … N; the last is not kept, and the first is 0.
            self._put(array, scipy.fft.dst, 2)
            array[:, 1:] = array[:, :-1].copy()
            array[:, 0] = 0
        else:
            self.forward(array, symmetry)

    def _put(self, array: np.ndarray, transform: Any, kind: int) -> None:
        real = array.view(np.finfo(array.dtype).dtype)
        out = transform(real, kind, axis=1, overwrite_x=True, workers=self._threads)
        if not np.may_share_memory(out, real):
            real[...] = out


class CudaSymmetricFFT:
    """By complex transforms of N or N/2 points between two pointwise kernels (``symmetric.cu``).

    Types II and III by Makhoul's order (1980, doi:10.1109/TASSP.1980.1163351), type IV by a transform of half
    the length for the real and the imaginary part each.
    """

    def __init__(self, device: Any, shape: tuple[int, int, int], dtype: Any):
        nz, ny, width = shape
        if ny % 2:
            raise InputError(f"grid.shape: {ny} radial points; allowed on a GPU: an even number")
        self._device, self._shape = device, shape
        self._scratch = device.empty(shape, dtype)
        letter = "float" if np.dtype(dtype) == np.complex64 else "double"
        module = device.module("wavefabric.spectral", "symmetric.cu", (f"-DREAL={letter}",))
        names = "unfold_even", "restore_even", "order_even", "fold_even", "pack_half", "unpack_half"
        self._kernels = {name: module.get_function(name) for name in names}
        self._whole = device.axis_fft(shape, dtype, 1)
        self._halves = self._scratch.reshape(nz, ny // 2, 2 * width)
        self._half = device.axis_fft((nz, ny // 2, 2 * width), dtype, 1)

    def forward(self, array: Any, symmetry: Symmetry) -> None:
        if symmetry == "even":
            self._launch("unfold_even", self._scratch, array)
            self._whole.backward(self._scratch)
            self._launch("restore_even", array, self._scratch)
            return
        sine = np.int32(symmetry == "odd_half")
        self._launch("pack_half", self._halves, array, sine)
        self._half.forward(self._halves)
        self._launch("unpack_half", array, self._halves, sine)

    def backward(self, array: Any, symmetry: Symmetry) -> None:
        if symmetry not in ("even", "odd"):
            self.forward(array, symmetry)
            return
        odd = np.int32(symmetry == "odd")
        self._launch("order_even", self._scratch, array, odd)
        self._whole.forward(self._scratch)
        self._launch("fold_even", array, self._scratch, odd)

    def _launch(self, name: str, *arguments: Any) -> None:
        nz, ny, width = self._shape
        rows, columns = (ny // 2, 2 * width) if name.endswith("half") else (ny, width)
        threads = min(256, -(-columns // 32) * 32)
        grid = -(-columns // threads), rows, nz
        sizes = np.int32(width), np.int32(ny)
        arguments = (*arguments[:2], *sizes, *arguments[2:])
        self._device.launch(self._kernels[name], grid, (threads, 1, 1), arguments)
