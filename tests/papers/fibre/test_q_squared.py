"""The Q² study on a small link, and which link is the paper's."""

import os

import numpy as np
import pytest

from papers.fibre import q_squared
from papers.fibre.step_study import compare
from wavefabric.base.results import Data, ResultWriter, read_result

pytestmark = pytest.mark.slow

Q2 = ["--groups", 2, "--channels", 3, "--symbols", 32, "--span-length", "8 km", "--device", "cpu"]
HERE = ["-o", ".", "--no-plot"]


def test_q2_study(script, numbers):
    options = [*Q2, "--spans", 1, "--steps", "2km,1km,rk4ip:1km"]
    result = numbers(q_squared, *HERE, *options)
    assert [(r["integrator"], r["step_m"]) for r in result["runs"]] == [
        ("strang", 2000.0),
        ("strang", 1000.0),
        ("rk4ip", 1000.0),
    ]
    assert result["finest"] == "q_squared-rk4ip-1000m.h5"
    assert result["extrapolated"] is None  # one step of it
    coarse, fine, finest = result["runs"]
    assert finest["change"] is None
    assert 0 < fine["change"]["rms_db"] < coarse["change"]["rms_db"] < 0.2
    assert all(r["change"]["rms_db"] <= r["change"]["max_db"] for r in (coarse, fine))
    assert [len(g["places"]) for g in result["groups"]] == [2, 2]
    assert len(result["modes"]["places"]["span_1"]["mean_db"]) == 3
    assert abs(finest["penalties"][0]["fundamental_db"]) < 0.2
    assert finest["steps"] == 8
    assert not [name for name in os.listdir() if name.endswith(".png")]

    # The same again reads what lies there; other options do not.
    stamp = os.stat("q_squared-rk4ip-1000m.h5").st_mtime_ns
    again = numbers(q_squared, *HERE, *options)
    assert again["runs"] == result["runs"]
    assert os.stat("q_squared-rk4ip-1000m.h5").st_mtime_ns == stamp
    code, out, err = script(q_squared, "-o", ".", *Q2, "--spans", 2, "--steps", "2km")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--force" in err

    code, out, err = script(
        q_squared,
        "--from",
        "q_squared-strang-1000m.h5",
        "--from",
        "q_squared-rk4ip-1000m.h5",
        "-o",
        "figures",
    )
    assert (code, err) == (0, "")
    assert "LP01" in out
    # The paper has no numbers for two mode groups and three channels.
    assert result["paper"] == []
    assert "-0.13" not in out
    assert "no numbers for this link" in " ".join(out.split())
    figures = ["q_squared-figure4.png", "q_squared-figure5.png", "q_squared.json", "q_squared.png"]
    assert sorted(os.listdir("figures")) == figures


def test_q2_is_extrapolated_to_step_zero(numbers, script):
    # Below the resonance limit of 798 m, in which the integrator's order holds.
    options = [*Q2, "--spans", 1, "--steps", "200m,100m"]
    result = numbers(q_squared, *HERE, *options)
    limit = result["extrapolated"]
    assert (limit["integrator"], limit["steps_m"], limit["order"]) == ("strang", [100.0, 200.0], 2)
    assert not limit["above_resonance"]
    coarse, fine = (run["penalties"][0] for run in result["runs"])
    (distance_name,) = limit["places"]
    for key in ("fundamental_db", "mean_db"):
        assert distance_name[key] == pytest.approx((4 * fine[key] - coarse[key]) / 3, abs=1e-12)
    assert distance_name["modes_db"][0] == distance_name["fundamental_db"]
    # It is nearer to a far shorter step than the finer of the two is.
    truth = numbers(q_squared, *HERE, *Q2, "--spans", 1, "--steps", "10m")["runs"][0]["penalties"][0]
    assert abs(distance_name["mean_db"] - truth["mean_db"]) < 0.2 * abs(fine["mean_db"] - truth["mean_db"])
    mixed = numbers(q_squared, *HERE, *Q2, "--spans", 1, "--steps", "2km,200m,100m")["extrapolated"]
    assert mixed == limit
    # Above the limit the error goes with the step, whatever the integrator.
    coarse = numbers(q_squared, *HERE, *Q2, "--spans", 1, "--steps", "4km,2km,1km")["extrapolated"]
    assert (coarse["order"], coarse["above_resonance"]) == (1, True)
    source = ["--from", "q_squared-strang-200m.h5", "--from", "q_squared-strang-100m.h5"]
    code, out, err = script(q_squared, *source, "-o", "figures")
    assert (code, err) == (0, "")
    assert "order 2" in out
    assert os.path.getsize("figures/q_squared-figure5.png") > 10_000


CASES = {
    "spans": ("spans = 2", "spans = 3", True),
    "symbols": ("symbols = 64", "symbols = 16384", True),
    "groups left out": ("groups = 15\n", "", True),
    "groups": ("groups = 15", "groups = 14", False),
    "channels": ("channels = 60", "channels = 59", False),
    "spacing": ('"50 GHz"', '"49 GHz"', False),
    "centre": ("193.425 THz", "193.4 THz", False),
    "power": ("-1 dBm", "0 dBm", False),
    "rate": ("32 GBaud", "31 GBaud", False),
    "format": ('"qpsk"', '"16qam"', False),
    "length": ('length = "80 km"', 'length = "40 km"', False),
    "loss": ("0.23 dB/km", "0.2 dB/km", False),
    "noise": ("spans = 2", 'spans = 2\nnoise_figure = "5 dB"', False),
    "gain": ("spans = 2", 'spans = 2\ngain = "18.4 dB"', False),
    "mixing": ("spans = 2", "spans = 2\nmix_groups = true", False),
    "n2": ("groups = 15", 'groups = 15\nn2 = "3e-20 m^2/W"', False),
    "wavelength": ("1549.91577 nm", "1540 nm", False),
    "coupling": ('coupling = "groups"', 'coupling = "modes"', False),
    "dispersion": ('dispersion = "paper"', 'dispersion = "solver"', False),
    "OSNR": ("20 dB", "18 dB", False),
}


@pytest.mark.parametrize("name", CASES)
def test_the_papers_numbers_stand_beside_its_own_case_alone(tmp_path, name):
    text = q_squared._template(15, 60, 64, 128, 2, "80 km", "double")
    text = text.replace("INTEGRATOR", "strang").replace("STEP", "100")
    old, new, same = CASES[name]
    assert old in text
    received = {
        distance_name: {"attrs": {"distance_m": far}, "q_squared_db": Data(np.full((1, 1), q), "dB", "Q")}
        for distance_name, far, q in (("back_to_back", 0.0, 15.9), ("span_1", 80e3, 15.8))
    }
    results = []
    for number, run_file in enumerate((text, text.replace(old, new), "")):
        path = ResultWriter(tmp_path / f"{number}.h5").write({"received": received}, run_file=run_file)
        results.append(compare([read_result(path)]))
    shown = [[line["fundamental_penalty_db"] for line in result["paper"]] for result in results]
    assert shown == [[-0.06, -0.13], [-0.06, -0.13] if same else [], []]
    assert [table.row_count for table in (q_squared.table(result)[0] for result in results)] == [
        2,
        1 + same,
        1,
    ]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--groups", "16"], "1 to 15"),
        (["--channels", "0"], "channels"),
        (["--steps", ""], "steps"),
        (["--steps", "10"], "steps"),
        (["--steps", "euler:1km"], "euler"),
        (["--steps", "100km"], "span"),
        (["--symbols", "3"], "signal.symbols"),
        (["--precision", "half"], "solver.precision"),
        (["--samples", "16"], "samples_per_symbol"),
        (["--span-length", "80"], "link.length"),
        (["--from", "missing.h5"], "missing.h5"),
    ],
)
def test_bad_options_give_one_line(script, words, part):
    code, out, err = script(q_squared, *words, "-o", ".")
    assert (code, out) == (2, "")
    assert err.startswith("wavefabric: error: ")
    assert err.count("\n") == 1
    assert part in err
    assert os.listdir() == []
