"""The contract of a device, which `cpu.py` and `cuda.py` fulfil."""

from collections.abc import Callable
from typing import Any, Protocol

from wavefabric.kernels.table import KernelTable


def repeated(work: Callable[[], Any]) -> Callable[..., None]:
    """Return what does some work once, or as many times as its argument says."""

    def repeat(times: int = 1) -> None:
        for _ in range(times):
            work()

    return repeat


class InPlaceFFT(Protocol):
    """In-place complex transforms of arrays of one shape, planned once.

    ``forward`` carries NumPy's sign and no scale; ``backward`` is the *unscaled* inverse, so that
    the factor 1/N goes into whatever multiplies the spectrum.
    """

    def forward(self, array: Any, /) -> None: ...

    def backward(self, array: Any, /) -> None: ...


class RealFFT(Protocol):
    """Transforms of real fields (Nz, Ny, Nx) to spectra (Nz, Ny, Nx//2+1) and back, planned once.

    Sign and scale are those of `InPlaceFFT`; axes of one point are left out; ``backward`` spoils its input.
    """

    def forward(self, real: Any, spectrum: Any, /) -> None: ...

    def backward(self, spectrum: Any, real: Any, /) -> None: ...


class Device(Protocol):
    """Where arrays live and kernels run."""

    #: ``"cpu"``, ``"cuda:0"`` …
    name: str
    #: The same in every process of a host that uses this device: ``"cpu"``, or a GPU's address on the bus.
    identity: str
    #: ``numpy`` or ``cupy``.
    xp: Any
    #: CPU threads used by kernels and transforms (1 on a GPU).
    threads: int
    #: Bytes of shared memory that a block of CUDA threads may have; 0 on a CPU.
    block_memory: int

    def empty(self, shape, dtype) -> Any:
        """Uninitialised array, aligned for the device's transforms."""

    def zeros(self, shape, dtype) -> Any:
        """Array of zeros."""

    def host_empty(self, shape, dtype) -> Any:
        """Uninitialised NumPy array that the device copies from and to fast (pinned memory of a GPU)."""
        ...

    def copy(self, target, source, /) -> None:
        """Copy ``source`` into ``target``: contiguous, of one shape and type, on the device or the host."""

    def asarray(self, array, /, dtype=None) -> Any:
        """Copy of ``array`` on this device (no copy if it is there already)."""

    def to_host(self, array, /) -> Any:
        """NumPy copy of ``array`` (the array itself on a CPU)."""

    def view(self, array, /, write: bool = False) -> Any:
        """An array of any library as one of ``xp``, the same memory; None if it is not on this device.

        Libraries offer it by ``__array_interface__``, ``__cuda_array_interface__`` or ``__dlpack__``.
        ValueError, BufferError, … of such an object, and if it is to be written and is read-only.
        """

    def address(self, array, /) -> int:
        """Where an array of ``xp`` begins."""
        ...

    def borrow(self, array, /) -> Any:
        """A contiguous array in one dimension, which does not keep its memory."""

    def fft(self, array, axis: int = -1) -> Any:
        """Out-of-place transform, NumPy's conventions; keeps single precision."""

    def ifft(self, array, axis: int = -1) -> Any:
        """Out-of-place inverse transform, NumPy's conventions; keeps single precision."""

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
        """Mark ``array`` as complete now; the callable, in any thread, waits for that and gives it on the
        host. Until then the caller leaves ``array`` alone."""
        ...

    def map_rows(self, rows: int, work: Callable[[slice], None]) -> None:
        """Call ``work`` for slices that together cover ``range(rows)`` once, possibly in parallel.

        Each slice is sized so that its data stay in cache between the operations of ``work``.
        """

    def kernels(self, table: KernelTable | str) -> Any:
        """Launchers of the kernels of a table, each an attribute by its name; see `wavefabric.kernels.table`.

        Of a module such as ``"wavefabric.optics.propagation.kernels.kerr"``: on a CPU what its ``KERNELS``
        makes for the device, or the module itself; on a GPU what ``KERNELS`` of ``<module>_cuda.py`` makes,
        with the same names and arguments.
        """

    def graph(self, work: Callable[[], None], kernels_alone: bool = False) -> Callable[..., None]:
        """Return what repeats the launches of ``work`` cheaply, once or as many times as its argument says.

        On a GPU it is a CUDA graph. ``kernels_alone``: ``work`` does nothing but launch kernels of tables,
        which a CPU records too; other work it does as it is written.
        """
        ...

    def synchronize(self) -> None:
        """Wait until all work of the device is done."""

    def memory(self) -> tuple[int, int]:
        """Free and total memory in bytes."""
        ...
