"""Bells in closed form."""

import math

import numpy as np
import pytest

from wavefabric.acoustics.decomposition.decompose import Decomposition
from wavefabric.acoustics.decomposition.window import WINDOWS, window
from wavefabric.base.errors import InputError

FADING = [name for name in WINDOWS if name != "none"]


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize(("owned", "overlap"), [(10, 1), (12, 8), (33, 17), (20, 0)])
def test_shape(name, owned, overlap):
    result = window(name, owned, overlap)
    assert result.shape == (owned + 2 * overlap,)
    assert (result[overlap : overlap + owned] == 1).all()
    assert (result == result[::-1]).all()
    assert (result > 0).all()
    assert (result <= 1).all()


@pytest.mark.parametrize("name", FADING)
@pytest.mark.parametrize("overlap", [2, 5, 16])
def test_rise_and_fall_add_up_to_one(name, overlap):
    result = window(name, 20, overlap)
    rise, fall = result[:overlap], result[-overlap:]
    assert (np.diff(rise) > 0).all()
    np.testing.assert_allclose(rise + fall, 1, rtol=1e-15)


def test_values():
    assert window("none", 4, 3).tolist() == [1.0] * 10
    # One overlap point is half-way up.
    for name in FADING:
        assert window(name, 4, 1)[0] == pytest.approx(0.5, rel=1e-15)
    for i in range(8):
        t = (i + 0.5) / 8
        assert window("cosine", 9, 8)[i] == pytest.approx(math.cos(math.pi / 2 * (1 - t)) ** 2, rel=1e-14)
        twice = math.sin(math.pi / 2 * math.sin(math.pi / 2 * t) ** 2) ** 2
        nested = math.sin(math.pi / 2 * twice) ** 2
        assert window("nested-sine", 9, 8)[i] == pytest.approx(nested, rel=1e-12)
        s = 2 * t - 1
        assert window("erf", 9, 8)[i] == pytest.approx(
            0.5 * (1 + math.erf(2 * s / math.sqrt(1 - s * s))), rel=1e-12
        )


def test_the_nested_sine_joins_smoothly():
    """Near its ends it departs from 0 and 1 with the eighth power."""
    far, near = window("nested-sine", 1, 10)[0], window("nested-sine", 1, 20)[0]
    assert math.log2(far / near) == pytest.approx(8, abs=0.05)


def test_an_unknown_bell_is_refused():
    with pytest.raises(InputError, match="bell: 'sharp' given; allowed: none, cosine, nested-sine, erf"):
        Decomposition("local", bell="sharp")
