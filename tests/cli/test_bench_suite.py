"""`wavefabric bench suite`: its options, and a whole run at small sizes."""

import json
import os
import subprocess
import sys

import pytest

from wavefabric.bench.suite import run


@pytest.fixture
def machine(monkeypatch):
    """What the suite takes this machine for; may be changed."""
    offers = {"mpi": {"available": True, "detail": "an MPI"}, "p2p": {"available": False, "detail": "no GPU"}}
    offers |= {name: offers["p2p"] for name in ("nccl", "mpi-cuda")}
    found = {
        **dict.fromkeys(("wavefabric", "git_commit", "python", "system", "driver", "cuda"), "x"),
        **{"cpu": {"model": "a processor"}, "gpus": [], "transports": offers, "links": None, "versions": {}},
    }
    monkeypatch.setattr(run, "describe_machine", lambda: found)
    return found


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "suite: no GPU here, which its sizes need; allowed: with --small"),
        (["--small", "--ranks", "9"], "--ranks: 9 given; allowed: 1 to 8"),
        (["--small", "--ranks", "0"], "--ranks: 0 given; allowed: 1 to 8"),
        (["--small", "--only", "fiber-*"], "--only: fiber-* given, which is no part"),
        (["--small", "--skip", "fiber-*"], "--skip: fiber-* given, which is no part"),
        (["--small", "--time-limit", "0 s"], "--time-limit: 0 s given; allowed: a time above 0"),
        (["--small", "--budget", "9 kg"], "--budget"),
        (["--small", "--budget", "-1 s"], "--budget"),
        (["--list", "--report-only"], "--report-only: given with --list"),
        (["--report-only"], "holds no results of a suite"),
        (["--report-only", "--small"], "--small: given with --report-only"),
        (["--small", "-o", "full"], "--output: full holds no results of a suite"),
        (["--small", "-o", "damaged"], "suite.json cannot be read"),
        (["--small", "-o", "full/file"], "--output"),
    ],
)
def test_one_clear_line(command, machine, tmp_path, words, message):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("precious")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "suite.json").write_text('{"ranks": 2, "small": true, "machine": {}}')
    before = sorted(tmp_path.rglob("*"))
    code, out, err = command("bench", "suite", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert sorted(tmp_path.rglob("*")) == before


def test_no_mpi(command, machine):
    machine["transports"]["mpi"] = {"available": False, "detail": "not installed"}
    code, _, err = command("bench", "suite", "--small")
    assert (code, err.count("\n")) == (2, 1)
    assert "no ranks here (not installed); allowed: with MPI, or --ranks 1" in err
    code, out, _ = command("bench", "suite", "--small", "--ranks", "1", "--list")
    assert code == 0
    assert "fibre-step-1" in out


def test_list_on_eight_gpus(command, machine, tmp_path):
    machine["gpus"] = [{"model": "a GPU"}] * 8
    machine["transports"] = {
        name: {"available": True, "detail": "x"} for name in ("mpi", "mpi-cuda", "nccl", "p2p")
    }
    code, out, _ = command("bench", "suite", "--list", "--json", "--only", "*-8")
    rows = json.loads(out)["parts"]
    assert code == 0
    assert rows[0]["name"] == "fibre-8"
    assert rows[0]["command"].startswith(
        "wavefabric bench fibre-scaling --ranks 8 --modes-per-rank 15 --log2n 21"
    )
    assert all(row["name"].endswith("-8") and row["left_out"] is None for row in rows)
    assert not list(tmp_path.iterdir())


def test_one_part_and_its_report(command, tmp_path):
    words = ["bench", "suite", "--small", "--ranks", "1", "--only", "ultrasound-1", "-o", "out"]
    code, out, err = command(*words)
    assert (code, err) == (0, "")
    assert out.startswith("ultrasound-1 ")
    assert "1 done\nwrote out/report.md" in out
    assert "| 1 | 24x24x24 | local |" in (tmp_path / "out" / "report.md").read_text()
    code, out, _ = command(*words, "--json")
    assert json.loads(out)["parts"][0]["outcome"] == "done before"
    (tmp_path / "out" / "report.md").unlink()
    code, out, _ = command("bench", "suite", "-o", "out", "--report-only")
    assert (code, out) == (0, "wrote out/report.md\n")


def test_a_failed_part_is_said_in_the_exit_code(command, tmp_path):
    code, out, _ = command(
        *(
            "bench",
            "suite",
            "--small",
            "--ranks",
            "1",
            "--only",
            "*step*",
            "--time-limit",
            "0.3 s",
            "-o",
            "out",
        )
    )
    assert code == 1
    assert "2 failed\nfailed: fibre-step-1, ultrasound-step-1" in out
    assert "ran past its limit" in (tmp_path / "out" / "report.md").read_text()


@pytest.mark.slow
def test_the_whole_at_small_sizes_on_two_ranks(tmp_path):
    words = [
        sys.executable,
        "-m",
        "wavefabric",
        "bench",
        "suite",
        "--small",
        "--ranks",
        "2",
        "-o",
        "out",
        "--json",
    ]
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"COLUMNS": "80"}
    )
    found = json.loads(done.stdout)["parts"]
    assert {part["outcome"] for part in found} == {"done", "left out"}, found
    assert done.returncode == 0
    report = (tmp_path / "out" / "report.md").read_text()
    assert "Missing" not in report
    assert report.count("![") == len(list((tmp_path / "out").glob("*.png"))) == 6
