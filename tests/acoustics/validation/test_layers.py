"""A plane pulse through a plate of bone, with echoes inside it, against the plate's closed form."""

import closed_forms
import numpy as np
import pytest

from wavefabric.acoustics import Grid, Medium, Sensor, Source, simulate

WATER, BONE = (1500.0, 1000.0), (2800.0, 1850.0)  # m/s, kg/m³
FREQUENCIES = np.array([0.3e6, 0.5e6, 0.7e6])
THICKNESS = 4e-3


def transmission(frequency, alpha_coeff):
    """Pressure behind the plate over that without it (Brekhovskikh, Waves in Layered Media, chapter 1)."""
    k = 2 * np.pi * frequency / np.array([WATER[0], BONE[0]])[:, None]
    # Stokes: p = c²(1 + τ∂ₜ)ρ with ωτ = 2α/k, exactly; the losses are not small here.
    loss = np.array([0, 1])[:, None] * 2 * closed_forms.attenuation(frequency, alpha_coeff, 2.0) / k
    k = k / np.sqrt(1 + 1j * loss)
    z = 2 * np.pi * frequency * np.array([WATER[1], BONE[1]])[:, None] / k
    phase = k[1] * THICKNESS
    plate = 1 / (np.cos(phase) + 0.5j * (z[0] / z[1] + z[1] / z[0]) * np.sin(phase))
    return plate * np.exp(1j * k[0] * THICKNESS)


def through(plate, alpha_coeff):
    """Spectrum 20 mm behind where the plate is, or would be."""
    grid = Grid((512, 2), 0.2e-3, pml_size=(20, 0))
    x = grid.coordinates[0]
    inside = np.abs(x) < THICKNESS / 2  # A point on each edge of the plate belongs to the water.
    inside |= np.isclose(x, THICKNESS / 2)
    fields = [
        np.repeat(np.where(inside & plate, b, w)[:, None], 2, 1) for w, b in zip(WATER, BONE, strict=True)
    ]
    pulse = np.exp(-(((x + 20e-3) / 0.5e-3) ** 2))
    mask = np.zeros(grid.shape, bool)
    mask[356, 0] = True
    result = simulate(
        grid,
        Medium(
            *fields,
            alpha_coeff=np.repeat(np.where(inside & plate, alpha_coeff, 0.0)[:, None], 2, 1),
            absorption="stokes",
            reference_speed=WATER[0],  # The same in both runs, so that time steps in water cancel.
        ),
        Source(p0=np.repeat(pulse[:, None], 2, 1), smooth=False),
        Sensor(mask=mask),
        dt=10e-9,
        t_end=58e-6,
        precision="double",
        device="cpu",
        threads=1,
    )
    return np.exp(-2j * np.pi * np.outer(FREQUENCIES, result.time)) @ result["p"][0]


@pytest.mark.slow
@pytest.mark.parametrize("alpha_coeff", [0.0, 16.0])  # dB/(MHz² cm); 16 is 4 dB/cm at 500 kHz
def test_transmission_of_a_plate(alpha_coeff):
    result = through(True, alpha_coeff) / through(False, 0.0)
    wanted = transmission(FREQUENCIES, alpha_coeff)
    np.testing.assert_allclose(result, wanted, atol=0.01)
