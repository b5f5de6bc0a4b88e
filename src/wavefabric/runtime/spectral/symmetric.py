"""Transform fields along y that are even or odd about the first point and zero beyond the last.

With N points and k_m = (m + ½)π/N these are sums of cos or sin k_m j, over whole points j = 0 … N − 1 or half
points j + ½: the even and odd discrete trigonometric transforms of types II, III and IV (Martucci 1994,
doi:10.1109/78.295213, "WSWA" and "HSHA" symmetries). They replace a complex transform of 4N points of
mirrored data.
"""

from typing import Any, Literal

import numpy as np

from wavefabric.base.errors import InputError

#: In this order: cosines at whole points, cosines and sines at half points, sines at whole points.
Symmetry = Literal["even", "even_half", "odd_half", "odd"]


def wavenumbers(n: int, spacing: float) -> np.ndarray:
    """Return the wavenumbers k_m = (m + ½)π/(n spacing), rad/m, of ``n`` points; ``spacing`` in m."""
    return (np.arange(n) + 0.5) * np.pi / (n * spacing)


def symmetric_fft(device: Any, shape: tuple[int, int, int], dtype: Any) -> Any:
    """Plan in-place sine and cosine transforms along y of complex arrays (Nz, Ny, width).

    The plan's ``forward(array, symmetry)`` computes coefficients, number i of which belongs to k_m with m =
    ``order(device, Ny)[i]``; ``backward(array, symmetry)`` computes the field times 2 Ny. ``"odd"`` has no
    forward transform. ``forward_scaled(out, array, factor)`` transforms an ``"even_half"`` field times a real
    factor (1, Ny, 1). On a GPU Ny must be even.
    """
    return CpuSymmetricFFT(device.threads) if device.name == "cpu" else CudaSymmetricFFT(device, shape, dtype)


def order(device: Any, n: int) -> np.ndarray:
    """Return the index m of the wavenumber k_m of each coefficient, in the order of storage.

    On a CPU this is 0, 1, 2, …; on a GPU even m come first, then odd m in descending order.
    """
    numbers = np.arange(n)
    return numbers if device.name == "cpu" else np.concatenate([numbers[::2], numbers[1::2][::-1]])


class CpuSymmetricFFT:
    """Computes sine and cosine transforms by `scipy.fft`; real and imaginary parts are separate columns."""

    def __init__(self, threads: int):
        self._threads = threads

    def forward(self, array: np.ndarray, symmetry: Symmetry) -> None:
        import scipy.fft

        kinds = {"even": (scipy.fft.dct, 3), "even_half": (scipy.fft.dct, 4), "odd_half": (scipy.fft.dst, 4)}
        self._put(array, *kinds[symmetry])

    def forward_scaled(self, out: np.ndarray, array: np.ndarray, factor: np.ndarray) -> None:
        real = np.finfo(array.dtype).dtype
        np.multiply(array.view(real), factor, out=out.view(real))
        self.forward(out, "even_half")

    def backward(self, array: np.ndarray, symmetry: Symmetry) -> None:
        import scipy.fft

        if symmetry == "even":
            self._put(array, scipy.fft.dct, 2)
        elif symmetry == "odd":
            # Points 1 … N; the last is dropped, and the first is 0.
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
    """Computes sine and cosine transforms by complex FFTs of N or N/2 points (``symmetric.cu``).

    Types II and III leave the coefficients in the order of Makhoul (1980, doi:10.1109/TASSP.1980.1163351);
    type IV transforms real and imaginary parts separately, at half the length.
    """

    def __init__(self, device: Any, shape: tuple[int, int, int], dtype: Any):
        nz, ny, width = shape
        if ny % 2:
            raise InputError(f"grid.shape: {ny} radial points; allowed on a GPU: an even number")
        self._device, self._shape = device, shape
        self._halves = device.empty((nz, ny // 2, 2 * width), dtype)
        letter = "float" if np.dtype(dtype) == np.complex64 else "double"
        module = device.module("wavefabric.runtime.spectral", "symmetric.cu", (f"-DREAL={letter}",))
        names = "unfold_even", "fold_even", "pack_half", "unpack_half"
        self._kernels = {name: module.get_function(name) for name in names}
        self._full_fft = device.axis_fft(shape, dtype, 1)
        self._half = device.axis_fft(self._halves.shape, dtype, 1)
        self._ones = device.asarray(np.ones((1, ny, 1), np.finfo(dtype).dtype))

    def forward(self, array: Any, symmetry: Symmetry) -> None:
        if symmetry == "even":
            self._launch("unfold_even", (array,))
            self._full_fft.backward(array)
        else:
            self._transform_half(array, array, symmetry, spectral=False)

    def forward_scaled(self, out: Any, array: Any, factor: Any) -> None:
        self._transform_half(out, array, "even_half", spectral=False, factor=factor)

    def backward(self, array: Any, symmetry: Symmetry) -> None:
        if symmetry in ("even", "odd"):
            is_odd = symmetry == "odd"
            if is_odd:
                second = array[:, array.shape[1] // 2 :]
                self._device.xp.negative(second, out=second)
            self._full_fft.forward(array)
            self._launch("fold_even", (array,), is_odd)
        else:
            self._transform_half(array, array, symmetry, spectral=True)

    def _transform_half(
        self, out: Any, array: Any, symmetry: Symmetry, spectral: bool, factor: Any = None
    ) -> None:
        """Write the type-IV transform of ``array`` times ``factor`` (None: 1) to ``out``.

        With ``spectral`` ``array`` contains coefficients, and the result is a field.
        """
        sine = symmetry == "odd_half"
        factor = self._ones if factor is None else factor
        self._launch("pack_half", (self._halves, array, factor), sine, spectral)
        self._half.forward(self._halves)
        self._launch("unpack_half", (out, self._halves), sine, not spectral)

    def _launch(self, name: str, arrays: tuple[Any, ...], *flags: bool) -> None:
        nz, ny, width = self._shape
        rows, columns = (ny // 2, 2 * width) if name.endswith("half") else (ny // 2 + 1, width)
        threads = min(256, -(-columns // 32) * 32)
        grid = -(-columns // threads), rows, nz
        numbers = map(np.int32, (width, ny, *flags))
        self._device.launch(self._kernels[name], grid, (threads, 1, 1), (*arrays, *numbers))
