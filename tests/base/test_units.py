"""Quantities at the edges."""

import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.base.units import PLAIN, _by_pint, amount, db, quantity, show, significant, watt_from_dbm


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("80 km", "m", 80e3),
        ("80km", "m", 80e3),
        ("62.5 µm", "m", 62.5e-6),
        ("62.5 um", "m", 62.5e-6),
        ("50 GHz", "Hz", 50e9),
        ("32 GBaud", "Hz", 32e9),
        ("-1 dBm", "W", 10**-3.1),
        ("1.5 mW", "W", 1.5e-3),
        ("20 dB", "dB", 20.0),
        ("0.23 dB/km", "1/m", 0.23e-4 * math.log(10)),
        ("0.05 1/km", "1/m", 5e-5),
        ("-23.1 ps^2/km", "s^2/m", -23.1e-27),
        ("0.1 ps^3/km", "s^3/m", 1e-40),
        ("2.6e-20 m^2/W", "m^2/W", 2.6e-20),
        ("1.3 /W/km", "1/W/m", 1.3e-3),
        ("2 min", "s", 120.0),
        ("10 mrad", "rad", 0.01),
        ("0.01", "rad", 0.01),
        (" 3 ", "", 3.0),
        (80e3, "m", 80e3),
        (2, "m", 2.0),
    ],
)
def test_quantity(text, unit, value):
    assert quantity(text, unit) == pytest.approx(value, rel=1e-14)


@pytest.mark.parametrize(
    ("value", "unit"),
    [
        ("80 kg", "m"),
        ("80", "m"),
        ("", "m"),
        ("km", "m"),
        ("80 parsnips", "m"),
        ("80 ((", "m"),
        ("80 2*km", "m"),
        ("9**9**9 m", "m"),
        ("1 m * (10**10**10)", "m"),
        ("1 m * 10**10**10", "m"),
        ("1 m^99999999", "m"),
        ("1 m" + "*m/m" * 100, "m"),
        ("20 dB", ""),
        ("20", "dB"),
        ("20 dBm", "dB"),
        ("20 dB", "W"),
        ("0.23 dB", "1/m"),
        ("0.23 dB/kg", "1/m"),
        ("1 dBm", "m"),
        ("nan km", "m"),
        ("-inf km", "m"),
        ("1e400 km", "m"),
        ("40000 dBm", "W"),
        (10**400, "m"),
        (math.nan, "m"),
        (True, "m"),
        (None, "m"),
        (["80 km"], "m"),
        ("80 km\n80 km", "m"),
    ],
)
def test_what_is_no_quantity(value, unit):
    with pytest.raises(InputError) as error:
        quantity(value, unit, "link.length")
    message = str(error.value)
    assert message.startswith("link.length: ")
    assert "allowed" in message
    assert "\n" not in message
    assert len(message) < 240


@pytest.mark.parametrize(("text", "unit"), [(text, unit) for unit in PLAIN for text in PLAIN[unit]])
def test_plain_units_are_those_of_pint(text, unit):
    assert PLAIN[unit][text] == _by_pint(text, unit)


def test_plain_units_do_without_pint():
    code = "from wavefabric.base.units import quantity as q; import sys; q('300 GB/s', 'B/s'); q('5 µs', 's')"
    code += "; sys.exit('pint' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@given(st.floats(-1e6, 1e6), st.sampled_from(["m", "km", "um", "nm"]))
def test_any_number_is_read_exactly_as_python_does(number, unit):
    factor = quantity(f"1 {unit}", "m")
    assert quantity(f"{number!r} {unit}", "m") == number * factor


@given(st.text(max_size=30))
def test_any_text_is_a_number_or_an_input_error(text):
    try:
        assert math.isfinite(quantity(text, "m"))
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017


def test_levels():
    assert watt_from_dbm(0) == 1e-3
    assert db(100) == 20
    assert show("x" * 100).endswith("...")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0"), (0.00123456, "0.00123"), (12.345, "12.3"), (999.4, "999"), (999.6, "1 k"),
        (51_681, "51.7 k"), (336_226_108, "336 M"), (999.6e6, "1 G"), (3.14e23, "314000000 P"),
    ],
)  # fmt: skip
def test_counts_have_three_digits_and_a_prefix(value, words):
    assert amount(value) == words


@pytest.mark.parametrize(
    ("value", "words"), [(0.5, "0.5"), (-7.891, "-7.89"), (999.5, "1000"), (12345.6, "12346")]
)
def test_all_digits_of_large_numbers_are_shown(value, words):
    assert significant(value) == words
