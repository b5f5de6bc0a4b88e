"""What the page of each kind of result says, against the result itself."""

import json

import h5py
import numpy as np
import pytest
from report_cases import PLAN, wave

from wavefabric.base.errors import InputError
from wavefabric.base.results import read_result
from wavefabric.base.units import binary_bytes, time_words
from wavefabric.collectives import build, load, save
from wavefabric.collectives.tuning import load_tuning
from wavefabric.fabric import cost
from wavefabric.fabric import load as load_fabric
from wavefabric.optics.link.result import group_rows
from wavefabric.report import write_report


def content(path, **options):
    """What the page of a file says, and its text."""
    report = write_report(path, **options)
    return report.contents[0], report.pages[0].read_text("utf-8")


def test_a_link(copy):
    path = copy("link.h5") / "link.h5"
    said, text = content(path)
    result, solver = read_result(path), read_result(path).attrs("solver")
    assert said.title == "a <script>alert(1)</script> & link"
    assert "<script>alert" not in text
    assert "a &lt;script&gt;alert(1)&lt;/script&gt; &amp; link</h1>" in text
    mean = 10 * np.log10(np.mean(10 ** (result["received/span_1/q_squared_db"] / 10)))
    worst = min(row["received"]["span_1"]["penalty_db"] for row in group_rows(result))
    assert said.verdict.startswith(f"Worked: mean Q² {mean:.2f} dB after 4 km, penalty −{-worst:.3f} dB")
    step, memory = said.tiles
    assert step.value == time_words(solver["seconds"] / 8)
    assert step.note == f"{time_words(solver['total_seconds'])} in all, 8 steps"
    assert memory.value == binary_bytes(int(solver["memory_bytes"]))
    assert sum(said.parts.values()) == pytest.approx(solver["total_seconds"])
    assert 0 < solver["receiver_seconds"] < solver["total_seconds"] - solver["seconds"]
    for words in ("Q² of each mode", "Penalty of each mode", "Received symbols", "Spectrum", "Power along"):
        assert f"<b>{words}" in text


def test_warnings_and_a_lost_signal(copy):
    path = copy("link.h5") / "link.h5"
    with h5py.File(path, "r+") as file:
        file["solver/warnings"] = ["too long <a step>"]
    said, text = content(path)
    assert (said.state, said.verdict[-9:]) == ("warned", "1 warning")
    assert "<li>too long &lt;a step&gt;</li>" in text
    with h5py.File(path, "r+") as file:
        file["received/span_1/q_squared_db"][1, 0] = -np.inf
    said, _ = content(path, force=True)
    assert (said.state, said.verdict) == ("bad", "Signal lost in 1 of 3 modes")


def test_a_prediction_stands_beside_what_was_measured(copy):
    path = copy("link.h5") / "link.h5"
    solver = read_result(path).attrs("solver")
    measured, nbytes = float(solver["seconds"] / 800), int(solver["memory_bytes"])
    plan = PLAN["plan"]["candidates"][0] | {"bytes": 2 * nbytes}
    plan["seconds"] = plan["seconds"] | {"step": measured / 1.25}
    with h5py.File(path, "r+") as file:
        file.attrs["plan"] = json.dumps(plan)
    # A few steps are mostly compilation, and the memory of a process is not that of its arrays.
    assert [tile.predicted for tile in content(path)[0].tiles] == ["", ""]
    with h5py.File(path, "r+") as file:
        file.attrs["device"], file["solver"].attrs["steps"] = "cuda:0", 800
    said, text = content(path, force=True)
    assert said.tiles[0].predicted == f"{time_words(measured / 1.25)} (measured 25% more)"
    assert "(measured 50% less)" in said.tiles[1].predicted
    assert "<b>Predicted step</b>" in text
    assert "exposed 1 ms" in text
    for bad in ("{", "[1]", '{"bytes": 1e999}', '{"seconds": 3}', '{"bytes": "many"}'):
        with h5py.File(path, "r+") as file:
            file.attrs["plan"] = bad
        assert [tile.predicted for tile in content(path, force=True)[0].tiles] == ["", ""]


def test_a_sweep(copy):
    said, text = content(copy("sweep.h5") / "sweep.h5")
    assert "signal.launch_power = " in said.verdict
    assert said.verdict.startswith("Best of 2 points: Q² ")
    assert "Best Q² over signal.launch_power" in text


def shown(array):
    """The values of one of the page's arrays, to 8 bits."""
    import base64

    low, high, _ = array["ends"]
    levels = np.frombuffer(base64.b64decode(array["data"]), np.uint8).reshape(array["shape"])
    return low + levels / 255 * (high - low)


def test_ultrasound(copy):
    path = copy("wave.h5") / "wave.h5"
    said, text = content(path)
    field, final = (read_result(path)[f"recorded/{name}"] for name in ("p_max_all", "p_final"))
    assert (
        said.verdict
        == "Worked: peak pressure 0.2 MPa at x = −0.4, y = −0.3, z = −0.2 mm, 20 × 16 × 12 points, 12 steps"
    )
    assert field.max() == pytest.approx(2e5, rel=0.2)
    for values, name in ((field, "array0"), (final, "array1")):
        top = np.abs(values).max()
        difference = shown(said.arrays[name]) / np.abs(shown(said.arrays[name])).max() - values / top
        assert np.abs(difference).max() < 1 / 100
    assert len(said.arrays) == 3  # and the plane over time
    assert said.arrays["array2"]["shape"] == (12, 8, 9)
    assert {"set-up", "steps"} <= said.parts.keys()
    assert text.count("data-array=") == 3 * 3 + 1 - 2 + 3 - 1
    assert "slice across t" in text


def test_large_fields_keep_the_largest_of_each_block(tmp_path, monkeypatch):
    from wavefabric.report import ultrasound

    path = wave(tmp_path / "w.h5", record="p_final")
    values = read_result(path)["recorded/p_final"]
    monkeypatch.setattr(ultrasound, "MOST_POINTS", values.size // 8)
    array = content(path)[0].arrays["array0"]
    assert array["shape"] == (10, 8, 6)
    blocks = values.reshape(10, 2, 8, 2, 6, 2).transpose(0, 2, 4, 1, 3, 5).reshape(10, 8, 6, 8)
    top = np.take_along_axis(blocks, np.abs(blocks).argmax(-1)[..., None], -1)[..., 0]
    assert np.abs(shown(array) / array["ends"][1] - top / np.abs(values).max()).max() < 1 / 200


def test_pages_do_not_say_worked_where_nothing_did(copy):
    path = copy("wave.h5") / "wave.h5"
    unfinished = path.with_name("wave.h5.partial")
    unfinished.write_bytes(path.read_bytes())
    said, _ = content(unfinished)
    assert (said.state, said.verdict.partition(":")[0]) == ("bad", "Not finished")
    with h5py.File(path, "r+") as file:
        for name in ("p", "p_max_all", "p_final", "p_max"):
            file["recorded"][name][...] = 0
    said, _ = content(path)
    assert (said.state, said.verdict.partition(":")[0]) == ("warned", "No pressure anywhere")


def test_a_link_below_the_limit_of_codes(copy):
    path = copy("link.h5") / "link.h5"
    with h5py.File(path, "r+") as file:
        for received in file["received"].values():
            received["q_squared_db"][...] = -20.0
    said, _ = content(path)
    assert (said.state, "Below the limit of soft-decision FEC" in said.verdict) == ("warned", True)


def test_a_file_of_kwave(copy):
    said, text = content(copy("kwave.h5") / "kwave.h5")
    assert "72 × 60 points, 200 steps" in said.verdict
    assert said.parts["steps"] > 0
    assert "p_final" in text


def test_a_field_that_is_not_finite(copy):
    path = copy("wave.h5") / "wave.h5"
    with h5py.File(path, "r+") as file:
        file["recorded/p_final"][3, 4, 5] = np.nan
    said, _ = content(path)
    assert (said.state, said.verdict) == ("bad", "Not sound: 'p_final' has values that are not finite")
    assert len(said.arrays) == 2


@pytest.mark.parametrize("fabric", ["lightpath:2x2", "switch:4"])
def test_a_schedule_on_a_fabric(copy, fabric):
    path = copy("ring.json") / "ring.json"
    schedule, nbytes = load(path), 8 << 20
    expected = cost(schedule, load_fabric(fabric), nbytes / 8)
    said, text = content(path, fabric=fabric, nbytes=nbytes)
    assert said.verdict == "Proved: 4 ranks end with their results after 6 rounds"
    assert said.tiles[0].value == time_words(expected.seconds)
    assert said.tiles[1].value == "12 MiB"  # 2 (K − 1)/K of the array
    assert sum(said.parts.values()) == pytest.approx(expected.seconds)
    assert "Time of each round" in text
    assert "srcdoc=" in text


def test_a_wrong_schedule(tmp_path):
    schedule = build("ring", "all-reduce", 4, 8)
    ring = save(tmp_path / "ring.json", schedule)
    data = json.loads(ring.read_text())
    data["transfers"] = data["transfers"][:-1]
    ring.write_text(json.dumps(data))
    said, _ = content(ring)
    assert said.state == "bad"
    assert said.verdict.startswith("Wrong: ")


def test_a_tuning(copy):
    path = copy("tuning.json") / "tuning.json"
    said, text = content(path)
    table = load_tuning(path).tables[0]
    assert str(table.sizes[0].best.choice) in said.verdict
    assert said.tiles[0].value == time_words(table.sizes[-1].best.us * 1e-6)
    assert sum(said.parts.values()) == len(table.sizes)
    assert text.count("<svg") == 2


def test_training(copy):
    folder = copy("train.json", "compare.json")
    facts = json.loads((folder / "train.json").read_text())
    said, _ = content(folder / "train.json")
    assert said.tiles[0].value == time_words(facts["seconds"])
    assert sum(said.parts.values()) == pytest.approx(sum(facts["critical_seconds"].values()))
    said, text = content(folder / "compare.json")
    assert said.verdict.startswith("Fastest of 2: ")
    assert text.count("<b>fastest</b>") == 1


def test_a_plan(copy):
    said, text = content(copy("plan.json") / "plan.json")
    assert said.verdict.startswith("Chosen of 2 configurations: local 1x1x2, p2p; the fastest of those that ")
    assert said.parts == {"compute": 0.01, "pack": 0.001, "exposed exchange": 0.001}
    assert "64 x 64 x 64 &lt;b&gt;" in text
    assert text.index("local 1x1x2, p2p <b>chosen</b>") < text.index('<span class="label">mpi')


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"chosen": 2}, "chosen: 2 given; allowed: an index of 2 candidates"),
        ({"candidates": []}, "plan.candidates: .*at least"),
        ({"ranks": "two"}, 'plan.ranks: "two" given; allowed: '),
    ],
)
def test_a_bad_plan(tmp_path, change, message):
    (tmp_path / "plan.json").write_text(json.dumps(PLAN | {"plan": PLAN["plan"] | change}))
    with pytest.raises(InputError, match=f"plan.json: {message}"):
        write_report(tmp_path / "plan.json")
