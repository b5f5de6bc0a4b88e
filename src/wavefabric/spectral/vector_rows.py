"""Transforms of real rows on a CPU, emitted for one length (`device.vector_code`).

A vector holds the same point of neighbouring rows, into which they are transposed. Rows of an even number of
points N are transformed as complex ones of N/2, whose value j is x[2j] + i x[2j+1]; odd ones as complex rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from wavefabric.device.vector_code import Function, VectorCode
from wavefabric.spectral.inplace_fft import rounded, unit_roots
from wavefabric.spectral.vector_butterflies import Split, emit_stages, stage_factors, stages_of, with_factors


@dataclass(frozen=True)
class RealRows:
    """Transforms of ``count`` rows of ``points`` real values; their half spectra lie ``pitch`` numbers apart.

    ``sign`` −1: rows to spectra, what pads these becomes 0; +1: spectra to rows, not divided by ``points``.
    ``factors``: each entry of a spectrum is first multiplied by a number, behind the others in the table.
    """

    points: int
    count: int
    pitch: int
    sign: int
    factors: bool = False

    @property
    def complex_points(self) -> int:
        """Length of the complex transforms."""
        return self.points if self.points % 2 else self.points // 2

    @property
    def entries(self) -> int:
        """Of a half spectrum."""
        return self.points // 2 + 1

    def table(self, dtype, factors: Any = None) -> np.ndarray:
        """What the function reads as its table; ``factors`` have the shape (entries,), else ValueError."""
        parts = [stage_factors(self._radices, self.sign, dtype), self._roots(dtype)]
        return Split.table(with_factors(parts, factors, self.entries if self.factors else 0), dtype)

    @property
    def _radices(self) -> tuple[int, ...]:
        return stages_of(self.complex_points, 8)  # with 16, pairs of vectors would need twice the registers

    def _roots(self, dtype) -> np.ndarray:
        """exp(−2πi k/N), k ≤ N/4: they join the spectra of even and odd points."""
        count = 0 if self.points % 2 else self.complex_points // 2 + 1
        return _row_roots(count, self.points, np.result_type(dtype, np.complex64))

    def compiled(self, dtype, name: str | None = None) -> Function:
        """The function, by a name; ValueError if the pitch is too small, or a prime factor is above 31."""
        if self.pitch < self.entries:
            raise ValueError(f"pitch: {self.pitch} given; allowed: from {self.entries} on")
        code = VectorCode(dtype, name)
        emit = _Emitted(self, code, dtype, self._radices)
        whole, left = divmod(self.count, code.lanes)
        direction = emit.forth if self.sign < 0 else emit.back
        code.loop(whole, lambda group: direction(group, code.lanes))
        if left:
            direction(whole, left)
        return code.compiled()


@cache
def _row_roots(count: int, points: int, dtype: np.dtype) -> np.ndarray:
    return rounded(unit_roots(np.arange(count), points), dtype)


class _Pairs:
    """Place for complex numbers as pairs of vectors, the parts side by side."""

    def __init__(self, code: VectorCode, points: int):
        self.code, self.capacity, self.points = code, code.scratch(2 * points), points

    def load(self, n, which=0):
        lanes = self.code.lanes
        return tuple(
            self.code.load(self.capacity, self.code.index((n, 2 * lanes), part * lanes)) for part in (0, 1)
        )

    def store(self, n, value, which=0) -> None:
        for part, vector in enumerate(value):
            self.put(self.code.index((n, 2), part), vector)

    def put(self, number, vector) -> None:
        """One vector, by its number."""
        self.code.store(vector, self.capacity, self.code.index((number, self.code.lanes)))

    def get(self, number):
        """One vector, by its number."""
        return self.code.load(self.capacity, self.code.index((number, self.code.lanes)))


class _Emitted:
    """The code of one group of rows."""

    def __init__(self, plan: RealRows, code: VectorCode, dtype, order):
        self.plan, self.code, self.order = plan, code, order
        self.half = plan.complex_points
        self.complexes = Split(code, plan.sign)
        self.buffers = [_Pairs(code, max(self.half, plan.pitch)) for _ in range(2)]
        self.first_root = len(stage_factors(order, plan.sign, dtype))
        self.first_factor = self.first_root + len(plan._roots(dtype))
        #: Where the complex transform starts; where it ends, and the place that is free then.
        self.start, self.spare = self.buffers
        self.result, self.free = self.buffers[:: -1 if len(order) % 2 else 1]

    # --- Rows to spectra ----------------------------------------------------------------------------------

    def forth(self, group, rows: int) -> None:
        """A group of so many rows to half spectra."""
        plan, code = self.plan, self.code
        zero = code.constant(0.0)
        self._gather(code.source, plan.points, plan.points, group, rows, self.start.put, 1 + plan.points % 2)
        if plan.points % 2:
            code.loop(self.half, lambda n: self.start.put(code.index((n, 2), 1), zero))
        self._stages()
        spectrum = self.result
        if plan.points % 2 == 0:
            spectrum = self.free
            self._take_apart(self.result, spectrum)
        for k in range(plan.entries, plan.pitch):
            spectrum.store(k, (zero, zero))
        self._scatter(code.target, 2 * plan.pitch, 2 * plan.pitch, group, rows, spectrum.get)

    def _take_apart(self, z: _Pairs, spectrum: _Pairs) -> None:
        """X[k] = (Z[k] + Z*[H−k])/2 − i w^k (Z[k] − Z*[H−k])/2, and that of H − k."""
        code, c, half = self.code, self.complexes, self.half
        zero = code.constant(0.0)
        real, imaginary = z.load(0)
        spectrum.store(0, (code.add(real, imaginary), zero))
        spectrum.store(half, (code.subtract(real, imaginary), zero))

        def pair(i) -> None:
            k, other = code.index(i, 1), code.index((i, -1), half - 1)
            p, q = c.scale(z.load(k), 0.5), c.scale(c.conjugate(code, z.load(other)), 0.5)
            even = c.add(p, q)
            odd = c.quarter(c.times(c.subtract(p, q), c.factor(code.index(k, self.first_root))))
            spectrum.store(other, c.conjugate(code, c.subtract(even, odd)))
            spectrum.store(k, c.add(even, odd))

        code.loop(half // 2, pair)

    # --- Spectra to rows ----------------------------------------------------------------------------------

    def back(self, group, rows: int) -> None:
        """A group of half spectra to so many rows."""
        plan, code = self.plan, self.code
        spectrum = self.start if plan.points % 2 else self.spare
        self._gather(code.source, 2 * plan.pitch, 2 * plan.pitch, group, rows, spectrum.put, 1)
        if plan.factors:
            self._multiply(spectrum)
        if plan.points % 2:
            self._complete(spectrum)
        else:
            self._put_together(spectrum, self.start)
        self._stages()
        stride = 1 + plan.points % 2

        def point(n):
            return self.result.get(code.index((n, stride)))

        self._scatter(code.target, plan.points, plan.points, group, rows, point)

    def _multiply(self, spectrum: _Pairs) -> None:
        code, c = self.code, self.complexes

        def entry(k) -> None:
            factor = c.factor(code.index(k, self.first_factor))
            spectrum.store(k, c.times(spectrum.load(k), factor))

        code.loop(self.plan.entries, entry)

    def _put_together(self, spectrum: _Pairs, z: _Pairs) -> None:
        """Z[k] = X[k] + X*[H−k] + i w^−k (X[k] − X*[H−k]), and that of H − k; X[0] and X[H] are real."""
        code, c, half = self.code, self.complexes, self.half
        first, last = spectrum.load(0)[0], spectrum.load(half)[0]
        z.store(0, (code.add(first, last), code.subtract(first, last)))

        def pair(i) -> None:
            k, other = code.index(i, 1), code.index((i, -1), half - 1)
            p, q = spectrum.load(k), c.conjugate(code, spectrum.load(other))
            root = c.conjugate(code, c.factor(code.index(k, self.first_root)))
            even, odd = c.add(p, q), c.quarter(c.times(c.subtract(p, q), root))
            z.store(other, c.conjugate(code, c.subtract(even, odd)))
            z.store(k, c.add(even, odd))

        code.loop(half // 2, pair)

    def _complete(self, spectrum: _Pairs) -> None:
        """The other half of the spectrum of a row of an odd number of points; X[0] is real."""
        code, c = self.code, self.complexes
        spectrum.store(0, (spectrum.load(0)[0], code.constant(0.0)))

        def entry(i) -> None:
            value = spectrum.load(code.index(i, 1))
            spectrum.store(code.index((i, -1), self.half - 1), c.conjugate(code, value))

        code.loop(self.half // 2, entry)

    # --- Both -----------------------------------------------------------------------------------------------

    def _stages(self) -> None:
        """The complex transform, from one place to the other and back."""
        buffers = [self.spare, self.start]
        emit_stages(self.complexes, self.order, self.start.load, self.result.store, buffers)

    def _gather(self, array, length: int, apart: int, group, rows: int, put, stride: int) -> None:
        """put(stride · n, vector) for the n-th numbers of a group's rows; the last again where rows lack."""
        code, lanes = self.code, self.code.lanes
        starts = [code.index((group, lanes * apart), min(row, rows - 1) * apart) for row in range(lanes)]

        def some(c) -> None:
            vectors = [code.load(array, code.index(start, (c, lanes))) for start in starts]
            for i, vector in enumerate(code.transposed(vectors)):
                put(code.index((c, lanes * stride), i * stride), vector)

        code.loop(length // lanes, some)
        for n in range(length // lanes * lanes, length):
            put(stride * n, code.joined([code.load_one(array, code.index(start, n)) for start in starts]))

    def _scatter(self, array, length: int, apart: int, group, rows: int, get) -> None:
        """The reverse: the n-th numbers of a group's rows are the lanes of get(n)."""
        code, lanes = self.code, self.code.lanes
        starts = [code.index((group, lanes * apart), row * apart) for row in range(rows)]

        def some(c) -> None:
            vectors = code.transposed([get(code.index((c, lanes), i)) for i in range(lanes)])
            for vector, start in zip(vectors, starts, strict=False):
                code.store(vector, array, code.index(start, (c, lanes)))

        code.loop(length // lanes, some)
        for n in range(length // lanes * lanes, length):
            vector = get(n)
            for row, start in enumerate(starts):
                code.store(code.lane(vector, row), array, code.index(start, n))
