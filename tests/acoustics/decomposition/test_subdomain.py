"""Parts of a grid against index arithmetic on the whole of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavefabric.acoustics.decomposition.subdomain import Subdomain


@st.composite
def parts(draw):
    """A block of a random grid with overlaps that may reach over its edges."""
    shape = tuple(draw(st.integers(1, 9)) for _ in range(3))
    owned_first = tuple(draw(st.integers(0, n - 1)) for n in shape)
    owned_size = tuple(draw(st.integers(1, n - f)) for n, f in zip(shape, owned_first, strict=True))
    over = tuple(draw(st.integers(0, n)) for n in owned_size)
    size = tuple(n + 2 * o for n, o in zip(owned_size, over, strict=True))
    first = tuple(f - o for f, o in zip(owned_first, over, strict=True))
    nx, ny, nz = size
    return Subdomain(shape, first, size, owned_first, owned_size, size, ((0, nx // 2 + 1), (0, ny), (0, nz)))


def numbered(shape):
    """Each point's flat index, as a grid."""
    return np.arange(np.prod(shape)).reshape(shape[::-1])


@given(parts())
def test_local_arrays_hold_the_grid_around_the_block(part):
    grid = numbered(part.shape)
    local = grid[np.ix_(*(part.indices(axis) for axis in (2, 1, 0)))]
    assert local.shape == part.size[::-1]
    (x, y, z), (nx, ny, nz) = part.owned_first, part.owned_size
    assert (local[part.owned] == grid[z : z + nz, y : y + ny, x : x + nx]).all()


@given(parts())
def test_points_are_found_in_local_arrays(part):
    grid = numbered(part.shape)
    local = grid[np.ix_(*(part.indices(axis) for axis in (2, 1, 0)))]
    options = np.random.default_rng(1).permutation(grid.size)
    mask, index = part.local_index(options)
    assert mask.sum() == np.prod(part.owned_size)
    assert (local.reshape(-1)[index] == options[mask]).all()
    inside = np.zeros(local.shape, bool)
    inside[part.owned] = True
    assert inside.reshape(-1)[index].all()
    # Any shape may be asked for: corners of cells are rows of eight.
    if options.size % 2 == 0:
        pairs, again = part.local_index(options.reshape(-1, 2))
        assert (pairs.reshape(-1) == mask).all()
        assert (again == index).all()


@pytest.mark.parametrize("shape", [(8, 7, 6), (9, 5, 1)])
def test_the_whole(shape):
    part = Subdomain.whole(shape)
    assert part.is_whole
    assert part.size[::-1] == shape[::-1]
    assert part.spectral_shape == (shape[2], shape[1], shape[0] // 2 + 1)
    assert part.basis_points == np.prod(shape)
    index = np.arange(np.prod(shape))
    mask, local = part.local_index(index)
    assert mask.all()
    assert (local == index).all()
    assert part.spectrum(np.arange(shape[0]), 0).tolist() == list(range(shape[0] // 2 + 1))


def test_a_block_is_not_the_whole():
    zero, size = (0, 0, 0), (8, 8, 8)
    half = Subdomain(size, zero, (8, 8, 4), zero, (8, 8, 4), size, ((0, 5), (0, 8), (0, 8)))
    assert not half.is_whole
    assert half.spectral_shape == (8, 8, 5)
