"""Differences of two results, against figures by hand."""

import numpy as np
import pytest

from wavefabric.base.results import Data, ResultWriter, read_result
from wavefabric.base.results.compare import absolute_difference, compare


def result(path, first, values, more=None):
    """Return a result with a field p over x from grid point ``first``, 1 mm apart, and y."""
    x = (np.arange(len(values)) + first) * 1e-3
    contents = {
        "x": Data(x, "m", "", ("x",)),
        "y": Data(np.arange(2) * 2e-3, "m", "", ("y",)),
        "p": Data(np.asarray(values), "Pa", "", ("x", "y")),
    }
    return read_result(ResultWriter(path).write(contents | (more or {})))


def test_figures(tmp_path):
    a = result(tmp_path / "a.h5", 0, [[0.0, 4.0], [3.0, 0.0]])
    b = result(tmp_path / "b.h5", 0, [[0.0, 4.0], [3.2, 0.1]])
    (one,) = compare(a, b)
    assert (one.quantity, one.units, one.magnitude, one.points) == ("p", "Pa", 4.0, 4)
    assert one.largest == pytest.approx(0.2 / 4)
    assert one.l2 == pytest.approx(np.sqrt(0.2**2 + 0.1**2) / 5)
    assert one.where == "x 1 mm, y 0 mm"


def test_points_that_both_have_are_compared(tmp_path):
    whole = np.arange(12.0).reshape(6, 2)
    a, b = (
        result(tmp_path / "a.h5", -3, whole),
        result(tmp_path / "b.h5", -1, whole[2:5] + np.diag([0, 1, 0])[:, :2]),
    )
    (one,) = compare(a, b)
    assert (one.points, one.magnitude, one.largest) == (6, 9.0, 1 / 9)
    assert one.where == "x 0 mm, y 2 mm"
    (other,) = compare(b, a)
    assert (other.points, other.where) == (6, "x 0 mm, y 2 mm")


def test_other_spacings_cannot_be_compared(tmp_path):
    a, b = result(tmp_path / "a.h5", 0, np.ones((3, 2))), result(tmp_path / "b.h5", 9, np.ones((4, 2)))
    (one,) = compare(a, b)
    assert (one.largest, one.points, one.where) == (np.inf, 0, "shapes (3, 2) and (4, 2)")


def test_numbers_labels_and_what_only_one_has(tmp_path):
    more = {
        "mode": Data(["LP01", "LP11"], "", "", ("mode",)),
        "q": Data(np.array([10.0, 8.0]), "dB", "", ("mode",)),
        "n": Data(2, "", ""),
        "seconds": Data(1.0, "s", ""),
    }
    values = np.ones((2, 2), complex)
    a = result(tmp_path / "a.h5", 0, values, more | {"only": Data(1.0, "", "")})
    b = result(
        tmp_path / "b.h5", 0, values * 1j, more | {"q": Data(np.array([10.0, 9.0]), "dB", "", ("mode",))}
    )
    rows = {each.quantity: each for each in compare(a, b)}
    assert rows.keys() == {"n", "p", "q"}
    assert (rows["q"].largest, rows["q"].where) == (pytest.approx(0.1), "mode LP11")
    assert (rows["n"].largest, rows["n"].where) == (0, "")
    assert rows["p"].largest == pytest.approx(np.sqrt(2))
    assert [each.quantity for each in compare(a, b, ["q"])] == ["q"]


def test_values_that_are_not_finite():
    a, b = np.array([np.nan, np.inf, np.nan, 1]), np.array([np.nan, np.inf, 1, np.inf])
    assert absolute_difference(a, b).tolist() == [0, 0, np.inf, np.inf]
    assert absolute_difference(np.array(3), np.array(1)) == 2
    assert absolute_difference(np.array([1], "u8"), np.array([3], "u8")).tolist() == [2]
