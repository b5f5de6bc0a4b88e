"""Counter-based random numbers, the same on every device: Philox4x32-10.

Element ``i`` of a sequence depends on ``(seed, stream, i + offset)`` only, so any window of any
sequence can be made again, in any order, by any rank. The 64-bit ``seed`` is Philox's key; the low
half of its 128-bit counter is the index, the high half the ``stream``. ``philox.cu`` holds the same
functions for CUDA.

Source: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC11 (2011), doi 10.1145/2063384.2063405; constants and known answers from the Random123 library.
"""

import math

import numba
import numpy as np

from wavefabric.errors import InputError, quoted
from wavefabric.system.numba_cache import njit

#: What ``Device.kernels`` takes to load these functions.
KERNELS = "wavefabric.device.philox"

# One domain for each use, so that no two uses share a stream under one seed.
SYMBOLS, AMPLIFIER, RECEIVER, MIXING, LOADING, COUPLING, GAINS, LASER = 1, 2, 3, 4, 5, 6, 7, 8

# Numba turns uint64 with int64 into float64: every constant is spelt as uint64.
_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_LOW, _32, _2, _3, _5, _6 = (np.uint64(v) for v in (0xFFFFFFFF, 32, 2, 3, 5, 6))
_ONE = np.uint64(1)
_2_TO_MINUS_53 = 2.0**-53
_TWO_PI = 2 * math.pi


def stream(domain: int, a: int, b: int = 0) -> int:
    """Number of the stream for item (a, b) of a use, both in 0 … 2^28 − 1: (row, channel) of SYMBOLS."""
    for value in (a, b):
        if not 0 <= value < 1 << 28:
            raise InputError(f"stream: index {value} given, 0 to {(1 << 28) - 1} allowed")
    return domain << 56 | a << 28 | b


def check_seed(seed: int, key: str = "seed") -> int:
    """Return ``seed`` if it is an integer in 0 … 2^63 − 1, else raise InputError naming ``key``."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 1 << 63:
        raise InputError(f"{key}: {quoted(seed)} given, an integer from 0 to 2^63 - 1 allowed")
    return int(seed)


@numba.njit(inline="always")
def _block(index, high, key):
    """Four 32-bit words (as uint64) of counter ``(index, high)`` under ``key``."""
    c0, c1, c2, c3 = index & _LOW, index >> _32, high & _LOW, high >> _32
    k0, k1 = key & _LOW, key >> _32
    for _ in range(10):
        p0, p1 = _M0 * c0, _M1 * c2
        c0, c1, c2, c3 = (p1 >> _32) ^ c1 ^ k0, p1 & _LOW, (p0 >> _32) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    return c0, c1, c2, c3


@njit(nogil=True)
def philox_uint32(out, seed, stream, offset):
    """Write random words: ``out[i]`` (uint32) is word ``(i + offset) % 4`` of counter ``(i + offset) // 4``.

    ``seed``, ``stream`` and ``offset``, the index of ``out[0]`` in its sequence, are in 0 … 2^63 − 1.
    """
    key, high, start = np.uint64(seed), np.uint64(stream), np.uint64(offset)
    last = ~np.uint64(0)
    w0 = w1 = w2 = w3 = np.uint64(0)
    for i in range(out.size):
        at = start + np.uint64(i)
        if at >> _2 != last or i == 0:
            last = at >> _2
            w0, w1, w2, w3 = _block(last, high, key)
        word = at & _3
        out[i] = np.uint32(w0 if word == 0 else w1 if word == 1 else w2 if word == 2 else w3)


@njit(nogil=True)
def add_complex_normal(out, sigma, seed, stream, offset):
    """Add circular complex Gaussian noise in place: ``out[i] += sigma n``, ``E|n|² = 1``.

    Element ``i`` uses counter ``i + offset`` whole: 53 bits for the radius, 53 for the angle of
    Box and Muller's method, in double precision whatever the type of ``out``
    (G. E. P. Box, M. E. Muller 1958, doi 10.1214/aoms/1177706645). Real and imaginary part each
    have the variance ``sigma²/2``, in the unit of ``out``: complex128 or complex64, shape (n,).
    ``seed``, ``stream`` and ``offset`` are those of `philox_uint32`.
    """
    key, high, start = np.uint64(seed), np.uint64(stream), np.uint64(offset)
    for i in range(out.size):
        w0, w1, w2, w3 = _block(start + np.uint64(i), high, key)
        # (0, 1], so that the logarithm is finite; [0, 1) for the angle.
        radius = sigma * math.sqrt(
            -math.log(float(((w0 >> _5) << np.uint64(26) | (w1 >> _6)) + _ONE) * _2_TO_MINUS_53)
        )
        angle = _TWO_PI * (float((w2 >> _5) << np.uint64(26) | (w3 >> _6)) * _2_TO_MINUS_53)
        out[i] += complex(radius * math.cos(angle), radius * math.sin(angle))
