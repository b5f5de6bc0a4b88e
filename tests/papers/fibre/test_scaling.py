"""Results of ``bench fibre-scaling`` on several numbers of ranks become one curve."""

import json

import numpy as np
import pytest

from papers.fibre import scaling


def result_of(path, ranks, modes=15, log2_n=21, transports=("mpi",)):
    """JSON of a run of ``fibre-scaling`` with made-up times: 10 ms on one rank, K² ms more on K."""
    time = {"ms_best": 1.0, "ms_worst": 99.0}
    result = {
        "benchmark": "fibre-scaling",
        "ranks": ranks,
        "modes_per_rank": modes,
        "samples": 1 << log2_n,
        "forms": [
            {
                "exchange": "dense",
                "one_rank": time | {"ms": 10.0},
                "split": time | {"ms": 10.0 + ranks, "ratio": 1 + ranks / 10},
                "no_exchange": time | {"ms": 12.0, "ratio": 1.2},
            }
        ],
        "cases": [
            {
                "transport": name,
                "exchange": "dense",
                "ms": 10.0 + ranks**2,
                "ratio": 1 + ranks**2 / 10,
                "only_communication": {"ms": 10.0 + ranks, "ratio": 1 + ranks / 10},
                "exposed_ms": ranks**2 - 2.0,
            }
            for name in transports
        ],
        "machine": {"device": "cpu", "threads": ranks},
    }
    path.write_text(json.dumps(result))
    return path


def test_scaling_of_several_runs_is_one_curve(tmp_path):
    files = [
        result_of(tmp_path / f"{k}.json", k, transports=("mpi", "nccl")[: 1 + (k < 8)]) for k in (8, 2, 4)
    ]
    result = scaling.combine(files)
    assert [run["ranks"] for run in result["runs"]] == [2, 4, 8]
    mpi, nccl = result["curves"]
    assert [p["ranks"] for p in mpi["points"]] == [1, 2, 4, 8]
    np.testing.assert_allclose([p["ratio"] for p in mpi["points"]], [1.4, 1.4, 2.6, 7.4])
    assert [p["only_communication"] for p in nccl["points"]] == [None, 1.2, 1.4]
    assert {(p["transport"], p["ranks"]): p["ratio"] for p in result["paper"]} == scaling.PAPER
    # Another size: the paper has no numbers for it.
    small = scaling.combine([result_of(tmp_path / "s.json", 2, log2_n=12)])
    assert small["paper"] == []
    assert scaling.combine([result_of(tmp_path / "s.json", 2, modes=14)])["paper"] == []


def test_a_number_of_ranks_may_have_a_file_a_transport(tmp_path):
    files = [result_of(tmp_path / f"{name}.json", 2, transports=[name]) for name in ("p2p", "mpi")]
    result = scaling.combine([*files, result_of(tmp_path / "8.json", 8)])
    points = {curve["transport"]: [p["ranks"] for p in curve["points"]] for curve in result["curves"]}
    assert points == {"p2p": [1, 2], "mpi": [1, 2, 8]}
    scaling.plot(result, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5000


def test_scaling_from_files_on_the_terminal(tmp_path, script):
    result_of(tmp_path / "two.json", 2)
    result_of(tmp_path / "four.json", 4)
    code, out, err = script(scaling, "--from", "two.json", "--from", "four.json", "-o", "all")
    assert (code, err) == (0, "")
    assert "1.40 (1.20)" in out
    assert "6.76" in out
    picture = tmp_path / "all" / "scaling.png"
    assert picture.stat().st_size > 5000
    kept = json.loads((tmp_path / "all" / "scaling.json").read_text())
    assert [run["file"] for run in kept["runs"]] == ["two.json", "four.json"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none.json"], "none.json cannot be read"),
        (["text.json"], "text.json given; allowed: JSON of fibre-scaling"),
        (["list.json"], "list.json given; allowed: JSON of fibre-scaling"),
        (["other.json"], "other.json given; allowed: JSON of fibre-scaling"),
        (["two.json", "again.json"], "two.json and again.json are both of 2 ranks"),
        (["two.json", "small.json"], "small.json has samples 4096, two.json has 2097152"),
        (["two.json", "few.json"], "few.json has modes_per_rank 7, two.json has 15"),
    ],
)
def test_scaling_files_that_do_not_fit(tmp_path, script, words, message):
    for name in ("two", "again"):
        result_of(tmp_path / f"{name}.json", 2)
    result_of(tmp_path / "small.json", 4, log2_n=12)
    result_of(tmp_path / "few.json", 4, modes=7)
    (tmp_path / "text.json").write_text("no JSON")
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "other.json").write_text('{"benchmark": "fibre-step"}')
    options = [word for name in words for word in (("--from", name) if name.endswith("json") else (name,))]
    code, out, err = script(scaling, *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not list(tmp_path.glob("*.png"))
