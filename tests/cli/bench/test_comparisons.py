"""The benchmarks that `python benchmarks` adds, over ranks at tiny sizes, on CPUs."""

import json
import subprocess

import numpy as np
import pytest

from benchmarks import (
    fibre_scaling,
    local_vs_global,
    ultrasound_breakdown,
    ultrasound_cuts,
    ultrasound_scaling,
)
from benchmarks.__main__ import PROGRAM
from benchmarks.permuted_communicator import PermutedCommunicator
from papers.fibre import scaling
from wavefabric.base.errors import InputError
from wavefabric.collectives import direct_all_gather

TWO = pytest.mark.parallel(2)


def times_are_sound(result):
    assert 0 < result["ms_best"] <= result["ms"] <= result["ms_worst"]


@TWO
def test_ranks_that_sit_elsewhere(ranks):
    order = list(range(ranks.size))[::-1]
    comm = PermutedCommunicator(ranks.base, order)
    assert comm.rank == ranks.size - 1 - ranks.rank
    assert comm.control.all_gather(comm.rank) == list(range(ranks.size))
    assert comm.control.bcast(comm.rank, 1) == 1
    data = comm.allocate((comm.size,), np.float64)
    data[...] = comm.rank
    comm.run(direct_all_gather([1] * comm.size), {"data": data})
    assert data.tolist() == list(range(comm.size))
    assert comm.all_gather(np.array(comm.rank)).tolist() == list(range(comm.size))


@pytest.mark.slow
@TWO
def test_breakdown(ranks, shown):
    result = ultrasound_breakdown.run(
        ranks, (16, 16, 16), (2, 16), media=("homogeneous", "heterogeneous"), repeats=1
    )
    assert [(c["medium"], c["overlap"]) for c in result["cases"]] == [
        (medium, 2) for medium in ("homogeneous", "heterogeneous")
    ]
    assert len(result["left_out"]) == 2
    for case in result["cases"]:
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
        assert "left out" in shown(ultrasound_breakdown, result)


@TWO
def test_local_against_global(ranks, shown):
    result = local_vs_global.run(ranks, [(16, 16, 16)], overlap=4, repeats=1)
    (case,) = result["cases"]
    times_are_sound(case["global"])
    times_are_sound(case["local"])
    assert case["ratio"] == case["global"]["ms"] / case["local"]["ms"]
    assert case["global"]["finite"]
    if not ranks.rank:
        assert "16x16x16" in shown(local_vs_global, result)


@TWO
def test_cuts(ranks, shown):
    result = ultrasound_cuts.run(ranks, (16, 16, 16), ["reversed"], overlap=4, repeats=1)
    grids = {tuple(case["grid"]) for case in result["cases"]}
    assert len(grids) == 3
    assert len(result["cases"]) == len(grids)
    for case in result["cases"]:
        times_are_sound(case)
        assert case["finite"]
    if not ranks.rank:
        assert "reversed" in shown(ultrasound_cuts, result)


@TWO
def test_placements_by_name(ranks):
    positions = ultrasound_cuts.orders_of
    assert positions(["identity", "reversed", "round-robin"], 2) == {"identity": [0, 1], "reversed": [1, 0]}
    assert positions(["round-robin", "0-2-1-3"], 4) == {"round-robin": [0, 2, 1, 3]}
    assert len(positions(["all"], 4)) == 12
    for name in ("0-1-1-3", "sideways", "0-1"):
        with pytest.raises(InputError, match="permutation"):
            positions([name], 4)
    with pytest.raises(InputError, match="5 ranks"):
        positions(["all"], 6)


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_command_starts_ranks_of_itself(tmp_path):
    words = ["local-vs-global", "--ranks", "2", "--size", "16", "--overlap", "4", "--repeats", "1", "--json"]
    words = ["bench", *words, "--device", "cpu"]
    run = subprocess.run([*PROGRAM, *words], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stderr) == (0, "")
    (case,) = json.loads(run.stdout)["cases"]
    assert case["ratio"] > 0
