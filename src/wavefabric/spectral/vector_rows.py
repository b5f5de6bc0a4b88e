"""Transforms of real rows on a CPU, emitted for one length (`device.vector_code`).

A vector holds the same point of neighbouring rows, into which they are transposed. Rows of an even number of
points N are transformed as complex ones of N/2, whose value j is x[2j] + i x[2j+1]; odd ones as complex rows.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from wavefabric.device.vector_code import Function, VectorCode
from wavefabric.spectral.inplace_fft import rounded, unit_roots
from wavefabric.spectral.vector_butterflies import Space, Split, emit_stages, stage_factors, stages_of


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
        return Split.table(parts, dtype, factors, self.entries if self.factors else 0)

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


class _Emitted:
    """The code of one group of rows."""

    def __init__(self, plan: RealRows, code: VectorCode, dtype, order):
        self.plan, self.code, self.order = plan, code, order
        self.half = plan.complex_points
        self.complexes = Split(code, plan.sign)
        buffers = [Space(code, max(self.half, plan.pitch), 2) for _ in range(2)]
        self.first_root = len(stage_factors(order, plan.sign, dtype))
        self.first_factor = self.first_root + len(plan._roots(dtype))
        #: Where the complex transform starts; where it ends, and the place that is free then.
        self.start, self.spare = buffers
        self.result, self.free = buffers[:: -1 if len(order) % 2 else 1]

    def forth(self, group, rows: int) -> None:
        """A group of so many rows to half spectra."""
        plan, code = self.plan, self.code
        zero = code.constant(0.0)
        self._gather(plan.points, group, rows, self.start.put, 1 + plan.points % 2)
        if plan.points % 2:
            code.loop(self.half, lambda n: self.start.put(code.index((n, 2), 1), zero))
        self._stages()
        spectrum = self.result
        if plan.points % 2 == 0:
            # X[k] = (Z[k] + Z*[H−k])/2 − i w^k (Z[k] − Z*[H−k])/2
            spectrum = self.free
            real, imaginary = self.result.load(0)
            spectrum.store(0, (code.add(real, imaginary), zero))
            spectrum.store(self.half, (code.subtract(real, imaginary), zero))
            self._combine(self.result, spectrum)
        for k in range(plan.entries, plan.pitch):
            spectrum.store(k, (zero, zero))
        self._scatter(2 * plan.pitch, group, rows, spectrum.get)

    def back(self, group, rows: int) -> None:
        """A group of half spectra to so many rows."""
        plan, code = self.plan, self.code
        spectrum = self.start if plan.points % 2 else self.spare
        self._gather(2 * plan.pitch, group, rows, spectrum.put, 1)
        if plan.factors:
            self._multiply(spectrum)
        first = spectrum.load(0)[0]  # X[0] is real, and so is X[N/2]
        if plan.points % 2:
            spectrum.store(0, (first, code.constant(0.0)))
            self._complete(spectrum)
        else:
            # Z[k] = X[k] + X*[H−k] + i w^−k (X[k] − X*[H−k])
            last = spectrum.load(self.half)[0]
            self.start.store(0, (code.add(first, last), code.subtract(first, last)))
            self._combine(spectrum, self.start)
        self._stages()
        stride = 1 + plan.points % 2
        self._scatter(plan.points, group, rows, lambda n: self.result.get(code.index((n, stride))))

    def _multiply(self, spectrum: Space) -> None:
        code, c = self.code, self.complexes

        def entry(k) -> None:
            factor = c.factor(code.index(k, self.first_factor))
            spectrum.store(k, c.times(spectrum.load(k), factor))

        code.loop(self.plan.entries, entry)

    def _combine(self, source: Space, target: Space) -> None:
        """Entries k and H − k of a complex row's spectrum Z to those of the real row's X, or the reverse."""
        code, c, half, forth = self.code, self.complexes, self.half, self.plan.sign < 0

        def pair(i) -> None:
            k, other = code.index(i, 1), code.index((i, -1), half - 1)
            p, q = source.load(k), c.conjugate(source.load(other))
            root = c.factor(code.index(k, self.first_root))
            if forth:
                p, q = c.scale(p, 0.5), c.scale(q, 0.5)
            else:
                root = c.conjugate(root)
            even, odd = c.add(p, q), c.quarter(c.times(c.subtract(p, q), root))
            target.store(other, c.conjugate(c.subtract(even, odd)))
            target.store(k, c.add(even, odd))

        code.loop(half // 2, pair)

    def _complete(self, spectrum: Space) -> None:
        """The other half of the spectrum of a row of an odd number of points."""
        code = self.code

        def entry(i) -> None:
            value = spectrum.load(code.index(i, 1))
            spectrum.store(code.index((i, -1), self.half - 1), self.complexes.conjugate(value))

        code.loop(self.half // 2, entry)

    def _stages(self) -> None:
        """The complex transform, from one place to the other and back."""
        buffers = [self.spare, self.start]
        emit_stages(self.complexes, self.order, self.start.load, self.result.store, buffers)

    def _gather(self, length: int, group, rows: int, put, stride: int) -> None:
        """put(stride · n, vector) for the n-th numbers of a group's rows; the last again where rows lack."""
        code, lanes, array = self.code, self.code.lanes, self.code.source
        starts = [code.index((group, lanes * length), min(row, rows - 1) * length) for row in range(lanes)]

        def some(c) -> None:
            vectors = [code.load(array, code.index(start, (c, lanes))) for start in starts]
            for i, vector in enumerate(code.transposed(vectors)):
                put(code.index((c, lanes * stride), i * stride), vector)

        code.loop(length // lanes, some)
        for n in range(length // lanes * lanes, length):
            put(stride * n, code.joined([code.load_one(array, code.index(start, n)) for start in starts]))

    def _scatter(self, length: int, group, rows: int, get) -> None:
        """The reverse: the n-th numbers of a group's rows are the lanes of get(n)."""
        code, lanes, array = self.code, self.code.lanes, self.code.target
        starts = [code.index((group, lanes * length), row * length) for row in range(rows)]

        def some(c) -> None:
            vectors = code.transposed([get(code.index((c, lanes), i)) for i in range(lanes)])
            for vector, start in zip(vectors, starts, strict=False):
                code.store(vector, array, code.index(start, (c, lanes)))

        code.loop(length // lanes, some)
        for n in range(length // lanes * lanes, length):
            vector = get(n)
            for row, start in enumerate(starts):
                code.store(code.lane(vector, row), array, code.index(start, n))
