"""The roofline by hand, and measured times that go before it."""

from dataclasses import replace
from math import isclose, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.training.gpu.device_model import (
    ARITHMETIC,
    DEVICES,
    DIFFERENT,
    EFFICIENCY,
    MATRIX_OPERATORS,
    DeviceModel,
    MeasuredTime,
)
from wavefabric.training.models.graph import OPERATORS

PEAK = {"fp32": 10e12, "tf32": 80e12, "bf16": 160e12}
FRACTIONS = dict.fromkeys(OPERATORS, (0.5, 0.25))
PLAIN = DeviceModel("plain", PEAK, 1e12, 16e9, 4e-6, FRACTIONS)
ROWS = (
    MeasuredTime("matmul", "bf16", 1e9, 1e6, 30e-6),
    MeasuredTime("matmul", "bf16", 4e9, 3e6, 75e-6),
    MeasuredTime("matmul", "bf16", 4e9, 5e6, 85e-6),
    MeasuredTime("matmul", "bf16", 16e9, 9e6, 250e-6),
    MeasuredTime("matmul", "fp32", 16e9, 9e6, 4e-3),
    MeasuredTime("softmax", "fp32", 0, 1e6, 11e-6),
)
MEASURED = replace(PLAIN, measured=ROWS)
AMOUNTS = st.floats(0, 1e15)


@pytest.mark.parametrize(
    ("operator", "arithmetic", "flops", "nbytes", "seconds"),
    [
        ("matmul", "bf16", 8e9, 1e6, 4e-6 + 1e-4),  # 8e9/(160e12 · 0.5)
        ("matmul", "tf32", 8e9, 1e6, 4e-6 + 2e-4),
        ("convolution", "fp32", 8e9, 1e6, 4e-6 + 1.6e-3),
        ("attention", "bf16", 1e6, 5e7, 4e-6 + 2e-4),  # 5e7/(1e12 · 0.25)
        ("elementwise", "bf16", 1e9, 1e6, 4e-6 + 2e-4),  # at the peak of fp32
        ("embedding", "fp32", 0, 25e4, 4e-6 + 1e-6),
        ("pooling", "tf32", 0, 0, 4e-6),
    ],
)
def test_roofline_by_hand(operator, arithmetic, flops, nbytes, seconds):
    assert PLAIN.seconds(operator, flops, nbytes, arithmetic) == pytest.approx(seconds, rel=1e-12)


def test_small_products_reach_less_of_the_peak():
    device = replace(PLAIN, launch=0.0, half_flops=2e9)
    reached = [f / device.seconds("matmul", f, 0, "bf16") / 80e12 for f in (2e5, 2e9, 2e13)]
    assert reached == pytest.approx([1 / (1 + 100), 1 / 2, 1 / (1 + 0.01)])
    assert device.seconds("softmax", 1e9, 0, "bf16") == PLAIN.seconds("softmax", 1e9, 0, "bf16") - 4e-6


@given(st.sampled_from(OPERATORS), st.sampled_from(ARITHMETIC), AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS)
def test_more_work_takes_no_less_time_and_no_more_than_the_sum(operator, arithmetic, f, b, more_f, more_b):
    device = DEVICES["a100"]

    def seconds(flops, nbytes):
        return device.seconds(operator, flops, nbytes, arithmetic)

    assert seconds(f + more_f, b + more_b) >= seconds(f, b)
    assert seconds(f + more_f, b + more_b) <= (seconds(f, b) + seconds(more_f, more_b)) * (1 + 1e-12)


def test_presets_are_the_data_sheets_with_published_efficiencies():
    assert sorted(DEVICES) == ["a100", "b200", "gb200", "h100", "h200", "v100"]
    assert DEVICES["a100"].peak == {"fp32": 19.5e12, "tf32": 156e12, "bf16": 312e12}
    assert (DEVICES["a100"].bandwidth, DEVICES["a100"].memory) == (2.039e12, 80e9)
    assert (DEVICES["h200"].bandwidth, DEVICES["h200"].memory) == (4.8e12, 141e9)
    for name, one in DEVICES.items():
        assert one.efficiency == EFFICIENCY | DIFFERENT.get(name, {})
        assert one.source
    assert (DEVICES["b200"].bandwidth, DEVICES["gb200"].memory) == (7.7e12, 186e9)
    # The best of many shapes, over that of an A100 (ml-engineering, compute/accelerator).
    best = {"h100": (80.3, 70.9), "h200": (80.3, 73.4), "b200": (77.6, 76.3), "gb200": (72.9, 72.3)}
    for name, (bf16, fp8) in best.items():
        fractions = DIFFERENT[name]
        assert fractions["matmul"][0] == pytest.approx(0.75 * bf16 / 86.9, abs=0.006)
        assert fractions["fp8"][0] == pytest.approx(0.75 * fp8 / 86.9, abs=0.006)
        assert fractions.get("mxfp8", fractions["fp8"]) == fractions["fp8"]
        assert ("mxfp8" in DEVICES[name].peak) == ("mxfp8" in fractions)
    # 1000 x 1000 x 1000 on an A100: half of its multiprocessors have a tile, half of the share is reached.
    assert DEVICES["a100"].half_flops == pytest.approx(2 * (128 * sqrt(54)) ** 3)
    assert hash(DEVICES["a100"]) != hash(DEVICES["h100"])


@pytest.mark.parametrize("row", ROWS)
def test_measured_times_are_exact_at_their_rows(row):
    assert MEASURED.seconds(row.operator, row.flops, row.bytes, row.arithmetic) == row.seconds


def test_between_and_beyond_measured_times():
    def ratio(flops, arithmetic="bf16", operator="matmul"):
        inputs = operator, flops, 0, arithmetic
        return MEASURED.seconds(*inputs) / PLAIN.seconds(*inputs)

    low, high = 30e-6 / (4e-6 + 12.5e-6), 250e-6 / (4e-6 + 2e-4)
    middle = sqrt(75e-6 * 85e-6) / (4e-6 + 5e-5)  # two rows of equal FLOPs
    assert [ratio(1e3), ratio(1e9), ratio(1e15)] == pytest.approx([low, low, high])
    assert ratio(4e9) == pytest.approx(middle)
    # Half-way between the logarithms of two rooflines: the geometric mean.
    between = (sqrt((4e-6 + 12.5e-6) * (4e-6 + 5e-5)) - 4e-6) * 80e12
    assert ratio(between) == pytest.approx(sqrt(low * middle))
    assert ratio(1e9, "tf32") == ratio(1e9, operator="convolution") == 1.0
    assert MEASURED.seconds("softmax", 0, 1e6, "bf16") == 11e-6


@settings(max_examples=30)
@given(st.sampled_from(OPERATORS), st.sampled_from(ARITHMETIC), AMOUNTS, AMOUNTS, st.floats(0.01, 100))
def test_a_device_scaled_is_that_many_times_as_fast(operator, arithmetic, flops, nbytes, factor):
    for device in (MEASURED, DEVICES["v100"]):
        scaled = device.scaled(factor)
        assert scaled.memory == device.memory
        assert isclose(
            scaled.seconds(operator, flops, nbytes, arithmetic) * factor,
            device.seconds(operator, flops, nbytes, arithmetic),
            rel_tol=1e-9,
        )


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"peak": PEAK | {"tf32": 0}}, "peak.tf32: 0 given; allowed: a number above 0"),
        ({"peak": {"fp32": 1e12}}, "peak.tf32: null given; allowed: a number above 0"),
        ({"bandwidth": float("nan")}, "bandwidth: NaN given; allowed: a number above 0"),
        ({"memory": float("inf")}, "memory: Infinity given; allowed: a number above 0"),
        ({"launch": -1e-6}, "launch: -1e-06 given; allowed: a number from 0"),
        ({"half_flops": "1"}, 'half_flops: "1" given; allowed: a number from 0'),
        ({"efficiency": FRACTIONS | {"matmul": (1.5, 1)}},
         "efficiency.matmul: 1.5 given; allowed: a number above 0, up to 1"),
        ({"efficiency": {}}, "efficiency.matmul: null given; allowed: a number above 0, up to 1"),
        ({"measured": (ROWS[0], ROWS[0])}, "measured[1]: given twice; allowed: each flops and bytes once"),
        ({"measured": (replace(ROWS[0], operator="conv"),)},
         f'measured[0].operator: "conv" given (did you mean convolution?); allowed: {", ".join(OPERATORS)}'),
        ({"measured": (replace(ROWS[5], arithmetic="bf16"),)},
         'measured[0].arithmetic: "bf16" given; allowed: fp32'),
        ({"measured": (replace(ROWS[5], bytes=0),)},
         "measured[0].bytes: 0 given, and no flops; allowed: one of them above 0"),
        ({"measured": (replace(ROWS[0], seconds=0.0),)},
         "measured[0].seconds: 0.0 given; allowed: a number above 0"),
    ],
)  # fmt: skip
def test_faults_in_one_line(change, error):
    with pytest.raises(InputError) as caught:
        replace(PLAIN, **change)
    assert str(caught.value) == error


def test_a_factor_must_be_positive():
    with pytest.raises(InputError, match=r"^factor: 0 given; allowed: a number above 0$"):
        PLAIN.scaled(0)


def test_matrix_operators_are_operators():
    assert set(MATRIX_OPERATORS) < set(OPERATORS)
