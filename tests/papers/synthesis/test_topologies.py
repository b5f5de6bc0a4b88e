"""Published topologies: their optima, rows, and reasons."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from papers.synthesis import topologies as module
from papers.synthesis.topology_reasons import CLOSE, reason
from papers.synthesis.topology_rows import GIB, ROWS, Row
from wavefabric.collectives.conditions import whole_elements
from wavefabric.collectives.registry import build
from wavefabric.fabric import load
from wavefabric.fabric.bounds.bound import bounds

KEPT = json.loads(Path(module.__file__).with_suffix(".json").read_text(encoding="utf-8"))["rows"]

#: GB/s (GiB/s of TACOS's topologies) of an all-gather without latency, by ForestColl's own code
#: (github.com/liangyuRain/ForestColl, commit 3c13aee: `OptimalBranchingsAlgo`) on the links of each file.
FORESTCOLL = {
    "a100x1": 2400 / 7,
    "a100x2": 1040 / 3,
    "a100x4": 800 / 3,
    "a100x8": 1600 / 7,
    "mi250x1": 2400 / 7,
    "mi250x2": 5312 / 15,
    "dgx1-nvlinks": 1200 / 7,
    "ndv2x2": 25,
    "ndv2x2-15": 375 / 16,
    "ndv2x4": 50 / 3,
    "dgx2x2": 4000 / 31,
    "teccl-mesh-4": 640 / 3,
    "teccl-mesh-6": 1440 / 7,
    "tacos/mesh-5x5": 625 / 6,
    "tacos/hetero-5x5": 3125 / 24,
    "tacos/hetero-8x5": 4600 / 39,
    "tacos/torus-3x3x3": 4050 / 13,
    "tacos/torus-4x2x3": 6000 / 23,
    "tacos/torus-3x4x5": 18000 / 59,
    "tacos/mesh-3x3x3": 2025 / 13,
    "tacos/mesh-4x2x3": 3600 / 23,
    "tacos/mesh-3x4x5": 9000 / 59,
}


@pytest.mark.parametrize("name", FORESTCOLL)
def test_bounds_are_the_optima_of_forestcoll(name):
    fabric = load(module.FABRICS / f"{name}.toml")
    schedule = build("direct", "all-gather", fabric.ranks, fabric.ranks)
    least, _ = bounds(schedule, fabric, GIB / whole_elements(schedule))
    unit = GIB if name.startswith("tacos/") else 1e9
    assert GIB / least.transfer / unit == pytest.approx(FORESTCOLL[name], rel=1e-9)


def test_files_say_where_they_are_from():
    for name in {row.fabric for row in ROWS}:
        fabric = load(module.FABRICS / f"{name}.toml")
        assert "arXiv:" in fabric.source + fabric.description or "doi:" in fabric.source, name


def test_rows_are_different_and_published_ones_have_a_source():
    assert len({row.key for row in ROWS}) == len(ROWS)
    for row in ROWS:
        assert bool(row.by) == bool(row.source) == (row.published > 0)


def test_the_kept_results_are_of_these_rows():
    by_key = {row.key: row for row in ROWS}
    for one in KEPT:
        row = by_key[one["fabric"], one["collective"], one["nbytes"], one["by"]]
        assert (row.published, row.source) == (one["published"], one["source"])
        assert one["reason"] == reason(one)
        if not one["refusal"]:
            assert one["seconds"] >= one["bound"] * (1 - 1e-9)
            close = 1 + one["gap"] <= CLOSE and (one["ratio"] or 0) <= CLOSE
            assert close == (one["reason"] == ""), one
    assert {row.fabric for row in ROWS} == {one["fabric"] for one in KEPT}


def test_renumbered_gpus_have_the_bound_and_nearly_the_time():
    renumbered = [one for one in KEPT if one["renumbered"]]
    assert len({one["fabric"] for one in renumbered}) >= 6
    for one in renumbered:
        for bound, seconds in one["renumbered"]:
            assert bound == pytest.approx(one["bound"], rel=1e-9), one["fabric"]
            if one["nbytes"] > 1e8:
                assert seconds == pytest.approx(one["seconds"], rel=0.03), one["fabric"]


def test_only_chosen_rows_are_computed(monkeypatch):
    """Others are as in the kept results."""
    first, other = (row for row in ROWS if row.fabric == "a100x1" and row.collective != "all-reduce")
    monkeypatch.setattr(module, "ROWS", (first, other))
    said = []
    chosen, kept = module.figure(said.append, "a100x1 all-gather", permutations=1)["rows"]
    assert said == [
        "a100x1 all-gather 1 GiB ForestColl",
        "a100x1 all-gather 1 GiB ForestColl, renumbered 1 of 1",
    ]
    assert chosen["ratio"] == pytest.approx(1, rel=1e-3)
    assert chosen["renumbered"] == [[chosen["bound"], chosen["seconds"]]]
    assert kept == next(one for one in KEPT if (one["fabric"], one["collective"]) == other.key[:2])


def test_what_has_no_schedule_keeps_its_row(monkeypatch, script, tmp_path):
    rows = [row for row in ROWS if row.fabric == "a100x1"][:1]
    none = next(row for row in ROWS if row.fabric == "ndv2x2-15" and row.collective == "all-to-all")
    whole = module.fastest_schedule

    def search(collective, fabric, *args, **options):
        return whole(collective, fabric, *args, **options | ({"until": 0.0} if fabric.ranks == 15 else {}))

    monkeypatch.setattr(module, "ROWS", (*rows, none))
    monkeypatch.setattr(module, "fastest_schedule", search)
    code, _, err = script(module, "-o", tmp_path)
    assert (code, err) == (0, "")
    _, refused = json.loads((tmp_path / "topologies.json").read_text())["rows"]
    assert (refused["seconds"], refused["ratio"]) == (None, None)
    assert "allowed: fewer GPUs, or more time" in refused["refusal"]
    assert refused["reason"] == f"no schedule: {refused['refusal']}"
    assert (tmp_path / "topologies.png").exists()


def test_words_of_no_row_are_refused(script):
    code, _, err = script(module, "--rows", "b100")
    assert code == 2
    assert err.startswith("wavefabric: error: --rows: b100 given; allowed: words of names, such as a100x1")


def test_reasons():
    row = vars(Row("x", "all-gather", GIB, "ForestColl", 1.0, "s")) | {
        "refusal": "",
        "gap": 0.05,
        "ratio": 1.05,
    }
    row |= {"seconds": 1.05, "flow": 1.0, "method": "trees: 1 of each root, 3 deep, 9 pieces", "rounds": 11}
    words = reason(row)
    assert words.startswith("published without latency; rounds wait for their slowest transfer: 1e+06 µs")
    assert words.endswith("trees 3 deep fill and drain, in 11 rounds with latency each")
    assert reason(row | {"gap": 0.0, "ratio": 1.0}) == ""
    words = reason(row | {"by": "TE-CCL", "flow": 1.05, "rounds": 4, "method": "relays, 3 deep, 2 pieces"})
    assert words == "routes of 3 hops fill and drain, in 4 rounds with latency each"


def test_sizes():
    sizes = [
        module.size_words(row.nbytes) for row in (replace(ROWS[0], nbytes=n) for n in (GIB, 16e3, 937.5e6))
    ]
    assert sizes == ["1 GiB", "16 KB", "937.5 MB"]
