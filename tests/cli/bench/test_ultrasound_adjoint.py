"""``ultrasound-adjoint`` at a tiny size, through the command; and what it works out of a whole gradient."""

import pytest

from benchmarks.ultrasound_adjoint import WRT, _runs
from wavefabric.runtime.lifecycle.reversal import advances


def test_lines(numbers):
    words = "ultrasound-adjoint", "--size", "12x10x8", "--repeats", 1, "--threads", 1
    result = numbers(*words, "--medium", "homogeneous")
    (case,) = result["cases"]
    assert case["shape"] == [12, 10, 8]
    assert [line["wrt"] for line in case["lines"]] == [name for name in WRT if name != "all"]
    for line in case["lines"]:
        assert line["ratio"] == pytest.approx(line["adjoint"]["ms"] / line["forward"]["ms"])
        assert 5 < line["state_fields"] < 9  # small grids are mostly layers
        few, many = line["runs"]["60"], line["runs"]["200"]
        assert few == many == 1 + line["ratio"] if line["wrt"] == "p0" else few > many > 3


@pytest.mark.parametrize("states", [10, 38])
def test_runs(states):
    forward, adjoint, copies = _runs(states)
    assert adjoint == 1
    assert forward == advances(10_000, states + 1) / 10_000
    assert 0 < copies < 2
