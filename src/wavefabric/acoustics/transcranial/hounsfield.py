"""Converts Hounsfield units to sound speed, density and attenuation, by the porosity of bone.

Bone of porosity Φ = 1 − H/H_bone is a mixture of water and bone without pores (Aubry et al., J. Acoust. Soc.
Am. 113, 84 (2003), doi:10.1121/1.1529663):

    ρ = Φ ρ_water + (1 − Φ) ρ_bone,   c = Φ c_water + (1 − Φ) c_bone,   α = α_bone + √Φ (α_pores − α_bone).

There is no agreed relation. At 1000 HU common relations differ by 5 % in sound speed, 10 % in density and a
factor of 2.7 in attenuation; scanner and kernel alone change sound speed by 17 % (docs/transcranial.md).
"""

import math
from typing import Any, NamedTuple

import numpy as np

from wavefabric.acoustics.medium import Medium
from wavefabric.acoustics.transcranial.ct import CT
from wavefabric.base.arguments import positive, real
from wavefabric.base.errors import choice, require
from wavefabric.runtime.device.user_arrays import real_array


class Tissue(NamedTuple):
    sound_speed: float  # m/s
    density: float  # kg/m³
    attenuation: float  # dB/cm at 1 MHz, proportional to frequency


class Relation(NamedTuple):
    air: Tissue = Tissue(343.0, 1.2, 0.0)
    water: Tissue = Tissue(1500.0, 1000.0, 0.0)
    soft: Tissue = Tissue(1560.0, 1040.0, 0.6)  # brain: Aubry et al. 2022, doi:10.1121/10.0013426
    bone: Tissue = Tissue(3100.0, 2200.0, 0.2)  # without pores
    pores: Tissue = Tissue(1500.0, 1000.0, 8.0)  # limit at porosity Φ = 1
    soft_from: float = -200.0  # HU; below: air
    bone_from: float = 300.0  # HU; below: soft tissue
    dense_from: float = 2000.0  # HU, H_bone: values above are clipped to it


RELATIONS = {"porosity": Relation()}


def media_from_hounsfield(
    ct: Any, *, frequency: float | str, relation: str = "porosity", air: str = "water", alpha_power: float = 2
) -> Medium:
    """Return the medium at the points of a CT, or of the result of `resample`: Hounsfield units, [x, y(, z)].

    Attenuation follows the relation at ``frequency``, Hz; at other frequencies it is proportional to
    f^``alpha_power``. With power 2 absorption needs no transforms and has no dispersion. With powers near 1
    dispersion shifts the sound speed; with 1 itself it is switched off. ``air`` says what points below −200
    HU, around the head and in its cavities, count as: ``"water"`` or ``"air"``. Sound speed and density never
    fall with HU; attenuation jumps up where bone begins and falls towards dense bone. The new arrays have x
    fastest in memory, as in the solver. `InputError`: an argument is not allowed.
    """
    values = ct.values if isinstance(ct, CT) else real_array(ct, "ct")
    require(values.ndim in (1, 2, 3) and values.size, "ct.shape", values.shape, "1 to 3 axes with points")
    choice("relation", relation, tuple(RELATIONS))
    choice("air", air, ("water", "air"))
    power, megahertz = real(alpha_power, "alpha_power"), positive(frequency, "Hz", "frequency") * 1e-6
    require(0 <= power < 3, "medium.alpha_power", alpha_power, "from 0 to below 3")
    law = RELATIONS[relation]
    outside = law.air if air == "air" else law.water
    speed, density, alpha = arrays = [np.empty(values.shape, np.float32, order="F") for _ in range(3)]
    step = max(1, (1 << 20) // math.prod(values.shape[:-1]))
    for first in range(0, values.shape[-1], step):
        part = (..., slice(first, first + step))
        hounsfield = np.asarray(values[part], float)
        require(np.isfinite(hounsfield).all(), "ct", "values that are not finite", "Hounsfield units")
        porosity = 1 - np.clip(hounsfield / law.dense_from, 0, 1)
        kinds = [hounsfield < law.soft_from, hounsfield < law.bone_from]
        for i, weight in enumerate((porosity, porosity, np.sqrt(porosity))):
            bone = law.bone[i] + weight * (law.pores[i] - law.bone[i])
            arrays[i][part] = np.select(kinds, [outside[i], law.soft[i]], bone)
    alpha *= megahertz ** (1 - power)  # α₀ f^y is that of the relation at this frequency
    kind = "stokes" if power == 2 else "power_law"
    return Medium(speed, density, alpha, power, absorption=kind, dispersion=power != 1)
