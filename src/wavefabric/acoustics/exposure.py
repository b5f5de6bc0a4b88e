"""Computes measures of ultrasound exposure, intensity and mechanical index, from a pressure amplitude."""

import math
from typing import Any

from wavefabric.base.arguments import in_unit, positive
from wavefabric.base.errors import require


def mean_intensity(amplitude: Any, density: Any, sound_speed: Any) -> Any:
    """Return the time-averaged intensity p²/(2ρc) of a plane wave, W/m², from its pressure amplitude.

    Arguments are numbers or arrays in Pa, kg/m³, m/s. By convention the formula is also used where waves
    cross.
    """
    return amplitude * amplitude / (2 * density * sound_speed)


def mechanical_index(pressure: Any, frequency: float | str, *, depth: float | str = 0.0) -> Any:
    """Return the mechanical index p/√f, p in MPa, f in MHz; ``pressure``: peak rarefactional, positive, Pa.

    p is ``pressure`` derated by 0.3 dB/(MHz cm) over ``depth``, m of tissue (IEC 62359). `InputError`: a
    value is out of range.
    """
    megahertz, metres = positive(frequency, "Hz", "frequency") * 1e-6, in_unit(depth, "m", "depth")
    require(metres >= 0, "depth", depth, "from 0, m")
    return pressure * 1e-6 * 10 ** (-0.3 * megahertz * metres * 1e2 / 20) / math.sqrt(megahertz)
