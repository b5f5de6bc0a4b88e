"""Plan how the kernels of ``fused_linear.cu`` split a row of N samples, and compute their tables."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from wavefabric.runtime.kernels.roots import unit_roots
from wavefabric.runtime.spectral.inplace_fft import gap, radices

#: Number of values of a transform per thread.
_HELD = 16
#: Longest transforms over columns and over rows, and most bytes of shared memory of a block.
_MOST_COLUMN, _MOST_ROW, _MOST_SHARED = 1024, 8192, 200 * 1024
_SHARED_OF_SM = 224 * 1024
#: Largest number of samples of a row that one kernel propagates, in shared memory.
_ONE_KERNEL = 4096


@dataclass(frozen=True)
class Transforms:
    """Describes a kernel's transforms: each of ``points`` values of ``item`` bytes, ``side`` in a block."""

    points: int
    side: int
    item: int
    thread_values: int = 16  # values of one transform in a thread, and the largest radix

    @property
    def radices(self) -> tuple[int, ...]:
        """Return the radices of the stages, first to last."""
        return radices(self.points, self.thread_values)

    @property
    def threads(self) -> int:
        """Return the number of threads per transform."""
        return -(-self.points // self.thread_values)

    @property
    def gap(self) -> int:
        """Return the number of points between padding elements in shared memory, 0 for no padding."""
        return gap(self.radices)

    def shared(self, gap: int) -> int:
        """Return the bytes of shared memory per block (padded every ``gap`` points); 0 for a single stage."""
        if len(self.radices) == 1:
            return 0
        words = self.points + (self.points // gap if gap else 0)
        return words * self.side * self.item

    def blocks(self, gap: int, registers: int) -> int:
        """Return the blocks per multiprocessor that shared memory and ``registers`` per thread allow."""
        by_memory = _SHARED_OF_SM // max(self.shared(gap) + 1024, 1)
        by_registers = 65536 // (registers * 32 * -(-self.threads * self.side // 32))
        return max(1, min(by_memory, by_registers, 16))


@dataclass(frozen=True)
class FusedPlan:
    """Describes how a transform of N = N1 N2 values is split: into columns of N1 and rows of N2 values."""

    columns: Transforms
    rows: Transforms
    dtype: np.dtype

    @property
    def n(self) -> int:
        """Return the number of samples of a row of the field."""
        return self.columns.points * self.rows.points

    @property
    def kernels_at_once(self) -> int:
        """Return how many field rows a thread of the row kernel processes: 2 in single precision, else 1."""
        return self.rows.item // self.dtype.itemsize

    @property
    def column_gap(self) -> int:
        """Return the number of points of a column between padding in shared memory; 0 for no padding."""
        full = self.columns.points == 1 or self.columns.side * self.columns.item >= 128
        return 0 if full else self.columns.gap

    def block_memory(self) -> int:
        """Return the bytes of shared memory of the kernel block that needs the most."""
        return max(self.columns.shared(self.column_gap), self.rows.shared(self.rows.gap))

    def prelude(self) -> str:
        """Return the C macro definitions with which ``fused_linear.cu`` is compiled."""
        single = self.dtype == np.complex64
        macros: dict[str, object] = {"REAL": "float" if single else "double"}
        macros |= {"N1": self.columns.points, "N2": self.rows.points}
        macros |= {"RADICES2": ",".join(map(str, self.rows.radices)), "THREADS2": self.rows.threads}
        macros |= {"ROWS": self.rows.side, "GAP2": self.rows.gap, "PAIRED": int(single)}
        macros |= {"BLOCKS2": self.rows.blocks(self.rows.gap, 128)}
        if self.columns.points > 1:
            macros |= {"RADICES1": ",".join(map(str, self.columns.radices))}
            macros |= {"THREADS1": self.columns.threads, "TILE": self.columns.side, "GAP1": self.column_gap}
            registers = self.columns.thread_values * (4 if single else 8)
            macros |= {"BLOCKS1": self.columns.blocks(self.column_gap, registers)}
        return "".join(f"#define {name} {value}\n" for name, value in macros.items())

    def roots(self) -> np.ndarray:
        """Return the twiddle factors exp(−2πi m/N1) of columns of N1 points, (N1,), complex128."""
        return unit_roots(np.arange(self.columns.points), self.columns.points)

    def split_factors(self) -> np.ndarray:
        """Return the factors exp(−2πi P n/N) for each stage of the column transforms and each n < N2.

        The array is (stages, N2), complex128. N2 is the length of rows, P the product of the radices of the
        stages before.
        """
        before = np.cumprod([1, *self.columns.radices[:-1]])
        return unit_roots(before[:, None] * np.arange(self.rows.points), self.n)


def transfers(coefficients: np.ndarray, sample_rate: float, h: float, n: int) -> np.ndarray:
    """Return, for each row of ``coefficients``, the numbers from which a kernel computes exp(h L̂)/N.

    ``coefficients`` (rows, 1 + orders) are α, β1, β2, … in SI. For each order one number c_j gives the phase
    π Σ_j c_j x^j at x = ω/(2π sample_rate), j from 1; the last number is the amplitude.
    """
    orders = np.arange(1, coefficients.shape[1])
    factorials = np.array([math.factorial(j) for j in orders])
    scale = (-1.0) ** orders * h * (2 * np.pi * sample_rate) ** orders / factorials / np.pi
    size = np.exp(-0.5 * coefficients[:, 0] * h) / n
    return np.ascontiguousarray(np.column_stack([coefficients[:, 1:] * scale, size]))


def fused_plan(n: int, dtype, block_memory: int = 227 * 1024) -> FusedPlan | None:
    """Return the best plan for rows of n samples with ``block_memory`` bytes of shared memory per block.

    The default holds for an H200. None if no plan exists: n has a prime factor above 7, or is too large.

    >>> fused_plan(2**21, np.complex128).columns.points
    512
    """
    plans = _plans(n, np.dtype(dtype))
    return next((plan for plan in plans if plan.block_memory() <= block_memory), None)


def _plans(n: int, dtype: np.dtype) -> Iterator[FusedPlan]:
    """Yield the possible plans for rows of ``n`` samples, best first."""
    for columns in _column_lengths(n):
        rows, item = n // columns, dtype.itemsize
        tile, threads = 128 // item, -(-columns // _HELD)
        while tile > 1 and columns * tile * item > _MOST_SHARED // 2:
            tile //= 2
        while tile * threads < 128 and tile < rows:
            tile *= 2
        side = math.gcd(max(1, 128 * _HELD // rows), columns)
        # In single precision a thread works on both polarisations at once: 16 bytes either way.
        yield FusedPlan(Transforms(columns, tile, item), Transforms(rows, side, 16), dtype)


def _column_lengths(n: int) -> list[int]:
    """Return possible lengths of column transforms for rows of ``n`` samples, best first.

    The best are at most 512 and leave row transforms of about 2048 points. The list is [1] for short rows,
    which need no columns, and [] if no length is possible.
    """
    if not radices(n):
        return []
    if n <= _ONE_KERNEL:
        return [1]
    lengths = [c for c in range(2, _MOST_COLUMN + 1) if n % c == 0 and 16 <= n // c <= _MOST_ROW]
    return sorted(lengths, key=lambda c: (n // c > 4096, c > 512, abs(math.log(n // c / 2048)), c))
