"""How a row of N samples is split for the three fused kernels of ``fused_linear.cu``, and the tables they
need.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from wavefabric.kernels.roots import unit_roots
from wavefabric.spectral.inplace_fft import gap, radices

#: Values of a transform that a thread holds.
_HELD = 16
#: Points of the longest transforms over columns and over rows, and bytes of shared memory of a block.
_MOST_COLUMN, _MOST_ROW, _MOST_SHARED = 1024, 8192, 200 * 1024
_SHARED_OF_SM = 224 * 1024
#: Samples of rows that one kernel propagates, in shared memory.
_ONE_KERNEL = 4096


@dataclass(frozen=True)
class Transforms:
    """The transforms of ``points`` of one kernel: ``side`` of them in a block, ``threads`` each."""

    points: int
    side: int
    item: int
    held: int = 16  # values of one transform in a thread, and the largest radix

    @property
    def radices(self) -> tuple[int, ...]:
        """Of the stages, first to last."""
        return radices(self.points, self.held)

    @property
    def threads(self) -> int:
        """Of one transform."""
        return -(-self.points // self.held)

    @property
    def gap(self) -> int:
        """Points between empty places in shared memory, 0 for none."""
        return gap(self.radices)

    def shared(self, gap: int) -> int:
        """Bytes of shared memory of a block; none where one stage does."""
        if len(self.radices) == 1:
            return 0
        words = self.points + (self.points // gap if gap else 0)
        return words * self.side * self.item

    def blocks(self, gap: int, registers: int) -> int:
        """Blocks that a multiprocessor shall hold: by shared memory, and with so many registers a thread."""
        by_memory = _SHARED_OF_SM // max(self.shared(gap) + 1024, 1)
        by_registers = 65536 // (registers * 32 * -(-self.threads * self.side // 32))
        return max(1, min(by_memory, by_registers, 16))


@dataclass(frozen=True)
class FusedPlan:
    """N = ``columns.points`` × ``rows.points`` for fields of one type (``dtype``)."""

    columns: Transforms
    rows: Transforms
    dtype: np.dtype

    @property
    def n(self) -> int:
        """Samples of a row of the field."""
        return self.columns.points * self.rows.points

    @property
    def together(self) -> int:
        """Rows of the field that a thread of `rows_transfer` works on at once."""
        return self.rows.item // self.dtype.itemsize

    @property
    def column_gap(self) -> int:
        """As `Transforms.gap`; columns that fill cache lines need none."""
        full = self.columns.points == 1 or self.columns.side * self.columns.item >= 128
        return 0 if full else self.columns.gap

    def block_memory(self) -> int:
        """Bytes of shared memory of the block that has most."""
        return max(self.columns.shared(self.column_gap), self.rows.shared(self.rows.gap))

    def prelude(self) -> str:
        """Definitions before the sources."""
        single = self.dtype == np.complex64
        macros: dict[str, object] = {"REAL": "float" if single else "double"}
        macros |= {"N1": self.columns.points, "N2": self.rows.points}
        macros |= {"RADICES2": ",".join(map(str, self.rows.radices)), "THREADS2": self.rows.threads}
        macros |= {"ROWS": self.rows.side, "GAP2": self.rows.gap, "PAIRED": int(single)}
        macros |= {"BLOCKS2": self.rows.blocks(self.rows.gap, 128)}
        if self.columns.points > 1:
            macros |= {"RADICES1": ",".join(map(str, self.columns.radices))}
            macros |= {"THREADS1": self.columns.threads, "TILE": self.columns.side, "GAP1": self.column_gap}
            registers = self.columns.held * (4 if single else 8)
            macros |= {"BLOCKS1": self.columns.blocks(self.column_gap, registers)}
        return "".join(f"#define {name} {value}\n" for name, value in macros.items())

    def roots(self) -> np.ndarray:
        """exp(−2πi m/N1), shape (N1,), complex128."""
        return unit_roots(np.arange(self.columns.points), self.columns.points)

    def split_factors(self) -> np.ndarray:
        """exp(−2πi P n2/N) for the product P of the radices before each stage, (stages, N2), complex128."""
        before = np.cumprod([1, *self.columns.radices[:-1]])
        return unit_roots(before[:, None] * np.arange(self.rows.points), self.n)


def transfers(coefficients: np.ndarray, sample_rate: float, h: float, n: int) -> np.ndarray:
    """exp(h L̂)/N of each row of ``coefficients`` (α, β1…β4 in SI), (rows, 5), as fused_linear.cu reads it.

    The phase is π Σ_j phase[j] x^(j+1) at x = ω/(2π sample_rate), the amplitude the last number.
    """
    signs, orders = np.array([-1.0, 1.0, -1.0, 1.0]), np.arange(1, 5)
    factorials = np.array([math.factorial(j) for j in orders])
    scale = signs * h * (2 * np.pi * sample_rate) ** orders / factorials / np.pi
    size = np.exp(-0.5 * coefficients[:, 0] * h) / n
    return np.ascontiguousarray(np.column_stack([coefficients[:, 1:] * scale, size]))


def fused_plan(n: int, dtype, block_memory: int = 227 * 1024) -> FusedPlan | None:
    """The split for rows of n samples, where a block may have so much shared memory (an H200's, bytes).

    None where there is none: n has a prime factor above 7, or too many samples.

    >>> fused_plan(2**21, np.complex128).columns.points
    512
    """
    plans = _plans(n, np.dtype(dtype))
    return next((plan for plan in plans if plan.block_memory() <= block_memory), None)


def _plans(n: int, dtype: np.dtype) -> Iterator[FusedPlan]:
    """Splits that fit, best first."""
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
    """Lengths of the transforms over columns, best first.

    None for short rows; else such that rows have about 2048 samples, and columns at most 512.
    """
    if not radices(n):
        return []
    if n <= _ONE_KERNEL:
        return [1]
    lengths = [c for c in range(2, _MOST_COLUMN + 1) if n % c == 0 and 16 <= n // c <= _MOST_ROW]
    return sorted(lengths, key=lambda c: (n // c > 4096, c > 512, abs(math.log(n // c / 2048)), c))
