"""Orders of integrators, and the work–precision diagram."""

import json
import os

import pytest

from papers.fibre import work_precision
from papers.fibre.work_precision import measured_order

pytestmark = pytest.mark.slow


def test_order_of_smooth_pulses(numbers):
    result = numbers(
        work_precision,
        *("--case", "pulses", "--points", 6, "--phases", 0.1, "--tolerances", "1e-3,1e-6"),
        *("--threads", 1, "--device", "cpu"),
    )
    (case,) = result["cases"]
    assert case["reference"]["error_estimate"] < 1e-10
    curves = {(c["name"], c["control"]): c for c in case["curves"]}
    for name, order in {"ssfm_agrawal": 2, "ssfm_rk4": 2, "strang": 2, "rk4ip": 4, "blanes_moan": 4}.items():
        curve = curves[name, "step"]
        assert curve["order"] == pytest.approx(order, abs=0.05)
        assert len(curve["points"]) == 6
    strang = curves["strang", "step"]["points"]
    # Two a step, and one pair each to split and to close.
    assert all(p["ffts"] == 2 * p["steps"] + 4 and p["exchanges"] == p["steps"] for p in strang)
    loose, strict = curves["erk43ip", "tolerance"]["points"]
    assert strict["error"] < loose["error"] / 50
    assert strict["steps"] > loose["steps"]
    assert len(curves["strang", "max_phase"]["points"]) == 1
    assert os.listdir() == []


def test_order_writes_its_picture_and_numbers(script):
    code, out, _ = script(
        work_precision,
        *("--case", "pulses", "--points", 3, "--phases", "none", "--tolerances", "none"),
        *("-o", "out", "--device", "cpu"),
    )
    assert code == 0
    assert "order" in out
    assert "erk43ip" not in out
    assert sorted(os.listdir("out")) == ["work_precision.json", "work_precision.png"]
    with open("out/work_precision.json", encoding="utf-8") as file:
        assert json.load(file)["benchmark"] == "work_precision"


def test_measured_order():
    steps = [4.0, 2.0, 1.0]
    assert measured_order(steps, [1e-4 * h**3 for h in steps]) == pytest.approx(3)
    assert measured_order(steps, [0.5, 0.1, 1e-5]) is None
    assert measured_order(steps, [1e-9, 1e-12, 1e-14]) is None


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--case", "square"], "square"),
        (["--points", "2"], "3 to 12"),
        (["--tolerances", "1e-3,x"], "--tolerances"),
        (["--phases", "-1"], "phases"),
    ],
)
def test_bad_options_give_one_line(script, words, part):
    code, out, err = script(work_precision, *words, "-o", ".")
    assert (code, out) == (2, "")
    assert err.startswith("wavefabric: error: ")
    assert err.count("\n") == 1
    assert part in err
    assert os.listdir() == []
