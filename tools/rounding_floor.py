"""Error of a transform forth and back in single precision where only the roundings of values spoil it.

    python tools/rounding_floor.py [--radices 16,16,2,16,16,16]

Relative L2 errors of noise: of a transform forth, and of forth and back. First with twiddle factors and
constants exact and each product rounded once, then with factors rounded to single precision.
"""

from __future__ import annotations

import argparse
import math

import numpy as np


def product(a: np.ndarray, factor, exact: bool) -> np.ndarray:
    """a times a factor, rounded once; the factor itself is rounded before unless ``exact``."""
    factor = np.asarray(factor, complex)
    if not exact:
        factor = factor.astype(np.complex64)
    return (a.astype(complex) * factor).astype(np.complex64)


def butterfly(v: list, exact: bool) -> list:
    """Sums over j of v[j] exp(−2πi j k/R), by halves."""
    r, half = len(v), len(v) // 2
    if r == 1:
        return v
    upper = [v[j] + v[j + half] for j in range(half)]
    lower = [v[j] - v[j + half] for j in range(half)]
    for j in range(1, half):
        if 4 * j == r:
            lower[j] = (lower[j].imag - 1j * lower[j].real).astype(np.complex64)  # exact
        else:
            lower[j] = product(lower[j], np.exp(-2j * np.pi * j / r), exact)
    out = [*v]
    out[0::2], out[1::2] = butterfly(upper, exact), butterfly(lower, exact)
    return out


def transform(v: np.ndarray, radices: tuple[int, ...], exact: bool) -> np.ndarray:
    """Along the last axis, a stage a radix."""
    if not radices:
        return v
    n, r = v.shape[-1], radices[0]
    stride = n // r
    parts = [np.ascontiguousarray(v[..., j * stride : (j + 1) * stride]) for j in range(r)]
    out = np.empty_like(v)
    for k, part in enumerate(butterfly(parts, exact)):
        if k > 0 and stride > 1:
            part = product(part, np.exp(-2j * np.pi * k * np.arange(stride) / n), exact)
        out[..., k::r] = transform(part, radices[1:], exact)
    return out


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--radices", default="16,16,2,16,16,16", help="powers of 2")
    radices = tuple(map(int, parser.parse_args().radices.split(",")))
    n = math.prod(radices)
    noise = np.random.default_rng(0).standard_normal((n, 2)) @ [1, 1j]
    sent = noise.astype(np.complex64)
    wanted = np.fft.fft(sent.astype(complex))
    print(f"{n} points, radices {'·'.join(map(str, radices))}: forth; forth and back")
    for exact, name in ((True, "exact factors"), (False, "rounded factors")):
        there = transform(sent, radices, exact)
        again = transform(there.conj(), radices, exact).conj() / n
        errors = [np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in ((there, wanted), (again, sent))]
        print(f"{name}: {errors[0]:.3g}; {errors[1]:.3g}")


if __name__ == "__main__":
    main()
