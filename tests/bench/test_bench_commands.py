"""The benchmarks at tiny sizes, through the command."""

import json
import os

import numpy as np
import pytest

from wavefabric.bench import fibre_q2
from wavefabric.bench.fibre_order import measured_order
from wavefabric.bench.q2_compare import compare
from wavefabric.results import Data, read_result, write_result

Q2 = ["--groups", 2, "--channels", 3, "--symbols", 32, "--span-length", "8 km", "--device", "cpu"]


def test_step(numbers):
    found = numbers(
        "fibre-step",
        "--case",
        "6x10",
        "--repeats",
        2,
        "--error-steps",
        4,
        "--integrators",
        "all",
        "--threads",
        1,
    )
    assert found["benchmark"] == "fibre-step"
    assert found["copy_bytes_per_second"] > 1e8
    assert found["machine"]["device"] == "cpu"
    shapes = [(c["rows"], c["samples"], c["dtype"]) for c in found["cases"]]
    assert shapes == [(r, n, d) for r, n in ((6, 1024),) for d in ("complex128", "complex64")]
    for case in found["cases"]:
        lines = {line["name"]: line for line in case["integrators"]}
        assert len(lines) == 6
        assert {name: lines[name]["ffts"] for name in ("rk4ip", "strang", "blanes_moan")} == {
            "rk4ip": 8,
            "strang": 2,
            "blanes_moan": 12,
        }
        single = case["dtype"] == "complex64"
        assert lines["rk4ip"]["difference_from_plain"] < (1e-5 if single else 1e-12)
        for line in lines.values():
            assert line["ms_best"] <= line["ms"] <= line["ms_worst"]
            assert line["fft_share"] > 0
            assert line["passes"] > 0
            assert line["times_faster_than_plain"] > 0
            # Python's own small objects, never an array: a field here has 48 KiB or more.
            assert line["bytes_allocated"] < 24 << 10
            assert line["finite"]
            assert ("error_steps" in line) == single
            if single:
                assert 1e-9 < line["error_against_complex128"] < 1e-5


def test_step_on_the_terminal(command):
    code, out, err = command(
        "fibre-step",
        "--case",
        "2x2^10",
        "--precision",
        "double",
        "--repeats",
        1,
        "--no-plain",
        "--device",
        "cpu",
    )
    assert (code, err) == (0, "")
    for word in ("2 rows x 2^10 complex128", "eight bare FFTs", "rk4ip", "strang", "passes", "wrote"):
        assert word in out
    assert "…" not in out
    assert os.listdir() == ["fibre-step.png"]


def test_order_of_smooth_pulses(numbers):
    found = numbers(
        *("fibre-order", "--case", "pulses", "--points", 6, "--phases", 0.1, "--tolerances", "1e-3,1e-6"),
        *("--threads", 1),
    )
    (case,) = found["cases"]
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


def test_order_writes_its_picture_and_numbers(command):
    code, out, _ = command(
        *("fibre-order", "--case", "pulses", "--points", 3, "--phases", "none", "--tolerances", "none"),
        *("-o", "out", "--device", "cpu"),
    )
    assert code == 0
    assert "order" in out
    assert "erk43ip" not in out
    assert sorted(os.listdir("out")) == ["fibre-order.json", "fibre-order.png"]
    with open("out/fibre-order.json", encoding="utf-8") as file:
        assert json.load(file)["benchmark"] == "fibre-order"


def test_measured_order():
    steps = [4.0, 2.0, 1.0]
    assert measured_order(steps, [1e-4 * h**3 for h in steps]) == pytest.approx(3)
    assert measured_order(steps, [0.5, 0.1, 1e-5]) is None
    assert measured_order(steps, [1e-9, 1e-12, 1e-14]) is None


def test_q2_study(command, numbers):
    options = [*Q2, "--spans", 1, "--steps", "2km,1km,rk4ip:1km"]
    found = numbers("fibre-q2", *options)
    assert [(r["integrator"], r["step_m"]) for r in found["runs"]] == [
        ("strang", 2000.0),
        ("strang", 1000.0),
        ("rk4ip", 1000.0),
    ]
    assert found["finest"] == "fibre-q2-rk4ip-1000m.h5"
    assert found["extrapolated"] is None  # one step of it
    coarse, fine, finest = found["runs"]
    assert finest["change"] is None
    assert 0 < fine["change"]["rms_db"] < coarse["change"]["rms_db"] < 0.2
    assert all(r["change"]["rms_db"] <= r["change"]["max_db"] for r in (coarse, fine))
    assert [len(g["places"]) for g in found["groups"]] == [2, 2]
    assert len(found["modes"]["places"]["span_1"]["mean_db"]) == 3
    assert abs(finest["penalties"][0]["fundamental_db"]) < 0.2
    assert finest["steps"] == 8
    assert not [name for name in os.listdir() if name.endswith(".png")]

    # The same again reads what lies there; other options do not.
    stamp = os.stat("fibre-q2-rk4ip-1000m.h5").st_mtime_ns
    again = numbers("fibre-q2", *options)
    assert again["runs"] == found["runs"]
    assert os.stat("fibre-q2-rk4ip-1000m.h5").st_mtime_ns == stamp
    code, out, err = command("fibre-q2", *Q2, "--spans", 2, "--steps", "2km")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--force" in err

    code, out, err = command(
        "fibre-q2", "--from", "fibre-q2-strang-1000m.h5", "--from", "fibre-q2-rk4ip-1000m.h5", "-o", "figures"
    )
    assert (code, err) == (0, "")
    assert "LP01" in out
    # The paper has no numbers for two mode groups and three channels.
    assert found["paper"] == []
    assert "-0.13" not in out
    assert "no numbers for this link" in " ".join(out.split())
    figures = ["fibre-q2-figure4.png", "fibre-q2-figure5.png", "fibre-q2.json", "fibre-q2.png"]
    assert sorted(os.listdir("figures")) == figures


def test_q2_is_extrapolated_to_step_zero(numbers, command):
    # Below the resonance limit of 798 m, in which the integrator's order holds.
    options = [*Q2, "--spans", 1, "--steps", "200m,100m"]
    found = numbers("fibre-q2", *options)
    limit = found["extrapolated"]
    assert (limit["integrator"], limit["steps_m"], limit["order"]) == ("strang", [100.0, 200.0], 2)
    assert not limit["above_resonance"]
    coarse, fine = (run["penalties"][0] for run in found["runs"])
    (place,) = limit["places"]
    for key in ("fundamental_db", "mean_db"):
        assert place[key] == pytest.approx((4 * fine[key] - coarse[key]) / 3, abs=1e-12)
    assert place["modes_db"][0] == place["fundamental_db"]
    # It is nearer to a far shorter step than the finer of the two is.
    truth = numbers("fibre-q2", *Q2, "--spans", 1, "--steps", "10m")["runs"][0]["penalties"][0]
    assert abs(place["mean_db"] - truth["mean_db"]) < 0.2 * abs(fine["mean_db"] - truth["mean_db"])
    mixed = numbers("fibre-q2", *Q2, "--spans", 1, "--steps", "2km,200m,100m")["extrapolated"]
    assert mixed == limit
    # Above the limit the error goes with the step, whatever the integrator.
    coarse = numbers("fibre-q2", *Q2, "--spans", 1, "--steps", "4km,2km,1km")["extrapolated"]
    assert (coarse["order"], coarse["above_resonance"]) == (1, True)
    source = ["--from", "fibre-q2-strang-200m.h5", "--from", "fibre-q2-strang-100m.h5"]
    code, out, err = command("fibre-q2", *source, "-o", "figures")
    assert (code, err) == (0, "")
    assert "order 2" in out
    assert os.path.getsize("figures/fibre-q2-figure5.png") > 10_000


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
    text = fibre_q2._template(15, 60, 64, 128, 2, "80 km", "double")
    text = text.replace("INTEGRATOR", "strang").replace("STEP", "100")
    old, new, same = CASES[name]
    assert old in text
    received = {
        place: {"attrs": {"distance_m": far}, "q_squared_db": Data(np.full((1, 1), q), "dB", "Q")}
        for place, far, q in (("back_to_back", 0.0, 15.9), ("span_1", 80e3, 15.8))
    }
    results = []
    for number, run_file in enumerate((text, text.replace(old, new), "")):
        path = write_result(tmp_path / f"{number}.h5", {"received": received}, run_file=run_file)
        results.append(compare([read_result(path)]))
    shown = [[line["fundamental_penalty_db"] for line in found["paper"]] for found in results]
    assert shown == [[-0.06, -0.13], [-0.06, -0.13] if same else [], []]
    assert [table.row_count for table in (fibre_q2.table(found)[0] for found in results)] == [2, 1 + same, 1]


def test_modes(numbers):
    found = numbers("fibre-modes", "--radial-step", "0.04 um")
    assert found["counts"]["spatial_modes_groups_1_to_15"] == 120
    assert found["a_eff"]["largest_percent"] < 3
    assert found["machine"]["python"]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["fibre-nothing"], "fibre-nothing"),
        (["fibre-step", "--nothing"], "--nothing"),
        (["fibre-step", "--case", "30"], "30x21"),
        (["fibre-step", "--case", "4x12"], "4 rows"),
        (["fibre-step", "--case", "2x4"], "2^8"),
        (["fibre-step", "--precision", "half"], "half"),
        (["fibre-step", "--integrators", "euler"], "euler"),
        (["fibre-step", "--step", "5"], "--step"),
        (["fibre-step", "--step", "-5 m"], "positive"),
        (["fibre-step", "--repeats", "0"], "repeats"),
        (["fibre-step", "--device", "tpu"], "tpu"),
        (["fibre-order", "--case", "square"], "square"),
        (["fibre-order", "--points", "2"], "3 to 12"),
        (["fibre-order", "--tolerances", "1e-3,x"], "--tolerances"),
        (["fibre-order", "--phases", "-1"], "phases"),
        (["fibre-q2", "--groups", "16"], "1 to 15"),
        (["fibre-q2", "--channels", "0"], "channels"),
        (["fibre-q2", "--steps", ""], "steps"),
        (["fibre-q2", "--steps", "10"], "steps"),
        (["fibre-q2", "--steps", "euler:1km"], "euler"),
        (["fibre-q2", "--steps", "100km"], "span"),
        (["fibre-q2", "--symbols", "3"], "signal.symbols"),
        (["fibre-q2", "--precision", "half"], "solver.precision"),
        (["fibre-q2", "--samples", "16"], "samples_per_symbol"),
        (["fibre-q2", "--span-length", "80"], "link.length"),
        (["fibre-q2", "--from", "missing.h5"], "missing.h5"),
        (["fibre-modes", "--radial-step", "0 um"], "step"),
    ],
)
def test_bad_options_give_one_line(command, words, part):
    code, out, err = command(*words)
    assert (code, out) == (2, "")
    assert err.startswith("wavefabric: error: ")
    assert err.count("\n") == 1
    assert part in err
    assert os.listdir() == []


def test_ultrasound_stability(command):
    """The media are those of their seed, whatever else is drawn."""
    small = ["ultrasound-stability", "--points", 16, "--steps", 20, "--seed", 5]
    found = json.loads(command(*small, "--media", 4, "--json")[1])
    assert found["refused"] + found["stopped"] + found["returned"] == 4
    two = json.loads(command(*small, "--media", 2, "--json")[1])
    assert two["cases"] == found["cases"][:2]
    code, out, _ = command(*small, "--media", 1)
    assert code == 0
    assert "1 random media" in out
    code, _, err = command("ultrasound-stability", "--points", 5)
    assert code == 2
    assert "--points 5" in err
