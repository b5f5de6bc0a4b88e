"""Defines thermal properties of tissue, and computes the power absorbed from a steady pressure."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from wavefabric.acoustics.medium import Medium
from wavefabric.base.arguments import per_axis, positive, typed
from wavefabric.base.errors import InputError, require
from wavefabric.runtime.device.user_arrays import real_array

_UNITS = {
    "density": "kg/m^3",
    "specific_heat": "J/(kg K)",
    "conductivity": "W/(m K)",
    "perfusion_rate": "1/s",
}


@dataclass(frozen=True)
class ThermalMedium:
    """Holds the properties of tissue in Pennes's equation: numbers, or arrays of the grid's shape.

    `InputError`: a value is not finite or not above 0; perfusion may be 0, blood have any temperature.

    Parameters
    ----------
    density, specific_heat, conductivity
        ρ, kg/m³; C, J/(kg K); k, W/(m K).
    perfusion_rate
        w, 1/s: volume of blood that flows through a volume of tissue per second.
    blood_density, blood_specific_heat, blood_temperature : float
        kg/m³, J/(kg K), °C.
    """

    density: Any
    specific_heat: Any
    conductivity: Any
    perfusion_rate: Any = 0.0
    blood_density: float = 1050.0
    blood_specific_heat: float = 3617.0
    blood_temperature: float = 37.0

    def __post_init__(self) -> None:
        for name, unit in _UNITS.items():
            values = real_array(getattr(self, name), f"thermal.{name}")
            low = float(np.min(values)) if values.size else math.nan
            right = np.isfinite(values).all() and (low >= 0 if name == "perfusion_rate" else low > 0)
            require(right, f"thermal.{name}", low, f"{unit}, finite, above 0 (perfusion from 0)")
            object.__setattr__(self, name, values.astype(float) if values.ndim else float(values))
        for name in ("blood_density", "blood_specific_heat"):
            positive(getattr(self, name), "", f"thermal.{name}")
        temperature = self.blood_temperature
        right = isinstance(temperature, int | float) and math.isfinite(temperature)
        require(right, "thermal.blood_temperature", temperature, "°C")

    @property
    def uniform(self) -> bool:
        """Whether the tissue is the same everywhere."""
        return all(np.ptp(getattr(self, name)) == 0 for name in _UNITS)

    @property
    def heat_capacity(self) -> Any:
        """Return the volumetric heat capacity ρC, J/(m³ K)."""
        return self.density * self.specific_heat

    @property
    def blood_cooling(self) -> Any:
        """Return the cooling by blood per kelvin, ρ_b C_b w, W/(m³ K)."""
        return self.blood_density * self.blood_specific_heat * self.perfusion_rate


@typed
def absorbed_power(medium: Medium, amplitude: Any, frequencies: Any) -> np.ndarray:
    """Return the heat per volume, W/m³, that plane waves of steady pressure produce: Σ 2α(f) |p_f|²/(2ρc).

    ``amplitude``, Pa, is (frequencies, …) as in ``p_amp_all``, or (…) for one frequency, where … is the shape
    of the medium's arrays; ``frequencies`` are in Hz. All attenuation α₀ f^y counts as absorption, none
    as scattering. `InputError`: shapes or frequencies do not fit, or the medium is lossless.
    """
    if medium.alpha_coeff is None:
        raise InputError("medium.alpha_coeff: None; allowed: an absorption, without which nothing is heated")
    tones = [positive(each, "Hz", "frequencies") for each in per_axis(frequencies, 1)]
    fields = real_array(amplitude, "amplitude")
    parameters = (medium.alpha_coeff, medium.density, medium.sound_speed)
    shapes = {np.shape(each) for each in parameters} - {()}
    single = len(tones) == 1 and fields.shape[:1] != (1,)
    fields = fields[None] if single else fields
    right = len(fields) == len(tones) and shapes <= {fields.shape[1:]}
    allowed = f"one field for each of {len(tones)} frequencies, as the medium"
    require(right, "amplitude", fields.shape, allowed)
    neper = 100 * math.log(10) / 20  # Np/m per dB/cm
    power = np.zeros(fields.shape[1:])
    for field, tone in zip(fields, tones, strict=True):
        power += (tone * 1e-6) ** float(medium.alpha_power or 0.0) * np.square(field, dtype=float)
    return power * (neper * medium.alpha_coeff / (medium.density * medium.sound_speed))
