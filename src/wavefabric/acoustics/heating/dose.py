"""Thermal dose: minutes at 43 °C that do as much (Sapareto & Dewey 1984,
doi:10.1016/0360-3016(84)90379-1)."""

from typing import Any

import numpy as np

from wavefabric.acoustics.arguments import real_array, require
from wavefabric.quantities import positive

#: Factor a degree from 43 °C on, and below; nothing counts below 39 °C.
HOT, WARM = 0.5, 0.25
THRESHOLD, REFERENCE = 39.0, 43.0


def dose_rate(temperature: Any, xp: Any = np) -> Any:
    """R^(43 − T) of temperatures, °C: minutes at 43 °C a minute."""
    below = REFERENCE - temperature
    rate = xp.where(below <= 0, HOT**below, WARM**below)
    return xp.where(temperature < THRESHOLD, 0.0, rate)


def cem43(temperature: Any, dt: float | str) -> np.ndarray:
    """Cumulative equivalent minutes at 43 °C of series (…, times) of temperatures, °C, ``dt`` s apart.

    The rate is integrated by trapezoids. `InputError`: no real numbers, a time step not above 0.
    """
    series = real_array(temperature, "temperature")
    require(series.ndim, "temperature", temperature, "a series (…, times)")
    minutes = positive(dt, "s", "dt") / 60
    return minutes * np.trapezoid(dose_rate(series.astype(float)), axis=-1)
