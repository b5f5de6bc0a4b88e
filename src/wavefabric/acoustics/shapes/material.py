"""Defines homogeneous materials, by parameters or by speed and attenuation at one frequency."""

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from wavefabric.acoustics.solver.formulas import neper_coefficient
from wavefabric.base.arguments import in_unit, positive, real
from wavefabric.base.errors import require

#: One neper in dB.
_DB_PER_NEPER = 20 / math.log(10)


@dataclass(frozen=True)
class Material:
    """The material of a shape or a layer; names and units are those of `Medium`.

    ``sound_speed`` in m/s, ``density`` in kg/m³ (or text with a unit), ``alpha_coeff`` in dB/(MHz^y cm),
    ``nonlinearity`` B/A. `InputError`: a number is out of range.
    """

    sound_speed: Any
    density: Any
    alpha_coeff: float = 0.0
    nonlinearity: float = 0.0

    def __post_init__(self) -> None:
        for name, unit in (("sound_speed", "m/s"), ("density", "kg/m^3")):
            object.__setattr__(self, name, positive(getattr(self, name), unit, f"material.{name}"))
        for name in ("alpha_coeff", "nonlinearity"):
            value = in_unit(getattr(self, name), "", f"material.{name}")
            require(0 <= value < math.inf, f"material.{name}", value, "a number from 0")
            object.__setattr__(self, name, value)

    @classmethod
    def at_frequency(
        cls, frequency: Any, sound_speed: Any, density: Any, attenuation: float, alpha_power: float = 2.0
    ) -> Self:
        """Return the power-law absorbing material in which a wave has a given speed and attenuation.

        ``frequency`` in Hz, phase speed c in m/s, ``attenuation`` α in dB/m, ``alpha_power`` y, 2 for Stokes.
        With k = ω/c + iα = |k| exp(iθ) in the equation of `stability.power_law`, c₀ = x c cos θ. The factor x
        is the root nearest to 1 of

            t sin((y−1)θ) x³ + cos((2−y)θ) x² − t sin((y+1)θ) x − cos(yθ) = 0,   t = tan(πy/2).
        """
        omega = 2 * math.pi * positive(frequency, "Hz", "frequency")
        require(1e-3 < omega < 1e15, "frequency", frequency, "1 mHz to 100 THz")
        c, y = positive(sound_speed, "m/s", "sound_speed"), real(alpha_power, "alpha_power")
        require(0 <= y < 3 and y != 1, "alpha_power", y, "from 0 to below 3, other than 1")
        ratio = real(attenuation, "attenuation") / _DB_PER_NEPER * c / omega
        require(0 <= ratio < 0.5, "attenuation", attenuation, "dB/m, from 0 to half a neper a radian")
        angle = math.atan(ratio)
        speed = c * math.cos(angle)  # ω/|k|
        t = math.tan(math.pi * y / 2) if y != 2 else 0.0
        cubic, square = t * math.sin((y - 1) * angle), math.cos((2 - y) * angle)
        # Solve for 1/x: the leading coefficient of that polynomial is never small.
        roots = np.roots([math.cos(y * angle), t * math.sin((y + 1) * angle), -square, -cubic])
        slow = [w for w in roots[np.isreal(roots)].real.tolist() if w > 0 and square * w + cubic > 0]
        require(slow, "alpha_power", y, "further from 1, or less attenuation")
        x = 1 / min(slow, key=lambda w: abs(w - 1))
        c0 = x * speed
        alpha = math.sin(2 * angle) / (2 * x**2 * (square + cubic * x) * speed * (omega * x) ** (y - 1))
        return cls(c0, density, alpha / neper_coefficient(y))
