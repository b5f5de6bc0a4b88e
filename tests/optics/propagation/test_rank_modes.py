"""How modes are shared among ranks, and what of κ each of them holds. No rank is started here."""

import itertools

import numpy as np
import pytest
from fibre_cases import distance, make_fibre, smooth_field
from hypothesis import given
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.optics.propagation.operators import FibreOperators
from wavefabric.optics.propagation.operators_ranks import ExchangeOptions, RankOperators, chunks_for
from wavefabric.optics.propagation.phase_groups import exchange_form, rank_phase_group_coupling
from wavefabric.optics.propagation.rank_modes import RankModes, check_split, split_modes
from wavefabric.runtime.exchange import solo


@given(st.integers(1, 200), st.data())
def test_shares_are_even_to_within_one(modes, data):
    ranks = data.draw(st.integers(1, modes))
    ends = split_modes(modes, ranks)
    sizes = np.diff(ends)
    assert (ends[0], ends[-1], len(ends)) == (0, modes, ranks + 1)
    assert sizes.max() - sizes.min() <= 1
    assert sizes.min() >= 1


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.data())
def test_shares_of_whole_groups_are_as_even_as_can_be(groups, data):
    ranks = data.draw(st.integers(1, len(groups)))
    cuts = np.cumsum(groups)
    ends = split_modes(sum(groups), ranks, cuts)
    every = [(0, *chosen, int(cuts[-1])) for chosen in itertools.combinations(cuts[:-1].tolist(), ranks - 1)]
    assert ends in every
    # Largest first, then the next: nothing is more even.
    assert sorted(np.diff(ends), reverse=True) == min(sorted(np.diff(e), reverse=True) for e in every)


def test_the_fifteen_groups_of_the_paper_over_eight_ranks():
    ends = split_modes(120, 8, np.cumsum(np.arange(1, 16)))
    assert np.diff(ends).max() == 21
    assert split_modes(120, 8) == tuple(range(0, 121, 15))


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (lambda: split_modes(3, 4), "ranks: 4 given for 3 modes; allowed: 1 to 3"),
        (lambda: split_modes(10, 4, [1, 3, 10]), "ranks: 4 given, .* there are 3"),
        (lambda: check_split([1, 2], 4, 2), r"split: \[1, 2\]"),
        (lambda: check_split([1, 2, 1], 4, 2), "split"),
        (lambda: check_split([4, 0], 4, 2), "split"),
        (lambda: check_split([5, -1], 4, 2), "split"),
        (lambda: check_split("even", 4, 2), "split: 'even' given"),
        (lambda: check_split([1.5, 2.5], 4, 2), r"split: \[1.5, 2.5\] given"),
        (lambda: check_split(4, 4, 2), "split: 4 given"),
        (lambda: check_split(np.array([4, 0]), 4, 2), r"split: \[4, 0\] given"),
        (lambda: exchange_form("best", "auto"), 'exchange: "best"'),
        (lambda: exchange_form("auto", "best"), 'kerr: "best"'),
        (lambda: exchange_form("auto", "svd"), 'kerr: "svd" given with several ranks'),
        (lambda: exchange_form("dense", "factored"), 'exchange: "dense" given with kerr = "factored"'),
    ],
)
def test_split_refusals(work, words):
    with pytest.raises(InputError, match=words) as caught:
        work()
    assert "\n" not in str(caught.value)


def test_forms_that_agree():
    assert [exchange_form(*pair) for pair in (("auto", "auto"), ("auto", "dense"), ("factored", "auto"))] == [
        "auto",
        "dense",
        "factored",
    ]


#: Groups of 1, 2, 3 and 2 modes; κ is not symmetric.
GROUPS = [1, 2, 2, 3, 3, 3, 4, 4]
KAPPA = np.random.default_rng(5).uniform(0.2, 1.2, (4, 4))


@pytest.mark.parametrize("form", ["dense", "factored", "auto"])
@pytest.mark.parametrize("ends", [(0, 4, 8), (0, 1, 5, 8), (0, 3, 4, 5, 8), (0, 1, 3, 6, 8)])
def test_blocks_of_kappa_give_the_phases_of_all_rows(form, ends):
    fibre = make_fibre(KAPPA, "group", groups=GROUPS, gamma=2.0)
    kappa = fibre.kappa_rows()
    power = np.random.default_rng(1).uniform(0, 1, fibre.rows)
    lanes_parts = [RankModes(ends, rank) for rank in range(len(ends) - 1)]
    layouts = [rank_phase_group_coupling(fibre, local_modes, form) for local_modes in lanes_parts]
    sums = [np.add.reduceat(power[s.slice], m.start[:-1]) for s, m in zip(lanes_parts, layouts, strict=True)]
    phases = []
    for coupling in layouts:
        assert coupling.parts == tuple(s.size for s in sums)
        assert coupling.form == ("dense" if form == "dense" else "factored")
        own = sum(block @ part for block, part in zip(coupling.blocks, sums, strict=True))
        phases.append(np.repeat(own, np.diff(coupling.start)))
    np.testing.assert_allclose(np.concatenate(phases), fibre.gamma * kappa @ power, rtol=1e-13)
    if form != "dense":
        # A group is cut at most once for each cut between ranks.
        assert sum(layouts[0].parts) <= 4 + len(lanes_parts) - 1


def test_auto_stays_dense_where_no_rows_share_a_phase():
    kappa = np.random.default_rng(2).uniform(0.2, 1.2, (8, 8))
    fibre = make_fibre(kappa, "row", groups=[1, 1, 1, 1])
    assert rank_phase_group_coupling(fibre, RankModes((0, 2, 4))).form == "dense"


@pytest.mark.parametrize(("n", "chunks"), [(1, 1), (1 << 15, 1), (1 << 16, 2), (1 << 18, 4), (1 << 22, 4)])
def test_number_of_chunks(n, chunks):
    assert chunks_for(n) == chunks


@pytest.mark.parametrize("chunks", [1, 2, 3, 7, 192])
def test_chunks_change_round_off_at_most(cpu, chunks):
    """One rank in the form of several: rows of any cut in time give the same kernels."""
    fibre = make_fibre(KAPPA, "group", groups=GROUPS, gamma=2.0)
    plain = FibreOperators(cpu, fibre, 192, 1e12, np.complex128)
    exchange = ExchangeOptions("factored", chunks)
    split = RankOperators(solo(cpu), fibre, 192, 1e12, np.complex128, RankModes((0, 8)), exchange=exchange)
    start, slope = smooth_field(16, 192, 0.3, seed=1), smooth_field(16, 192, 0.3, seed=2)
    for name, extra in (("rk4ip_middle", ()), ("rk4ip_last", (True,))):
        outs = []
        for operators in (plain, split):
            A, K = operators.empty(), operators.empty()
            A[...], K[...] = start, slope
            getattr(operators, name)(A, K, 0.2, *extra)
            outs.append((A, K, operators.squared_error()))
        for a, b in zip(outs[0][:2], outs[1][:2], strict=True):
            assert abs(a - b).max() < 1e-14 * 10
        assert outs[1][2] == pytest.approx(outs[0][2], rel=1e-12)
    for name in ("kerr_rotate", "kerr_rotate_rk4"):
        outs = []
        for operators in (plain, split):
            A = operators.empty()
            A[...] = start
            getattr(operators, name)(A, 0.2)
            outs.append(A)
        assert distance(outs[0], outs[1]) < 1e-14
    A = plain.empty()
    A[...] = start
    assert split.max_phase_rate(A) == pytest.approx(plain.max_phase_rate(A), rel=1e-13)


def test_places_in_the_ring_are_taken_again(cpu):
    """Memory for exchanged powers does not grow with the number of chunks."""
    fibre = make_fibre(KAPPA, "group", groups=GROUPS)
    operators = RankOperators(
        solo(cpu), fibre, 60, 1e12, np.complex128, RankModes((0, 8)), exchange=ExchangeOptions(chunks=20)
    )
    A, K = operators.empty(), operators.empty()
    A[...], K[...] = 1, 1
    for _ in range(2):
        operators.rk4ip_middle(A, K, 1e-3)
        operators.rk4ip_last(A, K, 1e-3)
        assert len(operators._exchanges) == 6
    operators.kerr_rotate_rk4(A, 1e-3)
    assert len(operators._exchanges) == 10
