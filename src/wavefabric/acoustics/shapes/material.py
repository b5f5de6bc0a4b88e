"""A homogeneous material, by its parameters or by how a wave of one frequency travels in it."""

import math
from dataclasses import dataclass
from typing import Any, Self

from wavefabric.acoustics.arguments import in_unit, positive, real, require

#: dB/(MHz² cm) of one Np/(rad²/s² m) of a quadratic law.
_DB_PER_NEPER = 20 / math.log(10)


@dataclass(frozen=True)
class Material:
    """What fills a shape or a layer; the names and units are those of `Medium`.

    ``sound_speed`` in m/s, ``density`` in kg/m³ (or text with a unit), ``alpha_coeff`` in dB/(MHz^y cm),
    ``nonlinearity`` B/A. `InputError`: a number out of its range.
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
    def at_frequency(cls, frequency: Any, sound_speed: Any, density: Any, attenuation: float) -> Self:
        """The material with Stokes absorption in which a wave has this speed and attenuation.

        ``frequency`` in Hz, phase speed c in m/s, ``attenuation`` α in dB/m. Stokes absorption has
        k² = ω²/(c₀²(1 − iωτ)); k = ω/c + iα gives τ and c₀, which differs from c by parts (αc/ω)².
        """
        omega = 2 * math.pi * positive(frequency, "Hz", "frequency")
        c = positive(sound_speed, "m/s", "sound_speed")
        alpha = real(attenuation, "attenuation") / _DB_PER_NEPER
        ratio = alpha * c / omega
        require(0 <= ratio < 0.5, "attenuation", attenuation, "dB/m, from 0 to half a neper a radian")
        slow = 2 * ratio / (1 - ratio**2)  # ωτ
        c0 = c / math.sqrt((1 - ratio**2) * (1 + slow**2))
        # α = τω²/(2c₀) is what `Medium` calls α₀ f², f in MHz, α in dB/cm.
        per_square = slow / (2 * omega * c0) * (2e6 * math.pi) ** 2
        return cls(c0, density, per_square * _DB_PER_NEPER / 100)
