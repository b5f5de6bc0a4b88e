"""Estimates the error of local Fourier bases by overlap, window and medium, from measured tables.

The tables are those of docs/ranks.md (Accuracy): relative L2 errors of the pressure against one rank or, for
point sources, the largest difference from k-Wave's results.
"""

import math

import numpy as np

from wavefabric.acoustics.decomposition.decompose import Decomposition
from wavefabric.acoustics.problem import Problem

#: Overlaps in points, and errors of smooth fields (Gaussian, σ = 2Δx, 400 steps, 2×2 blocks) by window.
_OVERLAPS = (2, 4, 8, 12, 16, 20, 32)
_SMOOTH = {
    "none": (4.1e-2, 1.0e-2, 2.7e-3, 1.2e-3, 7.2e-4, 4.7e-4, 1.9e-4),
    "cosine": (1.3e-1, 3.0e-2, 7.5e-3, 3.3e-3, 1.9e-3, 1.2e-3, 4.7e-4),
    "nested-sine": (9.1e-2, 1.0e-2, 4.3e-4, 1.9e-5, 1.4e-6, 1.6e-7, 3.6e-9),
    "erf": (2.9e-2, 1.1e-2, 4.4e-4, 9.8e-5, 1.3e-5, 5.1e-6, 2.1e-7),
}
#: Smallest errors, by overlap, with fractional Laplacians (non-local), and with point sources.
_POWER_LAW = {4: 4.0e-3, 8: 1.0e-3, 16: 3.7e-4}
_POINTS = {8: 6.0e-3, 16: 2.8e-3}


def overlap_error(options: Decomposition, problem: Problem) -> float:
    """Return the relative error to expect, rounded up to a power of ten; 0 with a global Fourier basis."""
    if options.kind == "global":
        return 0.0
    error = _at(dict(zip(_OVERLAPS, _SMOOTH[options.bell], strict=True)), options.overlap)
    if problem.absorption == "power_law":
        error = max(error, _at(_POWER_LAW, options.overlap))
    if any((problem.pressure_source, problem.velocity_source, problem.transducer)):
        error = max(error, _at(_POINTS, options.overlap))
    return 10.0 ** math.ceil(math.log10(error) - 1e-9)


def _at(table: dict[int, float], overlap: int) -> float:
    """Interpolate an error table at ``overlap``, linearly in both logarithms."""
    x, y = np.log(list(table)), np.log(list(table.values()))
    return math.exp(np.interp(math.log(overlap), x, y))
