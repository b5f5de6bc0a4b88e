"""JSON text read without trust: what is read is what was written, all else is refused in one line."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.base.files.input import parse_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=50)
@given(VALUES, st.booleans())
def test_what_was_written_is_read(value, ascii_only):
    assert parse_json(json.dumps(value, ensure_ascii=ascii_only), "thing") == value


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "thing: not JSON (Expecting value at line 1, column 1); allowed: a JSON object"),
        (
            '{"a": 1\n "b"}',
            "thing: not JSON (Expecting ',' delimiter at line 2, column 2); allowed: a JSON object",
        ),
        ('{"a": [{"c": 1, "b": 1, "c": 1}], "a": 2}', '"c": given twice in one object; allowed: once'),
        (r'{"\u001b": 1, "\u001b": 2}', r'"\u001b": given twice in one object; allowed: once'),
        (
            '{"%s": 1, "%s": 2}' % (("x" * 99,) * 2),
            f'"{"x" * 56}...: given twice in one object; allowed: once',
        ),
        ('{"a": NaN}', "thing: NaN; allowed: finite numbers"),
        ("[-Infinity]", "thing: -Infinity; allowed: finite numbers"),
        ("[" * 10**5, "thing: nested too deeply; allowed: a JSON object like that of to_json"),
        ("9" * 5000, "thing: a number with too many digits; allowed: numbers below 2^63"),
    ],
    ids=range(9),
)
def test_refused_in_one_line(text, line):
    with pytest.raises(InputError) as error:
        parse_json(text, "thing")
    assert str(error.value) == line


def test_the_format_says_which_numbers_are_allowed():
    with pytest.raises(InputError) as error:
        parse_json("[Infinity]", "schedule", "whole numbers")
    assert str(error.value) == "schedule: Infinity; allowed: whole numbers"


@pytest.mark.parametrize("text", [r'["a\ud800"]', r'{"\uDFFF": 1}', r'{"a": ["\ud83d", "\ude00"]}'])
def test_half_a_character_is_refused(text):
    with pytest.raises(
        InputError, match=r"^model: half a character, \\ud[0-9a-f]{3}; allowed: text in Unicode$"
    ):
        parse_json(text, "model")
    assert parse_json(r'["\ud83d\ude00"]', "model") == ["\N{GRINNING FACE}"]
