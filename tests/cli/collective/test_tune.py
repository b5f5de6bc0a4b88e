"""`wavefabric collective tune` on sound input."""

import json
import os
from importlib.util import find_spec

import pytest

from wavefabric.cli.collective.tune import TuneOptions, TuneRankOptions
from wavefabric.cli.collective.tune import command as tune_command
from wavefabric.collectives import ALGORITHMS
from wavefabric.collectives.candidates import Choice
from wavefabric.collectives.tuning import load_tuning
from wavefabric.fabric.execution import tune

WORDS = ("collective", "tune", "--fabric", "dgx-1", "--sizes", "4K", "--size", "1M:4M")


def test_a_table_a_file_and_a_picture(command, tmp_path):
    code, out, err = command(*WORDS, "--collective", "all-reduce", "-o", "mine.json", "--plot", "mine.png")
    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == "all-reduce, 8 ranks, dgx-1"
    assert "4 KiB squares, 4x2 1.73 µs 2.37 4.15 recursive, radix 8 3.6 %" in lines
    assert "4 MiB hierarchical, 2x4, radix 2 129 µs 32.6 57.1 recursive, radix 4 65 %" in lines
    assert lines[-2:] == ["wrote mine.json", "wrote mine.png"]
    assert sorted(os.listdir(tmp_path)) == ["mine.json", "mine.png"]
    assert (tmp_path / "mine.png").read_bytes()[:4] == b"\x89PNG"
    tuning = load_tuning(tmp_path / "mine.json")
    assert (tuning.ranks, tuning.fabric, tuning.model) == (8, "dgx-1", "alpha-beta")
    assert [size.bytes for size in tuning.tables[0].sizes] == [1 << 12, 1 << 20, 1 << 22]
    assert tuning.choose("all-reduce", 100) == Choice("squares", grid=(4, 2))
    assert tuning.choose("all-reduce", 1 << 30).algorithm == "hierarchical"
    assert set(tuning.left_out) == {"nvls", "nvls-tree", "nvls-one-shot"}


@pytest.mark.slow
def test_json_has_what_the_file_has(command, tmp_path):
    code, out, err = command(*WORDS, "--model", "flow", "-o", "mine.json", "--json")
    assert (code, err) == (0, "")
    shown, written = json.loads(out), json.loads((tmp_path / "mine.json").read_text())
    notes = [f"left out: {name} ({why})" for name, why in written["left_out"].items()]
    for table in shown["tables"]:
        factor = {"all-reduce": 7 / 4, "all-gather": 7 / 8}[table["collective"]]
        for size in table["sizes"]:
            algbw = size["bytes"] / (size["predicted_us"] * 1e-6)
            assert size.pop("algbw") == pytest.approx(algbw)
            assert size.pop("busbw") == pytest.approx(algbw * factor)
    assert shown == written | {"notes": notes, "written": ["mine.json"]}
    assert [table["collective"] for table in written["tables"]] == ["all-reduce", "all-gather"]
    assert written["model"] == "flow"
    code, out, err = command(*WORDS, "-o", "mine.json", "--force", "--json")
    assert (code, err) == (0, "")
    assert json.loads((tmp_path / "mine.json").read_text())["model"] == "alpha-beta"


@pytest.mark.slow
def test_switches_that_reduce_are_fastest_for_large_arrays(command):
    """By the model of kernels where the fabric has their times: no 8 KiB within a microsecond."""
    options = ("--fabric", "hgx-h100", "--collective", "all-reduce", "--sizes", "8K,64M", "--json")
    code, out, _ = command("collective", "tune", *options)
    result = json.loads(out)
    small, large = result["tables"][0]["sizes"]
    assert (code, result["model"], result["left_out"]) == (
        0,
        "kernel",
        {"nvls-tree": "grid: none given; allowed: nodes and GPUs of each, such as 4x8 (nvls-tree)"},
    )
    assert large["choice"] == {"algorithm": "nvls", "protocol": "signals"}
    assert small["predicted_us"] > 4
    names = {each["algorithm"] for each in large["candidates"]}
    assert names | {"nvls-tree"} == {n for n, each in ALGORITHMS.items() if "all-reduce" in each.collectives}


def test_predictions_for_some_of_the_gpus(command):
    options = ("--ranks", 6, "--transport", "none", "--collective", "broadcast", "--collective", "all-reduce")
    code, out, err = command(*WORDS, *options)
    assert (code, err) == (0, "")
    assert "broadcast, 6 ranks, dgx-1" in out
    assert "all-reduce, 6 ranks, dgx-1" in out
    assert "left out: squares (ranks: 6 given; allowed: powers of two from 4 (squares))" in out
    assert "wrote" not in out


@pytest.mark.slow
def test_kernels_are_told_apart_by_their_protocol(command):
    words = (
        "collective",
        "tune",
        "--model",
        "kernel",
        "--sizes",
        "4K,16M",
        "--collective",
        "all-gather",
        "--json",
    )
    code, out, err = command(*words, "--fabric", "hgx-h200")
    assert (code, err) == (0, "")
    choices = [size["choice"] for size in json.loads(out)["tables"][0]["sizes"]]
    assert choices == [{"algorithm": "direct", "protocol": each} for each in ("packets", "signals")]
    code, out, err = command(*words, "--fabric", "dgx-1")
    assert (code, out) == (2, "")
    assert err.startswith("wavefabric: error: fabric: dgx-1 says nothing of kernels; allowed: ")


@pytest.mark.skipif(find_spec("mpi4py") is None, reason="needs mpi4py and mpiexec")
def test_ranks_are_started(command, monkeypatch, tmp_path):
    from wavefabric.runtime.exchange.launch import launcher

    jobs = []
    monkeypatch.setattr(launcher, "launch", lambda job: jobs.append(job) or 0)
    words = ("collective", "tune", "--ranks", 3, "--device", "cpu", "-o", "mine.json")
    assert command(*words) == (0, "", "")
    assert [job.ranks for job in jobs] == [3]
    assert jobs[0].arguments == [str(word) for word in words]
    assert os.listdir(tmp_path) == []


@pytest.mark.parallel(2)
def test_ranks_measure_and_one_of_them_writes(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(tune, "_SAMPLE", 1e-4)
    monkeypatch.chdir(tmp_path)
    options = TuneOptions(
        collective=["all-reduce"], sizes=["1K,4K"], dtype="float64", output=tmp_path / "mine.json"
    )
    who = TuneRankOptions(device="cpu", threads=1, repeats=1)
    tune_command(options, who)
    comm = who.invocation.comm
    rank, shown = comm.rank, capsys.readouterr()
    comm.control.barrier()
    assert shown.err == ""
    if rank:
        assert (shown.out, os.listdir(tmp_path)) == ("", [])
        return
    assert "all-reduce, 2 ranks, MPI" in shown.out
    assert "measured: float64" in shown.out
    assert "wrote" in shown.out
    tuning = load_tuning(tmp_path / "mine.json")
    assert (tuning.ranks, tuning.dtype, tuning.fabric) == (2, "float64", None)
    (table,) = tuning.tables
    assert (table.transport, [size.bytes for size in table.sizes]) == ("mpi", [1024, 4096])
    assert all(size.best.measured_us > 0 for size in table.sizes)


@pytest.mark.parallel(2)
def test_ranks_that_measure_nothing(monkeypatch, capsys):
    # Only the first predicts.
    tune_command(TuneOptions(sizes=["1K"], fabric="ring:4"), TuneRankOptions(transports="none"))
    shown = capsys.readouterr().out
    assert shown.count("4 ranks, ring:4") in (0, 2)
    from wavefabric.runtime.exchange.launch import environment

    assert bool(shown) == (environment.rank() == 0)
