"""Random coupling along a fibre: delays of the coupled whole, power between groups, what is refused."""

import math

import numpy as np
import pytest
from fibre_cases import make_fibre
from scipy.stats import kstest, maxwell

from wavefabric.base.errors import InputError
from wavefabric.optics import graded_index_62_5, single_mode
from wavefabric.optics.fibre.random_coupling import RandomCoupling

KM, LENGTH = 1e3, 20e3


def group_delays(coupling, fibre, omegas, span=0):
    """Group delays of the whole fibre at some angular frequencies, sorted: (frequencies, rows), s.

    Eigenvalues of −i T′T† for the product T of all sections, from the exact derivative of each.
    """
    here = coupling.fibre(fibre, LENGTH)
    count = coupling.sections(LENGTH)
    delays = here.row_delays * LENGTH / count
    turn = np.exp(-1j * omegas[:, None] * delays)[..., None]
    whole = np.broadcast_to(np.eye(fibre.rows, dtype=complex), (len(omegas), fibre.rows, fibre.rows))
    slope = np.zeros_like(whole)
    for section in range(count):
        (unitary,) = coupling.unitary(fibre, LENGTH, span, section).matrices
        slope = unitary @ (turn * slope - 1j * delays[:, None] * turn * whole)
        whole = unitary @ (turn * whole)
    return np.linalg.eigvalsh(1j * slope @ whole.conj().swapaxes(1, 2))


@pytest.mark.slow
def test_differential_group_delay_is_maxwellian():
    """200 fibres at 20 frequencies far apart: mean, root mean square and distribution."""
    pmd, omegas = 0.5e-12 / math.sqrt(KM), 2 * np.pi * 4e12 * np.arange(20)
    fibre, drawn = single_mode(), []
    for seed in range(200):
        coupling = RandomCoupling("200 m", "polarisations", pmd="0.5 ps/sqrt(km)", seed=seed)
        delays = group_delays(coupling, fibre, omegas)
        drawn.append(delays[:, 1] - delays[:, 0])
    drawn = np.concatenate(drawn)
    assert drawn.mean() == pytest.approx(pmd * math.sqrt(LENGTH), rel=0.015)
    assert (drawn**2).mean() == pytest.approx(3 * math.pi / 8 * pmd**2 * LENGTH, rel=0.03)
    scale = pmd * math.sqrt(LENGTH) * math.sqrt(math.pi / 8)
    assert kstest(drawn, maxwell(scale=scale).cdf).statistic < 0.03


@pytest.mark.slow
@pytest.mark.parametrize("modes", [2, 3])
def test_delays_of_a_strongly_coupled_group(modes):
    """Variance σ² = K σ_section², and eigenvalues as of a Gaussian unitary ensemble without trace.

    Ho and Kahn 2011: Σ τ² / σ² is then a χ² of D² − 1 degrees of freedom, D = 2 modes: its variance is
    2 D² / (D² − 1).
    """
    spread, rows = 1e-12 / math.sqrt(KM), 2 * modes
    fibre = make_fibre([[1.0]], groups=[1] * modes, kappa_of="group")
    drawn = []
    for seed in range(200):
        coupling = RandomCoupling("200 m", delay_spread="1 ps/sqrt(km)", seed=seed)
        drawn.append(group_delays(coupling, fibre, 2 * np.pi * 4e12 * np.arange(8)))
    squares = np.sum(np.concatenate(drawn) ** 2, axis=1) / (spread**2 * LENGTH)
    assert np.concatenate(drawn).sum(axis=1) == pytest.approx(0, abs=1e-20)
    assert squares.mean() == pytest.approx(rows, rel=0.03)
    assert squares.var() == pytest.approx(2 * rows**2 / (rows**2 - 1), rel=0.12)


@pytest.mark.slow
def test_power_between_groups():
    """dP_i/dz = h Σ (P_j − P_i): groups of one and of two modes, of which the first is lit."""
    h, sections, seeds = 2e-5, 40, 300
    fibre = make_fibre([[1.0, 0.5], [0.5, 0.8]], groups=[1, 2, 2], kappa_of="group")
    power = np.zeros(6)
    for seed in range(seeds):
        coupling = RandomCoupling(LENGTH / sections, between_groups=h, seed=seed)
        field = np.array([1, 0, 0, 0, 0, 0], complex)
        for section in range(sections):
            (whole,) = coupling.unitary(fibre, LENGTH, 0, section).matrices
            field = whole @ field
        power += abs(field) ** 2 / seeds
    # Two modes of one power p: p' = h (P_1 − p), so that P_1 = 1/3 + 2/3 exp(−3hL).
    assert power[:2].sum() == pytest.approx(1 / 3 + 2 / 3 * math.exp(-3 * h * LENGTH), rel=0.06)
    assert power.sum() == pytest.approx(1, rel=1e-12)


def test_each_section_of_each_span_is_drawn_anew():
    fibre, coupling = graded_index_62_5(2), RandomCoupling("1 km", seed=3)
    kept = coupling.unitary(fibre, LENGTH, 1, 2).matrices
    assert [len(u) for u in kept] == [2, 4]
    again = coupling.unitary(fibre, LENGTH, 1, 2).matrices
    assert all((u == v).all() for u, v in zip(kept, again, strict=True))
    for span, section in ((0, 2), (1, 3)):
        other = coupling.unitary(fibre, LENGTH, span, section).matrices
        assert all(abs(u - v).max() > 0.1 for u, v in zip(kept, other, strict=True))
    assert abs(kept[0] - kept[1][:2, :2]).max() > 0.1


def test_sections_are_equal_and_none_is_longer():
    coupling = RandomCoupling("300 m")
    assert coupling.sections(1000.0) == 4
    assert coupling.sections(900.0) == 3
    assert coupling.sections(10.0) == 1


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"correlation_length": "0 m"}, "correlation_length: 0.0 m given"),
        ({"within": "all"}, 'within: "all" given; allowed: groups, polarisations'),
        ({"pmd": "-1 ps/sqrt(km)"}, "pmd: -.* given; allowed: 0 or more"),
        ({"pmd": "1 ps/km"}, 'pmd: "1 ps/km" has the unit "ps/km"; allowed: .* ps/sqrt'),
        ({"between_groups": math.inf}, "between_groups: inf"),
    ],
)
def test_bad_values(changes, text):
    with pytest.raises(InputError, match=text):
        RandomCoupling(**{"correlation_length": 100.0} | changes)


def test_what_does_not_fit_the_fibre():
    weak = make_fibre([[1.0, 0.5], [0.5, 0.8]], groups=[1, 1], kappa_of="mode")
    with pytest.raises(InputError, match='within: "groups" given'):
        RandomCoupling("100 m").fibre(weak, LENGTH)
    with pytest.raises(InputError, match="between_groups: given for one mode group"):
        RandomCoupling("100 m", between_groups=1e-6).fibre(single_mode(), LENGTH)
    with pytest.raises(InputError, match=r"correlation_length: 1e-09 m given; allowed: .* m or more"):
        RandomCoupling(1e-9).fibre(single_mode(), LENGTH)
