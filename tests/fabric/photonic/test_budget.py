"""Link budgets: losses by hand, error rates by table, and what more loss does."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.collectives import point_to_point
from wavefabric.fabric.photonic.budget import RATES, budget, rates, slowest_circuit
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.link_budget import LinkBudget, bit_error_rate, required_q
from wavefabric.fabric.photonic.planning import plan_circuits

#: Bit error rates measured on LIGHTPATH, NRZ, by bit/s (LUMORPH paper, section 7). They fall as the rate
#: rises, so they show how many bits were counted rather than how much light there was: upper bounds.
MEASURED_BER = {10e9: 6.96e-13, 15e9: 6.62e-13, 20e9: 5.60e-14}


def wafers(rows, columns, wafer_columns):
    return PhotonicFabric(
        "wafers", rows, columns, rows, wafer_columns, 16, None, 20e9, 40, 40, 1e-6, 4e-6, tile_pitch=0.025
    )


def test_losses_of_a_route_add_up_as_by_hand():
    # Four edges over tiles of 2.5 cm: three within wafers, one by fibre.
    result = budget(wafers(1, 6, 3), (1, 2, 3, 4, 5))
    by_hand = {
        "modulator": 4.0,
        "switches": 8 * 0.3,
        "crossings": 3 * 4 * 0.02,
        "reticle boundaries": 3 * 0.25,
        "propagation": 4 * 2.5 * 0.4,
        "fibre coupling": 2 * 1.5,
        "receiver": 1.0,
    }
    assert dict(result.losses) == pytest.approx(by_hand, rel=1e-12)
    assert result.loss_db == pytest.approx(15.39, abs=1e-12)
    assert result.received_dbm == pytest.approx(10 - 15.39, abs=1e-12)


def test_q_and_margin_by_hand():
    b = LinkBudget(
        launch_power=-3.0,
        modulator_loss=0.0,
        switch_loss=0.0,
        crossings=0.0,
        reticle_loss=0.0,
        propagation_loss=0.0,
        receiver_loss=7.0,
        extinction_ratio=10 * math.log10(3),
        responsivity=0.8,
        noise_current=20e-12,
        bandwidth_ratio=0.5,
    )
    result = budget(wafers(1, 2, 2), (0, 1), b)
    # 0.1 mW, of which levels of 1.5 and 0.5 times that: 0.04 mA either side of the middle.
    assert result.received_dbm == pytest.approx(-10)
    for reach, (fmt, rate) in zip(result.reaches, RATES, strict=True):
        symbols = rate if fmt == "NRZ" else rate / 2
        q = 0.8 * 0.1e-3 * 0.5 / (20e-12 * math.sqrt(0.5 * symbols))
        assert reach.ber == pytest.approx(bit_error_rate(fmt, q), rel=1e-9)
        # At the sensitivity Q is what the limit needs, and Q is proportional to power.
        assert reach.margin_db == pytest.approx(10 * math.log10(q / required_q(fmt, reach.limit)), abs=1e-9)
        assert reach.closes == (reach.ber <= reach.limit)


@pytest.mark.parametrize(
    ("q", "ber"),
    # Tables of the normal distribution: Q(1), Q(2), Q(3), Q(6), Q(7).
    [
        (0, 0.5),
        (1, 0.158655253931457),
        (2, 0.022750131948179),
        (3, 1.349898031630e-3),
        (6, 9.865876450377e-10),
        (7, 1.279812543886e-12),
    ],
)
def test_error_rates_are_those_of_tables(q, ber):
    assert bit_error_rate("NRZ", q) == pytest.approx(ber, rel=1e-10)
    # Eyes a third as high, 3/4 of what two levels would have.
    assert bit_error_rate("PAM4", 3 * q) == pytest.approx(0.75 * ber, rel=1e-10)


def test_pam4_error_rate_by_counting_symbols():
    # Levels ±1, ±3; thresholds −2, 0, 2; Gray code 00 01 11 10; all errors, not only to neighbours.
    sigma = 0.35
    tail = lambda x: 0.5 * math.erfc(x / math.sqrt(2))  # noqa: E731
    gray = (0b00, 0b01, 0b11, 0b10)
    levels, thresholds = (-3, -1, 1, 3), (-math.inf, -2, 0, 2, math.inf)
    wrong = 0.0
    for i, level in enumerate(levels):
        for j in range(4):
            low, high = thresholds[j], thresholds[j + 1]
            chance = tail((low - level) / sigma) - tail((high - level) / sigma)
            wrong += chance * (gray[i] ^ gray[j]).bit_count() / 8
    # The outer eye is 6 wide: Q = 3/sigma.
    assert bit_error_rate("PAM4", 3 / sigma) == pytest.approx(wrong, rel=1e-3)


@given(st.sampled_from(("NRZ", "PAM4")), st.floats(-14, -1))
def test_needed_q_is_the_inverse(fmt, exponent):
    assert bit_error_rate(fmt, required_q(fmt, 10**exponent)) == pytest.approx(10**exponent, rel=1e-6)


def test_longer_routes_lose_more_and_carry_less():
    fabric = wafers(1, 16, 16)
    result = [budget(fabric, range(n)) for n in range(2, 17)]
    for near, far in pairwise(result):
        assert far.loss_db - near.loss_db == pytest.approx(0.25 + 1.0 + 0.6 + 0.08)
        assert far.best_rate <= near.best_rate
        assert all(f.ber >= n.ber for n, f in zip(near.reaches, far.reaches, strict=True))
    assert result[0].best_rate == 224e9
    assert result[-1].best_rate == 0
    assert result[-1].margin_db < 0
    assert result[-1].margin_db == result[-1].reaches[0].margin_db


@pytest.mark.parametrize(
    ("key", "worse"),
    list(
        {
            "launch_power": 5.0,
            "modulator_loss": 6.0,
            "switch_loss": 1.0,
            "crossing_loss": 0.5,
            "crossings": 9.0,
            "reticle_loss": 1.0,
            "propagation_loss": 80.0,
            "coupling_loss": 3.0,
            "receiver_loss": 2.0,
            "responsivity": 0.5,
            "noise_current": 40e-12,
            "bandwidth_ratio": 1.0,
            "extinction_ratio": 3.0,
            "pam4_limit": 1e-6,
            "nrz_limit": 1e-15,
        }.items()
    ),
)
def test_every_number_counts(key, worse):
    fabric, route = wafers(1, 4, 2), (0, 1, 2, 3)
    best, less = budget(fabric, route), budget(fabric, route, replace(LinkBudget(), **{key: worse}))
    margins = [(a.margin_db, b.margin_db) for a, b in zip(best.reaches, less.reaches, strict=True)]
    assert all(b <= a for a, b in margins)
    assert any(b < a for a, b in margins)


def test_the_paper_s_error_rates_need_less_light_than_two_neighbours_have():
    # Measured between two tiles; counted bits bound them from above.
    result = budget(wafers(1, 2, 2), (0, 1))
    for reach in result.reaches:
        if reach.rate in MEASURED_BER:
            assert reach.format == "NRZ"
            assert reach.ber <= MEASURED_BER[reach.rate]
    needed = [required_q("NRZ", ber) for ber in MEASURED_BER.values()]
    assert needed == pytest.approx([7.084, 7.091, 7.427], abs=2e-3)


def test_rates_of_many_routes_are_those_of_each():
    fabric = wafers(2, 12, 3)
    routes = [tuple(range(a, b)) for a in range(12) for b in range(a + 2, 13)] + [(0, 12, 13, 1), (2, 3)]
    by_one = [budget(fabric, r).best_rate / 8 for r in routes]
    assert rates(fabric, routes).tolist() == by_one
    assert len(set(by_one)) > 2
    bright = LinkBudget(launch_power=40.0)
    assert set(rates(fabric, routes, bright)) == {224e9 / 8}


def test_the_slowest_circuit_of_a_plan_is_found():
    fabric = wafers(1, 16, 16)
    schedule = point_to_point("messages", 16, [(0, 1, 1), (2, 13, 1), (13, 15, 1)])
    rate, bundle = slowest_circuit(plan_circuits(schedule, fabric))
    assert bundle is not None
    assert (bundle.src, bundle.dst) == (2, 13)
    assert rate == budget(fabric, range(2, 14)).best_rate / 8
    assert slowest_circuit(plan_circuits(schedule, fabric), LinkBudget(launch_power=-30.0))[0] == 0
    assert slowest_circuit(plan_circuits(point_to_point("messages", 2, []), fabric)) == (math.inf, None)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda f: budget(f, (0,)), "route: [0] given; allowed: at least two tiles"),
        (lambda f: budget(f, (0, 2)), "route: 0 -> 2 given; allowed: neighbours of tiles 0 to 3"),
        (lambda f: budget(f, (3, 4)), "route: 3 -> 4 given; allowed: neighbours"),
        (lambda f: LinkBudget(noise_current=0), "noise_current: 0 given; allowed: above 0"),
        (lambda f: LinkBudget(switch_loss=-1), "switch_loss: -1 given; allowed: from 0"),
        (lambda f: LinkBudget(launch_power=math.nan), "launch_power: nan given; allowed: finite"),
        (lambda f: LinkBudget(pam4_limit=0.4), "bit error rate: 0.4 given; allowed: above 0 and below 0.375"),
        (lambda f: bit_error_rate("PAM8", 3), "format: 'PAM8' given; allowed: NRZ, PAM4"),
    ],
)
def test_bad_input_is_refused_in_one_line(call, words):
    with pytest.raises(InputError) as error:
        call(wafers(1, 4, 2))
    assert words in str(error.value)
    assert "\n" not in str(error.value)
