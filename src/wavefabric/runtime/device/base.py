"""Define the interface of a device, which `cpu.py` and `cuda.py` implement."""

from collections.abc import Callable
from typing import Any, Protocol

from wavefabric.runtime.kernels.table import KernelTable


def repeating(work: Callable[[], Any]) -> Callable[..., None]:
    """Return a function ``repeat(times=1)``, each call of which calls ``work`` ``times`` times."""

    def repeat(times: int = 1) -> None:
        for _ in range(times):
            work()

    return repeat


class InPlaceFFT(Protocol):
    """A planned in-place Fourier transform of complex arrays along one axis, which has N points.

    ``forward(array)`` has the sign of ``numpy.fft.fft`` and no scale factor. ``backward(array)`` computes the
    inverse transform times N: the caller includes 1/N in the factors by which it multiplies the spectrum.
    """

    def forward(self, array: Any, /) -> None: ...

    def backward(self, array: Any, /) -> None: ...


class RealFFT(Protocol):
    """A planned Fourier transform of real fields (Nz, Ny, Nx) to spectra (Nz, Ny, Nx//2+1) and back.

    ``forward`` has the sign of ``numpy.fft.rfftn`` and no scale factor. ``backward`` computes the inverse
    transform times the number of points along the transformed axes, and overwrites its input.
    """

    def forward(self, real: Any, spectrum: Any, /) -> None: ...

    def backward(self, spectrum: Any, real: Any, /) -> None: ...


class Device(Protocol):
    """A CPU or GPU that stores arrays and runs kernels."""

    #: ``"cpu"``, ``"cuda:0"`` …
    name: str
    #: Identifier of the device, equal in all processes of its host: ``"cpu"``, or the bus address of a GPU.
    identity: str
    #: ``numpy`` or ``cupy``.
    xp: Any
    #: CPU threads used by kernels and transforms (1 on a GPU).
    threads: int
    #: Maximum bytes of shared memory per block of CUDA threads; 0 on a CPU.
    block_memory: int

    def empty(self, shape, dtype) -> Any:
        """Return an uninitialised array, aligned for the device's transforms."""

    def zeros(self, shape, dtype) -> Any:
        """Return an array of zeros."""

    def host_empty(self, shape, dtype) -> Any:
        """Return an uninitialised NumPy array for fast copies to and from the device (pinned for a GPU)."""
        ...

    def copy(self, target, source, /) -> None:
        """Copy ``source`` to ``target``, contiguous arrays of equal shape and dtype, on device or host."""

    def asarray(self, array, /, dtype=None) -> Any:
        """Return ``array`` on this device with type ``dtype`` (None: its own); copy it only if necessary."""

    def to_host(self, array, /) -> Any:
        """Return a NumPy copy of ``array`` (the array itself on a CPU)."""

    def view(self, array, /, write: bool = False) -> Any:
        """Return an array of another library as a NumPy or CuPy array in the same memory.

        The result is None if ``array`` is not on this device. ``array`` has ``__array_interface__``,
        ``__cuda_array_interface__`` or ``__dlpack__``; errors that these raise are passed on. ValueError if
        ``write`` is set and ``array`` is read-only.
        """

    def address(self, array, /) -> int:
        """Return the address of the first element of a NumPy or CuPy array of this device."""
        ...

    def borrow(self, array, /) -> Any:
        """Return a 1-D view of a contiguous array; the view does not keep the memory alive."""

    def fft(self, array, axis: int = -1) -> Any:
        """Return the Fourier transform as ``numpy.fft.fft`` does; single precision stays single."""

    def ifft(self, array, axis: int = -1) -> Any:
        """Return the inverse Fourier transform as ``numpy.fft.ifft`` does; single precision stays single."""

    def row_fft(self, rows: int, n: int, dtype) -> InPlaceFFT:
        """Plan in-place transforms of the rows of complex arrays, (k, n) with k up to ``rows`` or (n,)."""
        ...

    def real_fft(self, shape: tuple[int, int, int], dtype, axes: tuple[int, ...] = (0, 1, 2)) -> RealFFT:
        """Plan transforms of real fields of ``shape`` along ``axes``: the last axis, the last two or all."""
        ...

    def axis_fft(self, shape: tuple[int, int, int], dtype, axis: int) -> InPlaceFFT:
        """Plan in-place transforms along ``axis`` (0 or 1) of contiguous complex arrays of ``shape``."""
        ...

    def export(self, array) -> Callable[[], Any]:
        """Return a function that any thread may call to get ``array`` in host memory.

        The function waits until ``array`` is computed. Until it returns the caller must not change ``array``.
        """
        ...

    def map_rows(self, rows: int, work: Callable[[slice], None]) -> None:
        """Call ``work`` for slices that together cover ``range(rows)`` exactly once.

        A CPU passes single rows, on several threads, so that a row stays in cache; a GPU passes all rows at
        once.
        """

    def kernels(self, table: KernelTable | str) -> Any:
        """Return an object whose methods launch the kernels of a table; see `kernels.table`.

        ``table`` may also be the name of a module, such as ``"wavefabric.optics.propagation.kernels.kerr"``.
        A CPU then returns ``KERNELS(device)`` of this module, or the module itself if it has no ``KERNELS``.
        A GPU returns ``KERNELS(device)`` of ``<module>_cuda``, which has the same functions.
        """

    def graph(self, work: Callable[[], None], kernels_alone: bool = False) -> Callable[..., None]:
        """Return a function ``repeat(times=1)`` that repeats ``work`` in less host time than calls of it.

        A GPU captures the kernel launches of ``work`` in a CUDA graph. A CPU records the launches if
        ``kernels_alone`` says that ``work`` only launches kernels of tables; otherwise it calls ``work``
        again.
        """
        ...

    def synchronize(self) -> None:
        """Wait until the device has done all enqueued work."""

    def memory(self) -> tuple[int, int]:
        """Return the free and the total memory of the device in bytes."""
        ...
