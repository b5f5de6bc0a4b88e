"""Values of axes: ranges and lists as text, sequences, zipped keys, the table [sweep]."""

import tomllib
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.base.units import quantity
from wavefabric.optics.sweeps.points import MOST_POINTS, axes_of_table, axis, values_of

DECIMALS = st.integers(-(10**7), 10**7).map(lambda number: Decimal(number).scaleb(-4))


@given(DECIMALS, DECIMALS.filter(bool), st.integers(1, 50), st.sampled_from(["m", "GHz", "dB/km"]))
def test_a_range_holds_both_ends_and_equal_steps(first, step, count, unit):
    last = first + (count - 1) * step
    texts = values_of("k", f"{first}:{last}:{step} {unit}")
    numbers = [Fraction(text.removesuffix(f" {unit}")) for text in texts]
    assert numbers == [Fraction(first) + i * Fraction(step) for i in range(count)]
    assert values_of("k", f"{first} : {last}: {step}") == pytest.approx([float(number) for number in numbers])


@given(st.integers(-100, 100), st.integers(1, 20), st.integers(1, 30), st.sampled_from((1, -1)))
def test_whole_numbers_stay_whole(first, step, count, sign):
    values = values_of("k", f"{first}:{first + sign * step * (count - 1)}:{sign * step}")
    assert values == [first + sign * step * i for i in range(count)]
    assert all(type(value) is int for value in values)


@given(DECIMALS, DECIMALS, DECIMALS)
def test_any_range_is_exact_or_refused(first, last, step):
    steps = (Fraction(last) - Fraction(first)) / Fraction(step) if step else Fraction(-1)
    text = f"{first}:{last}:{step} m"
    if steps.denominator == 1 and 0 <= steps < MOST_POINTS:
        values = values_of("k", text)
        assert len(values) == steps + 1
        assert quantity(values[-1], "m") == float(last)
    else:
        with pytest.raises(InputError, match=r"^k: [^\n]*$"):
            values_of("k", text)


@given(st.text(max_size=40))
def test_any_text_is_values_or_one_line(text):
    values, line = [], ""
    try:
        values = values_of("k", text)
    except InputError as error:
        line = str(error)
    assert len(values) <= MOST_POINTS
    assert bool(values) != (line.startswith("k: ") and len(line.splitlines()) == 1)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("50 m, 0.1 km", ["50 m", "0.1 km"]),
        ("1, 2.5, 1e-6", [1, 2.5, 1e-6]),
        ("qpsk, 16qam", ["qpsk", "16qam"]),
        ("true,false", [True, False]),
        ('[["0 dBm"], [1, 3]]', [["0 dBm"], [1, 3]]),
        ("2 dBm", ["2 dBm"]),
        ("-4:4:4 dBm", ["-4 dBm", "0 dBm", "4 dBm"]),
        ("0.1:0.3:0.1 rad", ["0.1 rad", "0.2 rad", "0.3 rad"]),
        ("-1e1:1e1:1e1 m", ["-10 m", "0 m", "10 m"]),
    ],
)
def test_text(text, values):
    assert values_of("k", text) == values


def test_sequences():
    assert values_of("k", range(3)) == [0, 1, 2]
    assert values_of("k", 7) == [7]
    values = values_of("k", np.array([0.5, 1.5]))
    assert values == [0.5, 1.5]
    assert type(values[0]) is float


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "allowed: a range"),
        ("1,,2", "allowed: a range"),
        ("[1, 2", "allowed: a range"),
        ("[]", "0 values given"),
        ("1:2:0 m", "a step that leads from the first value to the last"),
        ("1:2:-1 m", "a step that leads"),
        ("1:2:0.3 m", "a step that leads"),
        ("0:1e9:1e-9 m", "e+18 values; allowed: up to 10000"),
        ("0:1e999:1e-999 m", "allowed: up to 10000"),
    ],
)
def test_bad_text(text, words):
    with pytest.raises(InputError, match=r"^k: ") as error:
        values_of("k", text)
    assert words in str(error.value)


def test_zipped_keys():
    both = axis(("a", "b"), ["1:3:1", ["x", "y", "z"]])
    assert (both.name, both.rows) == ("a", ((1, "x"), (2, "y"), (3, "z")))
    with pytest.raises(InputError, match="a has 3, b has 2 values"):
        axis(("a", "b"), ["1:3:1", "1, 2"])
    for keys, values in ((("a", "b"), "1, 2"), (("a", "b"), [1]), ((), [])):
        with pytest.raises(InputError, match="zipped keys; allowed: values for each"):
            axis(keys, values)


def test_the_table_of_a_run_file():
    text = """
    seed = "1:2:1"
    "link.spans" = [1, 2]
    signal.launch_power = "0, 1"
    fibre.profile.exponent = 2.0
    [[zip]]
    "solver.step" = "50 m, 100 m"
    receiver.osnr = ["20 dB", "21 dB"]
    """
    axes = axes_of_table(tomllib.loads(text))
    names = [each.keys for each in axes]
    single = [("seed",), ("link.spans",), ("signal.launch_power",), ("fibre.profile.exponent",)]
    assert names == [*single, ("solver.step", "receiver.osnr")]
    assert axes[-1].rows == (("50 m", "20 dB"), ("100 m", "21 dB"))
    assert axes_of_table({"zip": {"a": "1, 2", "b": {"c": [3, 4]}}})[0].keys == ("a", "b.c")
    for bad in (3, [1], {"zip": 3}, {"zip": [3]}, {"zip": [{}]}):
        with pytest.raises(InputError, match="allowed"):
            axes_of_table(bad)
