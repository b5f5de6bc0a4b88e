"""The report of stored results: tables, goals, pictures, and what is missing."""

import json
import os
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from wavefabric.bench.suite import record
from wavefabric.bench.suite.found import FoundResults
from wavefabric.bench.suite.goals import goals
from wavefabric.bench.suite.parts import make_parts
from wavefabric.bench.suite.record import PartRecord, write_record
from wavefabric.bench.suite.report import write_report

#: File and result by part, as two CPUs gave them.
STORED = json.loads((Path(__file__).parents[2] / "data" / "bench" / "suite.json").read_text("utf-8"))
PARTS = make_parts(8, ("p2p", "nccl", "mpi"), {"mpi-cuda": "no UCX"}, small=False)
PICTURES = [
    "fibre-over-ranks",
    "ultrasound-scaling",
    "local-vs-global",
    "ultrasound-cuts",
    "exchange",
    "collectives",
]


@pytest.fixture
def results(tmp_path, suite):
    """Results of the parts that are given, for any number of ranks; a function that may change each."""

    def make(names, change=lambda name, result: None, small=False):
        folder = tmp_path / "results" / "parts"
        folder.mkdir(parents=True)
        by_name = {part.name: part for part in PARTS}
        for name in names:
            kind = name.rpartition("-")[0]
            stored = next((key for key in (name, f"{kind}-2") if key in STORED), "all-reduce-ring-2")
            file, result = STORED[stored]
            result = deepcopy(result)
            ranks = by_name[name].ranks
            if "ranks" in result:
                result["ranks"] = ranks
            for case in result.get("cases", ()):
                case |= {"ranks": ranks, "transport": "p2p"} if ranks > 1 and "transport" in case else {}
            change(name, result)
            (folder / name).mkdir()
            (folder / name / file).write_text(json.dumps(result))
            how = ["bench"], f"wavefabric {name}", "done", 0, 12.5, "2026-01-01T00:00:00Z", "0.1.0 ab"
            write_record(folder, PartRecord(name, *how, suite().machine))
        return FoundResults(tmp_path / "results", PARTS, suite().machine, small)

    return make


def text_of(found):
    write_report(found)
    return (found.root / "report.md").read_text("utf-8")


def section(text, title):
    return text.split(f"## {title}\n")[1].split("\n## ")[0]


def test_an_empty_folder_says_what_is_missing(results):
    found = results([])
    text = text_of(found)
    assert "Nothing measured yet" in text
    for title in ("Fibre over ranks", "Ultrasound over ranks", "Exchange", "Collective operations"):
        assert "Missing: no part of it is done." in section(text, title)
    assert section(text, "Goals").count("missing") == 4
    assert f"0 of {len(PARTS)} done" in text
    assert "| fibre-8 | missing |  |" in text
    assert "mpi-cuda: no UCX" in text
    assert not list(found.root.glob("*.png"))


def as_the_paper(name, result):
    """Modes and samples of the paper, and what eight ranks are to reach, or not."""
    if "forms" in result:
        result |= {"modes_per_rank": 15, "samples": 1 << 21}
        for case in result["cases"]:
            case["ratio"] = 1.17 if case["exchange"] == "factored" else 2.6
    for case in result.get("cases", ()):
        if "efficiency" in case:
            case["efficiency"] = 0.94
    for row in [row for case in result.get("cases", ()) if "protocol" in case for row in case["rows"]]:
        row["ratio"] = 0.9 if row["bytes"] > 5000 else 0.5


def test_goals_beside_what_was_measured(results):
    names = ["fibre-2", "fibre-8", "ultrasound-1d-8", "all-reduce-ring-8", "all-reduce-ring-2"]
    rows = goals(results(names, as_the_paper)).blocks[0].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [cell[2:4] for cell in cells] == [
        ["P2P 1.17", "P2P"],
        ["P2P 2.60", "no"],
        ["P2P 94%", "P2P"],
        ["0.50 to 0.90", "3 of 4 times"],
    ]
    assert "6.76" in cells[1][4]
    assert "4.26" in cells[1][4]


def test_everything(results, monkeypatch):
    panels, save = [], Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda own, *a, **k: (panels.extend(own.axes), save(own, *a, **k)))
    names = [part.name for part in PARTS if not part.left_out]
    # Results of the same transport cannot be of two parts.
    names = [name for name in names if "mpi" not in name]
    known = {kind for kind in (name.rpartition("-")[0] for name in STORED)} | {
        "all-reduce-direct",
        "all-gather-ring",
    }
    found = results([name for name in names if name.rpartition("-")[0] in known], as_the_paper)
    text = text_of(found)
    assert "Missing" not in text
    assert "Cannot be shown" not in text
    fibre = section(text, "Fibre over ranks")
    assert "| K = 1 | K = 2 | K = 4 | K = 6 | K = 8 |" in fibre
    assert "6.76" in fibre
    assert "| 8 | P2P |" in section(text, "Exchange")
    for ranks in (2, 4, 6, 8):
        assert f"**all-reduce, {ranks} ranks" in text
        assert f"homogeneous, {ranks} ranks" in text
    assert "120 modes" in text
    assert "rk4ip" in section(text, "One step on one device")
    for name in PICTURES:
        assert f"({name}.png)" in text
        assert (found.root / f"{name}.png").stat().st_size > 8000
    assert len(list(found.root.iterdir())) == len(PICTURES) + 2
    assert all(axes.has_data() for axes in panels[-2:])
    titles = [axes.get_title("left") for axes in panels[-2:]]
    assert titles == ["all-reduce, 8 ranks", "all-gather, 8 ranks"]


def test_what_failed_is_said_and_its_results_are_not_used(results):
    found = results(["fibre-8"])
    bad = replace(
        record.read_record(found.folder, "fibre-8"),
        state="failed",
        why="exit code 1",
        said=["out of | memory"],
    )
    write_record(found.folder, bad)
    text = text_of(FoundResults(found.root, PARTS, found.machine, False))
    assert "Missing" in section(text, "Fibre over ranks")
    assert "| fibre-8 | failed | 12.5 | `wavefabric fibre-8` | exit code 1: out of \\| memory |" in text


@pytest.mark.parametrize("content", ["", "[]", "{", "null"])
def test_a_damaged_result_is_missing(results, content):
    found = results(["fibre-8"])
    (found.folder / "fibre-8" / "fibre-scaling.json").write_text(content)
    assert "Missing" in section(text_of(found), "Fibre over ranks")


def test_results_that_do_not_fit_together_are_said(results):
    def change(name, result):
        result["modes_per_rank"] = int(name[-1])

    assert "Not put together: --from:" in text_of(results(["fibre-2", "fibre-8"], change))


def test_results_of_another_form_cost_their_section_alone(results):
    def change(name, result):
        if name.startswith("cuts"):
            del result["shape"]

    found = results(["cuts-2", "exchange-2"], change)
    text = text_of(found)
    assert "Cannot be shown: KeyError: 'shape'" in section(text, "Ultrasound")
    assert "| 2 | P2P |" in section(text, "Exchange")
    assert [path.name for path in found.root.glob("*.png")] == ["exchange.png"]


def test_what_could_not_be_measured_is_said(results):
    def change(name, result):
        result |= {"cases": [], "unavailable": {"nccl": "its library is missing"}}

    found = results(["exchange-8", "fibre-8"], change)
    text = text_of(found)
    assert "- 8 ranks: NCCL: not measured; its library is missing" in text


def test_pictures_are_drawn_when_their_results_are_newer(results):
    found = results(["cuts-2"])
    write_report(found)
    picture = found.root / "ultrasound-cuts.png"
    os.utime(picture, (2e9, 2e9))
    assert write_report(found) == [found.root / "report.md"]
    os.utime(picture, (1e9, 1e9))
    assert write_report(found) == [found.root / "report.md", picture]


def test_small_sizes_have_no_goals(results):
    text = text_of(results(["cuts-2"], small=True))
    assert "Small sizes" in text
    assert "Goals" not in text
