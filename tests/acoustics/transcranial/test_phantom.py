"""The head of our own: its layers have the volumes and thicknesses that were asked for."""

import numpy as np
import pytest

from wavefabric.acoustics import synthetic_head
from wavefabric.acoustics.transcranial.phantom import HOUNSFIELD
from wavefabric.base.errors import InputError

LAYERS = (2e-3, 1.5e-3, 2e-3, 1.2e-3)


@pytest.mark.parametrize("spacing", [0.5e-3, 0.8e-3])
def test_layers_of_a_sphere_have_their_volumes(spacing):
    """Σ (HU − HU of air) is that of the spheres within each other: partial volumes count right."""
    radius = 0.018
    head = synthetic_head(spacing, semi_axes=(radius,) * 3, thickness=LAYERS, variation=0)
    radii = radius - np.cumsum([0, *LAYERS])
    expected = np.sum(np.diff(HOUNSFIELD) * 4 / 3 * np.pi * radii**3)
    assert np.sum(head.values - HOUNSFIELD[0], dtype=float) * spacing**3 == pytest.approx(expected, rel=2e-3)
    centre = np.array(head.values.shape) // 2
    assert head.values[tuple(centre)] == HOUNSFIELD[-1]
    np.testing.assert_allclose(head.affine @ (*centre, 1), (0, 0, 0, 1), atol=1e-12)


@pytest.mark.slow
def test_profile_through_the_skull_is_that_of_cells():
    head = synthetic_head("0.2 mm", semi_axes=(0.012, 0.012, 0.012), thickness=LAYERS, variation=0)
    nx, ny, nz = (n // 2 for n in head.values.shape)
    profile = head.values[nx:, ny, nz]
    fine = (np.arange(len(profile) * 200) + 0.5) / 200 - 0.5  # 200 samples a voxel
    depth = 0.012 - fine * 2e-4
    exact = np.array(HOUNSFIELD)[np.searchsorted(np.cumsum([0, *LAYERS]), depth)]
    np.testing.assert_allclose(profile, exact.reshape(-1, 200).mean(axis=1), atol=20)


@pytest.mark.slow
@pytest.mark.parametrize("axis", [2, *(pytest.param(each, marks=pytest.mark.slow) for each in (0, 1))])
def test_thicknesses_vary_within_bounds(axis):
    head = synthetic_head("0.25 mm", semi_axes=("14 mm", "17 mm", "15 mm"), thickness=LAYERS, variation=0.3)
    line = np.moveaxis(head.values, axis, 0)[:, *(n // 2 for n in np.delete(head.values.shape, axis))]
    half = line[len(line) // 2 :]
    bone = np.sum(half > 370) * 0.25e-3  # half-way from soft tissue to diploë
    assert 0.6 * sum(LAYERS[1:]) < bone < 1.4 * sum(LAYERS[1:])
    assert half[0] == HOUNSFIELD[-1]
    assert half[-1] == HOUNSFIELD[0]
    assert np.count_nonzero(np.diff(np.sign(half - 1200))) == 4  # two tables


def test_the_same_seed_makes_the_same_head():
    one, same, other = (
        synthetic_head(1e-3, semi_axes=(0.015, 0.018, 0.016), thickness=LAYERS, seed=seed).values
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert np.max(np.abs(one - other)) > 100
    assert one.flags.f_contiguous


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variation": 0.6}, "variation: 0.6; allowed: from 0 to 0.5"),
        ({"semi_axes": (0.01, 0.02, 0.02)}, "semi_axes: .*above 0.0181 m"),
        ({"thickness": (1e-3, 0.0, 1e-3, 1e-3)}, "thickness: .*above 0, m"),
        ({"thickness": (1e-3, 1e-3)}, "thickness: .*4 lengths"),
        ({"seed": -1}, "seed: -1"),
        ({"spacing": 0.0}, "spacing: 0.0 m given; allowed: a positive number"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        synthetic_head(**{"spacing": 2e-3, **options})
