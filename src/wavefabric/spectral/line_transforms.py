"""Radices, factors and orders by which CPUs transform the lines of a grid (``kernels/cpu/lines.h``)."""

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from wavefabric.kernels.cpu_launch import address
from wavefabric.spectral.inplace_fft import factorised, rounded, unit_roots

#: Radices that the passes have; other prime factors make a convolution of a series.
PRIMES = (2, 3, 5, 7, 11, 13)
#: Bytes of the widest vectors: rows of spectra are padded to whole ones.
_WIDEST = 64


def pass_radices(n: int) -> tuple[int, ...]:
    """Factors of a transform length in the order of the passes; empty if a prime factor above 13 is needed.

    >>> pass_radices(256), pass_radices(120), pass_radices(1), pass_radices(34)
    ((4, 8, 8), (5, 3, 8), (1,), ())
    """
    if n == 1:
        return (1,)
    twos = (n & -n).bit_length() - 1
    rest = n >> twos
    odd = factorised(rest, (13, 11, 7, 5, 3)) if rest > 1 else ()
    if rest > 1 and not odd:
        return ()
    if twos == 1:
        return (*odd, 2)
    fours = (-twos) % 3  # two passes of radix 4 are one of radix 16
    return (4,) * fours + (*odd, *(8,) * ((twos - 2 * fours) // 3))


def reversed_digits(radices: Sequence[int]) -> np.ndarray:
    """The transformed number that lies at each place after passes of these radices.

    >>> reversed_digits((2, 3)).tolist()
    [0, 2, 4, 1, 3, 5]
    """
    order, stride = np.zeros(1, np.int64), 1
    for radix in radices:
        order = (order[:, None] + stride * np.arange(radix)).ravel()
        stride *= radix
    return order


def convolution_points(n: int) -> int:
    """Return the points of a convolution that transforms ``n``: at least 2n − 1, of primes up to 5."""
    return next(m for m in range(2 * n - 1, 4 * n) if factorised(m, (8, 5, 4, 3, 2)))


def pitch(nx: int, dtype) -> int:
    """Length of a padded row of a half spectrum: whole vectors."""
    step = _WIDEST // (2 * np.dtype(dtype).itemsize)
    return -(-(nx // 2 + 1) // step) * step


class SeriesPlan:
    """How series of ``n`` complex numbers are transformed: radices, factors, the chirp of a convolution."""

    def __init__(self, n: int, dtype):
        kind = np.result_type(dtype, np.complex64)
        self.points, self._chirp, self._kernel = n, np.zeros(0, kind), np.zeros(0, kind)
        direct = pass_radices(n)
        self.inner = n if direct else convolution_points(n)
        self.radices = direct or pass_radices(self.inner)
        self._order = order = reversed_digits(self.radices)
        if not direct:
            self._order = j = np.arange(n)
            chirp = unit_roots(j * j, 2 * n)
            around = np.zeros(self.inner, complex)
            around[:n] = chirp.conj()
            around[self.inner - n + 1 :] = chirp[:0:-1].conj()
            self._chirp = rounded(chirp, kind)
            self._kernel = (np.fft.fft(around) / self.inner)[order].astype(kind)
        self._radices, self._position = np.array(self.radices, np.int64), np.argsort(self._order)
        self._factors = _pass_factors(self.radices, kind)

    @cached_property
    def words(self) -> np.ndarray:
        """The structure ``Plan`` of ``kernels/cpu/fft.h``; it lives as long as this object."""
        arrays = self._radices, self._order, self._factors, self._chirp, self._kernel, self._position
        addresses = [address(array) if array.size else 0 for array in arrays]
        return np.array([self.points, self.inner, len(self.radices), *addresses], np.int64)


def _pass_factors(radices: Sequence[int], kind: np.dtype) -> np.ndarray:
    """Return the twiddle factors w^(p k) of each pass, p below its length over the radix, k from 1 below it.

    All factors of a pass are rounded together, so that their moduli are 1 in the mean.
    """
    length, parts = math.prod(radices), []
    for radix in radices:
        p, k = np.arange(length // radix)[:, None], np.arange(1, radix)
        parts.append(rounded(unit_roots((p * k).ravel(), length), kind))
        length //= radix
    return np.concatenate(parts).astype(kind)


class LineTransforms:
    """Transforms of real fields of ``shape`` (Nz, Ny, Nx) along each axis.

    ``up`` and ``down`` are factors along x (Nx//2 + 1 of them, or more), y and z: derivatives at points half
    a step to one or the other side. Spectra are (Nz, Ny, `pitch`). Nothing is scaled.
    """

    def __init__(self, shape: tuple[int, int, int], dtype, up: Sequence, down: Sequence):
        kind = np.result_type(dtype, np.complex64)
        plans = {n: SeriesPlan(n, dtype) for n in shape}
        #: Kept, since kernels have no more than their addresses.
        self._kept = [plans, *([np.ascontiguousarray(f, kind) for f in each] for each in (up, down))]
        words = []
        for axis, n in enumerate(shape[::-1]):
            words += [address(plans[n].words), *(address(each[axis]) for each in self._kept[1:])]
        self.words = np.array([*words, pitch(shape[2], dtype), *shape], np.int64)
