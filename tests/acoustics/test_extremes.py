"""Extremes of a medium against NumPy's over whole arrays: any shape, number of parts and threads."""

import numpy as np
import pytest

from wavefabric.acoustics import setup_passes
from wavefabric.acoustics.extremes import find_extremes


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_random_media(monkeypatch, threads, dtype):
    monkeypatch.setattr(setup_passes, "threads_for", lambda points: threads)
    rng, shape, y = np.random.default_rng(threads), (5, 6, 7), 1.3
    c, rho, alpha, other = (rng.uniform(1, 1000, shape).astype(dtype) for _ in range(4))
    c[2:4] = 700  # one number in some parts
    result = find_extremes(shape, {"sound_speed": c, "density": rho, "alpha_coeff": alpha, "x": other}, y)
    assert result.ranges["x"] == (other.min(), other.max())
    c, rho, alpha = (each.astype(np.float64) for each in (c, rho, alpha))
    wanted = [rho * c * c, alpha * c**y, alpha * c ** (y + 1), alpha * c ** (y + 2)]
    for got, field in zip([result.stiffness, *result.losses], wanted, strict=True):
        np.testing.assert_allclose(got, (field.min(), field.max()), rtol=1e-14)
    at = np.unravel_index((alpha * c).argmax(), shape)
    assert result.strongest == (c[at], alpha[at])


def test_numbers_and_what_makes_no_sense():
    shape = (2, 3, 4)
    result = find_extremes(shape, {"sound_speed": 1500.0, "density": 1000.0, "alpha_coeff": 0.0}, 1.5)
    assert result.ranges["sound_speed"] == (1500.0, 1500.0)
    assert result.stiffness == (2.25e9, 2.25e9)
    assert result.strongest == (0.0, 0.0)
    one = np.broadcast_to(np.float32(3), shape)
    assert find_extremes(shape, {"sound_speed": one, "density": one}, 1.0).stiffness == (27.0, 27.0)
    bad = np.ones(shape)
    bad[1, 2, 3] = np.nan
    medium = {"sound_speed": bad, "density": np.ones((4, 3, 2)), "nonlinearity": None, "alpha_coeff": 1j}
    result = find_extremes(shape, medium, 1.5)
    assert np.isnan(result.ranges.pop("sound_speed")).all()
    assert not result.ranges
