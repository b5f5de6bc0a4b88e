"""What is left when the step goes to zero: Richardson's extrapolation from several steps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wavefabric.base.errors import InputError


def richardson(steps: Sequence[float], values: ArrayLike, order: float) -> NDArray[np.float64]:
    """Value at step zero of v(h) = v₀ + c hᵖ.

    From two steps this is Richardson's rule, v₀ = (r^p v(h/r) − v(h))/(r^p − 1); from more it is the straight
    line in hᵖ of least squares, which averages over the rounding or the scatter of the values. See
    L. F. Richardson, Phil. Trans. R. Soc. A 210, 307 (1911), doi 10.1098/rsta.1911.0009.

    Parameters
    ----------
    steps : sequence of float
        At least two different steps h, all positive, in any unit.
    values : array_like, shape (len(steps), ...)
        What was found with each.
    order : float
        p > 0: the order in which the error falls.

    Returns
    -------
    ndarray, shape of one value
        v₀.

    Raises
    ------
    InputError
        If there are fewer than two different steps, a step or the order is not positive, or shapes disagree.
    """
    h, v = np.asarray(steps, dtype=float), np.asarray(values, dtype=float)
    if h.ndim != 1 or len(np.unique(h)) < 2 or not (np.isfinite(h).all() and (h > 0).all()):
        raise InputError(f"steps: {list(steps)} given; allowed: two or more different positive steps")
    if not (math.isfinite(order) and order > 0):
        raise InputError(f"order: {order!r} given; allowed: a positive order")
    if len(v) != len(h):
        raise InputError(f"values: {len(v)} given; allowed: one for each of {len(h)} steps")
    x = h**order
    x -= x.mean()
    at_mean = v.mean(axis=0)
    slope = np.tensordot(x, v - at_mean, axes=1) / (x**2).sum()
    return np.asarray(at_mean - slope * (h**order).mean())


def observed_order(steps: Sequence[float], values: Sequence[float]) -> float | None:
    """Order in which three values fall with steps h, h/r, h/r²: log((v₁ − v₂)/(v₂ − v₃))/log r.

    None if the steps have no common ratio, or the differences change sign or vanish.
    """
    pairs = sorted(zip(steps, values, strict=True), reverse=True)
    if len(pairs) != 3 or pairs[2][0] <= 0:
        return None
    ratios = [a[0] / b[0] for a, b in itertools.pairwise(pairs)]
    changes = [a[1] - b[1] for a, b in itertools.pairwise(pairs)]
    if ratios[0] <= 1 or not math.isclose(ratios[0], ratios[1], rel_tol=1e-6):
        return None
    if changes[1] == 0 or changes[0] / changes[1] <= 0:
        return None
    return math.log(changes[0] / changes[1]) / math.log(ratios[0])
