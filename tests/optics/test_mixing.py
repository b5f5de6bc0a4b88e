"""The forms of the Kerr coupling: exact where they say so, and honest where not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.errors import InputError
from wavefabric.optics.fibre.presets import graded_index_62_5
from wavefabric.optics.propagation.phase_groups import FORMS, find_cells, make_mixing

seeds = st.integers(0, 2**32 - 1)
cells = st.lists(st.integers(1, 5), min_size=1, max_size=8)


def between_rows(sizes, seed, rank=None):
    """κ of cells of these sizes, positive, not symmetric; of a rank if given."""
    rng = np.random.default_rng(seed)
    count = len(sizes)
    small = rng.uniform(0.1, 2.0, (count, count))
    if rank is not None:
        small = rng.uniform(0.1, 2.0, (count, rank)) @ rng.uniform(0.1, 2.0, (rank, count))
    where = np.repeat(np.arange(count), sizes)
    return small[np.ix_(where, where)]


def phases(mixing, power):
    """γκ P of every row, the way a kernel goes."""
    total = np.add.reduceat(power, mixing.cell_start[:-1], axis=0)
    if mixing.rank:
        return (mixing.left @ (mixing.right @ total))[mixing.cell_of_row]
    return (mixing.dense @ total)[mixing.cell_of_row]


def powers(rows, seed):
    return np.random.default_rng(seed).exponential(size=(rows, 7))


@given(cells, seeds)
@settings(deadline=None, max_examples=60)
def test_cells_are_found_and_change_nothing(sizes, seed):
    kappa = between_rows(sizes, seed)
    found = find_cells(kappa)
    # Random neighbours differ: the cells are those it was built from.
    assert np.bincount(found).tolist() == sizes
    power = powers(len(kappa), seed)
    wanted = 1.3 * kappa @ power
    for form in FORMS:
        mixing = make_mixing(kappa, 1.3, form)
        assert mixing.cell_start[-1] == len(kappa)
        assert (np.diff(mixing.cell_start) > 0).all()
        np.testing.assert_allclose(phases(mixing, power), wanted, rtol=1e-12 if form != "svd" else 1e-9)
    assert make_mixing(kappa, 1.3, "factored").cells == len(sizes)


@given(cells, st.integers(1, 4), seeds, st.floats(1e-14, 0.5))
@settings(deadline=None, max_examples=60)
def test_dropped_singular_values_bound_the_error(sizes, rank, seed, tolerance):
    kappa = between_rows(sizes, seed, min(rank, len(sizes)))
    mixing = make_mixing(kappa, 0.7, "svd", tolerance)
    kept = np.linalg.svd(mixing.left @ mixing.right, compute_uv=False)
    assert mixing.rank + mixing.dropped.size == len(sizes)
    assert (mixing.dropped <= tolerance * kept[0] * (1 + 1e-12)).all()
    rest = mixing.dense - mixing.left @ mixing.right
    largest = mixing.dropped.max(initial=0.0)
    round_off = 1e-14 * kept[0] * len(sizes)
    assert np.linalg.norm(rest, 2) <= largest + round_off
    assert np.linalg.norm(rest) <= np.linalg.norm(mixing.dropped) + round_off
    # The phases of any powers, row by row: ‖Δφ‖ ≤ σ ‖P‖ over the cells.
    power = powers(len(kappa), seed)
    total = np.add.reduceat(power, mixing.cell_start[:-1], axis=0)
    wanted = mixing.dense @ total
    error = np.linalg.norm(mixing.left @ (mixing.right @ total) - wanted, axis=0)
    assert (error <= (largest + round_off) * np.linalg.norm(total, axis=0)).all()


@given(cells, st.integers(1, 3), seeds)
@settings(deadline=None, max_examples=60)
def test_auto_is_cheapest_and_exact(sizes, rank, seed):
    kappa = between_rows(sizes, seed, min(rank, len(sizes)))
    auto = make_mixing(kappa, 2.0)
    power = powers(len(kappa), seed)
    np.testing.assert_allclose(phases(auto, power), 2.0 * kappa @ power, rtol=1e-12)
    for form in ("dense", "factored"):
        assert auto.products <= make_mixing(kappa, 2.0, form).products


def test_auto_takes_the_low_rank_of_many_cells():
    kappa = between_rows([2] * 30, 1, rank=3)
    mixing = make_mixing(kappa, 1.0)
    assert (mixing.form, mixing.cells, mixing.rank, mixing.products) == ("svd", 30, 3, 180)


@pytest.mark.parametrize("coupling", ["groups", "modes"])
def test_of_the_real_fibre(coupling):
    fibre = graded_index_62_5(5, coupling)
    mixing = make_mixing(fibre.kappa_rows(), fibre.gamma)
    # A degenerate pair with equal κ may share a cell; nothing may be finer than asked for.
    assert mixing.cells <= (5 if coupling == "groups" else 15)
    power = powers(fibre.rows, 3)
    wanted = fibre.gamma * fibre.kappa_rows() @ power
    np.testing.assert_allclose(phases(mixing, power), wanted, rtol=1e-12)


def test_only_neighbours_with_equal_rows_and_columns_share_a_cell():
    kappa = np.array([[1.0, 1.0, 0.5, 1.0], [1.0, 1.0, 0.5, 1.0], [0.2, 0.2, 0.3, 0.2], [1.0, 1.0, 0.5, 1.0]])
    assert find_cells(kappa).tolist() == [0, 0, 1, 2]
    # Equal rows, other columns: the powers of the two count differently.
    assert find_cells(np.array([[1.0, 2.0], [1.0, 2.0]])).tolist() == [0, 1]
    assert find_cells(np.array([[1.0, 1.0], [2.0, 2.0]])).tolist() == [0, 1]
    assert find_cells(np.ones((1, 1))).tolist() == [0]


def test_no_coupling_at_all():
    for form in FORMS:
        mixing = make_mixing(np.zeros((4, 4)), 1.0, form)
        assert (phases(mixing, powers(4, 1)) == 0).all()
    assert (phases(make_mixing(np.ones((4, 4)), 0.0, "svd"), powers(4, 1)) == 0).all()


@pytest.mark.parametrize(
    ("kappa", "options", "word"),
    [
        (np.ones((2, 3)), {}, "kappa"),
        (np.ones(4), {}, "kappa"),
        ([[np.nan]], {}, "kappa"),
        ([[np.inf, 1.0], [1.0, 1.0]], {}, "kappa"),
        (np.ones((2, 2)), {"form": "best"}, "kerr"),
        (np.ones((2, 2)), {"form": "svd", "tolerance": -1e-3}, "svd_tolerance"),
        (np.ones((2, 2)), {"form": "svd", "tolerance": 1.0}, "svd_tolerance"),
        (np.ones((2, 2)), {"form": "svd", "tolerance": np.nan}, "svd_tolerance"),
    ],
)
def test_bad_input(kappa, options, word):
    with pytest.raises(InputError, match=word):
        make_mixing(kappa, 1.0, **options)
