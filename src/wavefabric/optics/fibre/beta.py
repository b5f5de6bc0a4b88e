"""Convert dispersion coefficients β1, β2, …, given as numbers or as text with units, to SI arrays."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wavefabric.base.arguments import numbers
from wavefabric.base.errors import InputError
from wavefabric.base.units import show

#: Units of β1, β2, …, up to the highest order that a fibre may have.
BETA_UNITS = ("s/m", *(f"s^{n}/m" for n in range(2, 16)))


def dispersion_coefficients(value: Any) -> NDArray[np.float64]:
    """Convert β1, β2, … of each mode (numbers in SI, or text with units) to an array (modes, orders)."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
        return np.array(value, dtype=float)
    rows = list(value) if isinstance(value, (list, tuple, np.ndarray)) else []
    if not rows or not all(isinstance(row, (list, tuple, np.ndarray)) and np.ndim(row) == 1 for row in rows):
        raise InputError(f"beta: {show(value)} given; allowed: a list of β1, β2, … for each mode")
    if len({len(row) for row in rows}) != 1 or not 1 <= len(rows[0]) <= len(BETA_UNITS):
        counts = ", ".join(str(len(row)) for row in rows[:8])
        raise InputError(f"beta: rows of {counts} values; allowed: β1 … β15, as many for all modes")
    columns = zip(zip(*rows, strict=True), BETA_UNITS, strict=False)
    return np.stack([numbers(list(column), unit, "beta") for column, unit in columns], axis=1)


def phases_of(beta: NDArray[np.float64], w: Any) -> NDArray[np.float64]:
    """Return Σ β_n ω^n/n!, rad/m, of each mode's β1, β2, … (modes, orders) at ω = ``w``, rad/s.

    The shape is (modes,) at one frequency, (modes, F) at F.
    """
    orders = np.arange(1, beta.shape[1] + 1)
    return beta @ (np.power.outer(w, orders) / [math.factorial(n) for n in orders]).T
