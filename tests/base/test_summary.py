"""Objects in one line: defaults left out, arrays in words."""

from dataclasses import dataclass, field
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from wavefabric.acoustics import Medium, Sensor, Source
from wavefabric.base.summary import array_words, one_line_repr
from wavefabric.optics import graded_index_62_5, standard_fibre


@dataclass(repr=False)
class Thing:
    size: Any
    kind: str = "plain"
    parts: list[int] = field(default_factory=list)
    hidden: int = field(default=3, repr=False)

    __repr__ = one_line_repr


def test_defaults_are_left_out():
    assert repr(Thing(2.5)) == "Thing(size=2.5)"
    assert repr(Thing(None, "odd", [1], hidden=4)) == "Thing(size=None, kind='odd', parts=[1])"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.array([1.0, 2.0]), "[1.0, 2.0]"),
        (np.linspace(-1, 1, 12).reshape(3, 4), "<3 x 4, -1 to 1>"),
        (np.arange(6) * 1j, "<6, magnitude 0 to 5>"),
        (np.eye(3, dtype=bool), "<3 x 3, 3 true>"),
        (np.zeros((0, 3)), "<0 x 3 float64>"),
        (SimpleNamespace(shape=(9, 9), dtype=np.dtype("float32")), "<9 x 9 float32>"),  # as on a GPU
        ("text", "'text'"),
        (np.array(["a"]), repr(np.array(["a"]))),
    ],
)
def test_arrays_in_words(value, words):
    assert array_words(value) == words


def test_what_users_print_fits_a_line():
    speeds = np.linspace(1400, 1600, 64 * 64).reshape(64, 64)
    assert repr(Medium(speeds, 1000.0)) == "Medium(sound_speed=<64 x 64, 1400 to 1600>, density=1000.0)"
    mask = np.zeros((8, 8), bool)
    mask[3, 3] = True
    assert repr(Sensor(mask, record="p_max")) == "Sensor(mask=<8 x 8, 1 true>, record='p_max')"
    assert repr(Source(p0=np.ones((8, 8)))) == "Source(p0=<8 x 8, 1 to 1>)"
    for fibre in (standard_fibre("G.652"), graded_index_62_5(10)):
        assert "array(" not in repr(fibre)
        assert "\n" not in repr(fibre)


def test_type_checkers_read_the_annotations():
    assert (files("wavefabric") / "py.typed").is_file()
