"""The benchmarks of several ranks at tiny sizes, on CPUs."""

import json

import pytest

from papers.fibre import scaling
from wavefabric.bench import (
    exchange,
    fibre_scaling,
    ultrasound_scaling,
)
from wavefabric.errors import InputError
from wavefabric.execution.timing import Ranks

TWO = pytest.mark.parallel(2)


def times_are_sound(result):
    assert 0 < result["ms_best"] <= result["ms"] <= result["ms_worst"]


@TWO
def test_exchange(ranks, shown):
    result = exchange.run(ranks, sizes=[4, 4096], repeats=2, peaks=True)
    assert [case["pattern"] for case in result["cases"]] == list(exchange.PATTERNS)
    for case in result["cases"]:
        assert case["transport"] == "mpi"
        assert [row["bytes"] for row in case["rows"]] == [4, 4096]
        assert [row["wrong"] for row in case["rows"]] == [0, 0]
        assert case["latency_us"] == case["rows"][0]["us"] > 0
        assert case["rows"][0]["share"] is None
    if not ranks.rank:
        assert "busbw" in shown(exchange, result)


@TWO
def test_transports_that_are_not_there():
    result = exchange.run(Ranks(("p2p", "mpi"), "cpu", 1), ["ping"], [4], 1)
    assert [case["transport"] for case in result["cases"]] == ["mpi"]
    assert "GPU" in result["unavailable"]["p2p"]
    assert "GPU" in exchange.table(result)[-1]
    with pytest.raises(InputError, match="multiples of 4"):
        exchange.run(Ranks(("mpi",), "cpu", 1), ["ping"], [6])


@TWO
def test_fibre_scaling(ranks, shown, tmp_path):
    result = fibre_scaling.run(ranks, modes_per_rank=2, log2_n=8, steps=2, repeats=2)
    assert [form["exchange"] for form in result["forms"]] == ["dense", "factored"]
    for form in result["forms"]:
        for key in ("one_rank", "split", "no_exchange"):
            times_are_sound(form[key])
    dense, factored = result["cases"]
    for case in (dense, factored):
        times_are_sound(case)
        times_are_sound(case["only_communication"])
        assert case["finite"]
        assert case["ratio"] > 0
    # Four rows a rank, eight bytes a sample, four rounds; ranks cut groups, of which each has its part.
    assert dense["bytes_received_a_step"] == 4 * 4 * 256 * 8
    assert factored["bytes_received_a_step"] < dense["bytes_received_a_step"]
    if not ranks.rank:
        assert "unsplit" in shown(fibre_scaling, result)
        files = [tmp_path / "2.json", tmp_path / "4.json"]
        for path, count in zip(files, (2, 4), strict=True):
            path.write_text(json.dumps(result | {"ranks": count}))
        curve = scaling.combine(files)
        assert [p["ranks"] for p in curve["curves"][0]["points"]] == [1, 2, 4]
        assert curve["curves"][0]["points"][1]["ratio"] == dense["ratio"]
        assert "K = 4" in shown(scaling, curve)


@TWO
def test_scaling(ranks, shown, tmp_path):
    options = {"block": 8, "total": 16, "overlap": 2, "repeats": 1, "forms": ["local"]}
    result = ultrasound_scaling.run(ranks, **options)
    weak, strong = result["cases"]
    assert weak["shape"] == [8, 8, 16]
    assert strong["shape"] == [16, 16, 16]
    assert weak["points_per_second"] == pytest.approx(8**3 / (weak["ms"] * 1e-3))
    assert weak["efficiency"] == pytest.approx(weak["one_rank_ms"] / weak["ms"])
    assert strong["efficiency"] == pytest.approx(strong["one_rank_ms"] / strong["ms"] / ranks.size)
    (tmp_path / "earlier.json").write_text(json.dumps(result))
    options |= {"kinds": ["weak"], "grid": (2, 1, 1)}
    again = ultrasound_scaling.run(ranks, **options, earlier=[tmp_path / "earlier.json"])
    assert len(again["earlier"]) == 2
    assert [(case["blocks"], case["shape"]) for case in again["cases"]] == [([2, 1, 1], [16, 8, 8])]
    with pytest.raises(InputError, match=r"grid: 2x2x1 given; allowed: 2 blocks"):
        ultrasound_scaling.run(ranks, grid=(2, 2, 1))
    if not ranks.rank:
        assert "efficiency" in shown(ultrasound_scaling, again)
