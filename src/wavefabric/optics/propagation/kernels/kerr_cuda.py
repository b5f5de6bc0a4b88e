"""Launch the GPU kernels of Kerr operators, transfer functions and norms; interface as in ``kerr.py``."""

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.optics.propagation.kernels import ADJOINTS, KerrOperator
from wavefabric.optics.propagation.phase_groups import PhaseGroupCoupling

PACKAGE = "wavefabric.optics.propagation.kernels"
_SHARED_LIMIT = 227 * 1024
_PARTS = 64
#: Shared arrays of phase groups in addition to an operator's numbers: power, phase rate, low-rank product.
_ARRAYS = 3
#: Groups of kernels of ``kerr.cu`` that are compiled together, on first use: one per operator, and two more.
GROUPS = ("derivative", "rotate", "rk4ip_middle", "rk4ip_last", "rotate_rk4", "adjoint", "others")
#: Threads per block of ``kerr_chunks.cu``, and outputs that a thread of ``couple`` computes at once.
_THREADS, _OUTPUTS = 256, 16


def type_options(dtype) -> tuple[str, str]:
    """Return the compiler options that define REAL and REAL2, the number types of kernels, for ``dtype``."""
    letter = "float" if np.finfo(dtype).bits == 32 else "double"
    return f"-DREAL={letter}", f"-DREAL2={letter}2"


def tile(rows: int, dtype) -> tuple[int, int, int]:
    """Return samples per block, rows of threads per block, and field rows per thread for ``rows`` field rows.

    Measured on an H200 (docs/performance.md): a thread has its part of two fields in registers, and small
    blocks overlap the loads of one with the arithmetic of another. 8 rows per thread and about 256 threads
    per block came within 7 % of the copy bandwidth; in single precision 6 rows, and 16 if there are many.
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
    """Holds γκ between phase groups for the CUDA kernels, and the kernels compiled for it."""

    def __init__(self, device, coupling: PhaseGroupCoupling, n: int, dtype):
        xp, real, group = device.xp, np.finfo(dtype).dtype, coupling.group_of_row
        rows = group.size
        self._device, self.n = device, n
        self.lanes, self.warps, per_thread = tile(rows, dtype)
        # Each row of threads adds its part of a phase group into a separate slot.
        owner = np.arange(rows) // per_thread
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
        matrices = (*coupling.blocks, coupling.left, coupling.right)
        self.matrices = [xp.asarray(np.ascontiguousarray(m, real)) for m in matrices]
        self._arrays = integers + self.matrices
        struct = np.zeros(1, np.dtype([("sizes", np.int32, 4), ("pointers", np.uint64, 6)]))
        struct["sizes"] = (rows, coupling.groups, self._slots, coupling.rank)
        struct["pointers"] = [array.data.ptr for array in self._arrays]
        self.struct = xp.asarray(struct.view(np.uint8))
        sizes = f"-DLANES={self.lanes}", f"-DWARPS={self.warps}", f"-DROWS={per_thread}"
        self._options = *type_options(dtype), *sizes
        self._functions: dict = {}
        self.blocks = -(-n // self.lanes)
        self.errors = xp.empty(self.blocks, np.float64)
        self.most = xp.empty(1, np.uint64)

    def _shared_bytes(self, arrays: int) -> int:
        """Return a kernel's shared memory, bytes: 3 arrays of partial sums, ``arrays`` over phase groups."""
        # rk4ip_last reuses the same memory for one double per thread.
        used = (3 * self._slots + arrays * self._tall) * self.lanes * self._item
        return max(used, 8 * self.lanes * self.warps)

    def kernel(self, name: str):
        """Return the kernel ``name`` of ``kerr.cu``; its set of kernels is compiled at first use."""
        group = name.removeprefix("kerr_")
        group = group if group in GROUPS else "others"
        options = *self._options, *(f"-DWITH_{each}={int(each == group)}" for each in GROUPS)
        return self._device.module(PACKAGE, "kerr.cu", options).get_function(name)

    def launch(self, name: str, arrays: int, *arguments) -> None:
        """Run a kernel of ``kerr.cu`` over all samples; it has ``arrays`` shared arrays over phase groups."""
        shared = self._shared_bytes(arrays)
        if name not in self._functions:
            self._functions[name] = self.kernel(name)
            if shared > 48 * 1024:
                self._functions[name].max_dynamic_shared_size_bytes = shared
        arguments = [np.float64(a) if isinstance(a, (int, float)) else a for a in arguments]
        arguments += [np.int64(self.n), self.struct]
        block = self.lanes, self.warps
        self._device.launch(self._functions[name], (self.blocks,), block, arguments, shared)


class CudaKerrChunkLayout:
    """Describes the rows of this rank's phase groups for the kernels of ``kerr_chunks.cu``."""

    def __init__(self, device, start, n: int, dtype):
        start = np.asarray(start, np.int32)
        self.rows, self.groups, self.n = int(start[-1]), start.size - 1, int(n)
        self.start = device.asarray(start)
        self.row_group = device.asarray(np.repeat(np.arange(self.groups), np.diff(start)).astype(np.int32))
        self.errors = device.empty((self.rows * -(-self.n // _THREADS),), np.float64)


class KerrKernels:
    """Provides the kernels of ``kerr.py`` on one CUDA device."""

    KerrLayout = CudaKerrLayout
    KerrChunkLayout = CudaKerrChunkLayout

    def __init__(self, device):
        self._device = device
        self._functions: dict = {}

    # --- one rank ------------------------------------------------------------------------------------

    def kerr(self, operator: KerrOperator, A, K, h, layout, error=None):
        errors = np.uint64(0) if error is None else layout.errors
        layout.launch(f"kerr_{operator.name}", _ARRAYS + operator.numbers, A, K, float(h), errors)
        if error is not None:
            function = layout.kernel("reduce_sum")
            self._device.launch(function, (1,), (256,), (layout.errors, error, np.int64(layout.blocks)))

    def kerr_adjoint(self, name: str, A, Y, h, factors, slope, layout, transposed):
        number = np.int32(ADJOINTS.index(name))
        layout.launch("kerr_adjoint", _ARRAYS + 2, A, Y, float(h), factors, slope, number, transposed.struct)

    def kerr_phase_rate(self, A, rate, layout):
        layout.launch("kerr_phase_rate", _ARRAYS, A, rate)

    def rotate_mean(self, H, A, rate0, rate1, h, layout):
        layout.launch("rotate_mean", 2, H, A, rate0, rate1, float(h))

    def max_phase_rate(self, A, layout) -> float:
        layout.most.fill(0)
        layout.launch("max_phase_rate", _ARRAYS, A, layout.most)
        return float(layout.most.view(np.float64)[0])

    # --- chunks of several ranks ---------------------------------------------------------------------

    def kerr_begin(self, operator: KerrOperator, A, K, t0, h, power, numbers, layout):
        groups, m = power.shape
        sizes = np.int64(groups * m), np.int64(layout.n), np.int64(m)
        arguments = A, K, np.int64(t0), np.float64(h), power, numbers, *sizes, layout.start
        self._launch(f"begin_{operator.name}", power.dtype, m, groups, arguments)

    def couple(self, out, part, matrix, first):
        if matrix.shape[1]:
            self._couple("couple", matrix, out.shape[1], (out, part, matrix, np.int32(first)))
        elif first:
            out[...] = 0

    def couple_advance(self, operator: KerrOperator, stage, rate, part, matrix, h, power, numbers, out):
        arguments = np.int32(stage), rate, part, matrix, np.float64(h), power, numbers, out
        self._couple(
            f"couple_advance_{operator.name}", matrix, rate.shape[1], (*arguments, np.int64(rate.size))
        )

    def _couple(self, name: str, matrix, m: int, arguments: tuple):
        own, others = matrix.shape
        sizes = np.int32(own), np.int32(others), np.int64(m)
        shared = others * _OUTPUTS * matrix.itemsize
        self._launch(name, matrix.dtype, m, -(-own // _OUTPUTS), (*arguments, *sizes), shared)

    def kerr_advance(self, operator: KerrOperator, stage, rate, h, power, numbers, out):
        size = np.int64(rate.size)
        arguments = np.int32(stage), rate, np.float64(h), power, numbers, out, size, size
        self._launch(f"advance_{operator.name}", rate.dtype, rate.size, 1, arguments)

    def kerr_update(self, operator: KerrOperator, A, K, t0, rate, h, numbers, layout, error=None):
        m = rate.shape[1]
        errors = np.uint64(0) if error is None else layout.errors
        sizes = np.int64(rate.size), np.int64(layout.n), np.int64(m)
        arguments = A, K, np.int64(t0), rate, np.float64(h), numbers, errors, *sizes, layout.row_group
        self._launch(f"update_{operator.name}", rate.dtype, m, layout.rows, arguments)
        if error is not None:
            error[...] = layout.errors[: layout.rows * -(-m // _THREADS)].sum()

    def _launch(self, name: str, real, samples: int, layers: int, arguments: tuple, shared: int = 0):
        """Launch a kernel of ``kerr_chunks.cu``, a thread per sample and layer; layers are rows or groups."""
        key = name, np.dtype(real)
        if key not in self._functions:
            module = self._device.module(PACKAGE, "kerr_chunks.cu", type_options(real))
            self._functions[key] = module.get_function(name)
        grid = (-(-samples // _THREADS), layers)
        self._device.launch(self._functions[key], grid, (_THREADS,), arguments, shared)

    def max_rate(self, theta) -> float:
        return float(self._device.xp.abs(theta).max())

    # --- linear propagation and norms ----------------------------------------------------------------

    def transfer_table(self, table, coefficients, domega, h):
        rows, n = table.shape
        width = np.int32(coefficients.shape[1])
        numbers = np.float64(domega), np.float64(h), np.int32(rows), width, np.int64(n)
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


#: Class that `Device.kernels` creates on a GPU.
KERNELS = KerrKernels
