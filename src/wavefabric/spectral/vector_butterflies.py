"""Butterflies of discrete Fourier transforms in the vector code of a CPU (`device.vector_code`)."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from wavefabric.device.vector_code import VectorCode
from wavefabric.spectral.inplace_fft import factorised, rounded, unit_roots

#: Prime factors of lengths that can be transformed.
PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31)


def radices(n: int, most: int = 16) -> tuple[int, ...]:
    """Factors of a transform length, the largest first: `PRIMES`, and 16, 8, 4, none of these above ``most``.

    Empty if others are needed, or n is 1.

    >>> radices(128), radices(128, 8), radices(156), radices(74)
    ((16, 8), (8, 8, 2), (13, 4, 3), ())
    """
    return factorised(n, sorted({*(r for r in (16, 8, 4) if r <= most), *PRIMES}, reverse=True))


def stages_of(n: int, most: int = 16) -> tuple[int, ...]:
    """Radices of the stages that transform n points: `radices`, and a single 1 for one point.

    ValueError if n has other prime factors than `PRIMES`, or is below 1.
    """
    order = (1,) if n == 1 else radices(n, most) if n > 1 else ()
    if not order:
        raise ValueError(f"transform: {n} points given; allowed: products of primes up to {PRIMES[-1]}")
    return order


@cache
def _cosine_and_sine(k: int, n: int) -> tuple[float, float]:
    """Of 2π k/n, rounded once: those of a rounded angle would be off by several ulps."""
    root = complex(unit_roots(np.array(k), n))
    return root.real, -root.imag


class Complexes(ABC):
    """Complex arithmetic in one form: values are tuples of vectors. ``sign`` is that of the exponent."""

    def __init__(self, code: VectorCode, sign: int):
        self.code, self.sign = code, sign

    @abstractmethod
    def quarter(self, a) -> Any:
        """a exp(± iπ/2)."""

    @abstractmethod
    def turn(self, a, cosine: float, sine: float) -> Any:
        """a (cosine ± i sine)."""

    @abstractmethod
    def times(self, a, factor) -> Any:
        """a times a complex factor, in the form that `factor` gives."""

    @abstractmethod
    def factor(self, number) -> Any:
        """Factor of that number in the function's table."""

    @staticmethod
    @abstractmethod
    def _entries(real: np.ndarray, imaginary: np.ndarray) -> tuple:
        """Real numbers of each factor in the table, as `factor` reads them, from the factor's parts."""

    # --- In either form -----------------------------------------------------------------------------------

    @classmethod
    def table(cls, parts: list[np.ndarray], dtype, factors: Any = None, count: int = 0) -> np.ndarray:
        """The table of these factors, one after another, and of ``count`` of the caller, else ValueError."""
        factors = np.asarray([] if factors is None else factors)
        if factors.shape != (count,):
            raise ValueError(f"factors: shape {factors.shape} given; allowed: {(count,)}")
        numbers = np.concatenate([*parts, factors])
        return np.stack(cls._entries(np.real(numbers), np.imag(numbers)), -1).astype(dtype).ravel()

    def add(self, a, b) -> tuple:
        """a + b."""
        return tuple(map(self.code.add, a, b))

    def subtract(self, a, b) -> tuple:
        """a − b."""
        return tuple(map(self.code.subtract, a, b))

    def scale(self, a, factor: float) -> tuple:
        """a times a real constant."""
        if factor == -1:
            return tuple(map(self.code.negate, a))
        return tuple(self.code.multiply_constant(vector, factor) for vector in a)

    def root(self, a, k: int, n: int) -> Any:
        """a exp(± 2πi k/n)."""
        eighth, rest = divmod(8 * (k % n), n)
        if rest:
            return self.turn(a, *_cosine_and_sine(k, n))
        if eighth >= 4:
            a, eighth = self.scale(a, -1.0), eighth - 4
        if eighth == 1:
            return self.scale(self.add(a, self.quarter(a)), math.sqrt(0.5))
        if eighth == 2:
            return self.quarter(a)
        if eighth == 3:
            return self.scale(self.subtract(self.quarter(a), a), math.sqrt(0.5))
        return a

    def butterfly(self, v: Sequence) -> list:
        """Sums over j of v[j] exp(± 2πi j k/R), R values."""
        r = len(v)
        if r == 2:
            return [self.add(v[0], v[1]), self.subtract(v[0], v[1])]
        if r % 2:
            return self._odd(v)
        p = 2 if r < 16 else 4
        q = r // p
        inner = [self.butterfly(v[j::p]) for j in range(p)]
        outer = [self.butterfly([self.root(inner[j][k], j * k, r) for j in range(p)]) for k in range(q)]
        return [outer[k % q][k // q] for k in range(r)]

    def _odd(self, v: Sequence) -> list:
        r = len(v)
        even = [self.add(v[j], v[r - j]) for j in range(1, r // 2 + 1)]
        odd = [self.subtract(v[j], v[r - j]) for j in range(1, r // 2 + 1)]
        out = [v[0]] * r
        for one in even:
            out[0] = self.add(out[0], one)
        for k in range(1, r // 2 + 1):
            cosines, sines = zip(*(_cosine_and_sine(j * k, r) for j in range(1, r // 2 + 1)), strict=True)
            a, b = v[0], self.scale(odd[0], sines[0])
            for one, cosine in zip(even, cosines, strict=True):
                a = self.add(a, self.scale(one, cosine))
            for one, sine in zip(odd[1:], sines[1:], strict=True):
                b = self.add(b, self.scale(one, sine))
            b = self.quarter(b)
            out[k], out[r - k] = self.add(a, b), self.subtract(a, b)
        return out


class Interleaved(Complexes):
    """Neighbouring complex numbers of an array in one vector, real and imaginary parts side by side."""

    def quarter(self, a):
        return (self.code.negate(self._exchanged(a), self.sign > 0, self.sign < 0),)

    def turn(self, a, cosine, sine):
        s = self.sign * sine
        return (self.code.sum_of_products((a[0], (cosine,)), (self._exchanged(a), (-s, s))),)

    def times(self, a, factor):
        real, imaginary = factor
        return (self.code.multiply_add(self._exchanged(a), imaginary, self.code.multiply(a[0], real)),)

    def factor(self, number):
        code = self.code
        at = [code.index((number, 3), part) for part in (0, 1)]
        return code.repeated(code.table, at[0]), code.repeated(code.table, at[1], 2)

    def _exchanged(self, a):
        """The vector with real and imaginary parts in each other's place."""
        return self.code.pick(a[0], self.code.undefined(), [lane ^ 1 for lane in range(self.code.lanes)])

    @staticmethod
    def _entries(real, imaginary):
        return real, -imaginary, imaginary


class Split(Complexes):
    """Complex numbers of as many arrays as a vector has lanes: two vectors, real and imaginary parts."""

    def quarter(self, a):
        x, y = a
        return (self.code.negate(y), x) if self.sign > 0 else (y, self.code.negate(x))

    def turn(self, a, cosine, sine):
        (x, y), s = a, self.sign * sine
        products = self.code.sum_of_products
        return products((x, (cosine,)), (y, (-s,))), products((y, (cosine,)), (x, (s,)))

    def times(self, a, factor):
        (x, y), (c, s) = a, factor
        code = self.code
        real = code.multiply_add(code.negate(y), s, code.multiply(x, c))
        return real, code.multiply_add(y, c, code.multiply(x, s))

    def factor(self, number):
        code = self.code
        return tuple(code.repeated(code.table, code.index((number, 2), part)) for part in (0, 1))

    def conjugate(self, a):
        """The conjugate of a."""
        return a[0], self.code.negate(a[1])

    @staticmethod
    def _entries(real, imaginary):
        return real, imaginary


class Space:
    """Place for ``side`` values of each of so many points, ``parts`` vectors a value, side by side."""

    def __init__(self, code: VectorCode, points: int, parts: int, side: int = 1):
        self._code, self._parts, self._side = code, parts, side
        self._vectors = code.scratch(points * side * parts)

    def load(self, n, which=0) -> tuple:
        """The value of a point."""
        return tuple(self.get(number) for number in self._numbers(n, which))

    def store(self, n, value, which=0) -> None:
        """Keep the value of a point."""
        for number, vector in zip(self._numbers(n, which), value, strict=True):
            self.put(number, vector)

    def _numbers(self, n, which) -> Iterator:
        parts = self._parts
        return (self._code.index((n, self._side * parts), (which, parts), part) for part in range(parts))

    def put(self, number, vector) -> None:
        """One vector, by its number."""
        self._code.store(vector, self._vectors, self._code.index((number, self._code.lanes)))

    def get(self, number):
        """One vector, by its number."""
        return self._code.load(self._vectors, self._code.index((number, self._code.lanes)))


def emit_stages(complexes: Complexes, radices: Sequence[int], load, store, buffers, side: int = 1) -> None:
    """Stockham's autosort transforms of ``side`` sets of values that are transformed alike: a stage a radix.

    ``load(n, set)`` and ``store(k, value, set)`` reach the points and the spectra, ``buffers`` two places
    that keep all of them in between, objects with the same two. Factors come first in the table:
    `stage_factors`.
    """
    n, before, first = math.prod(radices), 1, 0
    for number, radix in enumerate(radices):
        source = load if number == 0 else buffers[(number - 1) % 2].load
        target = store if number + 1 == len(radices) else buffers[number % 2].store
        _emit_stage(complexes, n, before, radix, first, source, target, side)
        first += (radix - 1) * before if before > 1 else 0
        before *= radix


def _emit_stage(
    complexes: Complexes, n: int, before: int, radix: int, first: int, load, store, side: int
) -> None:
    """The stage of a radix after others of this product; its factors begin at ``first``."""
    code = complexes.code

    def block(b) -> None:
        def butterfly(m) -> None:
            def one(which) -> None:
                values = [load(code.index((b, before), m, k * (n // radix)), which) for k in range(radix)]
                if before > 1:
                    for k in range(1, radix):
                        factor = complexes.factor(code.index((m, radix - 1), first + k - 1))
                        values[k] = complexes.times(values[k], factor)
                for k, value in enumerate(complexes.butterfly(values)):
                    store(code.index((b, before * radix), m, k * before), value, which)

            code.loop(side, one)

        code.loop(before, butterfly)

    code.loop(n // (before * radix), block)


def stage_factors(radices: Sequence[int], sign: int, dtype) -> np.ndarray:
    """Complex factors of all stages but the first: exp(± 2πi k m/(M R)) at [m, k − 1], 0 < k < R, m < M."""
    parts, before = [np.zeros(0, np.result_type(dtype, np.complex64))], 1
    for radix in radices:
        if before > 1:
            roots = _stage_roots(before, radix, parts[0].dtype)
            parts.append(roots if sign < 0 else roots.conj())
        before *= radix
    return np.concatenate(parts)


@cache
def _stage_roots(before: int, radix: int, dtype: np.dtype) -> np.ndarray:
    turns = np.arange(before)[:, None] * np.arange(1, radix)
    return rounded(unit_roots(turns, before * radix).T, dtype).T.ravel()
