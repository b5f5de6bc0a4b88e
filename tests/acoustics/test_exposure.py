"""Intensity and mechanical index."""

import numpy as np
import pytest

from wavefabric.acoustics import mean_intensity, mechanical_index
from wavefabric.base.errors import InputError


def test_intensity_is_that_of_a_plane_wave():
    assert mean_intensity(1e6, 1000.0, 1500.0) == pytest.approx(1e12 / 3e6)  # 33.3 W/cm²
    time = np.arange(1000) / 1000
    pressure = 2e5 * np.cos(2 * np.pi * time)
    velocity = pressure / (1040 * 1560)
    assert mean_intensity(2e5, 1040, 1560) == pytest.approx(np.mean(pressure * velocity))
    amplitude = np.array([[1e5, 3e5]])
    np.testing.assert_allclose(
        mean_intensity(amplitude, 1e3, 1.5e3)[0, 1] / mean_intensity(1e5, 1e3, 1.5e3), 9
    )


def test_mechanical_index():
    assert mechanical_index(1.9e6, "1 MHz") == pytest.approx(1.9)
    assert mechanical_index(1e6, "250 kHz") == pytest.approx(2.0)
    np.testing.assert_allclose(mechanical_index(np.array([1e6, 2e6]), 4e6), [0.5, 1.0])
    # 0.3 dB/(MHz cm) · 2 MHz · 10 cm = 6 dB
    assert mechanical_index(1e6, 2e6, depth="10 cm") == pytest.approx(10 ** (-6 / 20) / np.sqrt(2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"frequency": 0.0}, "frequency: 0.0 Hz given; allowed: a positive number"),
        ({"frequency": 1e6, "depth": -0.01}, "depth: -0.01; allowed: from 0, m"),
    ],
)
def test_numbers_out_of_range(options, message):
    with pytest.raises(InputError, match=message):
        mechanical_index(1e6, **options)
