"""The forms of the Kerr coupling: exact where they say so, and honest where not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.optics.fibre.presets import graded_index_62_5
from wavefabric.optics.propagation.phase_groups import KERR_FORMS, find_phase_groups, phase_group_coupling

seeds = st.integers(0, 2**32 - 1)
groups = st.lists(st.integers(1, 5), min_size=1, max_size=8)


def between_rows(sizes, seed, rank=None):
    """κ of groups of these sizes, positive, not symmetric; of a rank if given."""
    rng = np.random.default_rng(seed)
    count = len(sizes)
    small = rng.uniform(0.1, 2.0, (count, count))
    if rank is not None:
        small = rng.uniform(0.1, 2.0, (count, rank)) @ rng.uniform(0.1, 2.0, (rank, count))
    where = np.repeat(np.arange(count), sizes)
    return small[np.ix_(where, where)]


def phases(coupling, power):
    """γκ P of every row, the way a kernel goes."""
    total = np.add.reduceat(power, coupling.start[:-1], axis=0)
    if coupling.rank:
        return (coupling.left @ (coupling.right @ total))[coupling.group_of_row]
    return (coupling.blocks[0] @ total)[coupling.group_of_row]


def powers(rows, seed):
    return np.random.default_rng(seed).exponential(size=(rows, 7))


@given(groups, seeds)
@settings(max_examples=60)
def test_groups_are_found_and_change_nothing(sizes, seed):
    kappa = between_rows(sizes, seed)
    group = find_phase_groups(kappa)
    # Random neighbours differ: the groups are those it was built from.
    assert np.bincount(group).tolist() == sizes
    power = powers(len(kappa), seed)
    wanted = 1.3 * kappa @ power
    for form in KERR_FORMS:
        coupling = phase_group_coupling(kappa, 1.3, form)
        assert coupling.start[-1] == len(kappa)
        assert (np.diff(coupling.start) > 0).all()
        np.testing.assert_allclose(phases(coupling, power), wanted, rtol=1e-12 if form != "svd" else 1e-9)
    assert phase_group_coupling(kappa, 1.3, "factored").groups == len(sizes)


@given(groups, st.integers(1, 4), seeds, st.floats(1e-14, 0.5))
@settings(max_examples=60)
def test_dropped_singular_values_bound_the_error(sizes, rank, seed, tolerance):
    kappa = between_rows(sizes, seed, min(rank, len(sizes)))
    coupling = phase_group_coupling(kappa, 0.7, "svd", tolerance)
    kept = np.linalg.svd(coupling.left @ coupling.right, compute_uv=False)
    assert coupling.rank + coupling.dropped.size == len(sizes)
    assert (coupling.dropped <= tolerance * kept[0] * (1 + 1e-12)).all()
    rest = coupling.blocks[0] - coupling.left @ coupling.right
    largest = coupling.dropped.max(initial=0.0)
    round_off = 1e-14 * kept[0] * len(sizes)
    assert np.linalg.norm(rest, 2) <= largest + round_off
    assert np.linalg.norm(rest) <= np.linalg.norm(coupling.dropped) + round_off
    # The phases of any powers, row by row: ‖Δφ‖ ≤ σ ‖P‖ over the groups.
    power = powers(len(kappa), seed)
    total = np.add.reduceat(power, coupling.start[:-1], axis=0)
    wanted = coupling.blocks[0] @ total
    error = np.linalg.norm(coupling.left @ (coupling.right @ total) - wanted, axis=0)
    assert (error <= (largest + round_off) * np.linalg.norm(total, axis=0)).all()


@pytest.mark.slow
@given(groups, st.integers(1, 3), seeds)
@settings(max_examples=60)
def test_auto_is_cheapest_and_exact(sizes, rank, seed):
    kappa = between_rows(sizes, seed, min(rank, len(sizes)))
    auto = phase_group_coupling(kappa, 2.0)
    power = powers(len(kappa), seed)
    np.testing.assert_allclose(phases(auto, power), 2.0 * kappa @ power, rtol=1e-12)
    for form in ("dense", "factored"):
        assert auto.products <= phase_group_coupling(kappa, 2.0, form).products


def test_auto_takes_the_low_rank_of_many_cells():
    kappa = between_rows([2] * 30, 1, rank=3)
    coupling = phase_group_coupling(kappa, 1.0)
    assert (coupling.form, coupling.groups, coupling.rank, coupling.products) == ("svd", 30, 3, 180)


@pytest.mark.parametrize("fibre_coupling", ["groups", "modes"])
def test_of_the_real_fibre(fibre_coupling):
    fibre = graded_index_62_5(5, fibre_coupling)
    coupling = phase_group_coupling(fibre.kappa_rows(), fibre.gamma)
    # A degenerate pair with equal κ may share a phase group; nothing may be finer than asked for.
    assert coupling.groups <= (5 if fibre_coupling == "groups" else 15)
    power = powers(fibre.rows, 3)
    wanted = fibre.gamma * fibre.kappa_rows() @ power
    np.testing.assert_allclose(phases(coupling, power), wanted, rtol=1e-12)


def test_only_neighbours_with_equal_rows_and_columns_share_a_phase_group():
    kappa = np.array([[1.0, 1.0, 0.5, 1.0], [1.0, 1.0, 0.5, 1.0], [0.2, 0.2, 0.3, 0.2], [1.0, 1.0, 0.5, 1.0]])
    assert find_phase_groups(kappa).tolist() == [0, 0, 1, 2]
    # Equal rows, other columns: the powers of the two count differently.
    assert find_phase_groups(np.array([[1.0, 2.0], [1.0, 2.0]])).tolist() == [0, 1]
    assert find_phase_groups(np.array([[1.0, 1.0], [2.0, 2.0]])).tolist() == [0, 1]
    assert find_phase_groups(np.ones((1, 1))).tolist() == [0]


def test_no_coupling_at_all():
    for form in KERR_FORMS:
        coupling = phase_group_coupling(np.zeros((4, 4)), 1.0, form)
        assert (phases(coupling, powers(4, 1)) == 0).all()
    assert (phases(phase_group_coupling(np.ones((4, 4)), 0.0, "svd"), powers(4, 1)) == 0).all()


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
        phase_group_coupling(kappa, 1.0, **options)
