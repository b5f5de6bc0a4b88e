"""Figures of exposure that follow from a pressure alone."""

import math
from typing import Any

from wavefabric.acoustics.arguments import in_unit, require
from wavefabric.quantities import positive


def mean_intensity(amplitude: Any, density: Any, sound_speed: Any) -> Any:
    """Time-averaged intensity of a plane wave of this pressure amplitude, p²/(2ρc), W/m²; numbers or arrays
    in Pa, kg/m³, m/s. It is reported by convention where waves cross, too."""
    return amplitude * amplitude / (2 * density * sound_speed)


def mechanical_index(pressure: Any, frequency: float | str, *, depth: float | str = 0.0) -> Any:
    """Mechanical index of a peak rarefactional pressure above 0, Pa: p/√f, p in MPa and f in MHz.

    ``depth`` derates p by 0.3 dB/(MHz cm) over so many m of tissue (IEC 62359). `InputError`: out of range.
    """
    megahertz, metres = positive(frequency, "Hz", "frequency") * 1e-6, in_unit(depth, "m", "depth")
    require(metres >= 0, "depth", depth, "from 0, m")
    return pressure * 1e-6 * 10 ** (-0.3 * megahertz * metres * 1e2 / 20) / math.sqrt(megahertz)
