"""Computes the field of a focused bowl on its axis in closed form, to position a bowl before a run.

Steady waves have the time factor exp(+iωt): a wave that travels along +z is exp(−ikz).
"""

import math
from typing import Any

import numpy as np

from wavefabric.base.arguments import positive
from wavefabric.base.errors import ensure


def bowl_on_axis(z: Any, radius: float, diameter: float, frequency: float, sound_speed: float) -> np.ndarray:
    """Return the steady pressure p/p₀ on the axis of a focused bowl; complex128.

    p₀ = ρcu is the pressure on the bowl's surface. ``z`` are distances from its apex, at least 0. ``radius``
    is its radius of curvature R, ``diameter`` its aperture 2a. Lengths are in m, the frequency in Hz, the
    sound speed in m/s. `InputError`: a number is out of range.

    The Rayleigh integral over the bowl is p/p₀ = R/(R − z) (e^{−ikz} − e^{−ikB}). Here k is the wavenumber,
    h the depth of the bowl (`bowl_depth`), and B = √((z − h)² + a²) the distance of point z from the rim. At
    the focus, z = R, the magnitude is k h; B − z = 2h(R − z)/(B + z) avoids the division by zero there.
    O'Neill, J. Acoust. Soc. Am. 21, 516 (1949), doi:10.1121/1.1906542, equation 3.1.
    """
    frequency = positive(frequency, "Hz", "frequency")
    sound_speed = positive(sound_speed, "m/s", "sound_speed")
    h = bowl_depth(radius, diameter)
    z = np.asarray(z, float)
    k = 2 * np.pi * frequency / sound_speed
    rim = np.hypot(z - h, diameter / 2)
    half_phase = k * h * (radius - z) / (rim + z)
    sinc = np.sinc(half_phase / np.pi)
    return 2j * radius * k * h / (rim + z) * sinc * np.exp(-0.5j * k * (rim + z))


def bowl_depth(radius: float, diameter: float) -> float:
    """Return the depth of a spherical bowl from rim to apex, m; radius of curvature and aperture in m."""
    radius, diameter = positive(radius, "m", "radius"), positive(diameter, "m", "diameter")
    ensure(
        diameter <= 2 * radius,
        "diameter",
        f"{diameter:g} m",
        f"up to {2 * radius:g} m, twice the radius of curvature",
    )
    return radius - math.sqrt(radius**2 - (diameter / 2) ** 2)
