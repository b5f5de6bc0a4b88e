"""Windows (bell functions) that make a block with its overlaps periodic, for a Fourier basis per block.

A window is 1 on the owned points and falls to 0 over the overlap (Israeli, Vozovoi & Averbuch 1993, J. Sci.
Comput. 8, 135).
"""

from collections.abc import Callable

import numpy as np


def _erf(t: np.ndarray) -> np.ndarray:
    """Return a window's values at t, which rise from 0 at t = 0 to 1 at t = 1.

    With s = 2t − 1 they are ½(1 + erf(2s/√(1−s²))): Boyd 2002 (doi:10.1006/jcph.2002.7023).
    """
    from scipy.special import erf

    s = 2 * t - 1
    return (1 + erf(2 * s / np.sqrt(1 - s * s))) / 2


_RISES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "none": np.ones_like,
    # cos² of a quarter wave.
    "cosine": lambda t: np.sin(np.pi / 2 * t) ** 2,
    # sin² of two nested sines; seven derivatives vanish at both ends.
    "nested-sine": lambda t: np.sin(np.pi / 4 * (1 + np.sin(np.pi / 2 * np.sin(np.pi * (t - 0.5))))) ** 2,
    "erf": _erf,
}
#: Names of the windows.
WINDOWS = tuple(_RISES)


def window(name: str, owned: int, overlap: int) -> np.ndarray:
    """Return a window's factors along one axis of a block, (owned + 2 overlap,); ``"none"`` is 1 everywhere.

    In an overlap the factors are r(t), with t = (i + ½)/overlap at point i, counted from the outer edge. The
    function r rises from 0 to 1, such that r(t) + r(1 − t) = 1.
    """
    rise = _RISES[name]((np.arange(overlap) + 0.5) / overlap) if overlap else np.ones(0)
    return np.concatenate([rise, np.ones(owned), rise[::-1]])
