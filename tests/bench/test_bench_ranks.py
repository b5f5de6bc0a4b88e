"""The benchmarks of several ranks at tiny sizes, on CPUs."""

import gc
import io
import json

import numpy as np
import pytest

from wavefabric.bench import (
    exchange,
    fibre_scaling,
    fibre_scaling_curve,
    local_error,
    local_vs_global,
    ultrasound_breakdown,
    ultrasound_cuts,
    ultrasound_scaling,
)
from wavefabric.bench.stand_ins import Placed
from wavefabric.collectives import direct_all_gather
from wavefabric.errors import InputError
from wavefabric.execution.ranks import Ranks

TWO = pytest.mark.parallel(2)


@pytest.fixture(scope="module")
def ranks():
    """All ranks. Before a sample they free what the last one held: some kilobytes here, among all modules."""
    found = Ranks(("all",), "cpu", 1)
    found.sample = 0.002
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "collect", lambda: 0)
        yield found


@pytest.fixture
def shown(ranks, tmp_path):
    """The tables of a result, as text; its picture is drawn. On the first rank."""

    def show(module, result):
        if ranks.rank:
            return ""
        json.dumps(result)
        (path,) = module.plot(result, tmp_path / "picture.png")
        assert path.stat().st_size > 5000
        from rich.console import Console

        console = Console(width=140, file=io.StringIO())
        for table in module.table(result):
            console.print(table)
        return console.file.getvalue()

    return show


def times_are_sound(found):
    assert 0 < found["ms_best"] <= found["ms"] <= found["ms_worst"]


@TWO
def test_exchange(ranks, shown):
    found = exchange.run(ranks, sizes=[4, 4096], repeats=2, peaks=True)
    assert [case["pattern"] for case in found["cases"]] == list(exchange.PATTERNS)
    for case in found["cases"]:
        assert case["transport"] == "mpi"
        assert [row["bytes"] for row in case["rows"]] == [4, 4096]
        assert [row["wrong"] for row in case["rows"]] == [0, 0]
        assert case["latency_us"] == case["rows"][0]["us"] > 0
        assert case["rows"][0]["share"] is None
    if not ranks.rank:
        assert "busbw" in shown(exchange, found)


@TWO
def test_transports_that_are_not_there():
    found = exchange.run(Ranks(("p2p", "mpi"), "cpu", 1), ["ping"], [4], 1)
    assert [case["transport"] for case in found["cases"]] == ["mpi"]
    assert "GPU" in found["unavailable"]["p2p"]
    assert "GPU" in exchange.table(found)[-1]
    with pytest.raises(InputError, match="multiples of 4"):
        exchange.run(Ranks(("mpi",), "cpu", 1), ["ping"], [6])


@TWO
def test_ranks_that_sit_elsewhere(ranks):
    order = list(range(ranks.size))[::-1]
    comm = Placed(ranks.base, order)
    assert comm.rank == ranks.size - 1 - ranks.rank
    assert comm.control.all_gather(comm.rank) == list(range(ranks.size))
    assert comm.control.bcast(comm.rank, 1) == 1
    data = comm.allocate((comm.size,), np.float64)
    data[...] = comm.rank
    comm.run(direct_all_gather([1] * comm.size), {"data": data})
    assert data.tolist() == list(range(comm.size))
    assert comm.control.sum(comm.rank) == sum(range(comm.size))


@TWO
def test_fibre_scaling(ranks, shown, tmp_path):
    found = fibre_scaling.run(ranks, modes_per_rank=2, log2_n=8, steps=2, repeats=2)
    assert [form["exchange"] for form in found["forms"]] == ["dense", "factored"]
    for form in found["forms"]:
        for key in ("one_rank", "split", "no_exchange"):
            times_are_sound(form[key])
    dense, factored = found["cases"]
    for case in (dense, factored):
        times_are_sound(case)
        times_are_sound(case["only_communication"])
        assert case["finite"]
        assert case["ratio"] > 0
    assert dense["paper"] == 1.38
    # Four rows a rank, eight bytes a sample, four rounds; ranks cut groups, of which each has its part.
    assert dense["bytes_received_a_step"] == 4 * 4 * 256 * 8
    assert factored["bytes_received_a_step"] < dense["bytes_received_a_step"]
    if not ranks.rank:
        assert "unsplit" in shown(fibre_scaling, found)
        files = [tmp_path / "2.json", tmp_path / "4.json"]
        for path, count in zip(files, (2, 4), strict=True):
            path.write_text(json.dumps(found | {"ranks": count}))
        curve = fibre_scaling_curve.combine(files)
        assert [p["ranks"] for p in curve["curves"][0]["points"]] == [1, 2, 4]
        assert curve["curves"][0]["points"][1]["ratio"] == dense["ratio"]
        assert "K = 4" in shown(fibre_scaling_curve, curve)


def scaling(path, ranks, modes=15, log2_n=21, transports=("mpi",)):
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
    files = [scaling(tmp_path / f"{k}.json", k, transports=("mpi", "nccl")[: 1 + (k < 8)]) for k in (8, 2, 4)]
    found = fibre_scaling_curve.combine(files)
    assert [run["ranks"] for run in found["runs"]] == [2, 4, 8]
    mpi, nccl = found["curves"]
    assert [p["ranks"] for p in mpi["points"]] == [1, 2, 4, 8]
    np.testing.assert_allclose([p["ratio"] for p in mpi["points"]], [1.4, 1.4, 2.6, 7.4])
    assert [p["only_communication"] for p in nccl["points"]] == [None, 1.2, 1.4]
    assert {(p["transport"], p["ranks"]): p["ratio"] for p in found["paper"]} == fibre_scaling.PAPER
    # Another size: the paper has no numbers for it.
    small = fibre_scaling_curve.combine([scaling(tmp_path / "s.json", 2, log2_n=12)])
    assert small["paper"] == []
    assert fibre_scaling_curve.combine([scaling(tmp_path / "s.json", 2, modes=14)])["paper"] == []


def test_scaling_from_files_on_the_terminal(tmp_path, command):
    scaling(tmp_path / "two.json", 2)
    scaling(tmp_path / "four.json", 4)
    code, out, err = command("fibre-scaling", "--from", "two.json", "--from", "four.json", "-o", "all")
    assert (code, err) == (0, "")
    assert "1.40 (1.20)" in out
    assert "6.76" in out
    picture = tmp_path / "all" / "fibre-scaling-curve.png"
    assert picture.stat().st_size > 5000
    kept = json.loads((tmp_path / "all" / "fibre-scaling-curve.json").read_text())
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
        (["two.json", "--ranks", "2"], "--ranks: 2 given together with --from"),
    ],
)
def test_scaling_files_that_do_not_fit(tmp_path, command, words, message):
    for name in ("two", "again"):
        scaling(tmp_path / f"{name}.json", 2)
    scaling(tmp_path / "small.json", 4, log2_n=12)
    scaling(tmp_path / "few.json", 4, modes=7)
    (tmp_path / "text.json").write_text("no JSON")
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "other.json").write_text('{"benchmark": "fibre-step"}')
    options = [word for name in words for word in (("--from", name) if name.endswith("json") else (name,))]
    code, out, err = command("fibre-scaling", *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not list(tmp_path.glob("*.png"))


@TWO
def test_breakdown(ranks, shown):
    found = ultrasound_breakdown.run(
        ranks, (16, 16, 16), (2, 16), media=("homogeneous", "heterogeneous"), repeats=1
    )
    assert [(c["medium"], c["overlap"]) for c in found["cases"]] == [
        (medium, 2) for medium in ("homogeneous", "heterogeneous")
    ]
    assert len(found["left_out"]) == 2
    for case in found["cases"]:
        times_are_sound(case)
        assert case["speed_up"] == 1
        assert case["finite"]
        parts = sum(case[part] for part in ("compute", "pack", "exchange"))
        assert case["ms"] == pytest.approx(parts + case["idle"] - case["hidden"])
        assert min(case["idle"], case["hidden"]) == 0
        # Two faces of each field that is transformed: p and three velocities; two more with absorption.
        fields = 4 if case["medium"] == "homogeneous" else 6
        assert case["bytes_sent_a_step"] == fields * 2 * case["overlap"] * 16 * 16 * 4
    if not ranks.rank:
        assert "left out" in shown(ultrasound_breakdown, found)


@TWO
def test_local_error(ranks, shown):
    bells = ("none", "nested-sine")
    found = local_error.run(ranks, (16, 16, 16), (2, 8), bells, ["heterogeneous"], steps=8)
    errors = {(c["bell"], c["overlap"]): (c["l2"], c["max"]) for c in found["cases"]}
    assert len(errors) == 4
    assert found["grid"] == [1, 1, 2]
    assert errors["nested-sine", 8][0] < 5e-3
    assert errors["nested-sine", 8][1] < errors["nested-sine", 2][1] / 10
    assert errors["nested-sine", 8][0] < errors["none", 8][0]
    if not ranks.rank:
        assert "nested-sine" in shown(local_error, found)


@TWO
def test_local_against_global(ranks, shown):
    found = local_vs_global.run(ranks, [(16, 16, 16)], overlap=4, repeats=1)
    (case,) = found["cases"]
    times_are_sound(case["global"])
    times_are_sound(case["local"])
    assert case["ratio"] == case["global"]["ms"] / case["local"]["ms"]
    assert case["global"]["finite"]
    if not ranks.rank:
        assert "16x16x16" in shown(local_vs_global, found)


@TWO
def test_scaling(ranks, shown, tmp_path):
    options = {"block": 8, "total": 16, "overlap": 2, "repeats": 1, "forms": ["local"]}
    found = ultrasound_scaling.run(ranks, **options)
    weak, strong = found["cases"]
    assert weak["shape"] == [8, 8, 16]
    assert strong["shape"] == [16, 16, 16]
    assert weak["points_per_second"] == pytest.approx(8**3 / (weak["ms"] * 1e-3))
    assert weak["efficiency"] == pytest.approx(weak["one_rank_ms"] / weak["ms"])
    assert strong["efficiency"] == pytest.approx(strong["one_rank_ms"] / strong["ms"] / ranks.size)
    (tmp_path / "earlier.json").write_text(json.dumps(found))
    again = ultrasound_scaling.run(ranks, **options, kinds=["weak"], earlier=[tmp_path / "earlier.json"])
    assert len(again["earlier"]) == 2
    if not ranks.rank:
        assert "efficiency" in shown(ultrasound_scaling, again)


@TWO
def test_cuts(ranks, shown):
    found = ultrasound_cuts.run(ranks, (16, 16, 16), ["reversed"], overlap=4, repeats=1)
    grids = {tuple(case["grid"]) for case in found["cases"]}
    assert len(grids) == 3
    assert len(found["cases"]) == len(grids)
    for case in found["cases"]:
        times_are_sound(case)
        assert case["finite"]
    if not ranks.rank:
        assert "reversed" in shown(ultrasound_cuts, found)


@TWO
def test_placements_by_name(ranks):
    places = ultrasound_cuts.places_of
    assert places(["identity", "reversed", "round-robin"], 2) == {"identity": [0, 1], "reversed": [1, 0]}
    assert places(["round-robin", "0-2-1-3"], 4) == {"round-robin": [0, 2, 1, 3]}
    assert len(places(["all"], 4)) == 12
    for name in ("0-1-1-3", "sideways", "0-1"):
        with pytest.raises(InputError, match="permutation"):
            places([name], 4)
    with pytest.raises(InputError, match="5 ranks"):
        places(["all"], 6)
