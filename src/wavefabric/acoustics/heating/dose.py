"""Computes the thermal dose: equivalent minutes at 43 °C (Sapareto & Dewey 1984,
doi:10.1016/0360-3016(84)90379-1).
"""

from typing import Any

import numpy as np

from wavefabric.base.arguments import positive
from wavefabric.base.errors import require
from wavefabric.runtime.device.user_arrays import real_array

#: Factor R per degree from 43 °C on, and below; the dose rate is 0 below 39 °C.
HOT, WARM = 0.5, 0.25
THRESHOLD, REFERENCE = 39.0, 43.0


def dose_rate(temperature: Any, xp: Any = np) -> Any:
    """Return the dose rate at temperatures T, °C, in equivalent minutes at 43 °C per minute.

    It is R^(43 − T), with R = 0.5 from 43 °C on and 0.25 below, and 0 below 39 °C. ``xp`` is NumPy or CuPy.
    """
    below = REFERENCE - temperature
    rate = xp.where(below <= 0, HOT**below, WARM**below)
    return xp.where(temperature < THRESHOLD, 0.0, rate)


def cem43(temperature: Any, dt: float | str) -> np.ndarray:
    """Return the cumulative equivalent minutes at 43 °C of temperatures (…, times), °C, ``dt`` s apart.

    The dose rate is integrated by the trapezoidal rule. `InputError`: no real numbers, or ``dt`` not above 0.
    """
    series = real_array(temperature, "temperature")
    require(series.ndim, "temperature", temperature, "a series (…, times)")
    minutes = positive(dt, "s", "dt") / 60
    return minutes * np.trapezoid(dose_rate(series.astype(float)), axis=-1)
