"""The figures of focal fields, against Gaussian fields and the closed form of a focused bowl."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from wavefabric.acoustics import Grid, Medium, focus_of
from wavefabric.acoustics.focused_bowl import bowl_on_axis
from wavefabric.base.errors import InputError

SIGMA = np.array([4e-3, 1e-3, 1.5e-3])
CENTRE = np.array([0.23e-3, -0.13e-3, 0.05e-3])
HALF = np.sqrt(2 * np.log(10) * np.array([3, 6]) / 20)  # half widths of a Gaussian at −3 and −6 dB, in σ


def gaussian(grid, centre=CENTRE, sigma=SIGMA):
    axes = np.meshgrid(*grid.coordinates, indexing="ij")
    return 2e6 * np.exp(-sum((x - c) ** 2 / (2 * s**2) for x, c, s in zip(axes, centre, sigma, strict=False)))


def grid_of(h, dimensions=3, **options):
    return Grid([int(7 * s / h) | 1 for s in SIGMA[:dimensions]], h, pml_size=0, **options)


def errors(h):
    grid = grid_of(h)
    focus = focus_of(gaussian(grid), grid)
    volume = 4 / 3 * math.pi * np.prod(SIGMA * HALF[1])
    return {
        "pressure": abs(focus.pressure / 2e6 - 1),
        "position": np.max(np.abs(np.array(focus.position) - CENTRE) / SIGMA),
        "−3 dB": np.max(np.abs(focus.widths_3db / (2 * HALF[0] * SIGMA) - 1)),
        "−6 dB": np.max(np.abs(focus.widths_6db / (2 * HALF[1] * SIGMA) - 1)),
        "volume": abs(focus.volume / volume - 1),
    }


def test_a_gaussian_converges_in_the_second_order():
    coarse, fine = errors(0.6e-3), errors(0.15e-3)
    limits = {"pressure": 3e-5, "position": 2e-4, "−3 dB": 2e-3, "−6 dB": 2e-3, "volume": 3e-3}
    assert all(fine[name] < limit for name, limit in limits.items()), fine
    # A quarter of the spacing leaves a sixteenth; where the lines cross the level decides about the rest.
    assert all(fine[name] < coarse[name] / 6 or fine[name] < 1e-4 for name in limits), (coarse, fine)


@pytest.mark.parametrize("h", [0.4e-3, 0.1e-3])
def test_axisymmetric_and_plane_regions(h):
    plane, ring = grid_of(h, 2), Grid((int(28e-3 / h), int(4e-3 / h)), h, pml_size=0, axisymmetric=True)
    area = math.pi * np.prod(SIGMA[:2] * HALF[1])
    tolerance = 0.25 * (h / 1e-3) ** 2
    flat = focus_of(gaussian(plane), plane)
    assert (flat.volume, flat.volume_unit) == (pytest.approx(area, rel=tolerance), "m²")
    round_ = focus_of(gaussian(ring, (CENTRE[0], 0.0)), ring)
    volume = 4 / 3 * math.pi * SIGMA[0] * SIGMA[1] ** 2 * HALF[1] ** 3
    assert (round_.volume, round_.volume_unit) == (pytest.approx(volume, rel=tolerance), "m³")
    assert round_.position == (pytest.approx(CENTRE[0], abs=1e-6), 0.0)
    np.testing.assert_allclose(round_.widths_6db, 2 * HALF[1] * SIGMA[:2], rtol=0.01)


def test_a_ring_about_the_axis():
    grid = Grid((201, 100), 1e-4, pml_size=0, axisymmetric=True)
    focus = focus_of(gaussian(grid, (0.0, 5e-3), (1e-3, 0.5e-3)), grid)
    assert focus.position == pytest.approx((0.0, 5e-3), abs=1e-7)
    # Pappus: the area of the ellipse, times the way of its centre around the axis.
    ellipse = math.pi * 1e-3 * 0.5e-3 * HALF[1] ** 2
    assert focus.volume == pytest.approx(2 * math.pi * 5e-3 * ellipse, rel=3e-3)
    assert focus.widths_6db[1] == pytest.approx(2 * HALF[1] * 0.5e-3, rel=3e-3)


def test_length_of_the_focus_of_a_bowl():
    bowl = (64e-3, 64e-3, 5e5, 1500.0)  # of the ITRUSST benchmark
    grid = Grid((1200,), 1e-4, pml_size=0)

    def level(z):
        return abs(bowl_on_axis(z, *bowl))

    focus = focus_of(level(grid.coordinates[0] + 0.06), grid)
    fine = np.linspace(0.04, 0.07, 300001)
    peak = fine[np.argmax(level(fine))]
    assert focus.position[0] + 0.06 == pytest.approx(peak, abs=2e-6)
    assert focus.pressure == pytest.approx(level(peak), rel=1e-6)
    for width, decibels in ((focus.widths_3db[0], 3), (focus.widths_6db[0], 6)):
        cut = level(peak) * 10 ** (-decibels / 20)
        ends = [brentq(lambda z, cut=cut: level(z) - cut, *span) for span in ((0.035, peak), (peak, 0.085))]
        assert width == pytest.approx(ends[1] - ends[0], rel=1e-5)
    assert focus.volume == pytest.approx(focus.widths_6db[0], rel=1e-4)  # a line's region is its width


# --- Where, and what of it ---------------------------------------------------------------------------


def test_the_peak_is_looked_for_inside():
    grid = grid_of(0.3e-3)
    brain, skull = gaussian(grid), 3 * gaussian(grid, (-9e-3, 0, 0), (5e-4,) * 3)
    x = grid.coordinates[0][:, None, None] + np.zeros(grid.shape)
    assert focus_of(brain + skull, grid).position[0] == pytest.approx(-9e-3, abs=1e-4)
    inside = focus_of(brain + skull, grid, inside=x > -6e-3)
    assert inside.position == pytest.approx(tuple(CENTRE), abs=1e-5)
    assert inside.volume == pytest.approx(focus_of(brain, grid).volume, rel=1e-6)


def test_only_the_region_around_the_peak_counts():
    grid = grid_of(0.3e-3)
    lobe = 0.9 * gaussian(grid, (-10e-3, 0, 0), (5e-4,) * 3)
    one = focus_of(gaussian(grid, sigma=SIGMA / 2), grid)
    assert focus_of(gaussian(grid, sigma=SIGMA / 2) + lobe, grid).volume == pytest.approx(
        one.volume, rel=1e-3
    )


def test_a_mask_cuts_the_region_and_its_edge_may_be_the_peak():
    grid = grid_of(0.2e-3)
    x = grid.coordinates[0][:, None, None] + np.zeros(grid.shape)
    field = gaussian(grid, (0.1e-3, 0, 0))  # the middle lies between two points
    whole, half = focus_of(field, grid), focus_of(field, grid, inside=x > 0.1e-3)
    assert half.volume == pytest.approx(whole.volume / 2, rel=1e-2)
    rising = focus_of(field, grid, inside=x > 3e-3)
    assert rising.position[0] == pytest.approx(x[x > 3e-3].min())  # not beyond its edge


def test_a_field_that_does_not_fall_has_no_width():
    grid = Grid((21, 21), 1e-3, pml_size=0)
    focus = focus_of(1e5 * (1 + 0.1 * gaussian(grid) / 2e6), grid)
    assert all(map(math.isnan, (*focus.widths_3db, *focus.widths_6db)))
    assert focus.volume == pytest.approx(21**2 * 1e-6)
    assert "width at −6 dB      –, – mm" in focus.lines()


def test_intensities_and_mechanical_index():
    grid = grid_of(0.3e-3)
    field = gaussian(grid, (0, 0, 0))
    speed = np.where(field == field.max(), 1560.0, 3000.0)
    focus = focus_of(field, grid, medium=Medium(speed, 1040.0), frequency="500 kHz", duty_cycle=0.1)
    assert focus.isppa == pytest.approx(4e12 / (2 * 1040 * 1560) * 1e-4)  # W/cm²
    assert focus.ispta == pytest.approx(focus.isppa / 10)
    assert focus.mechanical_index == pytest.approx(2 / math.sqrt(0.5))
    derated = focus_of(field, grid, frequency=5e5, derating_depth="4 cm")
    assert derated.mechanical_index == pytest.approx(focus.mechanical_index * 10 ** (-0.6 / 20))
    assert math.isnan(derated.isppa)
    lines = focus.lines()
    assert lines[0] == "peak pressure       2 MPa"
    assert lines[-3:] == [
        "I_SPPA              123.3 W/cm²",
        "I_SPTA              12.33 W/cm²",
        "mechanical index    2.828",
    ]
    assert len(derated.lines()) == len(lines) - 2


@pytest.mark.parametrize(
    ("field", "options", "message"),
    [
        (np.ones((3, 4)), {}, "amplitude.shape"),
        (np.zeros((4, 4)), {}, "amplitude: .*allowed: finite values, some above 0"),
        (np.full((4, 4), np.nan), {}, "amplitude: .*allowed: finite"),
        (np.ones((4, 4)), {"inside": np.zeros((4, 4))}, "amplitude: .*some above 0"),
        (np.ones((4, 4)), {"duty_cycle": 1.5}, "duty_cycle: 1.5; allowed: from 0 to 1"),
        (np.ones((4, 4), complex), {}, "amplitude: is of type complex128"),
        (np.ones((4, 4)), {"medium": Medium(np.ones((4, 5)), 1e3)}, "medium: .*arrays of the shape"),
    ],
)
def test_what_is_refused(field, options, message):
    with pytest.raises(InputError, match=message):
        focus_of(field, Grid((4, 4), 1e-3, pml_size=0), **options)
