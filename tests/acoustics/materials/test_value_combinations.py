"""Numbers of combinations of values against NumPy's unique, for any arrays."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.acoustics.materials import find
from wavefabric.acoustics.materials.find import ValueCombinations, _sample, _spread


def bits(arrays, dtype):
    """Each point's values as one row of unsigned numbers."""
    flat = np.stack([np.asarray(array, dtype).reshape(-1) for array in arrays], 1)
    return np.ascontiguousarray(flat).view(f"u{np.dtype(dtype).itemsize}")


def numbered(result, arrays, kind=np.uint16):
    return result.index(arrays, kind)


@st.composite
def media(draw):
    """Arrays of a grid whose values repeat, some with signs of zero, infinities and not-a-numbers."""
    shape = draw(st.tuples(st.integers(1, 6), st.integers(1, 7), st.integers(1, 9)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    odd = [0.0, -0.0, np.inf, np.nan, 1.0, np.nextafter(np.float32(1), np.float32(2)), 1 + 1e-12, 1e-40]
    kinds = draw(st.lists(st.sampled_from(["odd", "few", "noise", "wide", "whole"]), min_size=1, max_size=7))
    made = {
        "odd": lambda: rng.choice(odd, shape),
        "few": lambda: rng.choice(rng.standard_normal(3), shape).astype(np.float32),
        "noise": lambda: rng.standard_normal(shape).astype(np.float32),
        "wide": lambda: np.broadcast_to(rng.standard_normal(shape[1:]), shape),
        "whole": lambda: np.asfortranarray(rng.integers(0, 4, shape)),
    }
    return [made[kind]() for kind in kinds]


@settings(max_examples=150)
@given(
    arrays=media(),
    dtype=st.sampled_from([np.float32, np.float64]),
    limit=st.integers(1, 400),
    threads=st.integers(1, 3),
)
def test_points_of_equal_values_get_equal_numbers(arrays, dtype, limit, threads):
    rows = bits(arrays, dtype)
    wanted = len(np.unique(rows, axis=0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(find, "_THREAD", 1)
        patch.setattr(find, "threads_for", lambda points: threads)
        result = ValueCombinations(arrays, dtype, limit)
        assert result.full == (wanted > limit)
        if result.full:
            return
        assert len(result) == wanted
        number = numbered(result, arrays).reshape(-1)
    assert (result.values.view(rows.dtype)[number] == rows).all()
    assert set(number.tolist()) == set(range(wanted))


@pytest.mark.parametrize(("count", "limit", "full"), [(256, 256, False), (257, 256, True), (257, 257, False)])
def test_the_limit(count, limit, full):
    values = (np.arange(20 * 19 * 18) % count).reshape(20, 19, 18).astype(float)
    result = ValueCombinations([values], np.float32, limit)
    assert result.full == full
    assert len(result) == min(count, limit + 1)


@pytest.mark.parametrize(("count", "full"), [(1 << 16, False), ((1 << 16) + 1, True)])
def test_the_numbers_of_16_bits(count, full):
    values = (np.arange(2 * 260 * 256) % count).reshape(2, 260, 256).astype(float)
    result = ValueCombinations([values, -values], np.float64, 1 << 16)
    assert result.full == full
    if not full:
        number = numbered(result, [values, -values])
        assert number.max() == 65535
        assert (result.values[number][..., 1] == -values).all()


def test_a_medium_of_many_values_is_given_up_soon(monkeypatch):
    """After a sample: a plane of a symmetric medium may have few values; what lies around a head has one."""
    head, read = np.zeros((30, 20, 20)), []
    head[5:, 2:-2, 2:-2] = np.arange(25 * 16 * 16).reshape(25, 16, 16) // 2
    collected = ValueCombinations._collected
    monkeypatch.setattr(
        ValueCombinations,
        "_collected",
        lambda self, arrays, pieces, *more: read.extend(pieces) or collected(self, arrays, pieces, *more),
    )
    monkeypatch.setattr(find, "threads_for", lambda points: 2)
    monkeypatch.setattr(find, "_THREAD", 1)
    assert ValueCombinations([head], np.float32, 200).full
    assert sum(end - first for _, first, end in read) <= 4 * 200
    assert len({z for z, *_ in read}) > 1


@pytest.mark.parametrize(("planes", "plane"), [(1, 9), (1, 10**6), (37, 300), (512, 512**2)])
def test_a_sample_lies_all_over_the_grid(planes, plane):
    pieces = _sample(planes, plane, 1 << 18)
    assert all(0 <= z < planes and 0 <= first < end <= plane for z, first, end in pieces)
    assert len({z for z, *_ in pieces}) == planes
    assert sum(end - first for _, first, end in pieces) <= max(1 << 18, plane)
    if planes * plane > 1 << 18:
        assert len(set(pieces)) > 0.9 * len(pieces)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9, 100])
def test_all_planes_are_looked_at(count):
    assert sorted(_spread(count)) == list(range(count))


def test_other_values_than_before_are_refused():
    values = np.zeros((4, 5, 6))
    result = ValueCombinations([values], np.float32, 100)
    values[2, 3, 4] = 1
    with pytest.raises(RuntimeError, match="have changed"):
        result.index([values], np.uint8)
