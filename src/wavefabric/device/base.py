"""What physics may ask of a device. Two implementations: ``cpu.py`` and ``cuda.py``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class RowFFT(Protocol):
    """In-place transforms of rows of one shape, planned once.

    ``forward`` carries NumPy's sign and no scale; ``backward`` is the *unscaled* inverse, so that
    the factor 1/N goes into whatever multiplies the spectrum.
    """

    def forward(self, rows: Any) -> None:
        """Transform ``rows``, shape (n, N) or one row (N,), in place."""
        ...

    def backward(self, rows: Any) -> None:
        """Unscaled inverse transform of ``rows`` in place."""
        ...


class RealFFT(Protocol):
    """Transforms of one real 3-D field, planned once; axes of one point are left out."""

    def forward(self, real: Any, spectrum: Any) -> None:
        """``spectrum`` (Nz, Ny, Nx//2+1) of ``real`` (Nz, Ny, Nx), NumPy's sign, no scale."""
        ...

    def backward(self, spectrum: Any, real: Any) -> None:
        """Unscaled inverse; spoils ``spectrum``."""
        ...


class AxisFFT(Protocol):
    """In-place complex transforms of a 3-D array along one axis, planned once."""

    def forward(self, array: Any) -> None:
        """Transform, NumPy's sign, no scale."""
        ...

    def backward(self, array: Any) -> None:
        """Unscaled inverse."""
        ...


class Device(Protocol):
    """One place where arrays live.

    Attributes
    ----------
    name : str
        ``"cpu"``, ``"cuda:0"`` …
    xp : module
        ``numpy`` or ``cupy``.
    threads : int
        CPU threads used by kernels and transforms (1 on a GPU).
    """

    name: str
    xp: Any
    threads: int

    def empty(self, shape, dtype) -> Any:
        """Uninitialised array, aligned for the device's transforms."""
        ...

    def zeros(self, shape, dtype) -> Any:
        """Array of zeros."""
        ...

    def asarray(self, array, dtype=None) -> Any:
        """Copy of ``array`` on this device (no copy if it is there already)."""
        ...

    def to_host(self, array) -> Any:
        """NumPy copy of ``array`` (the array itself on a CPU)."""
        ...

    def fft(self, array, axis: int = -1) -> Any:
        """Out-of-place transform, NumPy's conventions; keeps single precision."""
        ...

    def ifft(self, array, axis: int = -1) -> Any:
        """Out-of-place inverse transform, NumPy's conventions; keeps single precision."""
        ...

    def row_fft(self, rows: int, n: int, dtype) -> RowFFT:
        """Plan in-place transforms of ``rows`` rows of ``n`` samples."""
        ...

    def real_fft(self, shape: tuple[int, int, int], dtype, axes: tuple[int, ...] = (0, 1, 2)) -> RealFFT:
        """Plan transforms of real fields of ``shape``, float32 or float64, along the last axes or all."""
        ...

    def axis_fft(self, shape: tuple[int, int, int], dtype, axis: int) -> AxisFFT:
        """Plan in-place transforms along ``axis`` (0 or 1) of contiguous complex arrays of ``shape``."""
        ...

    def export(self, array) -> Callable[[], Any]:
        """Mark ``array`` as complete now; the callable, in any thread, waits for that and gives it on the
        host. Until then the caller leaves ``array`` alone."""
        ...

    def map_rows(self, rows: int, work: Callable[[slice], None]) -> None:
        """Call ``work`` for slices that together cover ``range(rows)`` once, possibly in parallel.

        Each slice is sized so that its data stay in cache between the operations of ``work``.
        """
        ...

    def kernels(self, module: str) -> Any:
        """Kernels of a module such as ``"wavefabric.optics.propagation.kernels.kerr"``.

        On a CPU the Numba module itself; on a GPU the launchers of ``<module>_cuda.py`` over
        ``<module>.cu``. Same names, same argument order.
        """
        ...

    def graph(self, work: Callable[[], None]) -> Callable[[], None]:
        """A callable that repeats the launches of ``work`` cheaply (a CUDA graph on a GPU)."""
        ...

    def synchronize(self) -> None:
        """Wait until all work given to the device is done."""
        ...

    def memory(self) -> tuple[int, int]:
        """Free and total memory in bytes."""
        ...

    def used_memory(self) -> int:
        """Bytes that this process holds of it: resident on a CPU, in CuPy's pool on a GPU."""
        ...
