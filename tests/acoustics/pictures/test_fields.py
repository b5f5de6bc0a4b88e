"""Pictures: what they show is what the arrays hold."""

import numpy as np
import pytest

from wavefabric.acoustics import Grid
from wavefabric.acoustics.pictures.fields import plane, plot_field, plot_profiles
from wavefabric.base.errors import InputError

GRID = Grid((20, 12, 30), 1e-3, pml_size=0)
FLAT = Grid((20, 12), 1e-3, pml_size=0)


def focus(grid):
    parts = np.meshgrid(*grid.coordinates, indexing="ij")
    return 2e6 * np.exp(-sum(part**2 for part in parts) / (4e-3) ** 2)


def test_plane_is_the_nearest_one():
    field = np.arange(20 * 12 * 30).reshape(20, 12, 30)
    np.testing.assert_array_equal(plane(field, GRID, "y", "2.4 mm"), field[:, 8])
    np.testing.assert_array_equal(plane(field, GRID, "z", -15e-3), field[:, :, 0])
    np.testing.assert_array_equal(plane(field[:, :, 0], FLAT), field[:, :, 0])


def test_picture_shows_the_plane_in_mpa_and_mm(tmp_path):
    field = focus(GRID)
    path = tmp_path / "field.png"
    figure = plot_field(field, GRID, title="a focus", outlines=np.indices(GRID.shape)[2] > 20, path=path)
    axes, bar = figure.axes
    shown = axes.get_images()[0].get_array()
    np.testing.assert_allclose(shown, field[:, 6] * 1e-6)  # x up, z to the right
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("z (mm)", "x (mm)")
    assert axes.get_xlim() == pytest.approx((-15.5, 14.5))
    assert bar.get_ylabel() == "peak pressure (MPa)"
    assert axes.get_title(loc="left") == "a focus"
    assert path.read_bytes()[:4] == b"\x89PNG"


def test_contours_are_decibels_below_the_peak():
    figure = plot_field(focus(FLAT), FLAT, contours_db=(-6, -3))
    contours = [c for c in figure.axes[0].collections if hasattr(c, "levels")]
    np.testing.assert_allclose(contours[0].levels, 2 * 10 ** (np.array([-6, -3]) / 20))
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert labels == ["−3 dB", "−6 dB"]


def test_peak_moves_colours_and_contours():
    figure = plot_field(focus(FLAT), FLAT, peak=1e6, contours_db=(-6,))
    axes = figure.axes[0]
    assert axes.get_images()[0].get_clim() == pytest.approx((0, 1.0))
    contours = [c for c in axes.collections if hasattr(c, "levels")]
    np.testing.assert_allclose(contours[0].levels, 10**-0.3)


def test_axes_count_from_the_origin_and_contours_stay_in_their_part():
    field = focus(FLAT)
    right = FLAT.coordinates[0][:, None] + np.zeros(FLAT.shape) > 0
    figure = plot_field(field, FLAT, origin=(-10e-3, 1e-3), contours_in=right)
    axes = figure.axes[0]
    assert axes.get_xlim() == pytest.approx((-0.5, 19.5))
    assert axes.get_ylim() == pytest.approx((-7.5, 4.5))
    contours = next(c for c in axes.collections if hasattr(c, "levels"))
    corners = np.concatenate([path.vertices for path in contours.get_paths()])
    assert corners[:, 0].min() >= 11 - 1e-9  # the first point with x > 0


def test_outlines_lie_between_cells_that_differ():
    labels = np.zeros(FLAT.shape, int)
    labels[10:, :] = 1
    labels[:, 4:] += 2
    figure = plot_field(focus(FLAT), FLAT, contours_db=(), outlines=labels)
    lines = np.array(figure.axes[0].collections[-1].get_segments())
    upright = lines[lines[:, 0, 0] == lines[:, 1, 0]]
    level = lines[lines[:, 0, 1] == lines[:, 1, 1]]
    assert (len(upright), len(level)) == (12, 20)
    np.testing.assert_allclose(upright[:, 0, 0], -0.5)
    np.testing.assert_allclose(level[:, 0, 1], -2.5)


def test_profiles_are_drawn_in_mpa_over_mm(tmp_path):
    z = np.linspace(0, 0.09, 10)
    figure = plot_profiles(
        z,
        {"simulated": 1e6 * z, "closed form": 2e6 * z},
        shaded={"skull": (0.03, 0.04)},
        dashed=["closed form"],
        path=tmp_path / "line.png",
    )
    lines = figure.axes[0].get_lines()
    np.testing.assert_allclose(lines[0].get_xdata(), z * 1e3)
    np.testing.assert_allclose(lines[1].get_ydata(), 2 * z)
    assert (lines[0].get_linestyle(), lines[1].get_linestyle()) == ("-", "--")
    assert (tmp_path / "line.png").stat().st_size > 5000


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plot_field(np.ones((3, 3)), FLAT), r"field: has the shape \(3, 3\)"),
        (lambda: plot_field(np.zeros(FLAT.shape), FLAT), "field: has no value above 0"),
        (lambda: plot_field(np.full(FLAT.shape, np.nan), FLAT), "field: has values that are not finite"),
        (lambda: plot_field(focus(GRID), GRID, normal="w"), "normal: "),
        (lambda: plot_field(focus(GRID), GRID, at="1 m"), "at: "),
        (lambda: plot_field(focus(FLAT), FLAT, origin=(0, 0, 0)), "origin: "),
        (lambda: plot_field(focus(FLAT), FLAT, contours_db=(3,)), "contours_db: 3 dB"),
        (lambda: plot_field(focus(FLAT), FLAT, outlines=np.ones(3)), "field: has the shape"),
        (lambda: plot_field(focus(FLAT), FLAT, path="/proc/none/a.png"), "path: "),
        (lambda: plot_profiles([0.0, 1.0], {"a": [1.0]}), r'profiles\["a"\]: '),
    ],
)
def test_bad_values_are_named(call, message):
    with pytest.raises(InputError, match=f"^{message}"):
        call()
