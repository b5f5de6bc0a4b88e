"""Computes measures of ultrasound exposure, intensity and mechanical index, from a pressure amplitude."""

import math
from typing import Any

from wavefabric.base.arguments import in_unit, positive
from wavefabric.base.errors import require


def mean_intensity(amplitude: Any, density: Any, sound_speed: Any) -> Any:
    """Return the time-averaged intensity p²/(2ρc) of a plane wave, W/m², from its pressure amplitude.

    Arguments, numbers or arrays, are in Pa, kg/m³ and m/s. Where several waves cross, the result is only an
    estimate.
    """
    return amplitude * amplitude / (2 * density * sound_speed)


def mechanical_index(pressure: Any, frequency: float | str, *, depth: float | str = 0.0) -> Any:
    """Return the mechanical index p/√f, with p in MPa and the frequency f in MHz.

    p is the peak rarefactional ``pressure``, a positive number in Pa, after derating by 0.3 dB/(MHz cm) over
    ``depth``, in m of tissue (IEC 62359). ``frequency`` is in Hz. `InputError`: a value is out of range.
    """
    megahertz, metres = positive(frequency, "Hz", "frequency") * 1e-6, in_unit(depth, "m", "depth")
    require(metres >= 0, "depth", depth, "from 0, m")
    return pressure * 1e-6 * 10 ** (-0.3 * megahertz * metres * 1e2 / 20) / math.sqrt(megahertz)
