"""Decompositions: parts tile the grid, messages fill exactly what they should, sizes suit transforms."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from wavefabric.acoustics.choose_stages import CUDA
from wavefabric.acoustics.decomposition.decompose import (
    Decomposition,
    decompose,
    equal_blocks,
    halo_messages,
    has_small_factors,
    smooth_blocks,
)
from wavefabric.base.errors import InputError

EMPTY = -1


def numbered_grid(shape):
    return np.arange(math.prod(shape)).reshape(shape[::-1])


def local_view(grid, part):
    return grid[np.ix_(*(part.indices(axis) for axis in (2, 1, 0)))]


def owned_once(decomposition):
    """How many parts own each point."""
    count = np.zeros(decomposition.shape[::-1], int)
    for part in decomposition.subdomains:
        (x, y, z), (nx, ny, nz) = part.owned_first, part.owned_size
        assert min(part.owned_size) > 0
        count[z : z + nz, y : y + ny, x : x + nx] += 1
    return count


# --- Sizes of blocks ---------------------------------------------------------------------------------------


def test_smooth_numbers():
    assert [n for n in range(1, 30) if not has_small_factors(n)] == [11, 13, 17, 19, 22, 23, 26, 29]


@given(n=st.integers(1, 2000), blocks=st.integers(1, 12))
def test_even_sizes(n, blocks):
    sizes = equal_blocks(n, blocks)
    assert sum(sizes) == n
    assert max(sizes) - min(sizes) <= 1


@settings(max_examples=150)
@given(n=st.integers(2, 1500), blocks=st.integers(2, 9), overlap=st.integers(1, 20))
def test_widened_sizes_tile_the_axis(n, blocks, overlap):
    assume(n >= blocks)
    sizes = smooth_blocks(n, blocks, overlap)
    assert sum(sizes) == n
    assert len(sizes) == blocks
    if sizes != equal_blocks(n, blocks):
        assert all(has_small_factors(size + 2 * overlap) for size in sizes)
        assert min(sizes) >= overlap
        assert max(sizes) + 2 * overlap <= 1.15 * -(-(n + 2 * overlap * blocks) // blocks)


@settings(max_examples=25)
@given(n=st.integers(20, 90), blocks=st.integers(2, 3), overlap=st.integers(1, 5))
def test_widened_sizes_are_the_best(n, blocks, overlap):
    """Against all ways to cut: the shortest longest block among those of smooth sizes."""
    allowed = [size for size in range(overlap, n) if has_small_factors(size + 2 * overlap)]
    variants = (
        [(a, n - a) for a in allowed]
        if blocks == 2
        else [(a, b, n - a - b) for a in allowed for b in allowed]
    )
    longest = min((max(variant) for variant in variants if set(variant) <= set(allowed)), default=None)
    sizes = smooth_blocks(n, blocks, overlap)
    limit = int(1.15 * -(-(n + 2 * overlap * blocks) // blocks)) - 2 * overlap
    if longest is not None and longest <= limit:
        assert all(has_small_factors(size + 2 * overlap) for size in sizes)
        assert max(sizes) == longest
    else:
        assert sizes == equal_blocks(n, blocks)


def test_sizes_of_the_papers_grids():
    assert smooth_blocks(1920, 4, 16) == (480,) * 4  # 512 with overlaps
    assert smooth_blocks(1024, 2, 16) == (544, 480)  # 576 and 512; 544 = 2⁵·17 twice otherwise
    assert smooth_blocks(512, 8, 16) == (64,) * 8


# --- Local -------------------------------------------------------------------------------------------------


@st.composite
def local_cases(draw):
    """Shape, grid of blocks, overlap: any that is allowed."""
    grid = tuple(draw(st.integers(1, 3)) for _ in range(3))
    assume(math.prod(grid) > 1)
    overlap = draw(st.integers(1, 4))
    shape = tuple(
        draw(st.integers(blocks * overlap, blocks * overlap + 9)) if blocks > 1 else draw(st.integers(2, 9))
        for blocks in grid
    )
    if grid[2] == 1 and draw(st.booleans()):
        shape = (*shape[:2], 1)
    return shape, grid, overlap


@settings(max_examples=60)
@given(local_cases())
def test_halo_messages_fill_the_overlaps(case):
    """Every overlap point, once, from the rank that owns it; and nothing that is owned."""
    shape, grid, overlap = case
    result = decompose(shape, math.prod(grid), Decomposition("local", grid, overlap))
    assert (owned_once(result) == 1).all()
    numbers = numbered_grid(shape)
    local, writes = [], []
    for part in result.subdomains:
        assert part.basis == part.size
        assert part.spectral == tuple((0, n) for n in (part.size[0] // 2 + 1, *part.size[1:]))
        field = np.full(part.size[::-1], EMPTY)
        field[part.owned] = local_view(numbers, part)[part.owned]
        local.append(field)
        writes.append(np.zeros(part.size[::-1], int))
    sent = [field.copy() for field in local]
    for message in halo_messages(result):
        assert message.src != message.dst
        part = result.subdomains[message.src]
        for box, inside in zip(message.src_box, part.owned, strict=True):
            assert inside.start <= box.start < box.stop <= inside.stop
        local[message.dst][message.dst_box] = sent[message.src][message.src_box]
        writes[message.dst][message.dst_box] += 1
    for part, field, count in zip(result.subdomains, local, writes, strict=True):
        assert (field == local_view(numbers, part)).all()
        wanted = np.ones(part.size[::-1], int)
        wanted[part.owned] = 0
        assert (count == wanted).all()


def test_one_message_a_neighbour():
    for grid, neighbours in [((1, 1, 2), 2), ((1, 2, 2), 8), ((2, 2, 2), 26), ((1, 1, 4), 2), ((3, 1, 3), 8)]:
        result = decompose((24, 24, 24), math.prod(grid), Decomposition("local", grid, 4))
        messages = halo_messages(result)
        assert len(messages) == neighbours * result.ranks
        for rank in range(result.ranks):
            assert sum(m.src == rank for m in messages) == sum(m.dst == rank for m in messages) == neighbours


def test_default_local_grids():
    def grid(shape, ranks, overlap=8):
        return decompose(shape, ranks, Decomposition("local", overlap=overlap)).grid

    assert grid((64, 64, 64), 2) == (1, 1, 2)
    assert grid((64, 64, 1), 2) == (1, 2, 1)
    assert grid((256, 64, 64), 2) == (2, 1, 1)  # the cut that moves least
    assert grid((512, 512, 512), 8, 16) == (1, 2, 4)
    # Thin blocks cannot hold a wide overlap.
    assert grid((64, 64, 20), 4, 16)[2] == 1


@pytest.mark.parametrize(
    ("shape", "grid"),
    [
        ((1000, 1000, 1000), (3, 3, 3)),
        ((300, 64, 64), (2, 1, 1)),
        ((360, 64, 64), (2, 1, 1)),
        ((640, 64, 64), (3, 1, 1)),
    ],
)
def test_blocks_along_x_suit_the_fused_kernels(shape, grid):
    """Rows of an even number of points where that is possible: one odd block would slow all ranks."""
    result = decompose(shape, math.prod(grid), Decomposition("local", grid))
    assert CUDA["local"].supports(result, np.dtype(np.float32))
    assert all(part.size[0] % 2 == 0 for part in result.subdomains)
    odd = decompose((41, 64, 64), 2, Decomposition("local", (2, 1, 1), 8))
    assert sum(part.owned_size[0] for part in odd.subdomains) == 41


def test_notes_say_what_would_be_faster():
    assert decompose((1920, 64, 1920), 4, Decomposition("local", (1, 1, 4))).notes == []
    (note,) = decompose((64, 64, 82), 2, Decomposition("local", (1, 1, 2), 16)).notes
    assert note.startswith("transforms along z have 73 points, with prime factors above 7")
    assert note.endswith("an overlap of 17 would give 75")
    (note,) = decompose((37, 64, 64), 2, Decomposition("local", (1, 1, 2), 8)).notes
    assert note.startswith("transforms along x have 37 points")


def test_of_one_rank():
    result = decompose((13, 17, 11), 1, Decomposition("local"))
    assert result.grid == (1, 1, 1)
    assert result.subdomains[0].is_whole
    assert result.notes == []


# --- Global ------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    by=st.integers(1, 4), bz=st.integers(1, 4), more=st.tuples(*[st.integers(0, 9)] * 3), flat=st.booleans()
)
def test_global_parts_tile_grid_and_spectrum(by, bz, more, flat):
    nz = 1 if flat and bz == 1 else 2 * bz + more[2]
    shape = (2 * by + more[0], max(by, bz) + more[1], nz)
    result = decompose(shape, by * bz, Decomposition("global", (1, by, bz)))
    assert (owned_once(result) == 1).all()
    spectrum = np.zeros((shape[2], shape[1], shape[0] // 2 + 1), int)
    for part in result.subdomains:
        assert part.basis == shape
        assert part.first == part.owned_first
        assert part.size == part.owned_size
        (x0, x1), (y0, y1), (z0, z1) = part.spectral
        assert part.spectral_shape == (z1 - z0, y1 - y0, x1 - x0)
        spectrum[z0:z1, y0:y1, x0:x1] += 1
    assert (spectrum == 1).all()


def test_default_global_grids():
    def grid(shape, ranks):
        return decompose(shape, ranks).grid

    assert grid((64, 64, 64), 4) == (1, 1, 4)
    assert grid((64, 64, 1), 4) == (1, 4, 1)
    assert grid((64, 64, 6), 4) == (1, 2, 2)
    assert grid((64, 16, 64), 32) == (1, 4, 8)
    assert grid((64, 64, 7), 6) == (1, 2, 3)


# --- What is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "ranks", "options", "message"),
    [
        ((64, 64, 64), 3, dict(grid=(1, 2, 2)), "grid: 1x2x2 is 4 blocks; allowed: one per rank, 3"),
        ((64, 64, 64), 2, dict(grid=(2, 1, 1)), "grid: 2 blocks along x given; allowed in a global"),
        ((64, 64, 1), 2, dict(grid=(1, 1, 2)), "up to 33 along y and 1 along z"),
        ((64, 64, 1), 40, {}, "40 as 1 blocks along y and 40 along z; allowed for a grid of 64x64x1"),
        ((64, 64, 8), 5, dict(grid=(1, 1, 5)), "up to 33 along y and 4 along z"),
        (
            (64, 64, 64), 8, dict(kind="local", grid=(1, 1, 8), overlap=10),
            "8 blocks along z have 8 of its 64; allowed: blocks of 10 points or more, so up to 6 along z, or "
            "an overlap of up to 8",
        ),
        ((64, 20, 64), 4, dict(kind="local", grid=(1, 4, 1), overlap=6), "4 blocks along y have 5 of its 20"),
        ((64, 64, 1), 2, dict(kind="local", grid=(1, 1, 2)), "2 blocks along z have 0 of its 1"),
        ((20, 20, 20), 8, dict(kind="local", overlap=16), "allowed: blocks of 16 points or more along each"),
    ],
)  # fmt: skip
def test_what_does_not_fit(shape, ranks, options, message):
    with pytest.raises(InputError) as caught:
        decompose(shape, ranks, Decomposition(**options))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(kind="slab"), "decomposition: 'slab' given; allowed: global, local"),
        (dict(bell="sharp"), "bell: 'sharp' given; allowed: none, cosine"),
        (dict(overlap=0), "overlap: 0 given; allowed: a whole number"),
        (dict(overlap=2.5), "overlap: 2.5 given"),
        (dict(overlap=True), "overlap: True given"),
        (dict(grid=(2, 2)), "grid: (2, 2) given; allowed: numbers of blocks along x, y and z"),
        (dict(grid=(0, 1, 2)), "grid: (0, 1, 2) given"),
    ],
)
def test_options_that_nothing_allows(options, message):
    with pytest.raises(InputError) as caught:
        Decomposition(**options)
    assert message in str(caught.value)


def test_describe():
    assert decompose((64, 64, 64), 2).describe() == "global, grid 1x1x2"
    local = decompose((64, 64, 64), 2, Decomposition("local", overlap=8))
    assert local.describe() == "local, grid 1x1x2, overlap 8, bell nested-sine"
