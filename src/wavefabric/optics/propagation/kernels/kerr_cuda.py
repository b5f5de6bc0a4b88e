"""Launches of ``kernels.cu`` and ``linear.cu``: the names and argument order of ``kernels.py``."""

from __future__ import annotations

import numpy as np

from wavefabric.errors import InputError
from wavefabric.optics.propagation.phase_groups import Mixing

_PACKAGE = "wavefabric.optics.propagation.kernels"
_SHARED_LIMIT = 227 * 1024
_PARTS = 64


def tile(rows: int, dtype) -> tuple[int, int, int]:
    """Samples a block, rows of threads, and field rows a thread.

    Measured on an H200 (docs/performance.md): a thread holds its share of two fields in registers,
    and small blocks overlap the loads of one with the arithmetic of another. 8 rows a thread and
    about 256 threads a block came within 7 % of the copy bandwidth; 16 rows pay for single precision
    when there are many.
    """
    per_thread = 16 if np.dtype(dtype) == np.complex64 and rows > 64 else 8
    lanes, warps = 32, -(-rows // per_thread)
    while lanes > 8 and lanes * warps > 256:
        lanes //= 2
    while lanes * warps > 1024:
        per_thread *= 2
        warps = -(-rows // per_thread)
    return lanes, warps, per_thread


class Coupling:
    """A Kerr coupling laid out for the CUDA kernels (see ``kernels.Coupling``)."""

    def __init__(self, device, mixing: Mixing, n: int, dtype):
        xp, dtype = device.xp, np.dtype(dtype)
        real = np.finfo(dtype).dtype
        rows = mixing.cell_of_row.size
        self._device, self.mixing, self.n = device, mixing, n
        self.lanes, self.warps, per_thread = tile(rows, dtype)
        owner = np.arange(rows) // per_thread
        first = np.ones(rows, bool)
        first[1:] = (np.diff(owner) != 0) | (np.diff(mixing.cell_of_row) != 0)
        slot = np.cumsum(first) - 1
        slots = int(slot[-1]) + 1
        cell_slot = np.searchsorted(mixing.cell_of_row[first], np.arange(mixing.cells + 1))
        tall = max(mixing.cells, mixing.rank, 1)
        self._slots, self._tall, self._item = slots, tall, real.itemsize
        if self.shared(3, 6) > _SHARED_LIMIT:
            raise InputError(
                f"kerr: {mixing.cells} cells of {rows} rows need {self.shared(3, 6)} bytes of shared "
                f"memory a block; allowed: {_SHARED_LIMIT}. Use kerr = 'factored'"
            )
        # Keep the device arrays alive: the kernels see only their addresses.
        self._held = [
            xp.asarray(mixing.cell_of_row.astype(np.int32)),
            xp.asarray((2 * slot + first).astype(np.int32)),
            xp.asarray(cell_slot.astype(np.int32)),
            xp.asarray(mixing.dense.astype(real)),
            xp.asarray(mixing.left.astype(real)),
            xp.asarray(mixing.right.astype(real)),
        ]
        layout = np.zeros(1, np.dtype([("sizes", np.int32, 4), ("pointers", np.uint64, 6)]))
        layout["sizes"] = (rows, mixing.cells, slots, mixing.rank)
        layout["pointers"] = [array.data.ptr for array in self._held]
        self.layout = xp.asarray(layout.view(np.uint8))
        letter = "float" if real.itemsize == 4 else "double"
        self.module = device.module(
            _PACKAGE,
            "kerr.cu",
            (
                f"-DREAL={letter}",
                f"-DREAL2={letter}2",
                f"-DLANES={self.lanes}",
                f"-DWARPS={self.warps}",
                f"-DROWS={per_thread}",
            ),
        )
        self._functions: dict = {}
        self.blocks = -(-n // self.lanes)
        self.errors = xp.empty(self.blocks, np.float64)
        self.most = xp.empty(1, np.uint64)

    def shared(self, sums: int, cells: int) -> int:
        """Bytes of shared memory of a kernel that uses so many slot and cell arrays."""
        # rk4ip_last reuses the same memory for one double a thread.
        used = (3 * self._slots + cells * self._tall) * self.lanes * self._item
        return max(used, 8 * self.lanes * self.warps)

    def launch(self, name: str, cells: int, *arguments) -> None:
        """Run a kernel of ``kernels.cu`` over all samples."""
        shared = self.shared(3, cells)
        if name not in self._functions:
            function = self.module.get_function(name)
            if shared > 48 * 1024:
                function.max_dynamic_shared_size_bytes = shared
            self._functions[name] = function
        self._device.launch(
            self._functions[name],
            (self.blocks,),
            (self.lanes, self.warps),
            (*arguments, np.int64(self.n), self.layout),
            shared,
        )


class Kernels:
    """The kernels of ``kernels.py`` on one CUDA device."""

    def __init__(self, device):
        self._device = device

    def Coupling(self, device, mixing: Mixing, n: int, dtype) -> Coupling:
        return Coupling(device, mixing, n, dtype)

    def _linear(self, name, dtype, grid, block, *arguments):
        letter = "float" if np.dtype(dtype) == np.complex64 else "double"
        module = self._device.module(_PACKAGE, "linear.cu", (f"-DREAL={letter}", f"-DREAL2={letter}2"))
        self._device.launch(module.get_function(name), grid, block, arguments)

    def transfer_table(self, table, coefficients, domega, h):
        cells, n = table.shape
        sizes = np.int32(cells), np.int64(n)
        numbers = np.float64(domega), np.float64(h)
        grid = (-(-n // 256),)
        self._linear("transfer_table", table.dtype, grid, (256,), table, coefficients, *numbers, *sizes)

    def apply_transfer(self, spectrum, table, cell_of_row):
        rows, n = spectrum.shape
        sizes = np.int32(rows), np.int64(n)
        grid = (-(-n // 256),)
        self._linear("apply_transfer", spectrum.dtype, grid, (256,), spectrum, table, cell_of_row, *sizes)

    def kerr_derivative(self, A, K, coupling):
        coupling.launch("kerr_derivative", 3, A, K)

    def kerr_rotate(self, A, h, coupling):
        coupling.launch("kerr_rotate", 3, A, np.float64(h))

    def kerr_rotate_rk4(self, A, h, coupling):
        coupling.launch("kerr_rotate_rk4", 8, A, np.float64(h))

    def kerr_phase_rate(self, A, rate, coupling):
        coupling.launch("kerr_phase_rate", 3, A, rate)

    def rotate_mean(self, H, A, rate0, rate1, h, coupling):
        coupling.launch("rotate_mean", 2, H, A, rate0, rate1, np.float64(h))

    def max_phase_rate(self, A, coupling) -> float:
        coupling.most.fill(0)
        coupling.launch("max_phase_rate", 3, A, coupling.most)
        return float(coupling.most.view(np.float64)[0])

    def rk4ip_middle(self, A, K, h, coupling):
        coupling.launch("rk4ip_middle", 6, A, K, np.float64(h))

    def rk4ip_last(self, A, K, h, coupling, error=None):
        errors = np.uint64(0) if error is None else coupling.errors
        coupling.launch("rk4ip_last", 6, A, K, np.float64(h), errors)
        if error is not None:
            function = coupling.module.get_function("reduce_sum")
            self._device.launch(function, (1,), (256,), (coupling.errors, error, np.int64(coupling.blocks)))

    def row_energy(self, A, out):
        self._row_sums(A, np.uint64(0), out)

    def row_distance(self, A, B, out):
        self._row_sums(A, B, out)

    def _row_sums(self, A, B, out):
        rows, n = A.shape
        partial = self._device.xp.empty((rows, _PARTS), np.float64)
        self._linear("row_partial", A.dtype, (_PARTS, rows), (256,), A, B, partial, np.int64(n))
        out[...] = partial.sum(axis=1)
