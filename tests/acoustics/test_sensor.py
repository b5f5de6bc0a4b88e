"""Sensors: masks, boxes, points between the grid's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavefabric.acoustics import Grid, Sensor
from wavefabric.acoustics.problem import Cuboids, Interpolation
from wavefabric.acoustics.recording.quantities import QUANTITIES, record_names
from wavefabric.base.errors import InputError

GRID = Grid((8, 6, 5), (1e-4, 2e-4, 3e-4), pml_size=1)


def test_words_are_those_of_kwave():
    assert set(record_names().values()) == set(QUANTITIES)
    for word in ("p", "p_max", "p_min_all", "p_final", "u", "u_non_staggered", "u_rms", "I", "I_avg"):
        assert word in record_names()
    recording = Sensor(np.ones(GRID.shape), ["u", "p", "I_avg", "p_final"], start=3).on(GRID)
    assert recording.quantities == ("p_raw", "p_final", "u_raw", "I_avg")
    assert recording.start == 3


def test_mask_points_in_the_order_of_fortran():
    mask = np.random.default_rng(5).random(GRID.shape) < 0.2
    where = Sensor(mask).on(GRID).where
    field = np.random.default_rng(6).random(GRID.shape)
    np.testing.assert_array_equal(
        GRID.to_memory(field, "f").reshape(-1)[where], field.ravel(order="F")[mask.ravel(order="F")]
    )


def test_whole_domain_needs_no_mask():
    recording = Sensor(record="p_final").on(GRID)
    assert recording.where is None
    assert recording.quantities == ("p_final",)


@pytest.mark.parametrize("inside", [True, False])
def test_boxes(inside):
    grid = Grid((8, 6, 5), 1e-4, pml_size=2, pml_inside=inside)
    where = Sensor.boxes(((1, 2, 3), (4, 2, 4)), ((0, 0, 0), (7, 5, 4))).on(grid).where
    assert isinstance(where, Cuboids)
    assert where.shapes() == [(2, 1, 4), (5, 6, 8)]
    field = np.random.default_rng(7).random(grid.shape)
    values = grid.to_memory(field, "f").reshape(-1)[where.indices(grid.total_shape)]
    np.testing.assert_array_equal(values[:8], field[1:5, 2:3, 3:5].ravel(order="F"))
    np.testing.assert_array_equal(values[8:], field.ravel(order="F"))


def test_flat_boxes():
    where = Sensor.boxes(((1, 2), (4, 3))).on(Grid((8, 6), 1e-4, pml_size=1)).where
    assert isinstance(where, Cuboids)
    np.testing.assert_array_equal(where.first, [[1, 2, 0]])
    np.testing.assert_array_equal(where.last, [[4, 3, 0]])


@given(
    st.sampled_from([(8, 6), (7, 6, 5)]),
    st.lists(st.tuples(*[st.floats(0, 1)] * 3), min_size=1, max_size=5),
    st.booleans(),
)
def test_interpolation_of_a_multilinear_field_is_exact(shape, parts, inside):
    grid = Grid(shape, (1e-4, 2e-4, 3e-4)[: len(shape)], pml_size=1, pml_inside=inside)
    ends = np.array([(x[0], x[-1]) for x in grid.coordinates])
    fraction = np.array(parts)[:, : len(shape)].T
    positions = ends[:, :1] + fraction * (ends[:, 1:] - ends[:, :1])
    where = Sensor.points(positions).on(grid).where
    assert isinstance(where, Interpolation)

    def plane(axes):
        x, y, *z = [axis * 1e4 for axis in axes]
        return 2 + x - 3 * y + x * y + (z[0] * (1 + x) if z else 0)

    field = grid.to_memory(plane(np.meshgrid(*grid.coordinates, indexing="ij")), "f").reshape(-1)
    got = np.sum(field[where.corners] * where.weights, axis=1)
    np.testing.assert_allclose(got, plane(positions), rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(where.weights.sum(axis=1), 1, rtol=1e-12)
    assert where.weights.min() >= 0


def test_points_on_the_edges_are_inside():
    x, y, z = GRID.coordinates
    corners = np.array([[x[0], x[-1]], [y[0], y[-1]], [z[0], z[-1]]])
    where = Sensor.points(corners).on(GRID).where
    assert isinstance(where, Interpolation)
    ours = [where.corners[i, np.argmax(where.weights[i])] for i in (0, 1)]
    assert ours == [0, 8 * 6 * 5 - 1]
    np.testing.assert_allclose(where.weights.max(axis=1), 1)


@pytest.mark.parametrize(
    ("sensor", "text"),
    [
        (Sensor(record=("p_final", "p_max")), 'sensor.mask: is missing, and "p_max"'),
        (Sensor(np.ones((8, 6))), "sensor.mask"),
        (Sensor.boxes(((1, 2), (3, 4))), "sensor.boxes"),
        (Sensor.boxes(((1, 2, 3), (4, 2, 5))), "sensor.boxes: from"),
        (Sensor.boxes(((1, 2, 3), (0, 2, 4))), "sensor.boxes: from"),
        (Sensor.boxes(), "sensor.boxes"),
        (Sensor.boxes(((1, 2, 3), (4,))), "sensor.boxes"),
        (Sensor.points(np.zeros((2, 4))), "sensor.points"),
        (Sensor.points([[0.0], [0.0], [1.0]]), "sensor.points: .* outside"),
        (Sensor.points([[0.0], [0.0], [np.nan]]), "sensor.points: .* outside"),
    ],
)
def test_bad_sensors_are_refused(sensor, text):
    with pytest.raises(InputError, match=text):
        sensor.on(GRID)


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ({"record": "q"}, 'sensor.record: "q" given; allowed: p, '),
        (
            {"record": ("p_final", "p_maxall")},
            r'sensor.record: "p_maxall" given .did you mean p_max_all\?.; allowed: p, ',
        ),
        ({"record": 5}, "sensor.record: 5 given; allowed: p, "),
        ({"record": ["p", 5]}, "sensor.record: 5 given; allowed: p, "),
        ({"record": None}, "sensor.record: null given; allowed: p, "),
        ({"record": ()}, r"sensor.record: \[\]; allowed: p, "),
        ({"start": -1}, "sensor.start: -1"),
    ],
)
@pytest.mark.parametrize("make", [Sensor, lambda **inputs: Sensor.boxes(((0, 0), (1, 1)), **inputs)])
def test_words_are_looked_at_when_the_sensor_is_made(make, inputs, text):
    with pytest.raises(InputError, match=text):
        make(**inputs)
