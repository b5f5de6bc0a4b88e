"""Generate counter-based random numbers, the same on every device: Philox4x32-10.

Element ``i`` of a sequence depends only on ``(seed, stream, i + offset)``, so any window of any sequence can
be generated again, in any order, by any rank. The 64-bit ``seed`` is Philox's key; the low half of its
128-bit counter is the index, the high half the ``stream``. The formulas are in ``philox.h`` of
`wavefabric.runtime.kernels`.

Source: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC11 (2011), doi 10.1145/2063384.2063405; constants and known answers from the Random123 library.
"""

import numpy as np

from wavefabric.base.errors import InputError, quoted
from wavefabric.runtime.kernels.cpu_launch import call_kernel
from wavefabric.runtime.kernels.table import kernel_table

#: Table of the two kernels for ``Device.kernels``, which run on a GPU or on all threads of a CPU.
TABLE = kernel_table(
    """
    items philox_uint32(counted int32s out, long seed, long stream, long offset)
    items add_complex_normal(counted array out, double sigma, long seed, long stream, long offset)
    """,
    "wavefabric.runtime.device",
    "philox.cu",
)

# Each use of random numbers has a domain, so that no two uses with the same seed share a stream.
SYMBOLS, AMPLIFIER, RECEIVER, MIXING, LOADING, COUPLING, GAINS, LASER, RAMAN = range(1, 10)


def stream(domain: int, a: int, b: int = 0) -> int:
    """Return the number of a random stream, different for each use and each pair of indices below 2^28.

    ``domain`` is the use, such as SYMBOLS; ``a`` and ``b`` are indices in it, such as a row and a channel.
    """
    for value in (a, b):
        if not 0 <= value < 1 << 28:
            raise InputError(f"stream: index {value} given, 0 to {(1 << 28) - 1} allowed")
    return domain << 56 | a << 28 | b


def check_seed(seed: int, key: str = "seed") -> int:
    """Return ``seed`` if it is an integer in 0 … 2^63 − 1, else raise InputError naming ``key``."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 1 << 63:
        raise InputError(f"{key}: {quoted(seed)} given, an integer from 0 to 2^63 - 1 allowed")
    return int(seed)


def philox_uint32(out: np.ndarray, seed: int, stream: int, offset: int) -> None:
    """Fill the host array ``out`` (uint32) with random words of Philox4x32-10, on one thread.

    ``out[i]`` is word ``(i + offset) % 4`` of counter ``(i + offset) // 4``. ``seed``, ``stream`` and
    ``offset``, the index of ``out[0]`` in its sequence, are in 0 … 2^63 − 1.
    """
    call_kernel("philox_uint32_double", out, seed, stream, offset)


def add_complex_normal(out: np.ndarray, sigma: float, seed: int, stream: int, offset: int) -> None:
    """Add circular complex Gaussian noise on the host: ``out[i] += sigma n``, ``E|n|² = 1``.

    ``out`` is complex64 or complex128, (n,); real and imaginary part of the noise each have the variance
    ``sigma²/2``. ``seed``, ``stream`` and ``offset`` are as in `philox_uint32`. Element ``i`` uses the 128
    bits of counter ``i + offset`` for radius and angle of Box and Muller's method, in double precision (G. E.
    P. Box, M. E. Muller 1958, doi 10.1214/aoms/1177706645).
    """
    name = "add_complex_normal_float" if out.dtype == np.complex64 else "add_complex_normal_double"
    call_kernel(name, out, float(sigma), seed, stream, offset)
