"""Complex transforms of neighbouring columns on a CPU, emitted for one length (`device.vector_code`).

A vector holds neighbouring columns, which are transformed alike; values stay in the first-level cache between
the stages. What multiplies the columns before their transform happens as they are read.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from wavefabric.device.vector_code import Function, VectorCode
from wavefabric.spectral.vector_butterflies import Interleaved, Space, emit_stages, stage_factors, stages_of

#: Vectors of a cache line: transformed together, since what lies a row apart shares no line.
_LINE = 2


@dataclass(frozen=True)
class ComplexColumns:
    """Transforms of ``count`` columns of ``points`` complex values.

    Values of a column lie ``source`` and ``target`` complex numbers apart. ``sign`` is that of the exponent;
    ``operator``: values are first multiplied by a real array, so many numbers from row to row;
    ``factors``: each row also by a complex number of its own, behind the others in the table. ``ahead``: what
    lies as the source does, but from ``operator`` on, is meanwhile fetched into the second-level cache.
    """

    points: int
    count: int
    source: int
    target: int
    sign: int
    operator: int = 0
    factors: bool = False
    ahead: bool = False

    @property
    def radices(self) -> tuple[int, ...]:
        """Of the stages. Rows far apart share few places of the first-level cache: fewer of them at once."""
        return stages_of(self.points, 16 if self.count == self.source == self.target else 8)

    def table(self, dtype, factors: Any = None) -> np.ndarray:
        """What the function reads as its table; ``factors`` have the shape (points,), else ValueError."""
        parts = [stage_factors(self.radices, self.sign, dtype)]
        return Interleaved.table(parts, dtype, factors, self.points if self.factors else 0)

    def compiled(self, dtype, name: str | None = None) -> Function:
        """The function, by a name; ValueError if a vector is not full, or a prime factor is above 31."""
        code = VectorCode(dtype, name)
        complexes = Interleaved(code, self.sign)
        width, order = code.lanes // 2, self.radices
        if self.count % width:
            raise ValueError(f"columns: {self.count} given; allowed: a multiple of {width}")
        first_factor = len(stage_factors(order, self.sign, dtype))
        groups = self.count // width
        side = _LINE if groups % _LINE == 0 else 1
        buffers = [Space(code, self.points, 1, side) for _ in order[1:3]]

        def columns(first) -> None:
            def load(n, which):
                group = code.index((first, side), which)
                at = code.index((n, 2 * self.source), (group, code.lanes))
                value = code.load(code.source, at)
                if self.ahead:
                    code.fetch(code.operator, at)
                if self.operator:
                    at = code.index((n, self.operator), (group, width))
                    real = code.load(code.operator, at, width)
                    twice = code.pick(real, code.undefined(width), [lane // 2 for lane in range(code.lanes)])
                    value = code.multiply(value, twice)
                if self.factors:
                    return complexes.times((value,), complexes.factor(code.index(n, first_factor)))
                return (value,)

            def store(k, value, which) -> None:
                group = code.index((first, side), which)
                code.store(value[0], code.target, code.index((k, 2 * self.target), (group, code.lanes)))

            emit_stages(complexes, order, load, store, buffers, side)

        code.loop(groups // side, columns)
        return code.compiled()
