"""Convex, piecewise linear functions found from their tangents."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.training.communication.affine_time import LEAST, MOST, AffineTime, tangents

LINES = st.lists(st.builds(AffineTime, st.floats(0, 1e-2), st.floats(1e-15, 1e-8)), min_size=1, max_size=6)


@settings(max_examples=100)
@given(LINES, st.lists(st.floats(LEAST, MOST), min_size=1, max_size=20))
def test_the_greatest_of_the_tangents_is_the_function(lines, sizes):
    def tangent(nbytes):
        return max(lines, key=lambda line: line(nbytes))

    result = tangents(tangent)
    assert set(result) <= set(lines)
    for size in sizes:
        assert max(line(size) for line in result) == pytest.approx(tangent(size)(size), rel=1e-8)


def test_a_function_known_to_be_a_line_is_looked_at_once():
    options = []

    def tangent(nbytes):
        options.append(nbytes)
        return AffineTime(1.0, 2.0)

    assert tangents(tangent, everywhere=True) == (AffineTime(1.0, 2.0),)
    assert len(options) == 1
    assert tangents(tangent) == (AffineTime(1.0, 2.0),)
