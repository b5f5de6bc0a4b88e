"""Define the interface of a device, which `cpu.py` and `cuda.py` implement."""

from collections.abc import Callable
from typing import Any, Protocol

from wavefabric.runtime.kernels.table import KernelTable


def repeated(work: Callable[[], Any]) -> Callable[..., None]:
    """Return a function that calls ``work`` once, or as many times as its argument says."""

    def repeat(times: int = 1) -> None:
        for _ in range(times):
            work()

    return repeat


class InPlaceFFT(Protocol):
    """Transforms complex arrays of one shape in place, planned once.

    ``forward`` has NumPy's sign and no scale; ``backward`` is the *unscaled* inverse, so that the factor 1/N
    belongs into the factors that multiply the spectrum.
    """

    def forward(self, array: Any, /) -> None: ...

    def backward(self, array: Any, /) -> None: ...


class RealFFT(Protocol):
    """Transforms real fields (Nz, Ny, Nx) to spectra (Nz, Ny, Nx//2+1) and back, planned once.

    Sign and scale are as in `InPlaceFFT`; axes of one point are skipped; ``backward`` overwrites its input.
    """

    def forward(self, real: Any, spectrum: Any, /) -> None: ...

    def backward(self, spectrum: Any, real: Any, /) -> None: ...


class Device(Protocol):
    """A device: it stores arrays and runs kernels."""

    #: ``"cpu"``, ``"cuda:0"`` …
    name: str
    #: Equal in all processes of a host that use this device: ``"cpu"``, or a GPU's bus address.
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
        """Copy ``source`` to ``target``: contiguous, of one shape and type, on the device or the host."""

    def asarray(self, array, /, dtype=None) -> Any:
        """Return a copy of ``array`` on this device (``array`` itself if it is already there)."""

    def to_host(self, array, /) -> Any:
        """Return a NumPy copy of ``array`` (the array itself on a CPU)."""

    def view(self, array, /, write: bool = False) -> Any:
        """Return an array of any library as one of ``xp`` in the same memory; None if on another device.

        Libraries provide it by ``__array_interface__``, ``__cuda_array_interface__`` or ``__dlpack__``.
        Raises ValueError if ``write`` is set and it is read-only, and any error of the object's code.
        """

    def address(self, array, /) -> int:
        """Return the start address of an array of ``xp``."""
        ...

    def borrow(self, array, /) -> Any:
        """Return a contiguous array as a 1-D view that does not keep its memory alive."""

    def fft(self, array, axis: int = -1) -> Any:
        """Return the transform of ``array``, NumPy's conventions; keeps single precision."""

    def ifft(self, array, axis: int = -1) -> Any:
        """Return the inverse transform of ``array``, NumPy's conventions; keeps single precision."""

    def row_fft(self, rows: int, n: int, dtype) -> InPlaceFFT:
        """Plan transforms of up to ``rows`` rows (or one, of shape (n,)) of ``n`` samples."""
        ...

    def real_fft(self, shape: tuple[int, int, int], dtype, axes: tuple[int, ...] = (0, 1, 2)) -> RealFFT:
        """Plan transforms of real fields of ``shape``, float32 or float64, along the last axes or all."""
        ...

    def axis_fft(self, shape: tuple[int, int, int], dtype, axis: int) -> InPlaceFFT:
        """Plan transforms along ``axis`` (0 or 1) of contiguous complex arrays of ``shape``."""
        ...

    def export(self, array) -> Callable[[], Any]:
        """Return a function that, in any thread, waits until ``array`` is computed and returns it on the
        host. The caller must not change ``array`` before that.
        """
        ...

    def map_rows(self, rows: int, work: Callable[[slice], None]) -> None:
        """Call ``work`` for slices that together cover ``range(rows)`` once, possibly in parallel.

        Each slice is small enough for its data to stay in cache between the operations of ``work``.
        """

    def kernels(self, table: KernelTable | str) -> Any:
        """Return an object with a launcher per kernel of a table, by name; see `kernels.table`.

        For a module such as ``"wavefabric.optics.propagation.kernels.kerr"``: on a CPU the result of its
        ``KERNELS`` for the device, or the module itself; on a GPU the result of ``KERNELS`` in
        ``<module>_cuda.py``, with the same names and arguments.
        """

    def graph(self, work: Callable[[], None], kernels_alone: bool = False) -> Callable[..., None]:
        """Return a function that repeats the launches of ``work`` cheaply, once or as often as its argument
        says.

        On a GPU it replays a CUDA graph. ``kernels_alone``: ``work`` only launches kernels of tables; a CPU
        records these too, but calls any other ``work`` again.
        """
        ...

    def synchronize(self) -> None:
        """Wait until all work of the device is done."""

    def memory(self) -> tuple[int, int]:
        """Return free and total memory in bytes."""
        ...
