"""``fibre-step`` at tiny sizes, through the command."""

import os

import pytest


@pytest.mark.slow
def test_step(numbers):
    result = numbers(
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
    assert result["benchmark"] == "fibre-step"
    assert result["copy_bytes_per_second"] > 1e8
    assert result["machine"]["device"] == "cpu"
    shapes = [(c["rows"], c["samples"], c["dtype"]) for c in result["cases"]]
    assert shapes == [(r, n, d) for r, n in ((6, 1024),) for d in ("complex128", "complex64")]
    for case in result["cases"]:
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


@pytest.mark.slow
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
    ],
)
def test_bad_options_give_one_line(command, words, part):
    code, out, err = command(*words)
    assert (code, out) == (2, "")
    assert err.startswith("wavefabric: error: ")
    assert err.count("\n") == 1
    assert part in err
    assert os.listdir() == []
