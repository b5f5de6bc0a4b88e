"""Launches of ``kerr.cu`` and ``linear.cu``: the names and argument order of ``kerr.py``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wavefabric.errors import InputError
from wavefabric.optics.propagation.phase_groups import PhaseGroupCoupling

PACKAGE = "wavefabric.optics.propagation.kernels"
#: Goes before ``kerr.cu``, ``kerr_ranks.cu`` and ``peer_sweeps.cu``.
FORMULAS = f"{PACKAGE}/kerr_formulas.cu"
_SHARED_LIMIT = 227 * 1024
_PARTS = 64


def type_options(dtype) -> tuple[str, str]:
    """Definitions of REAL and REAL2 for a real or complex type."""
    letter = "float" if np.finfo(dtype).bits == 32 else "double"
    return f"-DREAL={letter}", f"-DREAL2={letter}2"


def tile(rows: int, dtype) -> tuple[int, int, int]:
    """Samples a block, rows of threads, and field rows a thread.

    Measured on an H200 (docs/performance.md): a thread holds its share of two fields in registers, and small
    blocks overlap the loads of one with the arithmetic of another. 8 rows a thread and about 256 threads a
    block came within 7 % of the copy bandwidth; in single precision 6 rows, and 16 when there are many.
    """
    per_thread = 8
    if np.dtype(dtype) == np.complex64:
        per_thread = 16 if rows > 64 else 6
    lanes, warps = 32, -(-rows // per_thread)
    while lanes > 8 and lanes * warps > 256:
        lanes //= 2
    while lanes * warps > 1024:
        per_thread *= 2
        warps = -(-rows // per_thread)
    return lanes, warps, per_thread


class CudaKerrLayout:
    """γκ between phase groups as the CUDA kernels read it, and the module compiled for it."""

    def __init__(self, device, coupling: PhaseGroupCoupling, n: int, dtype):
        xp, real, rows = device.xp, np.finfo(dtype).dtype, coupling.group_of_row.size
        self._device, self.n = device, n
        self.lanes, self.warps, per_thread = tile(rows, dtype)
        # A row of threads adds its part of a phase group into a slot of its own.
        owner, group = np.arange(rows) // per_thread, coupling.group_of_row
        first = (np.diff(owner, prepend=-1) != 0) | (np.diff(group, prepend=-1) != 0)
        slot = np.cumsum(first) - 1
        group_slot = np.searchsorted(group[first], np.arange(coupling.groups + 1))
        self._slots, self._tall = int(slot[-1]) + 1, max(coupling.groups, coupling.rank, 1)
        self._item = real.itemsize
        if self._shared_bytes(6) > _SHARED_LIMIT:
            raise InputError(
                f"kerr: {coupling.groups} phase groups of {rows} rows need {self._shared_bytes(6)} bytes of "
                f"shared memory a block; allowed: {_SHARED_LIMIT}. Use kerr = 'factored'"
            )
        # Keep the device arrays alive: the kernels see only their addresses.
        integers = [xp.asarray(a.astype(np.int32)) for a in (group, 2 * slot + first, group_slot)]
        matrices = [xp.asarray(m.astype(real)) for m in (coupling.dense, coupling.left, coupling.right)]
        self._held = integers + matrices
        struct = np.zeros(1, np.dtype([("sizes", np.int32, 4), ("pointers", np.uint64, 6)]))
        struct["sizes"] = (rows, coupling.groups, self._slots, coupling.rank)
        struct["pointers"] = [array.data.ptr for array in self._held]
        self._struct = xp.asarray(struct.view(np.uint8))
        sizes = f"-DLANES={self.lanes}", f"-DWARPS={self.warps}", f"-DROWS={per_thread}"
        self.module = device.module(PACKAGE, "kerr.cu", (*type_options(dtype), *sizes), (FORMULAS,))
        self._functions: dict = {}
        self.blocks = -(-n // self.lanes)
        self.errors = xp.empty(self.blocks, np.float64)
        self.most = xp.empty(1, np.uint64)

    def _shared_bytes(self, arrays: int) -> int:
        """Shared memory of a kernel that uses three arrays of slots and so many of phase groups."""
        # rk4ip_last reuses the same memory for one double a thread.
        used = (3 * self._slots + arrays * self._tall) * self.lanes * self._item
        return max(used, 8 * self.lanes * self.warps)

    def launch(self, name: str, arrays: int, *arguments) -> None:
        """Run a kernel of ``kerr.cu`` that uses so many shared arrays of phase groups over all samples."""
        shared = self._shared_bytes(arrays)
        if name not in self._functions:
            self._functions[name] = self.module.get_function(name)
            if shared > 48 * 1024:
                self._functions[name].max_dynamic_shared_size_bytes = shared
        arguments = [np.float64(a) if isinstance(a, (int, float)) else a for a in arguments]
        arguments += [np.int64(self.n), self._struct]
        block = self.lanes, self.warps
        self._device.launch(self._functions[name], (self.blocks,), block, arguments, shared)


def _sweep(name: str, arrays: int) -> Callable[..., None]:
    """The kernel of ``kerr.cu`` of that name; its last argument is the layout."""

    def launch(_, *arguments) -> None:
        arguments[-1].launch(name, arrays, *arguments[:-1])

    return launch


class KerrKernels:
    """The kernels of ``kerr.py`` on one CUDA device."""

    KerrLayout = CudaKerrLayout
    kerr_derivative = _sweep("kerr_derivative", 3)
    kerr_rotate = _sweep("kerr_rotate", 3)
    kerr_rotate_rk4 = _sweep("kerr_rotate_rk4", 8)
    kerr_phase_rate = _sweep("kerr_phase_rate", 3)
    rotate_mean = _sweep("rotate_mean", 2)
    rk4ip_middle = _sweep("rk4ip_middle", 6)

    def __init__(self, device):
        self._device = device

    def max_phase_rate(self, A, layout) -> float:
        layout.most.fill(0)
        layout.launch("max_phase_rate", 3, A, layout.most)
        return float(layout.most.view(np.float64)[0])

    def rk4ip_last(self, A, K, h, layout, error=None):
        errors = np.uint64(0) if error is None else layout.errors
        layout.launch("rk4ip_last", 6, A, K, h, errors)
        if error is not None:
            function = layout.module.get_function("reduce_sum")
            self._device.launch(function, (1,), (256,), (layout.errors, error, np.int64(layout.blocks)))

    def transfer_table(self, table, coefficients, domega, h):
        rows, n = table.shape
        numbers = np.float64(domega), np.float64(h), np.int32(rows), np.int64(n)
        self._linear("transfer_table", table.dtype, (-(-n // 256),), table, coefficients, *numbers)

    def apply_transfer(self, spectrum, table, table_row):
        rows, n = spectrum.shape
        arguments = spectrum, table, table_row, np.int32(rows), np.int64(n)
        self._linear("apply_transfer", spectrum.dtype, (-(-n // 256),), *arguments)

    def row_energy(self, A, out):
        self.row_distance(A, np.uint64(0), out)

    def row_distance(self, A, B, out):
        rows, n = A.shape
        partial = self._device.xp.empty((rows, _PARTS), np.float64)
        self._linear("row_partial", A.dtype, (_PARTS, rows), A, B, partial, np.int64(n))
        out[...] = partial.sum(axis=1)

    def _linear(self, name, dtype, grid, *arguments):
        module = self._device.module(PACKAGE, "linear.cu", type_options(dtype))
        self._device.launch(module.get_function(name), grid, (256,), arguments)


#: What `Device.kernels` makes on a GPU.
KERNELS = KerrKernels
