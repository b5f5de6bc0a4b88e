"""A value of another kind than its key takes is refused in one line, which names the key."""

import copy
import datetime
import tomllib
from pathlib import Path

import pytest

from wavefabric.base.errors import InputError
from wavefabric.base.files.validation_errors import submodel
from wavefabric.optics.run_file.load import RunFile, checked_run

RUN = """
[fibre]
preset = "single-mode"
[link]
length = "80 km"
[signal]
symbol_rate = "32 GBaud"
symbols = 64
samples_per_symbol = 4
launch_power = "0 dBm"
channels = 1
centre_frequency = "193.4 THz"
[solver]
step = "1 km"
"""
VALUES = {
    "list": ["80 km", "60 km"],
    "whole numbers": [2, 1],
    "empty list": [],
    "nested list": [[["1 km"]]],
    "list of tables": [{"a": 1}],
    "table": {"a": 1},
    "true": True,
    "number": 1.5,
    "date": datetime.date(2026, 1, 2),
    "time": datetime.datetime(2026, 1, 2, 3, 4),
    "empty text": "",
    "text": "abc",
}
#: Keys that take any text, and those that take lists.
TEXTS = ("title", "output.file")
LISTS = (
    "link.length",
    "link.element",
    "fibre.groups",
    "fibre.betas",
    "signal.launch_power",
    "signal.frequencies",
    "receiver.at",
    "output.snapshots",
    "signal.modulation",
    "signal.symbol_rate",
    "signal.rolloff",
    "receiver.frequency_offset",
)


def keys(model, path=()):
    for name, field in model.model_fields.items():
        yield (*path, name)
        if (inner := submodel(field.annotation)) is not None:
            yield from keys(inner, (*path, name))


def refusal(key, value):
    """What a run file with this value of a key is refused with, "" if it is not."""
    data = copy.deepcopy(tomllib.loads(RUN))
    table = data
    for name in key[:-1]:
        table = table.setdefault(name, {})
    table[key[-1]] = value
    try:
        checked_run(data, Path("run.toml"), "")
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("key", [pytest.param(key, id=".".join(key)) for key in keys(RunFile)])
def test_every_key_refuses_values_of_other_kinds(key):
    name = ".".join(key)
    accepted = set()
    for kind, value in VALUES.items():
        line = refusal(key, value)
        assert "\n" not in line
        if not line:
            accepted.add(kind)
            continue
        # A key that is missing beside it may be said first.
        assert line.startswith((name, f"{name}[")) or ": missing" in line
        if kind != "number" and not (kind == "whole numbers" and name in LISTS):
            assert "has no unit" not in line
        if kind == "list" and name not in LISTS and line.startswith(name):
            words = ("one value is allowed, a list of 2 was given", "allowed: a table", "the path of a file")
            assert any(word in line for word in words)
    texts = {"text", "empty text"} if name == "title" else {"text"} & ({"text"} if name in TEXTS else set())
    lists = {"list", "empty list"} if name == "output.snapshots" else set()
    lists |= {"list"} if name == "link.length" else set()
    assert accepted <= texts | lists | {"true"}


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("solver.step", ["1 km", "2 km"], "solver.step: one value is allowed, a list of 2 was given"),
        ("link.spans", [2, 1], "link.spans: one value is allowed, a list of 2 was given"),
        (
            "signal.modulation",
            ["16qam", "qpsk", "16qam"],
            "signal.modulation: 3 values given for 1 channel; "
            "allowed: one value, or a list with one for each channel",
        ),
        ("signal.symbol_rate", [], "signal.symbol_rate: one value is allowed, a list of 0 was given"),
        ("link.length", 80, "link.length: 80 has no unit; give text with a unit such as m, mm, um, nm, km"),
        (
            "link.length",
            True,
            "link.length: true is not a quantity; allowed: a number with a unit such as m, mm, um, nm, km",
        ),
    ],
)
def test_the_line(key, value, line):
    assert refusal(tuple(key.split(".")), value) == line
